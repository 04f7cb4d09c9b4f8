"""Gain of fusion: what do sensors (or just the clock) add to an image model, on mixed and on disjoint folds?

Late fusion: the picture's probabilities and those of a forest on the sensors are averaged (the sum rule of
Kittler et al. 1998, "On combining classifiers"). From embeddings, the picture's probabilities come from a
logistic regression learned on each fold's training pictures; from predictions, they are taken as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bench.baseline import Settings, covered_classes, feature_sets, forest_probabilities, matrix_of, pooled
from bench.embedding import Embeddings
from bench.fold import Fold, Shortfall, disjoint_parts, draw_covering, folds_of, shortfalls, stratified
from bench.interval import Interval, against_band, paired, student
from bench.reading import Floats, Integers, Readings
from bench.session import Grouping
from convert.dataset import Photograph
from convert.split import identity
from edge.errors import InputError
from edge.files import sha256

SEEDS = 5
FOLDS = 3


@dataclass(frozen=True)
class Gain:
    """What `second` adds to the picture alone; macro-F1, paired within seed.

    Attributes:
        addition: "sensors", "metadata" or "time".
        gains: protocol -> picture with the addition minus picture alone.
        verdicts: protocol -> against the comparable band.
        reduction: in-distribution gain minus disjoint gain; None without a disjoint protocol.
        survives: "yes", "no" or "undecided" (see `survives`).
    """

    addition: str
    gains: Mapping[str, Interval]
    verdicts: Mapping[str, str]
    reduction: Interval | None
    survives: str


@dataclass(frozen=True)
class Fusion:
    """Scores of picture and additions.

    Attributes:
        source: "embeddings" or "predictions".
        pictures: used.
        missing: pictures that have no prediction or embedding.
        classes: that they show: those with at least two groups, where at least two have that.
        seen: of those, in the training or validation part of the image model (None: not known).
        scores: protocol -> "picture", "picture + sensors", ... -> macro-F1 over seeds.
        gains: of each addition.
        against_time: protocol -> (picture + sensors) minus (picture + time), and its verdict; empty without
            both.
        shortfalls: of the disjoint folds.
    """

    source: str
    pictures: int
    missing: int
    classes: tuple[str, ...]
    seen: int | None
    scores: Mapping[str, Mapping[str, Interval]]
    gains: tuple[Gain, ...]
    against_time: Mapping[str, tuple[Interval, str]]
    shortfalls: tuple[Shortfall, ...]


def caveats(
    pictures: int,
    missing: int,
    seen: int | None,
    shortfalls: Sequence[Shortfall],
    floor_pictures: int,
    floor_groups: int,
) -> list[str]:
    """What a reader must know before taking gains of fusion at their word, a sentence each (see `Fusion`)."""
    found = []
    if missing:
        found.append(f"{missing:,} pictures have no prediction and were left out of fusion.")
    if seen:
        found.append(
            f"The image model was trained or tuned on {seen:,} of the {pictures:,} pictures used for fusion, so the"
            " picture alone is flattered there and gains look smaller than they are."
        )
    elif seen is None:
        found.append(
            f"Whether the image model was trained on any of the {pictures:,} pictures used for fusion is not known; if"
            " it was, the picture alone is flattered and gains look smaller than they are."
        )
    if shortfalls:
        found.append(
            f"Some held-out folds of fusion test {', '.join(one.label for one in shortfalls)} with fewer than"
            f" {floor_pictures} pictures or {floor_groups} groups, so what fusion gains on held-out sessions is"
            " uncertain."
        )
    return found


def match(readings: Readings, found: Embeddings) -> npt.NDArray[np.intp]:
    """Row of `found` for each picture of the readings; -1 where there is none.

    By content where both sides know it: another picture under the same path is not the same picture. Else by path.
    """
    by_identity = {name: row for row, name in enumerate(found.identities) if name}
    by_path = {name: row for row, name in enumerate(found.paths)}
    known = _identities(readings) if by_identity else ("",) * len(readings)
    rows = []
    for position, name in enumerate(readings.names):
        file = readings.files[position]
        row = by_identity.get(known[position], by_path.get(name, -1))
        if row < 0 and file is not None:
            row = by_path.get(str(file), -1)
        if known[position] and found.identities[row] not in ("", known[position]):
            row = -1
        rows.append(row)
    return np.array(rows, dtype=np.intp)


def _identities(readings: Readings) -> Sequence[str]:
    """What split files call each picture; "" where its file is not at hand."""
    if readings.identities:
        return readings.identities
    return [
        "" if file is None else identity(Photograph(name, "", sha256(file.read_bytes()), None))
        for name, file in zip(readings.names, readings.files, strict=True)
    ]


def score_fusion(
    readings: Readings,
    groups: Grouping | None,
    found: Embeddings,
    settings: Settings,
    unseen: bool = False,
    report: Callable[[str], None] | None = None,
) -> Fusion:
    """Score picture alone, with sensors (else metadata) and with the time.

    Args:
        readings: of one crop.
        groups: of the same pictures; None: nothing to hold out.
        found: of the image model.
        unseen: use only pictures that the image model was not trained or tuned on.

    Raises:
        InputError: no picture of the readings is in `found`, labels differ, there is nothing to add, or the pictures
            are too few.
    """
    rows = match(readings, found)
    if not (rows >= 0).any():
        raise InputError(
            "the predictions or embeddings are of none of these pictures; make them from the same data"
        )
    missing = int((rows < 0).sum())
    part = np.array(found.part)[rows]
    known = bool((part[rows >= 0] != "").any())
    seen = np.isin(part, ("training", "validation"))
    usable = rows >= 0
    if unseen:
        if not known:
            raise InputError(
                "which pictures the image model has seen is not known; make its embeddings on the data and split"
                " that it was trained on, or leave --unseen away"
            )
        usable &= ~seen
        if not usable.any():
            raise InputError(
                "the image model was trained or tuned on all of these pictures; leave --unseen away, or add others"
            )
    # The gain on mixed and on disjoint folds is compared, so both are of the classes that can be held out.
    covered = covered_classes(
        readings.take(np.flatnonzero(usable)), None if groups is None else groups.take(np.flatnonzero(usable))
    )
    kept = np.flatnonzero(usable)
    if len(covered) > 1:
        kept = kept[np.isin(readings.take(kept).labels, covered)]
    readings, rows = readings.take(kept), rows[kept]
    groups = None if groups is None else groups.take(kept)
    if len(readings.classes) < 2:
        raise InputError("the pictures with predictions show a single class; there is nothing to tell apart")
    additions = _additions(readings)
    if not additions:
        raise InputError("neither sensors nor metadata nor times are known; there is nothing to fuse")
    picture = _picture(readings, found, rows)
    settings = replace(settings, seeds=SEEDS if settings.seeds >= SEEDS else settings.seeds)
    # Once, on all pictures: were it decided on each seed's draw, seeds would differ in their folds and not pair up.
    count = FOLDS if groups is None else min(FOLDS, *groups.of_class(readings.labels, len(readings.classes)))
    held_out = groups is not None and count >= 2
    values: dict[str, dict[str, list[float]]] = {}
    tested: list[Fold] = []
    for seed in range(settings.seeds):
        cells, held_out_part = [readings.labels], None
        if groups is not None and held_out:
            held_out_part = disjoint_parts(readings.labels, groups, [1 / count] * count, seed)
            cells.append(readings.labels * count + held_out_part)
        drawn = draw_covering(cells, settings.rows, seed)
        labels = readings.labels[drawn]
        # As many folds on both, so that they differ in the sessions alone and not in how much is learned from.
        protocols = {"in distribution": stratified(labels, count if held_out else FOLDS, seed)}
        if held_out_part is not None:
            protocols["disjoint"] = folds_of(held_out_part[drawn], count)
            tested += [Fold(drawn[fold.training], drawn[fold.test]) for fold in protocols["disjoint"]]
        for protocol, folds in protocols.items():
            if report is not None:
                report(f"fusion {protocol}, seed {seed}")
            found_scores = _score(
                picture, additions, drawn, labels, folds, len(readings.classes), seed, settings
            )
            for name, value in found_scores.items():
                values.setdefault(protocol, {}).setdefault(name, []).append(value)
    short = (
        shortfalls(
            tested,
            readings.labels,
            groups,
            readings.classes,
            settings.floor_pictures,
            settings.floor_groups,
        )
        if groups is not None
        else []
    )
    scores = {
        protocol: {name: student(found) for name, found in by_name.items()}
        for protocol, by_name in values.items()
    }
    return Fusion(
        "predictions" if found.embedding is None else "embeddings",
        len(readings),
        missing,
        readings.classes,
        int(seen[kept].sum()) if known else None,
        scores,
        tuple(gain(scores, addition, settings.margin) for addition in additions),
        against_time(scores, settings.margin),
        tuple(short),
    )


def gain(scores: Mapping[str, Mapping[str, Interval]], addition: str, margin: float) -> Gain:
    """What an addition brings on each protocol, and whether that survives."""
    gains = {
        protocol: paired(by_name[f"picture + {addition}"], by_name["picture"])
        for protocol, by_name in scores.items()
    }
    verdicts = {protocol: against_band(interval, margin) for protocol, interval in gains.items()}
    reduction = paired(gains["in distribution"], gains["disjoint"]) if "disjoint" in gains else None
    return Gain(addition, gains, verdicts, reduction, survives(verdicts))


def survives(verdicts: Mapping[str, str]) -> str:
    """Whether a gain holds on groups that were never seen: "yes", "no", or "undecided".

    "none" where there was no gain to begin with: neither protocol is superior.
    """
    held_out = verdicts.get("disjoint")
    if held_out is None:
        return "undecided"
    if held_out == "superior":
        return "yes"
    if held_out in ("comparable", "inferior"):
        return "no" if verdicts["in distribution"] == "superior" else "none"
    return "undecided"


def against_time(
    scores: Mapping[str, Mapping[str, Interval]], margin: float
) -> dict[str, tuple[Interval, str]]:
    """(picture + sensors) minus (picture + time) on each protocol; empty where one of them is missing."""
    found = {}
    for protocol, by_name in scores.items():
        addition = next((name for name in ("sensors", "metadata") if f"picture + {name}" in by_name), None)
        if addition and "picture + time" in by_name:
            interval = paired(by_name[f"picture + {addition}"], by_name["picture + time"])
            found[protocol] = (interval, against_band(interval, margin))
    return found


def _additions(readings: Readings) -> dict[str, Floats]:
    features = feature_sets(readings)
    found = {}
    if "sensors" in features:
        found["sensors"] = features["sensors"]
    elif "metadata" in features:
        found["metadata"] = matrix_of(readings.of("metadata"))
    if "time" in features:
        found["time"] = features["time"]
    return found


_Picture = Callable[[Fold, npt.NDArray[np.intp], Integers, int, int], Floats]


def _picture(readings: Readings, found: Embeddings, rows: npt.NDArray[np.intp]) -> _Picture:
    """How to get the picture's probabilities (test pictures, classes) for a fold."""
    if found.embedding is not None:
        embedding = found.embedding[rows].astype(np.float64)

        def learned(
            fold: Fold, drawn: npt.NDArray[np.intp], labels: Integers, classes: int, seed: int
        ) -> Floats:
            from sklearn.linear_model import LogisticRegression
            from sklearn.pipeline import make_pipeline
            from sklearn.preprocessing import StandardScaler

            model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300, random_state=seed))
            model.fit(embedding[drawn[fold.training]], labels[fold.training])
            probabilities = np.zeros((len(fold.test), classes))
            probabilities[:, model.classes_] = model.predict_proba(embedding[drawn[fold.test]])
            return probabilities

        return learned
    missing = [name for name in readings.classes if name not in found.labels]
    if missing:
        raise InputError(
            f"the predictions know no class {missing[0]!r}; their classes are {', '.join(found.labels)}"
        )
    columns = [found.labels.index(name) for name in readings.classes]
    given = found.probabilities[rows][:, columns].astype(np.float64)

    def as_given(
        fold: Fold, drawn: npt.NDArray[np.intp], labels: Integers, classes: int, seed: int
    ) -> Floats:
        del labels, classes, seed
        return given[drawn[fold.test]]

    return as_given


def _score(
    picture: _Picture,
    additions: Mapping[str, Floats],
    drawn: npt.NDArray[np.intp],
    labels: Integers,
    folds: list[Fold],
    classes: int,
    seed: int,
    settings: Settings,
) -> dict[str, float]:
    if any(len(fold.test) == 0 or len(np.unique(labels[fold.training])) < 2 for fold in folds):
        raise InputError(
            "a fold of fusion has nothing to test or fewer than two classes to learn from; the pictures (or --rows) are"
            " too few"
        )
    alone = [picture(fold, drawn, labels, classes, seed) for fold in folds]
    answers = {"picture": alone}
    for addition, features in additions.items():
        answers[f"picture + {addition}"] = [
            (probabilities + forest_probabilities(features[drawn], labels, fold, classes, seed, settings)) / 2
            for fold, probabilities in zip(folds, alone, strict=True)
        ]
    return {
        name: pooled(folds, labels, classes, [values.argmax(axis=1) for values in of_folds])["macro_f1"]
        for name, of_folds in answers.items()
    }
