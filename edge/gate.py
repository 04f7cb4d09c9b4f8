"""Quality gates: whether a frame is worth a decision, and if not, why.

All are judged on the picture as the network sees it (fitted to its input), so the limits hold for every camera.
The limits of light and sharpness lie outside everything in MangoLeafDB (3,334 photographs at 224x224): mean
luminance there is 92..213, at most 38 % of the pixels are clipped, and the Laplacian's variance is at least 19.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image

from edge.appearance import Appearance, features
from edge.preprocessing import Pixels


@dataclass(frozen=True)
class Limits:
    """Where the gates stand.

    Attributes:
        dark: mean luminance (0..255) below which a frame is too dark: a covered lens, night.
        bright: mean luminance above which it is too bright.
        clipped: share of pixels at 250 or more above which it is too bright, 0..1: what is clipped is lost.
        blurred: variance of the Laplacian of the luminance below which it is too blurred (Pech-Pacheco et al.
            2000, "Diatom autofocusing in brightfield microscopy"; 4-neighbour kernel).
        torn: number of equal rows in a run from which a frame is torn (see `torn_rows`): more than a row of
            blocks (16), which strong JPEG compression may leave flat.
    """

    dark: float = 40.0
    bright: float = 235.0
    clipped: float = 0.5
    blurred: float = 8.0
    torn: int = 20


LIMITS = Limits()
_CLIPPED_FROM = 250
_LEVELS = np.arange(256, dtype=np.float64)
_FLAT = 1.0  # standard deviation of luminance under which there is no picture at all


def gate(
    pixels: Pixels, fitted: Pixels, appearance: Appearance | None = None, limits: Limits = LIMITS
) -> str:
    """Judge a decoded frame.

    Args:
        pixels: the frame as decoded, uint8 (height, width, 3).
        fitted: the same at the network's input size.
        appearance: what the training photographs look like; None leaves the gate "no-leaf" out.
        limits: of the others.

    Returns:
        "" when it passes, else the first that applies of "dark", "bright", "empty" (one colour all over), "torn",
        "blurred", "no-leaf".
    """
    grey = Image.fromarray(fitted).convert("L")
    counts = np.array(grey.histogram(), dtype=np.float64) / (grey.width * grey.height)
    mean = float(counts @ _LEVELS)
    if mean < limits.dark:
        return "dark"
    if mean > limits.bright or float(counts[_CLIPPED_FROM:].sum()) > limits.clipped:
        return "bright"
    if float(counts @ (_LEVELS - mean) ** 2) < _FLAT**2:
        return "empty"
    if torn_rows(pixels) >= limits.torn:
        return "torn"
    if sharpness(np.asarray(grey)) < limits.blurred:
        return "blurred"
    if appearance is not None and appearance.distance(features(fitted)) > appearance.limit:
        return "no-leaf"
    return ""


def sharpness(luminance: Pixels) -> float:
    """Variance of the 4-neighbour Laplacian of a picture (height, width) uint8, 0 or more."""
    values = luminance.astype(np.int16)
    laplacian = 4 * values[1:-1, 1:-1]
    laplacian -= values[:-2, 1:-1]
    laplacian -= values[2:, 1:-1]
    laplacian -= values[1:-1, :-2]
    laplacian -= values[1:-1, 2:]
    return float(laplacian.var())


def torn_rows(pixels: Pixels) -> int:
    """The longest run of rows that equal one another: what a decoder leaves where data were missing.

    A sensor's rows differ by its noise (in half of MangoLeafDB, 1,667 photographs, no run outside white has more
    than 8 rows), except where they are clipped: white rows do not count, nor black bars above and below.

    Args:
        pixels: uint8 (height, width, 3).

    Returns:
        0 where no two neighbouring rows are equal.
    """
    # A few columns tell nearly always, and cost next to nothing.
    probe = pixels[:, :: max(1, pixels.shape[1] // 16)]
    if _longest((probe[1:] == probe[:-1]).all(axis=(1, 2))) < 2:
        return 0
    equal = (pixels[1:] == pixels[:-1]).all(axis=(1, 2))
    level = pixels.mean(axis=(1, 2))
    equal &= level[1:] < _CLIPPED_FROM
    inner = np.flatnonzero(level > 255 - _CLIPPED_FROM)
    if len(inner):
        equal[: inner[0]] = equal[inner[-1] :] = False
    return _longest(equal)


def _longest(equal: npt.NDArray[np.bool_]) -> int:
    """How many rows the longest run of true values joins; 0 for none."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], equal.astype(np.int8), [0]])))
    return int((edges[1::2] - edges[::2]).max()) + 1 if len(edges) else 0
