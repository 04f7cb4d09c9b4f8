"""Quantisation arithmetic, predictions, and the runtimes behind them."""

from __future__ import annotations

import dataclasses
import io
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from edge import runtime as runtimes
from edge.classifier import DEFAULT_MODEL, Classifier, Prediction, dequantise, quantise
from edge.contract import Tensor, read_model
from edge.errors import InputError
from edge.preprocessing import Pixels, fit
from edge.runtime import load_runtime, open_interpreter


def test_quantisation_by_hand() -> None:
    # q = clip(round(x / 0.5) - 3): halves go to the even neighbour, the ends are clipped to int8.
    values = np.array([0.0, 0.24, 0.26, 0.25, 0.75, -0.25, -0.75, 1e9, -1e9])
    assert quantise(values, 0.5, -3, "int8").tolist() == [-3, -3, -2, -3, -1, -3, -5, 127, -128]
    assert quantise(values, 0.5, 10, "uint8").tolist() == [10, 10, 11, 10, 12, 10, 8, 255, 0]


def test_dequantisation_by_hand() -> None:
    assert dequantise(np.array([-128, 0, 127], dtype=np.int8), 1 / 256, -128).tolist() == [
        0.0,
        0.5,
        255 / 256,
    ]
    assert dequantise(np.array([0, 255], dtype=np.uint8), 1 / 256, 0).tolist() == [0.0, 255 / 256]


def test_quantisation_is_undone_to_within_half_a_step() -> None:
    values = np.linspace(-1, 1, 1001)
    back = dequantise(quantise(values, 1 / 100, 5, "int8"), 1 / 100, 5)
    assert np.abs(back - values).max() <= 0.5 / 100 + 1e-6


@pytest.mark.parametrize(
    ("dtype", "scale", "zero_point"),
    [("uint8", 1.0, 0), ("uint8", 2.0, 5), ("uint8", 1.7, 100), ("uint8", 0.9, 3), ("int8", 2.0, -64),
     ("int8", 1.0, -128), ("int8", 0.3, -7), ("int16", 0.0078, 0)],
)  # fmt: skip
@pytest.mark.parametrize("runtime", ["ai-edge-litert", "tensorflow"])
def test_the_input_table_equals_the_runtimes_own_quantisation(
    classifier: Classifier, runtime: str, dtype: str, scale: float, zero_point: int
) -> None:
    if runtime not in runtimes.installed_runtimes():
        pytest.skip(f"{runtime} is not installed")
    flatbuffer = quantising_flatbuffer(dtype, scale, zero_point)
    interpreter, _ = open_interpreter(flatbuffer, runtime)
    values = np.arange(256, dtype=np.float32)
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], values)
    interpreter.invoke()
    expected = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])

    # A model with this input: the shipped one, its interpreter's and its contract's input exchanged.
    single = np.float32(scale).item()
    tensor = Tensor(dtype, classifier.contract.input_tensor.shape, single, zero_point)
    contract = dataclasses.replace(classifier.contract, input_tensor=tensor)
    details = {**classifier.interpreter.get_input_details()[0], "dtype": np.dtype(dtype).type}
    details["quantization"] = (single, zero_point)
    opened = types.SimpleNamespace(
        get_input_details=lambda: [details], get_output_details=classifier.interpreter.get_output_details
    )
    other = Classifier(dataclasses.replace(classifier.model, contract=contract), opened, classifier.runtime)
    pixels = np.arange(256, dtype=np.uint8).reshape(1, 256, 1).repeat(3, axis=2)
    assert other.quantise(pixels).shape == (1, 1, 256, 3)
    for channel in range(3):
        assert np.array_equal(other.quantise(pixels)[0, 0, :, channel], expected)


def quantising_flatbuffer(dtype: str, scale: float, zero_point: int) -> bytes:
    """A TFLite model of one QUANTIZE operator, float32 (256,) to `dtype`."""
    schema = pytest.importorskip("ai_edge_litert.schema_py_generated")
    flatbuffers = pytest.importorskip("flatbuffers")

    def tensor(name: str, kind: int, buffer: int) -> Any:
        made = schema.TensorT()
        made.name, made.shape, made.type, made.buffer = name, [256], kind, buffer
        return made

    given = tensor("given", schema.TensorType.FLOAT32, 1)
    quantised = tensor("quantised", getattr(schema.TensorType, dtype.upper()), 2)
    quantised.quantization = schema.QuantizationParametersT()
    quantised.quantization.scale, quantised.quantization.zeroPoint = [scale], [zero_point]
    operator, code = schema.OperatorT(), schema.OperatorCodeT()
    operator.inputs, operator.outputs = [0], [1]
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.QUANTIZE
    graph, model = schema.SubGraphT(), schema.ModelT()
    graph.tensors, graph.operators, graph.inputs, graph.outputs = [given, quantised], [operator], [0], [1]
    model.version, model.operatorCodes, model.subgraphs = 3, [code], [graph]
    model.buffers = [schema.BufferT() for _ in range(3)]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def test_probabilities_sum_to_one_within_the_output_steps(
    classifier: Classifier, leaves: list[Pixels]
) -> None:
    for leaf in leaves:
        prediction = classifier.classify(leaf)
        assert abs(sum(prediction.probabilities) - 1) <= len(prediction.labels) / 256
        assert prediction.label == prediction.top(1)[0][0]


def test_equal_probabilities_go_to_the_first_label() -> None:
    prediction = Prediction(("a", "b", "c"), (0.2, 0.4, 0.4))
    assert prediction.label == "b"
    assert prediction.top(3) == [("b", 0.4), ("c", 0.4), ("a", 0.2)]


def test_one_picture_gives_one_answer_in_every_container(
    classifier: Classifier, leaf: Pixels, tmp_path: Path
) -> None:
    expected = classifier.classify(leaf)
    for form, name in [("PNG", "a.png"), ("BMP", "b.BMP"), ("TIFF", "Blätter №1.tif"), ("PNG", "no-ending")]:
        buffer = io.BytesIO()
        Image.fromarray(leaf).save(buffer, form)
        (tmp_path / name).write_bytes(buffer.getvalue())
        assert classifier.classify_path(tmp_path / name) == expected


def test_a_one_pixel_and_a_twelve_megapixel_picture_are_classified(classifier: Classifier) -> None:
    for shape in ((1, 1, 3), (3000, 4000, 3)):
        assert classifier.classify(np.full(shape, 90, dtype=np.uint8)).label in classifier.contract.labels


def test_threads_and_plain_kernels_agree_with_the_default(
    classifier: Classifier, leaves: list[Pixels]
) -> None:
    plain = Classifier.open(threads=2, xnnpack=False)
    step = classifier.contract.output_tensor.scale
    for leaf in leaves:
        fitted = fit(leaf, classifier.contract.input)
        difference = np.abs(plain.probabilities(fitted) - classifier.probabilities(fitted)).max()
        # Other kernels may round differently: two steps of the output, as measured between runtimes.
        assert difference <= 2 * step + 1e-6


def test_every_installed_runtime_gives_the_same_label(classifier: Classifier, leaves: list[Pixels]) -> None:
    names = runtimes.installed_runtimes()
    assert classifier.runtime.name in names
    for name in names:
        other = Classifier.open(runtime=name)
        assert other.runtime.name == name
        for leaf in leaves:
            assert other.classify(leaf).label == classifier.classify(leaf).label


def test_the_first_runtime_that_opens_the_model_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    working = load_runtime("ai-edge-litert")
    broken = types.ModuleType("broken_runtime")

    class Interpreter:
        def __init__(self, **_: object) -> None:
            raise ImportError("numpy.core.multiarray failed to import\n(_ARRAY_API not found)")

    broken.Interpreter = Interpreter  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "broken_runtime", broken)
    monkeypatch.setattr(
        runtimes,
        "RUNTIMES",
        {
            "absent": "no_such_module",
            "tflite-runtime": "broken_runtime",
            "ai-edge-litert": working.module.__name__,
        },
    )
    flatbuffer = read_model(DEFAULT_MODEL).flatbuffer
    assert open_interpreter(flatbuffer)[1].name == "ai-edge-litert"
    with pytest.raises(
        InputError, match=r"tflite-runtime .*: numpy.core.multiarray failed to import \(_ARRAY_API"
    ):
        open_interpreter(flatbuffer, "tflite-runtime")
    monkeypatch.setattr(runtimes, "RUNTIMES", {"tflite-runtime": "broken_runtime"})
    with pytest.raises(InputError, match=r"no installed runtime opens this model.*_ARRAY_API"):
        open_interpreter(flatbuffer)


def test_without_a_runtime_the_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtimes, "RUNTIMES", {"absent": "no_such_module"})
    with pytest.raises(InputError, match="no TFLite runtime is installed; install one"):
        Classifier.open()


def test_misused_arguments_are_refused() -> None:
    with pytest.raises(InputError, match="'tensorrt' is not known"):
        Classifier.open(runtime="tensorrt")
    with pytest.raises(InputError, match="threads"):
        Classifier.open(threads=0)


def test_edge_never_imports_tensorflow_or_the_other_packages(command: object) -> None:
    import subprocess

    program = (
        "import sys, edge.classifier, edge.cli;"
        "edge.classifier.Classifier.open();"
        "others = {'tensorflow', 'keras', 'convert', 'bench'};"
        "print(sorted(name for name in sys.modules if name.split('.')[0] in others))"
    )
    root = Path(__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=root, check=True
    )
    assert done.stdout.strip() == "[]"
