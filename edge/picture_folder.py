"""The folder of kept pictures: one subfolder a day, a bound on its size, the oldest removed first."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections import deque
from pathlib import Path

from edge.files import write_atomic


class PictureFolder:
    """Pictures named by the row they belong to: `2026-11-30/000000000042.jpg`. For one thread.

    Args:
        root: the folder; made with the first picture.
        maximum_bytes: bound on the sum of the pictures' sizes.
        reserve_bytes: free space on the disk that pictures leave to the journal's rows.
    """

    def __init__(self, root: Path, maximum_bytes: int, reserve_bytes: int) -> None:
        self.root = root
        self.maximum_bytes = maximum_bytes
        self.reserve_bytes = reserve_bytes
        self._kept: deque[tuple[int, int, Path]] = deque(sorted(_scan(root)))
        self.total_bytes = sum(size for _, size, _ in self._kept)
        self.removed: list[int] = []
        """Rows whose pictures were removed to make room; the journal empties the list when it has noted them."""

    @property
    def count(self) -> int:
        """How many pictures are kept."""
        return len(self._kept)

    @property
    def last_row(self) -> int:
        """The highest row that has a picture; 0 without pictures."""
        return self._kept[-1][0] if self._kept else 0

    def keep(self, row: int, day: str, picture: bytes) -> str:
        """Write a picture durably, removing the oldest ones to make room; returns its path below the journal.

        Raises:
            OSError: it cannot be written, or does not fit the bounds.
        """
        if len(picture) > self.maximum_bytes:
            raise OSError(f"a picture of {len(picture)} bytes exceeds the bound of {self.maximum_bytes}")
        self.free(self.total_bytes + len(picture) - self.maximum_bytes)
        self.free(self._missing(len(picture)))
        if (missing := self._missing(len(picture))) > 0:
            raise OSError(f"{missing} bytes short of the free space that is left to the journal's rows")
        path = self.root / day / f"{row:012d}.jpg"
        write_atomic(path, picture)
        self._kept.append((row, len(picture), path))
        self.total_bytes += len(picture)
        return f"{self.root.name}/{day}/{path.name}"

    def free(self, count: int) -> int:
        """Remove the oldest pictures until `count` bytes are freed or none is left; returns how many."""
        before, target = len(self._kept), self.total_bytes - count
        while self._kept and self.total_bytes > target:
            row, size, path = self._kept[0]
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
            self._kept.popleft()
            self.total_bytes -= size
            self.removed.append(row)
            with contextlib.suppress(OSError):  # the day's folder, once it is empty
                path.parent.rmdir()
        return before - len(self._kept)

    def discard(self, first_row: int) -> None:
        """Remove the pictures of rows from `first_row` on, which were not stored after all."""
        while self._kept and self._kept[-1][0] >= first_row:
            _, size, path = self._kept.pop()
            self.total_bytes -= size
            with contextlib.suppress(OSError):
                path.unlink()

    def _missing(self, size: int) -> int:
        folder = self.root
        while not folder.exists():
            folder = folder.parent
        return self.reserve_bytes + size - shutil.disk_usage(folder).free


def _scan(root: Path) -> list[tuple[int, int, Path]]:
    found = []
    for parent, _, names in os.walk(root):
        for name in names:
            path = Path(parent) / name
            with contextlib.suppress(OSError):
                # What a power cut left of a picture that was being written.
                if name.endswith(".part"):
                    path.unlink()
                elif path.suffix == ".jpg" and path.stem.isascii() and path.stem.isdigit():
                    found.append((int(path.stem), path.stat().st_size, path))
    return found
