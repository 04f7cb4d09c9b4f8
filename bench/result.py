"""The result file: what was measured, with what model, on which data and machine; versioned JSON.

A file holds entries. Each entry names its kind ("latency", "robustness", ...), and the schema
`bench/schema/<kind>-1.json` describes its body; `bench/schema/result-1.json` describes the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
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
    """Read and check a result file.

    Raises:
        InputError: the file is missing, not a result, damaged, or of a newer version.
    """
    path = Path(path)
    try:
        if path.stat().st_size > MAXIMUM_BYTES:
            raise InputError(f"{path}: larger than a result file may be ({MAXIMUM_BYTES:,} bytes)")
        values = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: the result file cannot be read ({error.strerror or error})") from None
    except (ValueError, RecursionError):
        raise InputError(
            f"{path}: not a result file (not JSON); give a file written by mango-bench"
        ) from None
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise InputError(f"{path}: not a result file; give a file written by mango-bench")
    version = values.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise InputError(
            f"{path}: result version {version} is newer than the {VERSION} this program reads; update it"
        )
    _validate(values, str(path))
    return tuple(Entry(**entry) for entry in values["results"])


def merge(files: Iterable[Path | str]) -> tuple[Entry, ...]:
    """The entries of several result files, in order, each once."""
    entries: dict[str, Entry] = {}
    for file in files:
        for entry in read_results(file):
            entries.setdefault(json.dumps(asdict(entry), sort_keys=True), entry)
    return tuple(entries.values())


@cache
def _schema(name: str) -> dict[str, Any] | None:
    file = resources.files("bench").joinpath("schema", f"{name}-{VERSION}.json")
    if not file.is_file():
        return None
    schema: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return schema


def _validate(values: Any, where: str) -> None:
    import jsonschema

    def check(part: Any, schema: Mapping[str, Any], place: str) -> None:
        error = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(schema).iter_errors(part))
        if error is not None:
            path = "/".join(str(step) for step in error.absolute_path)
            message = " ".join(error.message.split())[:200]
            raise InputError(f"{where}: damaged result, {place}{'/' + path if path else ''}: {message}")

    whole = _schema("result")
    assert whole is not None
    check(values, whole, "file")
    for number, entry in enumerate(values["results"]):
        schema = _schema(entry["kind"])
        if schema is None:
            raise InputError(
                f"{where}: entry {number} is of the unknown kind {entry['kind']!r}; update this program"
            )
        check(entry["body"], schema, f"{entry['kind']} entry {number}")
