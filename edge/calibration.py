"""Calibrated confidence: temperature scaling, and the threshold under which a decision is `uncertain`.

Guo et al. 2017, "On calibration of modern neural networks": softmax(z / T) with one T for all classes. Of the
probabilities p = softmax(z) that a model file gives, log p differs from z by a constant only, so softmax(log p / T)
is the same. A quantised probability of 0 stands for anything up to half a step; it is taken as half a step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edge.classifier import Prediction
from edge.contract import Contract
from edge.errors import InputError

TEMPERATURE = "temperature"
UNCERTAIN_BELOW = "uncertain_below"
"""Keys in `Contract.extra`."""

_TEMPERATURES = (1e-3, 1e3)
_FLOOR = 1e-7  # of float outputs: below, float32 softmax gives little but rounding


@dataclass(frozen=True)
class Calibration:
    """Temperature (above 0; 1 changes nothing), the threshold (0..1), and whether the model carries them."""

    temperature: float = 1.0
    uncertain_below: float = 0.5
    measured: bool = False


def calibration_of(contract: Contract, where: Path | str = "the model") -> Calibration:
    """What a model carries; for one that was never calibrated, temperature 1 and threshold 0.5.

    Args:
        contract: the model's contract.
        where: what to call the file in a message.

    Raises:
        InputError: a value is not a number or out of range.
    """
    extra = contract.extra
    if TEMPERATURE not in extra and UNCERTAIN_BELOW not in extra:
        return Calibration()
    # Beyond these temperatures every picture would get the same certainty, none or all.
    temperature = _number(extra, TEMPERATURE, *_TEMPERATURES, where)
    return Calibration(temperature, _number(extra, UNCERTAIN_BELOW, 0.0, 1.0, where), measured=True)


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


def calibrated(prediction: Prediction, calibration: Calibration, floor: float) -> Prediction:
    """The same prediction with the probabilities that a model's calibration makes of them; the order stays.

    Args:
        prediction: as the model file gives it.
        calibration, floor: what `calibration_of` and `floor_of` say of the model.
    """
    values = rescale(prediction.probabilities, calibration.temperature, floor)
    return replace(prediction, probabilities=tuple(float(value) for value in values))


def _number(extra: Mapping[str, Any], key: str, minimum: float, maximum: float, where: Path | str) -> float:
    value: Any = extra.get(key)
    if type(value) not in (int, float) or not minimum <= value <= maximum:
        raise InputError(
            f"{where}: its contract is wrong: extra.{key} must be a number from {minimum:g} to {maximum:g}, not"
            f" {ascii(value)[:60]}; make it again with: mango-convert calibrate"
        )
    return float(value)
