"""Scores against hand-computed cases and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest

from convert.score import accuracy, confusion_matrix, macro_f1, precision_recall


def test_scores_by_hand() -> None:
    # Class 0: 2 of 3 found, 2 of 2 right; class 1: 1 of 1 found, 1 of 2 right; class 2 never seen nor said.
    matrix = confusion_matrix(np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1]), 3)
    assert matrix.tolist() == [[2, 1, 0], [0, 1, 0], [0, 0, 0]]
    assert accuracy(matrix) == 0.75
    precision, recall = precision_recall(matrix)
    assert precision.tolist() == [1.0, 0.5, 0.0]
    assert recall.tolist() == [2 / 3, 1.0, 0.0]
    assert macro_f1(matrix) == pytest.approx((0.8 + 2 / 3) / 2)


def test_scores_agree_with_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    generator = np.random.default_rng(0)
    for _ in range(20):
        truth, predicted = generator.integers(0, 6, 40), generator.integers(0, 5, 40)
        matrix = confusion_matrix(truth, predicted, 8)
        assert accuracy(matrix) == pytest.approx(metrics.accuracy_score(truth, predicted))
        assert macro_f1(matrix) == pytest.approx(metrics.f1_score(truth, predicted, average="macro"))


def test_no_photographs_score_zero() -> None:
    matrix = confusion_matrix(np.array([], int), np.array([], int), 3)
    assert accuracy(matrix) == macro_f1(matrix) == 0.0
