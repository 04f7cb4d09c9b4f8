"""`mango-edge classify`: which disease do these pictures show?"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from edge.cli.app import app


@app.command()
def classify(
    paths: Annotated[list[str], typer.Argument(help="Pictures, folders (with their subfolders), or globs.")],
    model: Annotated[
        Path | None, typer.Option(help="Model file [default: the one that comes with the kit].")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="How many classes to show for each picture.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, one row a picture.")] = False,
    runtime: Annotated[
        str, typer.Option(help="auto, ai-edge-litert, tflite-runtime or tensorflow.")
    ] = "auto",
    threads: Annotated[int, typer.Option(min=1, max=64, help="Threads of one inference.")] = 1,
) -> None:
    """Classify pictures: JPEG, PNG, WebP, BMP or TIFF of any size and orientation.

    Probabilities are calibrated where the model carries a calibration, as the field runner's are, and a picture
    whose best class stays below the model's threshold is marked uncertain.
    A picture that cannot be read is named on standard error and the others are still classified; the exit
    status is then 1.
    """
    from edge.calibration import calibrated, calibration_of, floor_of
    from edge.classifier import Classifier, Prediction
    from edge.console import FAILED, complain, progress
    from edge.errors import InputError
    from edge.photograph import find_photographs

    if as_json and as_csv:
        raise InputError("--json and --csv exclude each other; give one of them")
    classifier = Classifier.open(model, runtime, threads)
    calibration = calibration_of(classifier.contract, classifier.model.path)
    floor = floor_of(classifier.contract)
    count = min(top, len(classifier.contract.labels))
    found = find_photographs(paths)
    results: list[tuple[Path, Prediction, Prediction, bool]] = []
    problems = list(found.problems)
    for _, message in problems:
        complain(f"error: {message}")
    if found.ignored:
        complain(f"passed over {found.ignored} file(s) that are not pictures")
    table = csv.writer(sys.stdout, lineterminator="\n")
    if as_csv:
        columns = [name for rank in range(1, count + 1) for name in (f"label_{rank}", f"probability_{rank}")]
        table.writerow(["path", *columns, "uncertain"])
    with progress("classifying", len(found.paths)) as step:
        for path in found.paths:
            step()
            try:
                raw = classifier.classify_path(path)
            except InputError as error:
                problems.append((str(path), str(error)))
                complain(f"error: {error}")
                continue
            prediction = calibrated(raw, calibration, floor)
            ranked = prediction.top(count)
            doubt = calibration.measured and ranked[0][1] < calibration.uncertain_below
            if as_csv:
                cells = [cell for label, p in ranked for cell in (label, f"{p:.4f}")]
                table.writerow([path, *cells, ("yes" if doubt else "no") if calibration.measured else ""])
            elif as_json:
                results.append((path, raw, prediction, doubt))
            else:
                shown = ", ".join(f"{label} {p:.1%}" for label, p in ranked)
                typer.echo(f"{path}: {shown}{' (uncertain)' if doubt else ''}")
    if as_json:
        values = {
            "model": {"path": str(classifier.model.path), "digest": classifier.model.digest},
            "runtime": str(classifier.runtime),
            "calibration": {
                "temperature": calibration.temperature,
                "uncertain_below": calibration.uncertain_below,
            }
            if calibration.measured
            else None,
            "results": [
                {
                    "path": str(path),
                    "label": prediction.label,
                    "uncertain": doubt if calibration.measured else None,
                    "top": [
                        {"label": label, "probability": round(p, 6), "uncalibrated": round(output, 6)}
                        for (label, p), (_, output) in zip(prediction.top(count), raw.top(count), strict=True)
                    ],
                }
                for path, raw, prediction, doubt in results
            ],
            "errors": [{"path": path, "message": message} for path, message in problems],
        }
        typer.echo(json.dumps(values, indent=1))
    if problems:
        raise typer.Exit(FAILED)
