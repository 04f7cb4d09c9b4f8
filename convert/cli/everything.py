"""`mango-convert all`: both splits trained, every precision converted and checked, one table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from convert.cli.app import app


@app.command(name="all")
def everything(
    architecture: Annotated[str, typer.Argument(help="Network, for example lcnn.")],
    data: Annotated[Path, typer.Option(help="Folder with one folder of photographs for each class.")],
    out: Annotated[Path, typer.Option(help="Folder for splits, checkpoints and model files.")] = Path(
        "build/convert"
    ),
    epochs: Annotated[int, typer.Option(min=1, help="Epochs of each training.")] = 50,
    seed: Annotated[int, typer.Option(help="Seed of splits, weights and order.")] = 7,
) -> None:
    """Index, split, train on the random and the burst split, convert, check, and print the table.

    What is already there and still fits is taken over, so an interrupted run goes on where it was.
    """
    from convert.cli.split import describe
    from convert.dataset import index
    from convert.split import KINDS, make_split, write_split
    from convert.summary import table
    from edge.console import complain, progress
    from edge.preprocessing import InputSpec

    dataset = index(data)
    describe(dataset)
    from convert.model_file import PRECISIONS, share_scores, write_model_files
    from convert.training import Schedule, train

    schedule, spec = Schedule(epochs=epochs, seed=seed), InputSpec()
    paths: dict[str, dict[str, Path]] = {}
    for kind in KINDS:
        chosen = make_split(kind, dataset, seed)
        write_split(chosen, out / "splits" / f"{kind}-{seed}.json")
        complain(f"training {architecture} on split {kind}, {epochs} epochs")
        with progress(f"training {architecture} on {kind}", 1.0) as step:
            trained = train(
                architecture,
                dataset,
                chosen,
                out / "train" / f"{architecture}-{kind}",
                spec,
                schedule,
                report=lambda text, done: step(completed=done, description=text),
            )
        paths[kind] = write_model_files(
            trained, dataset, chosen, schedule, spec, PRECISIONS, out / "models", report=complain
        )
    for precision in PRECISIONS:
        share_scores([paths[kind][precision] for kind in KINDS])
    typer.echo(table([paths[kind][precision] for kind in KINDS for precision in PRECISIONS]))
