"""Command line `mango-convert`: one module for each command."""

from convert.cli import calibrate, card, debug, everything, models, signing, split, tflite, train, untrained
from convert.cli.app import app
from edge.console import run

__all__ = [
    "app",
    "calibrate",
    "card",
    "debug",
    "everything",
    "main",
    "models",
    "signing",
    "split",
    "tflite",
    "train",
    "untrained",
]


def main() -> None:
    """Entry point of `mango-convert`."""
    run(app)
