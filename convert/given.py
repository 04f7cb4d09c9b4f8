"""What a user gives to be converted, looked at as files: before TensorFlow takes seconds to start.

Files are untrusted. A `.keras` file's own description tells whether it carries Python code; nothing is built from it.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from pathlib import Path
from typing import Any

from edge.errors import InputError

KERAS = ".keras"
SAVED_MODEL = "saved_model.pb"
HISTORY = "history.json"
"""What a SavedModel folder and a training folder of this kit are known by."""

MAXIMUM_BYTES = 2**31
_DESCRIPTION = "config.json"
_MAXIMUM_DESCRIPTION = 2**26
_CODE = {"Lambda", "__lambda__"}
_ELSEWHERE = "TFSMLayer"


def is_foreign(path: Path) -> bool:
    """Whether `path` is a model of the user's rather than a training folder of this kit.

    Raises:
        InputError: nothing is there, or neither of them.
    """
    if not path.exists():
        raise InputError(
            f"{path}: no such folder or file; give a folder that mango-convert train wrote, a {KERAS} file or a"
            " SavedModel folder"
        )
    if not path.is_dir():
        check_keras_file(path)
        return True
    if (path / SAVED_MODEL).exists():
        return True
    if not (path / HISTORY).exists():
        raise InputError(
            f"{path}: neither a training folder (it has no {HISTORY}) nor a SavedModel (it has no {SAVED_MODEL});"
            " give one of them"
        )
    return False


def check_keras_file(path: Path) -> None:
    """See that `path` is a `.keras` file whose layers can be built without running code from it.

    Raises:
        InputError: missing, of another kind, empty, cut short, too large, or it carries Python code.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such model; give a {KERAS} file or a SavedModel folder")
    if path.suffix != KERAS:
        raise InputError(
            f"{path}: only files that end in {KERAS} (small letters) and SavedModel folders are read; save it again"
            f" with model.save('NAME{KERAS}')"
        )
    if path.stat().st_size > MAXIMUM_BYTES:
        raise InputError(f"{path}: larger than a model may be ({MAXIMUM_BYTES:,} bytes)")
    try:
        with zipfile.ZipFile(path) as archive:
            entry = archive.getinfo(_DESCRIPTION)
            if entry.file_size > _MAXIMUM_DESCRIPTION:
                raise ValueError(f"its {_DESCRIPTION} has {entry.file_size:,} bytes")
            classes = _classes(json.loads(archive.read(entry)))
    # The zip and JSON readers raise whatever the damage leads them into.
    except Exception as error:
        cause = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(
            f"{path}: not a Keras model that can be read ({cause}); copy it again, or save it again with"
            f" model.save('NAME{KERAS}')"
        ) from None
    if classes & _CODE:
        raise InputError(
            f"{path}: carries Python code (a Lambda layer), which is not run; replace it by a standard layer"
        )
    if _ELSEWHERE in classes:
        raise InputError(
            f"{path}: refers to a SavedModel outside the file ({_ELSEWHERE}); give that folder instead"
        )


def files_digest(path: Path) -> str:
    """SHA-256 of a model's bytes: of the file, or of the names and bytes of all files of a folder, sorted."""
    if not path.is_dir():
        return _file_digest(path)
    files = sorted(entry for entry in path.rglob("*") if entry.is_file())
    lines = [f"{_file_digest(entry)} {os.fsdecode(entry.relative_to(path))!r}\n" for entry in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def read_labels(text: str) -> tuple[str, ...]:
    """Class names in the order of the output: from a file with one a line, or separated by commas.

    Raises:
        InputError: unreadable file, an empty or repeated name.
    """
    # Says no, too, to what cannot be a file's name, such as a list longer than names may be.
    a_file = os.path.isfile(text)
    try:
        lines = Path(text).read_text(encoding="utf-8").splitlines() if a_file else text.split(",")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{text}: the labels cannot be read ({error}); give one name a line") from None
    labels = tuple(line.strip() for line in lines if line.strip())
    if len(labels) < 2 or len(set(labels)) != len(labels):
        raise InputError(
            f"labels {text!r}: give at least two different names, by commas or in a file with one a line"
        )
    return labels


def _file_digest(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()


def _classes(description: Any) -> set[str]:
    """Every class that a Keras description names, however deep."""
    found: set[str] = set()
    waiting = [description]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            found.add(str(value.get("class_name")))
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return found
