"""Command line `mango-convert`: one module for each command."""

from convert.cli import card, debug, everything, models, split, tflite, train, untrained
from convert.cli.app import app
from edge.console import run

__all__ = ["app", "card", "debug", "everything", "main", "models", "split", "tflite", "train", "untrained"]


def main() -> None:
    """Entry point of `mango-convert`."""
    run(app)
