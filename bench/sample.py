"""Samples of time: percentiles, their intervals, settling, and how samples are kept in a file.

Percentiles are observed values: the p-th percentile of n samples is the ceil(n * p / 100)-th smallest (Hyndman &
Fan 1996, definition 1), so "p90 = 12 ms" means that nine of ten queries were done within 12 ms. Intervals are
distribution-free: between two order statistics lies the true percentile with a probability that the binomial
distribution gives, whatever the times are distributed like (Hahn & Meeker 1991, section 5.2; David & Nagaraja
2003, section 7.1). They take the samples to be independent; on a machine whose speed drifts they are too narrow.

That probability is the one for a number of samples settled beforehand. Samples that are taken until the interval
is narrow (`enough`) end where it happens to be narrower than it should be: simulated, an interval made at 95 %
then holds the true p90 in 91 to 95 % of the runs. So it is made at `CONFIDENCE`, and then holds it in 96 % or more
(normal, log-normal, exponential, even and two-humped times; tests/test_sample.py repeats three of them).
"""

from __future__ import annotations

import base64
import binascii
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from edge.errors import InputError

TICK = 100
"""Nanoseconds in a tick, the unit in which samples are kept: 32 bits of them reach seven minutes."""

MAXIMUM_SAMPLES = 10_000_000

CONFIDENCE = 0.98
"""What intervals are made at so that they hold the truth with 95 % although sampling ends when they are narrow."""

Ticks = npt.NDArray[np.uint32]
"""Durations in ticks of `TICK` nanoseconds, in the order in which they were measured."""


@dataclass(frozen=True)
class Interval:
    """An interval of a percentile, in the samples' unit.

    `coverage` is the probability that it holds the truth if the number of samples was settled beforehand. A side
    is None where too few samples were taken for any of them to bound the percentile.
    """

    lower: float | None
    upper: float | None
    coverage: float

    def width(self, value: float) -> float:
        """Width of the interval as a share of `value`; infinite where a side is missing."""
        if self.lower is None or self.upper is None or value <= 0:
            return math.inf
        return (self.upper - self.lower) / value


@dataclass(frozen=True)
class Summary:
    """Statistics of one series of durations, in milliseconds; `deviation` has n - 1 in the denominator."""

    count: int
    minimum: float
    mean: float
    deviation: float
    p50: float
    p90: float
    p95: float
    p99: float
    maximum: float


def to_ticks(nanoseconds: Sequence[int] | npt.NDArray[np.integer]) -> Ticks:
    """Durations in nanoseconds as ticks, rounded to the nearest; longer ones than 32 bits hold are cut there."""
    rounded = (np.asarray(nanoseconds, dtype=np.int64) + TICK // 2) // TICK
    ticks: Ticks = np.clip(rounded, 0, np.iinfo(np.uint32).max).astype(np.uint32)
    return ticks


def milliseconds(ticks: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
    """Ticks as milliseconds, float64."""
    return np.asarray(ticks, dtype=np.float64) * (TICK / 1e6)


def percentile_rank(count: int, percent: int) -> int:
    """Which of `count` sorted samples, counted from 1, is the percentile: ceil(count * percent / 100)."""
    return max(1, -(-count * percent // 100))


def percentile(values: npt.NDArray[Any], percent: int) -> float:
    """The percentile (0..100, whole) of at least one value; always one of the values."""
    rank = percentile_rank(len(values), percent)
    return float(np.partition(values, rank - 1)[rank - 1])


@lru_cache(maxsize=1024)
def interval_ranks(
    count: int, percent: int, confidence: float = 0.95
) -> tuple[int | None, int | None, float]:
    """Ranks (from 1) of the order statistics that enclose a percentile.

    With B binomial (count, percent / 100): the lower rank is the largest l with P(B < l) <= (1 - confidence) / 2,
    the upper one the smallest u with P(B >= u) <= (1 - confidence) / 2.

    Returns:
        l, u (None where no sample bounds the percentile on that side) and the coverage P(l <= B < u).
    """
    from scipy.special import bdtr

    tail = (1 - confidence) / 2
    # below[k] = P(B < k) for k = 0 .. count + 1
    below = np.concatenate([[0.0], np.atleast_1d(bdtr(np.arange(count + 1), count, percent / 100))])
    lower = int(np.searchsorted(below, tail, side="right")) - 1
    reaches = np.flatnonzero(1 - below <= tail)
    upper = int(reaches[0])
    covered = (below[upper] if upper <= count else 1.0) - (below[lower] if lower >= 1 else 0.0)
    return (lower if lower >= 1 else None), (upper if upper <= count else None), float(covered)


def percentile_interval(values: npt.NDArray[Any], percent: int, confidence: float = 0.95) -> Interval:
    """The distribution-free interval of a percentile; see the module's docstring."""
    ordered = np.sort(values)
    lower, upper, coverage = interval_ranks(len(ordered), percent, confidence)
    return Interval(
        None if lower is None else float(ordered[lower - 1]),
        None if upper is None else float(ordered[upper - 1]),
        coverage,
    )


def enough(values: npt.NDArray[Any], percent: int, precision: float) -> bool:
    """Whether a percentile's interval is narrower than `precision`, a share of the percentile."""
    width = percentile_interval(values, percent, CONFIDENCE).width(percentile(values, percent))
    return width < precision


def next_check(count: int) -> int:
    """The number of samples at which to ask again whether `count` were `enough`: a tenth more, at least ten."""
    return count + max(10, count // 10)


def summarise(values: npt.NDArray[np.float64]) -> Summary:
    """Statistics of durations in milliseconds, at least one."""
    if len(values) == 0:
        raise InputError("no samples were taken, so there is nothing to summarise")
    return Summary(
        count=len(values),
        minimum=float(values.min()),
        mean=float(values.mean()),
        deviation=float(values.std(ddof=1)) if len(values) > 1 else 0.0,
        p50=percentile(values, 50),
        p90=percentile(values, 90),
        p95=percentile(values, 95),
        p99=percentile(values, 99),
        maximum=float(values.max()),
    )


def settled(values: Sequence[float], window: int = 10, windows: int = 3, tolerance: float = 0.02) -> bool:
    """Whether the running median has come to rest.

    The medians of the last `windows` stretches of `window` samples each, one after the other without overlap,
    differ by no more than `tolerance` of the smallest of them.
    """
    needed = window * windows
    if len(values) < needed:
        return False
    last = np.asarray(values[-needed:], dtype=np.float64).reshape(windows, window)
    medians = np.median(last, axis=1)
    return bool(medians.max() - medians.min() <= tolerance * medians.min())


def end_to_end(samples: Mapping[str, Mapping[str, Any]]) -> npt.NDArray[np.float64]:
    """Milliseconds of each query, float64 (queries,): the sum over its stages, from an entry's packed samples.

    Raises:
        InputError: the samples are damaged, or the stages do not have equally many.
    """
    stages = [unpack(packed).astype(np.int64) for packed in samples.values()]
    if len({len(ticks) for ticks in stages}) != 1:
        raise InputError("the stages of the result do not have equally many samples; measure again")
    return milliseconds(np.sum(stages, axis=0, dtype=np.int64))


def p90_interval(values: npt.NDArray[np.float64]) -> Interval:
    """The interval of the p90 of times that were taken until it was narrow: holds it with 95 % or more."""
    return percentile_interval(values, 90, CONFIDENCE)


def pack(ticks: Ticks) -> dict[str, Any]:
    """Samples as JSON values: little-endian 32-bit ticks, zlib, base64; about 3 bytes a sample."""
    # The four bytes of each number are laid apart: the high ones hardly change, and so they compress well.
    planes = np.ascontiguousarray(ticks.astype("<u4")).view(np.uint8).reshape(-1, 4).T
    data = base64.b64encode(zlib.compress(np.ascontiguousarray(planes).tobytes(), 9)).decode()
    return {
        "encoding": "base64(zlib(byte planes of uint32))",
        "tick_ns": TICK,
        "count": len(ticks),
        "data": data,
    }


def unpack(values: Mapping[str, Any]) -> Ticks:
    """The samples that `pack` wrote.

    Raises:
        InputError: the data are damaged, too many, or in another tick.
    """
    count = values["count"]
    if values["tick_ns"] != TICK or not 0 <= count <= MAXIMUM_SAMPLES:
        raise InputError(
            f"the samples of the result are in an unknown form (tick {values['tick_ns']} ns, {count})"
        )
    try:
        # One byte more than promised is let through, so that a longer stream is noticed and none is unbounded.
        data = zlib.decompressobj().decompress(base64.b64decode(values["data"], validate=True), 4 * count + 1)
    except (zlib.error, binascii.Error, ValueError):
        raise InputError("the samples of the result are damaged; measure again") from None
    if len(data) != 4 * count:
        raise InputError(f"the samples of the result are damaged: {len(data)} bytes for {count} samples")
    planes = np.frombuffer(data, dtype=np.uint8).reshape(4, count)
    ticks: Ticks = np.ascontiguousarray(planes.T).view("<u4").reshape(-1).astype(np.uint32)
    return ticks
