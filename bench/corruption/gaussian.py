"""Gaussian filters that agree with scipy.ndimage.gaussian_filter after rounding, at a third of its time.

OpenCV sums the same products in another order, so that its double precision result differs from SciPy's in the last
bits. Wherever those bits could change the rounded result, SciPy's value is taken.
"""

from __future__ import annotations

from functools import lru_cache

import cv2
import numpy as np
import numpy.typing as npt
from scipy import ndimage

from edge.preprocessing import Pixels

MARGIN = 1e-9
"""Bound on the difference between the two sums, in steps of 1/255; 49 x 49 products differ by less than 1e-12."""


def kernel(sigma: float, truncate: float) -> npt.NDArray[np.float64]:
    """SciPy's kernel: the normal density at whole numbers up to `truncate` sigmas, sum 1."""
    radius = int(truncate * sigma + 0.5)
    weights = np.exp(-0.5 / (sigma * sigma) * np.arange(-radius, radius + 1) ** 2)
    return np.asarray(weights / weights.sum())


def blur_pixels(image: Pixels, sigma: float) -> Pixels:
    """uint8(255 gaussian(image / 255)), each channel by itself, the border repeated, 4 sigmas wide.

    Args:
        image: uint8 array (height, width, 3).
        sigma: standard deviation in pixels.

    Returns:
        uint8 array of the same shape; cut to whole numbers, not rounded.
    """
    weights = kernel(sigma, 4.0)
    blurred = cv2.sepFilter2D(image, cv2.CV_64F, weights, weights, borderType=cv2.BORDER_REPLICATE)
    blurred += MARGIN
    result = blurred.astype(np.uint8)
    blurred -= 2 * MARGIN
    doubtful = result != blurred.astype(np.uint8)
    if doubtful.any():
        # Whole numbers come from areas of one value, whose result depends on that value alone. Anything else
        # that meets one (a regular pattern) is rare enough to filter the picture in full.
        window = np.ones((len(weights), len(weights)), np.uint8)
        flat = cv2.erode(image, window, borderType=cv2.BORDER_REPLICATE) == cv2.dilate(
            image, window, borderType=cv2.BORDER_REPLICATE
        )
        if (doubtful & ~flat).any():
            return _exact(image, sigma)
        result[doubtful] = _flat(sigma)[image[doubtful]]
    return np.asarray(result)


def _exact(image: Pixels, sigma: float) -> Pixels:
    blurred = ndimage.gaussian_filter(image / 255.0, (sigma, sigma, 0), mode="nearest", truncate=4.0)
    return np.asarray(np.clip(blurred, 0, 1) * 255).astype(np.uint8)


@lru_cache(maxsize=16)
def _flat(sigma: float) -> Pixels:
    """The result for an area of each value: a picture of one pixel repeats its border all around."""
    values = np.arange(256, dtype=np.uint8).reshape(1, 1, 256)
    return _exact(values, sigma).reshape(-1)


def blur_field(
    field: npt.NDArray[np.float64], sigma: tuple[float, float], strength: float
) -> npt.NDArray[np.float32]:
    """float32(gaussian(field) strength), the field mirrored at its border, 3 sigmas wide.

    Args:
        field: float64 array (height, width).
        sigma: along rows and columns of the array's two axes, in pixels.
        strength: factor.
    """
    down, right = (kernel(value, 3.0) for value in sigma)
    blurred = cv2.sepFilter2D(field, cv2.CV_64F, right, down, borderType=cv2.BORDER_REFLECT)
    blurred *= strength
    # Each of the two sums is wrong by less than one rounding error, 2^-53 of the largest product, for each term.
    margin = 2 * (down.size + right.size) * 2.0**-53 * strength * float(np.abs(field).max())
    result = (blurred + margin).astype(np.float32)
    for row, column in np.argwhere(result != (blurred - margin).astype(np.float32)):
        result[row, column] = _at(field, row, column, sigma) * strength
    return np.asarray(result)


def _at(field: npt.NDArray[np.float64], row: int, column: int, sigma: tuple[float, float]) -> np.float64:
    """SciPy's value at one place: that of the middle of the window that it depends on."""
    reach = [int(3.0 * value + 0.5) for value in sigma]
    rows, columns = (
        _mirrored(np.arange(place - r, place + r + 1), size)
        for place, r, size in zip((row, column), reach, field.shape, strict=True)
    )
    window = field[np.ix_(rows, columns)]
    return np.float64(ndimage.gaussian_filter(window, sigma, truncate=3.0)[reach[0], reach[1]])


def _mirrored(places: npt.NDArray[np.intp], size: int) -> npt.NDArray[np.intp]:
    """Places beyond either end of an axis, mirrored into it: d c b a | a b c d | d c b a."""
    places = np.where(places < 0, -places - 1, places)
    return np.where(places >= size, 2 * size - places - 1, places)
