"""What an image model makes of each picture: its embedding (input of the last dense layer) and probabilities."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from convert.dataset import Dataset
from convert.split import KINDS, Split, identity, make_split
from edge.classifier import Classifier
from edge.contract import read_model
from edge.errors import InputError
from edge.files import write_atomic
from edge.preprocessing import fit, read_photograph
from edge.runtime import open_interpreter

FORMAT = "mango-leaf-embedding"
VERSION = 1
MAXIMUM_BYTES = 4 * 2**30
MAXIMUM_WIDTH = 65_536
_MEMBERS = (
    "format",
    "version",
    "model",
    "labels",
    "paths",
    "identities",
    "part",
    "probabilities",
    "embedding",
)
_TOLERANCE = 0.01

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Embeddings:
    """Of the pictures of a data set.

    Attributes:
        model: digest of the model file, "" where unknown.
        labels: class names of the model.
        paths, identities: of each picture (identity: as split files call it; "" where unknown).
        part: of the split that the model was trained on, each picture's part; "" where unknown.
        probabilities: float32 (pictures, labels), 0..1.
        embedding: float32 (pictures, width); None where only predictions are known.
    """

    model: str
    labels: tuple[str, ...]
    paths: tuple[str, ...]
    identities: tuple[str, ...]
    part: tuple[str, ...]
    probabilities: Floats
    embedding: Floats | None


class Embedder:
    """A model file opened so that the input of its last dense layer can be read. Runs on the plain kernels:
    the XNNPACK delegate hides what lies between its layers."""

    def __init__(self, path: Path | str, runtime: str = "auto", threads: int = 1) -> None:
        """Open a model file.

        Raises:
            InputError: the file or runtime is at fault, or the network has no dense layer.
        """
        model = read_model(path)
        interpreter, loaded = open_interpreter(
            model.flatbuffer, runtime, threads, xnnpack=False, where=str(path), keep_tensors=True
        )
        self.classifier = Classifier(model, interpreter, loaded)
        dense = [
            operation
            for operation in interpreter._get_ops_details()
            if operation["op_name"] == "FULLY_CONNECTED"
        ]
        if not dense:
            raise InputError(
                f"{path}: has no dense layer to take an embedding from; give its predictions instead"
            )
        self._index = int(dense[-1]["inputs"][0])
        details = next(
            tensor for tensor in interpreter.get_tensor_details() if tensor["index"] == self._index
        )
        self._scale, self._zero_point = details["quantization"]
        self.width = int(np.prod(details["shape"]))
        if self.width > MAXIMUM_WIDTH:
            raise InputError(
                f"{path}: the input of its last dense layer has {self.width:,} values, more than {MAXIMUM_WIDTH:,}"
            )

    def embed(self, path: Path) -> tuple[Floats, Floats]:
        """Embedding (width,) and probabilities (labels,) of a picture, both float32."""
        spec = self.classifier.contract.input
        probabilities = self.classifier.probabilities(fit(read_photograph(path, spec.exif), spec))
        raw = self.classifier.interpreter.get_tensor(self._index).reshape(-1)
        if self._scale:
            raw = np.float32(self._scale) * (raw.astype(np.int32) - self._zero_point)
        return raw.astype(np.float32), probabilities


def training_split(dataset: Dataset, model: Path | str) -> Split | None:
    """The split that the model's weights were trained on, where it can be drawn again for these data."""
    contract = read_model(model).contract
    training = contract.training
    if training is None or training.data_digest != dataset.digest or training.split not in KINDS:
        return None
    seeds = [score.seed for score in contract.scores if score.split_digest == training.split_digest]
    for seed in dict.fromkeys([*seeds, training.seed]):
        split = make_split(training.split, dataset, seed)
        if split.digest == training.split_digest:
            return split
    return None


def embed(
    model: Path | str,
    dataset: Dataset,
    split: Split | None = None,
    runtime: str = "auto",
    report: Callable[[], None] | None = None,
) -> Embeddings:
    """Embed every picture of a data set.

    Args:
        split: the split that the model was trained on, so that the audit knows which pictures it has seen.
        report: called after each picture.

    Raises:
        InputError: model, runtime or a picture is unusable, or the split is not the model's.
    """
    embedder = Embedder(model, runtime)
    contract = embedder.classifier.contract
    if split is not None and contract.training is not None and split.digest != contract.training.split_digest:
        raise InputError(f"{model}: was trained on another split than {split.name}; give that one")
    count = len(dataset.photographs)
    embedding = np.zeros((count, embedder.width), np.float32)
    probabilities = np.zeros((count, len(contract.labels)), np.float32)
    for row, photograph in enumerate(dataset.photographs):
        embedding[row], probabilities[row] = embedder.embed(dataset.root / photograph.path)
        if report is not None:
            report()
    names = tuple(identity(photograph) for photograph in dataset.photographs)
    parts = {name: part for part, members in (split.parts if split else {}).items() for name in members}
    return Embeddings(
        embedder.classifier.model.digest,
        contract.labels,
        tuple(photograph.path for photograph in dataset.photographs),
        names,
        tuple(parts.get(name, "") for name in names),
        probabilities,
        embedding,
    )


def write_embeddings(found: Embeddings, path: Path) -> None:
    """Save as .npz, atomically; the same embeddings give the same bytes."""
    buffer = io.BytesIO()
    values: dict[str, Any] = {
        "format": np.array(FORMAT),
        "version": np.array(VERSION),
        "model": np.array(found.model),
        "labels": np.array(found.labels),
        "paths": np.array(found.paths),
        "identities": np.array(found.identities),
        "part": np.array(found.part),
        "probabilities": found.probabilities,
        "embedding": np.zeros((0, 0), np.float32) if found.embedding is None else found.embedding,
    }
    np.savez_compressed(buffer, **values)
    write_atomic(path, buffer.getvalue())


def read_embeddings(path: Path) -> Embeddings:
    """Read what `mango-bench embed` wrote, or the CSV of `mango-edge classify --csv`.

    Raises:
        InputError: the file is missing, damaged, too large, or neither of the two.
    """
    try:
        size = path.stat().st_size
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path") from None
    if size > MAXIMUM_BYTES:
        raise InputError(f"{path}: {size:,} bytes are more than the {MAXIMUM_BYTES:,} that are accepted")
    return _read_csv(path) if path.suffix.lower() == ".csv" else _read_npz(path)


def _read_npz(path: Path) -> Embeddings:
    again = "make it again with: mango-bench embed"
    try:
        with zipfile.ZipFile(path) as archive:
            sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
        if set(sizes) != {f"{name}.npy" for name in _MEMBERS}:
            raise InputError(f"{path}: not a file of embeddings; {again}")
        if sum(sizes.values()) > MAXIMUM_BYTES:
            raise InputError(f"{path}: unpacks to more than the {MAXIMUM_BYTES:,} bytes that are accepted")
        with np.load(path, allow_pickle=False) as file:
            values = {name: file[name] for name in _MEMBERS}
    except InputError:
        raise
    # zipfile, zlib and numpy raise what the damage leads them into; pickled arrays raise ValueError.
    except Exception as error:
        cause = " ".join(str(error).split())[:120]
        raise InputError(f"{path}: no file of embeddings that can be read ({cause}); {again}") from None
    if str(values["format"]) != FORMAT:
        raise InputError(f"{path}: not a file of embeddings; {again}")
    if (
        values["version"].shape != ()
        or values["version"].dtype.kind != "i"
        or int(values["version"]) > VERSION
    ):
        raise InputError(f"{path}: of a newer version than this program reads; update it")
    count, labels = values["paths"].size, values["labels"].size
    embedding = values["embedding"]
    right = (
        all(values[name].ndim == 1 and values[name].dtype.kind == "U" for name in ("labels", "paths"))
        and values["model"].shape == ()
        and values["model"].dtype.kind == "U"
        and all(
            values[name].shape == (count,) and values[name].dtype.kind == "U"
            for name in ("identities", "part")
        )
        and values["probabilities"].shape == (count, labels)
        and embedding.ndim == 2
        and len(embedding) in (0, count)
        and all(values[name].dtype == np.float32 for name in ("probabilities", "embedding"))
        and bool(np.isfinite(embedding).all() and _are_probabilities(values["probabilities"]))
        and len(set(values["labels"].tolist())) == labels
        and len(set(values["paths"].tolist())) == count
    )
    if not right or not count:
        raise InputError(f"{path}: damaged embeddings (sizes, types or values do not fit); {again}")
    return Embeddings(
        str(values["model"]),
        tuple(str(label) for label in values["labels"]),
        tuple(str(name) for name in values["paths"]),
        tuple(str(name) for name in values["identities"]),
        tuple(str(name) for name in values["part"]),
        values["probabilities"],
        embedding if len(embedding) and embedding.shape[1] else None,
    )


def _read_csv(path: Path) -> Embeddings:
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            rows = list(csv.reader(file, strict=True))
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not CSV text ({error})") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path") from None
    header = rows[0] if rows else []
    pairs = [(f"label_{rank}", f"probability_{rank}") for rank in range(1, 1001)]
    pairs = [(label, p) for label, p in pairs if label in header and p in header]
    if "path" not in header or not pairs or len(rows) < 2:
        raise InputError(
            f"{path}: needs the columns path, label_1, probability_1, ... as mango-edge classify --csv writes them"
        )
    column = {name: position for position, name in enumerate(header)}
    answers: dict[str, dict[str, float]] = {}
    for number, row in enumerate(rows[1:], 2):
        if not row:
            continue
        try:
            name = row[column["path"]]
            answer = {row[column[label]]: float(row[column[p]]) for label, p in pairs}
        except (IndexError, ValueError):
            raise InputError(f"{path}: line {number} is not a prediction; make the file again") from None
        if "" in answer or len(answer) < len(pairs):
            raise InputError(
                f"{path}: line {number} names a class twice or leaves one out; make the file again"
            )
        if name in answers:
            raise InputError(f"{path}: line {number} is a second prediction for {name}; remove one of them")
        answers[name] = answer
    if not answers:
        raise InputError(f"{path}: holds no prediction; make the file again")
    labels = tuple(sorted({label for answer in answers.values() for label in answer}))
    probabilities = np.array(
        [[answer.get(label, 0.0) for label in labels] for answer in answers.values()], np.float32
    )
    if not _are_probabilities(probabilities):
        raise InputError(f"{path}: holds probabilities that are not from 0 to 1; make the file again")
    blank = ("",) * len(answers)
    return Embeddings("", labels, tuple(answers), blank, blank, probabilities, None)


def _are_probabilities(values: Floats) -> bool:
    # A dequantised output may overshoot by a step.
    return bool(((values >= -_TOLERANCE) & (values <= 1 + _TOLERANCE)).all())
