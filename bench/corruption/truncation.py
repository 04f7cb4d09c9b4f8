"""Cutting values to whole numbers, where the values are known nearly and the whole numbers must be right.

The package works in double precision and cuts its result to uint8. A result worked out faster, in single precision or
with the sums in another order, cuts to the same whole number unless one lies between the two; then, and only then,
the value is worked out again as the package does it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from edge.preprocessing import Pixels

Exactly = Callable[[npt.NDArray[np.intp], npt.NDArray[np.intp]], npt.NDArray[Any]]
"""Rows and columns, intp arrays (places,), to the exact values there, (places, 3) or (places,)."""

_PLACES = 1 << 12
"""Places worked out exactly at a time."""


def truncate(values: npt.NDArray[Any], exactly: Exactly, margin: float, offset: float = 0.0) -> Pixels:
    """Cut values to whole numbers.

    Args:
        values: float array (height, width, channels) or (height, width), each wrong by less than `margin`, from
            0 to 255; it is overwritten.
        exactly: gives the exact values, 0 to 255; they are cut as they are.
        margin: above 0, far below 1.
        offset: is added to `values` first: 0.5 where the package rounds, and `exactly` with it.

    Returns:
        uint8 array of the same shape.
    """
    # Neither 255 + margin nor -margin leaves the range when it is cut.
    values += offset + margin
    result = values.astype(np.uint8)
    values -= 2 * margin
    doubtful = np.flatnonzero(result != values.astype(np.uint8))
    width = result.shape[1]
    place = doubtful // result[0, 0].size
    # In order, so that the channels of a pixel follow one another: once is enough.
    place = place[np.diff(place, prepend=-1) > 0]
    for start in range(0, len(place), _PLACES):
        row, column = np.divmod(place[start : start + _PLACES], width)
        result[row, column] = exactly(row, column).astype(np.uint8)
    return result
