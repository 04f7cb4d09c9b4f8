"""Command line `mango-edge`: one module for each command."""

from edge.cli import classify, info, model
from edge.cli.app import app
from edge.console import run

__all__ = ["app", "classify", "info", "main", "model"]


def main() -> None:
    """Entry point of `mango-edge`."""
    run(app)
