"""`mango-bench corruptions-speed`: our corruptions beside the package's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bench.cli.app import app
from bench.cli.options import MAXIMUM_SEED
from edge.console import progress


@app.command("corruptions-speed")
def corruptions_speed(
    image: Annotated[
        Path | None, typer.Option(help="Photograph, squashed to 224x224; a drawn leaf if not given.")
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Calls of each; the median counts.")] = 15,
    looped_repeats: Annotated[int, typer.Option(min=1, help="The same for the package's glass blur.")] = 3,
    seed: Annotated[int, typer.Option(min=0, max=MAXIMUM_SEED, help="Seed of the random numbers.")] = 0,
) -> None:
    """Time all 95 corruptions of one 224x224 picture, ours and the package's, on one core."""
    import numpy as np

    from bench.corruption import CORRUPTIONS, SEVERITIES, versions
    from bench.corruption.speed import machine, measure, table
    from bench.drawing import draw_leaf
    from edge.preprocessing import InputSpec, fit, read_photograph

    if image is None:
        pixels = draw_leaf("Anthracnose", np.random.default_rng(seed), 224, 224)
    else:
        pixels = fit(read_photograph(image), InputSpec())
    with progress("timing", len(CORRUPTIONS) * len(SEVERITIES)) as step:
        pairs = measure(pixels, repeats, looped_repeats, seed, step=step)
    typer.echo(table(pairs))
    typer.echo(
        f"picture: {image or 'drawn leaf'}, 224x224; seed {seed}; medians of {repeats} calls, processor time"
    )
    typer.echo(f"machine: {machine()}")
    typer.echo(f"versions: {versions()}")
