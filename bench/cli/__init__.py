"""Command line `mango-bench`: one module for each command."""

from bench.cli import audit, draw, embed, split, transfer
from bench.cli.app import app
from edge.console import run

__all__ = ["app", "audit", "draw", "embed", "main", "split", "transfer"]


def main() -> None:
    """Entry point of `mango-bench`."""
    run(app)
