"""Blur: defocus, glass, motion, zoom, Gaussian."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
from scipy import sparse

from bench.corruption.block import VALUES, blocks
from bench.corruption.gaussian import blur_pixels
from bench.corruption.interpolation import Axis, interpolated, zoomed
from bench.corruption.truncation import Exactly, truncate
from edge.preprocessing import Pixels

_GAUSSIAN = (1, 2, 3, 4, 6)
_GLASS = ((0.7, 1, 2), (0.9, 2, 1), (1, 2, 3), (1.1, 3, 2), (1.5, 4, 2))
_DEFOCUS = ((3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5))
_MOTION = ((10, 3), (15, 5), (15, 8), (15, 12), (20, 15))
_ZOOM = ((1.11, 0.01), (1.16, 0.01), (1.21, 0.02), (1.26, 0.02), (1.31, 0.03))

TRAIL_MARGIN = 5e-4
"""Bound on the error of a trail summed in single precision, in steps of 1/255: 41 sums up to 255, each wrong by less
than 2^-17, and two roundings of each product."""

_ZOOM_MARGIN = 1e-3
"""The same for the enlargements, theirs and the package's own: of 17 layers added one after another, in steps of
2^-20 of the range at the worst, and twice as many products."""

_UNIT = (np.arange(256) / 255.0).astype(np.float32)


def gaussian_blur(image: Pixels, severity: int, generator: np.random.Generator) -> Pixels:
    """Gaussian filter of sigma 1 to 6 pixels."""
    del generator
    return blur_pixels(image, _GAUSSIAN[severity - 1])


def glass_blur(image: Pixels, severity: int, generator: np.random.Generator) -> Pixels:
    """Gaussian filter, pixels displaced at random by up to 4, Gaussian filter again."""
    sigma, reach, rounds = _GLASS[severity - 1]
    height, width = image.shape[:2]
    blurred = blur_pixels(image, sigma)
    origin = np.arange(height * width)
    for _ in range(rounds):
        origin = origin[displaced(height, width, reach, generator)]
    return blur_pixels(blurred.reshape(-1, 3)[origin].reshape(image.shape), sigma)


def displaced(height: int, width: int, reach: int, generator: np.random.Generator) -> npt.NDArray[np.intp]:
    """Where each pixel comes from after one round of the glass blur's displacements.

    The package walks over the inner pixels from the last to the first and exchanges each with one at a random
    offset: `x[h, w], x[k, l] = x[k, l], x[h, w]`. On an array of colours both sides of this are views, so the
    second pixel gets back what it had and the exchange is a copy, x[h, w] = x[k, l], with the value x[k, l] has at
    that moment: its original one if (k, l) comes later in the walk or is never visited, else the one it was
    given before. So each pixel has one source, the sources form chains, and following all the chains at once,
    twice as far each time, gives what the walk gives.

    Args:
        height, width: pixels.
        reach: offsets are drawn from -reach to reach - 1.
        generator: two numbers for each inner pixel, first along the width.

    Returns:
        intp array (height * width,), flat places of the origins.
    """
    pixels = height * width
    # Places below `pixels` stand for what a pixel holds after the round, those above for what it held before.
    origin = np.arange(pixels, 2 * pixels)
    rows = np.arange(height - reach, reach, -1)
    columns = np.arange(width - reach, reach, -1)
    if not (rows.size and columns.size):
        return origin - pixels
    here = (rows[:, np.newaxis] * width + columns).reshape(-1)
    offsets = generator.integers(-reach, reach, size=(here.size, 2))
    step = offsets[:, 1] * width
    step += offsets[:, 0]
    target = here + step
    visited = np.zeros((height, width), dtype=bool)
    visited[reach + 1 : height - reach + 1, reach + 1 : width - reach + 1] = True
    # A target further on in memory was visited before: the walk goes backwards.
    old = ~visited.reshape(-1)[target]
    old |= step <= 0
    target[old] += pixels
    origin[here] = target
    open_ends = here[~old]
    while open_ends.size:
        origin[open_ends] = origin[origin[open_ends]]
        open_ends = open_ends[origin[open_ends] < pixels]
    return origin - pixels


def defocus_blur(image: Pixels, severity: int, generator: np.random.Generator) -> Pixels:
    """Disc of 3 to 10 pixels.

    OpenCV filters with so large a kernel by Fourier transform in double precision, whose rounding errors decide the
    result in even areas; there is no other way to the same pixels than the same transform.
    """
    del generator
    blurred = cv2.filter2D(cv2.LUT(image, np.arange(256) / 255.0), -1, _disc(*_DEFOCUS[severity - 1]))
    np.clip(blurred, 0, 1, out=blurred)
    blurred *= 255
    return np.asarray(blurred.astype(np.uint8))


@lru_cache(maxsize=len(_DEFOCUS))
def _disc(radius: int, softness: float) -> npt.NDArray[np.float32]:
    reach = max(radius, 8)
    along = np.arange(-reach, reach + 1)
    disc = (along**2 + along[:, np.newaxis] ** 2 <= radius**2).astype(np.float32)
    disc /= np.sum(disc)
    size = 3 if radius <= 8 else 5
    return np.asarray(cv2.GaussianBlur(disc, ksize=(size, size), sigmaX=softness))


@dataclass(frozen=True)
class Trail:
    """A motion blur: the offsets of the copies, and their weights.

    Attributes:
        offsets: of each copy, rows down and columns to the right, in pixels.
        weights: of each copy. They add to 1, or to less where the picture is smaller than the trail: the package
            then leaves out the end of the trail, and the result is darker.
    """

    offsets: tuple[tuple[int, int], ...]
    weights: tuple[float, ...]


def trail(radius: int, sigma: float, angle: float, height: int, width: int) -> Trail:
    """The package's motion blur: half a Gaussian of 2 radius + 1 copies, drawn in the direction `angle` (degrees)."""
    length = 2 * radius + 1
    weights = np.exp(-(np.arange(length) ** 2) / (2 * (sigma**2))) / (np.sqrt(2 * np.pi) * sigma)
    weights = weights / np.sum(weights)
    down, right = length * np.sin(np.deg2rad(angle)), length * np.cos(np.deg2rad(angle))
    distance = math.hypot(down, right)
    offsets = []
    for place in range(length):
        row = -math.ceil(((place * down) / distance) - 0.5)
        column = -math.ceil(((place * right) / distance) - 0.5)
        if abs(row) >= height or abs(column) >= width:
            break
        offsets.append((row, column))
    return Trail(tuple(offsets), tuple(float(weight) for weight in weights[: len(offsets)]))


def smear(
    image: npt.NDArray[Any], path: Trail, height: int
) -> Iterator[tuple[slice, npt.NDArray[np.float32], Exactly]]:
    """The copies of a picture along a trail, added up; its border is repeated.

    Args:
        image: uint8 or float64 array (rows, width) or (rows, width, 3).
        path: the trail.
        height: how many of the rows are wanted.

    Yields:
        Rows; their sum in single precision; and what gives the package's value, float64, for places in them.
    """
    width = image.shape[1]
    downs, rights = (tuple(offset[axis] for offset in path.offsets) for axis in (0, 1))
    above, below, before, after = max(0, *downs), -min(0, *downs), max(0, *rights), -min(0, *rights)
    padded = cv2.copyMakeBorder(image, above, below, before, after, cv2.BORDER_REPLICATE)
    steps = [(above - down, before - right) for down, right in path.offsets]
    tops, lefts = (np.array([step[axis] for step in steps])[:, np.newaxis] for axis in (0, 1))
    weights = np.array(path.weights)
    for rows in blocks(height, image[0].size, 5 * VALUES):
        count = rows.stop - rows.start
        part = padded[rows.start : rows.stop + above + below]
        single = part.astype(np.float32)
        total = np.zeros((count, *image.shape[1:]), dtype=np.float32)
        for (top, left), weight in zip(steps, path.weights, strict=True):
            cv2.scaleAdd(single[top : top + count, left : left + width], weight, total, total)

        def exactly(
            row: npt.NDArray[np.intp], column: npt.NDArray[np.intp], part: npt.NDArray[Any] = part
        ) -> npt.NDArray[np.float64]:
            copies = part[row + tops, column + lefts] * weights.reshape(-1, *[1] * (part.ndim - 1))
            # A cumulative sum adds one after the other; a sum may not.
            return np.asarray(np.cumsum(copies, axis=0)[-1])

        yield rows, total, exactly


def motion_blur(image: Pixels, severity: int, generator: np.random.Generator) -> Pixels:
    """A trail of 21 to 41 copies in a random direction within 45 degrees of the horizontal."""
    radius, sigma = _MOTION[severity - 1]
    height, width = image.shape[:2]
    path = trail(radius, sigma, generator.uniform(-45, 45), height, width)
    result = np.empty_like(image)
    for rows, blurred, exactly in smear(image, path, height):
        # The package clips to 0..255 first; a rounding error beyond 255 is cut to the same byte.
        result[rows] = truncate(blurred, exactly, TRAIL_MARGIN)
    return result


def zoom_blur(image: Pixels, severity: int, generator: np.random.Generator) -> Pixels:
    """The mean of the picture and its enlargements up to 1.11 to 1.31 times."""
    del generator
    return _zoom(image, _enlargements(image.shape[0], image.shape[1], severity))


@dataclass(frozen=True)
class Enlargements:
    """A picture enlarged about its middle several times.

    Attributes:
        down, right: how the rows and the columns of each enlargement lie between those of the picture.
        columns: the column interpolations of a few columns of the result, all enlargements below one another, as
            sparse matrices (enlargements x columns, width); with the columns.
        rows: the row interpolations of all enlargements added up, (height, height x enlargements).
    """

    down: Axis
    right: Axis
    columns: tuple[tuple[slice, Any], ...]
    rows: Any


@lru_cache(maxsize=2 * len(_ZOOM))
def _enlargements(height: int, width: int, severity: int) -> Enlargements:
    factors = [float(factor) for factor in np.arange(1, *_ZOOM[severity - 1])]
    downs = [zoomed(height, factor).first(height) for factor in factors]
    rights = [zoomed(width, factor).first(width) for factor in factors]
    count = len(factors)
    columns = tuple(
        (part, sparse.vstack([right.at(part).matrix(width) for right in rights], format="csr"))
        for part in blocks(width, count * height * 3, 16 * VALUES)
    )
    # Row r of enlargement z is row r x enlargements + z of what it is applied to.
    here = (np.arange(height), np.arange(height) * count)
    rows = sum(
        down.matrix(height)
        @ sparse.csr_matrix(
            (np.ones(height, np.float32), (here[0], here[1] + z)), shape=(height, height * count)
        )
        for z, down in enumerate(downs)
    )
    return Enlargements(Axis.stacked(downs), Axis.stacked(rights), columns, rows)


def _zoom(image: Pixels, enlargements: Enlargements) -> Pixels:
    height, width = image.shape[:2]
    count = len(enlargements.down.before)
    unit = cv2.LUT(image, _UNIT)
    turned = cv2.transpose(unit).reshape(width, -1)
    total = np.empty_like(unit)
    for columns, matrix in enlargements.columns:
        # Rows of a matrix are combined whole, so the picture lies on its side while its columns are interpolated.
        wide = (matrix @ turned).reshape(-1, height, 3)
        layers = enlargements.rows @ cv2.transpose(wide).reshape(height * count, -1)
        np.add(layers.reshape(height, -1, 3), unit[:, columns], out=total[:, columns])
    total *= np.float32(255 / (count + 1))

    def exactly(row: npt.NDArray[np.intp], column: npt.NDArray[np.intp]) -> npt.NDArray[np.float32]:
        down, right = enlargements.down.at((slice(None), row)), enlargements.right.at((slice(None), column))
        layers = interpolated(unit, down, right).astype(np.float32)
        value = (unit[row, column] + np.cumsum(layers, axis=0)[-1]) / np.float32(count + 1)
        return np.asarray(np.clip(value, 0, 1) * 255)

    return truncate(total, exactly, _ZOOM_MARGIN)
