"""The networks, as Keras models that take plain RGB 0..255 and give class probabilities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from convert.backend import keras
from edge.errors import InputError
from edge.preprocessing import InputSpec


def lcnn(classes: int, height: int = 224, width: int = 224) -> keras.Model:
    """LCNN as published: six times convolution 3x3 (valid, ReLU) and max-pool 2x2, then dense 64 and softmax.

    171,784 parameters at 224x224x3 with 8 classes; takes float32 RGB 0..255, unscaled.
    """
    layers: list[Any] = [keras.Input((height, width, 3), name="photograph")]
    for filters in (32, 64, 64, 64, 64, 64):
        layers += [keras.layers.Conv2D(filters, 3, activation="relu"), keras.layers.MaxPooling2D(2)]
    layers += [
        keras.layers.Flatten(),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(classes, activation="softmax", name="probabilities"),
    ]
    return keras.Sequential(layers, name="lcnn")


ARCHITECTURES: dict[str, Callable[[int, int, int], keras.Model]] = {"lcnn": lcnn}


def build(name: str, classes: int, spec: InputSpec) -> keras.Model:
    """Build the architecture called `name` with fresh weights (seeded by `keras.utils.set_random_seed`).

    Raises:
        InputError: the name is unknown or the input is too small for the network.
    """
    if name not in ARCHITECTURES:
        raise InputError(f"architecture {name!r} is not known; choose {', '.join(ARCHITECTURES)}")
    try:
        return ARCHITECTURES[name](classes, spec.height, spec.width)
    except ValueError as error:
        cause = str(error).splitlines()[0]
        raise InputError(f"{name} cannot be built for {spec.height}x{spec.width} pixels ({cause})") from None


def multiply_accumulates(model: keras.Model) -> int:
    """Multiply-accumulates of one inference: those of convolutions and dense layers, biases not counted."""
    total = 0
    for layer in model.layers:
        if isinstance(layer, keras.Model):
            total += multiply_accumulates(layer)
        elif isinstance(layer, keras.layers.SeparableConv2D):
            height, width, channels = layer.output.shape[1:]
            rows, columns = layer.kernel_size
            wide = layer.input.shape[-1] * layer.depth_multiplier
            total += height * width * (rows * columns * wide + wide * channels)
        elif isinstance(layer, keras.layers.DepthwiseConv2D):
            height, width, channels = layer.output.shape[1:]
            total += height * width * channels * layer.kernel_size[0] * layer.kernel_size[1]
        elif isinstance(layer, keras.layers.Conv2D):
            height, width, channels = layer.output.shape[1:]
            rows, columns = layer.kernel_size
            total += height * width * channels * rows * columns * layer.input.shape[-1] // layer.groups
        elif isinstance(layer, keras.layers.Dense):
            positions = 1
            for size in layer.output.shape[1:-1]:
                positions *= size
            total += positions * layer.input.shape[-1] * layer.output.shape[-1]
    return total
