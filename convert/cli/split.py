"""`mango-convert split`: which photographs are for training, validation and test."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from convert.cli.app import app
from convert.cli.options import Seed


@app.command()
def split(
    data: Annotated[Path, typer.Argument(help="Folder with one folder of photographs for each class.")],
    out: Annotated[Path, typer.Option(help="Folder for the split files.")] = Path("build/splits"),
    kind: Annotated[list[str] | None, typer.Option(help="random or burst; by default both.")] = None,
    seed: Seed = 7,
) -> None:
    """Draw splits and save them as small JSON files.

    random: stratified 80:10:10, photographs of one session on every side (as published; flatters a model).
    burst: whole chains of photographs taken within 60 s of each other on one side.
    """
    from convert.dataset import index
    from convert.split import KINDS, make_split, part_of, write_split

    dataset = index(data)
    describe(dataset)
    for name in kind or KINDS:
        made = make_split(name, dataset, seed)
        path = out / f"{name}-{seed}.json"
        write_split(made, path)
        typer.echo(f"{path}: {made.note}")
        for part in made.parts:
            members = part_of(made, dataset, part)
            counts = ", ".join(
                f"{label} {sum(p.label == label for p in members)}" for label in dataset.labels
            )
            typer.echo(f"  {part:<10} {len(members):5d}  ({counts})")


def describe(dataset: object) -> None:
    """Say what was found in the data set's folder, what was dropped and what was passed over."""
    from convert.dataset import Dataset
    from edge.console import complain

    assert isinstance(dataset, Dataset)
    skipped = "".join(
        f"; {reason}, left out: {len(names)} ({', '.join(names[:3])}{', ...' if len(names) > 3 else ''})"
        for reason, names in dataset.skipped.items()
    )
    complain(
        f"{dataset.root}: {len(dataset.photographs)} photographs in {len(dataset.labels)} classes,"
        f" digest {dataset.digest[:12]}; dropped {len(dataset.duplicates)} with the bytes of another,"
        f" passed over {len(dataset.ignored)} files that are not pictures{skipped}"
    )
