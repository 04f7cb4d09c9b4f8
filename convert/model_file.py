"""From a finished training, or a model of the user's, to model files with contracts, each checked against Keras."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from convert.architecture import multiply_accumulates, parameters
from convert.backend import keras
from convert.baseline import time_baseline
from convert.cost import Spent, measured
from convert.dataset import Dataset, index
from convert.gate import Gate, faults, own_score, verdict
from convert.parity import run_model, score
from convert.sensitivity import compare, noisiest
from convert.split import Split, make_split, part_of
from convert.tflite import (
    CALIBRATED,
    CALIBRATION_SEED,
    PER_CLASS,
    Graph,
    convert_graph,
    count_macs,
    exported,
    package_versions,
    representative_photographs,
    tensors,
)
from convert.training import Schedule, Trained, load_pictures, predict, train, weights_digest
from convert.weights import Origin
from edge.classifier import Classifier
from edge.console import complain, progress
from edge.contract import PRECISIONS as PRECISIONS
from edge.contract import Contract, Score, Training, read_model, write_model
from edge.errors import InputError
from edge.files import sha256
from edge.preprocessing import InputSpec, Pixels

AUTO = "auto"
"""Stands in a file's name for the first variant that passes the gate where plain int8 fails."""

RECIPE = 1
"""Raised when the same inputs would give another file; part of what decides whether a file is up to date."""

MORE_CALIBRATION = 4
FLOAT_SHARES = (0.1, 0.3)
"""What --auto tries: so many times the calibration pictures; these shares of weighted layers in float."""


@dataclass(frozen=True)
class Checked:
    """Photographs that files are calibrated and scored on, with what Keras says of them.

    Attributes:
        pictures: test part, uint8 (n, height, width, 3); truth, keras_output: labels and probabilities of them.
        baseline: see `convert.baseline`.
    """

    dataset: Dataset
    split: Split
    pictures: Pixels
    truth: npt.NDArray[np.int64]
    keras_output: npt.NDArray[np.float32]
    baseline: Any


def write_model_files(
    trained: Trained,
    dataset: Dataset,
    split: Split,
    schedule: Schedule,
    spec: InputSpec,
    precisions: Sequence[str],
    folder: Path,
    per_class: int = PER_CLASS,
    report: Callable[[str], None] | None = None,
    auto: Gate | None = None,
    spend: Callable[[str, Spent], None] | None = None,
) -> dict[str, Path]:
    """Convert the best epoch to each precision, score it on the test part, and write the model files.

    The files are `<architecture>-<split>-<precision>.tflite` in `folder`. A file that was made before from
    the same weights, photographs, settings and versions is left as it is.

    Args:
        auto: where int8 fails this gate, the first variant that passes is written too, as
            `<architecture>-<split>-auto.tflite`; its contract names the variant and what failed.
        spend: called with a file's name and what its conversion cost.

    Returns:
        precision (or "auto") -> path.

    Raises:
        InputError: unreadable data or a model that cannot be converted.
    """
    training = Training(
        data_digest=dataset.digest,
        images=len(split.parts["training"]),
        split=split.name,
        split_digest=split.digest,
        seed=schedule.seed,
        epochs=len(trained.history),
        best_epoch=trained.best.epoch,
        weights_digest=trained.weights_digest,
    )
    return _write(
        trained.model, training, dataset.labels, dataset, split, spec, precisions, folder, per_class, report,
        auto, spend,
    )  # fmt: skip


def write_foreign_files(
    model: keras.Model,
    labels: Sequence[str],
    precisions: Sequence[str],
    folder: Path,
    dataset: Dataset | None = None,
    split: Split | None = None,
    per_class: int = PER_CLASS,
    report: Callable[[str], None] | None = None,
    auto: Gate | None = None,
    spend: Callable[[str, Spent], None] | None = None,
) -> dict[str, Path]:
    """Convert a model that `convert.foreign.adopt` loaded; with photographs, calibrate and score it too.

    Where it was trained is not known: the contract says so, and a score on the test part may flatter it.

    Returns:
        As `write_model_files`.

    Raises:
        InputError: the photographs' classes are not the labels, int8 without photographs, or the model
            cannot be converted.
    """
    if dataset is None:
        for precision in precisions:
            if precision in CALIBRATED:
                raise InputError(f"{precision} needs photographs to calibrate on; give --data DIR")
    elif set(dataset.labels) != set(labels):
        odd = sorted(set(dataset.labels) ^ set(labels))
        raise InputError(
            f"the labels are not the classes of {dataset.root} ({', '.join(odd)} stand on one side only); name both"
            " alike"
        )
    else:
        dataset = dataclasses.replace(dataset, labels=tuple(labels))
    height, width = model.inputs[0].shape[1:3]
    training = Training("", 0, "unknown", "", 0, 0, 0, weights_digest(model))
    spec = InputSpec(height=height, width=width)
    return _write(
        model,
        training,
        tuple(labels),
        dataset,
        split,
        spec,
        precisions,
        folder,
        per_class,
        report,
        auto,
        spend,
    )


def _write(
    model: keras.Model,
    training: Training,
    labels: tuple[str, ...],
    dataset: Dataset | None,
    split: Split | None,
    spec: InputSpec,
    precisions: Sequence[str],
    folder: Path,
    per_class: int,
    report: Callable[[str], None] | None,
    auto: Gate | None,
    spend: Callable[[str, Spent], None] | None,
) -> dict[str, Path]:
    say = report or (lambda text: None)
    split_name = split.name if split is not None and training.split != "unknown" else None
    stem = model.name if split_name is None else f"{model.name}-{split_name}"

    def recipe(precision: str) -> str:
        values = {
            "recipe": RECIPE,
            "training": dataclasses.asdict(training),
            "labels": labels,
            "input": dataclasses.asdict(spec),
            "data": dataset and dataset.digest,
            "split": split and split.digest,
            "precision": precision,
            "calibration": [per_class, CALIBRATION_SEED] if precision in (*CALIBRATED, AUTO) else None,
            "auto": dataclasses.asdict(auto) if auto is not None and precision == AUTO else None,
            "versions": package_versions(),
        }
        return sha256(json.dumps(values, sort_keys=True).encode())

    paths = {precision: folder / f"{stem}-{precision}.tflite" for precision in precisions}
    stale = [precision for precision in precisions if not _up_to_date(paths[precision], recipe(precision))]
    for precision in precisions:
        if precision not in stale:
            say(f"{paths[precision].name} is up to date")
    kept = folder / f"{stem}-{AUTO}.tflite"
    if not stale and (auto is None or not _fails(paths.get("int8"), auto)):
        return paths
    if not stale and _up_to_date(kept, recipe(AUTO)):
        say(f"{kept.name} is up to date")
        return {**paths, AUTO: kept}

    say(f"exporting {model.name}")
    with exported(model) as graph:
        # Whether the operators can be expressed at all is known here, before photographs are read.
        with measured() as spent:
            original = convert_graph(graph, "float32")
        checked = None if dataset is None or split is None else _check(model, dataset, split, spec, say)
        foreign = training.split == "unknown"
        # Keras does not show the layers inside a SavedModel; the flatbuffer shows every operator.
        macs = count_macs(original) if foreign else multiply_accumulates(model)
        calibrations: dict[int, Pixels] = {}

        def calibration(count: int) -> Pixels:
            assert dataset is not None
            assert split is not None
            if count not in calibrations:
                chosen = representative_photographs(dataset, split, count)
                calibrations[count] = load_pictures(dataset, chosen, spec)[0]
            return calibrations[count]

        def finish(
            path: Path, flatbuffer: bytes, precision: str, made_from: str, count: int, extra: dict[str, Any]
        ) -> Contract:
            input_tensor, output_tensor = tensors(flatbuffer)
            contract = Contract(
                labels=labels,
                input=spec,
                precision=precision,
                architecture=model.name,
                parameters=parameters(model),
                macs=macs,
                input_tensor=input_tensor,
                output_tensor=output_tensor,
                training=training,
                calibration={
                    "images": len(calibration(count)),
                    "per_class": count,
                    "seed": CALIBRATION_SEED,
                    "part": "training",
                }
                if precision in CALIBRATED
                else None,
                versions=package_versions(),
                extra={"made_from": made_from, **extra},
            )
            if checked is not None:
                say(f"checking {path.name} against Keras on {len(checked.pictures)} test photographs")
                # The classifier opens files; this one gets its final name only with its score in it.
                trial = path.with_name(f".{path.name}.unchecked")
                try:
                    contract = write_model(trial, flatbuffer, contract)
                    output = run_model(Classifier.open(trial), checked.pictures)
                finally:
                    trial.unlink(missing_ok=True)
                found = score(
                    checked.keras_output, output, checked.truth, checked.dataset, checked.split, "test",
                    training.weights_digest, checked.baseline,
                )  # fmt: skip
                contract = dataclasses.replace(contract, scores=(found,))
            return contract

        for precision in stale:
            say(f"converting {model.name} to {precision}")
            pictures = calibration(per_class) if precision in CALIBRATED else None
            if precision == "float32":
                flatbuffer = original
            else:
                with measured() as spent:
                    flatbuffer = convert_graph(graph, precision, pictures)
            path = paths[precision]
            contract = finish(path, flatbuffer, precision, recipe(precision), per_class, {})
            write_model(path, flatbuffer, contract)
            if spend is not None:
                spend(path.name, spent)
        if auto is None or not _fails(paths.get("int8"), auto):
            return paths
        tried = [_figures("int8", read_model(paths["int8"]).contract)]
        for variant, precision, count, flatbuffer in _variants(
            graph, original, paths["int8"], calibration, per_class, checked
        ):
            say(f"trying {variant}")
            extra = {"quantisation": {"variant": variant, "tried": tried}}
            contract = finish(kept, flatbuffer, precision, recipe(AUTO), count, extra)
            tried = [*tried, _figures(variant, contract)]
            if not faults(contract.scores[0], auto):
                write_model(kept, flatbuffer, contract)
                say(f"{kept.name}: {variant} passes")
                return {**paths, AUTO: kept}
        figures = "; ".join(
            f"{one['variant']}: macro-F1 {one['macro_f1']:.4f}, agreement {one['agreement']:.4f}"
            for one in tried
        )
        say(f"{stem}: no variant passes the gate ({figures})")
    return paths


def _variants(
    graph: Graph,
    original: bytes,
    plain: Path,
    calibration: Callable[[int], Pixels],
    per_class: int,
    checked: Checked | None,
) -> Any:
    """What is tried where plain int8 fails, cheapest for the device first: (name, precision, pictures, bytes)."""
    assert checked is not None
    more = MORE_CALIBRATION * per_class
    if len(calibration(more)) > len(calibration(per_class)):
        flatbuffer = convert_graph(graph, "int8", calibration(more))
        yield f"int8 calibrated on {len(calibration(more))} pictures", "int8", more, flatbuffer
    yield "int16x8", "int16x8", per_class, convert_graph(graph, "int16x8", calibration(per_class))
    noises = compare(
        read_model(plain).flatbuffer, original, calibration(per_class)[:: max(1, per_class // 2)]
    )
    for share in FLOAT_SHARES:
        names = noisiest(noises, share)
        flatbuffer = convert_graph(graph, "int8", calibration(per_class), names)
        yield f"int8 with {len(names)} layers in float ({', '.join(names)})", "int8", per_class, flatbuffer


def _check(
    model: keras.Model, dataset: Dataset, split: Split, spec: InputSpec, say: Callable[[str], None]
) -> Checked:
    say("reading the test part")
    pictures, truth = load_pictures(dataset, part_of(split, dataset, "test"), spec)
    return Checked(
        dataset, split, pictures, truth, predict(model, pictures, batch=8), time_baseline(dataset, split)
    )


def _up_to_date(path: Path, made_from: str) -> bool:
    try:
        return read_model(path).contract.extra.get("made_from") == made_from
    except InputError:
        # Missing, damaged or of another format: made anew.
        return False


def _fails(path: Path | None, gate: Gate) -> bool:
    if path is None:
        return False
    found = own_score(read_model(path).contract)
    return found is not None and bool(faults(found, gate))


def _figures(variant: str, contract: Contract) -> dict[str, Any]:
    found = contract.scores[0]
    return {"variant": variant, "macro_f1": found.macro_f1, "agreement": found.agreement}


def share_scores(paths: Sequence[Path]) -> None:
    """Let model files of one architecture and precision, trained on different splits, carry all their scores.

    A file's own score comes first; a sister's is told apart by its weights digest.
    """
    models = [read_model(path) for path in paths]
    for model in models:
        own = [entry for entry in model.contract.scores if _own(model.contract, entry)]
        others = [
            entry
            for sister in models
            for entry in sister.contract.scores
            if _own(sister.contract, entry) and entry not in own
        ]
        if (*own, *others) != model.contract.scores:
            contract = dataclasses.replace(model.contract, scores=(*own, *others))
            write_model(model.path, model.flatbuffer, contract, dict(model.members))


def _own(contract: Contract, entry: Score) -> bool:
    return contract.training is not None and entry.weights_digest == contract.training.weights_digest


def make_trained(
    name: str,
    kind: str,
    data: Path,
    out: Path,
    schedule: Schedule,
    weights: Origin,
    precisions: Sequence[str],
    per_class: int,
    auto: Gate | None,
    bar: bool,
) -> tuple[dict[str, Path], dict[str, dict[str, Any]]]:
    """Train a network on one split and write its model files: one task of `mango-convert all`.

    With `bar` a progress bar is drawn; else each epoch prints a line, as several tasks do side by side.

    Returns:
        precision -> path, and file name -> {"seconds", "peak_bytes"} of the conversions that were made.

    Raises:
        InputError: unusable data, weights or settings.
    """
    dataset, spec = index(data), InputSpec()
    split = make_split(kind, dataset, schedule.seed)
    folder = out / "train" / f"{name}-{kind}"
    complain(f"training {name} on split {kind}, {schedule.epochs} epochs")
    with contextlib.ExitStack() as stack:
        step = stack.enter_context(progress(f"training {name} on {kind}", 1.0)) if bar else None

        def report(text: str, done: float) -> None:
            if step is not None:
                step(completed=done, description=text)
            elif "validation" in text:
                complain(f"{name} on {kind}: {text}")

        trained = train(name, dataset, split, folder, spec, schedule, report, weights)
    costs: dict[str, dict[str, Any]] = {}

    def spend(file: str, spent: Spent) -> None:
        costs[file] = {"seconds": spent.seconds, "peak_bytes": spent.peak}

    paths = write_model_files(
        trained, dataset, split, schedule, spec, precisions, out / "models", per_class, complain, auto, spend
    )
    return paths, costs


def failures(paths: Sequence[Path], gate: Gate) -> list[str]:
    """A sentence for each quantised file that fails the gate.

    An int8 file that fails is excused where a variant chosen by --auto stands among `paths` and passes.
    """
    names = {path.name for path in paths}
    found = []
    for path in paths:
        if path.name.endswith("-int8.tflite") and path.name.replace("-int8.", f"-{AUTO}.") in names:
            continue
        sentence = verdict(path.name, read_model(path).contract, gate)
        if sentence is not None:
            found.append(sentence)
    return found
