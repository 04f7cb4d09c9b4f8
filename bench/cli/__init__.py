"""Command line `mango-bench`: one module for each command."""

from bench.cli import corrupt, corruptions_speed, draw, robustness
from bench.cli.app import app
from edge.console import run

__all__ = ["app", "corrupt", "corruptions_speed", "draw", "main", "robustness"]


def main() -> None:
    """Entry point of `mango-bench`."""
    run(app)
