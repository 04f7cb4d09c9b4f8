"""Means over seeds with Student-t intervals, and what a difference means against a band of indifference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """A mean with its interval, and the values that it was made from (one a seed)."""

    mean: float
    low: float
    high: float
    values: tuple[float, ...]

    @property
    def text(self) -> str:
        """For example "0.974 [0.971, 0.977]"."""
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


def student(values: Sequence[float]) -> Interval:
    """Mean and two-sided 95 % Student-t interval; a single value has no width to know, so it gets none.

    With n values, s their standard deviation (n - 1): mean +/- t(0.975, n - 1) s / sqrt(n).
    """
    array = np.asarray(values, dtype=np.float64)
    mean = float(array.mean())
    half = 0.0
    if len(array) > 1:
        from scipy import stats

        half = float(
            stats.t.ppf(0.5 + CONFIDENCE / 2, len(array) - 1) * array.std(ddof=1) / math.sqrt(len(array))
        )
    return Interval(mean, mean - half, mean + half, tuple(float(value) for value in array))


def paired(first: Interval, second: Interval) -> Interval:
    """Interval of the difference first - second within each seed."""
    return student([a - b for a, b in zip(first.values, second.values, strict=True)])


def against_band(difference: Interval, margin: float) -> str:
    """ "superior", "comparable", "inferior" or, where the interval leaves it open, "undecided".

    The whole interval must lie above the band (superior), within it (comparable) or below it (inferior).

    Args:
        difference: of two scores, 0..1.
        margin: half width of the band, in the same unit (0.01 is one point).
    """
    if difference.low > margin:
        return "superior"
    if difference.high < -margin:
        return "inferior"
    if difference.low >= -margin and difference.high <= margin:
        return "comparable"
    return "undecided"
