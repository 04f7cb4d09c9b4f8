"""Where quantisation hurts: each tensor of a quantised model against the same tensor in float.

Signal-to-quantisation-noise ratio: 10 log10(sum of x^2 / sum of (x - x')^2) in decibels, x the float value and
x' the dequantised one, over all elements and pictures. The two models see the same pictures, each runs by
itself, so noise of earlier layers is carried on: the last line is the model's own. `lost` is what a layer adds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edge.classifier import quantise
from edge.errors import InputError
from edge.preprocessing import Pixels
from edge.runtime import RUNTIMES, load_runtime, without_chatter

WEIGHTED = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")


@dataclass(frozen=True)
class Noise:
    """Quantisation noise of one tensor.

    Attributes:
        tensor: name in the float model.
        operator: what makes it, for example "CONV_2D".
        place: position of that operator in the quantised model.
        ratio: signal to noise in decibels; infinite where nothing differs.
        lost: decibels less than the noisiest input of the operator; 0 where it is not noisier.
        largest: largest absolute difference, in the tensor's unit.
    """

    tensor: str
    operator: str
    place: int
    ratio: float
    lost: float
    largest: float


def ratio(signal: float, noise: float) -> float:
    """10 log10(signal / noise) of two sums of squares, in decibels; infinite without noise."""
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal > 0 else -math.inf


def compare(
    quantised: bytes, original: bytes, pictures: Pixels, progress: Callable[[], None] | None = None
) -> tuple[Noise, ...]:
    """Run both flatbuffers and compare the tensors they have in common, worst ratio first.

    Args:
        quantised: any precision.
        original: the float32 flatbuffer of the same network.
        pictures: uint8 (n, height, width, 3).

    Raises:
        InputError: no runtime, other input sizes, or no tensor in common (another network).
    """
    ours, theirs = _open(quantised), _open(original)
    shapes = [tuple(model.get_input_details()[0]["shape"]) for model in (ours, theirs)]
    if shapes[0] != shapes[1] or shapes[0] != (1, *pictures.shape[1:]):
        raise InputError(
            f"the two models take {shapes[0]} and {shapes[1]}; give two precisions of one network"
        )
    made = {
        int(output): (place, operator)
        for place, operator in enumerate(_operators(ours))
        for output in operator["outputs"]
    }
    named = {detail["name"]: detail for detail in theirs.get_tensor_details() if detail["name"]}
    pairs = []
    for detail in ours.get_tensor_details():
        twin = named.get(detail["name"])
        if twin is None or detail["index"] not in made or tuple(twin["shape"]) != tuple(detail["shape"]):
            continue
        if np.dtype(twin["dtype"]) == np.float32:
            pairs.append((detail, twin))
    if not pairs:
        raise InputError(
            "the two models have no tensor in common; give two precisions of one network, made from the same weights"
        )
    signal, noise, largest = (np.zeros(len(pairs)) for _ in range(3))
    for picture in pictures:
        for model in (ours, theirs):
            _feed(model, picture)
        for position, (detail, twin) in enumerate(pairs):
            value = theirs.get_tensor(twin["index"]).astype(np.float64)
            difference = value - _real(ours.get_tensor(detail["index"]), detail)
            signal[position] += float((value**2).sum())
            noise[position] += float((difference**2).sum())
            largest[position] = max(largest[position], float(np.abs(difference).max()))
        if progress is not None:
            progress()
    ratios = {
        int(detail["index"]): ratio(float(signal[i]), float(noise[i])) for i, (detail, _) in enumerate(pairs)
    }
    found = []
    for position, (detail, _) in enumerate(pairs):
        place, operator = made[detail["index"]]
        before = [ratios[int(index)] for index in operator["inputs"] if int(index) in ratios]
        own = ratios[int(detail["index"])]
        lost = max(0.0, min(before) - own) if before and math.isfinite(own) else 0.0
        found.append(Noise(detail["name"], operator["op_name"], place, own, lost, float(largest[position])))
    return tuple(sorted(found, key=lambda entry: (entry.ratio, entry.place)))


def noisiest(noises: Sequence[Noise], share: float) -> tuple[str, ...]:
    """The tensors of that share (0..1) of the weighted operators that lose most themselves, at least one.

    Operators that add no noise of their own are not among them, nor is the first, which sees exact pixels.
    """
    weighted = [noise for noise in noises if noise.operator in WEIGHTED]
    count = max(1, round(share * len(weighted)))
    worst = sorted((noise for noise in weighted if noise.lost > 0), key=lambda entry: -entry.lost)
    return tuple(noise.tensor for noise in worst[:count])


def _open(flatbuffer: bytes) -> Any:
    causes = []
    # tflite-runtime has no switch to keep intermediate tensors by this name in all versions; the others have.
    for name in RUNTIMES:
        try:
            module = load_runtime(name).module
            with without_chatter():
                import warnings

                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    # Without XNNPACK: it fuses operators, whose tensors are then never written.
                    model = module.Interpreter(
                        model_content=flatbuffer,
                        experimental_preserve_all_tensors=True,
                        experimental_op_resolver_type=module.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
                    )
                model.allocate_tensors()
            return model
        except InputError as error:
            causes.append(str(error))
        except Exception as error:
            causes.append(f"{name}: {' '.join(str(error).split())[:200]}")
    raise InputError(f"no installed runtime opens the model for inspection ({'; '.join(causes)})")


def _operators(model: Any) -> list[dict[str, Any]]:
    operators: list[dict[str, Any]] = model._get_ops_details()
    return operators


def _feed(model: Any, picture: Pixels) -> None:
    detail = model.get_input_details()[0]
    scale, zero_point = detail["quantization"]
    values = picture[np.newaxis].astype(np.float32)
    if np.dtype(detail["dtype"]) != np.float32:
        values = quantise(values, scale, zero_point, np.dtype(detail["dtype"]).name)
    model.set_tensor(detail["index"], values)
    model.invoke()


def _real(values: Any, detail: dict[str, Any]) -> Any:
    if np.issubdtype(values.dtype, np.floating):
        return values.astype(np.float64)
    scale, zero_point = detail["quantization"]
    return scale * (values.astype(np.float64) - zero_point)
