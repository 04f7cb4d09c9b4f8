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
            untimed = {
                "board": None,
                "runtime": None,
                "threads": None,
                "p50": None,
                "p90": None,
                "throughput": None,
            }
            found.append(Line(model, **untimed, **known))
    return found


def overview(entries: Sequence[Entry]) -> Section:
    """Answers in words, a table of all models and boards, and the plot of latency against mCE."""
    found = lines(entries)
    rows = [line.cells for line in found]
    # A column that nobody measured only pushes the others off a phone's screen.
    filled = [any(row[column] is not None for row in rows) for column in range(len(COLUMNS))]
    table = Table(
        "Every model on every board",
        tuple(name for name, kept in zip(COLUMNS, filled, strict=True) if kept),
        [[cell for cell, kept in zip(row, filled, strict=True) if kept] for row in rows],
        "Times end to end (read, decode, resize, invoke), one picture at a time. mCE is relative to "
        + (next((line.reference for line in found if line.reference), "no reference"))
        + " = 100; lower is better. The mean error stands beside it because a single corruption with a small"
        " reference error can decide an mCE.",
    )
    figure = _pareto(found)
    return Section(
        title="At a glance",
        anchor="overview",
        paragraphs=tuple(_answers(entries, found)),
        tables=(table,),
        figures=() if figure is None else (figure,),
        warnings=tuple(
            f"{line.model['name']} on {line.board}: the machine was throttled, swapping or busy while it was timed;"
            " its times are not the board's own."
            for line in found
            if line.suspect
        ),
    )


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


def _answers(entries: Sequence[Entry], found: Sequence[Line]) -> list[str]:
    answers = []
    timed = [line for line in found if line.p90 is not None]
    if timed:
        fastest = min(timed, key=lambda line: line.p90 or 0.0)
        answers.append(
            f"Fastest: {fastest.model['name']} on {fastest.board}, nine of ten pictures within {fastest.p90:.1f} ms"
            f" ({fastest.throughput:.1f} a second, {fastest.runtime}, {fastest.threads} thread(s))."
        )
    robust = [line for line in found if line.error is not None]
    if robust:
        best = min(robust, key=lambda line: line.error or 0.0)
        score = f", mCE {best.mce:.1f} % of {best.reference}" if best.mce is not None else ""
        answers.append(
            f"Most robust: {best.model['name']}, {best.error:.1%} mean error over the corruptions{score}"
            f" ({best.robustness_data})."
        )
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
            baseline = score.get("time_baseline")
            beside = (
                "capture times are unknown, so no time baseline stands beside it"
                if baseline is None
                else f"the capture time alone, without a picture, reaches {baseline['macro_f1']:.3f}"
            )
            answers.append(
                f"{model['name']} scores macro-F1 {score['macro_f1']:.3f} on the {score['split']} split's"
                f" {score['part']} part ({score['images']} photographs); {beside}."
            )
    return answers or ["Nothing was timed and no robustness was measured in these results."]


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
