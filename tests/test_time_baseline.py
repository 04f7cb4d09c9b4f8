"""The baseline that sees the capture time alone."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from convert.baseline import beside, time_baseline, time_features
from convert.dataset import Dataset, Photograph, index
from convert.split import make_split, random_split

MANGO = Path(os.environ.get("MANGO_DATA", Path(__file__).parents[1] / ".." / "shared" / "mangoleaf"))


def _dataset(days: dict[str, int], per_class: int, timed: bool = True) -> Dataset:
    """One day of photographs, 5 s apart, for each class."""
    photographs = []
    for label, day in days.items():
        for number in range(per_class):
            taken = datetime(2021, 10, 1, 9) + timedelta(days=day, seconds=5 * number)
            name = f"{label}/{number}.jpg"
            digest = f"{list(days).index(label):08d}{number:08d}{0:048x}"
            photographs.append(Photograph(name, label, digest, taken if timed else None))
    return Dataset(Path("planted"), tuple(days), tuple(photographs), (), ())


def test_a_class_that_has_its_own_day_is_told_by_the_clock() -> None:
    dataset = _dataset({"Healthy": 0, "Sooty Mould": 1, "Die Back": 2}, 40)
    baseline = time_baseline(dataset, random_split(dataset))
    assert baseline is not None
    assert baseline["accuracy"] == baseline["macro_f1"] == 1.0
    assert baseline["images"] == 12
    words = beside(dataset, random_split(dataset), "validation")
    assert words == "capture time alone on the same part: accuracy 1.0000, macro-F1 1.0000"


def test_the_clock_says_nothing_of_classes_photographed_in_turn() -> None:
    dataset = _dataset({"Healthy": 0}, 400)
    labels = np.random.default_rng(3).integers(0, 2, size=400)
    mixed = tuple(
        Photograph(p.path, "Healthy" if label else "Sooty Mould", p.digest, p.taken)
        for p, label in zip(dataset.photographs, labels, strict=True)
    )
    dataset = Dataset(dataset.root, ("Healthy", "Sooty Mould"), mixed, (), ())
    scores = [time_baseline(dataset, random_split(dataset, seed), seed) for seed in range(8)]
    accuracy = np.mean([score["accuracy"] for score in scores if score])
    # 320 coin flips: three standard errors are 0.084.
    assert abs(accuracy - 0.5) < 0.084


def test_unknown_times_give_no_baseline_and_some_unknown_are_counted() -> None:
    dataset = _dataset({"Healthy": 0, "Sooty Mould": 1}, 40, timed=False)
    assert time_baseline(dataset, random_split(dataset)) is None
    assert "no time baseline stands beside it" in beside(dataset, random_split(dataset), "test")
    timed = _dataset({"Healthy": 0, "Sooty Mould": 1}, 40).photographs
    half = tuple(
        p if number % 2 else q for number, (p, q) in enumerate(zip(timed, dataset.photographs, strict=True))
    )
    dataset = Dataset(dataset.root, dataset.labels, half, (), ())
    baseline = time_baseline(dataset, random_split(dataset))
    assert baseline is not None
    assert 0 < baseline["timed"] < 1


def test_features_keep_seconds_apart_in_float32_over_thirty_years() -> None:
    first = datetime(1995, 6, 1, 12)
    times = [first, first + timedelta(days=11000, seconds=1), first + timedelta(days=11000, seconds=2), None]
    features = time_features(times).astype(np.float32)
    assert len({tuple(row) for row in features}) == 4
    assert features[3, 4] == 1.0
    assert features[0].tolist() == [0.5, 0.0, 43200.0, 152.0, 0.0]


@pytest.mark.skipif(not MANGO.is_dir(), reason=f"no photographs at {MANGO} (set MANGO_DATA)")
def test_capture_time_alone_scores_like_the_published_network_on_mangoleafdb() -> None:
    dataset = index(MANGO)
    random, burst = (time_baseline(dataset, make_split(kind, dataset)) for kind in ("random", "burst"))
    assert random is not None
    assert burst is not None
    assert random["accuracy"] > 0.94
    assert burst["macro_f1"] < random["macro_f1"] - 0.1
