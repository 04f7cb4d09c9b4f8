"""Command line `mango-bench`: one module for each command."""

from bench.cli import corrupt, draw, robustness
from bench.cli.app import app
from edge.console import run

__all__ = ["app", "corrupt", "draw", "main", "robustness"]


def main() -> None:
    """Entry point of `mango-bench`."""
    run(app)
