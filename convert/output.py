"""Whether results can be written where they shall go: known before the work, not after it."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

from edge.errors import InputError


def check_writable(folder: Path) -> None:
    """Try a file in `folder`, which may not exist yet; whatever was made for the trial is removed again.

    Raises:
        InputError: the folder cannot be made, or takes no files.
    """
    made: list[Path] = []
    try:
        made = [place for place in (folder, *folder.parents) if not place.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(
            f"{folder}: files cannot be written there ({error.strerror or error}); give another folder with --out"
        ) from None
    finally:
        for place in made:
            with contextlib.suppress(OSError):
                place.rmdir()
