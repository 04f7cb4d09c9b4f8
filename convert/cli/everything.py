"""`mango-convert all`: both splits trained, every precision converted and checked, one table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from convert.cli.app import app
from convert.cli.options import (
    Auto,
    Batch,
    Data,
    FineTuningRate,
    HeadEpochs,
    Layers,
    LearningRate,
    MaxDrop,
    MinAgreement,
    PerClass,
    Precision,
    Seed,
    known_precisions,
)


@app.command(name="all")
def everything(
    models: Annotated[list[str], typer.Argument(help="Networks, for example lcnn resnet50; or all.")],
    data: Data,
    out: Annotated[Path, typer.Option(help="Folder for splits, checkpoints and model files.")] = Path(
        "build/convert"
    ),
    epochs: Annotated[int, typer.Option(min=1, help="Epochs of each training.")] = 50,
    batch: Batch = 32,
    learning_rate: LearningRate = 1e-3,
    weights: Annotated[
        str | None,
        typer.Option(
            help="imagenet, none, a file, or NAME=FILE for several networks, with commas; by default imagenet, for"
            " lcnn none."
        ),
    ] = None,
    layers: Layers = None,
    head_epochs: HeadEpochs = 0,
    fine_tuning_rate: FineTuningRate = 1e-5,
    precision: Precision = None,
    per_class: PerClass = 50,
    max_drop: MaxDrop = 1.0,
    min_agreement: MinAgreement = 98.0,
    auto: Auto = False,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Trainings side by side.")] = 1,
    seed: Seed = 7,
) -> None:
    """Index, split, train on the random and the burst split, convert, check, calibrate int8, and print the table.

    What is already there and still fits is taken over, so an interrupted run goes on where it was. The table
    is kept as OUT/models.md, .csv and .json, and a card stands beside each model file. Ends with status 1
    when a model cannot be made or a quantised file loses or differs more than allowed.
    """
    from convert.cli.split import describe
    from convert.cli.tflite import finish
    from convert.cost import side_by_side
    from convert.dataset import index
    from convert.gate import Gate
    from convert.split import KINDS, make_split, write_split
    from edge.console import FAILED, complain
    from edge.errors import InputError
    from edge.files import check_folder

    wanted = known_precisions(precision)
    for name in ("splits", "train", "models"):
        check_folder(out / name)
    dataset = index(data)
    describe(dataset)
    from convert.model_file import make_trained, share_scores
    from convert.summary import choose_models
    from convert.training import choose_schedule
    from convert.weights import choose_each, fetch

    names = choose_models(models)
    for kind in KINDS:
        write_split(make_split(kind, dataset, seed), out / "splits" / f"{kind}-{seed}.json")
    gate = Gate(max_drop / 100, min_agreement / 100)
    tasks: list[dict[str, Any]] = []
    for name, origin in choose_each(names, weights).items():
        fetch(name, origin)
        schedule = choose_schedule(
            origin, epochs, batch, learning_rate, seed, layers, head_epochs, fine_tuning_rate
        )
        tasks += [
            {
                "name": name,
                "kind": kind,
                "data": data,
                "out": out,
                "schedule": schedule,
                "weights": origin,
                "precisions": wanted,
                "per_class": per_class,
                "auto": gate if auto else None,
                "bar": jobs == 1 and sys.stderr.isatty(),
            }
            for kind in KINDS
        ]
    paths: dict[tuple[str, str], dict[str, Path]] = {}
    costs: dict[str, dict[str, object]] = {}
    failed = False
    for task, result in zip(tasks, side_by_side(make_trained, tasks, jobs), strict=True):
        if isinstance(result, InputError):
            complain(f"error: {result}")
            failed = True
            continue
        paths[task["name"], task["kind"]], spent = result
        costs.update(spent)
    for name in names:
        for made in (*wanted, "auto"):
            sisters = [paths[name, kind][made] for kind in KINDS if made in paths.get((name, kind), {})]
            if len(sisters) > 1:
                share_scores(sisters)
    files = [path for made in paths.values() for path in made.values()]
    if files:
        finish(files, costs, gate, out / "models")
    if failed:
        raise typer.Exit(FAILED)
