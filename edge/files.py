"""Files that are either the old ones or the new ones, whole, whatever happens in between."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from edge.errors import InputError


def write_atomic(path: Path, data: bytes) -> None:
    """Write `data` to `path` so that an interruption leaves the old file whole; see `open_atomic`."""
    with open_atomic(path) as file:
        file.write(data)


@contextlib.contextmanager
def open_atomic(path: Path) -> Iterator[BinaryIO]:
    """A file to write that takes the place of `path` when the block ends without an exception.

    The bytes go to a temporary file in the same folder (made if missing), are synced to the disk, and then
    take the old file's place in one rename; the folder is synced too, so that a power cut afterwards cannot
    bring the old file back.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = _beside(path)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes private files; a result is meant to be read by others like any other file.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, path)
    except BaseException:
        if os.path.exists(name):
            os.unlink(name)
        raise
    sync_folder(path.parent)


def check_writable(path: Path) -> None:
    """Refuse a file that `open_atomic` could not write: before the work whose result it is to hold, not after.

    Its folder is made if missing.

    Raises:
        InputError: it is a folder or a device, or nothing can be written where it is to be.
    """
    path = Path(path)
    try:
        if path.is_dir():
            raise InputError(f"{path}: is a folder; give the name of a file to write")
        if path.exists() and not path.is_file():
            raise InputError(f"{path}: is no file but a device or a pipe; give the name of a file to write")
        path.parent.mkdir(parents=True, exist_ok=True)
        _try(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written there ({_reason(error)}); give another file") from None


def check_folder(folder: Path) -> None:
    """Make a folder that files are to be written into, and refuse one where none can be.

    Raises:
        InputError: it is no folder, or nothing can be written into it.
    """
    folder = Path(folder)
    try:
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder}: is no folder; give the name of a folder to write into")
        folder.mkdir(parents=True, exist_ok=True)
        _try(folder / "file")
    except OSError as error:
        raise InputError(
            f"{folder}: nothing can be written there ({_reason(error)}); give another folder"
        ) from None


def _beside(path: Path) -> tuple[int, str]:
    """An open temporary file in the folder of `path`: its descriptor and name."""
    return tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")


def _reason(error: OSError) -> str:
    # mkdir calls a file on the way to a folder "File exists".
    if isinstance(error, FileExistsError | NotADirectoryError):
        return "a part of this path is a file, not a folder"
    return error.strerror or str(error)


def _try(path: Path) -> None:
    handle, name = _beside(path)
    os.close(handle)
    os.unlink(name)


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
