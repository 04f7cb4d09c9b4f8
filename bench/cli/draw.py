"""`mango-bench draw`: sample leaves drawn by a program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bench.cli.app import app
from bench.cli.options import MAXIMUM_SEED


@app.command()
def draw(
    out: Annotated[Path, typer.Argument(help="Folder to write <class>/drawn-<n>.png into.")],
    per_class: Annotated[int, typer.Option(min=1, max=10_000, help="Drawings of each class.")] = 3,
    seed: Annotated[
        int, typer.Option(min=0, max=MAXIMUM_SEED, help="Seed; the same seed gives the same bytes.")
    ] = 0,
) -> None:
    """Draw sample leaves, for trying the kit without photographs. They are drawings, not diseases."""
    from bench.drawing import draw_samples

    paths = draw_samples(out, per_class, seed)
    typer.echo(f"{out}: {len(paths)} drawn leaves (not photographs)")
