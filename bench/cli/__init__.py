"""Command line `mango-bench`: one module for each command."""

from bench.cli import draw, gates
from bench.cli.app import app
from edge.console import run

__all__ = ["app", "draw", "gates", "main"]


def main() -> None:
    """Entry point of `mango-bench`."""
    run(app)
