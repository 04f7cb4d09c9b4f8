"""`mango-convert card`: a model file's contract as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from convert.cli.app import app


@app.command()
def card(files: Annotated[list[Path], typer.Argument(help="Model files (.tflite).")]) -> None:
    """Write NAME.MODEL.md beside each model file: input, output, weights, quantisation, scores of each class."""
    from convert.card import write_card

    for file in files:
        typer.echo(str(write_card(file)))
