"""The first screen: which model on this board, how fast, how robust, and what did quantisation cost?"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.machine import board_name
from bench.plot import MARKERS, PALETTE, new_figure, to_svg
from bench.report.models import distinct_models, own_score
from bench.result import Entry
from bench.section import Cell, Figure, Section, Table

COLUMNS = (
    "model",
    "precision",
    "size, kB",
    "board",
    "runtime",
    "threads",
    "p50, ms",
    "p90, ms",
    "pictures/s",
    "macro-F1",
    "split",
    "time baseline macro-F1",
    "mCE, %",
    "mean error under corruption",
    "machine",
)


@dataclass(frozen=True)
class Line:
    """What is known of one model on one board; None where it was not measured.

    Times are milliseconds end to end, one picture at a time; scores and errors 0..1; mCE in percent.
    """

    model: Mapping[str, Any]
    board: str | None
    runtime: str | None
    threads: int | None
    p50: float | None
    p90: float | None
    throughput: float | None
    mce: float | None
    error: float | None
    reference: str | None
    robustness_data: str | None
    suspect: bool = False

    @property
    def cells(self) -> list[Cell]:
        """The values of `COLUMNS`."""
        score = own_score(self.model) or {}
        baseline = score.get("time_baseline") or {}
        return [
            self.model["name"],
            self.model["precision"],
            round(self.model["bytes"] / 1000, 1),
            self.board,
            self.runtime,
            self.threads,
            self.p50,
            self.p90,
            self.throughput,
            score.get("macro_f1"),
            f"{score['split']}, {score['part']}" if score else None,
            baseline.get("macro_f1"),
            self.mce,
            self.error,
            None if self.board is None else "suspect" if self.suspect else "clean",
        ]


def lines(entries: Sequence[Entry]) -> list[Line]:
    """One line for each model and each board it was timed on; models that were not timed get one line."""
    found: list[Line] = []
    for model in distinct_models(entries):
        same = [
            entry for entry in entries if entry.model is not None and entry.model["digest"] == model["digest"]
        ]
        robustness = next((entry for entry in same if entry.kind == "robustness"), None)
        known = _robustness(robustness)
        timed = [entry for entry in same if entry.kind == "latency"]
        found += [Line(model, **_latency(entry), **known) for entry in timed]
        if not timed:
            nothing = dict.fromkeys(("board", "runtime", "threads", "p50", "p90", "throughput"))
            found.append(Line(model, **{**nothing, "suspect": False, **known}))
    return found


def overview(entries: Sequence[Entry]) -> Section:
    """Answers in words, a table of all models and boards, and the plot of latency against mCE."""
    found = lines(entries)
    rows = [line.cells for line in found]
    # A column that nobody measured only pushes the others off a phone's screen.
    filled = [any(row[column] is not None for row in rows) for column in range(len(COLUMNS))]
    tables = (
        Table(
            "Every model on every board",
            tuple(name for name, kept in zip(COLUMNS, filled, strict=True) if kept),
            [[cell for cell, kept in zip(row, filled, strict=True) if kept] for row in rows],
            _note(found),
        ),
    )
    figure = _pareto(found)
    return Section(
        title="At a glance",
        anchor="overview",
        paragraphs=tuple(_answers(entries, found)),
        tables=tables if rows else (),
        figures=() if figure is None else (figure,),
        warnings=tuple(_suspects(found)),
    )


def _note(found: Sequence[Line]) -> str:
    parts = []
    if any(line.p90 is not None for line in found):
        parts.append("Times are end to end, from file to label, one picture at a time.")
    reference = next((line.reference for line in found if line.reference), None)
    if reference is not None:
        parts.append(
            f"mCE is relative to {reference} = 100; lower is better. The mean error stands beside it because a single"
            " corruption with a small reference error can decide an mCE."
        )
    return " ".join(parts)


def _suspects(found: Sequence[Line]) -> list[str]:
    warnings = []
    for board in _boards(found):
        timed = [line for line in found if line.board == board]
        suspect = sum(line.suspect for line in timed)
        if suspect:
            warnings.append(
                f"{board}: the machine was throttled, swapping or busy during {suspect} of {len(timed)} runs (marked"
                " suspect); their times are not the board's own."
            )
    return warnings


def summary_csv(entries: Sequence[Entry]) -> str:
    """The overview's table as CSV, unrounded, with the file digest and the data of each score."""
    buffer = io.StringIO()
    table = csv.writer(buffer, lineterminator="\n")
    table.writerow([*COLUMNS, "reference", "robustness data", "file digest"])
    for line in lines(entries):
        cells = ["" if cell is None else cell for cell in line.cells]
        table.writerow([*cells, line.reference or "", line.robustness_data or "", line.model["digest"]])
    return buffer.getvalue()


def _latency(entry: Entry) -> dict[str, Any]:
    machine, body = entry.machine or {}, entry.body
    delegate = "" if body["xnnpack"] else ", no XNNPACK"
    return {
        "board": board_name(machine),
        "runtime": f"{body['runtime']['name']} {body['runtime']['version']}{delegate}",
        "threads": body["threads"],
        "p50": body["end_to_end"]["p50"],
        "p90": body["end_to_end"]["p90"],
        "throughput": body["throughput_per_s"],
        "suspect": bool(machine.get("suspect")),
    }


def _robustness(entry: Entry | None) -> dict[str, Any]:
    if entry is None or not entry.body["labelled"]:
        return {"mce": None, "error": None, "reference": None, "robustness_data": None}
    reference = entry.body["references"][0] if entry.body["references"] else None
    data = entry.data or {}
    where = (
        f"{data.get('split')} split, {data.get('part')} part"
        if data.get("split")
        else entry.body["images"]["choice"]
    )
    return {
        "mce": None if reference is None else reference["mce"],
        "error": entry.body["scores"]["mean"].get("error"),
        "reference": None if reference is None else reference["name"],
        "robustness_data": f"{where}, {data.get('images')} photographs",
    }


def _boards(found: Sequence[Line]) -> list[str]:
    return list(dict.fromkeys(line.board for line in found if line.board is not None))


def _answers(entries: Sequence[Entry], found: Sequence[Line]) -> list[str]:
    answers = []
    for board in _boards(found):
        answers += _board_answers(board, [line for line in found if line.board == board])
    robust = [line for line in found if line.error is not None]
    if robust:
        best = min(robust, key=lambda line: line.error or 0.0)
        mce = f", mCE {best.mce:.1f} % of {best.reference}" if best.mce is not None else ""
        answers.append(
            f"How robust: least affected is {best.model['name']}, {best.error:.1%} mean error over the corruptions{mce}"
            f" ({best.robustness_data})."
        )
    answers += _quantised_times(found)
    for entry in entries:
        cost = entry.body.get("quantisation") if entry.kind == "robustness" else None
        if cost and entry.model is not None:
            mce = "" if cost["mce"] is None else f", mCE by {cost['mce']:+.1f} points"
            answers.append(
                f"Quantisation ({entry.model['name']} against {cost['against']['name']}): changes the clean error by"
                f" {100 * cost['clean_error']:+.2f} points, the mean error under corruption by"
                f" {100 * cost['error']:+.2f} points{mce}; the two agree on {cost['agreement']:.1%} of corrupted"
                " pictures."
            )
    for model in distinct_models(entries):
        score = own_score(model)
        if score is not None:
            answers.append(
                f"{model['name']} scores macro-F1 {score['macro_f1']:.3f} on the {score['split']} split's"
                f" {score['part']} part ({score['images']} photographs); {_beside(score)}."
            )
    return answers or ["Nothing was timed and no robustness was measured in these results."]


def _beside(score: Mapping[str, Any]) -> str:
    baseline = score.get("time_baseline")
    if baseline is None:
        return "capture times are unknown, so no time baseline stands beside it"
    return f"the capture time alone, without a picture, reaches {baseline['macro_f1']:.3f}"


def _board_answers(board: str, timed: Sequence[Line]) -> list[str]:
    fastest = min(timed, key=lambda line: line.p90 or 0.0)
    mark = " (suspect machine)" if fastest.suspect else ""
    answers = [
        f"How fast on {board}: {fastest.model['name']} is the fastest, nine of ten pictures within"
        f" {fastest.p90:.1f} ms ({fastest.throughput:.1f} a second, {fastest.runtime},"
        f" {_threads(fastest.threads)}){mark}."
    ]
    # A choice by skill needs scores of the same photographs.
    scored: dict[tuple[str, str], list[tuple[float, Line]]] = {}
    for line in timed:
        score = own_score(line.model)
        if score is not None:
            key = (str(score["split_digest"]), str(score["part"]))
            scored.setdefault(key, []).append((float(score["macro_f1"]), line))
    for group in scored.values():
        if len({line.model["digest"] for _, line in group}) < 2:
            continue
        # Of one model's runs, and of equal scores, the fastest.
        skill, best = max(group, key=lambda pair: (pair[0], -(pair[1].p90 or 0.0)))
        score = own_score(best.model) or {}
        answers.append(
            f"Which model on {board}: {best.model['name']} has the highest macro-F1, {skill:.3f} ({score['split']}"
            f" split, {score['part']} part; {_beside(score)}), at {best.p90:.1f} ms ({best.runtime},"
            f" {_threads(best.threads)})."
        )
    if not scored:
        answers.append(f"Which model on {board}: not to be said, since no trained model was timed there.")
    return answers


def _threads(count: int | None) -> str:
    return "1 thread" if count == 1 else f"{count} threads"


def _quantised_times(found: Sequence[Line]) -> list[str]:
    """What int8 gains in time and size, for each network that was timed in float32 under the same conditions."""
    answers = []
    for line in found:
        if line.model["precision"] != "int8" or line.p90 is None:
            continue
        twin = next(
            (
                other
                for other in found
                if other.model["precision"] == "float32"
                and other.p90 is not None
                and other.model["architecture"] == line.model["architecture"]
                and _weights(other.model) == _weights(line.model)
                and (other.board, other.runtime, other.threads) == (line.board, line.runtime, line.threads)
            ),
            None,
        )
        if twin is None or twin.p90 is None:
            continue
        mine, its = own_score(line.model), own_score(twin.model)
        skill = ""
        if mine is not None and its is not None:
            skill = f", macro-F1 {mine['macro_f1'] - its['macro_f1']:+.4f}"
        mark = " (suspect machine)" if line.suspect or twin.suspect else ""
        answers.append(
            f"Quantisation of {line.model['architecture']} to int8 on {line.board} ({line.runtime},"
            f" {_threads(line.threads)}): p90 {line.p90:.1f} ms against {twin.p90:.1f} ms in float32,"
            f" {twin.p90 / line.p90:.2f} times as fast, {line.model['bytes'] / twin.model['bytes']:.0%} of the size"
            f"{skill}{mark}."
        )
    return answers


def _weights(model: Mapping[str, Any]) -> str | None:
    training = model.get("training")
    return None if training is None else str(training["weights_digest"])


def _pareto(found: Sequence[Line]) -> Figure | None:
    points = [
        line for line in found if line.p90 is not None and (line.mce is not None or line.error is not None)
    ]
    if not points:
        return None
    use_mce = all(line.mce is not None for line in points)
    label = "mCE, % of the reference" if use_mce else "mean error under corruption, %"
    figure, axes = new_figure(7.0, 4.2)
    rows = []
    boards = list(dict.fromkeys(line.board for line in points))
    largest = max(line.model["bytes"] for line in points)
    for line in points:
        value = float(line.mce or 0.0) if use_mce else 100 * float(line.error or 0.0)
        position = boards.index(line.board)
        axes.scatter(
            [line.p90],
            [value],
            s=40 + 900 * line.model["bytes"] / largest,
            color=PALETTE[position % len(PALETTE)],
            marker=MARKERS[position % len(MARKERS)],
            alpha=0.6,
        )
        axes.annotate(
            line.model["name"], (line.p90, value), xytext=(6, 6), textcoords="offset points", fontsize=8
        )
        rows.append(f'"{line.model["name"]}","{line.board}",{line.p90},{value},{line.model["bytes"]}')
    axes.set_xscale("log")
    axes.set_xlabel("p90 latency end to end, ms")
    axes.set_ylabel(label)
    best = min(points, key=lambda line: (line.mce if use_mce else line.error) or 0.0)
    return Figure(
        title=f"Latency against {label}; area is the file's size, shape and colour the board. Lower left is better.",
        alternative=f"{len(points)} models by latency and {label}. The lowest is {best.model['name']} at"
        f" {best.p90:.1f} ms.",
        svg=to_svg(figure),
        csv="\n".join([f'model,board,p90_ms,"{label}",bytes', *rows]) + "\n",
    )
