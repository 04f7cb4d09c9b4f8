"""How a model does on another data set, whose classes are partly shared or differently spelled."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.baseline import Settings, score_baselines
from bench.reading import Readings, read_readings
from bench.result import Entry, describe_model
from bench.session import grouping
from edge.classifier import Classifier
from edge.errors import InputError

RESAMPLES = 2000
_QUANTILES = (2.5, 97.5)

Counts = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Resampled:
    """A score with the 2.5 and 97.5 percentile of its values over resampled sessions."""

    value: float
    low: float
    high: float


def parse_map(texts: Sequence[str]) -> dict[str, str]:
    """ "Theirs=Ours,Theirs=Ours" (several times, if need be) as a mapping.

    Raises:
        InputError: a piece is no pair, or a class stands twice on the left.
    """
    found: dict[str, str] = {}
    for text in texts:
        for piece in filter(None, (piece.strip() for piece in text.split(","))):
            theirs, sign, ours = (part.strip() for part in piece.partition("="))
            if not (sign and theirs and ours):
                raise InputError(
                    f"{piece!r} in --map is no pair; write theirs, =, the model's: 'Gall_Mid=Gall Midge'"
                )
            if theirs in found:
                raise InputError(f"--map names the class {theirs!r} twice; leave one of them away")
            found[theirs] = ours
    return found


def match_classes(
    classes: Sequence[str], labels: Sequence[str], given: Mapping[str, str], where: str
) -> dict[str, str]:
    """Data class -> model label: as given, else where the spelling is the same but for case, `_` and `-`.

    Raises:
        InputError: a given class does not exist on its side, or no class is shared.
    """
    by_plain = {_plain(name): name for name in labels}
    theirs_by_plain = {_plain(name): name for name in classes}
    found = {name: by_plain[_plain(name)] for name in classes if _plain(name) in by_plain}
    for theirs, ours in given.items():
        if _plain(theirs) not in theirs_by_plain:
            raise InputError(
                f"{where}: no class {theirs!r} as --map has it; its classes are {', '.join(classes)}"
            )
        if _plain(ours) not in by_plain:
            raise InputError(
                f"the model knows no class {ours!r} as --map has it; it knows {', '.join(labels)}"
            )
        found[theirs_by_plain[_plain(theirs)]] = by_plain[_plain(ours)]
    if len(set(found.values())) < 2:
        raise InputError(
            f"{where}: {len(set(found.values()))} class(es) shared with the model, two are needed; its classes are"
            f" {', '.join(classes)}, the model's {', '.join(labels)}; name the same ones with --map 'THEIRS=OURS,...'"
        )
    return {name: found[name] for name in classes if name in found}


def transfer(
    model: Path | str,
    data: Path,
    given: Mapping[str, str],
    runtime: str = "auto",
    settings: Settings | None = None,
    seed: int = 7,
    resamples: int = RESAMPLES,
    report: Callable[[], None] | None = None,
) -> Entry:
    """Score a model on another data set.

    Args:
        model: a model file.
        data: folder of class folders, or a table whose picture files are at hand.
        given: data class -> model label, beside those that are spelled alike.
        settings: of the time-stamp baseline.
        seed: of the resampling.
        report: called after each picture.

    Returns:
        An entry of kind "transfer". Pictures that cannot be read are named in it and not scored.

    Raises:
        InputError: no shared classes, or no readable picture of them.
    """
    settings = settings or Settings()
    classifier = Classifier.open(model, runtime)
    labels = classifier.contract.labels
    readings = read_readings(data)
    mapped = match_classes(readings.classes, labels, given, str(data))
    shared = [label for label in labels if label in mapped.values()]
    wanted = np.array(
        [
            row
            for row in range(len(readings))
            if readings.classes[readings.labels[row]] in mapped and readings.files[row] is not None
        ],
        dtype=np.intp,
    )
    probabilities, problems, read = [], [], []
    for row in wanted:
        file = readings.files[row]
        assert file is not None
        try:
            probabilities.append(classifier.classify_path(file).probabilities)
            read.append(row)
        except InputError as error:
            problems.append(str(error))
        if report is not None:
            report()
    if not read:
        raise InputError(f"{data}: no picture of a shared class can be read")
    kept = _renamed(readings.take(np.array(read)), mapped, shared)
    if len(kept.classes) < 2:
        raise InputError(f"{data}: readable pictures of one shared class only; two are needed")
    output = np.array(probabilities)
    columns = [labels.index(label) for label in kept.classes]
    free = output.argmax(axis=1)
    restricted = output[:, columns].argmax(axis=1)
    timed = any(time is not None for time in kept.times)
    groups = grouping(kept, "burst") if timed else None
    # Without times nothing shows which pictures belong together: each is taken by itself, and that is said.
    cluster = np.arange(len(kept)) if groups is None else groups.codes
    in_free = _by_cluster(kept.labels, free, cluster, len(kept.classes), len(labels))
    in_restricted = _by_cluster(kept.labels, restricted, cluster, len(kept.classes), len(kept.classes))
    baseline = None
    if timed:
        only_times = replace(kept, variables=(), part=None)
        scores = score_baselines(only_times, groups, settings, wanted=("cv", "disjoint"), chance=False).scores
        baseline = {
            protocol: {
                metric: _interval(scores[protocol]["time"][metric]) for metric in ("accuracy", "macro_f1")
            }
            for protocol in ("cv", "disjoint")
            if protocol in scores
        }
    counts = np.bincount(kept.labels, minlength=len(kept.classes))
    body = {
        "map": mapped,
        "classes": list(kept.classes),
        "labels": list(labels),
        "left_out": [name for name in readings.classes if name not in mapped],
        "missing": [label for label in labels if label not in kept.classes],
        "images": {name: int(counts[number]) for number, name in enumerate(kept.classes)},
        "unreadable": problems,
        "sessions": {
            "unit": "picture" if groups is None else "burst",
            "number": len(np.unique(cluster)),
        },
        "resampling": {"resamples": resamples, "seed": seed},
        "chance": 1 / len(kept.classes),
        "majority": float(counts.max() / counts.sum()),
        "free": _scores(in_free, columns, resamples, seed),
        "restricted": _scores(in_restricted, list(range(len(columns))), resamples, seed),
        "confusion": {
            "free": in_free.sum(axis=0).astype(int).tolist(),
            "restricted": in_restricted.sum(axis=0).astype(int).tolist(),
        },
        "time_baseline": baseline,
        "notes": list(readings.notes),
    }
    return Entry(
        kind="transfer",
        body=body,
        model=describe_model(classifier.model, classifier),
        data={
            "name": readings.path.name,
            "digest": readings.digest,
            "images": len(kept),
            "source": readings.source,
            "split": "independent data set",
            "seed": None,
            "part": "all pictures of the shared classes",
        },
    )


def _renamed(readings: Readings, mapped: Mapping[str, str], shared: Sequence[str]) -> Readings:
    """The readings under the model's class names."""
    present = {mapped[name] for name in readings.classes}
    classes = tuple(label for label in shared if label in present)
    number = np.array([classes.index(mapped[name]) for name in readings.classes], dtype=np.int64)
    return replace(readings, classes=classes, labels=number[readings.labels])


def _by_cluster(
    truth: npt.NDArray[np.int64],
    predicted: npt.NDArray[np.integer],
    cluster: npt.NDArray[np.integer],
    rows: int,
    columns: int,
) -> Counts:
    """Confusion matrix of each cluster, float64 (clusters, rows, columns)."""
    _, number = np.unique(cluster, return_inverse=True)
    number = number.reshape(-1)
    matrices = np.zeros((int(number.max()) + 1, rows, columns))
    np.add.at(matrices, (number, truth, predicted), 1)
    return matrices


def _scores(matrices: Counts, columns: Sequence[int], resamples: int, seed: int) -> dict[str, Any]:
    """Accuracy and macro-F1 of all clusters together, with intervals over resampled clusters."""
    count = len(matrices)
    weights = np.random.default_rng([seed, 5]).multinomial(count, [1 / count] * count, size=resamples)
    resampled = np.tensordot(weights.astype(np.float64), matrices, axes=1)
    whole = matrices.sum(axis=0)[np.newaxis]
    found: dict[str, Any] = {}
    for name, score in (("accuracy", _accuracy), ("macro_f1", _macro_f1)):
        low, high = np.percentile(score(resampled, columns), _QUANTILES)
        found[name] = {
            "value": float(score(whole, columns)[0]),
            "low": float(low),
            "high": float(high),
        }
    return found


def _accuracy(matrices: Counts, columns: Sequence[int]) -> Counts:
    right = matrices[:, np.arange(len(columns)), columns].sum(axis=1)
    return np.asarray(right / matrices.sum(axis=(1, 2)), dtype=np.float64)


def _macro_f1(matrices: Counts, columns: Sequence[int]) -> Counts:
    """Mean F1 of the shared classes that occur in the truth; a label that is not shared is simply wrong."""
    right = matrices[:, np.arange(len(columns)), columns]
    true, predicted = matrices.sum(axis=2), matrices[:, :, columns].sum(axis=1)
    f1 = 2 * right / np.maximum(true + predicted, 1)
    present = true > 0
    return np.asarray((f1 * present).sum(axis=1) / present.sum(axis=1), dtype=np.float64)


def _interval(interval: Any) -> dict[str, float]:
    return {"value": interval.mean, "low": interval.low, "high": interval.high}


def _plain(name: str) -> str:
    return " ".join(re.split(r"[\s_-]+", name.strip())).casefold()
