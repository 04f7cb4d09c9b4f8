"""A classifier that never sees a picture: what the capture time alone tells of the class.

Photographs of one session show one disease, so a clock can score like a network. Every accuracy therefore
stands beside this baseline on the same split; a network that does not beat it has shown nothing.

The forest (60 trees, other settings scikit-learn's defaults) is the one of the leakage audit in `bench.audit`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from convert.dataset import Dataset, Photograph
from convert.score import accuracy, confusion_matrix, macro_f1
from convert.split import SEED, Split, part_of
from edge.errors import InputError

TREES = 60
TIME_FEATURES = ("days since the first", "date", "second of the day", "day of the year", "time unknown")
"""Columns of `time_features`."""


def time_features(times: Sequence[datetime | None]) -> npt.NDArray[np.float64]:
    """What a capture time offers to a classifier.

    Args:
        times: of each photograph, without zone; None where unknown.

    Returns:
        float64 (photographs, 5): days since the earliest of `times` with fraction; the same whole (its date);
        seconds since midnight (0..86399); day of the year (1..366); 1 where the time is unknown (the other
        columns are -1 there). The forest works in float32, which cannot hold seconds over a year: date and
        second of the day keep them apart.
    """
    features = np.full((len(times), len(TIME_FEATURES)), -1.0)
    features[:, 4] = 1.0
    known = [(row, time) for row, time in enumerate(times) if time is not None]
    if not known:
        return features
    first = min(time for _, time in known)
    midnight = first.replace(hour=0, minute=0, second=0, microsecond=0)
    for row, time in known:
        since = (time - midnight).total_seconds()
        day = float(np.floor(since / 86400))
        features[row] = (since / 86400, day, since - 86400 * day, time.timetuple().tm_yday, 0.0)
    return features


def new_forest(seed: int, jobs: int = 1) -> Any:
    """A scikit-learn random forest of 60 trees, other settings default.

    Raises:
        InputError: scikit-learn is not installed.
    """
    try:
        from sklearn.ensemble import RandomForestClassifier
    except ModuleNotFoundError:
        raise InputError(
            "scikit-learn is not installed; install the workstation's extra: pip install 'mango-leaf-kit[convert]'"
        ) from None
    return RandomForestClassifier(n_estimators=TREES, random_state=seed, n_jobs=jobs)


def time_baseline(
    dataset: Dataset, split: Split, seed: int = SEED, part: str = "test"
) -> Mapping[str, float] | None:
    """Train on the capture times of the split's training part, score on those of `part`.

    Args:
        dataset, split: as a network is trained and scored on them.
        seed: of the forest.
        part: which photographs to score.

    Returns:
        "accuracy" and "macro_f1" (0..1), "seed", "images" (scored photographs) and "timed" (share of them with
        a known time); None where times are unknown throughout the training part or `part`.

    Raises:
        InputError: the split belongs to other data or lacks a part; scikit-learn is missing.
    """
    training, scored = part_of(split, dataset, "training"), part_of(split, dataset, part)
    if not any(photograph.taken for photograph in training) or not any(
        photograph.taken for photograph in scored
    ):
        return None
    # Both parts in one call: the first day that features count from must be the same.
    features = time_features([photograph.taken for photograph in (*training, *scored)])
    forest = new_forest(seed).fit(features[: len(training)], _truth(training, dataset))
    predicted = forest.predict(features[len(training) :])
    matrix = confusion_matrix(_truth(scored, dataset), predicted, len(dataset.labels))
    return {
        "accuracy": accuracy(matrix),
        "macro_f1": macro_f1(matrix),
        "seed": float(seed),
        "images": float(len(scored)),
        "timed": float(np.mean([photograph.taken is not None for photograph in scored])),
    }


def beside(dataset: Dataset, split: Split, part: str) -> str:
    """What a printed score of a part has beside it: the time baseline in words, see `time_baseline`."""
    baseline = time_baseline(dataset, split, part=part)
    if baseline is None:
        return "capture times are unknown, so no time baseline stands beside it"
    return (
        f"capture time alone on the same part: accuracy {baseline['accuracy']:.4f}, macro-F1"
        f" {baseline['macro_f1']:.4f}"
    )


def _truth(photographs: Sequence[Photograph], dataset: Dataset) -> npt.NDArray[np.int64]:
    number = {label: index for index, label in enumerate(dataset.labels)}
    return np.array([number[photograph.label] for photograph in photographs], dtype=np.int64)
