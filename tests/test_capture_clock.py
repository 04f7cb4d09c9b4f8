"""Capture times of tables: every common spelling, one clock, and no absurd ones."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from bench.clock import parse_time, read_clock, without_absurd
from edge.errors import InputError

NOON = datetime(2021, 11, 6, 12, 0, 0)


@pytest.mark.parametrize(
    "text",
    [
        "2021-11-06T12:00:00",
        "2021-11-06 12:00:00.000000000",
        "2021-11-06 12:00",
        "2021:11:06 12:00:00",
        "2021/11/06 12:00:00",
        "20211106_120000",
        "20211106120000",
        "06.11.2021 12:00",
    ],
)
def test_local_times_are_read_in_the_common_spellings(text: str) -> None:
    assert parse_time(text) == NOON


@pytest.mark.parametrize(
    "text",
    [
        "2021-11-06T12:00:00Z",
        "2021-11-06T18:00:00+06:00",
        "1636200000",
        "1636200000.0",
        "1636200000000",
        "1636200000000000",
    ],
)
def test_zoned_times_and_times_since_1970_mean_the_same_instant(text: str) -> None:
    time = parse_time(text)
    assert time is not None
    assert time.astimezone(timezone.utc).replace(tzinfo=None) == NOON


@pytest.mark.parametrize(
    "text",
    ["", "soon", "2021-13-40", "06/11/2021 12:00", "1e30", "nan", "-90000000000", "-99999999999999999999"],
)
def test_what_is_no_time_or_could_be_two_is_not_guessed(text: str) -> None:
    assert parse_time(text) is None


def test_clocks_that_were_never_set_are_counted_and_unknown() -> None:
    texts = ["2021-11-06T12:00:00"] * 9 + [
        "1970-01-01T00:00:10",
        "2000-01-01T00:00:00",
        "2089-01-01T00:00:00",
        "?",
    ]
    clock = read_clock([*texts, None])
    assert [time is not None for time in clock.times] == [True] * 9 + [False] * 5
    assert (clock.missing, clock.unreadable, clock.absurd) == (1, 2, 2)
    assert len(clock.notes) == 3
    assert without_absurd([None, None]) == ([None, None], 0)


def test_local_and_utc_mixed_is_said_and_an_offset_mends_it() -> None:
    texts = ["2021-11-06T18:00:00", "2021-11-06T12:00:00Z", "2021-11-06T18:00:00+06:00"]
    mixed = read_clock(texts)
    assert mixed.mixed
    assert "--utc-offset" in mixed.notes[0]
    mended = read_clock(texts, utc_offset=6.0)
    assert not mended.mixed
    assert mended.times == (NOON, NOON, NOON)


@pytest.mark.parametrize("offset", [float("nan"), 1e9, 1e300, -24.5])
def test_hours_that_no_zone_has_are_refused(offset: float) -> None:
    with pytest.raises(InputError, match="from -24 to 24"):
        read_clock(["2021-11-06T12:00:00"], offset)


def test_one_zone_throughout_keeps_its_wall_clock() -> None:
    clock = read_clock(["2021-11-06T12:00:00+06:00", "2021-11-06T12:00:00+06:00"])
    assert clock.times == (NOON, NOON)
    assert not clock.mixed
