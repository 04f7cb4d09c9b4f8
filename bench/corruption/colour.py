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

from edge.preprocessing import Pixels

_UNIT = np.arange(256) / 255.0

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
    red, green, blue = (np.ascontiguousarray(image[..., channel]).reshape(-1) for channel in range(3))
    largest = np.maximum(np.maximum(red, green), blue)
    smallest = np.minimum(np.minimum(red, green), blue)
    place = largest.astype(np.intp)
    place <<= 8
    place |= smallest
    # Where two are largest the later one counts. A grey pixel counts as red with green equal to blue: hue 0.
    coloured = largest != smallest
    by_blue = (blue == largest) & coloured
    by_green = (green == largest) & coloured & ~by_blue
    first, second = green.copy(), blue.copy()
    np.copyto(first, blue, where=by_green)
    np.copyto(second, red, where=by_green)
    np.copyto(first, red, where=by_blue)
    np.copyto(second, green, where=by_blue)
    hue = _UNIT.take(first)
    hue -= _UNIT.take(second)
    hue /= _chroma().take(place)
    hue += by_green * 2.0 + by_blue * 4.0
    hue /= 6.0
    # What x % 1 does to values from -1/6 to 5/6.
    hue += hue < 0
    hue *= 6
    sixth = hue.astype(np.uint8)
    hue -= sixth
    # The middle one falls with f in the odd sixths, with 1 - f in the even ones.
    np.subtract(1.0, hue, out=hue, where=(sixth & 1) == 0)
    hue *= saturation.reshape(-1).take(place)
    np.subtract(1.0, hue, out=hue)
    hue *= value.take(largest)
    np.clip(hue, 0, 1, out=hue)
    hue *= 255
    middle = hue.astype(np.uint8)
    low = _low(saturation, value).take(place)
    high = (np.clip(value, 0, 1) * 255).astype(np.uint8).take(largest)
    result = np.empty((3, *image.shape[:2]), dtype=np.uint8)
    for channel, plane in enumerate(result.reshape(3, -1)):
        role = _ROLES[:, channel].take(sixth)
        plane[:] = low
        np.copyto(plane, middle, where=role == 1)
        np.copyto(plane, high, where=role == 2)
    return np.asarray(cv2.merge(list(result)))


def _low(saturation: npt.NDArray[np.float64], value: npt.NDArray[np.float64]) -> Pixels:
    return np.asarray(
        (np.clip(value[:, np.newaxis] * (1 - saturation), 0, 1) * 255).astype(np.uint8)
    ).reshape(-1)


@lru_cache(maxsize=1)
def _chroma() -> npt.NDArray[np.float64]:
    """Largest minus smallest; 1 for greys, to divide by."""
    chroma = _UNIT[:, np.newaxis] - _UNIT
    chroma[chroma <= 0] = 1.0
    return chroma.reshape(-1)
