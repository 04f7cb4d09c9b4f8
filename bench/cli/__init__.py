"""Command line `mango-bench`: one module for each command."""

from bench.cli import compare, draw, latency, report
from bench.cli.app import app
from edge.console import run

__all__ = ["app", "compare", "draw", "latency", "main", "report"]


def main() -> None:
    """Entry point of `mango-bench`."""
    run(app)
