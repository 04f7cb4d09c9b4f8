"""`mango-convert untrained`: model files with random weights, to know size, time and memory before training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from convert.cli.app import app
from convert.cli.options import PerClass, Precision, Seed, known_precisions


@app.command()
def untrained(
    models: Annotated[list[str], typer.Argument(help="Networks, for example lcnn resnet50; or all.")],
    data: Annotated[Path, typer.Option(help="Photographs to calibrate and compare with.")],
    out: Annotated[Path, typer.Option(help="Folder for the model files and the table.")] = Path(
        "build/untrained"
    ),
    precision: Precision = None,
    size: Annotated[int, typer.Option(min=32, max=1024, help="Input pixels a side.")] = 224,
    per_class: PerClass = 4,
    check: Annotated[int, typer.Option(min=8, help="Test photographs to compare with Keras on.")] = 64,
    seed: Seed = 7,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Models side by side.")] = 1,
) -> None:
    """Convert networks with random weights and print what it cost: time, peak memory, size, agreement.

    The weights are settled on photographs first, so that the outputs differ from photograph to photograph.
    Such a file classifies nothing; it shows what a network would take on a device.
    """
    from convert.cost import side_by_side, write_untrained
    from convert.dataset import index
    from convert.summary import choose_models, cost_table, write_tables
    from edge.console import FAILED, complain
    from edge.errors import InputError
    from edge.files import check_folder

    names = choose_models(models)
    wanted = known_precisions(precision)
    check_folder(out)
    index(data)
    tasks = [
        {
            "name": name,
            "data": data,
            "precisions": wanted,
            "folder": out,
            "per_class": per_class,
            "check": check,
            "size": size,
            "seed": seed,
        }
        for name in names
    ]
    rows, failed = [], False
    for result in side_by_side(write_untrained, tasks, jobs):
        if isinstance(result, InputError):
            complain(f"error: {result}")
            failed = True
        else:
            rows += result
    if rows:
        table = cost_table(rows)
        write_tables(out / "untrained", table, rows)
        typer.echo(table.markdown())
    if failed:
        raise typer.Exit(FAILED)
