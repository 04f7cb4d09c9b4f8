"""Do the figures of a result agree with the raw values that stand beside them in the file?

A file may have been edited, by hand or by a program. What can be made again from its samples and predictions is
made again; what has no raw values beside it (readings of sensors, operators, a sustained run) is taken as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from bench.sample import end_to_end, milliseconds, percentile_interval, summarise, unpack
from edge.errors import InputError

_OLD_CONFIDENCE = 0.95
"""What the p90's interval was made at in files that do not say it."""

_SENSORS = ("temperature_c", "clock_mhz", "throttle_flags", "cooling_state")


def check_entry(kind: str, body: Mapping[str, Any], where: str) -> None:
    """Refuse an entry whose figures are not those of its raw values.

    Args:
        kind: of the entry; others than "latency", "robustness" and "audit" hold no raw values.
        body: that fits the kind's schema.
        where: how to call the entry in a message.

    Raises:
        InputError: naming the figure that disagrees.
    """
    check = _CHECKS.get(kind)
    if check is None:
        return
    try:
        check(body)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _latency(body: Mapping[str, Any]) -> None:
    samples = body["samples"]
    whole = end_to_end(samples)
    _same("queries", body["queries"], len(whole))
    _same("end_to_end", body["end_to_end"], asdict(summarise(whole)))
    for stage, packed in samples.items():
        _same(f"stages/{stage}", body["stages"][stage], asdict(summarise(milliseconds(unpack(packed)))))
    stated = body["p90_interval"]
    found = percentile_interval(whole, 90, stated.get("confidence", _OLD_CONFIDENCE))
    width = found.width(body["end_to_end"]["p90"])
    made = {**asdict(found), "width": width if math.isfinite(width) else None}
    _same("p90_interval", {name: stated[name] for name in made}, made)
    _same("throughput_per_s", body["throughput_per_s"], 1e3 * len(whole) / float(whole.sum()))
    warm = milliseconds(unpack(body["warm_up"]["samples"]))
    _same("warm_up/queries", body["warm_up"]["queries"], len(warm))
    _same("warm_up/seconds", body["warm_up"]["seconds"], float(warm.sum()) / 1e3)
    if body["peer"] is not None:
        invoked = milliseconds(unpack(body["peer"]["samples"]))
        _same("peer/invoke", body["peer"]["invoke"], asdict(summarise(invoked)))
    if body["soak"] is not None:
        _soak(body["soak"])


def _soak(soak: Mapping[str, Any]) -> None:
    series = soak["series"]
    points = len(series["t_s"])
    for name, column in series.items():
        _same(f"soak/series/{name} (points)", len(column), points)
    _same("soak/queries", soak["queries"], sum(series["queries"]))
    for name in _SENSORS:
        if name not in soak["reasons"] and all(value is None for value in series[name]):
            raise InputError(f"soak/series/{name} holds no value, and no reason says why; measure again")


def _robustness(body: Mapping[str, Any]) -> None:
    from bench.prediction import predictions_from_json
    from bench.robustness import scores

    predictions = predictions_from_json(body["predictions"], "predictions")
    _same("images/number", body["images"]["number"], len(predictions.identities))
    _same("images/bursts", body["images"]["bursts"], len(np.unique(predictions.bursts)))
    subsets = [(name, level) for name in body["corruptions"] for level in body["severities"]]
    if sorted(subsets) != sorted(predictions.subsets):
        raise InputError("predictions are not those of the corruptions and severities; measure again")
    if predictions.truth is not None:
        _same("scores", body["scores"] or {}, scores(predictions))
        for reference in body["references"]:
            _reference(reference, predictions.errors(), body["severities"])
    if body["changes"] is not None:
        changed = scores(replace(predictions, truth=predictions.clean))
        _same("changes/mean", body["changes"]["mean"], changed["mean"]["error"])
        of_each = {name: row["error"] for name, row in changed["corruptions"].items()}
        _same("changes/corruptions", body["changes"]["corruptions"], of_each)


def _reference(stated: Mapping[str, Any], errors: Any, severities: Sequence[int]) -> None:
    """CE and mCE against the errors of the reference that the entry itself holds."""
    from bench.metric import corruption_error, relative_corruption_error

    ce: dict[str, float | None] = {}
    relative: dict[str, float | None] = {}
    clean = stated.get("clean_error")
    for name, other in stated.get("mean_errors", {}).items():
        own = errors.mean(name, severities)
        if own is None:
            continue
        ce[name] = corruption_error(own, other)
        if clean is not None:
            relative[name] = relative_corruption_error(own, errors.clean, other, clean)
    for mean, key, made in (("mce", "ce", ce), ("relative_mce", "relative_ce", relative)):
        defined = [value for value in made.values() if value is not None]
        name = f"references/{stated['name']}/"
        _same(name + key, stated[key], made)
        _same(name + mean, stated[mean], sum(defined) / len(defined) if defined else None)


def _audit(body: Mapping[str, Any]) -> None:
    """Means are those of the values of their seeds, and what belongs together has the same names or length."""
    _intervals("", body)
    bins = len(body["settings"]["histogram_from"])
    for place, crop in enumerate(body["crops"]):
        for one in crop["sharing"]:
            _same(f"crops/{place}/sharing/{one['name']}/histogram (bins)", len(one["histogram"]), bins)
        if crop["groups"] is not None:
            _named(f"crops/{place}/groups", crop["groups"], crop["counts"])
        _gains(f"crops/{place}/fusion", crop["fusion"])
    _gains("average/fusion", body["average"]["fusion"])


def _intervals(name: str, value: Any) -> None:
    if isinstance(value, Mapping):
        if {"mean", "low", "high", "values"} <= set(value):
            _same(f"{name}/mean", value["mean"], sum(value["values"]) / len(value["values"]))
            if not value["low"] <= value["mean"] <= value["high"]:
                raise InputError(f"{name}: the mean is not within its interval; measure again")
        for key, inner in value.items():
            _intervals(f"{name}/{key}".lstrip("/"), inner)
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            _intervals(f"{name}/{place}", inner)


def _gains(name: str, fusion: Mapping[str, Any] | None) -> None:
    if fusion is None:
        return
    for gain in fusion["gains"]:
        for key in ("gains", "verdicts"):
            _named(f"{name}/{gain['addition']}/{key}", gain[key], fusion["scores"])


def _named(name: str, stated: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    if set(stated) != set(wanted):
        odd = ", ".join(sorted(set(stated) ^ set(wanted)))
        raise InputError(f"{name} has too much or too little ({odd}); measure again")


def _same(name: str, stated: Any, made: Any) -> None:
    """Refuse a stated value, or mapping of values, that is not the made one but for rounding."""
    if isinstance(made, Mapping):
        _named(name, stated, made)
        for key, value in made.items():
            _same(f"{name}/{key}", stated[key], value)
    elif (stated is None) != (made is None) or (
        made is not None and not math.isclose(stated, made, rel_tol=1e-6, abs_tol=1e-9)
    ):
        raise InputError(
            f"{name} is {_shown(stated)}, but the raw values in the same file give {_shown(made)}; measure again, or"
            " give the file as mango-bench wrote it"
        )


def _shown(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.6g}"


_CHECKS: Mapping[str, Callable[[Mapping[str, Any]], None]] = {
    "latency": _latency,
    "robustness": _robustness,
    "audit": _audit,
}
