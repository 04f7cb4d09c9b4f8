"""Command line `mango-edge`: one module for each command."""

from edge import console
from edge.cli import classify, export, info, journal, model, run
from edge.cli.app import app

__all__ = ["app", "classify", "export", "info", "journal", "main", "model", "run"]


def main() -> None:
    """Entry point of `mango-edge`."""
    console.run(app)
