"""Command line `mango-convert`: one module for each command."""

from convert.cli import everything, split, tflite, train, untrained
from convert.cli.app import app
from edge.console import run

__all__ = ["app", "everything", "main", "split", "tflite", "train", "untrained"]


def main() -> None:
    """Entry point of `mango-convert`."""
    run(app)
