"""Command line `mango-bench`: one module for each command."""

from bench.cli import corruptions_speed, draw
from bench.cli.app import app
from edge.console import run

__all__ = ["app", "corruptions_speed", "draw", "main"]


def main() -> None:
    """Entry point of `mango-bench`."""
    run(app)
