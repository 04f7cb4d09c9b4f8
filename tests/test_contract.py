"""A model file is opened only when it is whole and is what its contract says."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edge.classifier import DEFAULT_MODEL, Classifier
from edge.contract import (
    METADATA,
    Contract,
    Tensor,
    contract_from_json,
    contract_to_json,
    read_contract,
    read_model,
    write_model,
)
from edge.errors import InputError
from edge.files import sha256, write_atomic


@pytest.fixture
def shipped() -> bytes:
    return DEFAULT_MODEL.read_bytes()


def rewrite(tmp_path: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """The shipped flatbuffer with a changed contract."""
    model = read_model(DEFAULT_MODEL)
    values = json.loads(json.dumps(contract_to_json(model.contract)))
    change(values)
    buffer = io.BytesIO()
    buffer.write(model.flatbuffer)
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr(METADATA, json.dumps(values))
    path = tmp_path / "changed.tflite"
    path.write_bytes(buffer.getvalue())
    return path


def refusal(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        Classifier.open(path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    return message


def test_a_contract_survives_writing_and_reading(tmp_path: Path) -> None:
    model = read_model(DEFAULT_MODEL)
    written = write_model(tmp_path / "copy.tflite", model.flatbuffer, model.contract, model.members)
    assert read_contract(tmp_path / "copy.tflite") == written == model.contract


def test_the_same_model_gives_the_same_bytes(tmp_path: Path, shipped: bytes) -> None:
    model = read_model(DEFAULT_MODEL)
    write_model(tmp_path / "again.tflite", model.flatbuffer, model.contract, model.members)
    assert (tmp_path / "again.tflite").read_bytes() == shipped


def test_every_truncation_is_refused(tmp_path: Path, shipped: bytes) -> None:
    path = tmp_path / "cut.tflite"
    for length in (0, 1, 7, 8, 1000, len(shipped) // 2, len(shipped) - 30, len(shipped) - 1):
        path.write_bytes(shipped[:length])
        assert any(words in refusal(path) for words in ("not a TFLite model", "no readable contract"))


def test_one_changed_bit_in_the_weights_is_noticed(tmp_path: Path, shipped: bytes) -> None:
    path = tmp_path / "bit.tflite"
    damaged = bytearray(shipped)
    damaged[len(damaged) // 2] ^= 1
    path.write_bytes(damaged)
    assert "do not match the digest" in refusal(path)


def test_a_plain_tflite_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plain.tflite"
    path.write_bytes(read_model(DEFAULT_MODEL).flatbuffer)
    assert "no readable contract" in refusal(path)


def test_a_zip_without_a_contract_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "labels.tflite"
    path.write_bytes(read_model(DEFAULT_MODEL).flatbuffer)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("labels.txt", "Healthy\n")
    assert "carries no contract" in refusal(path)


def test_a_zip_bomb_behind_the_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.tflite"
    path.write_bytes(read_model(DEFAULT_MODEL).flatbuffer)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(METADATA, b" " * (64 * 2**20))
    assert "larger than accepted" in refusal(path)


def test_files_that_are_no_model_are_refused(tmp_path: Path) -> None:
    picture = tmp_path / "leaf.png"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    assert "not a TFLite model" in refusal(picture)
    assert "folder" in refusal(tmp_path)
    assert "no such model file" in refusal(tmp_path / "missing.tflite")


def test_a_flatbuffer_of_garbage_is_named_with_the_runtimes_cause(tmp_path: Path) -> None:
    path = tmp_path / "garbage.tflite"
    contract = dataclasses.replace(read_contract(DEFAULT_MODEL))
    write_model(path, b"\x1c\0\0\0TFL3" + bytes(range(256)) * 20, contract)
    message = refusal(path)
    assert "no installed runtime opens this model" in message


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda v: v["input"].update(height=128), "does not match the input size"),
        (
            lambda v: (v["input"].update(height=128), v["input_tensor"].update(shape=[1, 128, 224, 3])),
            "its input is uint8 1x224x224x3",
        ),
        (lambda v: v["labels"].pop(), "does not match 7 labels"),
        (
            lambda v: v.update(
                precision="float32",
                input_tensor={"dtype": "float32", "shape": [1, 224, 224, 3], "scale": 0, "zero_point": 0},
            ),
            "its input is uint8",
        ),
        (lambda v: v.update(precision="float32"), "precision float32 with uint8 input"),
        (lambda v: v["output_tensor"].update(scale=0.5), "its output is uint8"),
        (lambda v: v["output_tensor"].update(scale=0.0), "needs a scale above 0"),
        (lambda v: v["input"].update(colour="BGR"), "colour order 'BGR' is not known"),
        (lambda v: v.update(version=99), "update the program"),
        (lambda v: v.update(format="other"), "not a mango-leaf-model contract"),
        (lambda v: v["flatbuffer"].update(bytes=5), "do not match the digest"),
    ],
)
def test_a_contract_that_disagrees_with_the_model_is_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], words: str
) -> None:
    assert words in refusal(rewrite(tmp_path, change))


INFINITY, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("version", 0), ("version", -3), ("version", 1.0), ("version", True), ("version", "1"), ("version", None),
        ("labels", None), ("labels", []), ("labels", "abcdefgh"), ("labels", {"a": 1}),
        ("labels[0]", "Healthy"), ("labels[7]", ""), ("labels[7]", "  "), ("labels[7]", 7),
        ("labels[7]", "Sooty\nMould"), ("labels[7]", "\x1b[2JSooty"), ("labels[7]", "Sooty\u2028Mould"),
        ("labels[7]", "\ud800"), ("labels[7]", "\u202eSooty"),
        ("input", None), ("input", [224, 224]), ("input.height", 224.0), ("input.height", True),
        ("input.height", INFINITY), ("input.height", 0), ("input.height", 10**400), ("input.width", "224"),
        ("input.resize", ["bilinear"]), ("input.minimum", 0.0), ("input.maximum", 255.0), ("input.surprise", 1),
        ("precision", ["int8"]), ("precision", "int4"), ("architecture", 5), ("architecture", "lcnn\x1b[2J"),
        ("parameters", INFINITY), ("parameters", -INFINITY), ("parameters", NAN), ("parameters", 1.5),
        ("parameters", -1), ("parameters", 10**400), ("parameters", True), ("parameters", "many"),
        ("macs", INFINITY), ("macs", None), ("flatbuffer", None), ("flatbuffer.bytes", INFINITY),
        ("flatbuffer.bytes", 190224.0), ("flatbuffer.bytes", -1), ("flatbuffer.sha256", 5),
        ("input_tensor", None), ("input_tensor.dtype", "float64"), ("input_tensor.shape", INFINITY),
        ("input_tensor.shape[1]", INFINITY), ("input_tensor.shape[1]", 224.0), ("input_tensor.shape", "1224"),
        ("output_tensor.zero_point", INFINITY), ("output_tensor.zero_point", 0.0),
        ("output_tensor.scale", INFINITY), ("output_tensor.scale", NAN), ("output_tensor.scale", "1"),
        ("output_tensor.scale", -1.0), ("training", []), ("training", "burst"), ("training.data_digest", 5),
        ("training.images", INFINITY), ("training.seed", "7"), ("training.split", "burst\r"),
        ("training.surprise", 1), ("calibration", [1, 2]), ("calibration", "400"), ("calibration.images", NAN),
        ("calibration.part", "\x1b]0;owned\x07"), ("scores", None), ("scores", {}), ("scores[0]", None),
        ("scores[0].accuracy", "high"), ("scores[0].accuracy", 1.5), ("scores[0].accuracy", NAN),
        ("scores[0].images", INFINITY), ("scores[0].largest_difference", INFINITY), ("scores[0].part", 1),
        ("scores[0].per_class", []), ("scores[0].per_class.Healthy", 1),
        ("scores[0].per_class.Healthy.recall", "all"), ("scores[0].time_baseline", []),
        ("scores[0].time_baseline.accuracy", None), ("versions", []), ("versions.numpy", 2),
        ("versions.numpy", "2\n"), ("extra", []), ("extra", None), ("extra.temperature", INFINITY),
        ("extra.calibrated.split", "\x1b[31m"), ("extra.appearance.mean[0]", NAN),
    ],
)  # fmt: skip
def test_a_malformed_value_is_refused_by_its_name(tmp_path: Path, field: str, value: object) -> None:
    *way, last = re.findall(r"\w+", field)
    steps: list[Any] = [int(step) if step.isdecimal() else step for step in way]

    def change(values: Any) -> None:
        for step in steps:
            values = values[step]
        values[int(last) if last.isdecimal() else last] = value

    message = refusal(rewrite(tmp_path, change))
    assert (field if field != "labels[0]" else "labels[5]") in message
    assert message.isprintable()
    assert len(message) < len(str(tmp_path)) + 250


@pytest.mark.parametrize(
    ("field", "holder"),
    [
        ("labels", "it"), ("parameters", "it"), ("input.fit", "input"), ("output_tensor.scale", "output_tensor"),
        ("training.split", "training"), ("flatbuffer.bytes", "flatbuffer"), ("scores[0].seed", r"scores\[0\]"),
        ("scores[1].time_baseline.macro_f1", r"scores\[1\]\.time_baseline"),
    ],
)  # fmt: skip
def test_a_missing_value_is_refused_by_its_name(tmp_path: Path, field: str, holder: str) -> None:
    *way, last = re.findall(r"\w+", field)

    def change(values: Any) -> None:
        for step in way:
            values = values[int(step) if step.isdecimal() else step]
        del values[last]

    assert re.search(rf"{holder} lacks '{last}'", refusal(rewrite(tmp_path, change)))


def test_labels_of_every_script_are_accepted() -> None:
    values = json.loads(json.dumps(contract_to_json(read_contract(DEFAULT_MODEL))))
    # Bengali and Persian spell words with joiners, which are no letters that print by themselves.
    values["labels"][:3] = ["অ্যানথ্রাকনোজ", "র\u200d্যাব", "می\u200cشود"]
    assert contract_from_json(values, "here").labels[:3] == tuple(values["labels"][:3])


def test_what_stands_twice_is_refused(tmp_path: Path) -> None:
    path = rewrite(tmp_path, lambda values: None)
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr(METADATA, "{}")
    assert "'metadata.json' twice" in refusal(path)
    path.write_bytes(read_model(DEFAULT_MODEL).flatbuffer)
    text = json.dumps(contract_to_json(read_contract(DEFAULT_MODEL)))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(METADATA, text[:-1] + ', "labels": ["a"]}')
    assert "'labels' stands twice" in refusal(path)


def test_deep_nesting_is_refused(tmp_path: Path) -> None:
    nested: Any = 1
    for _ in range(600):
        nested = [nested]
    assert "nested too deeply" in refusal(rewrite(tmp_path, lambda values: values["extra"].update(x=nested)))


def test_a_contract_that_could_not_be_read_again_is_not_written(tmp_path: Path) -> None:
    model = read_model(DEFAULT_MODEL)
    wrong = dataclasses.replace(model.contract, labels=("Die\nBack", *model.contract.labels[1:]))
    with pytest.raises(InputError, match=r"labels\[0\]"):
        write_model(tmp_path / "wrong.tflite", model.flatbuffer, wrong)
    assert not list(tmp_path.iterdir())


def test_what_never_ends_or_waits_is_no_model(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.tflite"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero")):
        assert "a device, pipe or socket, not a model file" in refusal(path)


def test_a_float_model_with_an_int8_contract_is_refused(tmp_path: Path, float_flatbuffer: bytes) -> None:
    path = tmp_path / "float.tflite"
    write_model(path, float_flatbuffer, read_contract(DEFAULT_MODEL))
    assert "its input is float32" in refusal(path)


@pytest.mark.parametrize("text", ["", "[]", "{", "null", '{"format": 3}', "[" * 100_000])
def test_metadata_that_is_no_contract_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "odd.tflite"
    path.write_bytes(read_model(DEFAULT_MODEL).flatbuffer)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(METADATA, text)
    refusal(path)


def test_a_contract_states_all_that_a_device_needs() -> None:
    contract = read_contract(DEFAULT_MODEL)
    assert contract.labels[0] == "Anthracnose"
    assert len(contract.labels) == 8
    assert (contract.input.height, contract.input.width, contract.input.colour) == (224, 224, "RGB")
    assert contract.input_tensor == Tensor("uint8", (1, 224, 224, 3), 1.0, 0)
    assert contract.output_tensor == Tensor("uint8", (1, 8), 1 / 256, 0)
    assert contract.parameters == 171_784
    # Six 3x3 convolutions at 222, 109, 52, 24, 10 and 3 pixels a side, and two dense layers, by hand.
    sides, channels = (222, 109, 52, 24, 10, 3), (3, 32, 64, 64, 64, 64, 64)
    convolutions = sum(s * s * 9 * a * b for s, a, b in zip(sides, channels[:-1], channels[1:], strict=True))
    assert contract.macs == convolutions + 64 * 64 + 64 * 8
    assert contract.training is not None
    assert contract.training.split == "burst"
    assert contract.flatbuffer_sha256 == sha256(read_model(DEFAULT_MODEL).flatbuffer)


def test_json_values_round_trip() -> None:
    contract = read_contract(DEFAULT_MODEL)
    values = json.loads(json.dumps(contract_to_json(contract)))
    assert isinstance(contract_from_json(values, "here"), Contract)
    assert contract_from_json(values, "here") == contract


def test_interrupted_writing_leaves_the_old_file_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(b"old")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    for step in ("os.fsync", "os.replace"):
        with monkeypatch.context() as patch:
            patch.setattr(step, interrupt)
            with pytest.raises(KeyboardInterrupt):
                write_atomic(path, b"new")
        assert path.read_bytes() == b"old"
        assert list(tmp_path.iterdir()) == [path]
    write_atomic(path, b"new")
    assert path.read_bytes() == b"new"
