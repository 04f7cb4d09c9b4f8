"""From a finished training to model files with contracts, each checked against Keras."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

from convert.architecture import multiply_accumulates
from convert.baseline import time_baseline
from convert.dataset import Dataset
from convert.parity import run_model, score
from convert.split import Split, part_of
from convert.tflite import (
    CALIBRATION_SEED,
    PER_CLASS,
    convert,
    package_versions,
    representative_photographs,
    tensors,
)
from convert.training import Schedule, Trained, load_pictures, predict
from edge.classifier import Classifier
from edge.contract import Contract, Score, Training, read_model, write_model
from edge.preprocessing import InputSpec

PRECISIONS = ("float32", "float16", "dynamic", "int8")
"""Made by default."""


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
) -> dict[str, Path]:
    """Convert the best epoch to each precision, score it on the test part, and write the model files.

    The files are `<architecture>-<split>-<precision>.tflite` in `folder`.

    Returns:
        precision -> path.

    Raises:
        InputError: unreadable data or a model that cannot be converted.
    """
    say = report or (lambda text: None)
    model = trained.model
    say("reading the test part")
    test = part_of(split, dataset, "test")
    pictures, truth = load_pictures(dataset, test, spec)
    keras_output = predict(model, pictures)
    baseline = time_baseline(dataset, split)
    chosen = representative_photographs(dataset, split, per_class)
    representative, _ = load_pictures(dataset, chosen, spec)
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
    calibration = {
        "images": len(chosen),
        "per_class": per_class,
        "seed": CALIBRATION_SEED,
        "part": "training",
    }
    paths = {}
    for precision in precisions:
        say(f"converting {model.name} to {precision}")
        flatbuffer = convert(model, precision, representative)
        input_tensor, output_tensor = tensors(flatbuffer)
        contract = Contract(
            labels=dataset.labels,
            input=spec,
            precision=precision,
            architecture=model.name,
            parameters=int(model.count_params()),
            macs=int(multiply_accumulates(model)),
            input_tensor=input_tensor,
            output_tensor=output_tensor,
            training=training,
            calibration=calibration if precision == "int8" else None,
            versions=package_versions(),
        )
        path = folder / f"{model.name}-{split.name}-{precision}.tflite"
        contract = write_model(path, flatbuffer, contract)
        say(f"checking {path.name} against Keras on {len(test)} test photographs")
        output = run_model(Classifier.open(path), pictures)
        found = score(keras_output, output, truth, dataset, split, "test", trained.weights_digest, baseline)
        write_model(path, flatbuffer, dataclasses.replace(contract, scores=(found,)))
        paths[precision] = path
    return paths


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
        write_model(
            model.path,
            model.flatbuffer,
            dataclasses.replace(model.contract, scores=(*own, *others)),
            dict(model.members),
        )


def _own(contract: Contract, entry: Score) -> bool:
    return contract.training is not None and entry.weights_digest == contract.training.weights_digest
