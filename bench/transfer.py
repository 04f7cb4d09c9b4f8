"""How a model does on another data set, whose classes are partly shared or differently spelled."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.baseline import CV_FOLDS, Settings, score_baselines
from bench.interval import Interval
from bench.reading import Readings, read_readings
from bench.result import Entry, describe_model
from bench.session import default_kind, grouping
from convert.dataset import Dataset, Photograph, canonical_label
from edge.classifier import Classifier
from edge.contract import ModelFile
from edge.errors import InputError
from edge.files import sha256
from edge.preprocessing import MAXIMUM_BYTES

RESAMPLES = 2000
_QUANTILES = (2.5, 97.5)
_CELLS = 4_000_000
"""Weights that one block of resamples may hold."""

Counts = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Answers:
    """Rows that were classified with their probabilities, what could not be, and repeated pictures left out."""

    rows: tuple[int, ...]
    probabilities: tuple[Sequence[float], ...]
    problems: tuple[str, ...]
    repeated: int


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
    """Data class -> model label: as given, else where the spelling is the same.

    Letter case, `_`, `-` and the misspellings of `convert.dataset.canonical_label` do not matter.

    Raises:
        InputError: a given class does not exist on its side or is given two labels, or no two classes are shared.
    """
    by_plain = {_plain(name): name for name in labels}
    found = {name: by_plain[_plain(name)] for name in classes if _plain(name) in by_plain}
    known = {_plain(name) for name in classes}
    chosen: dict[str, str] = {}
    for theirs, ours in given.items():
        if _plain(theirs) not in known:
            raise InputError(
                f"{where}: no class {theirs!r} as --map has it; its classes are {', '.join(classes)}"
            )
        if _plain(ours) not in by_plain:
            raise InputError(
                f"the model knows no class {ours!r} as --map has it; it knows {', '.join(labels)}"
            )
        label = by_plain[_plain(ours)]
        if chosen.setdefault(_plain(theirs), label) != label:
            raise InputError(
                f"--map gives the class {theirs!r} two of the model's, {chosen[_plain(theirs)]} and {label}; leave one"
                " of them away"
            )
    found |= {name: chosen[_plain(name)] for name in classes if _plain(name) in chosen}
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
        An entry of kind "transfer". Pictures that are missing or cannot be read are named in it and not scored; the
        same picture twice counts once.

    Raises:
        InputError: no shared classes, no readable picture of them, one picture in two classes, or data that tell
            nothing of transfer: the model's own, or a journal of decisions.
    """
    settings = settings or Settings()
    classifier = Classifier.open(model, runtime)
    labels = classifier.contract.labels
    readings = read_readings(data)
    _check_source(readings)
    mapped = match_classes(readings.classes, labels, given, str(data))
    shared = [label for label in labels if label in mapped.values()]
    contents = tuple(_content(file) for file in readings.files)
    _refuse_own_data(readings, contents, mapped, classifier.model)
    answers = _classify(classifier, readings, mapped, contents, report)
    problems = answers.problems
    if not answers.rows:
        raise InputError(
            f"{data}: no picture of a shared class can be read, {len(problems):,} failed, for example: {problems[0]}"
        )
    kept = _renamed(readings.take(np.array(answers.rows)), mapped, shared)
    if len(kept.classes) < 2:
        failed = f" ({len(problems):,} failed, for example: {problems[0]})" if problems else ""
        raise InputError(f"{data}: readable pictures of one shared class only, two are needed{failed}")
    output = np.array(answers.probabilities)
    columns = [labels.index(label) for label in kept.classes]
    free = output.argmax(axis=1)
    restricted = output[:, columns].argmax(axis=1)
    timed = sum(time is not None for time in kept.times)
    kind = default_kind(kept)
    groups = None if kind is None else grouping(kept, kind)
    # Without groups and times nothing shows which pictures belong together: each is taken by itself, and that is said.
    cluster = np.arange(len(kept)) if groups is None else groups.codes
    in_free = _by_cluster(kept.labels, free, cluster, len(kept.classes), len(labels))
    in_restricted = _by_cluster(kept.labels, restricted, cluster, len(kept.classes), len(kept.classes))
    baseline = None
    if timed and len(kept) >= CV_FOLDS:
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
        "unreadable": list(problems),
        "sessions": {"unit": kind or "picture", "number": len(np.unique(cluster))},
        "timed": timed,
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
        "notes": [
            *readings.notes,
            *(
                [f"{answers.repeated:,} picture(s) that stand there twice were counted once."]
                if answers.repeated
                else []
            ),
        ],
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
            "split": "given as another data set, not checked picture by picture",
            "seed": None,
            "part": "all pictures of the shared classes",
        },
    )


def _classify(
    classifier: Classifier,
    readings: Readings,
    mapped: Mapping[str, str],
    contents: Sequence[str],
    report: Callable[[], None] | None,
) -> _Answers:
    """Classify the pictures of shared classes, each content once.

    Raises:
        InputError: the same picture stands in two classes.
    """
    rows, probabilities, problems = [], [], []
    first: dict[str, int] = {}
    repeated = 0
    for row, (number, file, content) in enumerate(
        zip(readings.labels, readings.files, contents, strict=True)
    ):
        label = mapped.get(readings.classes[number])
        if label is None:
            continue
        if file is None:
            problems.append(
                f"{readings.names[row]}: no such picture file below {readings.path.parent}; mend its path in"
                f" {readings.path.name}"
            )
            continue
        before = first.get(content)
        if before is not None:
            if mapped[readings.classes[readings.labels[before]]] != label:
                raise InputError(
                    f"{readings.path}: the same picture stands in two classes, {readings.names[before]} and"
                    f" {readings.names[row]}; remove the wrong one"
                )
            repeated += 1
            continue
        if content:
            first[content] = row
        try:
            probabilities.append(classifier.classify_path(file).probabilities)
            rows.append(row)
        except InputError as error:
            problems.append(str(error))
        if report is not None:
            report()
    return _Answers(tuple(rows), tuple(probabilities), tuple(problems), repeated)


def _check_source(readings: Readings) -> None:
    if readings.source == "journal":
        raise InputError(
            f"{readings.path}: the classes of a journal are what a model decided, so a score against them tells"
            " nothing; give pictures in class folders, or a table with the classes that a person saw"
        )
    if readings.source == "table" and not (readings.columns or {}).get("path"):
        raise InputError(
            f"{readings.path}: no column names picture files (such as path, picture or image); add one, with paths that"
            " start from the table's folder"
        )


def _content(file: Path | None) -> str:
    """SHA-256 of a picture file; "" where it cannot be read (classifying it says why)."""
    try:
        if file is None or file.stat().st_size > MAXIMUM_BYTES:
            return ""
        return sha256(file.read_bytes())
    except OSError:
        return ""


def _refuse_own_data(
    readings: Readings, contents: Sequence[str], mapped: Mapping[str, str], model: ModelFile
) -> None:
    """Refuse the data set that the model comes from, whatever its files and folders are called now.

    The contract holds one digest of that set and no list of its pictures, so a part of it is not recognised.
    """
    training = model.contract.training
    if training is None:
        return
    pictures = {
        (mapped.get(readings.classes[label], readings.classes[label]), content)
        for label, content in zip(readings.labels, contents, strict=True)
        if content
    }
    photographs = tuple(Photograph("", label, content, None) for label, content in sorted(pictures))
    if training.data_digest in (readings.digest, Dataset(readings.path, (), photographs, (), ()).digest):
        raise InputError(
            f"{readings.path}: these are the data that {model.path} was trained on, so a score on them says nothing of"
            " transfer; give pictures from elsewhere, and see the model's own test part with: mango-bench robustness"
            " --images held-out"
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
    """Accuracy and macro-F1 of all clusters together, with intervals over resampled clusters.

    A single cluster, or clusters that all score alike, show nothing of how others would differ: low and high are
    None then, for an interval without width would claim certainty.
    """
    whole = matrices.sum(axis=0)[np.newaxis]
    found: dict[str, Any] = {
        name: {"value": float(score(whole, columns)[0]), "low": None, "high": None}
        for name, score in _METRICS.items()
    }
    if len(matrices) < 2:
        return found
    resampled = _resampled(matrices, resamples, seed)
    for name, score in _METRICS.items():
        low, high = np.percentile(score(resampled, columns), _QUANTILES)
        if low < high:
            found[name] |= {"low": float(low), "high": float(high)}
    return found


def _resampled(matrices: Counts, resamples: int, seed: int) -> Counts:
    """Sums of resampled clusters, float64 (resamples, rows, columns)."""
    count = len(matrices)
    generator = np.random.default_rng([seed, 5])
    # In blocks: the weights of all resamples of many single pictures would not fit in memory.
    block = max(1, _CELLS // count)
    sums = [
        np.tensordot(
            generator.multinomial(count, [1 / count] * count, size=min(block, resamples - start)).astype(
                float
            ),
            matrices,
            axes=1,
        )
        for start in range(0, resamples, block)
    ]
    return np.concatenate(sums)


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


_METRICS = {"accuracy": _accuracy, "macro_f1": _macro_f1}


def _interval(interval: Interval) -> dict[str, float]:
    return {"value": interval.mean, "low": interval.low, "high": interval.high}


def _plain(name: str) -> str:
    return " ".join(re.split(r"[\s_-]+", canonical_label(name))).casefold()
