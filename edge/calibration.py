"""Calibrated confidence: temperature scaling, and the threshold under which a decision is `uncertain`.

Guo et al. 2017, "On calibration of modern neural networks": softmax(z / T) with one T for all classes. Of the
probabilities p = softmax(z) that a model file gives, log p differs from z by a constant only, so softmax(log p / T)
is the same. A quantised probability of 0 stands for anything up to half a step; it is taken as half a step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from edge.classifier import Prediction
from edge.contract import Contract
from edge.errors import InputError

TEMPERATURE = "temperature"
UNCERTAIN_BELOW = "uncertain_below"
"""Keys in `Contract.extra`."""

_FLOOR = 1e-7  # of float outputs: below, float32 softmax gives little but rounding


@dataclass(frozen=True)
class Calibration:
    """Temperature (above 0; 1 changes nothing), the threshold (0..1), and whether the model carries them."""

    temperature: float = 1.0
    uncertain_below: float = 0.5
    measured: bool = False


def calibration_of(contract: Contract) -> Calibration:
    """What a model carries; for one that was never calibrated, temperature 1 and threshold 0.5.

    Raises:
        InputError: a value is not a number or out of range.
    """
    extra = contract.extra
    if TEMPERATURE not in extra and UNCERTAIN_BELOW not in extra:
        return Calibration()
    values = [_number(extra, key) for key in (TEMPERATURE, UNCERTAIN_BELOW)]
    if values[0] == 0 or values[1] > 1:
        raise InputError(f"the model's contract has a {_OUT_OF_RANGE}")
    return Calibration(values[0], values[1], measured=True)


def floor_of(contract: Contract) -> float:
    """The probability that an output of 0 is taken for: half a quantisation step, or 1e-7 for float outputs."""
    tensor = contract.output_tensor
    return _FLOOR if tensor.dtype == "float32" else tensor.scale / 2


def rescale(probabilities: npt.ArrayLike, temperature: float, floor: float) -> npt.NDArray[np.float64]:
    """softmax(log(max(p, floor)) / temperature) over the last axis, float64, each row summing to 1."""
    logits = np.log(np.maximum(np.asarray(probabilities, dtype=np.float64), floor)) / temperature
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    scaled: npt.NDArray[np.float64] = powers / powers.sum(axis=-1, keepdims=True)
    return scaled


def calibrated(prediction: Prediction, contract: Contract) -> Prediction:
    """The same prediction with the probabilities that the model's calibration makes of them; the order stays.

    Raises:
        InputError: as `calibration_of`.
    """
    values = rescale(prediction.probabilities, calibration_of(contract).temperature, floor_of(contract))
    return replace(prediction, probabilities=tuple(float(value) for value in values))


_OUT_OF_RANGE = "temperature or threshold out of range; make them again with: mango-convert calibrate"


def _number(extra: Mapping[str, Any], key: str) -> float:
    value = extra.get(key)
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < math.inf:
        raise InputError(f"the model's contract has a {_OUT_OF_RANGE}")
    return float(value)
