"""The confusion matrix of the report, from made-up predictions whose counts are known."""

from __future__ import annotations

import csv
import io

import numpy as np

from bench.prediction import Predictions, predictions_to_json
from bench.report.confusion import confusion_figures
from bench.result import Entry
from bench.section import Figure

LABELS = ("Die Back", "Healthy", "Sooty Mould")


def figures(truth: list[int] | None, clean: list[int], split: str | None = "burst") -> list[Figure]:
    predictions = Predictions(
        labels=LABELS,
        identities=tuple(f"{number:016x}" for number in range(len(clean))),
        truth=None if truth is None else np.array(truth),
        bursts=np.zeros(len(clean), dtype=np.intp),
        clean=np.array(clean),
        corrupted={},
    )
    body = {
        "labelled": truth is not None,
        "predictions": predictions_to_json(predictions),
        "images": {"choice": "all images"},
    }
    data = {"name": "n", "images": len(clean), "source": "photographs", "split": split, "part": "test"}
    return confusion_figures([Entry("robustness", body, None, {"name": "lcnn", "digest": "d"}, data)])


def test_rows_are_true_and_columns_predicted() -> None:
    (figure,) = figures([0, 0, 0, 1, 2, 2], [0, 2, 2, 1, 2, 1])
    assert list(csv.reader(io.StringIO(figure.csv))) == [
        ["true", *LABELS],
        ["Die Back", "1", "0", "2"],
        ["Healthy", "0", "1", "0"],
        ["Sooty Mould", "0", "1", "1"],
    ]
    assert figure.alternative == (
        "3 of 6 photographs lie on the diagonal; most often Die Back was taken for Sooty Mould (2 times)."
    )
    assert "lcnn, burst split, test part" in figure.title


def test_a_perfect_model_and_a_class_without_photographs() -> None:
    (figure,) = figures([0, 1], [0, 1], split=None)
    assert "nothing was confused" in figure.alternative
    assert "all images" in figure.title
    assert "nan" not in figure.svg.lower()


def test_photographs_without_labels_have_no_matrix() -> None:
    assert figures(None, [0, 1]) == []
