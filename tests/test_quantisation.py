"""Quantisation by hand, the gate, the search for a variant that passes, and models that were made elsewhere."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
import subprocess
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from bench.drawing import LABELS, draw_samples
from convert.card import render
from convert.dataset import Dataset, index
from convert.gate import Gate, faults, verdict
from convert.given import read_labels
from convert.split import random_split
from edge.contract import Score, read_contract, read_model
from edge.errors import InputError
from edge.preprocessing import Pixels, read_photograph

pytest.importorskip("tensorflow", reason="the conversion tests need TensorFlow (make test installs it)")

from convert.backend import keras, tf
from convert.cli import app
from convert.cost import side_by_side
from convert.foreign import adopt
from convert.model_file import write_foreign_files
from convert.sensitivity import _feed, _open, compare, noisiest, ratio
from convert.tflite import convert, tensors

GAINS = (1.0, 0.5, 0.25)


def tiny(
    gains: tuple[float, float, float],
    size: int = 8,
    softmax: bool = True,
    centre: tuple[float, float] = (100.0, 100.0),
) -> keras.Model:
    """Each colour times its gain, then its average, then a class for each direction of green and blue from `centre`."""
    photograph = keras.Input((size, size, 3))
    scaled = keras.layers.Conv2D(3, 1, name="gains")(photograph)
    mean = keras.layers.GlobalAveragePooling2D()(scaled)
    layer = keras.layers.Dense(8, activation="softmax" if softmax else None, name="classes")
    model = keras.Model(photograph, layer(mean), name="tiny")
    model.get_layer("gains").set_weights([np.diag(gains)[None, None].astype(np.float32), np.zeros(3)])
    angles = np.arange(8) * np.pi / 4
    kernel = np.stack([np.zeros(8), np.cos(angles), np.sin(angles)]).astype(np.float32)
    layer.set_weights([kernel, -(centre[0] * gains[1] * kernel[1] + centre[1] * gains[2] * kernel[2])])
    return model


@pytest.fixture(scope="module")
def every_value() -> Pixels:
    """Two pictures 8x8 whose pixels have values from 0 to 255, both ends among them."""
    ramp = np.linspace(0, 255, 2 * 8 * 8).round().astype(np.uint8).reshape(2, 8, 8, 1)
    return np.repeat(ramp, 3, axis=3)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Six drawn leaves of each class."""
    folder = tmp_path_factory.mktemp("drawn")
    draw_samples(folder, per_class=6)
    return index(folder)


@pytest.fixture(scope="module")
def fragile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that int8 breaks: red reaches 100 times the values of the colours that decide.

    Drawn leaves average 198 of green and 185 of blue; in int8 a step is 100.
    """
    path = tmp_path_factory.mktemp("fragile") / "fragile.keras"
    tiny((100.0, 1.0, 1.0), 224, centre=(198.0, 185.0)).save(path)
    return path


def test_int8_follows_the_arithmetic_by_hand(every_value: Pixels) -> None:
    flatbuffer = convert(tiny(GAINS), "int8", every_value)
    model = _open(flatbuffer)
    convolution = next(operator for operator in model._get_ops_details() if operator["op_name"] == "CONV_2D")
    details = {detail["index"]: detail for detail in model.get_tensor_details()}
    taken, kernel, _ = (details[int(i)] for i in convolution["inputs"])
    given = details[int(convolution["outputs"][0])]
    # Pixels 0..255 and products 0..255 fill 256 steps of 1; -128 stands for 0.
    assert taken["quantization"] == pytest.approx((1.0, -128))
    assert given["quantization"] == pytest.approx((1.0, -128))
    # Symmetric weights by channel: the scale is the largest weight over 127.
    assert kernel["quantization_parameters"]["scales"] == pytest.approx([gain / 127 for gain in GAINS])
    assert np.array_equal(model.get_tensor(kernel["index"])[:, 0, 0], 127 * np.eye(3))
    _feed(model, every_value[1])
    products = model.get_tensor(given["index"])[0].astype(int) + 128
    for channel, gain in enumerate(GAINS):
        # 127 * pixel summed, times 1 * (gain / 127) / 1, rounded: a half may go either way.
        assert np.abs(products[..., channel] - gain * every_value[1][..., channel]).max() <= 0.5


def test_int16_activations_are_symmetric_and_finer(every_value: Pixels) -> None:
    model = _open(convert(tiny(GAINS), "int16x8", every_value))
    scale, zero_point = model.get_input_details()[0]["quantization"]
    assert model.get_input_details()[0]["dtype"] == np.int16
    assert (scale, zero_point) == pytest.approx((255 / 32767, 0))
    assert model.get_output_details()[0]["quantization"] == pytest.approx((1 / 32768, 0))


def test_signal_to_noise_in_decibels() -> None:
    assert ratio(100.0, 1.0) == pytest.approx(20.0)
    assert ratio(2.0, 2.0) == 0.0
    assert ratio(1.0, 0.0) == float("inf")
    assert ratio(0.0, 1.0) == float("-inf")


def test_noise_of_rounding_is_a_twelfth_of_a_step(every_value: Pixels) -> None:
    model = tiny((0.4, 0.7, 1.0))
    original, flatbuffer = convert(model, "float32"), convert(model, "int8", every_value)
    noises = compare(flatbuffer, original, every_value)
    assert [noise.ratio for noise in noises] == sorted(noise.ratio for noise in noises)
    products = next(noise for noise in noises if noise.operator == "CONV_2D")
    # A third of the products are whole steps; the others' rounding errors spread evenly over one step of 1.
    signal = float(np.mean([(gain * every_value.astype(float)) ** 2 for gain in (0.4, 0.7, 1.0)]))
    assert products.ratio == pytest.approx(ratio(signal, (2 / 3) / 12), abs=2.5)
    assert products.largest <= 0.5 + 1e-3


def test_the_noisiest_layers_come_first(every_value: Pixels) -> None:
    model = tiny((100.0, 1.0, 1.0))
    noises = compare(convert(model, "int8", every_value), convert(model, "float32"), every_value)
    (worst,) = noisiest(noises, 0.01)
    # The dense layer ignores the large red values that the ratio of its input lives on.
    assert "classes" in worst
    assert noisiest(noises, 1.0) == (worst,)
    with pytest.raises(InputError, match="two precisions of one network"):
        compare(convert(model, "int8", every_value), convert(tiny(GAINS, 16), "float32"), every_value)


def test_selected_layers_stay_in_float_between_integer_ends(every_value: Pixels) -> None:
    model = tiny((100.0, 1.0, 1.0))
    noises = compare(convert(model, "int8", every_value), convert(model, "float32"), every_value)
    mixed = _open(convert(model, "int8", every_value, noisiest(noises, 1.0)))
    assert mixed.get_input_details()[0]["dtype"] == mixed.get_output_details()[0]["dtype"] == np.uint8
    made = {int(i): o["op_name"] for o in mixed._get_ops_details() for i in o["outputs"]}
    kinds = {
        made[detail["index"]]: detail["dtype"]
        for detail in mixed.get_tensor_details()
        if detail["index"] in made
    }
    assert kinds["CONV_2D"] is np.int8
    assert kinds["FULLY_CONNECTED"] is np.float32
    (first,) = (noise.tensor for noise in noises if noise.operator == "CONV_2D")
    with pytest.raises(InputError, match="layers at the input and the output must not stay in float"):
        convert(model, "int8", every_value, [first])


SCORE = Score("burst", 7, "test", "s", "w", 400, 0.9, 0.90, 0.91, 0.91, 0.98, 0.1)


def test_the_gate_lets_the_limit_pass_and_nothing_beyond() -> None:
    assert faults(SCORE, Gate()) == []
    (lost,) = faults(dataclasses.replace(SCORE, macro_f1=0.8999), Gate())
    assert "loses 1.01 points of macro-F1 (0.9100 to 0.8999, 1.00 allowed)" in lost
    (differs,) = faults(dataclasses.replace(SCORE, agreement=391 / 400), Gate())
    assert "agrees with float on 97.75 % of 400 photographs" in differs
    # A quantised file may be better than float; that is no fault.
    assert faults(dataclasses.replace(SCORE, macro_f1=0.99), Gate()) == []


def test_a_fragile_model_fails_int8_and_passes_with_int16(
    fragile: Path, drawn: Dataset, tmp_path: Path
) -> None:
    arguments = ["tflite", str(fragile), "--labels", ",".join(LABELS), "--data", str(drawn.root)]
    arguments += ["--split", "random", "--out", str(tmp_path), "--per-class", "2", "--precision", "int8"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 1
    assert "error: fragile-int8.tflite " in done.stderr
    assert "% demanded" in done.stderr
    assert "try more calibration pictures" in done.stderr
    before = (tmp_path / "fragile-int8.tflite").read_bytes()
    done = CliRunner().invoke(app, [*arguments, "--auto"])
    assert done.exit_code == 0, done.output
    contract = read_contract(tmp_path / "fragile-auto.tflite")
    assert contract.precision == "int16x8"
    assert contract.extra["quantisation"]["variant"] == "int16x8"
    assert [one["variant"].split()[0] for one in contract.extra["quantisation"]["tried"]] == ["int8", "int8"]
    assert contract.scores[0].agreement >= 0.98
    # What passes unchanged is not made again.
    assert "fragile-int8.tflite is up to date" in done.stderr
    assert (tmp_path / "fragile-int8.tflite").read_bytes() == before
    card = (tmp_path / "fragile-auto.MODEL.md").read_text()
    assert "Chosen as the first that passes the gate: int16x8" in card
    assert "| Healthy |" in card
    assert not list(tmp_path.glob(".*"))


def test_files_are_made_anew_when_what_they_came_from_changed(
    fragile: Path, drawn: Dataset, tmp_path: Path
) -> None:
    model, said = adopt(fragile, LABELS, "rgb"), []
    split = random_split(drawn)

    def make(per_class: int) -> Path:
        said.clear()
        return write_foreign_files(model, ["int8"], tmp_path, drawn, split, per_class, said.append)["int8"]

    first = make(1).read_bytes()
    assert make(1).read_bytes() == first
    assert said == ["fragile-int8.tflite is up to date"]
    assert make(2).read_bytes() != first
    # A file that was cut is made again, not taken for what it was.
    path = make(2)
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    assert make(2).read_bytes() == whole
    assert read_contract(make(2)).calibration == {"images": 16, "per_class": 2, "seed": 7, "part": "training"}


def test_a_file_of_another_graph_with_the_same_weights_is_made_anew(tmp_path: Path) -> None:
    path, labels = tmp_path / "m.keras", ("a", "b")

    def make() -> tuple[bytes, list[str]]:
        said: list[str] = []
        made = write_foreign_files(adopt(path, labels, "rgb"), ["float32"], tmp_path, report=said.append)
        return read_model(made["float32"]).flatbuffer, said

    found = []
    for activation in ("relu", "tanh"):
        keras.utils.set_random_seed(1)
        layers = [keras.layers.Conv2D(2, 3, activation=activation), keras.layers.Flatten()]
        keras.Sequential([keras.Input((8, 8, 3)), *layers, keras.layers.Dense(2, activation="softmax")]).save(
            path
        )
        flatbuffer, said = make()
        assert not any("up to date" in sentence for sentence in said)
        assert make() == (flatbuffer, ["m-float32.tflite is up to date"])
        found.append(flatbuffer)
    assert found[0] != found[1]


def frozen(folder: Path, factor: float, size: int = 8, dtype: tf.DType = tf.float32, batch: int = 1) -> Path:
    """A SavedModel whose weights are constants, as frozen graphs have them."""

    def call(picture: tf.Tensor) -> dict[str, tf.Tensor]:
        # The size of the batch is part of the graph.
        colours = tf.reshape(tf.cast(picture, tf.float32), (batch, size * size, 3))
        mean = tf.reduce_mean(colours, 1)[:, :2]
        return {"p": tf.nn.softmax(mean * factor)}

    module = tf.Module()
    module.serve = tf.function(
        call, input_signature=[tf.TensorSpec((batch, size, size, 3), dtype, name="picture")]
    )
    tf.saved_model.save(module, str(folder), signatures={"serving_default": module.serve})
    return folder


def test_a_saved_model_of_constants_is_made_anew_when_they_change(drawn: Dataset, tmp_path: Path) -> None:
    said: list[str] = []

    def make() -> bytes:
        said.clear()
        # Its batch is fixed at one picture, as it is on a device.
        adopted = adopt(tmp_path / "frozen", ("a", "b"), "rgb")
        paths = write_foreign_files(adopted, ["float32"], tmp_path, report=said.append)
        return read_model(paths["float32"]).flatbuffer

    frozen(tmp_path / "frozen", 0.01)
    first = make()
    assert make() == first
    assert said == ["frozen-float32.tflite is up to date"]
    frozen(tmp_path / "frozen", 0.02)
    assert make() != first
    # Scoring gives it one picture at a time, too.
    two = dataclasses.replace(
        drawn,
        labels=("a", "b"),
        photographs=tuple(
            dataclasses.replace(photograph, label="ab"[number % 2])
            for number, photograph in enumerate(drawn.photographs)
        ),
    )
    adopted = adopt(tmp_path / "frozen", ("a", "b"), "rgb")
    paths = write_foreign_files(adopted, ["float32"], tmp_path, two, random_split(two))
    assert read_contract(paths["float32"]).scores[0].agreement == 1


def test_the_card_is_the_contract_in_words(fragile: Path, drawn: Dataset, tmp_path: Path) -> None:
    model = adopt(fragile, LABELS, "rgb")
    paths = write_foreign_files(model, ["float32"], tmp_path, drawn, random_split(drawn))
    text = render(read_model(paths["float32"]))
    score = read_contract(paths["float32"]).scores[0]
    assert f"| {score.accuracy:.4f} | {score.macro_f1:.4f} |" in text
    assert "Trained elsewhere" in text
    verdicts = verdict("x", read_contract(paths["float32"]), Gate(agreement=1.1))
    assert verdicts is None  # float32 is not quantised


def test_a_saved_model_converts_like_the_keras_file(fragile: Path, tmp_path: Path) -> None:
    folder = tmp_path / "exported"
    keras.saving.load_model(fragile).export(folder, verbose=False)
    from_keras, from_folder = (adopt(path, LABELS, "rgb") for path in (fragile, folder))
    first = write_foreign_files(from_keras, ["float32"], tmp_path)["float32"]
    second = write_foreign_files(from_folder, ["float32"], tmp_path)["float32"]
    ours, theirs = read_contract(first), read_contract(second)
    assert (ours.macs, ours.parameters) == (theirs.macs, theirs.parameters) == (224 * 224 * 9 + 24, 12 + 32)
    assert ours.training is not None
    assert ours.training.split == "unknown"
    picture = np.random.default_rng(0).integers(0, 256, (1, 224, 224, 3)).astype(np.uint8)
    outputs = []
    for path in (first, second):
        model = _open(read_model(path).flatbuffer)
        _feed(model, picture[0])
        outputs.append(model.get_tensor(model.get_output_details()[0]["index"]))
    assert np.allclose(*outputs, atol=1e-5)


def saved(model: keras.Model, path: Path) -> Path:
    model.save(path)
    return path


def bad_models(folder: Path) -> dict[str, tuple[Path, str]]:
    """Name -> a model that cannot be converted, and words of the sentence that says so."""
    layers = keras.layers
    free, fixed = keras.Input((None, None, 3)), keras.Input((16, 16, 3))
    pooled = layers.GlobalAveragePooling2D()
    eight = layers.Dense(8, activation="softmax")
    cases = {
        "dynamic": (keras.Model(free, eight(pooled(free))), "input size is not fixed"),
        "nine": (keras.Model(fixed, layers.Dense(9, activation="softmax")(pooled(fixed))), "8 labels"),
        "logits": (tiny(GAINS, 16, softmax=False), "not probabilities"),
        "two": (
            keras.Model(fixed, [eight(pooled(fixed)), layers.Flatten()(fixed)]),
            "1 inputs and 2 outputs",
        ),
        "lambda": (
            keras.Sequential(
                [keras.Input((16, 16, 3)), layers.Lambda(lambda x: x[:, 0, 0, :]), layers.Dense(8)]
            ),
            "carries Python code",
        ),
        "nested": (
            keras.Sequential(
                [
                    keras.Input((16, 16, 3)),
                    keras.Sequential([keras.Input((16, 16, 3)), layers.Lambda(lambda x: x[:, 0, 0, :])]),
                    layers.Dense(8, activation="softmax"),
                ]
            ),
            "carries Python code",
        ),
        "batch": (
            keras.Model(four := keras.Input(batch_shape=(4, 16, 16, 3)), eight(pooled(four))),
            "its batch is fixed at 4",
        ),
        "grey": (
            keras.Sequential([keras.Input((16, 16, 1)), layers.Flatten(), layers.Dense(8, "softmax")]),
            "only networks for colour pictures",
        ),
    }
    found = {name: (saved(model, folder / f"{name}.keras"), words) for name, (model, words) in cases.items()}
    # The name of the layer is no reason to take it for a Lambda.
    found["unknown"] = (folder / "unknown.keras", "has a layer of the unknown class Gambda")
    with zipfile.ZipFile(found["nine"][0]) as whole, zipfile.ZipFile(found["unknown"][0], "w") as changed:
        for name in whole.namelist():
            changed.writestr(name, whole.read(name).replace(b'"Dense"', b'"Gambda"'))
    (folder / "nothing.keras").write_bytes(b"")
    found["nothing"] = (folder / "nothing.keras", "not a Keras model")
    (folder / "cut.keras").write_bytes(found["nine"][0].read_bytes()[:-50])
    found["cut"] = (folder / "cut.keras", "not a Keras model")
    with zipfile.ZipFile(folder / "bare.keras", "w") as archive:
        archive.writestr("metadata.json", "{}")
    found["bare"] = (folder / "bare.keras", "config.json")
    (folder / "upper.KERAS").write_bytes(found["nine"][0].read_bytes())
    found["upper"] = (folder / "upper.KERAS", "only files that end in .keras")
    found["bytes"] = (frozen(folder / "bytes", 0.01, dtype=tf.uint8), "takes uint8 values")
    found["fixed"] = (frozen(folder / "fixed", 0.01, batch=4), "its batch is fixed at 4")
    (folder / "text.keras").write_text("no zip")
    (folder / "old.h5").write_bytes(b"\x89HDF")
    (folder / "empty").mkdir()
    (folder / "empty" / "saved_model.pb").write_bytes(b"\xff\xff")
    found["text"] = (folder / "text.keras", "not a Keras model")
    found["old"] = (folder / "old.h5", "only files that end in .keras")
    found["damaged"] = (folder / "empty", "damaged SavedModel")
    found["missing"] = (folder / "missing.keras", "no such model")
    return found


def test_models_that_cannot_be_converted_are_refused_in_one_sentence(tmp_path: Path) -> None:
    for name, (path, words) in bad_models(tmp_path).items():
        with pytest.raises(InputError) as caught:
            adopt(path, LABELS, "rgb")
        assert words in str(caught.value), name
        assert str(path) in str(caught.value), name
        assert "\n" not in str(caught.value), name


@pytest.mark.parametrize("kind", ["dict out", "list out", "dict in", "list in", "bytes in", "one at a time"])
def test_one_input_and_one_output_may_come_in_any_form(kind: str, tmp_path: Path) -> None:
    picture = keras.Input((8, 8, 3), dtype="uint8" if kind == "bytes in" else None, name="picture")
    if kind == "one at a time":
        picture = keras.Input(batch_shape=(1, 8, 8, 3), name="picture")
    values = keras.layers.Rescaling(1 / 255)(picture)
    output = keras.layers.Dense(8, activation="softmax")(keras.layers.GlobalAveragePooling2D()(values))
    taken = {"dict in": {"picture": picture}, "list in": [picture]}.get(kind, picture)
    given = {"dict out": {"p": output}, "list out": [output]}.get(kind, output)
    adopted = adopt(saved(keras.Model(taken, given), tmp_path / "any.keras"), LABELS, "unit")
    assert adopted.labels == LABELS
    path = write_foreign_files(adopted, ["float32"], tmp_path)["float32"]
    assert read_contract(path).input_tensor.shape == (1, 8, 8, 3)


def test_a_saved_model_that_calls_python_is_not_loaded(tmp_path: Path) -> None:
    module = tf.Module()
    module.serve = tf.function(
        lambda picture: {"y": tf.numpy_function(lambda x: x, [picture], tf.float32)},
        input_signature=[tf.TensorSpec((1, 16, 16, 3), tf.float32)],
    )
    tf.saved_model.save(module, str(tmp_path), signatures={"serving_default": module.serve})
    with pytest.raises(InputError, match="calls PyFunc, which reaches outside the network"):
        adopt(tmp_path, LABELS, "rgb")


def test_an_operation_that_tflite_lacks_is_named_before_photographs_are_read(
    tmp_path: Path,
) -> None:
    picture = keras.Input((16, 16, 3))
    odd = keras.ops.erfinv(picture / 1000)
    pooled = keras.layers.GlobalAveragePooling2D()(odd)
    path = saved(
        keras.Model(picture, keras.layers.Dense(8, activation="softmax")(pooled)), tmp_path / "odd.keras"
    )
    arguments = ["tflite", str(path), "--labels", ",".join(LABELS), "--out", str(tmp_path / "m")]
    done = CliRunner().invoke(app, arguments)
    assert isinstance(done.exception, InputError), done.output
    assert "Erfinv" in str(done.exception)
    assert "cannot be converted to float32" in str(done.exception)
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("tflite", "{net}"), "needs --labels"),
        (("tflite", "{net}", "--labels", "a,b", "--precision", "int4"), "precision 'int4' is not known"),
        (("tflite", "{net}", "--labels", "a,a"), "at least two different names"),
        (("tflite", "{net}", "--labels", "a,b", "--convention", "bgr"), "convention 'bgr' is not known"),
        (("tflite", "{net}", "--labels", "a,b", "--out", "{net}/x"), "nothing can be written there"),
        (("untrained", "lcnn", "--data", "{data}", "--out", "{net}/x"), "nothing can be written there"),
        (("all", "lcnn", "--data", "{data}", "--out", "{net}/x"), "nothing can be written there"),
        (("all", "alexnet", "--data", "{data}"), "architecture 'alexnet' is not known"),
        (("untrained", "alexnet", "--data", "{data}"), "architecture 'alexnet' is not known"),
        (
            (
                "train",
                "vgg16",
                "--data",
                "{data}",
                "--split",
                "random",
                "--weights",
                "none",
                "--layers",
                "head",
            ),
            "needs weights",
        ),
        (("train", "vgg16", "--data", "{data}", "--split", "random", "--head", "huge"), "has no head 'huge'"),
        (("card", "missing.tflite"), "no such model file"),
        (("debug", "a.tflite", "b.tflite", "--data", "{data}"), "no such model file"),
    ],
)
def test_misuse_ends_in_one_sentence(
    fragile: Path, drawn: Dataset, arguments: tuple[str, ...], words: str
) -> None:
    # `edge.console.run` prints the message of an InputError on one line and ends with status 2.
    done = CliRunner().invoke(app, [part.format(data=drawn.root, net=fragile) for part in arguments])
    assert isinstance(done.exception, InputError), done.output
    assert words in str(done.exception)
    assert "\n" not in str(done.exception)
    # Nothing was begun.
    assert "exporting" not in done.stderr
    assert "training" not in done.stderr


@pytest.mark.parametrize("seed", [-1, 2**32, 2**40])
@pytest.mark.parametrize(
    "arguments",
    [
        ("split", "x"),
        ("train", "lcnn", "--data", "x"),
        ("tflite", "x"),
        ("untrained", "lcnn", "--data", "x"),
        ("all", "lcnn", "--data", "x"),
        ("calibrate", "x", "--data", "x"),
        ("debug", "x", "x", "--data", "x"),
    ],
)
def test_a_seed_that_no_generator_takes_is_misuse(arguments: tuple[str, ...], seed: int) -> None:
    done = CliRunner().invoke(app, [*arguments, "--seed", str(seed)])
    assert done.exit_code == 2, done.output
    assert "--seed" in done.stderr


def test_a_folder_in_the_place_of_a_model_file_is_named_before_the_work(tmp_path: Path) -> None:
    adopted = adopt(frozen(tmp_path / "frozen", 0.01), ("a", "b"), "rgb")
    (tmp_path / "frozen-float32.tflite").mkdir()
    said: list[str] = []
    with pytest.raises(InputError, match=r"frozen-float32\.tflite: a folder stands"):
        write_foreign_files(adopted, ["float32"], tmp_path, report=said.append)
    assert said == []


def test_labels_come_from_a_list_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("Die Back\n\nHealthy\n")
    assert read_labels(str(tmp_path / "labels.txt")) == read_labels("Die Back, Healthy")
    # Longer than a file's name may be.
    many = [f"class number {number}" for number in range(400)]
    assert read_labels(",".join(many)) == tuple(many)


def test_an_input_that_calibration_never_saw_is_not_clipped() -> None:
    dull = np.random.default_rng(0).integers(60, 190, (4, 8, 8, 3)).astype(np.uint8)
    kept = dull.copy()
    takes, _ = tensors(convert(tiny(GAINS), "int8", dull))
    assert (takes.dtype, takes.scale, takes.zero_point) == ("uint8", 1.0, 0)
    assert np.array_equal(dull, kept)


def test_labels_that_are_not_the_folders_are_refused(fragile: Path, drawn: Dataset, tmp_path: Path) -> None:
    labels = (*LABELS[:-1], "Rust")
    model = adopt(fragile, labels, "rgb")
    with pytest.raises(InputError, match="Rust"):
        write_foreign_files(model, ["int8"], tmp_path, drawn, random_split(drawn))
    with pytest.raises(InputError, match="int8 needs photographs"):
        write_foreign_files(model, ["int8"], tmp_path)


def test_tasks_run_side_by_side_and_fail_one_by_one(drawn: Dataset) -> None:
    source = drawn.root / drawn.photographs[0].path
    first, second = side_by_side(read_photograph, [{"source": source}, {"source": "missing.jpg"}], 2)
    assert np.array_equal(first, read_photograph(source))
    assert str(second) == "missing.jpg: no such file; check the path"
    (killed,) = side_by_side(os._exit, [{"status": 9}], 1)
    assert "its process was killed" in str(killed)


def test_an_interruption_ends_the_tasks_that_run_and_those_that_wait(tmp_path: Path) -> None:
    slow = [{"args": ["sh", "-c", f"sleep 5; touch '{tmp_path}/{name}'"]} for name in ("runs", "waits")]
    results = side_by_side(subprocess.check_call, [{"args": ["true"]}, *slow], 2)
    assert next(results) == 0
    with pytest.raises(KeyboardInterrupt):
        results.throw(KeyboardInterrupt())
    assert multiprocessing.active_children() == []
    time.sleep(6)
    assert list(tmp_path.iterdir()) == []


def test_untrained_files_say_so_and_the_tables_agree(drawn: Dataset, tmp_path: Path) -> None:
    arguments = ["untrained", "lcnn", "--data", str(drawn.root), "--out", str(tmp_path)]
    done = CliRunner().invoke(app, [*arguments, "--precision", "int8", "--per-class", "1", "--check", "8"])
    assert done.exit_code == 0, done.output
    contract = read_contract(tmp_path / "lcnn-random-weights-int8.tflite")
    assert contract.training is None
    (row,) = json.loads((tmp_path / "untrained.json").read_text())
    assert row["bytes"] == contract.flatbuffer_bytes
    assert row["processor_seconds"] > 0
    assert (tmp_path / "untrained.md").read_text().strip() == done.stdout.strip()
    assert (tmp_path / "untrained.csv").read_text().splitlines()[1].startswith("lcnn,int8,")
