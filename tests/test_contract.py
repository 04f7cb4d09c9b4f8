"""A model file is opened only when it is whole and is what its contract says."""

from __future__ import annotations

import dataclasses
import io
import json
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
        (lambda v: v["labels"].__setitem__(0, "Healthy"), "stands twice"),
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
        (lambda v: v["input"].update(surprise=1), "malformed"),
        (lambda v: v.update(version=99), "update the program"),
        (lambda v: v.update(format="other"), "not a mango-leaf-model contract"),
        (lambda v: v.pop("labels"), "lacks 'labels'"),
        (lambda v: v.update(labels=None), "malformed"),
        (lambda v: v.update(scores=[{"split": "burst"}]), "malformed"),
        (lambda v: v["flatbuffer"].update(bytes=5), "do not match the digest"),
    ],
)
def test_a_contract_that_disagrees_with_the_model_is_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], words: str
) -> None:
    assert words in refusal(rewrite(tmp_path, change))


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
