"""Latency of a model on this machine, by a protocol that others can repeat.

One picture after the other goes the whole way from file to label (a single stream); each stage is timed by itself
and the end-to-end time is their sum. First come queries that are not counted, until the running median has come
to rest; then queries are counted until there are enough of them, for long enough, and the interval of the 90th
percentile is narrow, or a bound is hit. The garbage collector is run before and switched off while queries are
timed. Every picture has been read once, and the model's memory touched by the warm-up, before the first counted
query; so "read" is a read from the page cache. Sensors are read between queries, and the query after a look at
them is not counted, since it finds the caches disturbed.
"""

from __future__ import annotations

import contextlib
import gc
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from bench.cold_start import cold_start
from bench.machine import Probe, Reading, describe, missing, observe, record
from bench.operator_profile import operator_profile
from bench.result import Entry, describe_model
from bench.sample import (
    CONFIDENCE,
    Ticks,
    enough,
    milliseconds,
    next_check,
    p90_interval,
    pack,
    percentile,
    settled,
    summarise,
    to_ticks,
)
from edge.classifier import Classifier, Prediction
from edge.contract import read_model
from edge.errors import InputError
from edge.preprocessing import fit, read_photograph
from edge.runtime import INSTALL_HINT, RUNTIMES, installed_runtimes

Clock = Callable[[], int]
"""Nanoseconds of a clock that never goes back."""

Stage = tuple[str, Callable[[Any], Any]]
"""A stage's name, and what it makes of the stage before."""

Look = Callable[[], Mapping[str, Reading]]
"""Reads the machine's sensors (`bench.machine.observe`)."""

STAGES = ("read", "decode", "resize", "quantise", "invoke", "post-process")

PEER_WARM_UPS, PEER_QUERIES = 10, 400
"""What the nearest public script does: 10 inferences, then 400 of which `invoke` alone is timed."""


@dataclass(frozen=True)
class Protocol:
    """When to stop.

    Attributes:
        minimum_count, minimum_seconds: counted queries and their time, at least.
        maximum_seconds, maximum_count: bounds of the counted part.
        precision: width of the interval of the p90 (`bench.sample.p90_interval`), as a share of the p90, to be
            reached.
        window, windows, tolerance: see `bench.sample.settled`.
        warm_up_count, warm_up_seconds: bounds of the warm-up.
        look_seconds: time between two looks at the sensors.
        cold_starts: fresh processes to time.
    """

    minimum_count: int = 200
    minimum_seconds: float = 10.0
    maximum_seconds: float = 60.0
    maximum_count: int = 100_000
    precision: float = 0.02
    window: int = 10
    windows: int = 3
    tolerance: float = 0.02
    warm_up_count: int = 500
    warm_up_seconds: float = 30.0
    look_seconds: float = 5.0
    cold_starts: int = 3

    def __post_init__(self) -> None:
        if not 1 <= self.minimum_count <= self.maximum_count:
            raise InputError(f"{self.minimum_count} queries: give a number from 1 to {self.maximum_count:,}")
        if not 0 <= self.minimum_seconds <= self.maximum_seconds:
            raise InputError(
                f"at least {self.minimum_seconds:g} s and at most {self.maximum_seconds:g} s cannot both hold;"
                " give a maximum time that is not below the minimum time"
            )


@dataclass(frozen=True)
class Configuration:
    """How a model is opened: runtime (a key of `edge.runtime.RUNTIMES`, or "auto"), threads, XNNPACK or not."""

    runtime: str = "auto"
    threads: int = 1
    xnnpack: bool = True


def configurations(runtimes: str, threads: str, xnnpack: str) -> list[Configuration]:
    """Every combination of the runtimes ("auto", "all", or names by commas), threads ("1,2,4") and XNNPACK ("on",
    "off", "both").

    Raises:
        InputError: one of them is not understood, or no runtime is installed.
    """
    names = list(dict.fromkeys(name.strip() for name in runtimes.split(",")))
    if names == ["all"]:
        names = list(installed_runtimes())
        if not names:
            raise InputError(f"no TFLite runtime is installed; {INSTALL_HINT}")
    for name in names:
        if name not in ("auto", *RUNTIMES):
            raise InputError(f"--runtime {name!r} is not known; choose auto, all, {', '.join(RUNTIMES)}")
    counts = [part.strip() for part in threads.split(",")]
    if not all(part.isdecimal() and 1 <= int(part) <= 64 for part in counts):
        raise InputError(f"--threads {threads!r} is no list of numbers from 1 to 64; write for example 1,2,4")
    switches = {"on": [True], "off": [False], "both": [True, False]}.get(xnnpack)
    if switches is None:
        raise InputError(f"--xnnpack {xnnpack!r} is not known; choose on, off or both")
    return [
        Configuration(name, count, switch)
        for name in names
        for switch in switches
        for count in dict.fromkeys(int(part) for part in counts)
    ]


@dataclass(frozen=True)
class WarmUp:
    """The queries that are not counted: their end-to-end ticks, and "settled" or the bound that ended them."""

    ticks: Ticks
    ended: str


@dataclass(frozen=True)
class Measurement:
    """The counted queries.

    Attributes:
        ticks: uint32 (queries, stages).
        ended: "precision", "maximum time" or "maximum count".
        seconds: from the first counted query to the last, looks at the sensors included.
        during: what the sensors showed.
    """

    ticks: Ticks
    ended: str
    seconds: float
    during: tuple[Mapping[str, Reading], ...]


def stages_of(classifier: Classifier) -> tuple[Stage, ...]:
    """The stages from a picture's path to its label, as the field device goes through them."""
    contract = classifier.contract

    def answer(output: Any) -> str:
        values = classifier.dequantise(output)
        return Prediction(contract.labels, tuple(float(value) for value in values)).label

    steps: tuple[Callable[[Any], Any], ...] = (
        Path.read_bytes,
        lambda data: read_photograph(data, contract.input.exif),
        lambda image: fit(image, contract.input),
        classifier.quantise,
        classifier.invoke,
        answer,
    )
    return tuple(zip(STAGES, steps, strict=True))


def timed_query(stages: Sequence[Stage], value: Any, clock: Clock) -> list[int]:
    """Send one picture through the stages; returns the nanoseconds of each."""
    durations = []
    before = clock()
    for _, stage in stages:
        value = stage(value)
        now = clock()
        durations.append(now - before)
        before = now
    return durations


@contextlib.contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Collect now, then not until the block ends: a collection would fall into some queries and not others."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def warm_up(query: Callable[[], Sequence[int]], protocol: Protocol, clock: Clock) -> WarmUp:
    """Send queries until their end-to-end times settle, or a bound is hit."""
    times: list[int] = []
    start = clock()
    while True:
        times.append(sum(query()))
        if settled(times, protocol.window, protocol.windows, protocol.tolerance):
            return WarmUp(to_ticks(times), "settled")
        if len(times) >= protocol.warm_up_count:
            return WarmUp(to_ticks(times), "maximum count")
        if (clock() - start) / 1e9 >= protocol.warm_up_seconds:
            return WarmUp(to_ticks(times), "maximum time")


def measure(query: Callable[[], Sequence[int]], protocol: Protocol, clock: Clock, look: Look) -> Measurement:
    """Send counted queries until the protocol is content or a bound is hit.

    The p90's interval is looked at when the minima are reached and then each time the number of queries has
    grown by a tenth, so that the look costs nothing that counts. What looking does to it: see `bench.sample`.
    """
    rows: list[Sequence[int]] = []
    during: list[Mapping[str, Reading]] = []
    start = clock()
    check_at, next_look = protocol.minimum_count, protocol.look_seconds / 2
    while True:
        rows.append(query())
        seconds = (clock() - start) / 1e9
        if len(rows) >= check_at and seconds >= protocol.minimum_seconds:
            whole = to_ticks(np.asarray(rows)).sum(axis=1, dtype=np.int64)
            if enough(whole, 90, protocol.precision):
                ended = "precision"
                break
            check_at = next_check(len(rows))
        if seconds >= protocol.maximum_seconds:
            ended = "maximum time"
            break
        if len(rows) >= protocol.maximum_count:
            ended = "maximum count"
            break
        if seconds >= next_look:
            during.append(look())
            query()
            next_look = (clock() - start) / 1e9 + protocol.look_seconds
    return Measurement(to_ticks(np.asarray(rows)), ended, seconds, tuple(during))


def harness_cost(clock: Clock = time.perf_counter_ns, queries: int = 2000) -> dict[str, Any]:
    """What the harness itself costs: the same loop around stages that do nothing.

    Returns:
        "queries"; "timed_p50_us", what of the harness falls into a query's end-to-end time; "per_query_us", from
        one query's start to the next one's. Medians in microseconds.
    """
    nothing: tuple[Stage, ...] = tuple((name, lambda value: value) for name in STAGES)
    protocol = Protocol(minimum_count=queries, minimum_seconds=0.0, maximum_count=queries, look_seconds=1e9)
    inner: list[int] = []
    starts: list[int] = []

    def query() -> list[int]:
        starts.append(clock())
        durations = timed_query(nothing, None, clock)
        inner.append(sum(durations))
        return durations

    with without_garbage_collection():
        measure(query, protocol, clock, dict)
    # Medians: on a busy machine some queries are interrupted, which is not the harness's doing.
    return {
        "queries": len(inner),
        "timed_p50_us": percentile(np.asarray(inner), 50) / 1e3,
        "per_query_us": percentile(np.diff(starts), 50) / 1e3,
    }


def peer_loop(
    classifier: Classifier,
    pictures: Sequence[Path],
    clock: Clock = time.perf_counter_ns,
    seconds: float = math.inf,
) -> Ticks:
    """The nearest public script's way: 10 inferences, then 400, timing the interpreter's `invoke` alone.

    After `seconds` it ends early, which the script would not: a large network on a small board takes half an hour.
    """
    interpreter, spec = classifier.interpreter, classifier.contract.input
    index = interpreter.get_input_details()[0]["index"]
    durations = []
    source, start = cycle(pictures), clock()
    for number in range(PEER_WARM_UPS + PEER_QUERIES):
        tensor = classifier.quantise(fit(read_photograph(next(source), spec.exif), spec))
        interpreter.set_tensor(index, tensor)
        before = clock()
        interpreter.invoke()
        after = clock()
        if number >= PEER_WARM_UPS:
            durations.append(after - before)
        if durations and (after - start) / 1e9 > seconds:
            break
    return to_ticks(durations)


def soak(
    query: Callable[[], Sequence[int]],
    seconds: float,
    clock: Clock,
    look: Look,
    interval: float | None = None,
    step: Callable[..., None] | None = None,
) -> dict[str, Any]:
    """Send queries without a pause and watch time, temperature, clock and throttling go along.

    Args:
        query: sends one query and returns the nanoseconds of its stages.
        seconds: how long.
        clock, look: see `Clock` and `Look`.
        interval: seconds that one point of the series sums up; by default a 300th of the run, at least 1 s.
        step: told the seconds that have passed.

    Returns:
        "seconds", "interval_s", "queries", "drift" (median of the last tenth over that of the first, 1 = none)
        and "series": columns of equal length, and for each sensor that is missing the reason.
    """
    interval = max(1.0, seconds / 300) if interval is None else interval
    columns: dict[str, list[Any]] = {
        "t_s": [],
        "queries": [],
        "p50_ms": [],
        "p90_ms": [],
        "temperature_c": [],
        "clock_mhz": [],
        "throttle_flags": [],
        "cooling_state": [],
    }
    reasons: dict[str, str] = {}
    everything: list[int] = []
    start = clock()
    passed = 0.0
    while passed < seconds:
        times: list[int] = []
        end = passed + interval
        while passed < end and passed < seconds:
            times.append(sum(query()))
            passed = (clock() - start) / 1e9
        everything += times
        values = milliseconds(to_ticks(times))
        seen = look()
        for name in ("temperature_c", "clock_mhz", "throttle_flags", "cooling_state"):
            value = seen[name]["value"]
            if value is None:
                reasons[name] = seen[name]["reason"]
            elif isinstance(value, list):
                value = min(value)
            columns[name].append(value)
        columns["t_s"].append(round(passed, 3))
        columns["queries"].append(len(times))
        columns["p50_ms"].append(percentile(values, 50))
        columns["p90_ms"].append(percentile(values, 90))
        if step is not None:
            step(completed=passed)
    tenth = max(1, len(everything) // 10)
    return {
        "seconds": passed,
        "interval_s": interval,
        "queries": len(everything),
        "drift": float(np.median(everything[-tenth:]) / np.median(everything[:tenth])),
        "series": columns,
        "reasons": reasons,
    }


def describe_line(entry: Entry) -> str:
    """A latency entry in one line, for the terminal."""
    body, model = entry.body, entry.model or {}
    times, interval, cold = body["end_to_end"], body["p90_interval"], body["cold_start"]
    width = "unknown" if interval["width"] is None else f"{interval['width']:.1%}"
    start = "no cold start" if cold.get("total_ms") is None else f"cold start {cold['total_ms']:.0f} ms"
    delegate = "XNNPACK" if body["xnnpack"] else "no XNNPACK"
    return (
        f"{model.get('name')}, {body['runtime']['name']} {body['runtime']['version']}, {body['threads']} threads,"
        f" {delegate}: p50 {times['p50']:.2f} ms, p90 {times['p90']:.2f} ms (interval {width}, ended by"
        f" {body['ended']}), invoke p50 {body['stages']['invoke']['p50']:.2f} ms, {body['queries']} queries, {start}"
    )


def measure_model(
    path: Path,
    configuration: Configuration,
    pictures: Sequence[Path],
    data: Mapping[str, Any],
    protocol: Protocol | None = None,
    soak_seconds: float = 0.0,
    peer: bool = False,
    operators: bool = False,
    probe: Probe | None = None,
    clock: Clock = time.perf_counter_ns,
    step: Callable[..., None] | None = None,
) -> Entry:
    """Measure one model file in one configuration.

    Args:
        path: the model file.
        configuration: how to open it.
        pictures: readable picture files; queries go round them.
        data: what the entry says of them.
        protocol: when to stop.
        soak_seconds: length of the sustained run; 0 for none.
        peer: also time the way the nearest public script does.
        operators: also profile the operators, where the runtime can.
        probe: where the sensors are.
        clock: nanoseconds.
        step: told what is being done (`description=`).

    Raises:
        InputError: no picture, or the model does not open in this configuration.
    """
    if not pictures:
        raise InputError("no picture to classify; give at least one")
    protocol, probe = protocol or Protocol(), probe or Probe.here()
    say = step or (lambda **_: None)
    name = f"{path.stem}, {configuration.runtime}, {configuration.threads} threads"
    if not configuration.xnnpack:
        name += ", no XNNPACK"

    def look() -> Mapping[str, Reading]:
        return observe(probe)

    # A file that is no model is refused before processes are started for it; its bytes are not kept.
    read_model(path)
    say(description=f"{name}: cold start")
    cold = cold_start(
        path,
        pictures[0],
        configuration.runtime,
        configuration.threads,
        configuration.xnnpack,
        protocol.cold_starts,
    )
    classifier = Classifier.open(path, configuration.runtime, configuration.threads, configuration.xnnpack)
    stages = stages_of(classifier)
    source = cycle(pictures)

    def query() -> list[int]:
        return timed_query(stages, next(source), clock)

    harness = harness_cost(clock)
    description = describe(probe)
    with without_garbage_collection():
        say(description=f"{name}: warm-up")
        before, start = look(), clock()
        warm = warm_up(query, protocol, clock)
        say(description=f"{name}: counted queries")
        measured = measure(query, protocol, clock, look)
        peer_ticks = peer_loop(classifier, pictures, clock, protocol.maximum_seconds) if peer else None
        soaked = None
        if soak_seconds > 0:
            say(description=f"{name}: soak")
            soaked = soak(query, soak_seconds, clock, look)
        after, seconds = look(), (clock() - start) / 1e9
    profile = missing("not asked for")
    if operators:
        say(description=f"{name}: operators")
        runtime = classifier.runtime
        profile = operator_profile(
            path, pictures[0], runtime.name, runtime.version, configuration.threads, configuration.xnnpack
        )
    whole = measured.ticks.sum(axis=1, dtype=np.int64)
    times = milliseconds(whole)
    interval = p90_interval(times)
    summary = summarise(times)
    width = interval.width(summary.p90)
    body = {
        "protocol": asdict(protocol),
        "runtime": {"name": classifier.runtime.name, "version": classifier.runtime.version},
        "threads": configuration.threads,
        "xnnpack": configuration.xnnpack,
        "cold_start": cold,
        "warm_up": {
            "queries": len(warm.ticks),
            "seconds": float(milliseconds(warm.ticks).sum() / 1e3),
            "ended": warm.ended,
            "samples": pack(warm.ticks),
        },
        "queries": len(times),
        "seconds": measured.seconds,
        "ended": measured.ended,
        "end_to_end": asdict(summary),
        "p90_interval": {
            **asdict(interval),
            "confidence": CONFIDENCE,
            "width": width if math.isfinite(width) else None,
        },
        "throughput_per_s": float(1e3 * len(times) / times.sum()),
        "stages": {
            stage: asdict(summarise(milliseconds(measured.ticks[:, column])))
            for column, stage in enumerate(STAGES)
        },
        "samples": {stage: pack(measured.ticks[:, column]) for column, stage in enumerate(STAGES)},
        "harness": harness,
        "garbage_collection": "run before, off while timed",
        "peak_memory_bytes": after["peak_memory_bytes"],
        "operators": profile,
        "peer": None
        if peer_ticks is None
        else {
            "warm_ups": PEER_WARM_UPS,
            "invoke": asdict(summarise(milliseconds(peer_ticks))),
            "samples": pack(peer_ticks),
        },
        "soak": soaked,
    }
    return Entry(
        kind="latency",
        machine=record(description, before, measured.during, after, seconds),
        model=describe_model(classifier.model, classifier),
        data=data,
        body=body,
    )
