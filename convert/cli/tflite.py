"""`mango-convert tflite`: a trained network as model files, each checked against Keras."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from convert.cli.app import app


@app.command()
def tflite(
    training: Annotated[Path, typer.Argument(help="Folder that `mango-convert train` wrote.")],
    data: Annotated[Path, typer.Option(help="The data set it was trained on.")],
    split: Annotated[str, typer.Option(help="The split it was trained on.")] = "burst",
    precision: Annotated[
        list[str] | None, typer.Option(help="float32, float16, dynamic or int8; by default all four.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the model files.")] = Path("build/models"),
    per_class: Annotated[int, typer.Option(min=1, help="Calibration photographs of each class.")] = 25,
    seed: Annotated[int, typer.Option(help="Seed of the split.")] = 7,
) -> None:
    """Convert a finished training to model files with contracts, and compare each with Keras on the test part."""
    from convert.cli.split import describe
    from convert.dataset import index
    from convert.split import open_split
    from convert.summary import table
    from edge.console import complain

    dataset = index(data)
    describe(dataset)
    chosen = open_split(split, dataset, seed)
    from convert.model_file import PRECISIONS, write_model_files
    from convert.training import finished

    trained, schedule, spec = finished(training, dataset, chosen)
    paths = write_model_files(
        trained, dataset, chosen, schedule, spec, precision or PRECISIONS, out, per_class, complain
    )
    typer.echo(table(list(paths.values())))
