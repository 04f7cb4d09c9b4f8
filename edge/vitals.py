"""How a run is doing, for the status page and for MQTT; the loop writes, other threads read."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from edge.thermal import Thermometer

HOT_C = 80.0
"""From here on a Raspberry Pi slows its processor down."""

LOW_BYTES = 128 * 2**20
"""Free space under which the card is nearly full."""


@dataclass
class Vitals:
    """What the loop last noted.

    Attributes:
        source, model: their names.
        frames: decisions made.
        state: the last decision in words.
        lost_for: seconds since the source was lost; 0 while it is there.
        hangs: the source neither gives a frame nor fails.
    """

    source: str = ""
    model: str = ""
    frames: int = 0
    state: str = ""
    lost_for: Callable[[], float] = field(default=lambda: 0.0)
    hangs: bool = False
    began: float = field(default_factory=time.monotonic)
    _thermometer: Thermometer = field(default_factory=Thermometer)

    def problems(self, folder: Path) -> list[str]:
        """A sentence for each thing that is wrong with source, heat or space; `folder` lies on the card."""
        found = []
        lost = self.lost_for()
        if lost:
            found.append(f"The source {self.source} has been lost for {_span(lost)}.")
        if self.hangs:
            found.append(f"The source {self.source} hangs.")
        heat = self._thermometer.read()
        if heat is not None and heat >= HOT_C:
            found.append(f"The processor has {heat:.0f} °C and slows down; give it shade or a heat sink.")
        free = _free(folder)
        if free is not None and free < LOW_BYTES:
            found.append(f"Only {free / 1e6:,.0f} MB are free on the card.")
        return found

    def health(self, folder: Path) -> Mapping[str, object]:
        """Name -> value in the order to be shown."""
        heat, free = self._thermometer.read(), _free(folder)
        return {
            "source": self.source,
            "model": self.model,
            "running for": _span(time.monotonic() - self.began),
            "frames": self.frames,
            "last": self.state or "waiting for the first frame",
            "processor": "temperature unknown" if heat is None else f"{heat:.1f} °C",
            "free space": "unknown" if free is None else f"{free / 1e9:,.1f} GB",
        }


def _free(folder: Path) -> int | None:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def _span(seconds: float) -> str:
    for size, name in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} seconds"
