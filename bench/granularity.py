"""Granularity probe: how finely do readings tell pictures apart, and how far does the session explain them?

A reading that all pictures of a session share names the session; a test picture whose exact reading occurs in
training has been seen, as far as that reading goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bench.clock import seconds
from bench.fold import Fold, draw
from bench.reading import Floats, Integers, Readings, Variable
from bench.session import Grouping

PERMUTATIONS = 200
BINS = (1, 2, 3, 6, 11, 51, 201)
"""Lower ends of the histogram's bins: pictures that share one reading."""

NEAR_SECONDS = (5.0, 10.0, 60.0)


@dataclass(frozen=True)
class Sharing:
    """How pictures share one reading.

    Attributes:
        name: the variable, "time", "all sensors" or "all metadata".
        pictures: with a value.
        values: distinct ones.
        shared: share of the pictures whose reading another picture has too, 0..1.
        median, most: pictures with the same reading, from a picture's point of view.
        sessions: mean number of groups that a value occurs in; None without groups.
        one_session: share of the values that occur in one group alone; None without groups.
        one_class: share of the pictures whose reading occurs with one class alone, 0..1.
        histogram: share of the pictures in each bin of `BINS`.
        leak: protocol -> share of test pictures whose exact reading occurs in training, 0..1.
    """

    name: str
    pictures: int
    values: int
    shared: float
    median: float
    most: int
    sessions: float | None
    one_session: float | None
    one_class: float
    histogram: tuple[float, ...]
    leak: dict[str, float]


@dataclass(frozen=True)
class Explained:
    """How much of a variable's variance the group identity explains.

    Attributes:
        name: the variable.
        kind: "number" (eta squared) or "category" (Goodman and Kruskal's tau, eta squared of the category's
            indicator variables taken together).
        eta_squared: between-group over total sum of squares, 0..1.
        epsilon_squared: bias-corrected (Kelley 1935): 1 - (1 - eta^2)(N - 1)/(N - G); about 0 where groups
            tell nothing. None where every picture is a group of its own.
        low, high: 2.5 and 97.5 percentile of eta squared when values are permuted over pictures.
        p: share of permutations (counting the data themselves) that reach eta squared.
        pictures, groups: used.
    """

    name: str
    kind: str
    eta_squared: float
    epsilon_squared: float | None
    low: float
    high: float
    p: float
    pictures: int
    groups: int


def codes_of(variables: Sequence[Variable]) -> Integers:
    """Number of each picture's exact joint reading, int64 (pictures,); -1 where all of it is missing."""
    codes = np.zeros(len(variables[0].values), dtype=np.int64)
    nothing = np.ones(len(codes), dtype=bool)
    for variable in variables:
        missing = np.isnan(variable.values)
        nothing &= missing
        _, found = np.unique(np.where(missing, np.inf, variable.values), return_inverse=True)
        found = found.reshape(-1)
        _, codes = np.unique(codes * (int(found.max()) + 1) + found, return_inverse=True)
        codes = codes.reshape(-1)
    return np.where(nothing, -1, codes).astype(np.int64)


def readings_of(readings: Readings) -> dict[str, Integers]:
    """What is probed -> codes: each variable, the time to the second, all sensors, all metadata."""
    found = {}
    time = seconds(readings.times)
    if not np.isnan(time).all():
        found["time"] = codes_of([Variable("time", "time", np.floor(time))])
    for role, together in (("sensor", "all sensors"), ("metadata", "all metadata")):
        variables = readings.of(role)
        for variable in variables:
            found[variable.name] = codes_of([variable])
        if len(variables) > 1:
            found[together] = codes_of(variables)
    return found


def sharing(
    name: str,
    codes: Integers,
    labels: Integers,
    groups: Grouping | None,
    protocols: dict[str, Sequence[Fold]],
) -> Sharing:
    """How pictures share the readings `codes` (-1: missing), and what leaks from training to test.

    Args:
        protocols: name -> folds; the leak rate is that of all their test pictures together.
    """
    known = np.flatnonzero(codes >= 0)
    if not len(known):
        empty = (0.0,) * len(BINS)
        return Sharing(name, 0, 0, 0.0, 0.0, 0, None, None, 0.0, empty, {})
    values, inverse, count = np.unique(codes[known], return_inverse=True, return_counts=True)
    inverse = inverse.reshape(-1)
    sharers = count[inverse]
    bins = np.digitize(sharers, BINS) - 1
    classes_of = np.bincount(
        np.unique(inverse * (int(labels.max()) + 1) + labels[known]) // (int(labels.max()) + 1),
        minlength=len(values),
    )
    sessions = one_session = None
    if groups is not None:
        width = len(groups.names)
        pairs = np.unique(inverse.astype(np.int64) * width + groups.codes[known])
        of_value = np.bincount(pairs // width, minlength=len(values))
        sessions, one_session = float(of_value.mean()), float((of_value == 1).mean())
    return Sharing(
        name,
        len(known),
        len(values),
        float((sharers > 1).mean()),
        float(np.median(sharers)),
        int(count.max()),
        sessions,
        one_session,
        float((classes_of[inverse] == 1).mean()),
        tuple(float((bins == number).mean()) for number in range(len(BINS))),
        {protocol: leak_rate(codes, folds) for protocol, folds in protocols.items()},
    )


def leak_rate(codes: Integers, folds: Sequence[Fold]) -> float:
    """Share of the folds' test pictures whose exact reading occurs in their training pictures, 0..1."""
    seen = total = 0
    for fold in folds:
        test = codes[fold.test]
        test = test[test >= 0]
        seen += int(np.isin(test, codes[fold.training]).sum())
        total += len(test)
    return seen / total if total else 0.0


def near_rate(time: Floats, labels: Integers, folds: Sequence[Fold], within: float) -> float:
    """Share of timed test pictures with a training picture of the same class at most `within` seconds away."""
    near = total = 0
    for fold in folds:
        for label in np.unique(labels[fold.test]):
            test = time[fold.test[labels[fold.test] == label]]
            test = test[~np.isnan(test)]
            training = np.sort(time[fold.training[labels[fold.training] == label]])
            training = training[~np.isnan(training)]
            total += len(test)
            if len(training) and len(test):
                place = np.searchsorted(training, test)
                before = np.abs(test - training[np.maximum(place - 1, 0)])
                after = np.abs(test - training[np.minimum(place, len(training) - 1)])
                near += int((np.minimum(before, after) <= within).sum())
    return near / total if total else 0.0


def explained(
    variable: Variable,
    groups: Grouping,
    permutations: int = PERMUTATIONS,
    rows: int = 20_000,
    seed: int = 0,
) -> Explained | None:
    """Variance that the groups explain; None for a constant variable or fewer than two groups.

    Args:
        variable, groups: of the same pictures; missing values are left out.
        permutations: for the interval; at most `rows` pictures, drawn by `seed`, are used throughout.
    """
    known = np.flatnonzero(~np.isnan(variable.values))
    known = known[draw(len(known), rows, seed)]
    values = variable.values[known]
    _, group = np.unique(groups.codes[known], return_inverse=True)
    group = group.reshape(-1)
    count = int(group.max()) + 1 if len(group) else 0
    if count < 2 or (values == values[0]).all():
        return None
    share = _tau if variable.levels else _eta_squared
    eta = share(values, group)
    generator = np.random.default_rng([seed, 3])
    null = np.array([share(generator.permutation(values), group) for _ in range(permutations)])
    epsilon = None if count == len(values) else 1 - (1 - eta) * (len(values) - 1) / (len(values) - count)
    return Explained(
        variable.name,
        "category" if variable.levels else "number",
        eta,
        epsilon,
        float(np.percentile(null, 2.5)),
        float(np.percentile(null, 97.5)),
        float((1 + (null >= eta - 1e-12).sum()) / (permutations + 1)),
        len(values),
        count,
    )


def _eta_squared(values: Floats, group: npt.NDArray[np.integer]) -> float:
    centred = values - values.mean()
    size = np.bincount(group)
    between = float((np.bincount(group, weights=centred) ** 2 / size).sum())
    return between / float((centred**2).sum())


def _tau(values: Floats, group: npt.NDArray[np.integer]) -> float:
    level = values.astype(np.int64)
    levels = int(level.max()) + 1
    table = np.bincount(group * levels + level, minlength=(int(group.max()) + 1) * levels)
    table = table.reshape(-1, levels).astype(np.float64)
    total = table.sum()
    overall = float((table.sum(axis=0) ** 2).sum() / total)
    within = float(((table**2).sum(axis=1) / table.sum(axis=1)).sum())
    return float((within - overall) / (total - overall))
