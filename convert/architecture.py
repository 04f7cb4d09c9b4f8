"""The networks, as Keras models that take plain RGB 0..255 and give class probabilities.

Each network of `keras.applications` expects its own input (caffe's BGR less the ImageNet mean, or -1..1). That
convention is one convolution 1x1 with fixed weights at the graph's entrance, so every exported model takes
the same photographs and a device needs one code path. A convolution, since it is exact in int8: its weights
are powers of the scale or zero, quantised channel by channel, and every runtime has a fast kernel for it. It
cannot be folded into the next layer, which pads its own input with zeros, that is, with the mean.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from convert.backend import keras
from edge.errors import InputError
from edge.preprocessing import InputSpec, Pixels

CONVENTION = "input_convention"
"""Name of the layer that turns RGB 0..255 into what the network was trained on."""


@dataclass(frozen=True)
class Convention:
    """What a network takes, from RGB 0..255: channels in `order` of RGB positions, times `scale`, plus `offset`."""

    text: str
    order: tuple[int, int, int] = (0, 1, 2)
    scale: float = 1.0
    offset: tuple[float, float, float] = (0.0, 0.0, 0.0)


CONVENTIONS = {
    "rgb": Convention("RGB 0..255"),
    "unit": Convention("RGB 0..1", scale=1 / 255),
    "tf": Convention("RGB -1..1", scale=1 / 127.5, offset=(-1.0, -1.0, -1.0)),
    "caffe": Convention(
        "BGR less the mean of ImageNet", order=(2, 1, 0), offset=(-103.939, -116.779, -123.68)
    ),
}
"""As `keras.applications.imagenet_utils.preprocess_input` defines "tf" and "caffe"."""

HEADS = {
    "published": "two dense layers (64 ReLU, softmax) on the flattened last map",
    "pooled": "global average, then the classes' dense layer",
    "flatten": "the classes' dense layer on the flattened last map",
    "dense": "VGG-16's own two dense layers of 4,096, then the classes' dense layer",
}
"""What stands between the last map and the probabilities."""


@dataclass(frozen=True)
class Network:
    """An architecture that is known by name.

    Attributes:
        title: as the study writes it.
        convention: key of `CONVENTIONS`.
        heads: keys of `HEADS`; the first is the default.
        application: name in `keras.applications`; None for LCNN.
        smallest: pixels a side that the network needs at least.
    """

    title: str
    convention: str
    heads: tuple[str, ...]
    application: str | None = None
    smallest: int = 32


NETWORKS = {
    # Six times a convolution 3x3 and a halving: 190 pixels leave one, 189 none.
    "lcnn": Network("LCNN", "rgb", ("published",), smallest=190),
    "resnet50": Network("ResNet-50", "caffe", ("pooled", "flatten"), "ResNet50"),
    "resnet101": Network("ResNet-101", "caffe", ("pooled", "flatten"), "ResNet101"),
    "vgg16": Network("VGG-16", "caffe", ("pooled", "flatten", "dense"), "VGG16"),
    "xception": Network("Xception", "tf", ("pooled", "flatten"), "Xception", 71),
}
"""The five networks of the study. Pooled heads by default: with its dense head VGG-16 has 512 MiB of float32
weights and fits no board with 512 MB."""


_RESIDUAL_ENDS = ("_3_bn", "_sepconv3_bn")
"""How `keras.applications` names the normalisations that residual branches of ResNet and Xception end with."""


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


def application(name: str) -> Callable[..., keras.Model]:
    """The function of `keras.applications` that builds the network's body."""
    found: Callable[..., keras.Model] = getattr(keras.applications, str(NETWORKS[name].application))
    return found


def full_name(name: str, head: str) -> str:
    """What a network's model and files are called: its name, and the head where it is not the default."""
    return name if head == NETWORKS[name].heads[0] else f"{name}-{head}"


def transfer(name: str, head: str, classes: int, height: int, width: int) -> keras.Model:
    """A network of `keras.applications` without its last layer, under its input convention, with a new head.

    The body is a model of its own inside the model, named after the network; see `body`.
    """
    backbone = application(name)(include_top=False, weights=None, input_shape=(height, width, 3), name=name)
    photograph = keras.Input((height, width, 3), name="photograph")
    values = backbone(conform(photograph, NETWORKS[name].convention))
    if head == "pooled":
        values = keras.layers.GlobalAveragePooling2D(name="pool")(values)
    else:
        values = keras.layers.Flatten(name="flatten")(values)
    if head == "dense":
        values = keras.layers.Dense(4096, activation="relu", name="fc1")(values)
        values = keras.layers.Dense(4096, activation="relu", name="fc2")(values)
    probabilities = keras.layers.Dense(classes, activation="softmax", name="probabilities")(values)
    return keras.Model(photograph, probabilities, name=full_name(name, head))


def conform(photograph: Any, convention: str) -> Any:
    """Bring a symbolic RGB 0..255 picture to a convention (a key of `CONVENTIONS`), by one fixed layer."""
    if convention == "rgb":
        return photograph
    chosen = CONVENTIONS[convention]
    layer = keras.layers.Conv2D(3, 1, name=CONVENTION, trainable=False)
    values = layer(photograph)
    kernel = np.zeros((1, 1, 3, 3), dtype=np.float32)
    for output, source in enumerate(chosen.order):
        kernel[0, 0, source, output] = chosen.scale
    layer.set_weights([kernel, np.array(chosen.offset, dtype=np.float32)])
    return values


def choose_head(name: str, head: str | None) -> str:
    """The head meant by `head` (None: the network's default).

    Raises:
        InputError: unknown network, or the network has no such head.
    """
    if name not in NETWORKS:
        raise InputError(f"architecture {name!r} is not known; choose {', '.join(NETWORKS)}")
    heads = NETWORKS[name].heads
    if head is not None and head not in heads:
        raise InputError(f"{name} has no head {head!r}; choose {', '.join(heads)}")
    return head or heads[0]


def build(name: str, classes: int, spec: InputSpec, head: str | None = None) -> keras.Model:
    """Build the architecture called `name` with fresh weights (seeded by `keras.utils.set_random_seed`).

    Args:
        name: a key of `NETWORKS`.
        classes: number of classes, at least 2.
        spec: gives height and width.
        head: a key of `HEADS` that the network offers; None for its default.

    Returns:
        float32 (n, height, width, 3), RGB 0..255 -> probabilities (n, classes).

    Raises:
        InputError: the name or head is unknown or the input is too small for the network.
    """
    head = choose_head(name, head)
    smallest = NETWORKS[name].smallest
    if min(spec.height, spec.width) < smallest:
        raise InputError(
            f"{name} cannot be built for {spec.height}x{spec.width} pixels; it needs at least {smallest} a side"
        )
    if name == "lcnn":
        return lcnn(classes, spec.height, spec.width)
    return transfer(name, head, classes, spec.height, spec.width)


def body(model: keras.Model) -> keras.Model | None:
    """The network of `keras.applications` inside a model that `build` made; None where there is none."""
    inner = [layer for layer in model.layers if isinstance(layer, keras.Model)]
    return inner[0] if len(inner) == 1 else None


def head(model: keras.Model) -> list[keras.layers.Layer]:
    """The dense layers that the model ends with, in order: what is trained when the head alone is."""
    layers: list[keras.layers.Layer] = []
    for layer in reversed(model.layers):
        if not isinstance(layer, keras.layers.Dense):
            break
        layers.insert(0, layer)
    return layers


def freeze(model: keras.Model, head_alone: bool, keep_statistics: bool) -> None:
    """Choose which weights a training changes.

    Args:
        head_alone: only the dense layers at the end are trained.
        keep_statistics: where the body is trained, its batch normalisations stay as they are: their
            statistics come from ImageNet, and a small data set would replace them within one epoch.
    """
    trained = head(model)
    for layer in model.layers:
        if layer.name != CONVENTION:
            layer.trainable = layer in trained or not head_alone
    if not head_alone and keep_statistics:
        for layer in _leaves(model):
            if isinstance(layer, keras.layers.BatchNormalization):
                layer.trainable = False


def settle(model: keras.Model, pictures: Pixels, statistics: int = 8, spread: float = 3.0) -> None:
    """Make random weights behave like a network's: data-dependent initialisation (after Mishkin & Matas 2016).

    Batch normalisations take the statistics of pictures, residual branches start small (a quarter; Goyal et
    al. 2017 start at nothing), and the last layer gives each class a direction in the plane of the two
    largest principal components of its input over the pictures. Without this a deep random network gives
    every picture nearly the same answer, and comparing its answers at two precisions would show nothing.

    Args:
        model: from `build`; changed in place.
        pictures: uint8 (n, height, width, 3), at least 3.
        statistics: so many of them, evenly chosen, for the normalisations; more take much memory.
        spread: standard deviation of a class's logit over the pictures.
    """
    values = pictures.astype(np.float32)
    normalisations = [layer for layer in _leaves(model) if isinstance(layer, keras.layers.BatchNormalization)]
    momenta = [layer.momentum for layer in normalisations]
    for layer in normalisations:
        layer.momentum = 0.0
        if layer.name.endswith(_RESIDUAL_ENDS):
            layer.gamma.assign(layer.gamma * 0.25)
    if normalisations:
        model(values[:: max(1, len(values) // statistics)][:statistics], training=True)
    for layer, momentum in zip(normalisations, momenta, strict=True):
        layer.momentum = momentum
    last = model.layers[-1]
    before = keras.Model(model.inputs[0], last.input)
    features = np.concatenate([np.asarray(before(values[i : i + 8])) for i in range(0, len(values), 8)])
    mean = features.mean(axis=0, dtype=np.float64)
    _, sizes, components = np.linalg.svd(features - mean, full_matrices=False)
    # Each component scaled to standard deviation 1 over the pictures.
    plane = components[:2] * np.sqrt(len(features)) / np.maximum(sizes[:2, np.newaxis], 1e-12)
    angles = 2 * np.pi * np.arange(last.units) / last.units
    kernel = spread * (np.stack([np.cos(angles), np.sin(angles)], axis=1) @ plane).T
    last.set_weights([kernel, -mean @ kernel])


def parameters(model: keras.Model) -> int:
    """Number of weights, batch statistics counted, the fixed input convention not."""
    fixed = sum(layer.count_params() for layer in model.layers if layer.name == CONVENTION)
    return int(model.count_params() - fixed)


def multiply_accumulates(model: keras.Model) -> int:
    """Multiply-accumulates of one inference: those of convolutions and dense layers, biases not counted."""
    total = 0
    for layer in _leaves(model):
        if isinstance(layer, keras.layers.SeparableConv2D):
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


def weight_bytes(model: keras.Model) -> tuple[int, int]:
    """Bytes of the weights as TFLite stores them in float32 and in int8, the graph's description aside.

    Batch normalisation is folded into the convolution before it, as the converter does: of its four values a
    channel one bias remains. In int8 a kernel value takes 1 byte, a bias 4, and each output channel 12 more
    for its scale (float32) and zero point (int64).
    """
    kernels = biases = channels = 0
    for layer in _leaves(model):
        if isinstance(layer, keras.layers.BatchNormalization):
            biases += layer.input.shape[-1]
        elif layer.weights:
            for weight in layer.weights:
                if len(weight.shape) == 1:
                    biases += weight.shape[0]
                else:
                    kernels += int(np.prod(weight.shape))
                    depthwise = "depthwise" in weight.name
                    channels += weight.shape[-2] * weight.shape[-1] if depthwise else weight.shape[-1]
    # Without a bias of its own and without a normalisation a layer still gets one; there is none such here.
    return 4 * (kernels + biases), kernels + 4 * biases + 12 * channels


def _leaves(model: keras.Model) -> list[keras.layers.Layer]:
    leaves: list[keras.layers.Layer] = []
    for layer in model.layers:
        leaves += _leaves(layer) if isinstance(layer, keras.Model) else [layer]
    return leaves
