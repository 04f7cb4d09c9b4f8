"""Changes of HSV saturation and value, as scikit-image's rgb2hsv and hsv2rgb make them.

Of a pixel's three values the largest becomes the new value v, the smallest p = v (1 - s), and the middle one
v (1 - f s) or v (1 - (1 - f) s) with the hue's fraction f. Value and saturation are functions of two bytes, the largest
and the smallest, so that everything but the middle one comes from tables; for that one the same operations are done
in the same order as in scikit-image, because their rounding errors decide where the exact result is a whole number
(as it always is where the saturation is doubled).
"""

from __future__ import annotations

from functools import lru_cache

import cv2
import numpy as np
import numpy.typing as npt

from bench.corruption.block import blocks
from edge.preprocessing import Pixels

_UNIT = np.arange(256) / 255.0

_TURNS = np.array([0.0, 2.0, 4.0])
"""Sixths of the circle at which red, green and blue are the largest."""

_GREY = 2.0
"""Stands for the chroma of greys, to divide by."""

_ROLES = np.array(
    [[2, 1, 0], [1, 2, 0], [0, 2, 1], [0, 1, 2], [1, 0, 2], [2, 0, 1]],
    dtype=np.uint8,
)
"""For each sixth of the hue circle and each channel: 0 smallest, 1 middle, 2 largest."""


@lru_cache(maxsize=1)
def unit_saturation() -> npt.NDArray[np.float64]:
    """Saturation for the largest byte (first axis) and the smallest one (second axis); 0 for greys."""
    largest, smallest = _UNIT[:, np.newaxis], _UNIT
    chroma = largest - smallest
    with np.errstate(invalid="ignore", divide="ignore"):
        saturation = chroma / largest
    saturation[chroma == 0] = 0.0
    # The other half of the table belongs to no pixel.
    return np.asarray(np.tril(saturation))


def adjust(image: Pixels, saturation: npt.NDArray[np.float64], value: npt.NDArray[np.float64]) -> Pixels:
    """Give every pixel a new saturation and value, with its hue.

    Args:
        image: uint8 array (height, width, 3), RGB.
        saturation: float64 array (256, 256), the new saturation 0..1 for the largest and the smallest byte.
        value: float64 array (256,), the new value 0..1 for the largest byte.

    Returns:
        uint8 array of the same shape; 255 times the result, cut to whole numbers.
    """
    low = _low(saturation, value)
    high = (np.clip(value, 0, 1) * 255).astype(np.uint8)
    result = np.empty_like(image)
    for rows in blocks(image.shape[0], image.shape[1]):
        red, green, blue = cv2.split(image[rows])
        largest = np.maximum(np.maximum(red, green), blue)
        place = largest.astype(np.intp)
        place <<= 8
        place |= np.minimum(np.minimum(red, green), blue)
        hue = _hue(red, green, blue, largest, place)
        sixth = hue.astype(np.uint8)
        fraction = hue
        fraction -= sixth
        # The middle one falls with f in the odd sixths, with 1 - f in the even ones.
        np.subtract(1.0, fraction, out=fraction, where=(sixth & 1) == 0)
        middle = fraction
        middle *= saturation.take(place)
        np.subtract(1.0, middle, out=middle)
        middle *= value.take(largest)
        np.clip(middle, 0, 1, out=middle)
        middle *= 255
        parts = (low.take(place), middle.astype(np.uint8), high.take(largest))
        planes = []
        for roles in _ROLES.T:
            role = roles.take(sixth)
            plane = parts[0].copy()
            np.copyto(plane, parts[1], where=role == 1)
            np.copyto(plane, parts[2], where=role == 2)
            planes.append(plane)
        result[rows] = cv2.merge(planes)
    return result


def _hue(
    red: Pixels, green: Pixels, blue: Pixels, largest: Pixels, place: npt.NDArray[np.intp]
) -> npt.NDArray[np.float64]:
    """The hue in sixths of the circle, 0 to 6."""
    # Where two are largest the later one counts. A grey pixel counts as red with green equal to blue: hue 0.
    chroma = _chroma().take(place)
    coloured = chroma != _GREY
    by_blue = (blue == largest) & coloured
    by_green = (green == largest) & coloured & ~by_blue
    first, second = green.copy(), blue.copy()
    np.copyto(first, blue, where=by_green)
    np.copyto(second, red, where=by_green)
    np.copyto(first, red, where=by_blue)
    np.copyto(second, green, where=by_blue)
    hue = _UNIT.take(first)
    hue -= _UNIT.take(second)
    hue /= chroma
    hue += _TURNS.take(by_green.view(np.uint8) | by_blue.view(np.uint8) << 1)
    hue /= 6.0
    # What x % 1 does to values from -1/6 to 5/6.
    hue += hue < 0
    hue *= 6
    return hue


def _low(saturation: npt.NDArray[np.float64], value: npt.NDArray[np.float64]) -> Pixels:
    return np.asarray(
        (np.clip(value[:, np.newaxis] * (1 - saturation), 0, 1) * 255).astype(np.uint8)
    ).reshape(-1)


@lru_cache(maxsize=1)
def _chroma() -> npt.NDArray[np.float64]:
    """Largest minus smallest; `_GREY` for greys."""
    chroma = _UNIT[:, np.newaxis] - _UNIT
    chroma[chroma <= 0] = _GREY
    return chroma.reshape(-1)
