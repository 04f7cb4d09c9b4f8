"""Weather: snow, frost, fog, brightness, spatter."""

from __future__ import annotations

from functools import lru_cache

import cv2
import numpy as np
import numpy.typing as npt
from scipy import ndimage

from bench.corruption import gaussian
from bench.corruption.block import blocks
from bench.corruption.blur import TRAIL_MARGIN, smear, trail
from bench.corruption.colour import adjust, unit_saturation
from bench.corruption.interpolation import zoomed
from bench.corruption.package import read_file
from bench.corruption.truncation import Exactly, truncate
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

# Red, green, blue.
_WATER = tuple(np.float32(level / 255.0) for level in (175, 238, 238))
_MUD = tuple(level / 255.0 for level in (63, 42, 20))

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
    ice = ice[top : top + height, left : left + width]
    image_part, ice_part = np.arange(256) * np.float64(of_image), np.arange(256) * np.float64(of_ice)
    result = np.empty_like(image)
    for rows in blocks(height, 3 * width):
        total = cv2.LUT(image[rows], image_part)
        total += cv2.LUT(ice[rows], ice_part)
        result[rows] = np.minimum(total, 255, out=total)
    return result


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
    result = np.empty_like(image)
    for rows in blocks(height, 3 * width):
        total = cv2.LUT(image[rows], _UNIT)
        total += cv2.merge([haze[rows]] * 3)
        total *= brightest
        total /= brightest + strength
        np.clip(total, 0, 1, out=total)
        total *= 255
        result[rows] = total
    return result


def _plasma(size: int, decay: float, generator: np.random.Generator) -> npt.NDArray[np.float64]:
    """Diamond-square heights 0..1, float64 (size, size); `size` is a power of two and wraps around."""
    heights = np.empty((size, size))
    heights[0, 0] = 0
    step, wobble = size, 100.0

    while step >= 2:
        half = step // 2
        corners = np.ascontiguousarray(heights[::step, ::step])
        beside = _with_neighbour(corners, 1, 1)
        below = _with_neighbour(corners, 1, 0)
        square = _with_neighbour(below, 1, 1)
        centres = _wobbled(square, wobble, generator)
        heights[half::step, half::step] = centres
        heights[::step, half::step] = _wobbled(_with_neighbour(centres, -1, 0) + beside, wobble, generator)
        heights[half::step, ::step] = _wobbled(_with_neighbour(centres, -1, 1) + below, wobble, generator)
        step = half
        wobble /= decay
    heights -= heights.min()
    heights /= heights.max()
    return heights


def _wobbled(
    total: npt.NDArray[np.float64], wobble: float, generator: np.random.Generator
) -> npt.NDArray[np.float64]:
    total /= 4
    noise = generator.uniform(-wobble, wobble, total.shape)
    noise *= wobble
    total += noise
    return total


def _with_neighbour(field: npt.NDArray[np.float64], step: int, axis: int) -> npt.NDArray[np.float64]:
    """Each value plus the next one (step 1) or the one before (step -1) along an axis, which is a ring."""
    total = field.copy()
    if axis == 1:
        total, field = total.T, field.T
    if step == 1:
        total[:-1] += field[1:]
        total[-1] += field[0]
    else:
        total[1:] += field[:-1]
        total[0] += field[-1]
    return total.T if axis == 1 else total


def snow(image: Pixels, severity: int, generator: np.random.Generator) -> Pixels:
    """Enlarged, cut and smeared normal noise as snowfall, once as it is and once turned, over a paler image."""
    mean, spread, factor, least, radius, sigma, share = _SNOW[severity - 1]
    height, width = image.shape[:2]
    noise = generator.normal(size=(height, width), loc=mean, scale=spread)
    flakes = _enlarged(noise, factor)
    flakes[flakes < least] = 0
    np.clip(flakes, 0, 1, out=flakes)
    path = trail(radius, sigma, generator.uniform(-135, -45), *flakes.shape)
    fall = np.empty((height, width), dtype=np.uint8)
    for rows, fallen, exactly in smear(flakes, path, height):
        fallen *= 255
        fall[rows] = truncate(fallen, _rounded(exactly), TRAIL_MARGIN, offset=0.5)[:, :width]
    turned = np.ascontiguousarray(fall[::-1, ::-1])
    result = np.empty_like(image)
    for rows in blocks(height, 3 * width):
        unit = image[rows].astype(np.float32)
        unit /= np.float32(255)
        pale = cv2.cvtColor(unit, cv2.COLOR_RGB2GRAY)
        pale *= np.float32(1.5)
        pale += np.float32(0.5)
        paler = np.maximum(unit, cv2.merge([pale] * 3))
        paler *= np.float32(1 - share)
        unit *= np.float32(share)
        unit += paler
        total = unit.astype(np.float64)
        total += cv2.merge([cv2.LUT(fall[rows], _UNIT)] * 3)
        total += cv2.merge([cv2.LUT(turned[rows], _UNIT)] * 3)
        np.clip(total, 0, 1, out=total)
        total *= 255
        result[rows] = total
    return result


def _rounded(exactly: Exactly) -> Exactly:
    """Values 0..1 as whole numbers to 255, rounded."""

    def rounded(row: npt.NDArray[np.intp], column: npt.NDArray[np.intp]) -> npt.NDArray[np.float64]:
        return np.asarray(np.round(exactly(row, column) * 255))

    return rounded


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


def spatter(image: Pixels, severity: int, generator: np.random.Generator) -> Pixels:
    """Drops of water (severity 1 to 3) or mud (4 and 5), where smoothed normal noise is highest.

    A small picture may get no drop at all. The package then divides zero by zero; here the picture stays as it is.
    """
    mean, spread, sigma, least, share, mud = _SPATTER[severity - 1]
    noise = generator.normal(size=image.shape[:2], loc=mean, scale=spread)
    liquid = _smoothed(noise, sigma, least)
    result = np.empty_like(image)
    if mud:
        film = ndimage.gaussian_filter((liquid > least).astype(np.float32), share, mode="nearest")
        film[film < 0.8] = 0
    else:
        liquid[liquid < least] = 0
        film = _water(liquid, share)
    for rows in blocks(image.shape[0], 4 * image.shape[1]):
        unit = image[rows].astype(np.float32)
        unit /= np.float32(255)
        if mud:
            unit *= cv2.merge([1 - film[rows]] * 3)
            brown = film[rows].astype(np.float64)
            total = unit + cv2.merge([brown * level for level in _MUD])
        else:
            total = unit + cv2.merge([film[rows] * level for level in _WATER])
        np.clip(total, 0, 1, out=total)
        total *= 255
        result[rows] = total
    return result


def _smoothed(noise: npt.NDArray[np.float64], sigma: float, least: float) -> npt.NDArray[np.float64]:
    """The noise through a Gaussian filter; which values reach `least`, and bytes made of them, are SciPy's."""
    weights = gaussian.kernel(sigma, 4.0)
    liquid = cv2.sepFilter2D(noise, cv2.CV_64F, weights, weights, borderType=cv2.BORDER_REPLICATE)
    high, low = liquid + gaussian.MARGIN / 255, liquid - gaussian.MARGIN / 255
    if np.array_equal(high < least, low < least) and np.array_equal(
        (high * 255).astype(np.int32), (low * 255).astype(np.int32)
    ):
        return np.asarray(liquid)
    return np.asarray(ndimage.gaussian_filter(noise, sigma, mode="nearest"))


def _water(liquid: npt.NDArray[np.float64], share: float) -> npt.NDArray[np.float32]:
    """How much water lies on each pixel: the drops are brightest towards their lower right edges."""
    drops = (liquid * 255).astype(np.uint8)
    distance = cv2.distanceTransform(255 - cv2.Canny(drops, 50, 150), cv2.DIST_L2, 5)
    distance = cv2.threshold(distance, 20, 20, cv2.THRESH_TRUNC)[1]
    relief = cv2.equalizeHist(cv2.blur(distance, (3, 3)).astype(np.uint8))
    relief = cv2.filter2D(relief, cv2.CV_8U, np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]]))
    film = (drops * cv2.blur(relief, (3, 3)).astype(np.float32)).astype(np.float32)
    most = film.max()
    if most > 0:
        film /= most
    return np.asarray(film * np.float32(share))
