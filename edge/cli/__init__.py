"""Command line `mango-edge`: one module for each command."""

from edge.cli import classify, export, info, journal
from edge.cli.app import app
from edge.console import run

__all__ = ["app", "classify", "export", "info", "journal", "main"]


def main() -> None:
    """Entry point of `mango-edge`."""
    run(app)
