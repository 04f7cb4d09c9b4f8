"""`mango-convert tflite`: a trained network as model files, each checked against Keras."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from convert.cli.app import app
from convert.cli.options import Auto, MaxDrop, MinAgreement, PerClass, Precision, Seed, known_precisions


@app.command()
def tflite(
    source: Annotated[
        Path,
        typer.Argument(
            help="Folder that `mango-convert train` wrote, a .keras file, or a SavedModel folder."
        ),
    ],
    data: Annotated[
        Path | None,
        typer.Option(help="The data set it was trained on; photographs to calibrate and score on."),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(help="For a model of your own: class names, by commas or a file with one a line."),
    ] = None,
    convention: Annotated[
        str, typer.Option(help="What your own model takes: rgb (0..255), unit (0..1), tf (-1..1) or caffe.")
    ] = "rgb",
    split: Annotated[str, typer.Option(help="The split it was trained on.")] = "burst",
    precision: Precision = None,
    out: Annotated[Path, typer.Option(help="Folder for the model files.")] = Path("build/models"),
    per_class: PerClass = 50,
    seed: Seed = 7,
    max_drop: MaxDrop = 1.0,
    min_agreement: MinAgreement = 98.0,
    auto: Auto = False,
) -> None:
    """Convert to model files with contracts and cards, and compare each with Keras on the test part.

    Ends with status 1 when a quantised file loses or differs more than allowed.
    """
    from convert.cli.split import describe
    from convert.dataset import index
    from convert.gate import Gate
    from convert.given import is_foreign, read_labels
    from convert.split import open_split
    from edge.console import complain
    from edge.errors import InputError
    from edge.files import check_folder

    asked = known_precisions(precision)
    if auto and data is None:
        raise InputError(f"{source}: --auto judges variants on photographs; give them with --data DIR")
    foreign = is_foreign(source)
    if foreign and labels is None:
        raise InputError(f"{source}: a model of your own needs --labels, in the order of its output")
    if not foreign and data is None:
        raise InputError(f"{source}: give the data set that it was trained on with --data DIR")
    check_folder(out)
    dataset = chosen = None
    if data is not None:
        dataset = index(data)
        describe(dataset)
        chosen = open_split(split, dataset, seed)
    gate = Gate(max_drop / 100, min_agreement / 100)
    if foreign:
        from convert.architecture import CONVENTIONS
        from convert.foreign import adopt
        from convert.model_file import write_foreign_files
        from convert.tflite import CALIBRATED

        assert labels is not None
        if convention not in CONVENTIONS:
            raise InputError(f"convention {convention!r} is not known; choose {', '.join(CONVENTIONS)}")
        names = read_labels(labels)
        wanted = [name for name in asked if precision or dataset is not None or name not in CALIBRATED]
        if dataset is None and not precision:
            complain(f"without --data there is nothing to calibrate on: making {', '.join(wanted)} only")
        paths = write_foreign_files(
            adopt(source, names, convention),
            wanted,
            out,
            dataset,
            chosen,
            per_class,
            complain,
            gate if auto else None,
        )
    else:
        from convert.model_file import write_model_files
        from convert.training import finished

        assert dataset is not None
        assert chosen is not None
        trained, schedule, spec = finished(source, dataset, chosen)
        paths = write_model_files(
            trained,
            dataset,
            chosen,
            schedule,
            spec,
            asked,
            out,
            per_class,
            complain,
            gate if auto else None,
        )
    finish(list(paths.values()), {}, gate, None)


def finish(paths: list[Path], costs: dict[str, dict[str, object]], gate: object, stem: Path | None) -> None:
    """Write the cards and, with `stem`, the tables; print the table; leave with status 1 if the gate fails."""
    from convert.card import write_card
    from convert.gate import Gate
    from convert.model_file import failures
    from convert.summary import describe_files, table, write_tables
    from edge.console import FAILED, complain

    assert isinstance(gate, Gate)
    for path in paths:
        write_card(path)
    shown = table(paths, costs)
    if stem is not None:
        write_tables(stem, shown, describe_files(paths, costs))
    typer.echo(shown.markdown())
    found = failures(paths, gate)
    for sentence in found:
        complain(f"error: {sentence}")
    if found:
        raise typer.Exit(FAILED)
