"""Linear interpolation along an axis, as scipy.ndimage.zoom(order=1) does it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Axis:
    """Where each place of the result lies between two places of the input.

    Attributes:
        before, after: intp arrays (result,), places in the input.
        weight_before, weight_after: float64 arrays (result,); both 0 where the result lies outside the input.
    """

    before: npt.NDArray[np.intp]
    after: npt.NDArray[np.intp]
    weight_before: npt.NDArray[np.float64]
    weight_after: npt.NDArray[np.float64]


def zoomed(size: int, factor: float) -> Axis:
    """The middle of an axis of `size` places, enlarged by `factor` and cut to at most `size` places.

    What imagecorruptions' `clipped_zoom` does: cut ceil(size / factor) places from the middle, enlarge with
    corners on corners. The largest coordinate may exceed the last place by a rounding error; scipy then takes it to
    be outside, and so does this.
    """
    length = math.ceil(size / factor)
    top = (size - length) // 2
    result = round(length * factor)
    step = (length - 1) / (result - 1) if result > 1 else 1.0
    coordinate = np.arange(min(result, size), dtype=np.float64) * step
    before = np.floor(coordinate)
    weight_before = 1.0 - (coordinate - before)
    weight_after = 1.0 - weight_before
    outside = coordinate > length - 1
    weight_before[outside] = weight_after[outside] = 0.0
    start = np.minimum(before.astype(np.intp), length - 1)
    return Axis(start + top, np.minimum(start + 1, length - 1) + top, weight_before, weight_after)
