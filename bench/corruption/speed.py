"""How long the 95 corruptions of one picture take, beside the package's own functions.

Both run in this process, one after the other for each pair, on one core. The package is the repaired one without
numba, called as its `corrupt` calls it, and it draws from a RandomState as it does in the wild. Times are those of the
processor (all threads of the process), not of the clock on the wall: on a shared machine the latter measures the
neighbours. They still grow when neighbours fill the caches, for both alike.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from PIL import Image

from bench.corruption import CORRUPTIONS, SEVERITIES, corrupt, package
from bench.machine import Probe, describe, observe
from edge.errors import InputError
from edge.preprocessing import Pixels

LOOPED = "glass_blur"
"""The one that the package does in plain Python, a hundred times slower than the next."""

TARGET_ALL = 1 / 10
"""All 95 in at most this part of the package's time."""

TARGET_OTHERS = 1 / 4
"""The 90 without glass blur in at most this part."""


@dataclass(frozen=True)
class Pair:
    """One corruption at one severity, in milliseconds of processor time a picture.

    Attributes:
        ours, package: medians over the repeats.
        first: our first call in the process, which also fills tables and loads the frost pictures.
    """

    corruption: str
    severity: int
    ours: float
    package: float
    first: float


def measure(
    image: Pixels,
    repeats: int = 15,
    looped_repeats: int = 3,
    seed: int = 0,
    corruptions: Iterable[str] = CORRUPTIONS,
    step: Callable[..., None] = lambda **_: None,
) -> tuple[Pair, ...]:
    """Time every corruption at every severity, ours and the package's in turns.

    Args:
        image: uint8 array (height, width, 3).
        repeats: of each, the median counts.
        looped_repeats: the same for the package's glass blur, of which one takes a second.
        seed: of the random numbers.
        corruptions: which of them.
        step: is called after each pair.
    """
    if repeats < 1 or looped_repeats < 1:
        raise InputError("the number of repeats must be 1 or more")
    theirs = package.functions(np.random.RandomState(seed))
    generator = np.random.default_rng(seed)
    picture = Image.fromarray(image)
    threads = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        pairs = []
        for name in corruptions:
            for severity in SEVERITIES:

                def ours(name: str = name, severity: int = severity) -> Any:
                    return corrupt(image, name, severity, generator)

                def reference(name: str = name, severity: int = severity) -> Any:
                    return np.asarray(theirs[name](picture, severity)).astype(np.uint8)

                first = _milliseconds(ours)
                times: tuple[list[float], list[float]] = ([], [])
                for repeat in range(repeats):
                    times[0].append(_milliseconds(ours))
                    if name != LOOPED or repeat < looped_repeats:
                        times[1].append(_milliseconds(reference))
                medians = [statistics.median(values) for values in times]
                pairs.append(Pair(name, severity, medians[0], medians[1], first))
                step()
    finally:
        cv2.setNumThreads(threads)
    return tuple(pairs)


def table(pairs: tuple[Pair, ...]) -> str:
    """The pairs and their totals, as lines of text."""
    lines = [f"{'corruption':18} severity  ours ms  package ms  ours/package"]
    for pair in pairs:
        lines.append(_line(f"{pair.corruption:18} {pair.severity:8}", pair.ours, pair.package))
    for name, chosen, target in totals(pairs):
        ours, theirs = sum(pair.ours for pair in chosen), sum(pair.package for pair in chosen)
        kept = "reached" if ours <= target * theirs else "missed"
        lines.append(_line(f"{name:27}", ours, theirs) + f"  target {target:.3f} {kept}")
    extra = sum(max(0.0, pair.first - pair.ours) for pair in pairs)
    lines.append(f"once in a process, for tables, frost pictures and memory: {extra:.0f} ms more")
    return "\n".join(lines)


def totals(pairs: tuple[Pair, ...]) -> list[tuple[str, tuple[Pair, ...], float]]:
    """Name, pairs and target of each total."""
    others = tuple(pair for pair in pairs if pair.corruption != LOOPED)
    return [
        (f"all {len(pairs)}", pairs, TARGET_ALL),
        (f"the {len(others)} without {LOOPED}", others, TARGET_OTHERS),
    ]


def machine() -> str:
    """Board, processor, cores, present load and interpreter, in one line, as far as they can be read."""
    probe = Probe.here()
    readings = {**describe(probe), **observe(probe)}
    parts = {"board": "", "processor": "", "cores": " cores", "load_1min": " load", "python": ""}
    values = {name: readings[name]["value"] for name in parts}
    return ", ".join(f"{values[name]}{unit}" for name, unit in parts.items() if values[name] is not None)


def _line(start: str, ours: float, theirs: float) -> str:
    return f"{start}  {ours:7.2f}  {theirs:10.2f}  {ours / theirs:12.3f}"


def _milliseconds(call: Callable[[], Any]) -> float:
    start = time.process_time_ns()
    call()
    return (time.process_time_ns() - start) / 1e6
