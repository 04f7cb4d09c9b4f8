"""The latency protocol under a clock that only moves when a stage says so, and the command as a user meets it."""

from __future__ import annotations

import contextlib
import gc
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from conftest import Command

from bench.cold_start import STEPS, cold_start
from bench.drawing import draw_samples
from bench.duration import parse_seconds, parse_share
from bench.latency import (
    STAGES,
    Configuration,
    Protocol,
    configurations,
    harness_cost,
    measure,
    measure_model,
    peer_loop,
    soak,
    stages_of,
    timed_query,
    warm_up,
    without_garbage_collection,
)
from bench.machine import Probe, known, missing
from bench.pictures import choose_pictures, draw_pictures
from bench.result import read_results, write_results
from bench.sample import milliseconds, percentile, unpack
from edge.classifier import DEFAULT_MODEL, Classifier
from edge.errors import InputError
from edge.preprocessing import InputSpec

MS = 1_000_000


class HandClock:
    """A clock whose hands others move."""

    def __init__(self) -> None:
        self.now = 5_000

    def __call__(self) -> int:
        return self.now


class Queries:
    """Answers queries with given durations, moving the clock, and counts them."""

    def __init__(self, clock: HandClock, milliseconds: Iterator[float]) -> None:
        self.clock, self.milliseconds, self.count = clock, milliseconds, 0

    def __call__(self) -> list[int]:
        self.count += 1
        duration = round(next(self.milliseconds) * MS)
        self.clock.now += duration
        return [duration // 4, duration - duration // 4]


def nothing_to_see() -> Mapping[str, Any]:
    return {
        "temperature_c": missing("no sensor"),
        "clock_mhz": missing("no sensor"),
        "throttle_flags": missing("no sensor"),
        "cooling_state": missing("no sensor"),
    }


def test_each_stage_gets_its_own_time_and_the_value_of_the_one_before() -> None:
    clock = HandClock()

    def stage(add: int, cost: int) -> Any:
        def run(value: int) -> int:
            clock.now += cost
            return value + add

        return run

    seen: list[int] = []
    stages = [("a", stage(1, 30)), ("b", stage(10, 700)), ("c", lambda value: seen.append(value))]
    assert timed_query(stages, 100, clock) == [30, 700, 0]
    assert seen == [111]


def test_warm_up_ends_when_the_median_settles() -> None:
    clock = HandClock()
    # Ten slow, then all alike: at rest once the last three windows of ten hold none of the slow ones.
    queries = Queries(clock, iter([40.0] * 10 + [10.0] * 90))
    found = warm_up(queries, Protocol(), clock)
    assert found.ended == "settled"
    # The oldest window's median still is 10 with four slow ones among its ten (5 of 10 would give 25).
    assert len(found.ticks) == 36
    assert found.ticks[0] == 40 * MS // 100


@pytest.mark.parametrize(
    ("protocol", "ended", "count"),
    [
        (Protocol(warm_up_count=55), "maximum count", 55),
        # Every query is slower than the one before: 10 + 11 + ... ms are 1.05 s after 37 of them.
        (Protocol(warm_up_seconds=1.0), "maximum time", 37),
    ],
)
def test_warm_up_is_bounded(protocol: Protocol, ended: str, count: int) -> None:
    clock = HandClock()
    found = warm_up(Queries(clock, iter(10.0 + n for n in range(1000))), protocol, clock)
    assert (found.ended, len(found.ticks)) == (ended, count)


def test_steady_queries_stop_at_the_minimum_count_and_time() -> None:
    clock = HandClock()
    protocol = Protocol(minimum_count=200, minimum_seconds=3.0, look_seconds=1e9)
    found = measure(Queries(clock, cycle([10.0])), protocol, clock, nothing_to_see)
    # 3 s are 300 queries of 10 ms: the time is reached after the count.
    assert (found.ended, len(found.ticks), found.seconds) == ("precision", 300, pytest.approx(3.0))
    clock = HandClock()
    protocol = Protocol(minimum_count=200, minimum_seconds=1.0, look_seconds=1e9)
    assert len(measure(Queries(clock, cycle([10.0])), protocol, clock, nothing_to_see).ticks) == 200


def test_scattered_queries_go_on_until_the_interval_is_narrow() -> None:
    clock = HandClock()
    scatter = np.random.default_rng(6).uniform(9, 11, size=100_000)
    protocol = Protocol(minimum_count=50, minimum_seconds=0.0, maximum_seconds=1e4, look_seconds=1e9)
    found = measure(Queries(clock, iter(scatter)), protocol, clock, nothing_to_see)
    assert found.ended == "precision"
    # The p90 of 9..11 is 10.8; its interval is about 2 * 1.96 * sqrt(0.09 / n) * 2 wide, 2 % of it at n = 119.
    assert 50 < len(found.ticks) < 400


@pytest.mark.parametrize(
    ("protocol", "ended", "count"),
    [
        (Protocol(minimum_count=10, minimum_seconds=0.0, maximum_seconds=2.0), "maximum time", 101),
        (Protocol(minimum_count=10, minimum_seconds=0.0, maximum_count=60), "maximum count", 60),
        # A model too slow for the minimum count still ends.
        (Protocol(minimum_count=5000, minimum_seconds=0.0, maximum_seconds=2.0), "maximum time", 101),
    ],
)
def test_the_counted_part_is_bounded_and_says_by_what(protocol: Protocol, ended: str, count: int) -> None:
    clock = HandClock()
    # Two kinds of picture, 1 ms and 39 ms in turn with a drift: the interval of the p90 never gets narrow.
    wild = iter([1.0 if n % 2 else 39.0 + n / 2 % 40 for n in range(10_000)])
    found = measure(Queries(clock, wild), protocol, clock, dict)
    assert found.ended == ended
    assert len(found.ticks) <= count
    if ended == "maximum time":
        assert found.seconds >= protocol.maximum_seconds


def test_a_look_at_the_sensors_costs_a_query_that_is_not_counted() -> None:
    clock = HandClock()
    queries = Queries(clock, cycle([10.0]))
    protocol = Protocol(minimum_count=100, minimum_seconds=1.0, look_seconds=0.4)

    def look() -> Mapping[str, Any]:
        clock.now += 50 * MS
        return {"seen_at": known(clock.now, "hand")}

    found = measure(queries, protocol, clock, look)
    # Looks at 0.2 s, and 0.4 s after each other from then on; each with its query takes 60 ms.
    assert len(found.during) == 2
    assert queries.count == len(found.ticks) + 2
    assert set(found.ticks.sum(axis=1)) == {10 * MS // 100}


def test_impossible_protocols_are_refused() -> None:
    with pytest.raises(InputError, match="cannot both hold"):
        Protocol(minimum_seconds=10, maximum_seconds=5)
    with pytest.raises(InputError, match="0 queries"):
        Protocol(minimum_count=0)


def test_the_garbage_collector_is_off_inside_and_as_before_outside() -> None:
    assert gc.isenabled()
    with without_garbage_collection():
        assert not gc.isenabled()
    assert gc.isenabled()
    with contextlib.suppress(KeyError), without_garbage_collection():
        raise KeyError
    assert gc.isenabled()


def test_the_harness_is_measured_with_stages_that_do_nothing() -> None:
    clock = HandClock()

    def ticking() -> int:
        clock.now += 250
        return clock.now

    found = harness_cost(ticking, queries=100)
    # Seven looks at the clock a query, six of them after the first; one before to mark its start, one after.
    assert found["timed_p50_us"] == pytest.approx(6 * 0.25)
    assert found["per_query_us"] == pytest.approx(9 * 0.25)
    assert found["queries"] == 100


def test_soak_sums_up_stretches_with_their_sensors() -> None:
    clock = HandClock()
    # 10 ms a query for the first half, then the board is held down and takes 20 ms.
    queries = Queries(clock, iter([10.0] * 300 + [20.0] * 10_000))

    def look() -> Mapping[str, Any]:
        hot = queries.count > 300
        return {
            "temperature_c": known(80.0 if hot else 60.0, "t"),
            "clock_mhz": known([1800.0, 900.0] if hot else [1800.0, 1800.0], "t"),
            "throttle_flags": known(0x4 if hot else 0, "t"),
            "cooling_state": missing("no cooling device"),
        }

    found = soak(queries, 6.0, clock, look, interval=1.0)
    series = found["series"]
    assert series["t_s"] == [1, 2, 3, 4, 5, 6]
    assert series["queries"] == [100, 100, 100, 50, 50, 50]
    assert series["p50_ms"] == pytest.approx([10, 10, 10, 20, 20, 20])
    assert series["temperature_c"] == [60, 60, 60, 80, 80, 80]
    assert series["clock_mhz"] == [1800, 1800, 1800, 900, 900, 900]
    assert series["throttle_flags"] == [0, 0, 0, 4, 4, 4]
    assert series["cooling_state"] == [None] * 6
    assert found["reasons"] == {"cooling_state": "no cooling device"}
    assert found["drift"] == pytest.approx(2.0)
    assert found["queries"] == 450


def test_stages_give_the_classifiers_own_answer(classifier: Classifier, tmp_path: Path) -> None:
    for path in draw_pictures(tmp_path, per_class=1).paths:
        value: Any = path
        for _, stage in stages_of(classifier):
            value = stage(value)
        assert value == classifier.classify_path(path).label


class CountingInterpreter:
    """Stands for a runtime: takes tensors, and each invoke takes 0.7 ms."""

    def __init__(self, clock: HandClock) -> None:
        self.clock, self.invoked = clock, 0

    def get_input_details(self) -> list[dict[str, Any]]:
        return [{"index": 3}]

    def set_tensor(self, index: int, tensor: Any) -> None:
        assert index == 3
        self.clock.now += 5 * MS

    def invoke(self) -> None:
        self.invoked += 1
        self.clock.now += 700_000


def test_the_peers_loop_times_invoke_alone_400_times_after_10(tmp_path: Path) -> None:
    pictures = draw_pictures(tmp_path, per_class=1).paths[:2]
    clock = HandClock()
    interpreter = CountingInterpreter(clock)
    stand_in = SimpleNamespace(
        interpreter=interpreter, contract=SimpleNamespace(input=InputSpec()), quantise=lambda fitted: fitted
    )
    assert peer_loop(cast(Classifier, stand_in), pictures, clock).tolist() == [7000] * 400
    assert interpreter.invoked == 410
    # Each takes 5.7 ms with its picture: the eleventh is the first that counts and is over 50 ms already.
    assert len(peer_loop(cast(Classifier, stand_in), pictures, clock, seconds=0.05)) == 1


def test_configurations_are_every_combination() -> None:
    assert configurations("auto", "1,2,2", "both") == [
        Configuration("auto", 1, True),
        Configuration("auto", 2, True),
        Configuration("auto", 1, False),
        Configuration("auto", 2, False),
    ]


def test_all_means_every_runtime_that_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.latency.installed_runtimes", lambda: ("ai-edge-litert", "tflite-runtime"))
    assert [one.runtime for one in configurations("all", "1", "on")] == ["ai-edge-litert", "tflite-runtime"]
    monkeypatch.setattr("bench.latency.installed_runtimes", lambda: ())
    with pytest.raises(InputError, match="no TFLite runtime is installed"):
        configurations("all", "1", "on")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("tensorrt", "1", "on"), "tensorrt"),
        (("auto", "1,zero", "on"), "1,zero"),
        (("auto", "0", "on"), "--threads"),
        (("auto", "65", "on"), "--threads"),
        (("auto", "", "on"), "--threads"),
        (("auto", "1", "maybe"), "--xnnpack"),
    ],
)
def test_configurations_that_are_not_understood(arguments: tuple[str, str, str], word: str) -> None:
    with pytest.raises(InputError, match=word):
        configurations(*arguments)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10s", 10), ("500ms", 0.5), ("10m", 600), ("1.5h", 5400), ("90", 90), (" 2 min", 120)],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_seconds(text, "--soak") == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "ten", "-5s", "5 fortnights", "1e9", "1000000h", "5m30s", "nan"])
def test_durations_that_are_none(text: str) -> None:
    with pytest.raises(InputError, match="--soak"):
        parse_seconds(text, "--soak")


def test_shares() -> None:
    assert parse_share("5%", "--x") == pytest.approx(0.05)
    assert parse_share("0.05", "--x") == pytest.approx(0.05)
    for text in ("", "%", "-1%", "nan", "inf", "five"):
        with pytest.raises(InputError, match="--x"):
            parse_share(text, "--x")


def test_pictures_are_chosen_by_seed_and_bad_ones_named(tmp_path: Path) -> None:
    draw_samples(tmp_path, per_class=2)
    (tmp_path / "Healthy" / "torn.jpg").write_bytes(b"\xff\xd8\xff")
    chosen = choose_pictures([str(tmp_path)], 100)
    assert len(chosen.paths) == 16
    assert len(chosen.problems) == 1
    assert "torn.jpg" in chosen.problems[0]
    assert chosen.data["source"] == "drawn leaves"
    few = choose_pictures([str(tmp_path)], 5, seed=3)
    assert few == choose_pictures([str(tmp_path)], 5, seed=3)
    assert len(few.paths) + len(few.problems) == 5
    with pytest.raises(InputError, match="no picture can be read"):
        choose_pictures([str(tmp_path / "Healthy" / "torn.jpg")], 5)


def test_cold_start_is_measured_in_a_fresh_process(tmp_path: Path) -> None:
    picture = draw_pictures(tmp_path, per_class=1).paths[0]
    found = cold_start(DEFAULT_MODEL, picture, "auto", 1, True, runs=1)
    assert set(found["median"]) == set(STEPS)
    assert all(value > 0 for value in found["median"].values())
    assert found["total_ms"] == pytest.approx(sum(found["median"].values()))
    # Inference alone: neither TensorFlow nor the plotting and statistics of the benchmark.
    assert 20e6 < found["peak_memory_bytes"] < 200e6


def test_a_cold_start_that_fails_says_why(tmp_path: Path) -> None:
    picture = draw_pictures(tmp_path, per_class=1).paths[0]
    found = cold_start(tmp_path / "absent.tflite", picture, "auto", 1, True, runs=1)
    assert found["value"] is None
    assert "absent.tflite" in found["reason"]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A result of the shipped model on this machine, as short as can be."""
    folder = tmp_path_factory.mktemp("latency")
    pictures = draw_pictures(folder / "leaves", per_class=1)
    protocol = Protocol(
        minimum_count=20, minimum_seconds=0.0, maximum_seconds=2.0, warm_up_seconds=1.0, cold_starts=1
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bench.latency.PEER_QUERIES", 40)
        entry = measure_model(
            DEFAULT_MODEL,
            Configuration(),
            pictures.paths,
            pictures.data,
            protocol,
            soak_seconds=1.0,
            peer=True,
        )
    write_results(folder / "latency.json", [entry], ["test"])
    return folder / "latency.json"


def test_statistics_in_the_file_are_those_of_its_samples(measured: Path) -> None:
    (entry,) = read_results(measured)
    body = entry.body
    ticks = {stage: unpack(body["samples"][stage]) for stage in STAGES}
    whole = milliseconds(np.sum(list(ticks.values()), axis=0, dtype=np.int64))
    assert len(whole) == body["queries"] == body["end_to_end"]["count"] > 0
    assert body["end_to_end"]["p90"] == percentile(whole, 90)
    assert body["end_to_end"]["mean"] == pytest.approx(whole.mean())
    assert body["throughput_per_s"] == pytest.approx(1e3 / whole.mean())
    assert body["stages"]["invoke"]["p50"] == percentile(milliseconds(ticks["invoke"]), 50)
    assert len(unpack(body["warm_up"]["samples"])) == body["warm_up"]["queries"]
    assert len(unpack(body["peer"]["samples"])) == body["peer"]["invoke"]["count"] > 0


def test_the_file_says_what_was_measured_where(measured: Path) -> None:
    (entry,) = read_results(measured)
    assert entry.machine is not None
    assert entry.model is not None
    assert entry.data is not None
    assert entry.data["source"] == "drawn leaves"
    assert entry.model["runtime"].startswith(entry.body["runtime"]["name"])
    assert entry.body["operators"]["value"] is not None or entry.body["operators"]["reason"]
    for part in (entry.machine["before"], entry.machine["after"]):
        for name, reading in part.items():
            assert "source" in reading if reading["value"] is not None else reading["reason"], name
    assert isinstance(entry.machine["suspect"], list)


def test_a_damaged_result_is_refused(measured: Path, tmp_path: Path) -> None:
    values = json.loads(measured.read_text())
    del values["results"][0]["body"]["p90_interval"]
    (tmp_path / "cut.json").write_text(json.dumps(values))
    with pytest.raises(InputError, match="p90_interval"):
        read_results(tmp_path / "cut.json")
    values = json.loads(measured.read_text())
    # A sensor that is missing must say why.
    values["results"][0]["machine"]["before"]["temperature_c"] = {"value": None}
    (tmp_path / "silent.json").write_text(json.dumps(values))
    with pytest.raises(InputError, match="temperature_c"):
        read_results(tmp_path / "silent.json")
    values = json.loads(measured.read_text())
    values["version"] = 2
    (tmp_path / "newer.json").write_text(json.dumps(values))
    with pytest.raises(InputError, match="newer"):
        read_results(tmp_path / "newer.json")


def test_a_machine_that_is_throttled_is_marked_in_the_result(tmp_path: Path) -> None:
    pictures = draw_pictures(tmp_path / "leaves", per_class=1)
    protocol = Protocol(
        minimum_count=5, minimum_seconds=0.0, maximum_seconds=0.2, warm_up_count=5, cold_starts=1
    )
    probe = Probe(tmp_path, lambda arguments: "throttled=0x50005\n")
    entry = measure_model(
        DEFAULT_MODEL, Configuration(), pictures.paths, pictures.data, protocol, probe=probe
    )
    assert entry.machine is not None
    assert entry.machine["suspect"] == ["throttled while measuring: under-voltage, throttled (get_throttled)"]
    assert entry.machine["temperature_c" if "temperature_c" in entry.machine else "board"]["value"] is None


def run_short(command: Command, folder: Path, *arguments: object) -> Any:
    return command(
        "mango-bench", "latency", "--min-count", 5, "--min-time", "0s", "--max-time", "300ms", "--out",
        folder / "out.json", *arguments,
    )  # fmt: skip


def test_the_command_names_what_cannot_be_timed_and_times_the_rest(command: Command, tmp_path: Path) -> None:
    draw_samples(tmp_path / "leaves", per_class=1)
    (tmp_path / "bad.tflite").write_bytes(b"nothing")
    done = run_short(
        command, tmp_path, DEFAULT_MODEL, tmp_path / "bad.tflite", "--pictures", tmp_path / "leaves",
        "--pictures", tmp_path / "none.jpg", "--peer", "--operators", "--soak", "1s", "--cold-starts", 1,
    )  # fmt: skip
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    errors = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert len(errors) == 2
    assert "none.jpg" in errors[0]
    assert "bad.tflite" in errors[1]
    assert "p90" in done.stdout
    (entry,) = read_results(tmp_path / "out.json")
    assert entry.body["operators"].get("reason") != "not asked for"
    assert entry.body["peer"]["warm_ups"] == 10
    assert entry.body["soak"]["queries"] > 0
    assert len(entry.body["cold_start"]["runs"]) == 1
    assert entry.body["protocol"]["minimum_count"] == 5


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--threads", "many"], "--threads"),
        (["--runtime", "onnx"], "onnx"),
        (["--soak", "soon"], "--soak"),
        (["--min-time", "1h"], "cannot both hold"),
        (["nowhere.tflite"], "nowhere.tflite"),
        (["--pictures", "nowhere"], "nowhere"),
    ],
)
def test_bad_arguments_end_in_one_sentence(
    command: Command, tmp_path: Path, arguments: Sequence[str], word: str
) -> None:
    done = run_short(command, tmp_path, *arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert word in done.stderr
    assert not (tmp_path / "out.json").exists()
