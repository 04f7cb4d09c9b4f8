"""Scoring a journal against the truth, where it is known: a run over a labelled video or folder."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from edge.decision import UNCERTAIN
from edge.errors import InputError
from edge.files import read_regular
from edge.journal import Row

MAXIMUM_BYTES = 2**28
"""A file of labels larger than this is refused before it is read."""


@dataclass(frozen=True)
class JournalScore:
    """Counts and scores over the rows whose frame number has a true label.

    Attributes:
        rows: rows with a true label.
        unused: of these, refused by a gate.
        uncertain: of these, used but undecided.
        decided: of these, with a class; `rows = unused + uncertain + decided`.
        accuracy, macro_f1: of the decisions, over the decided rows, 0..1.
        predicted_accuracy, predicted_macro_f1: of the most probable class, over all used rows, 0..1.
    """

    rows: int
    unused: int
    uncertain: int
    decided: int
    accuracy: float
    macro_f1: float
    predicted_accuracy: float
    predicted_macro_f1: float


def read_truth(path: Path) -> dict[int, str]:
    """True label by frame number from a CSV file with the columns `frame_number` and `label`.

    Raises:
        InputError: it cannot be read, lacks a column, or gives one frame two labels.
    """
    truth: dict[int, str] = {}
    try:
        text = read_regular(path, "a CSV file", MAXIMUM_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not CSV text ({error})") from None
    table = csv.DictReader(io.StringIO(text, newline=""))
    try:
        if not {"frame_number", "label"} <= set(table.fieldnames or ()):
            raise InputError(f"{path}: needs a header with the columns frame_number and label")
        for line in table:
            number, label = int(line["frame_number"]), line["label"]
            if truth.setdefault(number, label) != label:
                raise InputError(f"{path}: frame {number} has two labels, {truth[number]!r} and {label!r}")
    except (ValueError, TypeError, csv.Error) as error:
        raise InputError(
            f"{path}: line {table.line_num} is not a frame number and a label ({error})"
        ) from None
    return truth


def score(rows: Iterable[Row], truth: dict[int, str]) -> JournalScore:
    """Score rows against true labels by frame number.

    Raises:
        InputError: no row has a frame number with a true label.
    """
    unused = uncertain = 0
    decided: Counter[tuple[str, str]] = Counter()
    predicted: Counter[tuple[str, str]] = Counter()
    for row in rows:
        decision = row.decision
        true = truth.get(decision.frame_number)
        if true is None:
            continue
        if not decision.used:
            unused += 1
            continue
        best = max(range(len(decision.labels)), key=decision.probabilities.__getitem__)
        predicted[true, decision.labels[best]] += 1
        if decision.label == UNCERTAIN:
            uncertain += 1
        else:
            decided[true, decision.label] += 1
    if not unused + sum(predicted.values()):
        raise InputError("no decision in this journal has a frame number with a true label; check the file")
    return JournalScore(
        unused + sum(predicted.values()),
        unused,
        uncertain,
        sum(decided.values()),
        *_scores(decided),
        *_scores(predicted),
    )


def _scores(pairs: Counter[tuple[str, str]]) -> tuple[float, float]:
    """Accuracy and macro-F1 over the classes that occur, as `convert.score` has them, 0..1; 0 for no rows."""
    total = sum(pairs.values())
    if not total:
        return 0.0, 0.0
    labels = sorted({label for pair in pairs for label in pair})
    f1 = []
    for label in labels:
        right = pairs[label, label]
        both = sum(count * ((true == label) + (said == label)) for (true, said), count in pairs.items())
        f1.append(2 * right / both)
    return sum(pairs[label, label] for label in labels) / total, sum(f1) / len(f1)
