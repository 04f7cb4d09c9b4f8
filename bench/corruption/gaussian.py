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
        # Whole numbers come from areas of one value, whose result depends on that value alone; few others meet
        # one, unless the picture is a regular pattern.
        window = np.ones((len(weights), len(weights)), np.uint8)
        flat = cv2.erode(image, window, borderType=cv2.BORDER_REPLICATE) == cv2.dilate(
            image, window, borderType=cv2.BORDER_REPLICATE
        )
        result[doubtful] = _flat(sigma)[image[doubtful]]
        places = np.argwhere(doubtful & ~flat)
        if places.size * window.size > image.size:
            return _exact(image, sigma)
        if len(places):
            result[tuple(places.T)] = (
                _at(image / 255.0, places, (sigma, sigma), 4.0, cv2.BORDER_REPLICATE) * 255
            )
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
    places = np.argwhere(result != (blurred - margin).astype(np.float32))
    if len(places):
        result[tuple(places.T)] = _at(field, places, sigma, 3.0, cv2.BORDER_REFLECT) * strength
    return np.asarray(result)


def _at(
    image: npt.NDArray[np.float64],
    places: npt.NDArray[np.intp],
    sigma: tuple[float, float],
    truncate: float,
    border: int,
) -> npt.NDArray[np.float64]:
    """SciPy's values at some places: those of the middles of the windows that they depend on.

    Args:
        image: (height, width) or (height, width, channels).
        places: (n, dimensions of the image).
        sigma, truncate: of the filter.
        border: OpenCV's name for what lies beyond the image.

    Returns:
        float64 array (n,).
    """
    down, right = (int(truncate * value + 0.5) for value in sigma)
    padded = cv2.copyMakeBorder(image, down, down, right, right, border)
    rows = places[:, 0, np.newaxis, np.newaxis] + np.arange(2 * down + 1)[:, np.newaxis]
    columns = places[:, 1, np.newaxis, np.newaxis] + np.arange(2 * right + 1)
    channel = tuple(places[:, axis, np.newaxis, np.newaxis] for axis in range(2, image.ndim))
    windows = padded[(rows, columns, *channel)]
    return np.asarray(ndimage.gaussian_filter(windows, (0, *sigma), truncate=truncate)[:, down, right])
