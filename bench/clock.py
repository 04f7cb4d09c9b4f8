"""Capture times as tables write them, brought to one clock; what cannot be a capture time is unknown.

Loggers write local time, UTC or both, seconds since 1970, and 1970 or 2000 when their battery is empty.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

import numpy as np

from edge.errors import InputError

FURTHEST_YEARS = 10.0
"""Times further than this from the median of all are taken for a clock that was never set."""

MOST_OFFSET = 24.0
"""Hours that a zone may be ahead of UTC or behind it."""

_YEARS = (1990, 2099)
_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?$")
_FORMATS = (
    "%Y:%m:%d %H:%M:%S",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%d",
    "%Y/%m/%d %H:%M:%S",
    "%Y/%m/%d %H:%M",
    "%Y/%m/%d",
    "%Y.%m.%d %H:%M:%S",
    "%Y%m%d_%H%M%S",
    "%Y%m%d%H%M%S",
    "%d.%m.%Y %H:%M:%S",
    "%d.%m.%Y %H:%M",
    "%d.%m.%Y",
)


@dataclass(frozen=True)
class Clock:
    """Times on one clock.

    Attributes:
        times: without zone; None where unknown.
        missing: how many had no value.
        unreadable: how many had a value that is no time, or one outside the years 1990 to 2099.
        absurd: how many lay more than `FURTHEST_YEARS` from the median of all.
        zoned: how many carried a zone (a time since 1970 counts as UTC).
        mixed: some carried a zone and others none, and nothing says how the two relate.
    """

    times: tuple[datetime | None, ...]
    missing: int
    unreadable: int
    absurd: int
    zoned: int
    mixed: bool

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know of these times, a sentence each."""
        notes = []
        if self.missing:
            notes.append(f"{self.missing:,} of {len(self.times):,} pictures have no time.")
        if self.unreadable:
            notes.append(
                f"{self.unreadable:,} times cannot be read or lie outside the years {_YEARS[0]} to {_YEARS[1]}; they"
                " count as unknown."
            )
        if self.absurd:
            notes.append(
                f"{self.absurd:,} times lie more than {FURTHEST_YEARS:g} years from the median (a clock that was never"
                " set); they count as unknown."
            )
        if self.mixed:
            known = sum(time is not None for time in self.times)
            notes.append(
                f"{self.zoned:,} times carry a zone and {max(known - self.zoned, 0):,} do not: local time and UTC are"
                " mixed, so the two kinds may be hours apart and sessions may be torn; say with --utc-offset how"
                " many hours the times without zone are ahead of UTC."
            )
        return tuple(notes)


def parse_time(text: str) -> datetime | None:
    """One time as text: ISO 8601 with or without zone, EXIF, common local forms, or seconds (or milliseconds,
    microseconds, nanoseconds) since 1970 in UTC; None where it is none of these, or lies outside the years 1 to
    9999. Day-first is read with dots only: with slashes nobody can tell day from month.
    """
    text = text.strip().strip("\x00")
    if _NUMBER.match(text) and len(text.split(".")[0]) not in (8, 14):
        value = float(text)
        # The present is about 1.7e9 seconds after 1970; each finer unit is a thousand times that.
        for limit, unit in ((1e11, 1.0), (1e14, 1e3), (1e17, 1e6), (1e20, 1e9)):
            if abs(value) < limit:
                try:
                    return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=value / unit)
                except OverflowError:
                    return None
        return None
    try:
        # Python 3.10 knows neither the Z of UTC nor fractions of other lengths than 3 and 6.
        iso = re.sub(r"[zZ]$", "+00:00", text)
        iso = re.sub(r"\.(\d{1,9})", lambda found: "." + found[1][:6].ljust(6, "0"), iso, count=1)
        return datetime.fromisoformat(iso)
    except (ValueError, OverflowError):
        pass
    for pattern in _FORMATS:
        try:
            return datetime.strptime(text, pattern)
        except ValueError:
            continue
    return None


def read_clock(texts: Sequence[str | None], utc_offset: float | None = None) -> Clock:
    """Bring times to one clock.

    Args:
        texts: of each picture; None where there is no value.
        utc_offset: hours that times without zone are ahead of UTC; None where nobody knows.

    Returns:
        Times that all carry the same zone lose it (their wall clock stays); if zones differ, or `utc_offset`
        is given, all are brought to UTC; if some lack a zone and there is no `utc_offset`, the result is
        marked as mixed.

    Raises:
        InputError: `utc_offset` is no number of hours from -24 to 24.
    """
    if utc_offset is not None and not -MOST_OFFSET <= utc_offset <= MOST_OFFSET:
        raise InputError(
            f"--utc-offset {utc_offset:g} is no time zone; give the hours that the times are ahead of UTC, from"
            f" {-MOST_OFFSET:g} to {MOST_OFFSET:g}"
        )
    parsed = [None if text is None else parse_time(text) for text in texts]
    found = [time if time is not None and _YEARS[0] <= time.year <= _YEARS[1] else None for time in parsed]
    missing = sum(text is None for text in texts)
    unreadable = sum(time is None for time in found) - missing
    zones = [time.utcoffset() for time in found if time is not None]
    zoned = sum(zone is not None for zone in zones)
    mixed = 0 < zoned < len(zones) and utc_offset is None
    one_clock = len(set(zones)) <= 1 and utc_offset is None
    times: list[datetime | None] = []
    for time in found:
        if time is None:
            times.append(None)
            continue
        zone = time.utcoffset()
        plain = time.replace(tzinfo=None)
        if not one_clock:
            plain -= zone if zone is not None else timedelta(hours=utc_offset or 0.0)
        times.append(plain)
    kept, absurd = without_absurd(times)
    return Clock(tuple(kept), missing, unreadable, absurd, zoned, mixed)


def without_absurd(times: Sequence[datetime | None]) -> tuple[list[datetime | None], int]:
    """The times, those more than `FURTHEST_YEARS` from the median made None, and how many those were."""
    known = [time for time in times if time is not None]
    if not known:
        return list(times), 0
    median = sorted(known)[len(known) // 2]
    limit = timedelta(days=365.25 * FURTHEST_YEARS)
    kept = [time if time is not None and abs(time - median) <= limit else None for time in times]
    return kept, len(known) - sum(time is not None for time in kept)


def seconds(times: Sequence[datetime | None]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Seconds since 1970 on the times' own clock, float64; NaN where unknown."""
    start = datetime(1970, 1, 1)
    return np.array([np.nan if time is None else (time - start).total_seconds() for time in times])
