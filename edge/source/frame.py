"""A frame, and the small interface that everything with frames to give stands behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from edge.preprocessing import MAXIMUM_PIXELS, Pixels

NO_PIXELS: Pixels = np.zeros((0, 0, 3), dtype=np.uint8)


class SourceLostError(Exception):
    """A source that cannot be used now and may come back: an unplugged camera, a dropped stream."""


@dataclass(frozen=True)
class Frame:
    """One picture from a source.

    Attributes:
        number: of the source since the program started, from 0; frames passed over leave gaps.
        source: the picture's path, or the name of the camera, stream or video.
        pixels: uint8 (height, width, 3), RGB; empty where the frame could not be decoded.
        taken: `time.monotonic()` when it was taken from the source, seconds.
        fault: "" or one of "empty", "torn", "frozen" (see `edge.gate`).
        encoded: the picture file's own bytes, where there is one.
        stage_ms: milliseconds of "capture" (waiting for and fetching it) and "decode".
    """

    number: int
    source: str
    pixels: Pixels
    taken: float
    fault: str = ""
    encoded: bytes | None = None
    stage_ms: Mapping[str, float] = field(default_factory=dict)


class Source(Protocol):
    """Where frames come from. One thread uses it.

    Attributes:
        name: what the journal and the log call it; a stream's password is left out.
        live: frames pass by whether or not anybody looks (cameras, streams, a video played at its own pace), so
            only the newest one is worth a decision. Otherwise the source waits, and no frame is dropped.
        camera: behind it is a sensor, whose noise makes two equal frames in a row suspicious.
    """

    name: str
    live: bool
    camera: bool

    def open(self) -> None:
        """Begin, or begin again after `SourceLostError`. Raises SourceLostError or InputError."""

    def read(self) -> Frame | None:
        """The next frame; None where there will never be another. Raises SourceLostError."""

    def skip(self) -> bool:
        """Let a frame pass by as cheaply as the source can; False where there will never be another."""

    def stop(self) -> None:
        """End a wait that `read` may be in, for good; another thread calls it."""

    def close(self) -> None:
        """Let go of the device or file. Safe at any time."""


def check_pixels(pixels: Pixels | None) -> str:
    """The fault of what a decoder gave: "empty" for nothing, an odd shape or an absurd size, else ""."""
    if pixels is None or pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.dtype != np.uint8:
        return "empty"
    return "" if 0 < pixels.shape[0] * pixels.shape[1] <= MAXIMUM_PIXELS else "empty"
