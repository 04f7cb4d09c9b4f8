"""`mango-bench gates`: what the field runner's quality gates refuse, and what they let pass."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from bench.cli.app import app
from bench.cli.options import MAXIMUM_SEED


@app.command()
def gates(
    data: Annotated[Path, typer.Option(help="Photographs of leaves, one folder a class.")],
    model: Annotated[
        Path | None, typer.Option(help="Model file [default: the one that comes with the kit].")
    ] = None,
    other: Annotated[
        list[Path] | None, typer.Option(help="Folder of pictures that show no leaf; may be repeated.")
    ] = None,
    split: Annotated[
        str, typer.Option(help="The split that the model was trained on: random, burst, or a split file.")
    ] = "burst",
    seed: Annotated[int, typer.Option(min=0, max=MAXIMUM_SEED, help="Seed of the split.")] = 7,
    out: Annotated[Path | None, typer.Option(help="Write the figures as JSON as well.")] = None,
) -> None:
    """Measure the gates: leaves refused by mistake, by part, class and light; other things that pass.

    The pictures of the Python packages at hand (scikit-image, scikit-learn, Matplotlib, imagecorruptions) are
    always among the other things.
    """
    from dataclasses import asdict

    from bench.gates import changed_leaves, leaves, other_things, packaged_pictures, pictures_in, total
    from convert.dataset import index
    from convert.split import open_split, part_of
    from edge.appearance import appearance_of
    from edge.classifier import DEFAULT_MODEL
    from edge.console import complain, progress
    from edge.contract import read_model
    from edge.errors import InputError
    from edge.files import check_writable, write_atomic

    if out is not None:
        check_writable(out)
    found = read_model(model or DEFAULT_MODEL)
    appearance, spec = appearance_of(found.contract, found.path), found.contract.input
    if appearance is None:
        complain("this model was never calibrated: it has no gate against frames without a leaf")
    for folder in other or ():
        if not pictures_in(folder):
            raise InputError(f"{folder}: no picture in this folder")
    dataset = index(data)
    chosen = open_split(split, dataset, seed)
    with progress("judging leaves", len(dataset.photographs)) as step:
        real = leaves(dataset, chosen, spec, appearance, step)
    with progress("judging changed leaves", len(part_of(chosen, dataset, "test"))) as step:
        changed = changed_leaves(dataset, chosen, spec, appearance, step)
    things = [other_things(name, paths, spec, appearance) for name, paths in packaged_pictures().items()]
    things += [other_things(str(folder), pictures_in(folder), spec, appearance) for folder in other or ()]
    parts = [
        total(part, [count for count in real if count.group.startswith(f"{part}, ")]) for part in chosen.parts
    ]
    typer.echo(f"leaves refused by mistake (split {chosen.name}, seed {chosen.seed}):")
    for count in [*parts, *(count for count in real if count.refused)]:
        typer.echo(_line(count.group, count.pictures, count.share, count.refused))
    typer.echo("leaves of the test part, changed:")
    for count in changed:
        typer.echo(_line(count.group, count.pictures, count.share, count.refused))
    typer.echo("pictures without a mango leaf, refused:")
    for count in [*things, total("all of these", things)]:
        typer.echo(_line(count.group, count.pictures, count.share, count.refused))
    for count in things:
        if count.passed:
            typer.echo(f"passed, of {count.group}: {', '.join(count.passed)}")
    if out is not None:
        values = {
            "model": found.digest,
            "data": dataset.digest,
            "split": chosen.name,
            "seed": chosen.seed,
            "leaves": [asdict(count) for count in real],
            "changed_leaves": [asdict(count) for count in changed],
            "other_things": [asdict(count) for count in things],
        }
        write_atomic(out, (json.dumps(values, indent=1, ensure_ascii=False) + "\n").encode())


def _line(group: str, pictures: int, share: float, refused: object) -> str:
    assert isinstance(refused, dict)
    why = ", ".join(f"{name} {number}" for name, number in refused.items())
    return f"  {group:<34} {pictures:5d} pictures, refused {share:7.2%}" + (f"  ({why})" if why else "")
