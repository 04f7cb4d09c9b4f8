"""Command line `mango-convert`: one module for each command."""

from convert.cli import calibrate, everything, signing, split, tflite, train
from convert.cli.app import app
from edge.console import run

__all__ = ["app", "calibrate", "everything", "main", "signing", "split", "tflite", "train"]


def main() -> None:
    """Entry point of `mango-convert`."""
    run(app)
