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


def section(entries: Sequence[Entry]) -> Section:
    """Scores on other data sets, one after the other."""
    tables: list[Table] = []
    figures: list[Figure] = []
    warnings: list[str] = []
    for entry in entries:
        tables += [_scores(entry), _confusion(entry)]
        figures.append(_figure(entry))
        if entry.body["sessions"]["unit"] == "picture":
            warnings.append(
                f"{_name(entry)}: its pictures have no times, so the intervals resample single pictures and are"
                " narrower than they should be."
            )
        elif entry.body["sessions"]["number"] < 10:
            warnings.append(
                f"{_name(entry)}: only {entry.body['sessions']['number']} sessions, so the intervals are rough."
            )
        if entry.body["unreadable"]:
            warnings.append(f"{_name(entry)}: {len(entry.body['unreadable'])} pictures could not be read.")
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
        warnings=tuple(warnings),
    )


def lines(entry: Entry) -> list[str]:
    """The result in sentences."""
    body, model = entry.body, entry.model or {}
    found = [
        f"{model['name']} on {_name(entry)}, an independent data set (no split; {sum(body['images'].values()):,}"
        f" pictures of {len(body['classes'])} shared classes in {body['sessions']['number']:,}"
        f" {body['sessions']['unit']}s, chance {body['chance']:.2f}): macro-F1 {_interval(body['free']['macro_f1'])},"
        f" accuracy {_interval(body['free']['accuracy'])}; restricted to the shared classes macro-F1"
        f" {_interval(body['restricted']['macro_f1'])}, accuracy {_interval(body['restricted']['accuracy'])}."
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
        found.append("The pictures have no times, so no time baseline stands beside it.")
    else:
        words = {"cv": "3 stratified folds", "disjoint": "whole bursts held out"}
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
    return found


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
        name = "3 stratified folds" if protocol == "cv" else "whole bursts held out"
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
        rows.append([model["name"], where, f"{score['macro_f1']:.3f}", f"{score['accuracy']:.3f}"])
        if score.get("time_baseline"):
            baseline = score["time_baseline"]
            rows.append(
                ["capture time alone", where, f"{baseline['macro_f1']:.3f}", f"{baseline['accuracy']:.3f}"]
            )
    mapped = ", ".join(f"{theirs} = {ours}" for theirs, ours in body["map"].items())
    return Table(
        f"{model['name']} on {_name(entry)} and at home",
        ("sees", "data and split", "macro-F1", "accuracy"),
        rows,
        f"Classes: {mapped}. Intervals: {body['resampling']['resamples']:,} resamples of {body['sessions']['number']:,}"
        f" {body['sessions']['unit']}s; for the capture time, Student t over seeds.",
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
    points: list[tuple[str, float, float, float, int]] = [
        (f"elsewhere: {_name(entry)}", *_triple(body["free"]["macro_f1"]), 0),
        ("elsewhere, restricted", *_triple(body["restricted"]["macro_f1"]), 0),
    ]
    if body["time_baseline"]:
        for protocol, scores in body["time_baseline"].items():
            words = "mixed" if protocol == "cv" else "held out"
            points.append((f"elsewhere, time alone ({words})", *_triple(scores["macro_f1"]), 1))
    for score in model.get("scores", ()):
        f1 = score["macro_f1"]
        points.append((f"at home: {score['split']} split", f1, f1, f1, 0))
        if score.get("time_baseline"):
            base = score["time_baseline"]["macro_f1"]
            points.append((f"at home: {score['split']} split, time alone", base, base, base, 1))
    points.reverse()
    figure, axes = new_figure(7.0, 1.2 + 0.36 * len(points))
    for place, (_, value, low, high, kind) in enumerate(points):
        axes.errorbar(
            [100 * value], [place], xerr=[[100 * (value - low)], [100 * (high - value)]], fmt="so"[kind],
            color=PALETTE[kind], capsize=3,
        )  # fmt: skip
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


def _triple(values: Mapping[str, float]) -> tuple[float, float, float]:
    return values["value"], values["low"], values["high"]


def _interval(values: Mapping[str, Any]) -> str:
    return f"{values['value']:.3f} [{values['low']:.3f}, {values['high']:.3f}]"


def _name(entry: Entry) -> str:
    return str((entry.data or {}).get("name"))
