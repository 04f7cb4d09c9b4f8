"""From a Keras model to TFLite flatbuffers at every precision."""

from __future__ import annotations

import contextlib
import math
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from convert.backend import keras, quiet, tf
from convert.dataset import Dataset, Photograph
from convert.split import Split, identity, part_of
from edge.classifier import tensor_of
from edge.contract import PRECISIONS, Tensor
from edge.errors import InputError
from edge.preprocessing import Pixels
from edge.runtime import open_interpreter

PER_CLASS = 50
CALIBRATION_SEED = 7
CALIBRATED = ("int8", "int16x8")
"""Precisions that measure the activations' ranges on pictures."""


def representative_photographs(
    dataset: Dataset,
    split: Split,
    per_class: int = PER_CLASS,
    seed: int = CALIBRATION_SEED,
    part: str = "training",
) -> tuple[Photograph, ...]:
    """Draw the representative data set: `per_class` photographs of each class, of the training part alone.

    Another `part` is for checks that need no more than some photographs of each class. A class that the split leaves
    out altogether is left out here too.

    Raises:
        InputError: a class of the split has no photograph in that part.
    """
    generator = np.random.default_rng(seed)
    training = part_of(split, dataset, part)
    chosen: list[Photograph] = []
    everywhere = {name for names in split.parts.values() for name in names}
    covered = {photograph.label for photograph in dataset.photographs if identity(photograph) in everywhere}
    for label in dataset.labels:
        if label not in covered:
            continue
        members = sorted(
            (photo for photo in training if photo.label == label), key=lambda photo: photo.digest
        )
        if not members:
            raise InputError(
                f"class {label} has no {part} photograph in split {split.name} to calibrate with"
            )
        positions = generator.permutation(len(members))[:per_class]
        chosen += [members[position] for position in positions]
    return tuple(chosen)


def convert(
    model: keras.Model,
    precision: str,
    representative: Pixels | None = None,
    float_tensors: Sequence[str] = (),
) -> bytes:
    """Convert to a TFLite flatbuffer; same model, pictures and versions give the same bytes.

    "float32", "float16" (weights stored in half precision) and "dynamic" (int8 weights, float activations)
    take and give float32. "int8" is integer throughout with uint8 input and output, its activation ranges
    measured on the representative pictures (Jacob et al. 2018); "int16x8" keeps the int8 weights and has
    int16 activations, input and output. Weights are quantised channel by channel.

    Args:
        model: takes float32 (1, height, width, 3), RGB 0..255; gives probabilities (1, classes).
        precision: one of `edge.contract.PRECISIONS`.
        representative: uint8 (n, height, width, 3); needed for "int8" and "int16x8".
        float_tensors: names of tensors of the float32 flatbuffer whose operators stay in float32 (see
            `convert.sensitivity`); for "int8" alone.

    Raises:
        InputError: unknown precision, no representative pictures, or the converter refuses the model.
    """
    with exported(model) as graph:
        return convert_graph(graph, precision, representative, float_tensors)


@dataclass(frozen=True)
class Graph:
    """A model as a TensorFlow graph on disk, from which every precision is made; see `exported`."""

    name: str
    folder: Path


@contextlib.contextmanager
def exported(model: keras.Model) -> Iterator[Graph]:
    """Write the model's graph for one picture to a temporary folder, once for all precisions.

    The converter would do so for each precision anew, which for ResNet-101 takes most of the time and memory.
    """
    height, width = model.inputs[0].shape[1:3]
    signature = [tf.TensorSpec((1, height, width, 3), tf.float32, name="photograph")]
    module = tf.Module()
    module.kept = [variable.value for variable in model.variables]

    def probabilities(photograph: Any) -> dict[str, Any]:
        return {"probabilities": model(photograph, training=False)}

    module.serve = serve = tf.function(probabilities, input_signature=signature)
    with tempfile.TemporaryDirectory(prefix="mango-convert-") as folder:
        with quiet():
            tf.saved_model.save(module, folder, signatures={"serving_default": serve})
        yield Graph(model.name, Path(folder))


def convert_graph(
    graph: Graph,
    precision: str,
    representative: Pixels | None = None,
    float_tensors: Sequence[str] = (),
) -> bytes:
    """Convert an exported graph; see `convert`."""
    if precision not in PRECISIONS:
        raise InputError(f"precision {precision!r} is not known; choose {', '.join(PRECISIONS)}")
    if float_tensors and precision != "int8":
        raise InputError(f"selective float layers belong to int8, not to {precision}")
    if precision in CALIBRATED and (representative is None or not len(representative)):
        raise InputError(f"{precision} needs representative pictures to measure the activations' ranges on")
    if representative is not None:
        representative = _spanning(representative)
    try:
        with quiet():
            converter = _converter(graph, precision, representative)
            if float_tensors:
                return _partly_float(converter, representative, float_tensors)
            return bytes(converter.convert())
    # The converter raises whatever the failing pass raises.
    except Exception as error:
        raise InputError(f"{graph.name} cannot be converted to {precision}: {_cause(error)}") from None


def _converter(graph: Graph, precision: str, representative: Pixels | None) -> Any:
    converter = tf.lite.TFLiteConverter.from_saved_model(str(graph.folder))
    if precision != "float32":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if precision == "float16":
        converter.target_spec.supported_types = [tf.float16]
    if precision in CALIBRATED and representative is not None:
        converter.representative_dataset = _batches(representative)
        whole, operators = (
            (tf.uint8, tf.lite.OpsSet.TFLITE_BUILTINS_INT8)
            if precision == "int8"
            else (
                tf.int16,
                tf.lite.OpsSet.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8,
            )
        )
        converter.target_spec.supported_ops = [operators]
        converter.inference_input_type = converter.inference_output_type = whole
    return converter


def _spanning(pictures: Pixels) -> Pixels:
    """The same pictures, with a black and a white pixel where they have none.

    The calibrator measures the input's range too: of pictures that leave 0 or 255 out it would be narrower than
    0..255, and the file would clip brighter pixels in the field. The input's scale is thus 1, its zero point 0.
    """
    if not pictures.size or (pictures.min() == 0 and pictures.max() == 255):
        return pictures
    spanning = pictures.copy()
    spanning[0, 0, 0], spanning[0, -1, -1] = 0, 255
    return spanning


def _batches(pictures: Pixels) -> Callable[[], Iterator[list[np.ndarray]]]:
    def batches() -> Iterator[list[np.ndarray]]:
        for picture in pictures:
            yield [picture[np.newaxis].astype(np.float32)]

    return batches


def _partly_float(converter: Any, representative: Pixels | None, float_tensors: Sequence[str]) -> bytes:
    from tensorflow.lite.python.util import modify_model_io_type

    assert representative is not None
    options = tf.lite.experimental.QuantizationDebugOptions(denylisted_nodes=list(float_tensors))
    debugger = tf.lite.experimental.QuantizationDebugger(
        converter=converter, debug_dataset=_batches(representative[:1]), debug_options=options
    )
    flatbuffer = bytes(modify_model_io_type(debugger.get_nondebug_quantized_model(), tf.uint8, tf.uint8))
    if any(tensor.dtype != "uint8" for tensor in tensors(flatbuffer)):
        raise ValueError("the layers at the input and the output must not stay in float")
    return flatbuffer


def _cause(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    operators = sorted(set(re.findall(r"^\s*tf\.(\w+)\(", text, re.MULTILINE)))
    if operators or "neither a custom op nor a flex op" in text:
        named = ", ".join(operators) or ", ".join(sorted(set(re.findall(r"'tf\.(\w+)' op", text))))
        return (
            f"TFLite's built-in operators cannot express {named or 'one of its layers'}; replace that layer"
            " by standard ones (convolution, dense, pooling, ReLU, addition)"
        )
    return " ".join(text.splitlines()[0].split())[:300]


def tensors(flatbuffer: bytes) -> tuple[Tensor, Tensor]:
    """Input and output of a flatbuffer, as a contract promises them."""
    interpreter, _ = open_interpreter(flatbuffer)
    return tensor_of(interpreter.get_input_details()), tensor_of(interpreter.get_output_details())


def count_macs(flatbuffer: bytes) -> int:
    """Multiply-accumulates of one inference, counted from a flatbuffer's operators and shapes.

    Convolutions (plain, depthwise, transposed), dense layers and matrix products count, as
    `convert.architecture.multiply_accumulates` counts a Keras model's layers; this one also counts models
    whose layers Keras does not show.
    """
    interpreter, _ = open_interpreter(flatbuffer, xnnpack=False)
    shapes = {
        detail["index"]: [int(size) for size in detail["shape"]]
        for detail in interpreter.get_tensor_details()
    }
    total = 0
    for operator in interpreter._get_ops_details():
        name = operator["op_name"]
        inputs, outputs = [[shapes.get(int(i), []) for i in operator[side]] for side in ("inputs", "outputs")]
        if name == "CONV_2D":
            total += math.prod(outputs[0]) * math.prod(inputs[1][1:])
        elif name == "DEPTHWISE_CONV_2D":
            total += math.prod(outputs[0]) * math.prod(inputs[1][1:3])
        elif name == "TRANSPOSE_CONV":
            total += math.prod(inputs[2]) * math.prod(inputs[1][:3])
        elif name in ("FULLY_CONNECTED", "BATCH_MATMUL"):
            total += math.prod(outputs[0]) * inputs[0][-1]
    return total


def package_versions(names: Sequence[str] = ("tensorflow", "keras", "numpy", "pillow")) -> dict[str, str]:
    """Versions of the installed packages among `names`."""
    found = {}
    for name in names:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
