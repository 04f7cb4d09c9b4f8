"""Command line `mango-bench`: one module for each command."""

from bench.cli import draw, field, gates, video
from bench.cli.app import app
from edge.console import run

__all__ = ["app", "draw", "field", "gates", "main", "video"]


def main() -> None:
    """Entry point of `mango-bench`."""
    run(app)
