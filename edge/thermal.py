"""The processor's temperature, as Linux tells it, and what a Raspberry Pi says of throttling."""

from __future__ import annotations

import time
from pathlib import Path

ZONES = Path("/sys/class/thermal")

THROTTLE_BITS = {
    0: "under-voltage",
    1: "frequency capped",
    2: "throttled",
    3: "soft temperature limit",
}
"""Meaning of the flags of `vcgencmd get_throttled`; bit + 16 says that it happened since the board started.

Source: Raspberry Pi documentation, "vcgencmd get_throttled".
"""

_CPU_NAMES = ("cpu", "soc", "x86_pkg_temp")
_EVERY_S = 5.0


def read_temperature(zones: Path = ZONES) -> float | None:
    """Degrees Celsius of the first thermal zone whose type names the processor, else of the first that answers.

    Returns:
        None where no zone gives a sensible value (-40..150), as in most virtual machines.
    """
    found: list[tuple[bool, float]] = []
    for zone in sorted(zones.glob("thermal_zone*")):
        try:
            celsius = int((zone / "temp").read_text()) / 1000
            kind = (zone / "type").read_text().strip().lower()
        except (OSError, ValueError):
            continue
        if -40 <= celsius <= 150:
            found.append((not kind.startswith(_CPU_NAMES), celsius))
    return min(found, key=lambda pair: pair[0])[1] if found else None


class Thermometer:
    """`read_temperature`, asked at most every 5 seconds: on some boards a reading takes milliseconds."""

    def __init__(self, zones: Path = ZONES) -> None:
        self._zones = zones
        self._at = float("-inf")
        self._celsius: float | None = None

    def read(self) -> float | None:
        """Degrees Celsius, or None."""
        now = time.monotonic()
        if now - self._at >= _EVERY_S:
            self._at, self._celsius = now, read_temperature(self._zones)
        return self._celsius


def parse_throttled(text: str) -> int:
    """The flags in the output of `vcgencmd get_throttled` ("throttled=0x50005") or in its sysfs file ("50005").

    Raises:
        ValueError: it is neither.
    """
    return int(text.strip().split("=")[-1], 16)
