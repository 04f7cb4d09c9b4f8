"""Noise: Gaussian, shot, impulse, speckle.

The arithmetic is the package's, value for value; what is saved is memory traffic and, for shot noise, most of the
drawing of the Poisson numbers.
"""

from __future__ import annotations

from functools import lru_cache

import cv2
import numpy as np
import numpy.typing as npt

from bench.corruption.block import VALUES, blocks
from edge.preprocessing import Pixels

_UNIT = np.arange(256) / 255.0

_GAUSSIAN = (0.08, 0.12, 0.18, 0.26, 0.38)
_PHOTONS = (60, 25, 12, 5, 3)
_IMPULSE = (0.03, 0.06, 0.09, 0.17, 0.27)
_SPECKLE = (0.15, 0.2, 0.35, 0.45, 0.6)

_DRAWS = 1 << 32
"""Poisson numbers are drawn by comparing a 32-bit whole number with thresholds."""

_GUIDE_BITS = 8


def gaussian_noise(image: Pixels, severity: int, generator: np.random.Generator) -> Pixels:
    """Normal noise of standard deviation 0.08 to 0.38 of the range, on each value."""
    scale = _GAUSSIAN[severity - 1]
    values = image.reshape(-1)
    result = np.empty_like(values)
    noise = np.empty(VALUES)
    for block in blocks(values.size):
        drawn = noise[: block.stop - block.start]
        generator.standard_normal(out=drawn)
        drawn *= scale
        drawn += _UNIT.take(values[block])
        result[block] = _to_pixels(drawn)
    return result.reshape(image.shape)


def speckle_noise(image: Pixels, severity: int, generator: np.random.Generator) -> Pixels:
    """Normal noise in proportion to the value."""
    scale = _SPECKLE[severity - 1]
    values = image.reshape(-1)
    result = np.empty_like(values)
    noise = np.empty(VALUES)
    for block in blocks(values.size):
        unit = _UNIT.take(values[block])
        drawn = noise[: unit.size]
        generator.standard_normal(out=drawn)
        drawn *= scale
        drawn *= unit
        drawn += unit
        result[block] = _to_pixels(drawn)
    return result.reshape(image.shape)


def impulse_noise(image: Pixels, severity: int, generator: np.random.Generator) -> Pixels:
    """Salt and pepper: 3 to 27 % of the values become 0 or 255, evenly."""
    amount = _IMPULSE[severity - 1]
    drawn = np.empty(VALUES)
    flipped = np.empty(image.size, dtype=bool)
    for block in blocks(image.size):
        np.less_equal(generator.random(out=drawn[: block.stop - block.start]), amount, out=flipped[block])
    # A value that is left alone passes through x / 255 * 255 and is cut, which costs some values one step.
    result = np.asarray(cv2.LUT(image, _THROUGH_UNIT))
    values = result.reshape(-1)
    for block in blocks(image.size):
        salted = generator.random(out=drawn[: block.stop - block.start]) <= 0.5
        np.copyto(values[block], salted.view(np.uint8) * np.uint8(255), where=flipped[block])
    return result


def shot_noise(image: Pixels, severity: int, generator: np.random.Generator) -> Pixels:
    """Poisson noise of 60 down to 3 photons at full brightness, from the numbers that `poisson` draws."""
    photons = _PHOTONS[severity - 1]
    thresholds, guide, levels = _shot_tables(photons)
    values = image.reshape(-1)
    result = np.empty_like(values)
    for block in blocks(values.size):
        drawn = draws(generator, block.stop - block.start)
        slot = values[block].astype(np.intp)
        slot <<= _GUIDE_BITS
        slot += drawn >> np.uint32(32 - _GUIDE_BITS)
        # The guide's entry is the smallest count that a draw in this slice of the range can give, as a place
        # in the table of thresholds; most draws are below its threshold already, the others go on from there.
        place = guide.take(slot)
        above = np.flatnonzero(drawn >= thresholds.take(place))
        while above.size:
            place[above] += 1
            above = above[drawn[above] >= thresholds.take(place[above])]
        result[block] = levels.take(place)
    return result.reshape(image.shape)


def poisson(means: npt.NDArray[np.float64], generator: np.random.Generator) -> npt.NDArray[np.int64]:
    """Poisson numbers by inversion: the smallest k with draw < 2^32 F(k), F the distribution function.

    numpy's own sampler takes a varying number of draws for a number, one after the other, and is nearly all of the
    package's time; by inversion a number costs one 32-bit draw, and pictures have no more than 256 different
    means. The numbers are others than numpy's from the same Generator and have the same distribution, to 2^-32.

    Args:
        means: float64 array of any shape, 0 to 700; the numbers are drawn in its order.

    Returns:
        int64 array of the same shape.
    """
    counts = np.empty(means.size, dtype=np.int64)
    drawn = draws(generator, means.size)
    for mean in np.unique(means):
        here = means.reshape(-1) == mean
        counts[here] = np.searchsorted(poisson_thresholds(float(mean)), drawn[here], side="right")
    return counts.reshape(means.shape)


def draws(generator: np.random.Generator, count: int) -> npt.NDArray[np.uint32]:
    """Whole numbers 0 to 2^32 - 1, uniform."""
    return generator.integers(0, _DRAWS, size=count, dtype=np.uint32)


def poisson_thresholds(mean: float) -> npt.NDArray[np.uint64]:
    """2^32 F(k) for k = 0, 1, ..., rounded, until it reaches 2^32; F is the Poisson distribution function."""
    # Far enough beyond the mean that what is left out is less than 2^-33.
    count = int(mean + 12 * np.sqrt(mean) + 20)
    k = np.arange(1, count + 1)
    logarithms = np.concatenate([[0.0], np.cumsum(np.log(mean) - np.log(k))]) if mean > 0 else np.zeros(1)
    mass = np.exp(logarithms - mean)
    function = np.minimum(np.rint(np.cumsum(mass) * _DRAWS), _DRAWS).astype(np.uint64)
    end = int(np.argmax(function == _DRAWS)) if (function == _DRAWS).any() else len(function)
    return np.append(function[:end], np.uint64(_DRAWS))


@lru_cache(maxsize=len(_PHOTONS))
def _shot_tables(
    photons: int,
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.intp], Pixels]:
    """Thresholds, guide and resulting values for all 256 means and `photons` at full brightness.

    Counts of `photons` and more are all white, so each mean has `photons + 1` places in the first and last table.
    """
    row = photons + 1
    thresholds = np.full((256, row), _DRAWS, dtype=np.uint64)
    guide = np.empty((256, 1 << _GUIDE_BITS), dtype=np.intp)
    slices = np.arange(1 << _GUIDE_BITS, dtype=np.uint64) << np.uint64(32 - _GUIDE_BITS)
    for value in range(256):
        function = poisson_thresholds(float(_UNIT[value] * photons))[:photons]
        thresholds[value, : len(function)] = function
        guide[value] = value * row + np.searchsorted(thresholds[value], slices, side="right")
    levels = np.clip(np.arange(row) / float(photons), 0, 1) * 255
    return thresholds.reshape(-1), guide.reshape(-1), np.tile(levels.astype(np.uint8), 256)


def _to_pixels(unit: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    np.clip(unit, 0, 1, out=unit)
    unit *= 255
    return unit


_THROUGH_UNIT = (_UNIT * 255).astype(np.uint8)
