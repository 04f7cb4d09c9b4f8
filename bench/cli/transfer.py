"""`mango-bench transfer`: a model on another data set whose classes are partly shared or differently spelled."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from bench.cli.app import app
from bench.cli.options import MAXIMUM_SEED


@app.command()
def transfer(
    model: Annotated[Path, typer.Argument(help="Model file.")],
    data: Annotated[
        Path, typer.Argument(help="The other data set: folder of class folders, or table with picture paths.")
    ],
    class_map: Annotated[
        list[str] | None,
        typer.Option("--map", help="'Theirs=Ours,...': the data's class, then the model's; may be repeated."),
    ] = None,
    runtime: Annotated[
        str, typer.Option(help="auto, ai-edge-litert, tflite-runtime or tensorflow.")
    ] = "auto",
    resamples: Annotated[int, typer.Option(min=200, max=100_000, help="Resamples of sessions.")] = 2000,
    seed: Annotated[int, typer.Option(min=0, max=MAXIMUM_SEED, help="Seed of the resampling.")] = 7,
    seeds: Annotated[int, typer.Option(min=2, max=100, help="Seeds of the time baseline.")] = 7,
    out: Annotated[Path | None, typer.Option(help="Result file (JSON) to write.")] = None,
    report: Annotated[Path | None, typer.Option(help="Folder to write the HTML report into.")] = None,
) -> None:
    """Score a model on pictures from elsewhere, beside its own score and the capture time alone.

    Classes that are spelled alike (but for case, _ and -) need no --map. Pictures that are missing or cannot be read
    are named and not scored; the exit status is then 1. Whole sessions are resampled: those that a table names, else
    bursts by capture time.
    """
    from bench.baseline import Settings
    from bench.report.transfer import lines, warnings
    from bench.result import write_results
    from bench.transfer import parse_map
    from bench.transfer import transfer as run
    from edge.console import FAILED, complain
    from edge.files import check_folder, check_writable

    if out is not None:
        check_writable(out)
    if report is not None:
        check_folder(report)
    entry = run(
        model,
        data,
        parse_map(class_map or ()),
        runtime,
        Settings(seeds),
        seed,
        resamples,
    )
    for problem in entry.body["unreadable"]:
        complain(f"error: {problem}")
    for line in lines(entry):
        typer.echo(line)
    for line in warnings(entry):
        typer.echo(f"warning: {line}")
    if out is not None:
        write_results(out, [entry], sys.argv)
    if report is not None:
        from bench.report.page import write_report

        write_report([entry], report)
    if entry.body["unreadable"]:
        raise typer.Exit(FAILED)
