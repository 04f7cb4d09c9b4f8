"""Time on a board without a battery: wall clock, monotonic clock, boot id, and when to believe the first.

After a power cut a board without a real-time clock starts in 1970, or where it last saved its time. The clock
that counts since boot is right all along, so a journal that keeps both for every row can date the rows of a
boot once the wall clock has been set: time = monotonic + (wall now - monotonic now).
"""

from __future__ import annotations

import datetime
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

BUILT = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc).timestamp()
"""Unix seconds. No clock that is set shows less: this software did not exist. Raised with releases."""

_LATEST = datetime.datetime(2200, 1, 1, tzinfo=datetime.timezone.utc).timestamp()
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class Clock:
    """Where the times come from.

    Attributes:
        wall: Unix seconds, as far as the device knows them.
        monotonic: seconds since an arbitrary moment of this boot; never steps.
        boot_id: changes with every boot; monotonic times compare within one boot only.
    """

    wall: Callable[[], float]
    monotonic: Callable[[], float]
    boot_id: str


def is_set(wall: float) -> bool:
    """Whether a wall time (Unix seconds) can be right: not before this software was built, nor after 2200."""
    return BUILT <= wall < _LATEST


def system_clock() -> Clock:
    """The clocks of this machine. Where the system has no boot id, one is drawn for this process."""
    try:
        boot_id = _BOOT_ID.read_text("ascii").strip()
    except OSError:
        boot_id = str(uuid.uuid4())
    return Clock(time.time, _since_boot, boot_id)


def _since_boot() -> float:
    # CLOCK_MONOTONIC stands still while a machine sleeps, which would look like a step of the wall clock.
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()
