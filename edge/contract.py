"""The contract that a model file carries: what goes in, what comes out, where the weights come from.

A model file is a TFLite flatbuffer with a small zip appended, the way TFLite metadata carries label files;
every TFLite runtime opens it and ignores the tail. The zip's `metadata.json` is the contract. Its
`flatbuffer` entry holds the length and SHA-256 of the bytes in front, so a file that was cut, edited or
glued together from two is noticed.
"""

from __future__ import annotations

import dataclasses
import io
import json
import math
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edge.errors import InputError
from edge.files import read_regular, sha256, write_atomic
from edge.json_value import (
    Check,
    anything,
    is_printable,
    items,
    maybe,
    one_of,
    real,
    record,
    table,
    text,
    whole,
    wrong,
)
from edge.preprocessing import InputSpec

FORMAT = "mango-leaf-model"
VERSION = 1
METADATA = "metadata.json"
PRECISIONS = ("float32", "float16", "dynamic", "int8", "int16x8")
MAXIMUM_BYTES = 2**30
MAXIMUM_METADATA = 2**20
_TENSOR_TYPES = ("float32", "uint8", "int8", "int16")
_MAKE_AGAIN = "make it again with: mango-convert tflite"


@dataclass(frozen=True)
class Tensor:
    """Type, shape and quantisation of the model's input or output.

    A quantised value q stands for scale * (q - zero_point); scale 0 means not quantised.
    """

    dtype: str
    shape: tuple[int, ...]
    scale: float = 0.0
    zero_point: int = 0


@dataclass(frozen=True)
class Score:
    """How the weights score on one part of one split, and how this file compares with the float original.

    Attributes:
        split, seed, part: which photographs, for example "burst", 7, "test".
        split_digest: digest of the split file.
        weights_digest: the weights that were scored; a score whose digest is not the contract's own belongs
            to the sister model trained on that other split.
        images: number of photographs.
        accuracy, macro_f1: of this precision, 0..1.
        keras_accuracy, keras_macro_f1: of the float Keras model on the same photographs.
        agreement: share of photographs with the same label from both, 0..1.
        largest_difference: largest absolute difference of a probability, 0..1.
        per_class: label -> {"precision", "recall", "images"}.
        time_baseline: accuracy and macro-F1 of a classifier that sees the capture time alone, on the same
            split (see `convert.baseline`); None where the capture times are not known.
    """

    split: str
    seed: int
    part: str
    split_digest: str
    weights_digest: str
    images: int
    accuracy: float
    macro_f1: float
    keras_accuracy: float
    keras_macro_f1: float
    agreement: float
    largest_difference: float
    per_class: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    time_baseline: Mapping[str, float] | None = None


@dataclass(frozen=True)
class Training:
    """Where the weights come from; `weights_digest` is the SHA-256 of all weight arrays in order."""

    data_digest: str
    images: int
    split: str
    split_digest: str
    seed: int
    epochs: int
    best_epoch: int
    weights_digest: str


@dataclass(frozen=True)
class Contract:
    """All that a device must know of a model. See the module's docstring for where it is kept.

    Attributes:
        labels: class names in the order of the output.
        input: preprocessing (`edge.preprocessing.InputSpec`).
        precision: one of `PRECISIONS`.
        architecture: for example "lcnn".
        parameters, macs: trained parameters, and multiply-accumulates of one inference.
        input_tensor, output_tensor: what the flatbuffer must show when it is opened.
        training: origin of the weights; None for weights that were never trained.
        calibration: the representative data set ("images", "per_class", "seed", "part"); None where the
            precision needs none.
        scores: see `Score`.
        versions: package name -> version that made the file.
        flatbuffer_sha256, flatbuffer_bytes: filled in by `write_model`.
        extra: further JSON values that later tools keep in the file (for example "temperature").
    """

    labels: tuple[str, ...]
    input: InputSpec
    precision: str
    architecture: str
    parameters: int
    macs: int
    input_tensor: Tensor
    output_tensor: Tensor
    training: Training | None = None
    calibration: Mapping[str, Any] | None = None
    scores: tuple[Score, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    flatbuffer_sha256: str = ""
    flatbuffer_bytes: int = 0
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ModelFile:
    """A model file that was read and checked: its path, contract, flatbuffer, and digest of the whole file."""

    path: Path
    contract: Contract
    flatbuffer: bytes
    digest: str
    members: Mapping[str, bytes]


def write_model(
    path: Path, flatbuffer: bytes, contract: Contract, members: Mapping[str, bytes] | None = None
) -> Contract:
    """Write a model file atomically; the same flatbuffer and contract give the same bytes.

    Args:
        path: the file to write.
        flatbuffer: a TFLite model.
        contract: its contract; length and digest of the flatbuffer are filled in here.
        members: further files for the zip, by name.

    Returns:
        The contract as written.

    Raises:
        InputError: the contract is one that `read_model` would refuse.
    """
    contract = dataclasses.replace(
        contract, flatbuffer_sha256=sha256(flatbuffer), flatbuffer_bytes=len(flatbuffer)
    )
    values = contract_to_json(contract)
    metadata = json.dumps(values, indent=1, sort_keys=True, ensure_ascii=False)
    # No file may be written that would be refused when it is read.
    contract_from_json(json.loads(metadata), str(path))
    buffer = io.BytesIO()
    buffer.write(flatbuffer)
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in {METADATA: metadata.encode(), **(members or {})}.items():
            # A fixed time and fixed permissions: the bytes depend on the content alone.
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            entry.create_system = 3
            archive.writestr(entry, data)
    write_atomic(path, buffer.getvalue())
    return contract


def read_model(path: Path | str) -> ModelFile:
    """Read a model file and check it against its own contract.

    Raises:
        InputError: the file is missing, not TFLite, truncated, without a contract, or does not match it.
    """
    path = Path(path)
    try:
        data = read_regular(path, "a model file", MAXIMUM_BYTES)
    except FileNotFoundError:
        raise InputError(f"{path}: no such model file; check the path") from None
    except OSError as error:
        raise InputError(f"{path}: the model file cannot be read ({error.strerror or error})") from None
    if data[4:8] != b"TFL3":
        raise InputError(f"{path}: not a TFLite model; {_MAKE_AGAIN}")
    members = _read_members(path, data)
    try:
        values = json.loads(members.pop(METADATA).decode(), object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: its contract is not valid JSON ({error}); {_MAKE_AGAIN}") from None
    contract = contract_from_json(values, str(path))
    flatbuffer = data[: contract.flatbuffer_bytes]
    if len(flatbuffer) != contract.flatbuffer_bytes or sha256(flatbuffer) != contract.flatbuffer_sha256:
        raise InputError(
            f"{path}: the model's bytes do not match the digest in its contract (damaged or edited); {_MAKE_AGAIN}"
        )
    return ModelFile(path, contract, flatbuffer, sha256(data), members)


def read_contract(path: Path | str) -> Contract:
    """The checked contract of a model file; errors as `read_model`."""
    return read_model(path).contract


def check_tensors(contract: Contract, input_tensor: Tensor, output_tensor: Tensor, where: str) -> None:
    """Compare the tensors of an opened model with its contract.

    Raises:
        InputError: type, shape, scale or zero point differ.
    """
    pairs = (
        ("input", contract.input_tensor, input_tensor),
        ("output", contract.output_tensor, output_tensor),
    )
    for side, promised, found in pairs:
        same = (promised.dtype, promised.shape, promised.zero_point) == (
            found.dtype,
            found.shape,
            found.zero_point,
        )
        # The scale went through JSON and float32; anything beyond rounding is another model.
        if not same or not math.isclose(promised.scale, found.scale, rel_tol=1e-6, abs_tol=0.0):
            raise InputError(
                f"{where}: its {side} is {_describe(found)}, but its contract says {_describe(promised)}; {_MAKE_AGAIN}"
            )


def contract_to_json(contract: Contract) -> dict[str, Any]:
    """The contract as plain JSON values."""
    values = dataclasses.asdict(contract)
    flatbuffer = {"sha256": values.pop("flatbuffer_sha256"), "bytes": values.pop("flatbuffer_bytes")}
    return {"format": FORMAT, "version": VERSION, "flatbuffer": flatbuffer, **values}


def contract_from_json(values: Any, where: str) -> Contract:
    """Build a contract from JSON values, checking each.

    Raises:
        InputError: a value is missing, of the wrong type, out of range, or of a newer format; names `where` and
            the value's field.
    """
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise InputError(f"{where}: its metadata is not a {FORMAT} contract; {_MAKE_AGAIN}")
    version = values.get("version")
    if type(version) is int and version > VERSION:
        raise InputError(
            f"{where}: its contract has version {version}, this program reads up to {VERSION}; update the program"
        )
    try:
        # What a later tool may add beside these fields is left alone; it has `extra` for that.
        known = {name: value for name, value in values.items() if name in _CONTRACT}
        found = record(_CONTRACT, optional=_OPTIONAL)(known, "")
        flatbuffer = found.pop("flatbuffer")
        contract = Contract(
            **{name: value for name, value in found.items() if name not in ("format", "version")},
            flatbuffer_sha256=flatbuffer["sha256"],
            flatbuffer_bytes=flatbuffer["bytes"],
        )
        _check(contract)
    except InputError as error:
        raise InputError(f"{where}: its contract is wrong: {error}; {_MAKE_AGAIN}") from None
    except RecursionError:
        raise InputError(f"{where}: its contract is nested too deeply; {_MAKE_AGAIN}") from None
    return contract


def _check(contract: Contract) -> None:
    """What must hold between fields."""
    labels = contract.labels
    shape = (1, contract.input.height, contract.input.width, 3)
    if contract.input_tensor.shape != shape:
        raise InputError(
            f"input_tensor.shape {contract.input_tensor.shape} does not match the input size {shape}"
        )
    if contract.output_tensor.shape != (1, len(labels)):
        raise InputError(
            f"output_tensor.shape {contract.output_tensor.shape} does not match {len(labels)} labels"
        )
    for side, tensor in (("input_tensor", contract.input_tensor), ("output_tensor", contract.output_tensor)):
        if tensor.dtype != "float32" and not tensor.scale > 0:
            raise InputError(f"{side}.scale is {tensor.scale}, but {tensor.dtype} needs a scale above 0")
    dtype = "uint8" if contract.precision == "int8" else "float32"
    if (
        contract.precision in ("float32", "float16", "dynamic", "int8")
        and contract.input_tensor.dtype != dtype
    ):
        raise InputError(f"precision {contract.precision} with {contract.input_tensor.dtype} input")


def _labels(value: Any, name: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise wrong(name, "a list of names", value)
    labels: dict[str, None] = {}
    for number, label in enumerate(value):
        if not isinstance(label, str) or not label.strip() or not is_printable(label):
            raise wrong(f"{name}[{number}]", "a name without control characters", label)
        if label in labels:
            raise InputError(f"{name}[{number}]: {label!r} stands twice in the list")
        labels[label] = None
    return tuple(labels)


_SHARE = real(0.0, 1.0)
_TENSOR = record(
    {
        "dtype": one_of(_TENSOR_TYPES),
        "shape": items(whole(1, 2**31 - 1)),
        "scale": real(),
        "zero_point": whole(-(2**31), 2**31 - 1),
    },
    Tensor,
)
_CONTRACT: Mapping[str, Check] = {
    "format": text,
    "version": whole(1, VERSION),
    "flatbuffer": record({"sha256": text, "bytes": whole()}),
    "labels": _labels,
    "input": record(
        {
            "height": whole(1, 4096),
            "width": whole(1, 4096),
            "resize": text,
            "fit": text,
            "exif": text,
            "colour": text,
            "minimum": whole(),
            "maximum": whole(),
        },
        InputSpec,
    ),
    "precision": one_of(PRECISIONS),
    "architecture": text,
    "parameters": whole(),
    "macs": whole(),
    "input_tensor": _TENSOR,
    "output_tensor": _TENSOR,
    "training": maybe(
        record(
            {
                "data_digest": text,
                "images": whole(),
                "split": text,
                "split_digest": text,
                "seed": whole(),
                "epochs": whole(),
                "best_epoch": whole(),
                "weights_digest": text,
            },
            Training,
        )
    ),
    "calibration": maybe(table(anything)),
    "scores": items(
        record(
            {
                "split": text,
                "seed": whole(),
                "part": text,
                "split_digest": text,
                "weights_digest": text,
                "images": whole(),
                "accuracy": _SHARE,
                "macro_f1": _SHARE,
                "keras_accuracy": _SHARE,
                "keras_macro_f1": _SHARE,
                "agreement": _SHARE,
                "largest_difference": real(),
                "per_class": table(record({"precision": _SHARE, "recall": _SHARE, "images": real()})),
                "time_baseline": maybe(
                    record(
                        {
                            "accuracy": _SHARE,
                            "macro_f1": _SHARE,
                            "seed": real(-math.inf),
                            "images": real(),
                            "timed": _SHARE,
                        },
                        optional=("seed", "images", "timed"),
                    )
                ),
            },
            Score,
            optional=("per_class", "time_baseline"),
        )
    ),
    "versions": table(text),
    "extra": table(anything),
}
_OPTIONAL = ("training", "calibration", "scores", "versions", "extra")


def _read_members(path: Path, data: bytes) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            if METADATA not in {entry.filename for entry in entries}:
                raise InputError(f"{path}: carries no contract ({METADATA}); {_MAKE_AGAIN}")
            if len(entries) > 32 or sum(entry.file_size for entry in entries) > 8 * MAXIMUM_METADATA:
                raise InputError(f"{path}: the data appended to the model is larger than accepted")
            members: dict[str, bytes] = {}
            for entry in entries:
                if entry.filename in members:
                    raise InputError(f"{path}: holds {entry.filename!r} twice; {_MAKE_AGAIN}")
                with archive.open(entry) as file:
                    # The directory may lie about the size; what is read is bounded all the same.
                    content = file.read(8 * MAXIMUM_METADATA + 1)
                if len(content) > 8 * MAXIMUM_METADATA:
                    raise InputError(f"{path}: the data appended to the model is larger than accepted")
                members[entry.filename] = content
            return members
    except InputError:
        raise
    # zipfile raises BadZipFile, zlib.error, NotImplementedError, EOFError, ... on damaged archives.
    except Exception:
        raise InputError(
            f"{path}: carries no readable contract (truncated, or a plain TFLite file); {_MAKE_AGAIN}"
        ) from None


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(ascii(name) for name in names if names.count(name) > 1)} stands twice")
    return values


def _describe(tensor: Tensor) -> str:
    shown = f"{tensor.dtype} {'x'.join(map(str, tensor.shape))}"
    return f"{shown} scale {tensor.scale:.6g} zero point {tensor.zero_point}" if tensor.scale else shown
