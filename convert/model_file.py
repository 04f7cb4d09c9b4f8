"""From a finished training, or a model of the user's, to model files with contracts, each checked against Keras."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from convert.architecture import multiply_accumulates, parameters
from convert.backend import keras
from convert.baseline import time_baseline
from convert.calibration import calibrate
from convert.cost import Spent, measured
from convert.dataset import Dataset, index
from convert.foreign import Foreign
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
from edge.calibration import TEMPERATURE
from edge.classifier import Classifier
from edge.console import complain, progress
from edge.contract import PRECISIONS as PRECISIONS
from edge.contract import Contract, Score, Training, read_model, write_model
from edge.errors import InputError
from edge.files import sha256
from edge.preprocessing import InputSpec, Pixels

UNKNOWN = "unknown"
"""Stands for the split in the contract of a model that was trained elsewhere."""

AUTO = "auto"
"""Stands in a file's name for the first variant that passes the gate where plain int8 fails."""

RECIPE = 1
"""Raised when the same inputs would give another file; part of what decides whether a file is up to date."""

MORE_CALIBRATION = 4
FLOAT_SHARES = (0.1, 0.3)
"""What --auto tries: so many times the calibration pictures; these shares of weighted layers in float."""


@dataclass(frozen=True)
class Source:
    """What model files are made from.

    Attributes:
        model, labels, spec: the network, its classes in the order of the output, its input.
        training: where the weights come from; its split is `UNKNOWN` for a model of the user's.
        dataset, split: photographs to calibrate and score on; None where there are none.
        per_class: calibration photographs of each class.
        files: digest of the files that a model of the user's was read from. Its weights do not tell it from
            another graph of the same name; a network of the kit is known by its name and `RECIPE`.
    """

    model: keras.Model
    labels: tuple[str, ...]
    spec: InputSpec
    training: Training
    dataset: Dataset | None
    split: Split | None
    per_class: int
    files: str = ""

    @property
    def foreign(self) -> bool:
        """Whether the model was made elsewhere."""
        return self.training.split == UNKNOWN

    @property
    def stem(self) -> str:
        """What the names of its files begin with."""
        return str(self.model.name) if self.foreign else f"{self.model.name}-{self.training.split}"

    def recipe(self, precision: str, auto: Gate | None) -> str:
        """Digest of all that decides on a file's bytes: a file with the same one is up to date."""
        values = {
            "recipe": RECIPE,
            "training": dataclasses.asdict(self.training),
            "labels": self.labels,
            "input": dataclasses.asdict(self.spec),
            "data": self.dataset and self.dataset.digest,
            "split": self.split and self.split.digest,
            "precision": precision,
            "calibration": [self.per_class, CALIBRATION_SEED] if precision in (*CALIBRATED, AUTO) else None,
            "auto": dataclasses.asdict(auto) if auto is not None and precision == AUTO else None,
            "versions": package_versions(),
            **({"files": self.files} if self.foreign else {}),
        }
        return sha256(json.dumps(values, sort_keys=True).encode())

    def representative(self, per_class: int) -> Pixels:
        """Calibration pictures, uint8 (n, height, width, 3)."""
        assert self.dataset is not None
        assert self.split is not None
        chosen = representative_photographs(self.dataset, self.split, per_class)
        with progress("reading calibration photographs", len(chosen)) as step:
            return load_pictures(self.dataset, chosen, self.spec, step)[0]


@dataclass(frozen=True)
class Reference:
    """What Keras says of the test part, for files to be compared with.

    Attributes:
        pictures: uint8 (n, height, width, 3); truth: int64 (n,); output: probabilities (n, classes).
        baseline: see `convert.baseline`.
    """

    dataset: Dataset
    split: Split
    pictures: Pixels
    truth: npt.NDArray[np.int64]
    output: npt.NDArray[np.float32]
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
    source = Source(trained.model, dataset.labels, spec, training, dataset, split, per_class)
    return _write(source, precisions, folder, report, auto, spend)


def write_foreign_files(
    given: Foreign,
    precisions: Sequence[str],
    folder: Path,
    dataset: Dataset | None = None,
    split: Split | None = None,
    per_class: int = PER_CLASS,
    report: Callable[[str], None] | None = None,
    auto: Gate | None = None,
    spend: Callable[[str, Spent], None] | None = None,
) -> dict[str, Path]:
    """Convert a model of the user's; with photographs, calibrate and score it too.

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
    elif set(dataset.labels) != set(given.labels):
        odd = sorted(set(dataset.labels) ^ set(given.labels))
        raise InputError(
            f"the labels are not the classes of {dataset.root} ({', '.join(odd)} stand on one side only); name both"
            " alike"
        )
    else:
        dataset = dataclasses.replace(dataset, labels=given.labels)
    height, width = given.model.inputs[0].shape[1:3]
    training = Training("", 0, UNKNOWN, "", 0, 0, 0, weights_digest(given.model))
    spec = InputSpec(height=height, width=width)
    source = Source(given.model, given.labels, spec, training, dataset, split, per_class, given.digest)
    return _write(source, precisions, folder, report, auto, spend)


def _write(
    source: Source,
    precisions: Sequence[str],
    folder: Path,
    report: Callable[[str], None] | None,
    auto: Gate | None,
    spend: Callable[[str, Spent], None] | None,
) -> dict[str, Path]:
    say = report or (lambda text: None)
    paths = {precision: folder / f"{source.stem}-{precision}.tflite" for precision in precisions}
    chosen = folder / f"{source.stem}-{AUTO}.tflite"
    for path in (*paths.values(), chosen):
        if path.is_dir():
            raise InputError(
                f"{path}: a folder stands where the model file shall be; remove it or give another folder with --out"
            )
    stale = [name for name in precisions if not _up_to_date(paths[name], source.recipe(name, auto))]
    for name in precisions:
        if name not in stale:
            say(f"{paths[name].name} is up to date")
    if not stale:
        if auto is None or not _fails(paths.get("int8"), auto):
            return paths
        if _up_to_date(chosen, source.recipe(AUTO, auto)):
            say(f"{chosen.name} is up to date")
            return {**paths, AUTO: chosen}
    say(f"exporting {source.model.name}")
    with exported(source.model) as graph:
        # Whether the operators can be expressed at all is known here, before photographs are read.
        with measured() as first:
            original = convert_graph(graph, "float32")
        macs = count_macs(original) if source.foreign else multiply_accumulates(source.model)
        reference = _refer(source, say)
        for name in stale:
            say(f"converting {source.model.name} to {name}")
            pictures = source.representative(source.per_class) if name in CALIBRATED else None
            with measured() as spent:
                flatbuffer = original if name == "float32" else convert_graph(graph, name, pictures)
            contract = _contract(source, flatbuffer, name, macs, source.per_class)
            contract = _scored(contract, flatbuffer, paths[name], reference, say)
            extra: dict[str, Any] = {"made_from": source.recipe(name, auto)}
            write_model(paths[name], flatbuffer, dataclasses.replace(contract, extra=extra))
            if spend is not None:
                spend(paths[name].name, first if name == "float32" else spent)
        if auto is not None and reference is not None and _fails(paths.get("int8"), auto):
            tried = [_figures("int8", read_model(paths["int8"]).contract)]
            plain = read_model(paths["int8"]).flatbuffer
            for variant, precision, count, flatbuffer in _variants(source, graph, original, plain):
                say(f"trying {variant}")
                contract = _contract(source, flatbuffer, precision, macs, count)
                contract = _scored(contract, flatbuffer, chosen, reference, say)
                if not faults(contract.scores[0], auto):
                    extra = {
                        "made_from": source.recipe(AUTO, auto),
                        "quantisation": {"variant": variant, "tried": tried},
                    }
                    write_model(chosen, flatbuffer, dataclasses.replace(contract, extra=extra))
                    say(f"{chosen.name}: {variant} passes")
                    return {**paths, AUTO: chosen}
                tried.append(_figures(variant, contract))
            figures = "; ".join(
                f"{one['variant']}: macro-F1 {one['macro_f1']:.4f}, agreement {one['agreement']:.4f}"
                for one in tried
            )
            say(f"{source.stem}: no variant passes the gate ({figures})")
    return paths


def _contract(source: Source, flatbuffer: bytes, precision: str, macs: int, per_class: int) -> Contract:
    input_tensor, output_tensor = tensors(flatbuffer)
    calibration = None
    if precision in CALIBRATED:
        assert source.dataset is not None
        assert source.split is not None
        drawn = representative_photographs(source.dataset, source.split, per_class)
        calibration = {
            "images": len(drawn),
            "per_class": per_class,
            "seed": CALIBRATION_SEED,
            "part": "training",
        }
    return Contract(
        labels=source.labels,
        input=source.spec,
        precision=precision,
        architecture=source.model.name,
        parameters=parameters(source.model),
        macs=macs,
        input_tensor=input_tensor,
        output_tensor=output_tensor,
        training=source.training,
        calibration=calibration,
        versions=package_versions(),
    )


def _scored(
    contract: Contract,
    flatbuffer: bytes,
    path: Path,
    reference: Reference | None,
    say: Callable[[str], None],
) -> Contract:
    """The contract with the file's score on the reference's photographs, where there are some."""
    if reference is None:
        return contract
    say(f"checking {path.name} against Keras on {len(reference.pictures)} test photographs")
    # A classifier opens files; this one gets its own name only when its score is in it.
    trial = path.with_name(f".{path.name}.unchecked")
    try:
        contract = write_model(trial, flatbuffer, contract)
        with progress(f"checking {path.name}", len(reference.pictures)) as step:
            output = run_model(Classifier.open(trial), reference.pictures, step)
    finally:
        trial.unlink(missing_ok=True)
    assert contract.training is not None
    found = score(
        reference.output,
        output,
        reference.truth,
        reference.dataset,
        reference.split,
        "test",
        contract.training.weights_digest,
        reference.baseline,
    )
    return dataclasses.replace(contract, scores=(found,))


def _variants(
    source: Source, graph: Graph, original: bytes, plain: bytes
) -> Iterator[tuple[str, str, int, bytes]]:
    """What is tried where plain int8 fails, cheapest for the device first.

    Yields:
        Name of the variant, precision, calibration photographs of each class, flatbuffer.
    """
    count = source.per_class
    pictures = source.representative(count)
    more = source.representative(MORE_CALIBRATION * count)
    if len(more) > len(pictures):
        name = f"int8 calibrated on {len(more)} pictures"
        yield name, "int8", MORE_CALIBRATION * count, convert_graph(graph, "int8", more)
    yield "int16x8", "int16x8", count, convert_graph(graph, "int16x8", pictures)
    noises = compare(plain, original, pictures[:: max(1, count // 2)])
    for share in FLOAT_SHARES:
        names = noisiest(noises, share)
        if not names:
            return
        name = f"int8 with {len(names)} layers in float ({', '.join(names)})"
        yield name, "int8", count, convert_graph(graph, "int8", pictures, names)


def _refer(source: Source, say: Callable[[str], None]) -> Reference | None:
    dataset, split = source.dataset, source.split
    if dataset is None or split is None:
        return None
    say("reading the test part")
    photographs = part_of(split, dataset, "test")
    with progress("reading the test part", len(photographs)) as step:
        pictures, truth = load_pictures(dataset, photographs, source.spec, step)
    output = predict(source.model, pictures, batch=8)
    return Reference(dataset, split, pictures, truth, output, time_baseline(dataset, split))


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
    """Train a network on one split, write its model files, and calibrate int8: one task of `mango-convert all`.

    With `bar` a progress bar is drawn; else each epoch prints a line, as several tasks do side by side. Temperature,
    threshold and appearance are fitted for the files that go to a device, int8 or its `auto` variant.

    Returns:
        precision -> path, and of the conversions that were made file name -> {"seconds", "processor_seconds",
        "peak_bytes"}.

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
        costs[file] = {
            "seconds": spent.seconds,
            "processor_seconds": spent.processor,
            "peak_bytes": spent.peak,
        }

    paths = write_model_files(
        trained, dataset, split, schedule, spec, precisions, out / "models", per_class, complain, auto, spend
    )
    for precision in ("int8", AUTO):
        path = paths.get(precision)
        if path is not None and TEMPERATURE not in read_model(path).contract.extra:
            complain(f"calibrating the confidence of {path.name}")
            try:
                calibrate(path, dataset, split)
            except InputError as error:  # too few photographs: the file works all the same
                complain(f"{path.name} has no calibrated confidence: {error}")
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
