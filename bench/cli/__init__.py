"""Command line `mango-bench`: one module for each command."""

from bench.cli import compare, corrupt, corruptions_speed, draw, field, gates, latency, report, robustness
from bench.cli.app import app
from edge.console import run

__all__ = [
    "app",
    "compare",
    "corrupt",
    "corruptions_speed",
    "draw",
    "field",
    "gates",
    "latency",
    "main",
    "report",
    "robustness",
]


def main() -> None:
    """Entry point of `mango-bench`."""
    run(app)
