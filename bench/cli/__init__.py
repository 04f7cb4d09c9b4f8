"""Command line `mango-bench`: one module for each command."""

from bench.cli import (
    audit,
    compare,
    corrupt,
    corruptions_speed,
    draw,
    embed,
    field,
    gates,
    latency,
    report,
    robustness,
    split,
    transfer,
    video,
)
from bench.cli.app import app
from edge.console import run

__all__ = [
    "app",
    "audit",
    "compare",
    "corrupt",
    "corruptions_speed",
    "draw",
    "embed",
    "field",
    "gates",
    "latency",
    "main",
    "report",
    "robustness",
    "split",
    "transfer",
    "video",
]


def main() -> None:
    """Entry point of `mango-bench`."""
    run(app)
