"""Quality gates: whether a frame is worth a decision, and if not, why.

All are judged on the picture as the network sees it (fitted to its input), so the limits hold for every camera.
The limits of light and sharpness lie outside everything in MangoLeafDB (3,334 photographs at 224x224): mean
luminance there is 92..213, at most 38 % of the pixels are clipped, and the Laplacian's variance is at least 19.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
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
        torn: share of the height, counted from below, whose rows all equal one another, from which a frame
            is torn: what a decoder leaves where the data ended. 0..1.
    """

    dark: float = 40.0
    bright: float = 235.0
    clipped: float = 0.5
    blurred: float = 8.0
    torn: float = 0.125


LIMITS = Limits()
_CLIPPED_FROM = 250
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
        "" when it passes, else the first that applies of "empty" (one colour all over that is neither dark nor
        bright), "dark", "bright", "torn", "blurred", "no-leaf".
    """
    luminance = np.asarray(Image.fromarray(fitted).convert("L"))
    mean = float(luminance.mean())
    if mean < limits.dark:
        return "dark"
    if mean > limits.bright or float((luminance >= _CLIPPED_FROM).mean()) > limits.clipped:
        return "bright"
    if float(luminance.std()) < _FLAT:
        return "empty"
    if torn_share(pixels) >= limits.torn:
        return "torn"
    if sharpness(luminance) < limits.blurred:
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


def torn_share(pixels: Pixels) -> float:
    """Share of the height at the bottom whose rows all equal the last one, and are not white or black, 0..1.

    A decoder whose data ended fills the rest with one row or colour. A sensor's rows differ by its noise,
    except where they are clipped.
    """
    last = pixels[-1]
    if float(last.mean()) >= _CLIPPED_FROM or float(last.mean()) <= 255 - _CLIPPED_FROM:
        return 0.0
    height = len(pixels)
    # Most frames differ in the row next to the last: look further only where they do not.
    same = 1
    while same < height and np.array_equal(pixels[height - 1 - same], last):
        same += 1
    return same / height if same > 1 else 0.0
