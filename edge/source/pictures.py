"""Pictures as a source: one file, a folder, or a folder that is watched for new files."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from edge.errors import InputError
from edge.files import read_regular
from edge.log import fields
from edge.photograph import SUFFIXES, files_below, find_photographs
from edge.preprocessing import MAXIMUM_BYTES, read_photograph
from edge.source.frame import NO_PIXELS, Frame

_log = logging.getLogger(__name__)

POLL_S = 0.5
"""How often a watched folder is looked at, seconds. Polling works on every file system, network ones included."""

_State = tuple[int, int]  # size, modification time in ns


class Pictures:
    """Picture files in order; a file that cannot be decoded is a frame with a fault, not the end."""

    live = False
    camera = False

    def __init__(self, name: str, paths: Sequence[Path], exif: str) -> None:
        self.name = name
        self._waiting = deque(paths)
        self._exif = exif
        self._number = 0

    def open(self) -> None:
        """Nothing to do: files are opened one by one."""

    def close(self) -> None:
        """Nothing to do."""

    def stop(self) -> None:
        """Nothing to do: reading a file ends by itself."""

    def read(self) -> Frame | None:
        """The next picture; None after the last."""
        if not self._waiting:
            return None
        return self._frame(self._waiting.popleft())

    def skip(self) -> bool:
        """Pictures do not pass by: keeps the next one."""
        return bool(self._waiting)

    def _frame(self, path: Path) -> Frame:
        begun = time.perf_counter()
        data, fault, pixels = b"", "", NO_PIXELS
        try:
            data = read_regular(path, "a picture", MAXIMUM_BYTES)
        except InputError:
            fault = "torn"
        except OSError:
            fault = "empty"
        read = time.perf_counter()
        if not fault:
            try:
                pixels = read_photograph(data, self._exif)
            except InputError:
                fault = "torn" if data else "empty"
        decoded = time.perf_counter()
        frame = Frame(
            number=self._number,
            source=str(path),
            pixels=pixels,
            taken=time.monotonic(),
            fault=fault,
            encoded=None if fault else data,
            stage_ms={"capture": 1e3 * (read - begun), "decode": 1e3 * (decoded - read)},
        )
        self._number += 1
        return frame


class WatchedFolder(Pictures):
    """The pictures of a folder and its subfolders, then those that appear or change.

    A file is taken when its size and time stood still between two looks, so one that is still being copied is
    left alone until it is whole. A file written whole under another name and renamed is taken just as well.

    Args:
        folder: the folder.
        exif: see `edge.preprocessing.InputSpec`.
        done: paths that need no decision any more (from the journal of an earlier run).
    """

    def __init__(self, folder: Path, exif: str, done: frozenset[str] = frozenset()) -> None:
        super().__init__(str(folder), (), exif)
        self._folder = folder
        self._stop = threading.Event()
        self._done = done
        self._seen: dict[Path, _State] = {}
        self._growing: dict[Path, _State] = {}
        self._first = True
        self._unreadable: set[str] = set()

    def read(self) -> Frame | None:
        """Wait for the next picture; None once `stop` was called."""
        while not self._stop.is_set():
            if self._waiting:
                return self._frame(self._waiting.popleft())
            self._look()
            if not self._waiting and self._stop.wait(POLL_S):
                break
        return None

    def stop(self) -> None:
        """End the wait for new files."""
        self._stop.set()

    def _look(self) -> None:
        states: dict[Path, _State] = {}
        unreadable: dict[str, str] = {}
        for path in files_below(self._folder, unreadable.setdefault):
            if not path.name.lower().endswith(SUFFIXES):
                continue
            try:
                status = path.stat()
            except OSError:
                continue
            states[path] = (status.st_size, status.st_mtime_ns)
        for folder, why in unreadable.items():
            if folder not in self._unreadable:
                _log.warning("%s", why, extra=fields(event="folder-unreadable", source=self.name))
        self._unreadable = set(unreadable)
        if self._first:
            self._seen = {path: state for path, state in states.items() if str(path) in self._done}
            self._first = False
        fresh = {path: state for path, state in states.items() if self._seen.get(path) != state}
        for path, state in fresh.items():
            if self._growing.get(path) == state:
                self._waiting.append(path)
                self._seen[path] = state
        self._growing = {path: state for path, state in fresh.items() if self._seen.get(path) != state}
        # Files that were removed are forgotten: weeks of files must not fill the memory.
        self._seen = {path: state for path, state in self._seen.items() if path in states}


def open_pictures(argument: str, exif: str) -> Pictures:
    """One picture, or all of a folder; raises InputError where there is none."""
    found = find_photographs([argument])
    if not found.paths:
        raise InputError(found.problems[0][1])
    for _, why in found.problems:
        _log.warning("%s", why, extra=fields(event="folder-unreadable", source=argument))
    if found.paths == (Path(argument),):
        # Named outright: whoever names a file that is no picture should hear it, not find it in a journal.
        read_photograph(argument, exif)
    return Pictures(argument, found.paths, exif)
