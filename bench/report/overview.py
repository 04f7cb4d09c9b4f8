"""The first screen: which model on this board, how fast, how robust, and what did quantisation cost?"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.corruption import CORRUPTIONS, SEVERITIES
from bench.machine import board_name
from bench.plot import MARKERS, PALETTE, new_figure, plain_numbers, to_svg
from bench.report.models import distinct_models, own_score
from bench.result import Entry, pictures_text
from bench.section import Cell, Figure, Section, Table

COLUMNS = (
    "model",
    "precision",
    "size, kB",
    "board",
    "runtime",
    "threads",
    "pictures",
    "p50, ms",
    "p90, ms",
    "pictures/s",
    "macro-F1",
    "split",
    "time baseline macro-F1",
    "mCE, %",
    "mean error under corruption",
    "robustness on",
    "mCE relative to",
    "machine",
)

_OFTEN_ALIKE = ("board", "runtime", "threads", "pictures", "robustness on", "mCE relative to")
"""Columns that stand in the table only where they differ, else below it."""

_LEAST_SPAN = 10.0  # percent, of the plot's height


@dataclass(frozen=True)
class Timing:
    """One model timed once; milliseconds end to end, one picture at a time.

    `pictures` names the pictures so that others have another name.
    """

    model: Mapping[str, Any]
    board: str
    runtime: str
    threads: int
    pictures: str
    p50: float
    p90: float
    throughput: float
    suspect: bool


@dataclass(frozen=True)
class Robustness:
    """One model under corruptions; `error` 0..1, `mce` in percent of `reference`, None without a reference.

    `on` names the photographs in words. Results with the same `conditions` (photographs, encoding, corruptions, their
    seed, the reference) can be ranked, others cannot.
    """

    model: Mapping[str, Any]
    error: float
    mce: float | None
    reference: str | None
    on: str
    conditions: tuple[Any, ...]


@dataclass(frozen=True)
class Line:
    """One run of a model's on one board beside one of its robustness results; None where there was none."""

    model: Mapping[str, Any]
    timing: Timing | None
    robustness: Robustness | None

    @property
    def cells(self) -> list[Cell]:
        """The values of `COLUMNS`."""
        score = own_score(self.model) or {}
        baseline = score.get("time_baseline") or {}
        timing, robustness = self.timing, self.robustness
        return [
            self.model["name"],
            self.model["precision"],
            round(self.model["bytes"] / 1000, 1),
            *(
                (None,) * 7
                if timing is None
                else (
                    timing.board,
                    timing.runtime,
                    timing.threads,
                    timing.pictures,
                    timing.p50,
                    timing.p90,
                    timing.throughput,
                )
            ),
            score.get("macro_f1"),
            f"{score['split']}, {score['part']}" if score else None,
            baseline.get("macro_f1"),
            *(
                (None,) * 4
                if robustness is None
                else (robustness.mce, robustness.error, robustness.on, robustness.reference)
            ),
            None if timing is None else "suspect" if timing.suspect else "clean",
        ]


def timings(entries: Sequence[Entry]) -> list[Timing]:
    """Every run of every model, in order."""
    return [_timing(entry) for entry in entries if entry.kind == "latency" and entry.model is not None]


def robustnesses(entries: Sequence[Entry]) -> list[Robustness]:
    """Every labelled robustness result with corruptions, in order."""
    return [
        _robustness(entry)
        for entry in entries
        if entry.kind == "robustness"
        and entry.model is not None
        and entry.body["labelled"]
        and entry.body["corruptions"]
    ]


def lines(entries: Sequence[Entry]) -> list[Line]:
    """A line for each model, each time it was timed, and each selection of photographs it was corrupted on."""
    timed, robust = timings(entries), robustnesses(entries)
    found = []
    for model in distinct_models(entries):
        runs: list[Timing | None] = [one for one in timed if one.model["digest"] == model["digest"]]
        results: list[Robustness | None] = [one for one in robust if one.model["digest"] == model["digest"]]
        found += [Line(model, run, result) for run in runs or [None] for result in results or [None]]
    return found


def overview(entries: Sequence[Entry]) -> Section:
    """Answers in words, a table of all models and boards, and latency against robustness."""
    found = lines(entries)
    table = _table(found)
    return Section(
        title="At a glance",
        anchor="overview",
        paragraphs=tuple(_answers(entries)),
        tables=(table,) if found else (),
        figures=tuple(_pareto(group) for group in _plotted(found)),
        warnings=tuple(_suspects(timings(entries))),
    )


def _table(found: Sequence[Line]) -> Table:
    rows = [line.cells for line in found]
    # Long words for what was corrupted make tall rows: the table has letters, and the words stand below it.
    on = COLUMNS.index("robustness on")
    words = list(dict.fromkeys(line.robustness.on for line in found if line.robustness is not None))
    letters = {text: chr(ord("A") + number) for number, text in enumerate(words)} if len(words) > 1 else {}
    for row in rows:
        row[on] = letters.get(str(row[on]), row[on])
    values = [list(dict.fromkeys(row[column] for row in rows)) for column in range(len(COLUMNS))]
    # A column that nobody measured, or that says the same of all, only pushes the others off a phone's screen.
    kept = [
        column
        for column, name in enumerate(COLUMNS)
        if values[column] != [None]
        and (name not in _OFTEN_ALIKE or len([value for value in values[column] if value is not None]) > 1)
    ]
    alike = {
        name: str(value)
        for column, name in enumerate(COLUMNS)
        if name in _OFTEN_ALIKE and column not in kept
        for value in values[column]
        if value is not None
    }
    return Table(
        "Every model on every board",
        tuple(COLUMNS[column] for column in kept),
        [[row[column] for column in kept] for row in rows],
        " ".join([_note(found, alike), *(f"{letter}: {text}." for text, letter in letters.items())]),
    )


def _note(found: Sequence[Line], alike: Mapping[str, str]) -> str:
    parts = []
    if any(line.timing is not None for line in found):
        where = f", of {alike['pictures']}" if "pictures" in alike else ""
        on = [alike[name] for name in ("board", "runtime") if name in alike]
        on += [_threads(int(alike["threads"]))] if "threads" in alike else []
        where += f", on {', '.join(on)}" if on else ""
        parts.append(f"Times are end to end, from file to label, one picture at a time{where}.")
    if "robustness on" in alike:
        parts.append(f"Robustness is on the {alike['robustness on']}.")
    if any(line.robustness is not None and line.robustness.mce is not None for line in found):
        relative = (
            f"mCE is relative to {alike['mCE relative to']} = 100"
            if "mCE relative to" in alike
            else "mCE is relative to what its line names = 100: compare only those with the same"
        )
        parts.append(
            f"{relative}; lower is better. The mean error stands beside it because a single corruption with a small"
            " reference error can decide an mCE."
        )
    return " ".join(parts)


def _suspects(found: Sequence[Timing]) -> list[str]:
    warnings = []
    for board in dict.fromkeys(timing.board for timing in found):
        timed = [timing for timing in found if timing.board == board]
        suspect = sum(timing.suspect for timing in timed)
        if suspect:
            warnings.append(
                f"{board}: the machine was throttled, swapping or busy during {suspect} of {len(timed)} runs (marked"
                " suspect); their times are not the board's own."
            )
    return warnings


def summary_csv(entries: Sequence[Entry]) -> str:
    """The overview's table as CSV, unrounded, with the digest of each file."""
    buffer = io.StringIO()
    table = csv.writer(buffer, lineterminator="\n")
    table.writerow([*COLUMNS, "file digest"])
    for line in lines(entries):
        table.writerow([*("" if cell is None else cell for cell in line.cells), line.model["digest"]])
    return buffer.getvalue()


def _timing(entry: Entry) -> Timing:
    assert entry.model is not None
    machine, body = entry.machine or {}, entry.body
    delegate = "" if body["xnnpack"] else ", no XNNPACK"
    return Timing(
        model=entry.model,
        board=board_name(machine),
        runtime=f"{body['runtime']['name']} {body['runtime']['version']}{delegate}",
        threads=body["threads"],
        pictures=pictures_text(entry.data),
        p50=body["end_to_end"]["p50"],
        p90=body["end_to_end"]["p90"],
        throughput=body["throughput_per_s"],
        suspect=bool(machine.get("suspect")),
    )


def _robustness(entry: Entry) -> Robustness:
    assert entry.model is not None
    body, data = entry.body, entry.data or {}
    reference = body["references"][0] if body["references"] else None
    images = body["images"]
    corruptions, severities = sorted(body["corruptions"]), sorted(body["severities"])
    whole = len(corruptions) == len(CORRUPTIONS) and len(severities) == len(SEVERITIES)
    part = (
        "" if whole else f", {len(corruptions)} corruptions at severities {', '.join(map(str, severities))}"
    )
    return Robustness(
        model=entry.model,
        error=body["scores"]["mean"]["error"],
        mce=None if reference is None else reference["mce"],
        reference=None if reference is None else reference["name"],
        on=f"{images['choice']} of {data.get('name', 'unknown data')}, {images['number']:,} photographs"
        f" ({images['digest'][:6]}), {body['encoding']['text']}{part}",
        conditions=(
            images["digest"],
            body["encoding"]["text"],
            (body["corruption"]["base"], body["corruption"]["seed"]),
            tuple(corruptions),
            tuple(severities),
            None if reference is None else reference["name"],
        ),
    )


def _answers(entries: Sequence[Entry]) -> list[str]:
    answers = []
    timed = timings(entries)
    several = len({timing.pictures for timing in timed}) > 1
    for board, pictures in dict.fromkeys((timing.board, timing.pictures) for timing in timed):
        where = f"{board} with {pictures}" if several else board
        same = [timing for timing in timed if (timing.board, timing.pictures) == (board, pictures)]
        answers += _board_answers(where, same)
    answers += _robust_answers(robustnesses(entries))
    answers += _quantised_times(timed)
    for entry in entries:
        cost = entry.body.get("quantisation") if entry.kind == "robustness" else None
        if cost and entry.model is not None:
            mce = "" if cost["mce"] is None else f", mCE by {cost['mce']:+.1f} points"
            answers.append(
                f"Quantisation ({entry.model['name']} against {cost['against']['name']}, on the"
                f" {entry.body['images']['choice']}): changes the clean error by {100 * cost['clean_error']:+.2f}"
                f" points, the mean error under corruption by {100 * cost['error']:+.2f} points{mce}; the two agree on"
                f" {cost['agreement']:.1%} of corrupted pictures."
            )
    answers += _scores(distinct_models(entries))
    return answers or ["Nothing was timed and no robustness was measured in these results."]


def _scores(models: Sequence[Mapping[str, Any]]) -> list[str]:
    """What the models score, those on the same photographs in one sentence with the baseline beside them."""
    groups: dict[str, list[str]] = {}
    for model in models:
        score = own_score(model)
        if score is not None:
            where = (
                f"Macro-F1 on the {score['split']} split's {score['part']} part ({score['images']} photographs), where"
                f" {_beside(score)}"
            )
            groups.setdefault(where, []).append(f"{model['name']} {score['macro_f1']:.3f}")
    return [f"{where}: {', '.join(names)}." for where, names in groups.items()]


def _beside(score: Mapping[str, Any]) -> str:
    baseline = score.get("time_baseline")
    if baseline is None:
        return "capture times are unknown, so no time baseline stands beside it"
    return f"the capture time alone, without a picture, reaches {baseline['macro_f1']:.3f}"


def _robust_answers(found: Sequence[Robustness]) -> list[str]:
    """The least affected model of each set of results that can be ranked."""
    groups: dict[tuple[Any, ...], list[Robustness]] = {}
    for one in found:
        groups.setdefault(one.conditions, []).append(one)
    answers = []
    for group in groups.values():
        best = min(group, key=lambda one: one.error)
        models = len({one.model["digest"] for one in group})
        who = (
            f"least affected of {models} models is {best.model['name']},"
            if models > 1
            else f"{best.model['name']} has"
        )
        mce = f", mCE {best.mce:.1f} % of {best.reference}" if best.mce is not None else ""
        answers.append(
            f"How robust ({best.on}): {who} {best.error:.1%} mean error over the corruptions{mce}."
        )
    return answers


def _board_answers(board: str, timed: Sequence[Timing]) -> list[str]:
    fastest = min(timed, key=lambda timing: timing.p90)
    mark = " (suspect machine)" if fastest.suspect else ""
    answers = [
        f"How fast on {board}: {fastest.model['name']} is the fastest, nine of ten pictures within"
        f" {fastest.p90:.1f} ms ({fastest.throughput:.1f} a second, {fastest.runtime},"
        f" {_threads(fastest.threads)}){mark}."
    ]
    # A choice by skill needs scores of the same photographs.
    scored: dict[tuple[str, str], list[tuple[float, Timing]]] = {}
    for timing in timed:
        score = own_score(timing.model)
        if score is not None:
            key = (str(score["split_digest"]), str(score["part"]))
            scored.setdefault(key, []).append((float(score["macro_f1"]), timing))
    for group in scored.values():
        if len({timing.model["digest"] for _, timing in group}) < 2:
            continue
        # Of one model's runs, and of equal scores, the fastest.
        skill, best = max(group, key=lambda pair: (pair[0], -pair[1].p90))
        score = own_score(best.model) or {}
        answers.append(
            f"Which model on {board}: {best.model['name']} has the highest macro-F1, {skill:.3f} ({score['split']}"
            f" split, {score['part']} part; {_beside(score)}), at {best.p90:.1f} ms ({best.runtime},"
            f" {_threads(best.threads)})."
        )
    if not scored:
        answers.append(f"Which model on {board}: not to be said, since no trained model was timed there.")
    return answers


def _threads(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"


def _quantised_times(found: Sequence[Timing]) -> list[str]:
    """What int8 gains in time and size: the networks timed in both under the same conditions, in one sentence."""
    groups: dict[tuple[str, str, int, str], list[str]] = {}
    for timing in found:
        if timing.model["precision"] != "int8":
            continue
        twin = next(
            (
                other
                for other in found
                if other.model["precision"] == "float32"
                and other.model["architecture"] == timing.model["architecture"]
                and _weights(other.model) == _weights(timing.model)
                and _conditions(other) == _conditions(timing)
            ),
            None,
        )
        if twin is None:
            continue
        mine, its = own_score(timing.model), own_score(twin.model)
        skill = ""
        if mine is not None and its is not None and _tested_on(mine) == _tested_on(its):
            skill = f", macro-F1 {mine['macro_f1'] - its['macro_f1']:+.4f}"
        mark = " (suspect machine)" if timing.suspect or twin.suspect else ""
        groups.setdefault(_conditions(timing), []).append(
            f"{timing.model['architecture']} {twin.p90 / timing.p90:.2f} times as fast (p90 {timing.p90:.1f} against"
            f" {twin.p90:.1f} ms), {timing.model['bytes'] / twin.model['bytes']:.0%} of the size{skill}{mark}"
        )
    several = len({pictures for *_, pictures in groups}) > 1
    return [
        f"Quantisation from float32 to int8 on {board}{f' with {pictures}' if several else ''} ({runtime},"
        f" {_threads(threads)}): {'; '.join(gains)}."
        for (board, runtime, threads, pictures), gains in groups.items()
    ]


def _conditions(timing: Timing) -> tuple[str, str, int, str]:
    """What must be equal for two models' times to be compared."""
    return (timing.board, timing.runtime, timing.threads, timing.pictures)


def _tested_on(score: Mapping[str, Any]) -> tuple[Any, Any]:
    return (score["split_digest"], score["part"])


def _weights(model: Mapping[str, Any]) -> str | None:
    training = model.get("training")
    return None if training is None else str(training["weights_digest"])


def _plotted(found: Sequence[Line]) -> list[list[tuple[Timing, Robustness]]]:
    """Models that were both timed and corrupted; those on other pictures or relative to other models apart."""
    groups: dict[tuple[Any, ...], list[tuple[Timing, Robustness]]] = {}
    for line in found:
        if line.timing is not None and line.robustness is not None:
            key = (line.timing.pictures, line.robustness.conditions)
            groups.setdefault(key, []).append((line.timing, line.robustness))
    return list(groups.values())


def _pareto(points: Sequence[tuple[Timing, Robustness]]) -> Figure:
    use_mce = all(robustness.mce is not None for _, robustness in points)
    on, pictures = points[0][1].on, points[0][0].pictures
    label = f"mCE, % of {points[0][1].reference}" if use_mce else "mean error under corruption, %"
    figure, axes = new_figure(7.0, 4.2)
    buffer = io.StringIO()
    table = csv.writer(buffer, lineterminator="\n")
    table.writerow(["model", "board", "p90_ms", label, "bytes"])
    boards = list(dict.fromkeys(timing.board for timing, _ in points))
    largest = max(timing.model["bytes"] for timing, _ in points)
    values = [
        float(robustness.mce) if use_mce and robustness.mce is not None else 100 * robustness.error
        for _, robustness in points
    ]
    for (timing, _), value in zip(points, values, strict=True):
        position = boards.index(timing.board)
        axes.scatter(
            [timing.p90],
            [value],
            s=40 + 900 * timing.model["bytes"] / largest,
            color=PALETTE[position % len(PALETTE)],
            marker=MARKERS[position % len(MARKERS)],
            alpha=0.6,
        )
        axes.annotate(
            timing.model["name"], (timing.p90, value), xytext=(6, 6), textcoords="offset points", fontsize=8
        )
        table.writerow([timing.model["name"], timing.board, timing.p90, value, timing.model["bytes"]])
    axes.set_xscale("log")
    # Models that hardly differ must not fill the height of the drawing.
    middle, reach = (min(values) + max(values)) / 2, max(_LEAST_SPAN, max(values) - min(values))
    axes.set_ylim(middle - 0.6 * reach, middle + 0.6 * reach)
    axes.set_xlabel("p90 latency end to end, ms")
    plain_numbers(axes.xaxis)
    axes.set_ylabel(label)
    lowest, best = min(zip(values, points, strict=True), key=lambda pair: pair[0])
    return Figure(
        title=f"Latency with {pictures} against {label}, on the {on}; area is the file's size, shape and colour the"
        " board. Lower left is better.",
        alternative=f"{len(points)} runs by latency and {label}. The lowest is {lowest:.1f}, of"
        f" {best[0].model['name']} at {best[0].p90:.1f} ms.",
        svg=to_svg(figure),
        csv=buffer.getvalue(),
    )
