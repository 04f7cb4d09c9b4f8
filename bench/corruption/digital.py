"""Digital: contrast, elastic transform, pixelate, JPEG compression, saturate."""

from __future__ import annotations

import io
from functools import lru_cache

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image

from bench.corruption.block import VALUES, blocks
from bench.corruption.colour import adjust, unit_saturation
from bench.corruption.gaussian import blur_field
from bench.corruption.interpolation import Axis, interpolated, neighbours
from bench.corruption.truncation import truncate
from edge.preprocessing import Pixels

_CONTRAST = (0.4, 0.3, 0.2, 0.1, 0.05)
_ELASTIC = (250 * 0.05, 250 * 0.065, 250 * 0.085, 250 * 0.1, 250 * 0.12)
_PIXELATE = (0.6, 0.5, 0.4, 0.3, 0.25)
_JPEG = (25, 18, 15, 10, 7)
_SATURATE = ((0.3, 0.0), (0.1, 0.0), (2.0, 0.0), (5.0, 0.1), (20.0, 0.2))

_ELASTIC_MARGIN = 2e-4
"""Bound on the error of three interpolations in single precision, in steps of 1/255: nine operations on values up to
255, each wrong by less than 2^-17, their weights by 2^-25, and the package's own four roundings."""

_UNIT = np.arange(256) / 255.0
_SINGLE = np.arange(256, dtype=np.float32) / np.float32(255)
_THROUGH_SINGLE = _SINGLE * np.float32(255)


def contrast(image: Pixels, severity: int, generator: np.random.Generator) -> Pixels:
    """Distance from each channel's mean, times 0.4 down to 0.05."""
    del generator
    factor = _CONTRAST[severity - 1]
    # The order in which numpy adds decides the last bits of the mean, and those decide even areas.
    means = np.mean(cv2.LUT(image, _UNIT), axis=(0, 1))
    table = np.clip((_UNIT[:, np.newaxis] - means) * factor + means, 0, 1) * 255
    return np.asarray(cv2.LUT(image, table.astype(np.uint8).reshape(1, 256, 3)))


def saturate(image: Pixels, severity: int, generator: np.random.Generator) -> Pixels:
    """HSV saturation times 0.3, 0.1, 2, 5 (+ 0.1), 20 (+ 0.2)."""
    del generator
    return adjust(image, _saturated(severity), _UNIT)


@lru_cache(maxsize=len(_SATURATE))
def _saturated(severity: int) -> npt.NDArray[np.float64]:
    factor, offset = _SATURATE[severity - 1]
    return np.asarray(np.clip(unit_saturation() * factor + offset, 0, 1))


def pixelate(image: Pixels, severity: int, generator: np.random.Generator) -> Pixels:
    """Shrunk to 0.6 down to 0.25 of its size by block means, enlarged again by repetition."""
    del generator
    factor = _PIXELATE[severity - 1]
    height, width = image.shape[:2]
    small = Image.fromarray(image).resize((int(width * factor), int(height * factor)), Image.Resampling.BOX)
    return np.array(small.resize((width, height), Image.Resampling.NEAREST))


def jpeg_compression(image: Pixels, severity: int, generator: np.random.Generator) -> Pixels:
    """Through JPEG at quality 25 down to 7, by Pillow."""
    del generator
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "JPEG", quality=_JPEG[severity - 1])
    return np.array(Image.open(buffer))


def elastic_transform(image: Pixels, severity: int, generator: np.random.Generator) -> Pixels:
    """Pixels displaced by smooth random fields of a few pixels."""
    height, width = image.shape[:2]
    reach = height * 0.005
    strength = _ELASTIC[severity - 1]
    across = _smooth(generator.uniform(-reach, reach, size=(height, width)), strength)
    down = _smooth(generator.uniform(-reach, reach, size=(height, width)), strength)
    # Four bytes a pixel, so that a pixel is fetched as one number.
    words = cv2.cvtColor(image, cv2.COLOR_RGB2RGBA).view(np.uint32).reshape(-1)
    values = np.empty(image.shape, dtype=np.float32)
    for part in blocks(height, 4 * width, 2 * VALUES):
        row = np.arange(part.start, part.stop)[:, np.newaxis] + down[part].astype(np.float64)
        column = np.arange(width) + across[part].astype(np.float64)
        fetched = _fetched(words, width, neighbours(row, height), neighbours(column, width))
        values[part] = cv2.cvtColor(fetched, cv2.COLOR_RGBA2RGB)

    def exactly(row: npt.NDArray[np.intp], column: npt.NDArray[np.intp]) -> npt.NDArray[np.float32]:
        rows = neighbours(row + down[row, column].astype(np.float64), height)
        columns = neighbours(column + across[row, column].astype(np.float64), width)
        # Between four pixels of one colour lies that colour; photographs have many of them.
        value = _THROUGH_SINGLE[image[rows.before, columns.before]]
        corners = [
            words[r * width + c] for r in (rows.before, rows.after) for c in (columns.before, columns.after)
        ]
        mixed = np.flatnonzero(np.any([corner != corners[0] for corner in corners[1:]], axis=0))
        between = interpolated(cv2.LUT(image, _SINGLE), rows.at(mixed), columns.at(mixed)).astype(np.float32)
        value[mixed] = np.clip(between, 0, 1) * 255
        return value

    return truncate(values, exactly, _ELASTIC_MARGIN)


def _fetched(words: npt.NDArray[np.uint32], width: int, rows: Axis, columns: Axis) -> npt.NDArray[np.float32]:
    """A picture at places between its pixels, in single precision.

    Args:
        words: its pixels, four bytes in one number; flat.
        width: of the picture.
        rows, columns: the places, arrays (height, width) of the result.

    Returns:
        float32 array (height, width, 4), 0..255.
    """

    def pixels(row: npt.NDArray[np.intp], column: npt.NDArray[np.intp]) -> npt.NDArray[np.float32]:
        place = row * width
        place += column
        return words.take(place).view(np.uint8).reshape(*row.shape, 4).astype(np.float32)

    right_share = cv2.merge([columns.weight_after.astype(np.float32)] * 4)

    def between(row: npt.NDArray[np.intp]) -> npt.NDArray[np.float32]:
        left, right = pixels(row, columns.before), pixels(row, columns.after)
        right -= left
        right *= right_share
        right += left
        return right

    result, below = between(rows.before), between(rows.after)
    below -= result
    below *= cv2.merge([rows.weight_after.astype(np.float32)] * 4)
    result += below
    return result


def _smooth(field: npt.NDArray[np.float64], strength: float) -> npt.NDArray[np.float32]:
    """A field of displacements, smoothed over a hundredth of the picture, times `strength`."""
    return blur_field(field, (field.shape[0] * 0.01, field.shape[1] * 0.01), strength)
