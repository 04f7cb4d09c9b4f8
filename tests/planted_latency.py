"""Latency entries with made-up times, for tests of what is done with results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from bench.latency import STAGES, Protocol
from bench.machine import known, missing
from bench.result import Entry
from bench.sample import CONFIDENCE, milliseconds, p90_interval, pack, summarise, to_ticks

_SEEN = {
    "temperature_c": known(61.0, "t"),
    "clock_mhz": known([1800.0] * 4, "t"),
    "governor": known("ondemand", "t"),
    "throttle_flags": known(0, "t"),
    "throttle_events": missing("not counted"),
    "cooling_state": known(0, "t"),
    "undervoltage": known(False, "t"),
    "load_1min": known(0.1, "t"),
    "cpu_seconds": known(100.0, "t"),
    "own_cpu_seconds": known(90.0, "t"),
    "memory_available_bytes": known(10**9, "t"),
    "swapped_pages": known(0, "t"),
    "own_swap_bytes": known(0, "t"),
    "peak_memory_bytes": known(10**8, "t"),
}


def planted_model(name: str = "lcnn", precision: str = "int8", weights: str | None = "w") -> dict[str, Any]:
    """What an entry says of a made-up model that scores macro-F1 0.7 (int8) or 0.71."""
    training = None
    scores: list[dict[str, Any]] = []
    if weights is not None:
        training = {
            "data_digest": "d", "images": 100, "split": "burst", "split_digest": "s", "seed": 7, "epochs": 5,
            "best_epoch": 4, "weights_digest": weights,
        }  # fmt: skip
        scores = [
            {
                "split": "burst", "seed": 7, "part": "test", "split_digest": "s", "weights_digest": weights,
                "images": 300, "accuracy": 0.72, "macro_f1": 0.70 if precision == "int8" else 0.71,
                "keras_accuracy": 0.73, "keras_macro_f1": 0.71, "agreement": 0.99, "largest_difference": 0.1,
                "per_class": {"Healthy": {"precision": 0.8, "recall": 0.9, "images": 40}},
                "time_baseline": {"accuracy": 0.6, "macro_f1": 0.5},
            }
        ]  # fmt: skip
    return {
        "name": f"{name}-{precision}",
        "digest": f"{name}{precision}{weights}".ljust(64, "0"),
        "architecture": name,
        "precision": precision,
        "bytes": 190_000 if precision == "int8" else 690_000,
        "parameters": 171_784,
        "macs": 387_000_000,
        "runtime": "ai-edge-litert 2.3.0",
        "training": training,
        "labels": ["Healthy", "Die Back"],
        "scores": scores,
    }


def planted_entry(
    times: Sequence[float],
    model: dict[str, Any] | None = None,
    board: str = "Raspberry Pi 4 Model B Rev 1.4",
    threads: int = 1,
    suspect: Sequence[str] = (),
    soak: dict[str, Any] | None = None,
    operators: Sequence[tuple[str, str, float]] = (),
    pictures: str | None = "3a",
) -> Entry:
    """An entry whose queries took `times` (milliseconds): a tenth decoding, the rest the network.

    `pictures` begins the digest of the three photographs that they went round.
    """
    nanoseconds = np.round(np.asarray(times, dtype=np.float64) * 1e6)
    tenth = np.round(nanoseconds / 10)
    none = np.zeros_like(tenth)
    columns = dict(zip(STAGES, (none, tenth, none, none, nanoseconds - tenth, none), strict=True))
    ticks = {stage: to_ticks(values.astype(np.int64)) for stage, values in columns.items()}
    whole = milliseconds(np.sum(list(ticks.values()), axis=0, dtype=np.int64))
    summary, interval = summarise(whole), p90_interval(whole)
    width = interval.width(summary.p90)
    steps = {
        "interpreter": 20.0, "import": 300.0, "load": 2.0, "allocate": 5.0, "prepare": 6.0, "first invoke": 40.0,
        "answer": 0.1,
    }  # fmt: skip
    body = {
        "protocol": asdict(Protocol()),
        "runtime": {"name": "ai-edge-litert", "version": "2.3.0"},
        "threads": threads,
        "xnnpack": True,
        "cold_start": {
            "runs": [steps],
            "median": steps,
            "total_ms": sum(steps.values()),
            "peak_memory_bytes": 61_000_000,
            "peak_memory_reason": None,
            "page_cache": "warm",
        },
        "warm_up": {"queries": 1, "seconds": 0.1, "ended": "settled", "samples": pack(to_ticks([10**8]))},
        "queries": len(times),
        "seconds": float(sum(times) / 1e3),
        "ended": "precision" if width < 0.02 else "maximum time",
        "end_to_end": asdict(summary),
        "p90_interval": {
            **asdict(interval),
            "confidence": CONFIDENCE,
            "width": width if np.isfinite(width) else None,
        },
        "throughput_per_s": float(1e3 * len(times) / whole.sum()),
        "stages": {stage: asdict(summarise(milliseconds(values))) for stage, values in ticks.items()},
        "samples": {stage: pack(values) for stage, values in ticks.items()},
        "harness": {"queries": 2000, "timed_p50_us": 1.5, "per_query_us": 3.0},
        "garbage_collection": "run before, off while timed",
        "peak_memory_bytes": known(10**8, "t"),
        "operators": planted_operators(operators),
        "peer": {
            "warm_ups": 10,
            "invoke": asdict(summarise(milliseconds(ticks["invoke"]))),
            "samples": pack(ticks["invoke"]),
        },
        "soak": soak,
    }
    machine = {
        "board": known(board, "t"),
        "soc": known("brcm,bcm2711", "t"),
        "processor": known("Cortex-A72", "t"),
        "cores": known(4, "t"),
        "memory_bytes": known(4 * 10**9, "t"),
        "image": missing("not a Raspberry Pi OS image"),
        "other_load_cores": known(0.0, "t"),
        "before": _SEEN,
        "during": [_SEEN],
        "after": _SEEN,
        "suspect": list(suspect),
        "notes": [],
    }
    digest = None if pictures is None else pictures.ljust(64, "0")
    data = {"name": "planted", "digest": digest, "images": 3, "source": "photographs"}
    return Entry("latency", body, machine, model or planted_model(), data)


def planted_operators(operators: Sequence[tuple[str, str, float]]) -> dict[str, Any]:
    """A profile of (operator, part, milliseconds), or the reason why there is none."""
    if not operators:
        return missing("the runtime offers none")
    total = sum(ms for _, _, ms in operators)
    return known(
        [{"operator": name, "part": part, "ms": ms, "share": ms / total} for name, part, ms in operators], "t"
    )


def planted_soak() -> dict[str, Any]:
    """A sustained run of a minute whose board is held down in its second half; the cooling state is unknown."""
    return {
        "seconds": 60.0,
        "interval_s": 10.0,
        "queries": 400,
        "drift": 1.5,
        "series": {
            "t_s": [10.0, 20.0, 30.0, 40.0, 50.0, 60.0],
            "queries": [80, 80, 80, 54, 53, 53],
            "p50_ms": [100.0, 100.0, 101.0, 150.0, 151.0, 150.0],
            "p90_ms": [104.0, 105.0, 106.0, 160.0, 161.0, 162.0],
            "temperature_c": [60.0, 70.0, 80.0, 82.0, 82.0, 82.0],
            "clock_mhz": [1800.0, 1800.0, 1800.0, 1200.0, 1200.0, 1200.0],
            "throttle_flags": [0, 0, 0, 4, 4, 4],
            "cooling_state": [None] * 6,
        },
        "reasons": {"cooling_state": "no cooling device"},
    }
