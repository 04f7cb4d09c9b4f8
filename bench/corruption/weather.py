"""Weather: snow, frost, fog, brightness, spatter."""

from __future__ import annotations

from functools import lru_cache

import cv2
import numpy as np
import numpy.typing as npt

from bench.corruption.blur import smear, trail
from bench.corruption.colour import adjust, unit_saturation
from bench.corruption.interpolation import zoomed
from bench.corruption.package import read_file
from bench.corruption.truncation import truncate
from edge.errors import InputError
from edge.preprocessing import Pixels

_SNOW = (
    (0.1, 0.3, 3, 0.5, 10, 4, 0.8),
    (0.2, 0.3, 2, 0.5, 12, 4, 0.7),
    (0.55, 0.3, 4, 0.9, 12, 8, 0.7),
    (0.55, 0.3, 4.5, 0.85, 12, 8, 0.65),
    (0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
)
_FROST = ((1, 0.4), (0.8, 0.6), (0.7, 0.7), (0.65, 0.7), (0.6, 0.75))
_FOG = ((1.5, 2), (2.0, 2), (2.5, 1.7), (2.5, 1.5), (3.0, 1.4))
_BRIGHTNESS = (0.1, 0.2, 0.3, 0.4, 0.5)
_SPATTER = (
    (0.65, 0.3, 4, 0.69, 0.6, 0),
    (0.65, 0.3, 3, 0.68, 0.6, 0),
    (0.65, 0.3, 2, 0.68, 0.5, 0),
    (0.65, 0.3, 1, 0.65, 1.5, 1),
    (0.67, 0.4, 1, 0.65, 1.5, 1),
)

_UNIT = np.arange(256) / 255.0

_FROST_FILES = ("frost1.png", "frost2.png", "frost3.png", "frost4.jpg", "frost5.jpg")
"""The package draws from the first five of its six pictures; so does this."""


def brightness(image: Pixels, severity: int, generator: np.random.Generator) -> Pixels:
    """HSV value plus 0.1 to 0.5."""
    del generator
    return adjust(image, unit_saturation(), np.clip(_UNIT + _BRIGHTNESS[severity - 1], 0, 1))


def frost(image: Pixels, severity: int, generator: np.random.Generator) -> Pixels:
    """A random part of one of five pictures of frost, laid over the image."""
    height, width = image.shape[:2]
    number = int(generator.integers(len(_FROST_FILES)))
    ice = _ice(number, height, width)
    top = int(generator.integers(0, ice.shape[0] - height))
    left = int(generator.integers(0, ice.shape[1] - width))
    of_image, of_ice = _FROST[severity - 1]
    result = image * np.float64(of_image)
    result += ice[top : top + height, left : left + width] * np.float64(of_ice)
    np.minimum(result, 255, out=result)
    return result.astype(np.uint8)


@lru_cache(maxsize=len(_FROST_FILES))
def _picture(number: int) -> Pixels:
    data = np.frombuffer(read_file(f"frost/{_FROST_FILES[number]}"), dtype=np.uint8)
    picture = cv2.imdecode(data, cv2.IMREAD_COLOR)
    if picture is None:
        raise InputError(f"this OpenCV cannot decode {_FROST_FILES[number]}; install opencv-python-headless")
    return np.asarray(picture)


@lru_cache(maxsize=len(_FROST_FILES))
def _ice(number: int, height: int, width: int) -> Pixels:
    """A frost picture, RGB, enlarged to 1.1 times itself or to 1.1 times what covers the image."""
    picture = _picture(number)
    rows, columns = picture.shape[:2]
    scale = 1.0
    if rows < height and columns < width:
        scale = max(height / rows, width / columns)
    elif rows < height:
        scale = height / rows
    elif columns < width:
        scale = width / columns
    scale *= 1.1
    size = (int(np.ceil(columns * scale)), int(np.ceil(rows * scale)))
    return np.ascontiguousarray(cv2.resize(picture, dsize=size, interpolation=cv2.INTER_CUBIC)[..., ::-1])


def fog(image: Pixels, severity: int, generator: np.random.Generator) -> Pixels:
    """A plasma fractal added to the image, which is darkened so that its brightest value stays."""
    strength, decay = _FOG[severity - 1]
    height, width = image.shape[:2]
    size = 1 << (max(height, width) - 1).bit_length()
    haze = _plasma(size, decay, generator)[:height, :width]
    haze = haze * strength
    brightest = float(_UNIT[image.max()])
    result = image / 255.0
    result += haze[..., np.newaxis]
    result *= brightest
    result /= brightest + strength
    np.clip(result, 0, 1, out=result)
    result *= 255
    return result.astype(np.uint8)


def _plasma(size: int, decay: float, generator: np.random.Generator) -> npt.NDArray[np.float64]:
    """Diamond-square heights 0..1, float64 (size, size); `size` is a power of two and wraps around."""
    heights = np.empty((size, size))
    heights[0, 0] = 0
    step, wobble = size, 100.0

    def wobbled(total: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return total / 4 + wobble * generator.uniform(-wobble, wobble, total.shape)

    while step >= 2:
        half = step // 2
        corners = heights[::step, ::step]
        square = corners + np.roll(corners, -1, axis=0)
        square += np.roll(square, -1, axis=1)
        heights[half::step, half::step] = wobbled(square)
        centres = heights[half::step, half::step]
        above = centres + np.roll(centres, 1, axis=0)
        heights[::step, half::step] = wobbled(above + (corners + np.roll(corners, -1, axis=1)))
        before = centres + np.roll(centres, 1, axis=1)
        heights[half::step, ::step] = wobbled(before + (corners + np.roll(corners, -1, axis=0)))
        step = half
        wobble /= decay
    heights -= heights.min()
    return heights / heights.max()


def snow(image: Pixels, severity: int, generator: np.random.Generator) -> Pixels:
    """Enlarged, cut and smeared normal noise as snowfall, once as it is and once turned, over a paler image."""
    mean, spread, factor, least, radius, sigma, share = _SNOW[severity - 1]
    height, width = image.shape[:2]
    noise = generator.normal(size=(height, width), loc=mean, scale=spread)
    flakes = _enlarged(noise, factor)
    flakes[flakes < least] = 0
    np.clip(flakes, 0, 1, out=flakes)
    fallen, exactly = smear(flakes, trail(radius, sigma, generator.uniform(-135, -45), *flakes.shape))
    fallen *= 255
    bytes_of_snow = truncate(
        fallen[:height, :width], lambda row, column: np.round(exactly(row, column) * 255), offset=0.5
    )
    fall = cv2.LUT(bytes_of_snow, _UNIT)[..., np.newaxis]
    unit = image.astype(np.float32) / np.float32(255)
    pale = cv2.cvtColor(unit, cv2.COLOR_RGB2GRAY)[..., np.newaxis] * np.float32(1.5) + np.float32(0.5)
    unit = np.float32(share) * unit + np.float32(1 - share) * np.maximum(unit, pale)
    result = unit + fall
    result += fall[::-1, ::-1]
    np.clip(result, 0, 1, out=result)
    result *= 255
    return result.astype(np.uint8)


def _enlarged(noise: npt.NDArray[np.float64], factor: float) -> npt.NDArray[np.float64]:
    """The middle of a field, enlarged to its size or a little more."""
    down, right = (zoomed(size, factor) for size in noise.shape)
    result = np.zeros((len(down.before), len(right.before)))
    for row, row_weight in ((down.before, down.weight_before), (down.after, down.weight_after)):
        rows = noise[row] * row_weight[:, np.newaxis]
        for column, column_weight in ((right.before, right.weight_before), (right.after, right.weight_after)):
            part = rows.take(column, axis=1)
            part *= column_weight
            result += part
    return result
