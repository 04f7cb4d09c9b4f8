"""The five networks: as published, under one input, through the converter, and in the device's runtime."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from bench.drawing import LABELS, draw_leaf
from edge.errors import InputError
from edge.preprocessing import InputSpec, Pixels, fit
from edge.runtime import open_interpreter

pytest.importorskip("tensorflow", reason="the networks need TensorFlow (make test installs it)")

import h5py

from convert.architecture import (
    CONVENTION,
    CONVENTIONS,
    NETWORKS,
    body,
    build,
    freeze,
    head,
    lcnn,
    multiply_accumulates,
    settle,
    weight_bytes,
)
from convert.backend import keras
from convert.cli import app
from convert.sensitivity import compare
from convert.tflite import convert_graph, count_macs, exported, tensors
from convert.training import predict
from convert.weights import Origin, choose, choose_each, fetch, load

SIZES = {"lcnn": 224, "resnet50": 64, "resnet101": 64, "vgg16": 64, "xception": 71}
"""Pixels a side: the big networks at a reduced size, their layers all the same."""


def pictures(size: int, count: int) -> Pixels:
    """Drawn leaves of all classes at the input's size."""
    spec = InputSpec(height=size, width=size)
    return np.stack(
        [fit(draw_leaf(LABELS[i % 8], np.random.default_rng([5, i])), spec) for i in range(count)]
    )


PUBLISHED = {
    "lcnn": (171_784, 0.387),
    # Parameters of the body as Keras documents them (weights without top), then 8 classes on the pooled map.
    "resnet50": (23_587_712 + 8 * 2048 + 8, 3.86),
    "resnet101": (42_658_176 + 8 * 2048 + 8, 7.57),
    "vgg16": (14_714_688 + 8 * 512 + 8, 15.35),
    "xception": (20_861_480 + 8 * 2048 + 8, 4.55),
}
"""Parameters, and multiply-accumulates at 224x224 in thousand millions."""


def test_the_models_command_lists_the_published_networks() -> None:
    done = CliRunner().invoke(app, ["models", "--json"])
    assert done.exit_code == 0, done.output
    rows = {row["name"]: row for row in json.loads(done.stdout)["models"]}
    assert list(rows) == list(NETWORKS)
    for name, (count, giga) in PUBLISHED.items():
        assert rows[name]["parameters"] == count
        assert rows[name]["macs"] / 1e9 == pytest.approx(giga, abs=0.005)


def test_a_network_that_needs_a_larger_input_is_marked_in_the_table() -> None:
    done = CliRunner().invoke(app, ["models", "--size", "70"])
    assert done.exit_code == 0, done.output
    rows = {line.split("|")[1].strip(): line for line in done.stdout.splitlines()[2:]}
    assert list(rows) == list(NETWORKS)
    assert [name for name, line in rows.items() if "input too small" in line] == ["lcnn", "xception"]
    assert "| 190 |" in rows["lcnn"]


def test_lcnn_has_the_smallest_input_that_is_stated() -> None:
    smallest = NETWORKS["lcnn"].smallest
    assert lcnn(8, smallest, smallest).layers[-3].output.shape == (None, 64)
    with pytest.raises(ValueError, match="zero or negative"):
        lcnn(8, smallest - 1, smallest - 1)


@pytest.mark.parametrize("name", ["vgg16", "xception"])
def test_the_input_layer_does_what_keras_own_preprocessing_does(name: str) -> None:
    module = {"vgg16": keras.applications.vgg16, "xception": keras.applications.xception}[name]
    model = build(name, 8, InputSpec(height=71, width=71))
    seen = pictures(71, 2).astype(np.float32)
    ours = np.asarray(model.get_layer(CONVENTION)(seen))
    assert np.allclose(ours, module.preprocess_input(seen.copy()), atol=1e-4)
    assert CONVENTIONS[NETWORKS["resnet50"].convention] is CONVENTIONS["caffe"]


@pytest.mark.parametrize("name", list(NETWORKS))
def test_every_network_goes_through_int8_into_the_device_runtime(name: str) -> None:
    size = SIZES[name]
    seen = pictures(size, 16)
    keras.utils.set_random_seed(7)
    model = build(name, 8, InputSpec(height=size, width=size))
    settle(model, seen, statistics=16)
    expected = predict(model, seen, batch=16)
    # Settled weights tell pictures apart; without that, agreement would say nothing.
    assert len(set(expected.argmax(axis=1).tolist())) >= 3
    with exported(model) as graph:
        original = convert_graph(graph, "float32")
        flatbuffer = convert_graph(graph, "int8", seen)
    taken, given = tensors(flatbuffer)
    assert (taken.dtype, given.dtype) == ("uint8", "uint8")
    assert taken.shape == (1, size, size, 3)
    assert given.shape == (1, 8)
    interpreter, runtime = open_interpreter(flatbuffer)
    assert runtime.name
    outputs = []
    for picture in seen:
        scaled = np.clip(np.round(picture / taken.scale) + taken.zero_point, 0, 255).astype(np.uint8)
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], scaled[np.newaxis])
        interpreter.invoke()
        raw = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])[0]
        outputs.append(given.scale * (raw.astype(np.float64) - given.zero_point))
    agreement = float((np.array(outputs).argmax(axis=1) == expected.argmax(axis=1)).mean())
    difference = float(np.abs(np.array(outputs) - expected).mean())
    print(f"{name}: agreement {agreement:.3f}, mean difference {difference:.4f}")
    assert agreement >= 0.75
    assert difference <= 0.05
    assert count_macs(original) == multiply_accumulates(model)
    # Sizes are computed from the layers; the files add the graph's description and share equal biases.
    for made, computed in zip((original, flatbuffer), weight_bytes(model), strict=True):
        assert 0.995 * computed <= len(made) <= 1.04 * computed + 20_000
    _weights_are_quantised_by_channel(flatbuffer)


def _weights_are_quantised_by_channel(flatbuffer: bytes) -> None:
    interpreter, _ = open_interpreter(flatbuffer, xnnpack=False)
    details = {detail["index"]: detail for detail in interpreter.get_tensor_details()}
    checked = 0
    for operator in interpreter._get_ops_details():
        if operator["op_name"] in ("CONV_2D", "DEPTHWISE_CONV_2D"):
            kernel = details[int(operator["inputs"][1])]
            channels = kernel["shape"][0 if operator["op_name"] == "CONV_2D" else 3]
            assert kernel["dtype"] == np.int8
            assert len(kernel["quantization_parameters"]["scales"]) == channels
            checked += 1
    assert checked >= 6


def test_the_input_layer_loses_nothing_in_int8_but_its_own_rounding() -> None:
    seen = pictures(64, 8)
    seen[0, 0, 0], seen[0, 0, 1] = 0, 255
    keras.utils.set_random_seed(7)
    model = build("vgg16", 8, InputSpec(height=64, width=64))
    settle(model, seen)
    with exported(model) as graph:
        original, flatbuffer = convert_graph(graph, "float32"), convert_graph(graph, "int8", seen)
    entrance = next(noise for noise in compare(flatbuffer, original, seen) if CONVENTION in noise.tensor)
    # 255 steps over -123.68..151.061: half a step of 1.0774, and half a step of the bias, 1/127.
    assert entrance.largest <= 0.5 * (151.061 + 123.68) / 255 + 0.5 / 127 + 2e-3


def published_file(path: Path) -> keras.Model:
    """A weights file as Keras publishes them for VGG-16 (legacy HDF5, named layers), with random weights."""
    keras.utils.set_random_seed(11)
    model = keras.applications.VGG16(include_top=False, weights=None, input_shape=(32, 32, 3))
    with h5py.File(path, "w") as file:
        file.attrs["layer_names"] = [layer.name.encode() for layer in model.layers]
        file.attrs["backend"] = b"tensorflow"
        file.attrs["keras_version"] = b"2.0"
        for layer in model.layers:
            group = file.create_group(layer.name)
            names = [f"{layer.name}/{weight.name}:0".encode() for weight in layer.weights]
            group.attrs["weight_names"] = names
            for name, weight in zip(names, layer.weights, strict=True):
                group[name.decode()] = np.asarray(weight)
    return model


def test_a_published_weights_file_fills_the_body_and_leaves_the_head(tmp_path: Path) -> None:
    path = tmp_path / "vgg16_notop.h5"
    published = published_file(path)
    keras.utils.set_random_seed(3)
    model = build("vgg16", 8, InputSpec(height=71, width=71))
    fresh = model.layers[-1].get_weights()[0]
    load(model, "vgg16", choose("vgg16", str(path)))
    inner = body(model)
    assert inner is not None
    for ours, theirs in zip(inner.get_weights(), published.get_weights(), strict=True):
        assert np.array_equal(ours, theirs)
    assert np.array_equal(model.layers[-1].get_weights()[0], fresh)
    with pytest.raises(InputError, match=r"not the weights of xception"):
        load(build("xception", 8, InputSpec(height=71, width=71)), "xception", Origin(str(path), "x"))


def test_a_missing_download_says_where_to_put_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refused(*arguments: object, **options: object) -> None:
        url = "https://storage.googleapis.com/x/vgg16_weights_tf_dim_ordering_tf_kernels_notop.h5"
        raise Exception(f"URL fetch failure on {url}: None -- Name or service not known")

    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    monkeypatch.setattr(keras.applications, "VGG16", refused)
    with pytest.raises(InputError) as caught:
        fetch("vgg16", Origin("imagenet"))
    assert str(tmp_path / "models" / "vgg16_weights_tf_dim_ordering_tf_kernels_notop.h5") in str(caught.value)
    assert "--weights FILE" in str(caught.value)


def test_unusable_weights_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="lcnn has no ImageNet weights"):
        choose("lcnn", "imagenet")
    with pytest.raises(InputError, match="cannot be read"):
        choose("lcnn", str(tmp_path / "missing.h5"))
    with pytest.raises(InputError, match=r"give imagenet, none, or a file"):
        choose("vgg16", "torch.pt")
    (tmp_path / "text.h5").write_text("not HDF5")
    with pytest.raises(InputError, match="not an HDF5 file"):
        load(build("lcnn", 8, InputSpec()), "lcnn", choose("lcnn", str(tmp_path / "text.h5")))
    build("lcnn", 8, InputSpec()).save(tmp_path / "lcnn.keras")
    with pytest.raises(InputError, match="its layers have other sizes"):
        load(
            build("vgg16", 8, InputSpec(height=64, width=64)),
            "vgg16",
            choose("vgg16", str(tmp_path / "lcnn.keras")),
        )


def test_several_networks_take_their_own_weights(tmp_path: Path) -> None:
    names = ("lcnn", "vgg16", "xception")
    assert [origin.source for origin in choose_each(names, "imagenet").values()] == [
        "none",
        "imagenet",
        "imagenet",
    ]
    assert choose_each(names, None) == choose_each(names, "imagenet")
    file = tmp_path / "vgg.h5"
    file.write_text("digested, not read")
    mixed = choose_each(names, f"vgg16={file}, xception=none")
    assert [origin.source for origin in mixed.values()] == ["none", str(file), "none"]
    with pytest.raises(InputError, match="a file fits one network; give --weights NAME=FILE"):
        choose_each(names, str(file))
    with pytest.raises(InputError, match="weights for 'resnet50', which is not among the networks lcnn"):
        choose_each(names, f"resnet50={file}")


def test_freezing_leaves_the_head_or_the_statistics() -> None:
    model = build("resnet50", 8, InputSpec(height=64, width=64))
    freeze(model, head_alone=True, keep_statistics=True)
    assert [weight.shape for weight in model.trainable_variables] == [(2048, 8), (8,)]
    assert [layer.name for layer in head(model)] == ["probabilities"]
    freeze(model, head_alone=False, keep_statistics=True)
    assert not any("gamma" in weight.name for weight in model.trainable_variables)
    # 53 convolutions with biases, the input layer not among them, and the head.
    assert len(model.trainable_variables) == 53 * 2 + 2


def test_a_network_too_small_or_without_that_head_is_refused() -> None:
    with pytest.raises(InputError, match="xception cannot be built for 64x64"):
        build("xception", 8, InputSpec(height=64, width=64))
    with pytest.raises(InputError, match="resnet50 has no head 'dense'"):
        build("resnet50", 8, InputSpec(), "dense")
