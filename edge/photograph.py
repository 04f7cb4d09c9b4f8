"""Finding the picture files that a user means by files, folders and globs."""

from __future__ import annotations

import glob
import os
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

SUFFIXES = (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".bmp", ".tif", ".tiff")
"""Endings, in any letter case, of the files that are taken from a folder."""


@dataclass(frozen=True)
class Found:
    """What arguments led to.

    Attributes:
        paths: the pictures to read.
        problems: arguments that led nowhere and folders that cannot be read, each with a sentence.
        ignored: how many files were passed over because they have no picture's ending.
    """

    paths: tuple[Path, ...]
    problems: tuple[tuple[str, str], ...]
    ignored: int


def find_photographs(arguments: Sequence[str]) -> Found:
    """Turn files, folders (searched with their subfolders) and globs into picture files.

    A file named outright is taken whatever its ending; from folders those with a picture's ending, except
    hidden ones. A folder that a glob matches is searched like one that is named. The order is that of the
    arguments, sorted within a folder or glob; a file is taken once. An argument or subfolder that cannot be used
    is a problem, and the others are searched all the same.
    """
    paths: dict[Path, None] = {}
    problems: dict[tuple[str, str], None] = {}
    ignored: set[Path] = set()

    def take_folder(folder: str) -> None:
        failed: list[tuple[str, str]] = []
        pictures: list[Path] = []
        others: list[Path] = []
        for path in files_below(folder, lambda where, why: failed.append((where, why))):
            (pictures if path.name.lower().endswith(SUFFIXES) else others).append(path)
        if not pictures and not failed:
            failed.append((folder, f"{folder}: no picture in this folder ({', '.join(SUFFIXES)})"))
        paths.update(dict.fromkeys(pictures))
        problems.update(dict.fromkeys(failed))
        ignored.update(others)

    for argument in arguments:
        # Not Path.is_dir: it raises for a name that is too long or lies in a folder closed to this user.
        if os.path.isdir(argument):
            take_folder(argument)
        elif os.path.lexists(argument) or not glob.has_magic(argument):
            paths[Path(argument)] = None
        else:
            try:
                matches = sorted(glob.glob(argument, recursive=True))
            except (OSError, ValueError, re.error) as error:
                problems[argument, f"{argument}: the pattern cannot be searched ({error})"] = None
                continue
            if not matches:
                problems[argument, f"{argument}: no file matches this pattern"] = None
            for match in matches:
                if os.path.isdir(match):
                    take_folder(match)
                else:
                    paths[Path(match)] = None
    return Found(tuple(paths), tuple(problems), len(ignored))


def files_below(folder: Path | str, fail: Callable[[str, str], object]) -> Iterator[Path]:
    """The files of a folder and its subfolders, hidden ones left out, sorted within each folder.

    Linked folders are searched after the others, and no folder twice, so links in a circle come to an end.

    Args:
        folder: where to begin.
        fail: called with the path of a folder that cannot be read, and a sentence; the others are still searched.
    """

    def failed(error: OSError) -> None:
        where = error.filename or str(folder)
        fail(where, f"{where}: the folder cannot be read ({error.strerror or error}); change its permissions")

    seen: set[tuple[int, int]] = set()
    waiting = deque([str(folder)])
    while waiting:
        for parent, folders, names in os.walk(waiting.popleft(), onerror=failed):
            try:
                status = os.stat(parent)
            except OSError as error:  # removed while it was being read
                failed(error)
                folders.clear()
                continue
            if (status.st_dev, status.st_ino) in seen:
                folders.clear()
                continue
            seen.add((status.st_dev, status.st_ino))
            shown = sorted(name for name in folders if not name.startswith("."))
            links = {name for name in shown if os.path.islink(os.path.join(parent, name))}
            waiting.extend(os.path.join(parent, name) for name in shown if name in links)
            # os.walk goes on into what is left in this list.
            folders[:] = [name for name in shown if name not in links]
            yield from (Path(parent) / name for name in sorted(names) if not name.startswith("."))
