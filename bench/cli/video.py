"""`mango-bench video`: photographs as a video with the right answers, to run and score the field runner on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bench.cli.app import app
from bench.cli.options import MAXIMUM_SEED


@app.command()
def video(
    data: Annotated[Path, typer.Option(help="Folder with one folder of photographs for each class.")],
    out: Annotated[Path, typer.Option(help="The video (.avi); its labels go beside it as .csv.")] = Path(
        "build/walk.avi"
    ),
    split: Annotated[str, typer.Option(help="random, burst, or a split file (.json).")] = "burst",
    part: Annotated[str, typer.Option(help="training, validation or test.")] = "test",
    each: Annotated[int, typer.Option(min=1, help="Frames of each photograph.")] = 8,
    seed: Annotated[
        int, typer.Option(min=0, max=MAXIMUM_SEED, help="Seed of split, order, movement and noise.")
    ] = 7,
) -> None:
    """Make a video that goes from leaf to leaf; score a run over it with `mango-edge journal stats --truth`."""
    from bench.video import write_walk
    from convert.dataset import index
    from convert.split import open_split, part_of
    from edge.console import progress
    from edge.files import check_writable

    for file in (out, out.with_suffix(".csv")):
        check_writable(file)
    dataset = index(data)
    chosen = open_split(split, dataset, seed)
    with progress("writing frames", len(part_of(chosen, dataset, part))) as step:
        count, labels = write_walk(dataset, chosen, part, out, each, seed, step)
    typer.echo(
        f"{out}: {count} frames, {each} of each photograph of the {part} part (split {chosen.name}); {labels}"
    )
