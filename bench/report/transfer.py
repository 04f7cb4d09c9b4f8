"""Section on transfer: a model on another data set, beside its own score and the capture time alone."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from bench.plot import PALETTE, new_figure, to_svg
from bench.report.models import own_score
from bench.result import Entry
from bench.section import Cell, Figure, Section, Table

_FEW = 10
"""Sessions below which an interval is called rough."""

_UNITS = {
    "group": ("given session", "given sessions"),
    "burst": ("burst", "bursts"),
    "picture": ("picture", "pictures"),
}


def section(entries: Sequence[Entry]) -> Section:
    """Scores on other data sets, one after the other."""
    tables: list[Table] = []
    figures: list[Figure] = []
    found: list[str] = []
    for entry in entries:
        tables += [_scores(entry), _confusion(entry)]
        figures.append(_figure(entry))
        found += warnings(entry)
    return Section(
        title="On pictures from elsewhere",
        anchor="transfer",
        paragraphs=(
            "A score on the data set that a model comes from says how well it knows that data set. Here it is scored on"
            " another one, over the classes that both share. Free: the model may name any of its classes. Restricted:"
            " only the shared ones count. Intervals come from resampling whole sessions.",
            *(" ".join(lines(entry)) for entry in entries),
        ),
        tables=tuple(tables),
        figures=tuple(figures),
        warnings=tuple(found),
    )


def lines(entry: Entry) -> list[str]:
    """The result in sentences."""
    body, model = entry.body, entry.model or {}
    unit = body["sessions"]["unit"]
    found = [
        f"{model['name']} on {_name(entry)} (no split; {sum(body['images'].values()):,} pictures of"
        f" {len(body['classes'])} shared classes in {_sessions(body)}, chance {body['chance']:.2f}): macro-F1"
        f" {_interval(body['free']['macro_f1'])}, accuracy {_interval(body['free']['accuracy'])}; restricted to the"
        f" shared classes macro-F1 {_interval(body['restricted']['macro_f1'])}, accuracy"
        f" {_interval(body['restricted']['accuracy'])}.",
        _apart(entry),
    ]
    own = own_score(model)
    if own is not None:
        baseline = own.get("time_baseline")
        beside = f", capture time alone there {baseline['macro_f1']:.3f}" if baseline else ""
        found.append(
            f"On its own data ({own['split']} split, {own['part']} part) it scores macro-F1"
            f" {own['macro_f1']:.3f}{beside}."
        )
    if body["time_baseline"] is None:
        found.append(
            "The pictures are too few for a time baseline to stand beside it."
            if body.get("timed")
            else "The pictures have no times, so no time baseline stands beside it."
        )
    else:
        words = _protocol_words(unit)
        found.append(
            "The capture time alone, learned and tested on these same pictures, reaches macro-F1 "
            + ", ".join(
                f"{scores['macro_f1']['value']:.3f} ({words[protocol]})"
                for protocol, scores in body["time_baseline"].items()
            )
            + "."
        )
    if body["left_out"]:
        found.append(f"Classes of the data that the model does not know: {', '.join(body['left_out'])}.")
    if body["notes"]:
        found.append("Notes: " + " ".join(body["notes"]))
    return found


def warnings(entry: Entry) -> list[str]:
    """What makes the figures doubtful, a sentence each."""
    body, name, found = entry.body, _name(entry), []
    unit, number = body["sessions"]["unit"], body["sessions"]["number"]
    if _own_data(entry):
        found.append(
            f"{name}: these are the data that the model was trained on, so the score is no transfer."
        )
    if unit == "picture":
        found.append(
            f"{name}: its pictures have neither sessions nor times, so the intervals resample single pictures and are"
            " narrower than they should be."
        )
    elif number < 2:
        found.append(
            f"{name}: all pictures are of one {_UNITS[unit][0]}, so there is no interval: nothing shows what another"
            " one would give."
        )
    elif number < _FEW:
        found.append(f"{name}: only {_sessions(body)}, so the intervals are rough.")
    if number > 1 and any(
        score["low"] is None for way in ("free", "restricted") for score in body[way].values()
    ):
        found.append(f"{name}: where no interval stands, all {_UNITS[unit][1]} score alike; others need not.")
    if body["unreadable"]:
        found.append(
            f"{name}: {len(body['unreadable']):,} picture(s) could not be read and were not scored, for example:"
            f" {body['unreadable'][0]}"
        )
    return found


def _apart(entry: Entry) -> str:
    """What is known of whether the model was trained on these pictures."""
    if _own_data(entry):
        return "These are the data that the model was trained on."
    if (entry.model or {}).get("training") is None:
        return (
            "They were given as pictures from elsewhere; the model file does not say what it was trained on, so that is"
            " not checked."
        )
    return (
        "They were given as pictures from elsewhere: they are not the whole data set that the model was trained on, but"
        " whether single ones come from it is not checked, for its file lists no training pictures."
    )


def _own_data(entry: Entry) -> bool:
    training = (entry.model or {}).get("training")
    return training is not None and training["data_digest"] == (entry.data or {}).get("digest")


def _sessions(body: Mapping[str, Any]) -> str:
    """For example "1 burst", "12 given sessions"."""
    number = body["sessions"]["number"]
    return f"{number:,} {_UNITS[body['sessions']['unit']][number != 1]}"


def _protocol_words(unit: str) -> Mapping[str, str]:
    return {"cv": "3 stratified folds", "disjoint": f"whole {_UNITS[unit][1]} held out"}


def _scores(entry: Entry) -> Table:
    body, model = entry.body, entry.model or {}
    rows: list[list[Cell]] = [
        [
            f"{model['name']}, free", _name(entry), _interval(body["free"]["macro_f1"]),
            _interval(body["free"]["accuracy"]),
        ],
        [
            f"{model['name']}, restricted", _name(entry), _interval(body["restricted"]["macro_f1"]),
            _interval(body["restricted"]["accuracy"]),
        ],
    ]  # fmt: skip
    for protocol, scores in (body["time_baseline"] or {}).items():
        name = _protocol_words(body["sessions"]["unit"])[protocol]
        rows.append(
            [
                "capture time alone",
                f"{_name(entry)}, {name}",
                _interval(scores["macro_f1"]),
                _interval(scores["accuracy"]),
            ]
        )
    for score in model.get("scores", ()):
        where = f"its own data, {score['split']} split (seed {score['seed']}), {score['part']} part"
        rows.append([_scored(score, model), where, f"{score['macro_f1']:.3f}", f"{score['accuracy']:.3f}"])
        if score.get("time_baseline"):
            baseline = score["time_baseline"]
            rows.append(
                ["capture time alone", where, f"{baseline['macro_f1']:.3f}", f"{baseline['accuracy']:.3f}"]
            )
    resampled = (
        f"{body['resampling']['resamples']:,} resamples of {_sessions(body)}"
        if body["sessions"]["number"] > 1
        else f"none, there is {_sessions(body)}"
    )
    mapped = ", ".join(f"{theirs} = {ours}" for theirs, ours in body["map"].items())
    return Table(
        f"{model['name']} on {_name(entry)} and at home",
        ("sees", "data and split", "macro-F1", "accuracy"),
        rows,
        f"Classes: {mapped}. Intervals: {resampled}; for the capture time, Student t over seeds.",
    )


def _confusion(entry: Entry) -> Table:
    body = entry.body
    rows: list[list[Cell]] = [
        [name, *row] for name, row in zip(body["classes"], body["confusion"]["free"], strict=True)
    ]
    return Table(
        f"{_name(entry)}: what the model said (columns) of each class (rows)",
        ("class", *body["labels"]),
        rows,
    )


def _figure(entry: Entry) -> Figure:
    body, model = entry.body, entry.model or {}
    points: list[tuple[str, float, float | None, float | None, int]] = [
        (f"elsewhere: {_name(entry)}", *_triple(body["free"]["macro_f1"]), 0),
        ("elsewhere, restricted", *_triple(body["restricted"]["macro_f1"]), 0),
    ]
    if body["time_baseline"]:
        for protocol, scores in body["time_baseline"].items():
            words = "mixed" if protocol == "cv" else "held out"
            points.append((f"elsewhere, time alone ({words})", *_triple(scores["macro_f1"]), 1))
    for score in model.get("scores", ()):
        sister = "" if _scored(score, model) == model["name"] else ", sister"
        points.append((f"at home: {score['split']} split{sister}", score["macro_f1"], None, None, 0))
        if score.get("time_baseline"):
            base = score["time_baseline"]["macro_f1"]
            points.append((f"at home: {score['split']} split, time alone", base, None, None, 1))
    points.reverse()
    figure, axes = new_figure(7.0, 1.2 + 0.36 * len(points))
    for place, (_, value, low, high, kind) in enumerate(points):
        interval = None if low is None or high is None else [[100 * (value - low)], [100 * (high - value)]]
        axes.errorbar(
            [100 * value],
            [place],
            xerr=interval,
            fmt="so"[kind],
            color=PALETTE[kind],
            capsize=3,
        )
    axes.axvline(100 * body["chance"], color=PALETTE[7], linestyle="--", linewidth=1)
    axes.set_yticks(range(len(points)), [point[0] for point in points], fontsize=8)
    axes.set_xlim(0, 102)
    axes.set_xlabel("macro-F1, % (dashed: chance)")
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["score", "macro_f1", "low", "high"])
    writer.writerows(point[:4] for point in reversed(points))
    return Figure(
        f"{model['name']} elsewhere and at home.",
        "; ".join(f"{point[0]}: {point[1]:.2f}" for point in reversed(points)) + ".",
        to_svg(figure),
        buffer.getvalue(),
    )


def _scored(score: Mapping[str, Any], model: Mapping[str, Any]) -> str:
    """Whose score it is: the model's, or that of the sister trained on another split."""
    own = (model.get("training") or {}).get("weights_digest") == score["weights_digest"]
    return str(model["name"]) if own else f"{model['name']} (sister trained on {score['split']})"


def _triple(values: Mapping[str, Any]) -> tuple[float, float | None, float | None]:
    return values["value"], values["low"], values["high"]


def _interval(values: Mapping[str, Any]) -> str:
    if values["low"] is None:
        return f"{values['value']:.3f} (no interval)"
    return f"{values['value']:.3f} [{values['low']:.3f}, {values['high']:.3f}]"


def _name(entry: Entry) -> str:
    return str((entry.data or {}).get("name"))
