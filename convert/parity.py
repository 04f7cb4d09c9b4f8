"""Is the converted file still the trained network? Both see the same pictures, and the labels are compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from convert.dataset import Dataset
from convert.score import accuracy, confusion_matrix, macro_f1, precision_recall
from convert.split import Split
from edge.classifier import Classifier
from edge.contract import Score
from edge.preprocessing import Pixels

Floats = npt.NDArray[np.float32]


def run_model(classifier: Classifier, pictures: Pixels, progress: Callable[[], None] | None = None) -> Floats:
    """Probabilities (n, labels) float32 of fitted pictures (n, height, width, 3), one inference each."""
    outputs = np.empty((len(pictures), len(classifier.contract.labels)), dtype=np.float32)
    for position, picture in enumerate(pictures):
        outputs[position] = classifier.probabilities(picture)
        if progress is not None:
            progress()
    return outputs


def per_class(
    truth: npt.NDArray[np.int64], predicted: npt.NDArray[np.intp], labels: Sequence[str]
) -> dict[str, dict[str, float]]:
    """label -> {"precision", "recall", "images"}."""
    matrix = confusion_matrix(truth, predicted, len(labels))
    precision, recall = precision_recall(matrix)
    return {
        label: {"precision": float(precision[i]), "recall": float(recall[i]), "images": int(matrix[i].sum())}
        for i, label in enumerate(labels)
    }


def score(
    keras_output: Floats,
    output: Floats,
    truth: npt.NDArray[np.int64],
    dataset: Dataset,
    split: Split,
    part: str,
    weights_digest: str,
    time_baseline: Mapping[str, float] | None,
) -> Score:
    """Compare two sets of probabilities (n, labels) of the same photographs with the truth and each other."""
    classes = len(dataset.labels)
    predicted, original = output.argmax(axis=1), keras_output.argmax(axis=1)
    matrix, original_matrix = (
        confusion_matrix(truth, predicted, classes),
        confusion_matrix(truth, original, classes),
    )
    return Score(
        split=split.name,
        seed=split.seed,
        part=part,
        split_digest=split.digest,
        weights_digest=weights_digest,
        images=len(truth),
        accuracy=accuracy(matrix),
        macro_f1=macro_f1(matrix),
        keras_accuracy=accuracy(original_matrix),
        keras_macro_f1=macro_f1(original_matrix),
        agreement=float((predicted == original).mean()),
        largest_difference=float(np.abs(output - keras_output).max()),
        per_class=per_class(truth, predicted, dataset.labels),
        time_baseline=time_baseline,
    )
