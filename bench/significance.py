"""How sure a robustness score is: intervals by the bootstrap, and paired tests between two models.

Photographs of one burst show one leaf from nearly one place, so they are not independent: the bootstrap draws
whole bursts (cluster bootstrap; Davison & Hinkley 1997, section 3.8). McNemar's test (1947) compares two models
on the same photographs by those that only one of them gets wrong; its exact form is used, and the p-values of
all subsets are corrected by Holm's (1979) step-down method. The test takes photographs as independent, which
bursts are not: its p-values are too small where bursts are long, and the interval of the difference by bursts
stands beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bench.metric import Reference, macro_f1, mean_corruption_errors
from bench.prediction import Predictions, predictions_from_json
from bench.published import published_reference, read_published
from bench.result import Entry
from bench.section import Cell, Table
from edge.errors import InputError

RESAMPLES = 1000
LEVEL = 0.95
_BLOCK = 50  # resamples at a time: bounds the memory to some megabytes

Floats = npt.NDArray[np.float64]
Interval = tuple[float, float]


@dataclass(frozen=True)
class Counts:
    """What the bootstrap needs of one model's answers, summed over each burst.

    Attributes:
        size: (bursts,) photographs.
        wrong: (bursts, 1 + subsets) wrong answers; clean first.
        confusion: (bursts, 1 + subsets, labels, labels) counts, rows the true class.
    """

    size: Floats
    wrong: Floats
    confusion: Floats


def burst_counts(predictions: Predictions) -> Counts:
    """Sum a labelled model's answers over each burst."""
    assert predictions.truth is not None
    names, position = np.unique(predictions.bursts, return_inverse=True)
    found = predictions.matrix()
    classes, subsets = len(predictions.labels), found.shape[1]
    confusion = np.zeros((len(names), subsets, classes, classes))
    columns = np.broadcast_to(np.arange(subsets), found.shape)
    np.add.at(confusion, (position[:, np.newaxis], columns, predictions.truth[:, np.newaxis], found), 1)
    size = confusion[:, 0].sum(axis=(1, 2))
    right = np.trace(confusion, axis1=2, axis2=3)
    return Counts(size, size[:, np.newaxis] - right, confusion)


def resample(bursts: int, resamples: int, generator: np.random.Generator) -> Floats:
    """How often each burst is drawn: (resamples, bursts), rows sum to `bursts`."""
    return generator.multinomial(bursts, np.full(bursts, 1 / bursts), size=resamples).astype(np.float64)


def interval(values: Floats, level: float = LEVEL) -> Interval:
    """Percentile interval of bootstrap values."""
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def bootstrap(
    bursts: int,
    statistics: Callable[[Floats], Mapping[str, Floats]],
    seed: int,
    resamples: int = RESAMPLES,
) -> dict[str, Interval] | None:
    """Intervals of several statistics from the same resamples.

    Args:
        bursts: how many there are; fewer than two have no interval.
        statistics: weights (block, bursts) -> name -> values (block,).
        seed: of the Generator.
        resamples: how many.

    Returns:
        name -> 95 % percentile interval; None with fewer than two bursts.
    """
    if bursts < 2:
        return None
    weights = resample(bursts, resamples, np.random.default_rng(seed))
    found: dict[str, list[Floats]] = {}
    for start in range(0, resamples, _BLOCK):
        for name, values in statistics(weights[start : start + _BLOCK]).items():
            found.setdefault(name, []).append(values)
    return {name: interval(np.concatenate(blocks)) for name, blocks in found.items()}


def score_statistics(
    counts: Counts,
    subsets: Sequence[tuple[str, int]],
    reference: Reference | None,
    families: Mapping[str, Sequence[str]],
) -> Callable[[Floats], dict[str, Floats]]:
    """The scores of one model as functions of how often each burst counts.

    Names: "clean/error", "clean/macro_f1", "mean/error", "mean/macro_f1", "corruptions/<name>/error",
    "families/<name>/error", "severities/<n>/error", "mce", "relative_mce"; errors and F1 0..1, mCE in percent.
    The reference's errors stay as they are.
    """
    corruptions = list(dict.fromkeys(name for name, _ in subsets))
    severities = list(dict.fromkeys(severity for _, severity in subsets))
    bursts = len(counts.size)
    flat = counts.confusion.reshape(bursts, -1)

    def statistics(weights: Floats) -> dict[str, Floats]:
        errors = (weights @ counts.wrong) / (weights @ counts.size)[:, np.newaxis]
        f1 = macro_f1((weights @ flat).reshape(len(weights), *counts.confusion.shape[1:]))
        found = {
            "clean/error": errors[:, 0],
            "clean/macro_f1": f1[:, 0],
        }
        if not subsets:
            return found
        found |= {"mean/error": errors[:, 1:].mean(axis=1), "mean/macro_f1": f1[:, 1:].mean(axis=1)}
        columns = {
            name: [1 + place for place, subset in enumerate(subsets) if subset[0] == name]
            for name in corruptions
        }
        means = np.stack([errors[:, columns[name]].mean(axis=1) for name in corruptions], axis=1)
        for place, name in enumerate(corruptions):
            found[f"corruptions/{name}/error"] = means[:, place]
        for family, members in families.items():
            places = [place for place, name in enumerate(corruptions) if name in members]
            if places:
                found[f"families/{family}/error"] = means[:, places].mean(axis=1)
        for severity in severities:
            places = [1 + place for place, subset in enumerate(subsets) if subset[1] == severity]
            found[f"severities/{severity}/error"] = errors[:, places].mean(axis=1)
        if reference is not None:
            mce, relative = mean_corruption_errors(means, errors[:, 0], reference, corruptions, severities)
            if mce is not None:
                found["mce"] = mce
            if relative is not None:
                found["relative_mce"] = relative
        return found

    return statistics


def difference(
    first: Predictions,
    second: Predictions,
    reference: Reference | None,
    seed: int,
    resamples: int = RESAMPLES,
) -> tuple[dict[str, float], dict[str, Interval] | None]:
    """First minus second, of every score, with the interval over the same resampled bursts.

    Returns:
        name (as in `score_statistics`) -> difference, and name -> interval.

    Raises:
        InputError: the two were not measured on the same photographs and subsets.
    """
    check_paired(first, second)
    one, two = burst_counts(first), burst_counts(second)
    subsets = first.subsets
    of_one = score_statistics(one, subsets, reference, {})
    of_two = score_statistics(two, subsets, reference, {})

    def statistics(weights: Floats) -> dict[str, Floats]:
        a, b = of_one(weights), of_two(weights)
        return {name: a[name] - b[name] for name in a}

    point = {name: float(value[0]) for name, value in statistics(np.ones((1, len(one.size)))).items()}
    return point, bootstrap(len(one.size), statistics, seed, resamples)


def check_paired(first: Predictions, second: Predictions) -> None:
    """Refuse two sets of answers that are not on the same labelled photographs, classes and subsets."""
    if first.truth is None or second.truth is None:
        raise InputError(
            "photographs without labels have no errors to compare; give results of labelled ones"
        )
    if first.identities != second.identities:
        shared = len(set(first.identities) & set(second.identities))
        raise InputError(
            f"the two results are on different photographs ({len(first.identities)} and {len(second.identities)},"
            f" {shared} shared); measure both with the same --data, --split, --images and --limit"
        )
    if first.labels != second.labels or not np.array_equal(first.truth, second.truth):
        raise InputError("the two results do not have the same classes; a paired test needs the same labels")
    if first.subsets != second.subsets:
        raise InputError(
            "the two results do not have the same corruptions and severities; measure both with the same"
            " --corruptions and --severities"
        )


def mcnemar(only_first: int, only_second: int) -> float:
    """Exact two-sided p-value of McNemar's test, 0..1.

    Under the null hypothesis the photographs that only one model gets wrong fall on either side with
    probability 1/2, so the p-value is twice the binomial tail; without such photographs it is 1.

    Args:
        only_first, only_second: photographs that only the first (second) model gets wrong.
    """
    total = only_first + only_second
    if total == 0:
        return 1.0
    tail, term = 1, 1
    for count in range(min(only_first, only_second)):
        term = term * (total - count) // (count + 1)
        tail += term
    # Whole numbers up to the division, which Python does exactly: 2**total overflows a float from 1024 on.
    return min(1.0, (2 * tail) / (1 << total))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values, in the given order: compare each with the wanted level."""
    order = sorted(range(len(p_values)), key=lambda position: p_values[position])
    adjusted = [0.0] * len(p_values)
    running = 0.0
    for rank, position in enumerate(order):
        running = max(running, min(1.0, (len(p_values) - rank) * p_values[position]))
        adjusted[position] = running
    return adjusted


def compare_table(first: Entry, second: Entry) -> Table:
    """Two robustness results on the same photographs, subset by subset.

    Args:
        first, second: entries of kind "robustness" with labels.

    Returns:
        A row for the clean pictures and for each (corruption, severity): both errors, the photographs that only
        one gets wrong, McNemar's exact p-value, Holm's adjusted one over all rows, and whether it is below
        0.05. The note holds the differences of mean error, mCE and relative mCE with their bootstrap intervals.

    Raises:
        InputError: another kind of result, no labels, or not the same photographs, classes, subsets, encoding,
            noise seed and corruption code.
    """
    for entry in (first, second):
        if entry.kind != "robustness" or entry.model is None:
            raise InputError(
                f"a result of kind {entry.kind!r} cannot be compared here; give robustness results"
            )
    one = predictions_from_json(first.body["predictions"], str(first.model and first.model["name"]))
    two = predictions_from_json(second.body["predictions"], str(second.model and second.model["name"]))
    check_paired(one, two)
    for name, of in (("encoding", ("text",)), ("corruption", ("base", "seed"))):
        made = [", ".join(f"{key} {entry.body[name][key]}" for key in of) for entry in (first, second)]
        if made[0] != made[1]:
            raise InputError(
                f"the two results were not made with the same {name} ({made[0]} against {made[1]}); measure both in"
                " the same way"
            )
    assert one.truth is not None
    names = [_model_name(first), _model_name(second)]
    if names[0] == names[1]:
        names = [f"{names[0]} (first)", f"{names[1]} (second)"]
    wrong_one = one.matrix() != one.truth[:, np.newaxis]
    wrong_two = two.matrix() != one.truth[:, np.newaxis]
    subsets: list[tuple[str, int | None]] = [("clean", None), *one.subsets]
    only_one = (wrong_one & ~wrong_two).sum(axis=0)
    only_two = (wrong_two & ~wrong_one).sum(axis=0)
    raw = [mcnemar(int(a), int(b)) for a, b in zip(only_one, only_two, strict=True)]
    adjusted = holm(raw)
    rows: list[list[Cell]] = []
    for place, (name, severity) in enumerate(subsets):
        a, b = float(wrong_one[:, place].mean()), float(wrong_two[:, place].mean())
        rows.append(
            [
                name,
                severity,
                a,
                b,
                100 * (a - b),
                int(only_one[place]),
                int(only_two[place]),
                raw[place],
                adjusted[place],
                "yes" if adjusted[place] < 0.05 else "no",
            ]
        )
    columns = (
        "corruption", "severity", f"error of {names[0]}", f"error of {names[1]}", "difference, points",
        f"only {names[0]} wrong", f"only {names[1]} wrong", "McNemar p", "Holm p", "differs at 5 %",
    )  # fmt: skip
    note = _difference_note(first, one, two, rows)
    versions = [str(entry.body["corruption"]["versions"]) for entry in (first, second)]
    if versions[0] != versions[1]:
        note += (
            f" The pictures were corrupted with other package versions: {versions[0]} against {versions[1]}."
        )
    return Table(f"Robustness: {names[0]} against {names[1]}", columns, rows, note)


def _difference_note(first: Entry, one: Predictions, two: Predictions, rows: Sequence[Sequence[Cell]]) -> str:
    reference = published_reference(read_published())
    point, intervals = difference(one, two, reference, int(first.body["corruption"]["seed"]))
    worse = sum(1 for row in rows if row[-1] == "yes" and isinstance(row[4], float) and row[4] > 0)
    better = sum(1 for row in rows if row[-1] == "yes" and isinstance(row[4], float) and row[4] < 0)
    texts = [
        f"On {len(one.identities)} photographs in {len(np.unique(one.bursts))} bursts"
        f" ({first.body['images']['choice']}) the first makes significantly more errors in {worse} and fewer in"
        f" {better} of {len(rows)} subsets (exact McNemar, Holm-corrected, 5 %). The test takes photographs as"
        " independent; those of one burst are not, so read it beside the intervals, which resample whole bursts."
    ]
    for name, title, scale, unit in (
        ("clean/error", "clean error", 100, "points"),
        ("mean/error", "mean error under corruption", 100, "points"),
        ("mean/macro_f1", "mean macro-F1 under corruption", 1, ""),
        ("mce", f"mCE relative to {reference.name}", 1, "points"),
        ("relative_mce", f"relative mCE relative to {reference.name}", 1, "points"),
    ):
        if name not in point:
            continue
        digits = 4 if scale == 1 and not unit else 2
        text = f"First minus second, {title}: {scale * point[name]:+.{digits}f} {unit}".rstrip()
        if intervals is not None:
            low, high = intervals[name]
            text += f" (95 % interval {scale * low:+.{digits}f} to {scale * high:+.{digits}f})"
        texts.append(text + ".")
    return " ".join(texts)


def _model_name(entry: Entry) -> str:
    assert entry.model is not None
    return str(entry.model["name"])
