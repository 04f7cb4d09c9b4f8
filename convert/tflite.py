"""From a Keras model to TFLite flatbuffers at every precision."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version

import numpy as np

from convert.backend import keras, tf
from convert.dataset import Dataset, Photograph
from convert.split import Split, part_of
from edge.classifier import tensor_of
from edge.contract import PRECISIONS, Tensor
from edge.errors import InputError
from edge.preprocessing import Pixels
from edge.runtime import open_interpreter, without_chatter

PER_CLASS = 25
CALIBRATION_SEED = 7


def representative_photographs(
    dataset: Dataset, split: Split, per_class: int = PER_CLASS, seed: int = CALIBRATION_SEED
) -> tuple[Photograph, ...]:
    """Draw the representative data set: `per_class` photographs of each class, of the training part alone.

    Raises:
        InputError: a class has no training photograph.
    """
    generator = np.random.default_rng(seed)
    training = part_of(split, dataset, "training")
    chosen: list[Photograph] = []
    for label in dataset.labels:
        members = sorted(
            (photo for photo in training if photo.label == label), key=lambda photo: photo.digest
        )
        if not members:
            raise InputError(
                f"class {label} has no training photograph in split {split.name} to calibrate with"
            )
        positions = generator.permutation(len(members))[:per_class]
        chosen += [members[position] for position in positions]
    return tuple(chosen)


def convert(model: keras.Model, precision: str, representative: Pixels | None = None) -> bytes:
    """Convert to a TFLite flatbuffer; same model, pictures and versions give the same bytes.

    "float32", "float16" (weights stored in half precision) and "dynamic" (int8 weights, float activations)
    take and give float32; "int8" is integer throughout with uint8 input and output, its activation ranges
    measured on the representative pictures (Jacob et al. 2018).

    Args:
        model: takes float32 (1, height, width, 3), RGB 0..255; gives probabilities (1, classes).
        precision: one of `edge.contract.PRECISIONS`.
        representative: uint8 (n, height, width, 3); needed for "int8".

    Raises:
        InputError: unknown precision, no representative pictures, or the converter refuses the model.
    """
    if precision not in PRECISIONS:
        raise InputError(f"precision {precision!r} is not known; choose {', '.join(PRECISIONS)}")
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    if precision != "float32":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if precision == "float16":
        converter.target_spec.supported_types = [tf.float16]
    if precision == "int8":
        if representative is None or not len(representative):
            raise InputError("int8 needs representative pictures to measure the activations' ranges on")
        pictures = representative

        def batches() -> Iterator[list[np.ndarray]]:
            for picture in pictures:
                yield [picture[np.newaxis].astype(np.float32)]

        converter.representative_dataset = batches
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        converter.inference_input_type = tf.uint8
        converter.inference_output_type = tf.uint8
    try:
        with without_chatter():
            return bytes(converter.convert())
    # The converter raises whatever the failing pass raises; the first line names the operation.
    except Exception as error:
        cause = (str(error).strip() or type(error).__name__).splitlines()[0][:300]
        raise InputError(f"{model.name} cannot be converted to {precision}: {cause}") from None


def tensors(flatbuffer: bytes) -> tuple[Tensor, Tensor]:
    """Input and output of a flatbuffer, as a contract promises them."""
    interpreter, _ = open_interpreter(flatbuffer)
    return tensor_of(interpreter.get_input_details()), tensor_of(interpreter.get_output_details())


def package_versions(names: Sequence[str] = ("tensorflow", "keras", "numpy", "pillow")) -> dict[str, str]:
    """Versions of the installed packages among `names`."""
    found = {}
    for name in names:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
