"""Command line `mango-edge`: one module for each command."""

from edge import console
from edge.cli import classify, doctor, export, info, journal, model, run
from edge.cli.app import app

__all__ = ["app", "classify", "doctor", "export", "info", "journal", "main", "model", "run"]


def main() -> None:
    """Entry point of `mango-edge`."""
    console.run(app)
