"""Percentiles, their intervals, settling and packing, on sequences whose answers are known."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.sample import (
    CONFIDENCE,
    Interval,
    end_to_end,
    enough,
    interval_ranks,
    milliseconds,
    next_check,
    p90_interval,
    pack,
    percentile,
    percentile_interval,
    percentile_rank,
    settled,
    summarise,
    to_ticks,
    unpack,
)
from edge.errors import InputError


@pytest.mark.parametrize(
    ("count", "percent", "rank"),
    [(1, 90, 1), (10, 90, 9), (11, 90, 10), (100, 99, 99), (101, 99, 100), (4, 50, 2), (5, 50, 3), (7, 0, 1)],
)
def test_a_percentile_is_an_observed_value(count: int, percent: int, rank: int) -> None:
    shuffled = np.random.default_rng(0).permutation(np.arange(1.0, count + 1))
    assert percentile_rank(count, percent) == rank
    assert percentile(shuffled, percent) == rank


@pytest.mark.parametrize(
    ("count", "percent", "lower", "upper", "coverage"),
    [
        # P(B <= 1) = P(B >= 9) = 11/1024 for B ~ binomial(10, 1/2): the textbook interval of a median of ten.
        (10, 50, 2, 9, 1 - 22 / 1024),
        # 0.9^36 = 0.0225 is the first power below 0.025: 36 values are the fewest whose largest bounds the p90.
        (36, 90, 29, 36, None),
        (35, 90, 28, None, None),
        # 0.5^5 = 0.031 is too much for either end.
        (5, 50, None, None, 1.0),
        (6, 50, 1, 6, 1 - 2 / 64),
    ],
)
def test_ranks_of_an_interval(
    count: int, percent: int, lower: int | None, upper: int | None, coverage: float | None
) -> None:
    found = interval_ranks(count, percent)
    assert found[:2] == (lower, upper)
    assert found[2] >= 0.95
    if coverage is not None:
        assert found[2] == pytest.approx(coverage)


def test_the_interval_covers_the_true_percentile_as_often_as_it_says() -> None:
    # The 90th percentile of an exponential distribution with mean 1 is ln 10.
    generator = np.random.default_rng(4)
    hits = 0
    for _ in range(400):
        interval = percentile_interval(generator.exponential(size=200), 90)
        assert interval.lower is not None
        assert interval.upper is not None
        hits += interval.lower <= math.log(10) <= interval.upper
    # 0.95 of 400 is 380; four standard deviations of the count are 17.
    assert 363 <= hits <= 400
    assert hits / 400 == pytest.approx(interval.coverage, abs=0.045)


NORMAL_P90 = NormalDist().inv_cdf(0.9)

# Ways in which times scatter, each with its true p90.
SCATTERS: dict[str, tuple[Callable[[np.random.Generator, int], Any], float]] = {
    "normal": (lambda generator, count: generator.normal(10, 1, count), 10 + NORMAL_P90),
    "log-normal": (
        lambda generator, count: 10 * np.exp(generator.normal(0, 0.15, count)),
        10 * math.exp(0.15 * NORMAL_P90),
    ),
    # 88 % fast, 12 % slow: the p90 is the 1/6 quantile of the slow ones.
    "two humps": (
        lambda generator, count: np.where(
            generator.random(count) < 0.88, generator.normal(10, 0.1, count), generator.normal(13, 0.3, count)
        ),
        13 + 0.3 * NormalDist().inv_cdf(0.02 / 0.12),
    ),
}


@pytest.mark.parametrize("name", SCATTERS)
def test_the_interval_holds_the_p90_as_often_as_promised_although_sampling_ends_when_it_is_narrow(
    name: str,
) -> None:
    draw, truth = SCATTERS[name]
    generator = np.random.default_rng(8)
    hits, runs = 0, 300
    for _ in range(runs):
        times, count = draw(generator, 20_000), 100
        while not enough(times[:count], 90, 0.03):
            count = next_check(count)
            assert count <= len(times)
        found = p90_interval(times[:count])
        assert found.lower is not None
        assert found.upper is not None
        hits += found.lower <= truth <= found.upper
    assert hits / runs >= 0.95


def test_the_p90s_interval_is_made_at_the_confidence_that_is_written_beside_it() -> None:
    times = np.random.default_rng(9).normal(10, 1, 500)
    assert p90_interval(times) == percentile_interval(times, 90, CONFIDENCE)
    assert p90_interval(times).coverage >= CONFIDENCE


def test_a_query_takes_the_sum_of_its_stages() -> None:
    samples = {"read": pack(to_ticks([10**6, 2 * 10**6])), "invoke": pack(to_ticks([5 * 10**6, 10**6]))}
    assert end_to_end(samples).tolist() == [6.0, 3.0]
    with pytest.raises(InputError, match="equally many"):
        end_to_end({**samples, "resize": pack(to_ticks([1]))})


def test_an_interval_without_an_end_is_infinitely_wide() -> None:
    assert Interval(1.0, None, 1.0).width(2.0) == math.inf
    assert Interval(9.0, 11.0, 0.95).width(10.0) == pytest.approx(0.2)


def test_the_summary_of_known_times() -> None:
    summary = summarise(np.arange(1.0, 101.0))
    assert (summary.count, summary.minimum, summary.mean, summary.maximum) == (100, 1, 50.5, 100)
    assert (summary.p50, summary.p90, summary.p95, summary.p99) == (50, 90, 95, 99)
    assert summary.deviation == pytest.approx(math.sqrt(100 * 101 / 12))
    assert summarise(np.array([3.0])).deviation == 0.0
    with pytest.raises(InputError, match="no samples"):
        summarise(np.array([]))


def test_the_median_settles_when_three_windows_agree() -> None:
    falling = [100.0 - number for number in range(30)]
    assert not settled(falling, window=10, windows=3, tolerance=0.02)
    assert not settled([50.0] * 29, window=10, windows=3, tolerance=0.02)
    assert settled([50.0] * 30, window=10, windows=3, tolerance=0.02)
    # Medians 50, 50.5, 51: two per cent apart is still at rest, a little more is not.
    assert settled([50.0] * 10 + [50.5] * 10 + [51.0] * 10, tolerance=0.02)
    assert not settled([50.0] * 10 + [50.5] * 10 + [51.1] * 10, tolerance=0.02)
    # Single slow queries do not move a median.
    assert settled(([50.0] * 9 + [500.0]) * 3)
    # What came before the last windows is forgotten.
    assert settled([*falling, *[60.0] * 30])


@given(st.lists(st.integers(0, 2**40), max_size=200))
def test_samples_come_back_from_the_file(durations: list[int]) -> None:
    ticks = to_ticks(np.array(durations, dtype=np.int64))
    assert ticks.tolist() == [min((value + 50) // 100, 2**32 - 1) for value in durations]
    assert unpack(pack(ticks)).tolist() == ticks.tolist()


def test_samples_are_kept_compactly() -> None:
    times = np.random.default_rng(5).normal(12e6, 2e5, size=1000).astype(np.int64)
    assert len(pack(to_ticks(times))["data"]) < 4 * 1000
    assert milliseconds(to_ticks(times)) == pytest.approx(times / 1e6, abs=5e-5)


@pytest.mark.parametrize(
    "change",
    [
        {"data": "not base64!"},
        {"data": "AAAA"},
        {"count": 3},
        {"count": 5},
        {"count": -1},
        {"count": 10**9},
        {"tick_ns": 1},
    ],
)
def test_damaged_samples_are_refused(change: dict[str, object]) -> None:
    values = {**pack(to_ticks([100, 200, 300, 400])), **change}
    with pytest.raises(InputError):
        unpack(values)
