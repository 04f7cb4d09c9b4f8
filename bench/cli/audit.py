"""`mango-bench audit`: does the picture decide, or the session?"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bench.cli.app import app

if TYPE_CHECKING:
    from bench.reading import Readings


@app.command()
def audit(
    data: Annotated[
        Path,
        typer.Argument(help="Folder of class folders, CSV or Parquet table, or the field runner's journal."),
    ],
    label: Annotated[str | None, typer.Option(help="Column of the class.")] = None,
    time: Annotated[str | None, typer.Option(help="Column of the capture time, or none.")] = None,
    group: Annotated[str | None, typer.Option(help="Column of the session or farm, or none.")] = None,
    crop: Annotated[
        str | None, typer.Option(help="Column of the crop, or none; up to 100 crops are audited apart.")
    ] = None,
    path: Annotated[str | None, typer.Option(help="Column of the picture's path, or none.")] = None,
    split_column: Annotated[str | None, typer.Option(help="Column of the given split, or none.")] = None,
    sensor: Annotated[
        list[str] | None, typer.Option(help="Sensor column, once for each [default: all other numeric ones].")
    ] = None,
    pictures: Annotated[
        Path | None, typer.Option(help="Folder that picture paths start from [default: the table's].")
    ] = None,
    split: Annotated[str | None, typer.Option(help="Given split: random, burst, or a split file.")] = None,
    by: Annotated[
        str | None,
        typer.Option(help="What to hold out: group, burst, date or camera [default: group, else burst]."),
    ] = None,
    utc_offset: Annotated[
        float | None, typer.Option(help="Hours that times without zone are ahead of UTC, -24 to 24.")
    ] = None,
    embeddings: Annotated[
        Path | None,
        typer.Option(help="Of an image model (mango-bench embed), or CSV of mango-edge classify."),
    ] = None,
    unseen: Annotated[
        bool, typer.Option("--unseen", help="For fusion, only pictures that the image model has not seen.")
    ] = False,
    near_duplicates: Annotated[
        bool | None, typer.Option(help="Look for near-duplicates [default: if picture files are at hand].")
    ] = None,
    with_near_duplicates: Annotated[
        bool, typer.Option("--with-near-duplicates", help="Keep near-duplicates on one side.")
    ] = False,
    model: Annotated[
        list[Path] | None, typer.Option(help="Model file whose scores to put beside; may be repeated.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=3, max=100, help="Seeds of draws and forests.")] = 7,
    trees: Annotated[int, typer.Option(min=2, max=1000, help="Trees of each forest.")] = 60,
    rows: Annotated[
        int, typer.Option(min=100, help="Pictures drawn at most for each crop and seed.")
    ] = 20_000,
    margin: Annotated[
        float, typer.Option(min=0.0, max=50.0, help="Half the comparable band, in points.")
    ] = 1.0,
    floor_pictures: Annotated[
        int, typer.Option(min=1, help="Test pictures that each class needs in a held-out fold.")
    ] = 10,
    floor_groups: Annotated[
        int, typer.Option(min=1, help="Groups that each class needs in a held-out fold.")
    ] = 2,
    jobs: Annotated[int, typer.Option(min=1, max=256, help="Threads of a forest.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Result file (JSON) to write.")] = None,
    report: Annotated[Path | None, typer.Option(help="Folder to write the HTML report into.")] = None,
    fail_on: Annotated[
        str | None, typer.Option(help="leak: exit with status 1 unless no leak was found (for CI).")
    ] = None,
) -> None:
    """Audit a data set: can the class be told without the picture, and does that hold on other sessions?

    Gives baselines without pictures (majority, capture time, metadata, sensors) on mixed and on held-out
    sessions, how finely readings tell pictures apart, the gain of fusion with an image model, near-duplicates,
    and a verdict in plain words.
    """
    from bench.audit import audit as run
    from bench.baseline import Settings
    from bench.column import NO_COLUMN
    from bench.embedding import read_embeddings
    from bench.reading import read_readings
    from bench.result import write_results
    from edge.console import FAILED, complain, progress
    from edge.errors import InputError
    from edge.files import check_folder, check_writable

    if fail_on not in (None, "leak"):
        raise InputError(f"--fail-on {fail_on} is not known; it takes: leak")
    if split is not None and split_column not in (None, NO_COLUMN):
        raise InputError("--split and --split-column both give a split; leave one of them away")
    if out is not None:
        check_writable(out)
    if report is not None:
        check_folder(report)
    columns = {
        "label": label, "time": time, "group": group, "crop": crop, "path": path, "split": split_column,
    }  # fmt: skip
    readings = read_readings(data, columns, sensor or (), utc_offset, pictures)
    complain(
        f"{readings.path}: {len(readings):,} pictures of {len(readings.classes)} classes ({readings.source})"
    )
    if split is not None:
        readings = _given(readings, split)
    look = any(file is not None for file in readings.files) if near_duplicates is None else near_duplicates
    with progress("audit", 1.0) as step:
        entry = run(
            readings,
            by,
            Settings(seeds, trees, rows=rows, margin=margin / 100, floor_pictures=floor_pictures,
                     floor_groups=floor_groups, jobs=jobs),
            None if embeddings is None else read_embeddings(embeddings),
            unseen,
            look,
            with_near_duplicates,
            [str(file) for file in model or ()],
            report=lambda text: step(description=text),
        )  # fmt: skip
    for line in _lines(entry.body):
        typer.echo(line)
    if out is not None:
        write_results(out, [entry], sys.argv)
    if report is not None:
        from bench.report.page import write_report

        write_report([entry], report)
    damaged = (entry.body["near_duplicates"] or {}).get("unreadable", ())
    for fault in damaged:
        complain(f"error: {fault}")
    finding = entry.body["verdict"]["finding"]
    if fail_on == "leak" and finding != "none":
        complain(
            "failed: a leak was found"
            if finding == "leak"
            else "failed: a part of the question could not be asked, so a leak cannot be ruled out"
        )
        raise typer.Exit(FAILED)
    if damaged:
        raise typer.Exit(FAILED)


def _given(readings: Readings, split: str) -> Readings:
    from bench.disjoint import identified
    from bench.reading import with_split
    from convert.dataset import index
    from convert.split import KINDS, make_split, read_split
    from edge.errors import InputError

    if split not in KINDS:
        return with_split(identified(readings), read_split(Path(split)))
    if readings.source != "photographs":
        raise InputError(
            f"--split {split} is drawn from a folder of class folders; give a table's split as a column or a file"
        )
    return with_split(readings, make_split(split, index(readings.path)))


def _lines(body: Mapping[str, Any]) -> list[str]:
    from bench.baseline import BASELINES, PROTOCOLS
    from bench.fold import Shortfall
    from bench.report.audit import OTHER_DATA

    lines = ["", "Macro-F1 without any picture, mean over seeds [95 % interval]:"]
    for protocol, by_baseline in body["average"]["scores"].items():
        lines.append(f"  {PROTOCOLS[protocol]}")
        for baseline in BASELINES:
            if baseline in by_baseline:
                f1, right = by_baseline[baseline]["macro_f1"], by_baseline[baseline]["accuracy"]
                interval = f"{f1['mean']:.3f} [{f1['low']:.3f}, {f1['high']:.3f}]"
                lines.append(f"    {baseline:<15} {interval}   accuracy {right['mean']:.3f}")
    for model in body["models"]:
        elsewhere = "" if model["same_data"] else OTHER_DATA
        for score in model["scores"]:
            baseline = score["time_baseline"]
            beside = "unknown" if baseline is None else f"{baseline['macro_f1']:.3f}"
            lines.append(
                f"  {model['name']}{'' if score['own'] else ' (sister)'}, split {score['split']} (seed"
                f" {score['seed']}), {score['part']}{elsewhere}: macro-F1 {score['macro_f1']:.3f}, accuracy"
                f" {score['accuracy']:.3f}; capture time alone on the same split {beside}"
            )
    for crop in body["crops"]:
        where = f"{crop['name']}: " if crop["name"] else ""
        floor = (body["settings"]["floor_pictures"], body["settings"]["floor_groups"])
        for shortfall in crop["baselines"]["shortfalls"]:
            lines.append(f"  coverage: {where}{Shortfall(**shortfall).sentence(*floor)}")
        for shortfall in (crop["fusion"] or {"shortfalls": ()})["shortfalls"]:
            lines.append(f"  coverage of fusion: {where}{Shortfall(**shortfall).sentence(*floor)}")
    lines += [f"  note: {note}" for note in body["notes"]]
    lines += ["", f"Finding: {body['verdict']['finding']}", body["verdict"]["paragraph"], "", "What to do:"]
    lines += [f"- {step}" for step in body["verdict"]["next_steps"]]
    return lines
