"""Finding the picture files that a user means by files, folders and globs."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edge.errors import InputError

SUFFIXES = (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".bmp", ".tif", ".tiff")
"""Endings, in any letter case, of the files that are taken from a folder."""


@dataclass(frozen=True)
class Found:
    """The pictures to read, the arguments that led nowhere (a sentence each), and files passed over."""

    paths: tuple[Path, ...]
    problems: tuple[tuple[str, str], ...]
    ignored: int


def find_photographs(arguments: Sequence[str]) -> Found:
    """Turn files, folders (searched with their subfolders) and globs into picture files.

    A file named outright is taken whatever its ending; from folders those with a picture's ending, except
    hidden ones. The order is that of the arguments, sorted within a folder or glob; a file is taken once.
    """
    paths: dict[Path, None] = {}
    problems: list[tuple[str, str]] = []
    ignored = 0
    for argument in arguments:
        path = Path(argument)
        if path.is_dir():
            try:
                found, passed_over = _walk(path)
            except InputError as error:
                problems.append((argument, str(error)))
                continue
            ignored += passed_over
            if not found:
                problems.append((argument, f"{argument}: no picture in this folder ({', '.join(SUFFIXES)})"))
            paths.update(dict.fromkeys(found))
        elif os.path.lexists(path) or not glob.has_magic(argument):
            paths[path] = None
        else:
            matches = [Path(match) for match in sorted(glob.glob(argument, recursive=True))]
            files = [match for match in matches if not match.is_dir()]
            if not files:
                problems.append((argument, f"{argument}: no file matches this pattern"))
            paths.update(dict.fromkeys(files))
    return Found(tuple(paths), tuple(problems), ignored)


def _walk(folder: Path) -> tuple[list[Path], int]:
    found: list[Path] = []
    ignored = 0

    def fail(error: OSError) -> None:
        raise InputError(f"{error.filename}: the folder cannot be read ({error.strerror})")

    for parent, folders, names in os.walk(folder, onerror=fail):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if name.startswith("."):
                continue
            if name.lower().endswith(SUFFIXES):
                found.append(Path(parent) / name)
            else:
                ignored += 1
    return found, ignored
