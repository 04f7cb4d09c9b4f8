"""From a photograph to probabilities, by a model file and an installed runtime."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edge.contract import Contract, ModelFile, Tensor, check_tensors, read_model
from edge.preprocessing import Pixels, fit, read_photograph
from edge.runtime import Runtime, open_interpreter

DEFAULT_MODEL = Path(__file__).parent / "models" / "lcnn-int8.tflite"
"""The model that the package ships."""

Probabilities = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Prediction:
    """Probabilities (0..1) in the order of `labels`."""

    labels: tuple[str, ...]
    probabilities: tuple[float, ...]

    @property
    def label(self) -> str:
        """The most probable label; of equal ones the first in the contract's order."""
        return self.labels[int(np.argmax(self.probabilities))]

    def top(self, count: int) -> list[tuple[str, float]]:
        """The `count` most probable labels with their probabilities, best first."""
        order = sorted(range(len(self.labels)), key=lambda index: -self.probabilities[index])
        return [(self.labels[index], self.probabilities[index]) for index in order[:count]]


def quantise(values: npt.NDArray[Any], scale: float, zero_point: int, dtype: str) -> npt.NDArray[Any]:
    """Real values to quantised ones: clip(round(value / scale) + zero_point) to the range of `dtype`.

    Divides in float32 and rounds halves to the even neighbour, as the QUANTIZE operator of LiteRT 2 and TensorFlow
    2.21 does (Jacob et al. 2018, equation 1).
    """
    scaled = np.asarray(values, dtype=np.float32) / np.float32(scale)
    rounded = np.rint(scaled.astype(np.float64)) + zero_point
    limits = np.iinfo(dtype)
    quantised: npt.NDArray[Any] = np.clip(rounded, limits.min, limits.max).astype(dtype)
    return quantised


def dequantise(values: npt.NDArray[Any], scale: float, zero_point: int) -> Probabilities:
    """Quantised values to real ones: scale * (q - zero_point), as float32."""
    return (np.float32(scale) * (values.astype(np.int32) - zero_point)).astype(np.float32)


class Classifier:
    """A model file opened in a runtime. Not safe for use by several threads at once: give each its own."""

    def __init__(self, model: ModelFile, interpreter: Any, runtime: Runtime) -> None:
        self.model = model
        self.interpreter = interpreter
        self.runtime = runtime
        details_in, details_out = interpreter.get_input_details(), interpreter.get_output_details()
        self._input_index: int = details_in[0]["index"]
        self._output_index: int = details_out[0]["index"]
        check_tensors(model.contract, tensor_of(details_in), tensor_of(details_out), str(model.path))
        promised = model.contract.input_tensor
        # A pixel has 256 possible values, so the whole input quantisation is one table.
        every_value = np.arange(256)
        self._table: npt.NDArray[Any] = (
            every_value.astype(np.float32)
            if promised.dtype == "float32"
            else quantise(every_value, promised.scale, promised.zero_point, promised.dtype)
        )
        # Networks trained on 0..255 take pixels as they are; looking each up would cost a tenth of an inference.
        self._as_is = self._table.dtype == np.uint8 and np.array_equal(self._table, every_value)

    @classmethod
    def open(
        cls,
        path: Path | str | None = None,
        runtime: str = "auto",
        threads: int = 1,
        xnnpack: bool = True,
    ) -> Classifier:
        """Open a model file (by default the one that the package ships).

        Raises:
            InputError: the file, its contract or the runtime is at fault; see `read_model`, `open_interpreter`.
        """
        model = read_model(DEFAULT_MODEL if path is None else path)
        interpreter, loaded = open_interpreter(model.flatbuffer, runtime, threads, xnnpack, str(model.path))
        return cls(model, interpreter, loaded)

    @property
    def contract(self) -> Contract:
        """The model's contract."""
        return self.model.contract

    def quantise(self, fitted: Pixels) -> npt.NDArray[Any]:
        """Pixels (height, width, 3) uint8 to the input tensor (1, height, width, 3) in the model's type.

        The tensor may share the pixels' memory.
        """
        return (fitted if self._as_is else self._table[fitted])[np.newaxis]

    def invoke(self, tensor: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Run the network once on an input tensor; returns a copy of the raw output (1, labels)."""
        self.interpreter.set_tensor(self._input_index, tensor)
        self.interpreter.invoke()
        output: npt.NDArray[Any] = self.interpreter.get_tensor(self._output_index)
        return output

    def dequantise(self, output: npt.NDArray[Any]) -> Probabilities:
        """The raw output (1, labels) as probabilities (labels,) float32, 0..1."""
        promised = self.contract.output_tensor
        if promised.dtype == "float32":
            probabilities: Probabilities = output[0].astype(np.float32)
            return probabilities
        return dequantise(output[0], promised.scale, promised.zero_point)

    def probabilities(self, fitted: Pixels) -> Probabilities:
        """Probabilities (labels,) float32 of a picture that already has the input's size."""
        return self.dequantise(self.invoke(self.quantise(fitted)))

    def classify(self, image: Pixels) -> Prediction:
        """Classify a decoded photograph: uint8 (height, width, 3), RGB, any size."""
        values = self.probabilities(fit(image, self.contract.input))
        return Prediction(self.contract.labels, tuple(float(value) for value in values))

    def classify_path(self, path: Path | str) -> Prediction:
        """Classify a picture file; raises InputError as `read_photograph` does."""
        return self.classify(read_photograph(path, self.contract.input.exif))


def tensor_of(details: list[dict[str, Any]]) -> Tensor:
    """The first tensor of an interpreter's `get_input_details()` or `get_output_details()`.

    A model with several inputs or outputs gets the type "several", which no contract promises.
    """
    first = details[0]
    scale, zero_point = first["quantization"]
    name = np.dtype(first["dtype"]).name if len(details) == 1 else "several"
    return Tensor(name, tuple(int(size) for size in first["shape"]), float(scale), int(zero_point))
