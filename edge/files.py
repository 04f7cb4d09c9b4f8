"""Files that are either the old ones or the new ones, whole, whatever happens in between."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from edge.errors import InputError

_STREAMS = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/(\d{1,9})")


def read_regular(path: Path, kind: str, maximum: int) -> bytes:
    """The bytes of a file; what never ends or waits for a writer (devices, pipes) is refused before it is opened.

    A pipe that is open already (/dev/stdin, or what a shell makes of <(command)) has a writer and is read.

    Args:
        path: the file.
        kind: what it should be, for the message: "a picture", "a model file".
        maximum: bytes that it may have.

    Raises:
        InputError: no regular file, or larger than `maximum`.
        OSError: it is missing or cannot be read.
    """
    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        raise InputError(f"{path}: a folder, not {kind}")
    piped = stat.S_ISFIFO(status.st_mode) and _descriptor(path) is not None
    if not piped and not stat.S_ISREG(status.st_mode):
        raise InputError(f"{path}: a device, pipe or socket, not {kind}; copy its content to a file")
    if status.st_size > maximum:
        raise InputError(
            f"{path}: {status.st_size:,} bytes are more than the {maximum:,} that are accepted for {kind}"
        )
    if not piped:
        return path.read_bytes()
    with path.open("rb") as file:
        data = file.read(maximum + 1)
    if len(data) > maximum:
        raise InputError(f"{path}: gives more than the {maximum:,} bytes that are accepted for {kind}")
    return data


def write_atomic(path: Path, data: bytes) -> None:
    """Write `data` to `path` so that an interruption leaves the old file whole; see `open_atomic`."""
    with open_atomic(path) as file:
        file.write(data)


@contextlib.contextmanager
def open_atomic(path: Path) -> Iterator[BinaryIO]:
    """A file to write that takes the place of `path` when the block ends without an exception.

    The bytes go to a temporary file in the same folder (made if missing), are synced to the disk, and then
    take the old file's place in one rename; the folder is synced too, so that a power cut afterwards cannot
    bring the old file back. Of a symbolic link the file it points to is replaced, and the link stays. What is
    no regular file (/dev/null, /dev/stdout, a pipe) cannot be replaced and is written to as the bytes come.

    Raises:
        InputError: `path` is a folder.
        OSError: it cannot be written.
    """
    path = Path(path)
    if (number := _descriptor(path)) is not None:
        # Its own position and no truncation: standard output may be a file that was printed to before.
        sys.stdout.flush()
        with os.fdopen(os.dup(number), "wb") as file:
            yield file
        return
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG
    if stat.S_ISDIR(mode):
        raise InputError(f"{path}: a folder; give the name of a file to write")
    if not stat.S_ISREG(mode):
        with path.open("wb") as file:
            yield file
        return
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes private files; a result is meant to be read by others like any other file.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, target)
    except BaseException:
        if os.path.exists(name):
            os.unlink(name)
        raise
    sync_folder(target.parent)


def check_writable(path: Path) -> None:
    """Refuse a file that `open_atomic` could not write: before the work whose result it is to hold, not after.

    Raises:
        InputError: it is a folder, or nothing can be written where it is to be.
    """
    path = Path(path)
    try:
        if path.is_dir():
            raise InputError(f"{path}: is a folder; give the name of a file to write")
        if _descriptor(path) is None and (not path.exists() or path.is_file()):
            target = Path(os.path.realpath(path))
            _try(target.parent, target.name)
    except OSError as error:
        raise InputError(f"{path}: cannot be written there ({_reason(error)}); give another file") from None


def check_folder(folder: Path) -> None:
    """Refuse a folder that files could not be written into; it need not exist yet.

    Raises:
        InputError: it is no folder, or nothing can be written into it.
    """
    folder = Path(folder)
    try:
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder}: is no folder; give the name of a folder to write into")
        _try(folder, "file")
    except OSError as error:
        raise InputError(
            f"{folder}: nothing can be written there ({_reason(error)}); give another folder"
        ) from None


def _try(folder: Path, name: str) -> None:
    """Make a file as `open_atomic` would, and take away again all that was made for it."""
    made: list[Path] = []
    try:
        made = [place for place in (folder, *folder.parents) if not place.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        handle, trial = tempfile.mkstemp(dir=folder, prefix=f".{name}.", suffix=".part")
        os.close(handle)
        os.unlink(trial)
    finally:
        for place in made:
            with contextlib.suppress(OSError):
                place.rmdir()


def _reason(error: OSError) -> str:
    # mkdir calls a file on the way to a folder "File exists".
    if isinstance(error, FileExistsError | NotADirectoryError):
        return "a part of this path is a file, not a folder"
    return error.strerror or str(error)


def sync_folder(folder: Path) -> None:
    """Make renames in `folder` durable; file systems that cannot sync a folder are left as they are."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)


def sha256(data: bytes) -> str:
    """Hexadecimal SHA-256 of `data`."""
    return hashlib.sha256(data).hexdigest()


def _descriptor(path: Path) -> int | None:
    """The open descriptor that a path such as /dev/stdout or /dev/fd/3 stands for; None for every other path."""
    found = _DESCRIPTOR.fullmatch(str(path))
    return int(found.group(1)) if found else _STREAMS.get(str(path))
