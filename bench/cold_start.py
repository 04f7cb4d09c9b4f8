"""Cold start: how long a fresh process takes from its start to the first answer, and how much memory it needs.

The process that is timed imports what a field device imports and nothing of the benchmark; so its peak memory is
that of inference alone. The files it reads were read before and lie in the page cache: right after the board
starts, reading them from the card comes on top.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from bench.fresh_process import ProcessError, ask

STEPS = ("interpreter", "import", "load", "allocate", "prepare", "first invoke", "answer")
"""Start of Python; import of numpy, Pillow and the runtime; reading and checking the model file; making the
interpreter and its tensors; the first picture's way to the input tensor; the first inference; its probabilities."""

_PROGRAM = "from bench.cold_start import child; child()"
_TIMEOUT = 600


def cold_start(
    model: Path, picture: Path, runtime: str, threads: int, xnnpack: bool, runs: int = 3
) -> dict[str, Any]:
    """Start `runs` fresh processes one after the other.

    Returns:
        {"runs": [{step: milliseconds}], "median": {step: milliseconds}, "total_ms": median of the sums,
        "peak_memory_bytes": the largest, or None with "peak_memory_reason"}; for a process that failed,
        {"value": None, "reason": why}.
    """
    found: list[dict[str, float]] = []
    memory: list[int | None] = []
    for _ in range(runs):
        request = {
            "model": str(model.resolve()),
            "picture": str(picture.resolve()),
            "runtime": runtime,
            "threads": threads,
            "xnnpack": xnnpack,
            # Linux gives all processes the same monotonic clock.
            "start": time.perf_counter_ns(),
        }
        try:
            answer = ask(_PROGRAM, request, _TIMEOUT)
        except ProcessError as failure:
            return {"value": None, "reason": f"the process failed ({failure})"}
        found.append({step: answer["ns"][step] / 1e6 for step in STEPS})
        memory.append(answer["peak_memory_bytes"])
    peaks = [value for value in memory if value is not None]
    return {
        "runs": found,
        "median": {step: median(run[step] for run in found) for step in STEPS},
        "total_ms": median(sum(run.values()) for run in found),
        "peak_memory_bytes": max(peaks) if peaks else None,
        "peak_memory_reason": None if peaks else "/proc/self/status does not show VmHWM",
        "page_cache": "warm",
    }


def child() -> None:
    """What the timed process does; prints one line of JSON."""
    stamps = [time.perf_counter_ns()]
    request = json.loads(sys.argv[1])
    stamps.insert(0, request["start"])

    from edge.classifier import Classifier, Prediction
    from edge.contract import read_model
    from edge.errors import InputError
    from edge.preprocessing import fit, read_photograph
    from edge.runtime import RUNTIMES, load_runtime, open_interpreter

    for name in RUNTIMES if request["runtime"] == "auto" else (request["runtime"],):
        try:
            load_runtime(name)
            break
        except InputError:
            continue
    stamps.append(time.perf_counter_ns())
    model = read_model(request["model"])
    stamps.append(time.perf_counter_ns())
    classifier = Classifier(
        model,
        *open_interpreter(model.flatbuffer, request["runtime"], request["threads"], request["xnnpack"]),
    )
    stamps.append(time.perf_counter_ns())
    spec = model.contract.input
    tensor = classifier.quantise(fit(read_photograph(request["picture"], spec.exif), spec))
    stamps.append(time.perf_counter_ns())
    output = classifier.invoke(tensor)
    stamps.append(time.perf_counter_ns())
    values = classifier.dequantise(output)
    label = Prediction(model.contract.labels, tuple(float(value) for value in values)).label
    stamps.append(time.perf_counter_ns())

    from bench.machine import Probe, observe

    answer = {
        "ns": {step: stamps[i + 1] - stamps[i] for i, step in enumerate(STEPS)},
        "peak_memory_bytes": observe(Probe())["peak_memory_bytes"]["value"],
        "label": label,
    }
    print(json.dumps(answer))
