"""Command line `mango-bench`: one module for each command."""

from bench.cli import draw
from bench.cli.app import app
from edge.console import run

__all__ = ["app", "draw", "main"]


def main() -> None:
    """Entry point of `mango-bench`."""
    run(app)
