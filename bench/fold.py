"""Folds: stratified ones that mix sessions, and disjoint ones that hold whole groups out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bench.session import Grouping
from convert.split import balance

FLOOR_PICTURES = 10
FLOOR_GROUPS = 2
_RESTARTS = 4

Rows = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Fold:
    """Positions (intp) of the pictures to learn from and of those to test on."""

    training: Rows
    test: Rows


@dataclass(frozen=True)
class Shortfall:
    """A class that the folds do not test well enough.

    Attributes:
        label: the class.
        groups: that it occurs in, over all folds.
        pictures, held_out_groups: the fewest that any fold tests.
        folds: how many of all folds fall below the floor.
        of: how many folds there are.
    """

    label: str
    groups: int
    pictures: int
    held_out_groups: int
    folds: int
    of: int

    def sentence(self, floor_pictures: int, floor_groups: int) -> str:
        """What falls short, in words."""
        return (
            f"{self.label}: {self.folds} of {self.of} held-out folds test it with fewer than {floor_pictures} pictures"
            f" or {floor_groups} groups (at the least {self.pictures} pictures of {self.held_out_groups} group(s);"
            f" it has {self.groups} group(s) in all)."
        )


def draw(rows: int, most: int, seed: int) -> Rows:
    """Positions of at most `most` of the pictures, drawn without replacement, in order."""
    if rows <= most:
        return np.arange(rows)
    return np.sort(np.random.default_rng([seed, 0]).choice(rows, most, replace=False))


def stratified(labels: npt.NDArray[np.int64], count: int, seed: int) -> list[Fold]:
    """`count` folds that each hold the same share of every class, as near as whole pictures allow."""
    order = np.random.default_rng([seed, 1]).permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    part = np.empty(len(labels), dtype=np.intp)
    part[order] = np.arange(len(labels)) % count
    return _folds(part, count)


def disjoint(labels: npt.NDArray[np.int64], groups: Grouping, count: int, seed: int) -> list[Fold]:
    """`count` folds of whole groups, balanced over the classes (`convert.split.balance`)."""
    part = disjoint_parts(labels, groups, [1 / count] * count, seed)
    return _folds(part, count)


def disjoint_parts(
    labels: npt.NDArray[np.int64], groups: Grouping, fractions: Sequence[float], seed: int
) -> npt.NDArray[np.intp]:
    """The part of each picture when whole groups are dealt to parts of the given sizes."""
    counts = np.zeros((len(groups.names), int(labels.max()) + 1))
    np.add.at(counts, (groups.codes, labels), 1)
    counts = counts[:, counts.sum(axis=0) > 0]
    return balance(counts, fractions, seed, _RESTARTS)[groups.codes]


def shortfalls(
    folds: Sequence[Fold],
    labels: npt.NDArray[np.int64],
    groups: Grouping,
    classes: Sequence[str],
    floor_pictures: int = FLOOR_PICTURES,
    floor_groups: int = FLOOR_GROUPS,
) -> list[Shortfall]:
    """The classes that some fold tests with too few pictures or groups."""
    found = []
    total = groups.of_class(labels, len(classes))
    for label, name in enumerate(classes):
        pictures = [int((labels[fold.test] == label).sum()) for fold in folds]
        held_out = [len(np.unique(groups.codes[fold.test[labels[fold.test] == label]])) for fold in folds]
        below = sum(a < floor_pictures or b < floor_groups for a, b in zip(pictures, held_out, strict=True))
        if below:
            found.append(Shortfall(name, total[label], min(pictures), min(held_out), below, len(folds)))
    return found


def _folds(part: npt.NDArray[np.intp], count: int) -> list[Fold]:
    return [Fold(np.flatnonzero(part != fold), np.flatnonzero(part == fold)) for fold in range(count)]
