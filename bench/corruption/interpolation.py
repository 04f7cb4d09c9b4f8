"""Linear interpolation, as scipy.ndimage does it with order=1."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse


@dataclass(frozen=True)
class Axis:
    """Where each place of the result lies between two places of the input.

    Attributes:
        before, after: intp arrays (places of the result,), places of the input.
        weight_before, weight_after: float64 arrays of the same shape; both 0 where the result lies outside the input.
    """

    before: npt.NDArray[np.intp]
    after: npt.NDArray[np.intp]
    weight_before: npt.NDArray[np.float64]
    weight_after: npt.NDArray[np.float64]

    def at(self, places: Any) -> Axis:
        """The same for some places of the result: an index array or a slice."""
        return Axis(
            self.before[places], self.after[places], self.weight_before[places], self.weight_after[places]
        )

    @classmethod
    def stacked(cls, axes: Sequence[Axis]) -> Axis:
        """Axes of one length below one another: arrays (axes, places of the result)."""
        return cls(
            np.stack([axis.before for axis in axes]),
            np.stack([axis.after for axis in axes]),
            np.stack([axis.weight_before for axis in axes]),
            np.stack([axis.weight_after for axis in axes]),
        )

    def first(self, count: int) -> Axis:
        """The same for the first `count` places of the result, or for all where there are fewer."""
        return self.at(slice(0, count))

    def matrix(self, size: int) -> Any:
        """The interpolation of an axis of `size` places as a sparse matrix in single precision."""
        count = len(self.before)
        weights = np.stack([self.weight_before, self.weight_after], axis=1).reshape(-1).astype(np.float32)
        columns = np.stack([self.before, self.after], axis=1).reshape(-1)
        return sparse.csr_matrix((weights, columns, np.arange(0, 2 * count + 1, 2)), shape=(count, size))


def interpolated(image: npt.NDArray[Any], down: Axis, right: Axis) -> npt.NDArray[np.float64]:
    """Values between four pixels, as SciPy adds: in memory order, each times its row's, then its column's weight.

    Args:
        image: array (height, width) or (height, width, channels).
        down, right: for each place, where it lies between rows and between columns; arrays of one shape.

    Returns:
        float64 array in the places' shape, or with another axis for the channels.
    """
    shape = down.before.shape + (1,) * (image.ndim - 2)
    total = np.zeros(down.before.shape + image.shape[2:])
    for row, row_weight in ((down.before, down.weight_before), (down.after, down.weight_after)):
        for column, column_weight in ((right.before, right.weight_before), (right.after, right.weight_after)):
            part = image[row, column].astype(np.float64)
            part *= row_weight.reshape(shape)
            part *= column_weight.reshape(shape)
            total += part
    return total


def zoomed(size: int, factor: float) -> Axis:
    """The middle of an axis of `size` places, enlarged by `factor`; the result may be longer than `size`.

    What imagecorruptions' `clipped_zoom` does: cut ceil(size / factor) places from the middle, enlarge with
    corners on corners. The largest coordinate may exceed the last place by a rounding error; scipy then takes it to
    be outside, and so does this.
    """
    length = math.ceil(size / factor)
    top = (size - length) // 2
    result = round(length * factor)
    step = (length - 1) / (result - 1) if result > 1 else 1.0
    coordinate = np.arange(result, dtype=np.float64) * step
    before = np.floor(coordinate)
    weight_before = 1.0 - (coordinate - before)
    weight_after = 1.0 - weight_before
    outside = coordinate > length - 1
    weight_before[outside] = weight_after[outside] = 0.0
    start = np.minimum(before.astype(np.intp), length - 1)
    return Axis(start + top, np.minimum(start + 1, length - 1) + top, weight_before, weight_after)


def neighbours(coordinate: npt.NDArray[Any], size: int) -> Axis:
    """The two places beside each coordinate and their weights; beyond its ends the axis is mirrored.

    Args:
        coordinate: float64 array of any shape, -size to 2 size; `d c b a | a b c d | d c b a`.
        size: places of the axis.

    Returns:
        The places and weights, in the coordinates' shape.
    """
    outside = np.flatnonzero((coordinate < 0) | (coordinate >= size))
    if outside.size:
        beyond = coordinate.reshape(-1)[outside]
        coordinate = coordinate.copy()
        coordinate.reshape(-1)[outside] = np.where(beyond < 0, -beyond - 1, 2 * size - beyond - 1)
    start = np.floor(coordinate)
    weight_before = 1.0 - (coordinate - start)
    before = start.astype(np.intp)
    after = before + 1
    np.maximum(before, 0, out=before)
    np.minimum(after, size - 1, out=after)
    return Axis(before, after, weight_before, 1.0 - weight_before)
