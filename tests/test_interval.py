"""Student-t intervals and the comparable band."""

from __future__ import annotations

import pytest

from bench.interval import Interval, against_band, paired, student


def test_the_interval_is_students() -> None:
    # t(0.975, 6) = 2.4469; standard deviation of 1..7 is 2.1602; sqrt(7) = 2.6458.
    found = student([1, 2, 3, 4, 5, 6, 7])
    assert found.mean == 4
    assert found.high - found.mean == pytest.approx(2.4469 * 2.1602 / 2.6458, abs=1e-3)
    assert found.mean - found.low == pytest.approx(found.high - found.mean)


def test_pairs_within_seed_remove_what_the_seeds_share() -> None:
    first, second = student([0.5, 0.7, 0.9]), student([0.4, 0.6, 0.8])
    difference = paired(first, second)
    assert difference.mean == pytest.approx(0.1)
    assert difference.high - difference.low == pytest.approx(0, abs=1e-12)
    assert first.high - first.low > 0.5


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (0.02, 0.05, "superior"),
        (-0.009, 0.009, "comparable"),
        (-0.05, -0.02, "inferior"),
        (0.005, 0.03, "undecided"),
        (-0.5, 0.5, "undecided"),
        (0.01, 0.03, "undecided"),
    ],
)
def test_the_whole_interval_must_lie_on_one_side_of_the_band(low: float, high: float, word: str) -> None:
    assert against_band(Interval((low + high) / 2, low, high, (low, high)), 0.01) == word
