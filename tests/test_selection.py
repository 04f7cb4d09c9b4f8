"""Which photographs are scored, and what is said of their part in the training."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from bench.selection import (
    baseline,
    check_fresh,
    own_split,
    seen_in_training,
    select,
    unlabelled_dataset,
)
from convert.dataset import Dataset, Photograph
from convert.split import identity, make_split
from edge.classifier import Classifier
from edge.contract import Contract, Training
from edge.errors import InputError
from edge.files import sha256


def dataset(bursts: int = 10, each: int = 4, labels: tuple[str, ...] = ("Die Back", "Healthy")) -> Dataset:
    """Photographs that exist in name only: bursts of shots a second apart, ten minutes between bursts."""
    start = datetime(2021, 11, 6, 9)
    photographs = [
        Photograph(
            f"{label}/{number:03d}-{shot}.jpg",
            label,
            sha256(f"{label} {number} {shot}".encode()),
            start + timedelta(days=day, minutes=10 * number, seconds=shot),
        )
        for day, label in enumerate(labels)
        for number in range(bursts)
        for shot in range(each)
    ]
    return Dataset(Path("leaves"), labels, tuple(photographs), (), ())


def trained_on(contract: Contract, data: Dataset, kind: str, seed: int = 7) -> Contract:
    split = make_split(kind, data, seed)
    training = Training(data.digest, 1, kind, split.digest, seed, 1, 1, "0" * 64)
    return dataclasses.replace(contract, training=training, scores=())


def test_held_out_photographs_are_the_test_part_sorted_by_content() -> None:
    data = dataset()
    split = make_split("burst", data)
    chosen = select(data, "held-out", split)
    assert {identity(photograph) for photograph in chosen.photographs} == set(split.parts["test"])
    digests = [photograph.digest for photograph in chosen.photographs]
    assert digests == sorted(digests)
    assert "burst split (seed 7)" in chosen.choice
    renamed = dataclasses.replace(
        data, photographs=tuple(dataclasses.replace(p, path=f"x/{p.digest}.jpg") for p in data.photographs)
    )
    assert select(renamed, "held-out", split).digest == chosen.digest


def test_bursts_are_those_of_the_whole_set() -> None:
    chosen = select(dataset(), "all", None)
    assert len(set(chosen.bursts)) == 20
    for photograph, burst in zip(chosen.photographs, chosen.bursts, strict=True):
        for other, other_burst in zip(chosen.photographs, chosen.bursts, strict=True):
            assert photograph.taken is not None
            assert other.taken is not None
            assert (abs(photograph.taken - other.taken) <= timedelta(minutes=1)) == (burst == other_burst)


def test_a_limited_draw_keeps_the_classes_in_balance_and_repeats() -> None:
    data = dataset(labels=("Anthracnose", "Die Back", "Healthy"))
    chosen = select(data, "all", None, limit=7, seed=3)
    counts = [sum(p.label == label for p in chosen.photographs) for label in data.labels]
    assert sorted(counts) == [2, 2, 3]
    assert select(data, "all", None, limit=7, seed=3) == chosen
    assert select(data, "all", None, limit=7, seed=4).digest != chosen.digest
    assert len(select(data, "all", None, limit=1000).photographs) == len(data.photographs)


def test_a_model_is_traced_to_its_own_split(classifier: Classifier) -> None:
    data = dataset()
    contract = trained_on(classifier.contract, data, "random", seed=11)
    found = own_split(contract, data)
    assert found is not None
    assert (found.name, found.seed) == ("random", 11)
    held_out = seen_in_training(select(data, "held-out", found), contract, found)
    assert held_out.seen == 0


def test_photographs_that_a_model_was_trained_on_are_counted(classifier: Classifier) -> None:
    data = dataset()
    contract = trained_on(classifier.contract, data, "random")
    burst = make_split("burst", data)
    chosen = select(data, "held-out", burst)
    own = own_split(contract, data)
    assert own is not None
    known = set(own.parts["training"]) | set(own.parts["validation"])
    expected = sum(identity(photograph) in known for photograph in chosen.photographs)
    assert expected > 0
    found = seen_in_training(chosen, contract, own)
    assert found.seen == expected
    assert "flatters" in found.text
    everything = seen_in_training(select(data, "all", own), contract, own)
    assert everything.seen == len(known)


def test_what_cannot_be_told_is_said(classifier: Classifier) -> None:
    data = dataset()
    chosen = select(data, "all", None)
    other = trained_on(classifier.contract, dataset(bursts=11), "burst")
    assert own_split(other, data) is None
    found = seen_in_training(chosen, other, None)
    assert found.seen is None
    assert "other data" in found.text
    training = trained_on(classifier.contract, data, "burst").training
    assert training is not None
    strange = dataclasses.replace(
        classifier.contract, training=dataclasses.replace(training, split="made by hand")
    )
    assert own_split(strange, data) is None
    assert "cannot be made again" in seen_in_training(chosen, strange, None).text


def test_fresh_photographs_must_be_fresh(classifier: Classifier) -> None:
    data = dataset()
    contract = trained_on(classifier.contract, data, "burst")
    with pytest.raises(InputError, match="was trained on"):
        check_fresh(select(data, "fresh", None), contract, None, "model.tflite")
    more = dataset(bursts=11)
    check_fresh(select(more, "fresh", None), contract, None, "model.tflite")
    with pytest.raises(InputError, match="not fresh"):
        check_fresh(select(more, "fresh", None), contract, make_split("burst", data), "model.tflite")


def test_a_set_that_lacks_photographs_is_refused() -> None:
    data = dataset()
    held = frozenset(photograph.digest for photograph in data.photographs[1:])
    with pytest.raises(InputError, match="lacks 1 of the 80"):
        select(data, "all", None, members=held)


def test_unlabelled_pictures_are_found_in_any_folder_and_counted_once(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "IMG_20211106_120640.jpg").write_bytes(b"one")
    (tmp_path / "a" / "b" / "copy.jpg").write_bytes(b"one")
    (tmp_path / "two.png").write_bytes(b"two")
    found = unlabelled_dataset(tmp_path)
    times = {photograph.path: photograph.taken for photograph in found.photographs}
    assert times == {"a/IMG_20211106_120640.jpg": datetime(2021, 11, 6, 12, 6, 40), "two.png": None}
    assert found.duplicates == ("a/b/copy.jpg",)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(InputError, match="no picture"):
        unlabelled_dataset(empty)
    with pytest.raises(InputError, match="no such folder"):
        unlabelled_dataset(tmp_path / "gone")


def test_the_time_baseline_is_the_splits_own_or_the_reason_is_given(classifier: Classifier) -> None:
    pytest.importorskip("sklearn")
    data = dataset()
    split = make_split("random", data)
    found, reason = baseline(select(data, "held-out", split), [])
    assert reason == ""
    assert found is not None
    # Two classes on two days: the clock alone tells them apart.
    assert (found["accuracy"], found["split"], found["part"]) == (1.0, "random", "test")
    assert baseline(select(data, "fresh", None), [])[0] is None
    untimed = dataclasses.replace(
        data, photographs=tuple(dataclasses.replace(p, taken=None) for p in data.photographs)
    )
    none, reason = baseline(select(untimed, "held-out", make_split("random", untimed)), [])
    assert none is None
    assert "not known" in reason


def test_the_real_photographs_have_the_shipped_models_split(mango: Path, classifier: Classifier) -> None:
    from convert.dataset import index

    data = index(mango)
    training = classifier.contract.training
    assert training is not None
    if training.data_digest != data.digest:
        pytest.skip("the photographs at hand are not those that the shipped model was trained on")
    split = own_split(classifier.contract, data)
    assert split is not None
    found = seen_in_training(select(data, "held-out", split), classifier.contract, split)
    assert found.seen == 0
    assert len(split.parts["test"]) == classifier.contract.scores[0].images
