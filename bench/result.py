"""The result file: what was measured, with what model, on which data and machine; versioned JSON.

A file holds entries. Each entry names its kind ("latency", "robustness", ...), and the schema
`bench/schema/<kind>-1.json` describes its body; `bench/schema/result-1.json` describes the file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import edge
from edge.classifier import Classifier
from edge.contract import ModelFile
from edge.errors import InputError
from edge.files import write_atomic

FORMAT = "mango-leaf-result"
VERSION = 1
MAXIMUM_BYTES = 512 * 2**20


@dataclass(frozen=True)
class Entry:
    """One measurement.

    Attributes:
        kind: which schema its body follows.
        machine: record of the machine (`bench.machine`), or None where the machine does not matter.
        model: the model (`describe_model`), or None.
        data: the photographs: name, digest, number, source, split, seed, part; or None.
        body: the kind's own values.
    """

    kind: str
    body: Mapping[str, Any]
    machine: Mapping[str, Any] | None = None
    model: Mapping[str, Any] | None = None
    data: Mapping[str, Any] | None = None


def describe_model(model: ModelFile, classifier: Classifier | None = None) -> dict[str, Any]:
    """What an entry says of a model file, and of the runtime it was opened in."""
    contract = model.contract
    return {
        "name": model.path.stem,
        "digest": model.digest,
        "architecture": contract.architecture,
        "precision": contract.precision,
        "bytes": contract.flatbuffer_bytes,
        "parameters": contract.parameters,
        "macs": contract.macs,
        "runtime": None if classifier is None else str(classifier.runtime),
        "training": None if contract.training is None else asdict(contract.training),
        "labels": list(contract.labels),
        "scores": [asdict(score) for score in contract.scores],
    }


def write_results(path: Path, entries: Iterable[Entry], command: Sequence[str]) -> None:
    """Check the entries against their schemas and write the file atomically."""
    values = {
        "format": FORMAT,
        "version": VERSION,
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "kit": edge.__version__,
        "command": list(command),
        "results": [asdict(entry) for entry in entries],
    }
    _validate(values, str(path))
    write_atomic(path, (json.dumps(values, indent=1, allow_nan=False) + "\n").encode())


def read_results(path: Path | str) -> tuple[Entry, ...]:
    """Read and check a result file: its form, and that its figures are those of the raw values it holds.

    Raises:
        InputError: the file is missing, not a result, damaged, edited, or of a newer version.
    """
    from bench.consistency import check_entry

    path = Path(path)
    try:
        if path.stat().st_size > MAXIMUM_BYTES:
            raise InputError(f"{path}: larger than a result file may be ({MAXIMUM_BYTES:,} bytes)")
        values = json.loads(
            path.read_text(encoding="utf-8"),
            parse_constant=_no_number(path),
            parse_float=_finite(path),
            parse_int=_whole(path),
        )
    except OSError as error:
        raise InputError(f"{path}: the result file cannot be read ({error.strerror or error})") from None
    except (ValueError, RecursionError):
        raise InputError(
            f"{path}: not a result file (not JSON); give a file written by mango-bench"
        ) from None
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise InputError(f"{path}: not a result file; give a file written by mango-bench")
    version = values.get("version")
    if isinstance(version, bool) or not isinstance(version, int):
        raise InputError(
            f"{path}: damaged result, its version {json.dumps(version)[:40]} is no whole number; give the file as"
            " mango-bench wrote it"
        )
    if version > VERSION:
        raise InputError(
            f"{path}: result version {version} is newer than the {VERSION} this program reads; update it"
        )
    _validate(values, str(path))
    for number, entry in enumerate(values["results"]):
        check_entry(entry["kind"], entry["body"], f"{path}: {entry['kind']} entry {number}")
    return tuple(Entry(**entry) for entry in values["results"])


def merge(files: Iterable[Path | str]) -> tuple[Entry, ...]:
    """The entries of several result files, in order, each once."""
    entries: dict[str, Entry] = {}
    for file in files:
        for entry in read_results(file):
            entries.setdefault(json.dumps(asdict(entry), sort_keys=True), entry)
    return tuple(entries.values())


def pictures_text(data: Mapping[str, Any] | None) -> str:
    """An entry's pictures in a few words that tell them from others, for example "24 drawn leaves (3f9a1c)"."""
    if data is None:
        return "unknown pictures"
    return f"{data['images']:,} {data['source']} ({(data.get('digest') or 'unknown')[:6]})"


def same_pictures(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> bool:
    """Whether two entries' data are known to be the same pictures, byte for byte."""
    digests = [(data or {}).get("digest") for data in (one, other)]
    return digests[0] is not None and digests[0] == digests[1]


def _no_number(path: Path) -> Callable[[str], float]:
    def refuse(text: str) -> float:
        raise InputError(
            f"{path}: damaged result, it holds {text[:40]} where a finite number should stand; measure again"
        )

    return refuse


def _finite(path: Path) -> Callable[[str], float]:
    def read(text: str) -> float:
        value = float(text)
        return value if math.isfinite(value) else _no_number(path)(text)

    return read


def _whole(path: Path) -> Callable[[str], int | float]:
    def read(text: str) -> int | float:
        # As far as numbers of floating point go: what is beyond cannot be calculated with.
        return int(text) if len(text) < 300 else _no_number(path)(text)

    return read


@cache
def _validator(name: str) -> Any:
    """The checker of a kind's schema, None where there is none; a whole number is one without a point."""
    import jsonschema

    schema = _schema(name)
    if schema is None:
        return None
    base = jsonschema.Draft202012Validator
    whole = base.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    )
    return jsonschema.validators.extend(base, type_checker=whole)(schema)


@cache
def _schema(name: str) -> dict[str, Any] | None:
    file = resources.files("bench").joinpath("schema", f"{name}-{VERSION}.json")
    if not file.is_file():
        return None
    schema: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return schema


def _validate(values: Any, where: str) -> None:
    import jsonschema

    def check(part: Any, validator: Any, place: str) -> None:
        error = jsonschema.exceptions.best_match(validator.iter_errors(part))
        if error is not None:
            path = "/".join(str(step) for step in error.absolute_path)
            message = " ".join(error.message.split())[:200]
            raise InputError(
                f"{where}: damaged result, {place}{'/' + path if path else ''}: {message}; give the file as mango-bench"
                " wrote it"
            )

    check(values, _validator("result"), "file")
    for number, entry in enumerate(values["results"]):
        validator = None if entry["kind"] == "result" else _validator(entry["kind"])
        if validator is None:
            raise InputError(
                f"{where}: entry {number} is of the unknown kind {entry['kind']!r}; update this program"
            )
        check(entry["body"], validator, f"{entry['kind']} entry {number}")
