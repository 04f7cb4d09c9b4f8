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
from edge.files import sha256, write_atomic
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
    """
    contract = dataclasses.replace(
        contract, flatbuffer_sha256=sha256(flatbuffer), flatbuffer_bytes=len(flatbuffer)
    )
    metadata = json.dumps(contract_to_json(contract), indent=1, sort_keys=True, ensure_ascii=False)
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
        size = path.stat().st_size
        if size > MAXIMUM_BYTES:
            raise InputError(
                f"{path}: {size:,} bytes are more than a model file may have ({MAXIMUM_BYTES:,})"
            )
        data = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: no such model file; check the path") from None
    except IsADirectoryError:
        raise InputError(f"{path}: a folder, not a model file") from None
    except OSError as error:
        raise InputError(f"{path}: the model file cannot be read ({error.strerror or error})") from None
    if data[4:8] != b"TFL3":
        raise InputError(f"{path}: not a TFLite model; {_MAKE_AGAIN}")
    members = _read_members(path, data)
    try:
        values = json.loads(members.pop(METADATA).decode())
    except (ValueError, RecursionError):
        raise InputError(f"{path}: its contract is not valid JSON; {_MAKE_AGAIN}") from None
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
        InputError: a value is missing, of the wrong type, out of range, or of a newer format.
    """
    try:
        if not isinstance(values, dict) or values.get("format") != FORMAT:
            raise InputError(f"{where}: its metadata is not a {FORMAT} contract; {_MAKE_AGAIN}")
        if not isinstance(values.get("version"), int) or values["version"] > VERSION:
            raise InputError(
                f"{where}: its contract has version {values.get('version')}, this program reads up to {VERSION};"
                " update the program"
            )
        flatbuffer = values["flatbuffer"]
        training = values.get("training")
        contract = Contract(
            labels=tuple(values["labels"]),
            input=InputSpec(**values["input"]),
            precision=values["precision"],
            architecture=str(values["architecture"]),
            parameters=int(values["parameters"]),
            macs=int(values["macs"]),
            input_tensor=_tensor(values["input_tensor"]),
            output_tensor=_tensor(values["output_tensor"]),
            training=None if training is None else Training(**training),
            calibration=values.get("calibration"),
            scores=tuple(Score(**score) for score in values.get("scores", ())),
            versions=dict(values.get("versions", {})),
            flatbuffer_sha256=str(flatbuffer["sha256"]),
            flatbuffer_bytes=int(flatbuffer["bytes"]),
            extra=dict(values.get("extra", {})),
        )
        _check(contract)
    except InputError as error:
        text = str(error)
        raise InputError(
            text if text.startswith(where) else f"{where}: its contract is wrong: {text}"
        ) from None
    except KeyError as error:
        raise InputError(f"{where}: its contract lacks {error}; {_MAKE_AGAIN}") from None
    except (TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{where}: its contract is malformed ({error}); {_MAKE_AGAIN}") from None
    return contract


def _check(contract: Contract) -> None:
    labels = contract.labels
    if not labels or not all(isinstance(label, str) and label for label in labels):
        raise InputError("the labels must be a list of names")
    if len(set(labels)) != len(labels):
        raise InputError("a label stands twice in the list")
    if contract.precision not in PRECISIONS:
        raise InputError(f"precision {contract.precision!r} is none of {', '.join(PRECISIONS)}")
    shape = (1, contract.input.height, contract.input.width, 3)
    if contract.input_tensor.shape != shape:
        raise InputError(f"input tensor {contract.input_tensor.shape} does not match the input size {shape}")
    if contract.output_tensor.shape != (1, len(labels)):
        raise InputError(f"output tensor {contract.output_tensor.shape} does not match {len(labels)} labels")
    for tensor in (contract.input_tensor, contract.output_tensor):
        if tensor.dtype not in _TENSOR_TYPES:
            raise InputError(f"tensor type {tensor.dtype!r} is none of {', '.join(_TENSOR_TYPES)}")
        if tensor.dtype != "float32" and not (math.isfinite(tensor.scale) and tensor.scale > 0):
            raise InputError(f"a {tensor.dtype} tensor needs a scale above 0, not {tensor.scale}")
    whole = "uint8" if contract.precision == "int8" else "float32"
    if (
        contract.precision in ("float32", "float16", "dynamic", "int8")
        and contract.input_tensor.dtype != whole
    ):
        raise InputError(f"precision {contract.precision} with {contract.input_tensor.dtype} input")


def _tensor(values: Mapping[str, Any]) -> Tensor:
    return Tensor(
        str(values["dtype"]),
        tuple(int(size) for size in values["shape"]),
        float(values["scale"]),
        int(values["zero_point"]),
    )


def _read_members(path: Path, data: bytes) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            if METADATA not in {entry.filename for entry in entries}:
                raise InputError(f"{path}: carries no contract ({METADATA}); {_MAKE_AGAIN}")
            if len(entries) > 32 or sum(entry.file_size for entry in entries) > 8 * MAXIMUM_METADATA:
                raise InputError(f"{path}: the data appended to the model is larger than accepted")
            members = {}
            for entry in entries:
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


def _describe(tensor: Tensor) -> str:
    text = f"{tensor.dtype} {'x'.join(map(str, tensor.shape))}"
    return f"{text} scale {tensor.scale:.6g} zero point {tensor.zero_point}" if tensor.scale else text
