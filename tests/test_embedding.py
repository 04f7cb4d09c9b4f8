"""Embeddings: what the last dense layer sees, kept in a file that carries nothing else."""

from __future__ import annotations

import io
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from bench.embedding import (
    Embedder,
    Embeddings,
    embed,
    read_embeddings,
    training_split,
    write_embeddings,
)
from convert.dataset import index
from convert.split import random_split
from edge.classifier import DEFAULT_MODEL, Classifier
from edge.contract import Contract, Tensor, write_model
from edge.errors import InputError
from edge.preprocessing import InputSpec, Pixels


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, leaves: list[Pixels]) -> Path:
    root = tmp_path_factory.mktemp("leaves") / "data"
    for number, leaf in enumerate(leaves[:6]):
        path = root / ("Anthracnose", "Healthy")[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(leaf).save(path)
    return root


def test_the_dense_layer_makes_the_probabilities_from_the_embedding(
    float_flatbuffer: bytes, leaves: list[Pixels], tmp_path: Path
) -> None:
    contract = Contract(
        tuple("abcdefgh"), InputSpec(), "float32", "tiny", 1, 1,
        Tensor("float32", (1, 224, 224, 3)), Tensor("float32", (1, 8)),
    )  # fmt: skip
    write_model(tmp_path / "tiny.tflite", float_flatbuffer, contract)
    Image.fromarray(leaves[0]).save(tmp_path / "leaf.png")
    embedder = Embedder(tmp_path / "tiny.tflite")
    values, probabilities = embedder.embed(tmp_path / "leaf.png")
    interpreter = embedder.classifier.interpreter
    dense = [one for one in interpreter._get_ops_details() if one["op_name"] == "FULLY_CONNECTED"][-1]
    weights = interpreter.get_tensor(dense["inputs"][1])
    assert values.shape == (weights.shape[1],) == (4,)
    logits = weights @ values
    if dense["inputs"][2] >= 0:
        logits = logits + interpreter.get_tensor(dense["inputs"][2])
    expected = np.exp(logits - logits.max())
    np.testing.assert_allclose(probabilities, expected / expected.sum(), atol=1e-5)


def test_the_shipped_model_embeds_and_still_classifies(folder: Path) -> None:
    dataset = index(folder)
    found = embed(DEFAULT_MODEL, dataset)
    assert found.embedding is not None
    assert found.embedding.shape == (6, 64)
    assert (found.embedding.std(axis=0) > 0).any()
    plain = Classifier.open()
    for row, path in enumerate(found.paths):
        # The plain kernels and XNNPACK differ by a few steps of the int8 output at the most.
        expected = plain.classify_path(folder / path).probabilities
        np.testing.assert_allclose(found.probabilities[row], expected, atol=0.1)
    assert training_split(dataset, DEFAULT_MODEL) is None
    assert set(found.part) == {""}


def test_a_split_of_another_model_is_refused(folder: Path) -> None:
    dataset = index(folder)
    with pytest.raises(InputError, match="was trained on another split"):
        embed(DEFAULT_MODEL, dataset, random_split(dataset))


def some() -> Embeddings:
    generator = np.random.default_rng(0)
    return Embeddings(
        "d" * 64,
        ("a", "b"),
        ("a/1.jpg", "b/2.jpg", "b/ü.jpg"),
        ("0" * 16, "1" * 16, "2" * 16),
        ("training", "", "test"),
        generator.random((3, 2), dtype=np.float32),
        generator.random((3, 5), dtype=np.float32),
    )


def test_the_file_holds_what_was_saved_and_the_same_bytes(tmp_path: Path) -> None:
    for number, found in enumerate((some(), replace(some(), embedding=None))):
        write_embeddings(found, tmp_path / f"{number}.npz")
        write_embeddings(found, tmp_path / "again.npz")
        assert (tmp_path / f"{number}.npz").read_bytes() == (tmp_path / "again.npz").read_bytes()
        read = read_embeddings(tmp_path / f"{number}.npz")
        assert replace(read, probabilities=found.probabilities, embedding=None) == replace(
            found, embedding=None
        )
        np.testing.assert_array_equal(read.probabilities, found.probabilities)
        assert (read.embedding is None) == (found.embedding is None)


def rewrite(path: Path, **changed: np.ndarray) -> None:
    with np.load(path) as file:
        values = {name: file[name] for name in file.files}
    np.savez(path, **{**values, **changed})


@pytest.mark.parametrize(
    "changed",
    [
        {"format": np.array("other")},
        {"version": np.array(9)},
        {"embedding": np.zeros((2, 5), np.float32)},
        {"embedding": np.full((3, 5), np.nan, np.float32)},
        {"probabilities": np.zeros((3, 3), np.float32)},
        {"paths": np.array([1, 2, 3])},
        {"labels": np.array([{"a": 1}, {}], dtype=object)},
        {"part": np.array(["x"])},
        {"labels": np.array(["a", "a"])},
        {"labels": np.array("ab")},
        {"paths": np.array("a/1.jpg")},
        {"model": np.array([1, 2])},
        {"format": np.array(["mango-leaf-embedding"] * 2)},
        {"paths": np.array(["a/1.jpg", "b/2.jpg", "a/1.jpg"])},
        {"probabilities": np.full((3, 2), 50.0, np.float32)},
    ],
)
def test_damaged_files_and_pickles_are_refused(tmp_path: Path, changed: dict[str, np.ndarray]) -> None:
    write_embeddings(some(), tmp_path / "x.npz")
    rewrite(tmp_path / "x.npz", **changed)
    with pytest.raises(InputError, match=r"x\.npz"):
        read_embeddings(tmp_path / "x.npz")


def test_foreign_and_truncated_files_are_refused(tmp_path: Path) -> None:
    write_embeddings(some(), tmp_path / "x.npz")
    whole = (tmp_path / "x.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "empty.npz").write_bytes(b"")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("other.npy", b"x")
    (tmp_path / "other.npz").write_bytes(buffer.getvalue())
    for name in ("cut", "empty", "other", "none"):
        with pytest.raises(InputError, match=rf"{name}\.npz"):
            read_embeddings(tmp_path / f"{name}.npz")


def test_predictions_of_classify_are_read(tmp_path: Path) -> None:
    path = tmp_path / "said.csv"
    path.write_text(
        "path,label_1,probability_1,label_2,probability_2\nx.jpg,b,0.7,a,0.3\ny.jpg,a,0.9,b,0.1\n"
    )
    found = read_embeddings(path)
    assert found.labels == ("a", "b")
    assert found.embedding is None
    np.testing.assert_allclose(found.probabilities, [[0.3, 0.7], [0.9, 0.1]], rtol=1e-6)
    for text, words in (
        ("path\nx\n", "needs the columns"),
        ("path,label_1,probability_1\nx,a,much\n", "line 2"),
        ("path,label_1,probability_1\nx,a,nan\n", "not from 0 to 1"),
        ("path,label_1,probability_1\nx,a,93\n", "not from 0 to 1"),
        ("path,label_1,probability_1\nx,,0.9\n", "line 2 names a class twice or leaves one out"),
        ("path,label_1,probability_1,label_2,probability_2\nx,a,0.9,a,0.1\n", "line 2 names a class twice"),
        ("path,label_1,probability_1\nx,a,0.9\nx,b,0.8\n", "line 3 is a second prediction for x"),
        ("path,label_1,probability_1\n\n", "holds no prediction"),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=words):
            read_embeddings(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(InputError, match="cannot be read"):
        read_embeddings(path)
