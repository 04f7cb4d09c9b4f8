"""`mango-bench split`: split files that keep bursts, dates, cameras or given groups whole."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Annotated

import typer

from bench.cli.app import app
from bench.cli.options import MAXIMUM_SEED


@app.command()
def split(
    data: Annotated[Path, typer.Argument(help="Folder of class folders, or a table with picture paths.")],
    by: Annotated[str, typer.Option(help="What to keep whole: burst, date, camera or group.")] = "burst",
    folds: Annotated[int, typer.Option(help="Number of folds; each is the test part of one file.")] = 3,
    classes: Annotated[
        str, typer.Option(help="Only these classes, separated by commas [default: all].")
    ] = "",
    group: Annotated[str | None, typer.Option(help="Table column of the group.")] = None,
    label: Annotated[str | None, typer.Option(help="Table column of the class.")] = None,
    path: Annotated[str | None, typer.Option(help="Table column of the picture's path.")] = None,
    time: Annotated[str | None, typer.Option(help="Table column of the capture time.")] = None,
    pictures: Annotated[
        Path | None, typer.Option(help="Folder that picture paths start from [default: the table's].")
    ] = None,
    utc_offset: Annotated[
        float | None, typer.Option(help="Hours that times without zone are ahead of UTC, -24 to 24.")
    ] = None,
    near_duplicates: Annotated[
        bool, typer.Option(help="Look for near-duplicates on both sides and list them.")
    ] = True,
    with_near_duplicates: Annotated[
        bool, typer.Option("--with-near-duplicates", help="Keep near-duplicates on one side.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for the split files.")] = Path("build/splits"),
    seed: Annotated[int, typer.Option(min=0, max=MAXIMUM_SEED, help="Seed of the draw.")] = 7,
) -> None:
    """Write one split file for each fold, for `mango-convert train --split FILE` and for the benchmark.

    Where no such split exists, says which classes stand in the way and what can be done.
    """
    from bench.disjoint import fold_splits, identified, parts_of
    from bench.duplicate import across, find_pairs
    from bench.reading import read_readings
    from convert.split import write_split
    from edge.console import FAILED, complain, progress
    from edge.files import check_folder, write_atomic

    check_folder(out)
    columns = {"label": label, "time": time, "group": group, "path": path}
    readings = read_readings(data, columns, (), utc_offset, pictures)
    readings = identified(readings)
    chosen = [name.strip() for name in classes.split(",") if name.strip()]
    # What cannot be done is said before pictures are compared for a minute.
    splits = fold_splits(readings, by, folds, seed, chosen)
    pairs = []
    damaged: list[str] = []
    if near_duplicates or with_near_duplicates:
        with progress("comparing pictures", len(readings)) as step:
            pairs = find_pairs(
                [file for file in readings.files if file is not None],
                report=step,
                damaged=lambda _, fault: damaged.append(fault),
            )
    if with_near_duplicates:
        splits = fold_splits(readings, by, folds, seed, chosen, pairs)
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(["split", "part", "picture", "other_part", "other_picture", "turn", "correlation"])
    for made in splits:
        file = out / f"{made.name}-{seed}.json"
        write_split(made, file)
        typer.echo(f"{file}: {made.note}")
        parts = parts_of(readings, made)
        for part in made.parts:
            counts = {
                name: sum(
                    one == part and readings.classes[number] == name
                    for one, number in zip(parts, readings.labels, strict=True)
                )
                for name in chosen or readings.classes
            }
            listed = ", ".join(f"{name} {count}" for name, count in counts.items())
            typer.echo(f"  {part:<10} {sum(counts.values()):5d}  ({listed})")
        crossing = across(pairs, parts)
        if near_duplicates or with_near_duplicates:
            typer.echo(f"  near-duplicate pairs on two sides: {len(crossing)} of {len(pairs)}")
        for pair in crossing:
            writer.writerow(
                [made.name, parts[pair.first], readings.names[pair.first], parts[pair.second],
                 readings.names[pair.second], pair.turn, f"{pair.correlation:.3f}"]
            )  # fmt: skip
    if near_duplicates or with_near_duplicates:
        listing = out / f"{by}-near-duplicates-{seed}.csv"
        write_atomic(listing, table.getvalue().encode())
        complain(f"{listing}: near-duplicates that lie on two sides of a split")
    for fault in damaged:
        complain(f"error: {fault}")
    if damaged:
        complain(f"{len(damaged):,} pictures cannot be read; the splits name them all the same")
        raise typer.Exit(FAILED)
