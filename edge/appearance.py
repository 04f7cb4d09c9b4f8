"""What the training photographs look like, as a whole: the measure behind the gate "no leaf in view".

A picture is summarised by a few numbers on colour and texture, and compared with the photographs that the model
was trained on by the Mahalanobis distance (Mahalanobis 1936; as a test for foreign input: Lee et al. 2018, "A
simple unified framework for detecting out-of-distribution samples"). A far picture shows no leaf as the model
knows leaves. The test is one of likeness: it cannot tell a leaf photographed in a way that the model never saw
from no leaf at all, and a scene that happens to have a leaf's colours and smoothness passes. `mango-bench gate`
measures both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from edge.contract import Contract
from edge.errors import InputError
from edge.preprocessing import Pixels

EXTRA = "appearance"
"""Key of the measure in `Contract.extra`."""

HUES = 12
GREYS = 5
_GREY_BELOW = 48  # saturation, of 255: less is a grey, and its hue is noise
_REDUCTION = 8
_COARSE = 4

FEATURES = HUES + GREYS + 4 + 4

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Appearance:
    """Mean (FEATURES,) and inverse covariance (FEATURES, FEATURES) of `features` of the training photographs.

    `limit` is the squared distance beyond which a picture is foreign.
    """

    mean: Floats
    inverse_covariance: Floats
    limit: float

    def distance(self, summary: Floats) -> float:
        """Squared Mahalanobis distance of a picture's `features`, 0 or more."""
        difference = summary - self.mean
        return float(difference @ self.inverse_covariance @ difference)


def features(fitted: Pixels) -> Floats:
    """Summarise a picture that has the network's input size.

    Args:
        fitted: uint8 (height, width, 3), RGB, at least 8 pixels a side.

    Returns:
        float64 (FEATURES,): square roots of the shares of 12 hues and, for pale pixels, 5 brightnesses
        (square roots: Hellinger's distance between histograms), of the picture reduced 8 times; mean and standard
        deviation of luminance and of saturation, 0..1; log(1 + mean absolute difference) of neighbours down
        and across, of the luminance as it is and reduced 4 times.
    """
    image = Image.fromarray(fitted)
    grey = image.convert("L")
    small = image.reduce(_REDUCTION)
    hue, saturation, value = (
        np.asarray(band, dtype=np.int64).ravel() for band in small.convert("HSV").split()
    )
    pale = saturation < _GREY_BELOW
    hues = np.bincount(hue[~pale] * HUES // 256, minlength=HUES)
    greys = np.bincount(value[pale] * GREYS // 256, minlength=GREYS)
    luminance = np.asarray(small.convert("L"), dtype=np.float64) / 255
    strength = saturation / 255
    whole = (luminance.mean(), luminance.std(), strength.mean(), strength.std())
    texture: list[float] = []
    for picture in (grey, grey.reduce(_COARSE)):
        values = np.asarray(picture, dtype=np.int16)
        # 32-bit sums are exact here and need no copy in 64-bit floating point.
        texture += [
            np.abs(steps).sum(dtype=np.int32) / steps.size
            for steps in (values[1:] - values[:-1], values[:, 1:] - values[:, :-1])
        ]
    return np.concatenate([np.sqrt(np.concatenate([hues, greys]) / hue.size), whole, np.log1p(texture)])


def appearance_of(contract: Contract, where: Path | str = "the model") -> Appearance | None:
    """The measure that a model carries; None where it carries none.

    Args:
        contract: the model's contract.
        where: what to call the file in a message.

    Raises:
        InputError: it is malformed.
    """
    values = contract.extra.get(EXTRA)
    if values is None:
        return None
    try:
        mean = np.asarray(values["mean"], dtype=np.float64)
        inverse = np.asarray(values["inverse_covariance"], dtype=np.float64)
        limit = float(values["limit"])
    except (TypeError, KeyError, ValueError, OverflowError):
        raise InputError(f"{where}: {_WRONG}") from None
    if mean.shape != (FEATURES,) or inverse.shape != (FEATURES, FEATURES):
        raise InputError(f"{where}: {_WRONG}")
    if not (np.isfinite(mean).all() and np.isfinite(inverse).all() and math.isfinite(limit) and limit > 0):
        raise InputError(f"{where}: {_WRONG}")
    return Appearance(mean, inverse, limit)


def appearance_to_json(appearance: Appearance) -> Mapping[str, Any]:
    """Plain JSON values with 7 significant digits, which is more than the distances need."""
    return {
        "mean": [float(f"{value:.7g}") for value in appearance.mean],
        "inverse_covariance": [
            [float(f"{value:.7g}") for value in row] for row in appearance.inverse_covariance
        ],
        "limit": float(f"{appearance.limit:.7g}"),
    }


_WRONG = "its contract is wrong: extra.appearance is malformed; make it again with: mango-convert calibrate"
