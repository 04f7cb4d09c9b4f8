"""`mango-convert debug`: which tensors of a quantised model are noisy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from convert.cli.app import app
from convert.cli.options import Seed


@app.command()
def debug(
    quantised: Annotated[Path, typer.Argument(help="Model file to look into, for example int8.")],
    original: Annotated[Path, typer.Argument(help="The same weights as a float32 model file.")],
    data: Annotated[Path, typer.Option(help="Photographs to run both on.")],
    split: Annotated[
        str, typer.Option(help="random, burst, or a split file; its test part is used.")
    ] = "burst",
    images: Annotated[int, typer.Option(min=1, help="Photographs, drawn evenly from the classes.")] = 16,
    worst: Annotated[int, typer.Option(min=0, help="Lines to print; 0 prints every tensor.")] = 0,
    seed: Seed = 7,
    csv: Annotated[Path | None, typer.Option(help="File for all tensors as CSV.")] = None,
) -> None:
    """For each tensor print the signal-to-quantisation-noise ratio against float, worst first.

    "lost" is what the layer itself adds: decibels below its noisiest input. A layer that loses much is the
    one to keep in float or to calibrate on more pictures.
    """
    from convert.dataset import index
    from convert.sensitivity import compare
    from convert.split import open_split
    from convert.summary import Table
    from edge.console import progress
    from edge.contract import read_model
    from edge.errors import InputError
    from edge.files import write_atomic

    ours, theirs = read_model(quantised), read_model(original)
    if theirs.contract.precision != "float32":
        raise InputError(
            f"{original}: is {theirs.contract.precision}; give the float32 file of the same weights"
        )
    if ours.contract.training != theirs.contract.training or ours.contract.input != theirs.contract.input:
        raise InputError(
            f"{quantised} and {original} carry different weights; give two precisions of one training"
        )
    dataset = index(data)
    chosen = open_split(split, dataset, seed)
    from convert.tflite import representative_photographs
    from convert.training import load_pictures

    each = -(-images // len(dataset.labels))
    drawn = representative_photographs(dataset, chosen, each, part="test")
    pictures, _ = load_pictures(dataset, drawn, ours.contract.input)
    with progress("comparing tensors", len(pictures)) as step:
        noises = compare(ours.flatbuffer, theirs.flatbuffer, pictures, step)
    table = Table(
        ("ratio, dB", "lost, dB", "largest difference", "operator", "place", "tensor"),
        tuple(
            (
                round(noise.ratio, 2) if noise.ratio < float("inf") else "exact",
                round(noise.lost, 2),
                noise.largest,
                noise.operator,
                noise.place,
                noise.tensor,
            )
            for noise in noises
        ),
    )
    if csv is not None:
        write_atomic(csv, table.csv().encode())
    shown = Table(table.columns, table.rows[:worst] if worst else table.rows)
    typer.echo(
        f"{quantised.name} against {original.name}, {len(pictures)} photographs of split {chosen.name}, test"
    )
    typer.echo(shown.markdown())
