"""Training that survives being killed: the same weights come out as if it had run through.

Every epoch's order is drawn from its own Generator (seed, epoch), and after every epoch the model with its
optimiser is saved before the history that names it. A run that was killed goes on from the last whole epoch.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from convert.architecture import build, choose_head, freeze, full_name
from convert.architecture import head as dense_layers
from convert.backend import keras, one_line, tf
from convert.dataset import Dataset, Photograph
from convert.given import HISTORY
from convert.score import accuracy, confusion_matrix, macro_f1
from convert.split import Split, part_of
from convert.weights import NONE, Origin, load
from edge.errors import InputError
from edge.files import check_folder, sync_folder, write_atomic
from edge.preprocessing import InputSpec, Pixels, fit, read_photograph

Value = TypeVar("Value")


@dataclass(frozen=True)
class Schedule:
    """How to train. The defaults are the published study's.

    Attributes:
        epochs, batch, learning_rate, seed: of Adam, categorical cross-entropy, the order of photographs.
        layers: "all", or "head" to train the dense layers at the end alone, under weights that stay as they
            were loaded.
        head_epochs: with "all", so many epochs train the head alone first, so that a random head does not
            spoil loaded weights.
        fine_tuning_rate: Adam's step size after those epochs.
    """

    epochs: int = 50
    batch: int = 32
    learning_rate: float = 1e-3
    seed: int = 7
    layers: str = "all"
    head_epochs: int = 0
    fine_tuning_rate: float = 1e-5

    def head_alone(self, epoch: int) -> bool:
        """Whether this epoch (from 1) trains the head alone."""
        return self.layers == "head" or epoch <= self.head_epochs

    def rate(self, epoch: int) -> float:
        """Adam's step size in this epoch (from 1)."""
        after = self.layers == "all" and 0 < self.head_epochs < epoch
        return self.fine_tuning_rate if after else self.learning_rate


@dataclass(frozen=True)
class Epoch:
    """What one epoch gave; losses are mean cross-entropies in nats, scores 0..1 on the validation part."""

    epoch: int
    loss: float
    validation_loss: float
    validation_accuracy: float
    validation_macro_f1: float


@dataclass(frozen=True)
class Trained:
    """The outcome of a training: the best epoch's model and where it came from."""

    model: keras.Model
    history: tuple[Epoch, ...]
    best: Epoch
    weights_digest: str


def load_pictures(
    dataset: Dataset,
    photographs: Sequence[Photograph],
    spec: InputSpec,
    progress: Callable[[], None] | None = None,
) -> tuple[Pixels, npt.NDArray[np.int64]]:
    """Read photographs through the shared preprocessing.

    Returns:
        uint8 pictures (n, height, width, 3) and int64 positions (n,) in `dataset.labels`.

    Raises:
        InputError: a photograph cannot be read.
    """
    pictures = np.empty((len(photographs), spec.height, spec.width, 3), dtype=np.uint8)
    for position, photograph in enumerate(photographs):
        pictures[position] = fit(read_photograph(dataset.root / photograph.path, spec.exif), spec)
        if progress is not None:
            progress()
    labels = np.array([dataset.labels.index(photograph.label) for photograph in photographs], dtype=np.int64)
    return pictures, labels


def weights_digest(model: keras.Model) -> str:
    """SHA-256 over the shapes and bytes of the model's weights, in order."""
    digest = hashlib.sha256()
    for weight in model.get_weights():
        digest.update(f"{weight.dtype} {weight.shape};".encode())
        digest.update(np.ascontiguousarray(weight).tobytes())
    return digest.hexdigest()


def predict(model: keras.Model, pictures: npt.NDArray[Any], batch: int = 32) -> npt.NDArray[np.float32]:
    """Probabilities (n, classes) float32 of pictures (n, height, width, 3), or of what else the model takes.

    A model that takes a fixed number of pictures gets so many.
    """
    batch = model.inputs[0].shape[0] or batch
    outputs = [
        np.asarray(model(pictures[start : start + batch].astype(np.float32), training=False))
        for start in range(0, len(pictures), batch)
    ]
    return np.concatenate(outputs).astype(np.float32)


def train(
    architecture: str,
    dataset: Dataset,
    split: Split,
    folder: Path,
    spec: InputSpec | None = None,
    schedule: Schedule | None = None,
    report: Callable[[str, float], None] | None = None,
    weights: Origin | None = None,
    head: str | None = None,
) -> Trained:
    """Train `architecture` on the split's training part; go on where an earlier run in `folder` stopped.

    Adam, categorical cross-entropy, no augmentation. The epoch with the best macro-F1 on the validation part
    is kept (of equal ones that with the smaller loss). The test part is not touched. While the head alone is
    trained the body's outputs never change, so they are computed once.

    Args:
        folder: keeps the checkpoints; belongs to one training.
        report: called with a text and the share done (0..1).
        weights: where the first weights come from; None for random ones.
        head: a key of `convert.architecture.HEADS`; None for the network's default.

    Raises:
        InputError: unreadable data or weights, or `folder` belongs to another training or takes no files.
    """
    spec, schedule = spec or InputSpec(), schedule or Schedule()
    weights = weights or Origin(NONE)
    _check(schedule, weights)
    default = Schedule()
    purpose: dict[str, Any] = {
        "architecture": architecture,
        "data": dataset.digest,
        "split": split.digest,
        "input": asdict(spec),
        # More epochs than last time continue the same training; anything else is another one. What has its
        # default is left out, so that a training goes on under a version that knows more options.
        "schedule": {
            key: value
            for key, value in asdict(schedule).items()
            if key in ("batch", "learning_rate", "seed")
            or (key != "epochs" and value != getattr(default, key))
        },
        "versions": {"tensorflow": tf.__version__, "keras": keras.__version__},
    }
    if weights.source != NONE:
        purpose["weights"] = weights.name
    if choose_head(architecture, head) != choose_head(architecture, None):
        purpose["head"] = head
    keras.utils.set_random_seed(schedule.seed)
    tf.config.experimental.enable_op_determinism()
    history = _read_history(folder, purpose)
    if len(history) > schedule.epochs:
        raise InputError(
            f"{folder}: already holds {len(history)} epochs, more than the {schedule.epochs} asked for"
        )
    if len(history) < schedule.epochs:
        check_folder(folder)
    network_name = full_name(architecture, choose_head(architecture, head))
    if history:
        model = _load(folder / _checkpoint(history[-1].epoch), network_name, len(dataset.labels), spec)
    else:
        model = build(architecture, len(dataset.labels), spec, head)
        load(model, architecture, weights)
    if len(history) < schedule.epochs:
        pictures, labels = load_pictures(dataset, part_of(split, dataset, "training"), spec)
        seen, seen_labels = load_pictures(dataset, part_of(split, dataset, "validation"), spec)
    network = model
    values: npt.NDArray[Any] | None = None
    for number in range(len(history) + 1, schedule.epochs + 1):
        head_alone = schedule.head_alone(number)
        if number == 1 or head_alone != schedule.head_alone(number - 1):
            freeze(model, head_alone, keep_statistics=weights.source != NONE)
            model.compile(keras.optimizers.Adam(schedule.rate(number)), "sparse_categorical_crossentropy")
            values = None
        if values is None:
            network, values = model, pictures
            seen_values: npt.NDArray[Any] = seen
            if head_alone:
                before, network = _parts(model)
                values = _features(before, pictures, report, (number - 1) / schedule.epochs)
                seen_values = _features(before, seen, report, (number - 1) / schedule.epochs)
        order = np.random.default_rng([schedule.seed, number]).permutation(len(values))
        losses: list[float] = []
        for start in range(0, len(order), schedule.batch):
            chosen = order[start : start + schedule.batch]
            losses.append(float(network.train_on_batch(values[chosen].astype(np.float32), labels[chosen])))
            # Keras reports the mean since the metrics were last reset; each batch is wanted by itself.
            network.reset_metrics()
            if report is not None:
                done = (number - 1 + start / len(order)) / schedule.epochs
                report(f"epoch {number} of {schedule.epochs}, loss {np.mean(losses):.3f}", done)
        probabilities = predict(network, seen_values)
        matrix = confusion_matrix(seen_labels, probabilities.argmax(axis=1), len(dataset.labels))
        right = probabilities[np.arange(len(seen)), seen_labels].astype(np.float64)
        history.append(
            Epoch(
                epoch=number,
                loss=float(np.mean(losses)),
                validation_loss=float(-np.log(np.maximum(right, 1e-7)).mean()),
                validation_accuracy=accuracy(matrix),
                validation_macro_f1=macro_f1(matrix),
            )
        )
        _save(model, folder, history, purpose)
        if report is not None:
            last = history[-1]
            report(
                f"epoch {number} of {schedule.epochs}, validation macro-F1 {last.validation_macro_f1:.3f}",
                number / schedule.epochs,
            )
    best = _best(history)
    model = _load(folder / _checkpoint(best.epoch), network_name, len(dataset.labels), spec)
    return Trained(model, tuple(history), best, weights_digest(model))


def choose_schedule(
    weights: Origin,
    epochs: int = 50,
    batch: int = 32,
    learning_rate: float = 1e-3,
    seed: int = 7,
    layers: str | None = None,
    head_epochs: int = 0,
    fine_tuning_rate: float = 1e-5,
) -> Schedule:
    """A schedule for weights from `weights`; without a choice of layers, loaded weights stay as they are.

    With head epochs all layers follow after them. That is what is meant by giving them.

    Raises:
        InputError: the options contradict each other.
    """
    if layers is None:
        layers = "all" if weights.source == NONE or head_epochs else "head"
    schedule = Schedule(epochs, batch, learning_rate, seed, layers, head_epochs, fine_tuning_rate)
    _check(schedule, weights)
    return schedule


def _check(schedule: Schedule, weights: Origin) -> None:
    if schedule.layers not in ("all", "head"):
        raise InputError(f"layers {schedule.layers!r}: train all of them or the head alone (all, head)")
    if weights.source == NONE and (schedule.layers == "head" or schedule.head_epochs):
        raise InputError(
            "training the head alone needs weights under it; give --weights imagenet or a file, or train all"
        )
    if schedule.layers == "head" and schedule.head_epochs:
        raise InputError("head epochs come before all layers are trained; with layers head there are none")


def _parts(model: keras.Model) -> tuple[keras.Model, keras.Model]:
    """The model up to its dense head, and the head as a model of its own with the same weights and optimiser."""
    layers = dense_layers(model)
    before = keras.Model(model.inputs[0], layers[0].input)
    values = features = keras.Input(layers[0].input.shape[1:])
    for layer in layers:
        values = layer(values)
    network = keras.Model(features, values)
    network.compile(model.optimizer, "sparse_categorical_crossentropy")
    return before, network


def _features(
    before: keras.Model, pictures: Pixels, report: Callable[[str, float], None] | None, done: float
) -> npt.NDArray[np.float32]:
    found = []
    for start in range(0, len(pictures), 32):
        if report is not None:
            report(f"computing features of {start} of {len(pictures)} photographs", done)
        found.append(predict(before, pictures[start : start + 32]))
    return np.concatenate(found)


def finished(folder: Path, dataset: Dataset, split: Split) -> tuple[Trained, Schedule, InputSpec]:
    """A training as it stands in its folder, checked against the data and split it is said to belong to.

    Raises:
        InputError: no training there, or of other data or another split.
    """
    purpose, history = _read(folder / HISTORY)
    if not history:
        raise InputError(f"{folder}: no training here; make one with: mango-convert train")
    for what, given in (("data", dataset.digest), ("split", split.digest)):
        if purpose.get(what) != given:
            raise InputError(f"{folder}: was trained with another {what} than the one given; give the same")
    try:
        schedule = _made(Schedule, {**purpose["schedule"], "epochs": len(history)})
        spec = _made(InputSpec, purpose["input"])
        name = full_name(purpose["architecture"], choose_head(purpose["architecture"], purpose.get("head")))
    except (KeyError, TypeError, ValueError, AttributeError, InputError) as error:
        raise _unusable(folder / HISTORY, error) from None
    best = _best(history)
    model = _load(folder / _checkpoint(best.epoch), name, len(dataset.labels), spec)
    return Trained(model, tuple(history), best, weights_digest(model)), schedule, spec


def _best(history: Sequence[Epoch]) -> Epoch:
    return max(history, key=lambda epoch: (epoch.validation_macro_f1, -epoch.validation_loss))


def _checkpoint(epoch: int) -> str:
    return f"epoch-{epoch:03d}.keras"


def _save(model: keras.Model, folder: Path, history: Sequence[Epoch], purpose: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    last = history[-1].epoch
    temporary = folder / "saving.keras"
    model.save(temporary)
    with open(temporary, "rb") as file:
        os.fsync(file.fileno())
    os.replace(temporary, folder / _checkpoint(last))
    sync_folder(folder)
    text = json.dumps({"purpose": purpose, "epochs": [asdict(epoch) for epoch in history]}, indent=1)
    write_atomic(folder / HISTORY, text.encode())
    keep = {_checkpoint(last), _checkpoint(_best(history).epoch)}
    for old in folder.glob("epoch-*.keras"):
        if old.name not in keep:
            old.unlink()


def _read(path: Path) -> tuple[dict[str, Any], list[Epoch]]:
    if not path.exists():
        return {}, []
    try:
        values = json.loads(path.read_text())
        history = [_made(Epoch, epoch) for epoch in values["epochs"]]
        if [epoch.epoch for epoch in history] != list(range(1, len(history) + 1)):
            raise ValueError("its epochs are not numbered from 1 on")
        return dict(values["purpose"]), history
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _unusable(path, error) from None


def _made(kind: type[Value], values: Mapping[str, Any]) -> Value:
    """A dataclass of numbers and texts from JSON's values; a TypeError where one has another type."""
    types: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "str": (str,)}
    for field in fields(kind):  # type: ignore[arg-type]
        value = values.get(field.name)
        if field.name in values and (
            isinstance(value, bool) or not isinstance(value, types[str(field.type)])
        ):
            raise TypeError(f"{field.name} is {value!r}")
    return kind(**values)


def _unusable(path: Path, error: Exception) -> InputError:
    return InputError(
        f"{path}: unusable training history ({type(error).__name__}: {one_line(error)}); remove the folder to start"
        " afresh"
    )


def _read_history(folder: Path, purpose: dict[str, Any]) -> list[Epoch]:
    found, history = _read(folder / HISTORY)
    different = [key for key in {**purpose, **found} if found.get(key) != purpose.get(key)]
    if history and different:
        raise InputError(
            f"{folder}: holds a training with another {' and '.join(different)}; give another folder or remove it"
        )
    return history


def _load(path: Path, name: str, classes: int, spec: InputSpec) -> keras.Model:
    """The checkpoint of a training of the network called `name`."""
    try:
        model = keras.saving.load_model(path)
        found = (model.name, tuple(model.inputs[0].shape[1:]), model.outputs[0].shape[-1], model.compiled)
    # Keras raises what the zip or HDF5 reader or a layer raises; what is no network lacks inputs.
    except Exception as error:
        raise InputError(
            f"{path}: unusable checkpoint ({one_line(error)}); remove its folder to start afresh"
        ) from None
    if found != (name, (spec.height, spec.width, 3), classes, True):
        raise InputError(
            f"{path}: holds another network than the {name} for {classes} classes that was trained here; remove its"
            " folder to start afresh"
        )
    return model
