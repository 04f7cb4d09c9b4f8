"""Result files that were damaged or edited: what cannot be is refused in a sentence, whatever it is."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from planted_latency import planted_entry, planted_soak

from bench.audit import audit as run_audit
from bench.baseline import Settings
from bench.reading import read_readings
from bench.report.page import sections
from bench.result import pictures_text, read_results, same_pictures, write_results
from bench.sample import end_to_end, pack, percentile_interval, to_ticks
from edge.errors import InputError

BODY = ("results", 0, "body")
MACHINE = ("results", 0, "machine")
MODEL = ("results", 0, "model")

Path_ = Sequence[str | int]


@pytest.fixture(scope="module")
def latency(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A latency result as JSON values: a peer's loop, operators and a sustained run in it."""
    file = tmp_path_factory.mktemp("result") / "latency.json"
    times = [60.0 + number % 7 / 10 for number in range(100)]
    entry = planted_entry(times, soak=planted_soak(), operators=[("CONV", "Delegate", 30.0)])
    write_results(file, [entry], ["test"])
    values: dict[str, Any] = json.loads(file.read_text())
    return values


def edited(values: dict[str, Any], path: Path_, value: Any) -> dict[str, Any]:
    """A copy with the value at `path` replaced; an ellipsis takes it away."""
    made = copy.deepcopy(values)
    inner: Any = made
    for step in path[:-1]:
        inner = inner[step]
    if value is Ellipsis:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return made


def read(values: Any, folder: Path) -> Any:
    (folder / "edited.json").write_text(json.dumps(values))
    return read_results(folder / "edited.json")


def test_what_was_written_is_read_and_drawn(latency: dict[str, Any], tmp_path: Path) -> None:
    assert len(sections(read(latency, tmp_path))) == 3


def test_an_interval_of_before_its_confidence_was_written_was_made_at_95_percent(
    latency: dict[str, Any], tmp_path: Path
) -> None:
    body = latency["results"][0]["body"]
    found = percentile_interval(end_to_end(body["samples"]), 90, 0.95)
    old = {**asdict(found), "width": found.width(body["end_to_end"]["p90"])}
    assert read(edited(latency, (*BODY, "p90_interval"), old), tmp_path)[0].body["p90_interval"] == old
    with pytest.raises(InputError, match="p90_interval"):
        read(edited(latency, (*BODY, "p90_interval", "confidence"), ...), tmp_path)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ((*BODY, "throughput_per_s"), None),
        ((*BODY, "end_to_end", "p50"), 0),
        ((*BODY, "end_to_end", "p90"), 0),
        ((*BODY, "end_to_end", "p50"), "fast"),
        ((*BODY, "samples", "read"), {**pack(to_ticks([1])), "count": 0, "data": "eJwDAAAAAAE="}),
        ((*BODY, "samples", "read", "count"), 10**9),
        ((*BODY, "samples", "read", "data"), "AAAA"),
        ((*BODY, "samples", "read"), pack(to_ticks([0] * 3))),
        ((*BODY, "samples", "extra"), pack(to_ticks([0] * 100))),
        ((*BODY, "threads"), 10**30),
        ((*BODY, "threads"), 1.0),
        ((*BODY, "cold_start"), {"value": None, "reason": "none", "median": "x"}),
        ((*BODY, "operators"), {"value": None, "source": "x"}),
        ((*BODY, "p90_interval", "confidence"), 2),
        ((*BODY, "soak", "series", "p50_ms"), [1.0]),
        ((*BODY, "soak", "series", "t_s", 0), None),
        ((*BODY, "soak", "series", "throttle_flags", 0), 4.0),
        ((*BODY, "soak", "series", "clock_mhz", 0), 10**30),
        ((*BODY, "soak", "queries"), 1),
        ((*BODY, "soak", "reasons"), {}),
        ((*MACHINE, "cores"), {"value": "two", "source": "x"}),
        ((*MACHINE, "board"), {"value": {"a": 1}, "source": "x"}),
        ((*MACHINE, "board"), {"value": None, "source": "x"}),
        ((*MACHINE, "other_load_cores"), {"value": "lots", "source": "x"}),
        ((*MACHINE, "after", "throttle_flags"), {"value": "0x5", "source": "x"}),
        ((*MACHINE, "after", "throttle_flags"), {"value": 5.0, "source": "x"}),
        ((*MACHINE, "after", "temperature_c"), {"value": "hot", "source": "x"}),
        ((*MACHINE, "after", "temperature_c"), {"value": True, "source": "x"}),
        ((*MACHINE, "during", 0, "clock_mhz"), {"value": ["quick"], "source": "x"}),
        ((*MACHINE, "before", "swapped_pages"), {"value": [1], "source": "x"}),
        (MODEL, None),
        ((*MODEL, "scores"), [{}]),
        ((*MODEL, "scores"), "x"),
        ((*MODEL, "scores", 0, "macro_f1"), "good"),
        ((*MODEL, "scores", 0, "time_baseline"), {}),
        ((*MODEL, "scores", 0, "per_class", "Healthy", "recall"), None),
        ((*MODEL, "training"), {}),
        (("results", 0, "kind"), "result"),
        (("results", 0, "kind"), "audit"),
        (("version",), True),
    ],
    ids=lambda value: "/".join(map(str, value[2:])) if isinstance(value, tuple) else None,
)
def test_what_cannot_be_is_refused_where_it_stands(
    latency: dict[str, Any], tmp_path: Path, path: Path_, value: Any
) -> None:
    with pytest.raises(InputError, match=r"edited\.json: "):
        read(edited(latency, path, value), tmp_path)


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ((*BODY, "end_to_end", "p50"), lambda value: 0.001),
        ((*BODY, "end_to_end", "mean"), lambda value: value * 1.001),
        ((*BODY, "stages", "invoke", "p90"), lambda value: value / 2),
        ((*BODY, "p90_interval", "lower"), lambda value: value * 1.001),
        ((*BODY, "p90_interval", "width"), lambda value: None),
        ((*BODY, "throughput_per_s"), lambda value: 2 * value),
        ((*BODY, "queries"), lambda value: value + 1),
        ((*BODY, "warm_up", "seconds"), lambda value: value + 1),
        ((*BODY, "peer", "invoke", "p50"), lambda value: 1.0),
    ],
    ids=lambda value: "/".join(map(str, value[2:])) if isinstance(value, tuple) else None,
)
def test_figures_that_contradict_the_samples_beside_them_are_refused(
    latency: dict[str, Any], tmp_path: Path, path: Path_, change: Callable[[Any], Any]
) -> None:
    inner: Any = latency
    for step in path:
        inner = inner[step]
    with pytest.raises(InputError, match=f"{path[-1]} is .*raw values in the same file"):
        read(edited(latency, path, change(inner)), tmp_path)


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A small audit as JSON values: two classes on six days."""
    folder = tmp_path_factory.mktemp("audit")
    rows = [
        f"{number}.jpg,{'ab'[number % 2]},2026-05-{1 + number % 6:02d}T08:{number:02d}:00,{number % 5}"
        for number in range(48)
    ]
    (folder / "table.csv").write_text("\n".join(["path,label,time,humidity", *rows]) + "\n")
    settings = Settings(seeds=3, trees=2)
    entry = run_audit(read_readings(folder / "table.csv"), "date", settings, permutations=20)
    write_results(folder / "audit.json", [entry], ["test"])
    values: dict[str, Any] = json.loads((folder / "audit.json").read_text())
    return values


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ((*BODY, "groups"), None),
        ((*BODY, "average", "scores", "cv"), ...),
        ((*BODY, "average", "scores", "cv", "time", "macro_f1", "mean"), 0.123),
        ((*BODY, "average", "scores", "cv", "time", "macro_f1", "low"), 2),
        ((*BODY, "average", "scores", "invented"), {}),
        ((*BODY, "crops", 0, "sharing", 0, "histogram"), [1.0]),
        ((*BODY, "crops", 0, "groups", "a"), ...),
        ((*BODY, "settings", "histogram_from"), ...),
        ((*BODY, "verdict", "next_steps"), [1]),
    ],
    ids=lambda value: "/".join(map(str, value[2:])) if isinstance(value, tuple) else None,
)
def test_an_audit_that_cannot_be_is_refused(
    audit: dict[str, Any], tmp_path: Path, path: Path_, value: Any
) -> None:
    assert len(read(audit, tmp_path)) == 1
    with pytest.raises(InputError, match=r"edited\.json: "):
        read(edited(audit, path, value), tmp_path)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "1" + "0" * 400])
def test_numbers_that_are_not_finite_are_refused(
    latency: dict[str, Any], tmp_path: Path, number: str
) -> None:
    text = json.dumps(edited(latency, (*BODY, "harness", "per_query_us"), "HERE")).replace('"HERE"', number)
    (tmp_path / "odd.json").write_text(text)
    with pytest.raises(InputError, match=r"odd\.json: damaged result, it holds .* finite number"):
        read_results(tmp_path / "odd.json")


@pytest.mark.parametrize(
    ("version", "words"),
    [("1", 'its version "1" is no whole number'), (1.0, "no whole number"), (None, "no whole number"),
     (2, "newer than the 1"), (0, "version")],
)  # fmt: skip
def test_a_version_is_called_what_it_is(
    latency: dict[str, Any], tmp_path: Path, version: Any, words: str
) -> None:
    with pytest.raises(InputError, match=words):
        read({**latency, "version": version}, tmp_path)


def test_pictures_are_told_apart_by_their_digest() -> None:
    one = {"images": 1200, "source": "photographs", "digest": "3f9a1c" + "0" * 58}
    assert pictures_text(one) == "1,200 photographs (3f9a1c)"
    assert same_pictures(one, dict(one))
    assert not same_pictures(one, {**one, "digest": "a" * 64})
    unknown = {**one, "digest": None}
    assert not same_pictures(unknown, unknown)
    assert pictures_text(None) == "unknown pictures"
