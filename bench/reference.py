"""Finding the reference that robustness is relative to: published, or from a measured result file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from bench.metric import Reference
from bench.published import REFERENCE, published_reference, read_published
from bench.result import Entry, read_results
from edge.errors import InputError

PUBLISHED = "published"
NONE = "none"


def find_references(arguments: Sequence[str]) -> tuple[Reference, ...]:
    """References in the order of the arguments, then the published ones that are not among them.

    Args:
        arguments: "published" (ResNet-101), "published#NAME" for another model of the tables, a result file
            ("FILE#NAME" where it holds several models), a JSON file of published tables; or "none" alone.

    Raises:
        InputError: an argument leads to no reference, or to several.
    """
    if NONE in arguments:
        if len(arguments) > 1:
            raise InputError("--reference none cannot stand beside another reference")
        return ()
    found = [_find(argument) for argument in arguments or (PUBLISHED,)]
    tables = read_published()
    at_hand = [published_reference(tables, model) for model in (REFERENCE, *tables.models)]
    if tables.peer is not None:
        at_hand.append(tables.peer)
    unique: dict[str, Reference] = {}
    for reference in (*found, *at_hand):
        unique.setdefault(reference.name, reference)
    return tuple(unique.values())


def reference_from_entry(entry: Entry) -> Reference:
    """A measured robustness entry as a reference.

    Raises:
        InputError: it holds no labelled scores.
    """
    assert entry.model is not None
    name = str(entry.model["name"])
    if not entry.body["labelled"]:
        raise InputError(f"{name} was measured on pictures without labels; a reference needs errors")
    values = entry.body["scores"]
    errors = {
        str(corruption): {int(severity): float(score["error"]) for severity, score in row.items()}
        for corruption, row in values["subsets"].items()
    }
    if not errors:
        raise InputError(
            f"{name} was measured on clean pictures only; a reference needs errors under corruption"
        )
    origin = (
        f"measured on {entry.body['images']['number']} photographs ({entry.body['images']['choice']}),"
        f" {entry.body['encoding']['text']}"
    )
    return Reference(f"{name}, measured", origin, float(values["clean"]["error"]), errors, {})


def _find(argument: str) -> Reference:
    where, _, name = argument.partition("#")
    if where == PUBLISHED:
        return published_reference(read_published(), name or REFERENCE)
    path = Path(where)
    if _is_table(path):
        return published_reference(read_published(path), name or REFERENCE)
    entries = [
        entry for entry in read_results(path) if entry.kind == "robustness" and entry.model is not None
    ]
    if name:
        entries = [entry for entry in entries if entry.model is not None and entry.model["name"] == name]
    if len(entries) != 1:
        models = ", ".join(str(entry.model["name"]) for entry in entries if entry.model is not None)
        raise InputError(
            f"{argument}: holds {len(entries)} robustness results{' of ' + models if models else ''}, not one; name the"
            " model as FILE#NAME"
        )
    return reference_from_entry(entries[0])


def _is_table(path: Path) -> bool:
    """Whether the file holds published tables rather than results."""
    try:
        if path.stat().st_size > 2**24:
            return False
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(values, dict) and "table3" in values
