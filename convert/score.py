"""Scores of predicted labels: accuracy, macro-F1, confusion matrix, precision and recall."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.integer]


def confusion_matrix(truth: Indices, predicted: Indices, classes: int) -> npt.NDArray[np.int64]:
    """Counts (classes, classes) int64: rows are the true class, columns the predicted one."""
    matrix = np.zeros((classes, classes), dtype=np.int64)
    np.add.at(matrix, (np.asarray(truth, dtype=np.intp), np.asarray(predicted, dtype=np.intp)), 1)
    return matrix


def accuracy(matrix: npt.NDArray[np.int64]) -> float:
    """Share of right predictions, 0..1; 0 for no photographs."""
    total = int(matrix.sum())
    return float(np.trace(matrix)) / total if total else 0.0


def precision_recall(
    matrix: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Precision and recall of each class, 0..1; 0 where the denominator is 0, as scikit-learn has it."""
    right = np.diag(matrix).astype(np.float64)
    predicted, true = matrix.sum(axis=0), matrix.sum(axis=1)
    precision = np.divide(right, predicted, out=np.zeros_like(right), where=predicted > 0)
    recall = np.divide(right, true, out=np.zeros_like(right), where=true > 0)
    return precision, recall


def macro_f1(matrix: npt.NDArray[np.int64]) -> float:
    """Unweighted mean of the classes' F1, over the classes that occur in truth or prediction, 0..1."""
    precision, recall = precision_recall(matrix)
    both = precision + recall
    f1 = np.divide(2 * precision * recall, both, out=np.zeros_like(both), where=both > 0)
    present = (matrix.sum(axis=0) + matrix.sum(axis=1)) > 0
    return float(f1[present].mean()) if present.any() else 0.0
