"""Folds: stratified ones that mix sessions, and disjoint ones that hold whole groups out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bench.session import Grouping
from convert.split import balance
from edge.errors import InputError

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


def draw_covering(cells: Sequence[npt.NDArray[np.integer]], most: int, seed: int) -> Rows:
    """Positions of at most `most` pictures, drawn without replacement, in order, with one of every cell.

    A draw that missed a class, a part or a fold would be scored on other classes and protocols than the next
    seed's, and the two could not be compared.

    Args:
        cells: for each way of dividing the pictures, the number of each picture's cell, int (pictures,); -1: in
            none of them.
        most: pictures to draw.
        seed: of the draw.

    Raises:
        InputError: there are more cells than pictures to draw.
    """
    count = len(cells[0])
    if count <= most:
        return np.arange(count)
    order = np.random.default_rng([seed, 0]).permutation(count)
    needed = np.zeros(count, dtype=bool)
    for codes in cells:
        drawn = codes[order]
        cell, first = np.unique(drawn, return_index=True)
        needed[order[first[cell >= 0]]] = True
    number = int(needed.sum())
    if number > most:
        raise InputError(
            f"--rows {most:,} is too few to draw a picture of each class for each part and held-out fold; give at"
            f" least {number:,}"
        )
    needed[order[~needed[order]][: most - number]] = True
    return np.flatnonzero(needed)


def stratified(labels: npt.NDArray[np.int64], count: int, seed: int) -> list[Fold]:
    """`count` folds that each hold the same share of every class, as near as whole pictures allow."""
    order = np.random.default_rng([seed, 1]).permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    part = np.empty(len(labels), dtype=np.intp)
    part[order] = np.arange(len(labels)) % count
    return folds_of(part, count)


def disjoint(labels: npt.NDArray[np.int64], groups: Grouping, count: int, seed: int) -> list[Fold]:
    """`count` folds of whole groups, balanced over the classes (`convert.split.balance`)."""
    part = disjoint_parts(labels, groups, [1 / count] * count, seed)
    return folds_of(part, count)


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
    width = len(groups.names)
    tested = [np.bincount(labels[fold.test], minlength=len(classes)) for fold in folds]
    apart = [
        np.bincount(
            np.unique(labels[fold.test] * width + groups.codes[fold.test]) // width, minlength=len(classes)
        )
        for fold in folds
    ]
    for label, name in enumerate(classes):
        pictures = [int(of_fold[label]) for of_fold in tested]
        held_out = [int(of_fold[label]) for of_fold in apart]
        below = sum(a < floor_pictures or b < floor_groups for a, b in zip(pictures, held_out, strict=True))
        if below:
            found.append(Shortfall(name, total[label], min(pictures), min(held_out), below, len(folds)))
    return found


def folds_of(part: npt.NDArray[np.intp], count: int) -> list[Fold]:
    """Each of `count` parts tested in turn on what the others teach; one with nothing to test or to learn is left
    out (there are fewer pictures than parts)."""
    folds = [Fold(np.flatnonzero(part != fold), np.flatnonzero(part == fold)) for fold in range(count)]
    return [fold for fold in folds if len(fold.training) and len(fold.test)]
