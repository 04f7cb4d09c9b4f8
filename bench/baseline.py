"""Classifiers that never see a picture: majority, time stamp, metadata, sensors; on mixed and on disjoint folds.

Each is the forest of `convert.baseline` (60 trees, other settings scikit-learn's). "shuffled" is the same
forest on the same features with the labels shuffled: what macro-F1 is worth by chance on these class sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.fold import Fold, Shortfall, disjoint_parts, draw_covering, folds_of, shortfalls, stratified
from bench.interval import Interval, against_band, paired, student
from bench.reading import Floats, Integers, Readings, Variable
from bench.session import Grouping
from convert.baseline import TREES, new_forest, time_features
from convert.score import accuracy, confusion_matrix, macro_f1, precision_recall

SEEDS = 7
ROWS = 20_000
MARGIN = 0.01
CV_FOLDS = 3
RANDOM_FOLDS = 7
METRICS = ("accuracy", "balanced_accuracy", "macro_f1")
BASELINES = ("majority", "shuffled", "time", "metadata", "sensors", "time + sensors")
PAIRS = (
    ("time", "shuffled"),
    ("metadata", "shuffled"),
    ("sensors", "shuffled"),
    ("time", "sensors"),
    ("time + sensors", "time"),
    ("time + sensors", "sensors"),
)
"""Compared within each seed, first minus second."""

PROTOCOLS: Mapping[str, str] = {
    "cv": "stratified 3-fold cross-validation (sessions on both sides)",
    "random": "one random fold of seven held out (sessions on both sides)",
    "given": "the given split's test part",
    "disjoint": "whole groups held out, every group once",
    "cv covered": "stratified 3-fold cross-validation of the classes that the disjoint folds cover",
}

Scores = dict[str, dict[str, dict[str, Interval]]]


@dataclass(frozen=True)
class Settings:
    """How baselines are scored. `seeds` forests and draws, `trees` in each, at most `rows` pictures a seed,
    `margin` half the comparable band (0..1), and the coverage floor of disjoint folds."""

    seeds: int = SEEDS
    trees: int = TREES
    rows: int = ROWS
    margin: float = MARGIN
    floor_pictures: int = 10
    floor_groups: int = 2
    jobs: int = 1


@dataclass(frozen=True)
class Difference:
    """Two baselines on one protocol, or one baseline on two; see `bench.interval.against_band`."""

    protocol: str
    first: str
    second: str
    metric: str
    interval: Interval
    verdict: str


@dataclass(frozen=True)
class Baselines:
    """Scores without pictures.

    Attributes:
        scores: protocol -> baseline -> metric -> interval over seeds, 0..1.
        differences: pairs of baselines within a protocol.
        drops: each baseline's mixed minus its disjoint score (same share of the pictures to learn from).
        covered: classes with at least two groups, which the disjoint folds test.
        shortfalls: of the disjoint folds of all pictures, over all seeds.
        rows: pictures that a seed uses.
        thinned: classes that the disjoint folds test well enough, but not with the pictures that a seed draws.
    """

    scores: Scores
    differences: tuple[Difference, ...]
    drops: tuple[Difference, ...]
    covered: tuple[str, ...]
    shortfalls: tuple[Shortfall, ...]
    rows: int
    thinned: tuple[str, ...]


def matrix_of(variables: Sequence[Variable]) -> Floats:
    """Variables as a forest's features float64 (pictures, columns).

    A missing value becomes one below the column's smallest and sets an indicator column of its own, so that
    being missing can be told from being small. Categories are numbered in alphabetical order.
    """
    columns: list[Floats] = []
    for variable in variables:
        missing = np.isnan(variable.values)
        lowest = float(variable.values[~missing].min()) if not missing.all() else 0.0
        columns.append(np.where(missing, lowest - 1.0, variable.values))
        if missing.any():
            columns.append(missing.astype(np.float64))
    return np.stack(columns, axis=1)


def feature_sets(readings: Readings) -> dict[str, Floats]:
    """Baseline -> features float64 (pictures, columns), for those that the data offer."""
    found: dict[str, Floats] = {}
    if any(time is not None for time in readings.times):
        found["time"] = time_features(readings.times)
    metadata, sensors = readings.of("metadata"), readings.of("sensor")
    if metadata:
        found["metadata"] = matrix_of(metadata)
    if sensors:
        found["sensors"] = matrix_of(sensors)
        if "time" in found:
            found["time + sensors"] = np.concatenate([found["time"], found["sensors"]], axis=1)
    return found


def metrics(truth: Integers, predicted: npt.NDArray[np.integer], classes: int) -> dict[str, float]:
    """Accuracy, balanced accuracy (mean recall of the classes that occur) and macro-F1, 0..1."""
    matrix = confusion_matrix(truth, predicted, classes)
    _, recall = precision_recall(matrix)
    present = matrix.sum(axis=1) > 0
    return {
        "accuracy": accuracy(matrix),
        "balanced_accuracy": float(recall[present].mean()) if present.any() else 0.0,
        "macro_f1": macro_f1(matrix),
    }


def forest_probabilities(
    features: Floats, labels: Integers, fold: Fold, classes: int, seed: int, settings: Settings
) -> Floats:
    """Probabilities float64 (test pictures, classes) of a forest that learned the fold's training pictures."""
    forest: Any = new_forest(seed, settings.jobs).set_params(n_estimators=settings.trees)
    forest.fit(features[fold.training], labels[fold.training])
    probabilities = np.zeros((len(fold.test), classes))
    # A class without a training picture keeps probability 0.
    probabilities[:, forest.classes_] = forest.predict_proba(features[fold.test])
    return probabilities


def pooled(
    folds: Sequence[Fold], labels: Integers, classes: int, answers: Sequence[npt.NDArray[np.integer]]
) -> dict[str, float]:
    """Metrics over the test pictures of all folds together; `answers` are the predictions for each fold."""
    truth = np.concatenate([labels[fold.test] for fold in folds])
    return metrics(truth, np.concatenate(list(answers)), classes)


def score_baselines(
    readings: Readings,
    groups: Grouping | None,
    settings: Settings,
    report: Callable[[str], None] | None = None,
    wanted: Collection[str] = tuple(PROTOCOLS),
    chance: bool = True,
) -> Baselines:
    """Score every baseline that the data offer on every protocol that they allow.

    Args:
        readings: of one crop, with at least two classes.
        groups: what the disjoint protocol holds out; None where there is nothing to hold out.
        settings: seeds, trees, rows.
        report: called with what is being done.
        wanted: protocols to score.
        chance: score shuffled labels too (the verdict needs them).
    """
    features = feature_sets(readings)
    values: dict[str, dict[str, dict[str, list[float]]]] = {}
    covered = covered_classes(readings, groups)
    count = _held_out_folds(readings, groups, covered)
    given = _given_parts(readings)
    whole: list[Fold] = []
    thin: set[str] = set()
    for seed in range(settings.seeds):
        # What can be held out is decided on all pictures, so that every seed scores the same protocols, however
        # few pictures it draws.
        held_out = None
        if groups is not None and count:
            held_out = _held_out_parts(readings, groups, covered, count, seed)
            inside = np.flatnonzero(held_out >= 0)
            whole += _within(folds_of(held_out[inside], count), inside)
        rows = draw_covering(_cells(readings.labels, given, held_out), settings.rows, seed)
        labels = readings.labels[rows]
        protocols = _protocols(
            labels,
            None if given is None else given[rows],
            None if held_out is None else held_out[rows],
            count,
            seed,
        )
        if groups is not None and held_out is not None and len(rows) < len(readings):
            thin |= {
                shortfall.label
                for shortfall in _shortfalls(
                    protocols["disjoint"], readings.take(rows), groups.take(rows), settings
                )
            }
        for protocol, folds in protocols.items():
            if protocol not in wanted:
                continue
            if report is not None:
                report(f"{protocol}, seed {seed}")
            found = _score(features, rows, labels, folds, len(readings.classes), seed, settings, chance)
            for baseline, of_seed in found.items():
                into = values.setdefault(protocol, {}).setdefault(
                    baseline, {metric: [] for metric in METRICS}
                )
                for metric, value in of_seed.items():
                    into[metric].append(value)
    scores = {
        protocol: {
            baseline: {metric: student(of_seeds) for metric, of_seeds in by_metric.items()}
            for baseline, by_metric in by_baseline.items()
        }
        for protocol, by_baseline in values.items()
    }
    names = tuple(readings.classes[label] for label in covered) if len(covered) > 1 else ()
    short = () if groups is None or not whole else _shortfalls(whole, readings, groups, settings)
    short = tuple(shortfall for shortfall in short if shortfall.label in names)
    known = {shortfall.label for shortfall in short}
    return Baselines(
        scores,
        differences(scores, settings.margin),
        drops(scores, settings.margin),
        names,
        short,
        min(len(readings), settings.rows),
        tuple(name for name in names if name in thin and name not in known),
    )


def differences(scores: Scores, margin: float) -> tuple[Difference, ...]:
    """`PAIRS` on each protocol, macro-F1 and accuracy."""
    found = []
    for protocol, by_baseline in scores.items():
        for first, second in PAIRS:
            if first in by_baseline and second in by_baseline:
                for metric in ("macro_f1", "accuracy"):
                    interval = paired(by_baseline[first][metric], by_baseline[second][metric])
                    found.append(
                        Difference(protocol, first, second, metric, interval, against_band(interval, margin))
                    )
    return tuple(found)


def drops(scores: Scores, margin: float) -> tuple[Difference, ...]:
    """What each baseline loses when whole groups are held out; cross-validation minus disjoint, macro-F1."""
    mixed = scores.get("cv covered") or scores.get("cv") or {}
    held_out = scores.get("disjoint") or {}
    found = []
    for baseline in held_out:
        if baseline in mixed and baseline not in ("majority", "shuffled"):
            interval = paired(mixed[baseline]["macro_f1"], held_out[baseline]["macro_f1"])
            found.append(
                Difference(
                    "cv - disjoint",
                    baseline,
                    baseline,
                    "macro_f1",
                    interval,
                    against_band(interval, margin),
                )
            )
    return tuple(found)


def covered_classes(readings: Readings, groups: Grouping | None) -> list[int]:
    """Classes with at least two groups: the others cannot be on both sides of a disjoint split."""
    if groups is None:
        return []
    return [
        label
        for label, count in enumerate(groups.of_class(readings.labels, len(readings.classes)))
        if count >= 2
    ]


def _held_out_folds(readings: Readings, groups: Grouping | None, covered: Sequence[int]) -> int:
    """Number of disjoint folds that leave every covered class in each; 0 where nothing can be held out."""
    if groups is None or len(covered) < 2:
        return 0
    of_class = groups.of_class(readings.labels, len(readings.classes))
    return min([CV_FOLDS, *(of_class[label] for label in covered)])


def _held_out_parts(
    readings: Readings, groups: Grouping, covered: Sequence[int], count: int, seed: int
) -> npt.NDArray[np.intp]:
    """The disjoint fold of each picture; -1 for the classes that cannot be held out."""
    part = np.full(len(readings), -1, dtype=np.intp)
    kept = np.flatnonzero(np.isin(readings.labels, covered))
    part[kept] = disjoint_parts(readings.labels[kept], groups.take(kept), [1 / count] * count, seed)
    return part


def _given_parts(readings: Readings) -> npt.NDArray[np.intp] | None:
    """0 for the given split's training part, 1 for its test part, -1 for neither; None unless both are there."""
    if readings.part is None:
        return None
    number = {"training": 0, "test": 1}
    part = np.array([number.get(name, -1) for name in readings.part], dtype=np.intp)
    return part if {0, 1} <= set(part.tolist()) else None


def _cells(
    labels: Integers, given: npt.NDArray[np.intp] | None, held_out: npt.NDArray[np.intp] | None
) -> list[Integers]:
    """Each class, in each part of the given split, and in each disjoint fold."""
    width = int(labels.max()) + 1
    return [labels] + [
        np.where(part >= 0, part * width + labels, -1) for part in (given, held_out) if part is not None
    ]


def _protocols(
    labels: Integers,
    given: npt.NDArray[np.intp] | None,
    held_out: npt.NDArray[np.intp] | None,
    count: int,
    seed: int,
) -> dict[str, Sequence[Fold]]:
    """protocol -> folds, as positions in `labels`, from each picture's part and its one of `count` disjoint folds."""
    found: dict[str, Sequence[Fold]] = {
        "cv": stratified(labels, CV_FOLDS, seed),
        "random": stratified(labels, RANDOM_FOLDS, seed)[:1],
    }
    if given is not None:
        found["given"] = [Fold(np.flatnonzero(given == 0), np.flatnonzero(given == 1))]
    if held_out is not None:
        inside = np.flatnonzero(held_out >= 0)
        found["disjoint"] = _within(folds_of(held_out[inside], count), inside)
        # The same share to learn from on both, so that they differ in the sessions alone.
        if len(inside) < len(labels) or count != CV_FOLDS:
            found["cv covered"] = _within(stratified(labels[inside], count, seed), inside)
    return found


def _within(folds: Sequence[Fold], rows: npt.NDArray[np.intp]) -> list[Fold]:
    return [Fold(rows[fold.training], rows[fold.test]) for fold in folds]


def _shortfalls(
    folds: Sequence[Fold], readings: Readings, groups: Grouping, settings: Settings
) -> tuple[Shortfall, ...]:
    return tuple(
        shortfalls(
            folds, readings.labels, groups, readings.classes, settings.floor_pictures, settings.floor_groups
        )
    )


def _score(
    features: Mapping[str, Floats],
    rows: npt.NDArray[np.intp],
    labels: Integers,
    folds: Sequence[Fold],
    classes: int,
    seed: int,
    settings: Settings,
    chance: bool,
) -> dict[str, dict[str, float]]:
    def majority(fold: Fold) -> npt.NDArray[np.integer]:
        commonest = int(np.bincount(labels[fold.training], minlength=classes).argmax())
        return np.full(len(fold.test), commonest)

    def forest(drawn: Floats, truth: Integers, fold: Fold) -> npt.NDArray[np.integer]:
        probabilities = forest_probabilities(drawn, truth, fold, classes, seed, settings)
        return np.asarray(probabilities.argmax(axis=1))

    found = {"majority": pooled(folds, labels, classes, [majority(fold) for fold in folds])}
    for baseline, matrix in features.items():
        answers = [forest(matrix[rows], labels, fold) for fold in folds]
        found[baseline] = pooled(folds, labels, classes, answers)
    if features and chance:
        first = next(iter(features.values()))[rows]
        shuffled = np.random.default_rng([seed, 2]).permutation(labels)
        answers = [forest(first, shuffled, fold) for fold in folds]
        found["shuffled"] = pooled(folds, shuffled, classes, answers)
    return found
