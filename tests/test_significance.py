"""Intervals over bursts, McNemar and Holm: known values, and what they must never do."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.metric import Reference
from bench.prediction import Predictions, predictions_from_json, predictions_to_json
from bench.result import Entry
from bench.significance import (
    bootstrap,
    burst_counts,
    compare_table,
    difference,
    holm,
    mcnemar,
    score_statistics,
)
from convert.score import confusion_matrix, macro_f1
from edge.errors import InputError

LABELS = ("a", "b", "c")
OTHER = Reference("other", "by hand", 0.1, {"fog": {1: 0.3, 2: 0.4}, "snow": {1: 0.5, 2: 0.6}}, {})


def predictions(photographs: int = 60, bursts: int = 12, seed: int = 0, errors: float = 0.3) -> Predictions:
    generator = np.random.default_rng(seed)
    truth = np.random.default_rng(99).integers(0, 3, photographs)

    def answers(rate: float) -> np.ndarray:
        wrong = generator.random(photographs) < rate
        return np.where(wrong, (truth + 1) % 3, truth)

    return Predictions(
        labels=LABELS,
        identities=tuple(f"{number:016x}" for number in range(photographs)),
        truth=truth,
        bursts=np.arange(photographs) * bursts // photographs,
        clean=answers(errors / 2),
        corrupted={
            "fog": {1: answers(errors), 2: answers(errors)},
            "snow": {1: answers(errors), 2: answers(errors)},
        },
    )


def entry(found: Predictions, name: str, **changes: object) -> Entry:
    body = {
        "predictions": predictions_to_json(found),
        "encoding": {"quality": 85, "text": "JPEG quality 85"},
        "corruption": {"seed": 0, "base": "package", "versions": "numpy 2"},
        "images": {"choice": "held-out test part of the burst split (seed 7)"},
        **changes,
    }
    return Entry("robustness", body, None, {"name": name}, None)


@pytest.mark.parametrize(
    ("only_first", "only_second", "p"),
    [
        (0, 0, 1.0),
        (0, 5, 0.0625),  # 2 / 2^5
        (10, 2, 0.03857421875),  # 2 (1 + 12 + 66) / 2^12
        (2, 10, 0.03857421875),
        (6, 6, 1.0),
        (1, 0, 1.0),
    ],
)
def test_mcnemar_has_the_binomial_p_value(only_first: int, only_second: int, p: float) -> None:
    assert mcnemar(only_first, only_second) == pytest.approx(p)


@settings(deadline=None)
@given(st.integers(0, 4000), st.integers(0, 4000))
def test_mcnemar_is_a_probability_for_any_counts(first: int, second: int) -> None:
    assert 0 <= mcnemar(first, second) <= 1


def test_holm_steps_down() -> None:
    # 4 x 0.005, 3 x 0.01, 2 x 0.03, then 1 x 0.04 raised to the one before it.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.9]) == pytest.approx([1.0, 1.0])
    assert holm([]) == []


def test_the_statistics_of_the_sample_itself_are_its_scores() -> None:
    found = predictions()
    assert found.truth is not None
    counts = burst_counts(found)
    statistics = score_statistics(counts, found.subsets, OTHER, {"weather": ("fog", "snow")})
    values = {name: float(value[0]) for name, value in statistics(np.ones((1, 12))).items()}
    errors = found.errors()
    assert values["clean/error"] == pytest.approx(errors.clean)
    fog = errors.mean("fog", (1, 2))
    snow = errors.mean("snow", (1, 2))
    assert fog is not None
    assert snow is not None
    assert values["corruptions/fog/error"] == pytest.approx(fog)
    assert values["families/weather/error"] == pytest.approx((fog + snow) / 2)
    assert values["mce"] == pytest.approx((100 * fog / 0.35 + 100 * snow / 0.55) / 2)
    f1 = [
        macro_f1(confusion_matrix(found.truth, row, 3))
        for names in found.corrupted.values()
        for row in names.values()
    ]
    assert values["mean/macro_f1"] == pytest.approx(np.mean(f1))


def test_bursts_that_are_all_alike_leave_no_doubt() -> None:
    found = predictions(photographs=6, bursts=3)
    truth = np.array([0, 1, 0, 1, 0, 1])
    wrong = np.array([0, 2, 0, 2, 0, 2])
    same = dataclasses.replace(found, truth=truth, clean=wrong, corrupted={"fog": {1: wrong}})
    counts = burst_counts(same)
    intervals = bootstrap(3, score_statistics(counts, same.subsets, None, {}), seed=1)
    assert intervals is not None
    assert intervals["clean/error"] == pytest.approx((0.5, 0.5))


def test_whole_bursts_are_drawn_so_bursts_of_like_photographs_widen_the_interval() -> None:
    truth = np.zeros(100, dtype=np.intp)
    clean = np.repeat(np.arange(10) % 2, 10)  # whole bursts right or wrong

    def width(bursts: np.ndarray) -> float:
        found = dataclasses.replace(predictions(100), truth=truth, clean=clean, bursts=bursts, corrupted={})
        intervals = bootstrap(
            len(np.unique(bursts)), score_statistics(burst_counts(found), [], None, {}), seed=3
        )
        assert intervals is not None
        low, high = intervals["clean/error"]
        return high - low

    alone, together = width(np.arange(100)), width(np.arange(100) // 10)
    # Binomial standard errors: 0.05 for 100 independent photographs, 0.158 for 10 bursts; 95 % is 3.92 of them.
    assert alone == pytest.approx(3.92 * 0.05, rel=0.15)
    assert together == pytest.approx(3.92 * 0.158, rel=0.15)


def test_one_burst_has_no_interval() -> None:
    assert bootstrap(1, lambda weights: {}, seed=0) is None


def test_the_same_seed_gives_the_same_interval() -> None:
    first, second = predictions(seed=1), predictions(seed=2, errors=0.6)
    assert difference(first, second, OTHER, 4) == difference(first, second, OTHER, 4)
    assert difference(first, second, OTHER, 4) != difference(first, second, OTHER, 5)


def test_a_model_does_not_differ_from_itself() -> None:
    point, intervals = difference(predictions(), predictions(), OTHER, 0)
    assert set(point.values()) == {0.0}
    assert intervals is not None
    assert set(itertools.chain(*intervals.values())) == {0.0}
    table = compare_table(entry(predictions(), "one"), entry(predictions(), "one"))
    assert all(row[-1] == "no" and row[7] == 1.0 for row in table.rows)
    assert len(set(table.columns)) == len(table.columns)


def test_the_comparison_finds_what_differs_and_says_by_how_much() -> None:
    good, bad = predictions(200, 40, seed=1, errors=0.1), predictions(200, 40, seed=2, errors=0.8)
    table = compare_table(entry(good, "good"), entry(bad, "bad"))
    assert [row[0] for row in table.rows] == ["clean", "fog", "fog", "snow", "snow"]
    assert [row[-1] for row in table.rows] == ["yes"] * 5
    for row in table.rows:
        assert isinstance(row[2], float)
        assert isinstance(row[3], float)
        assert row[4] == pytest.approx(100 * (row[2] - row[3]))
        assert isinstance(row[5], int)
        assert isinstance(row[6], int)
        assert row[7] == pytest.approx(mcnemar(row[5], row[6]))
    assert "200 photographs in 40 bursts" in table.note
    assert "fewer in 5 of 5 subsets" in table.note
    assert "95 % interval" in table.note
    assert "other package versions" not in table.note
    elsewhere = entry(bad, "bad", corruption={"seed": 0, "base": "package", "versions": "numpy 1"})
    assert "numpy 2 against numpy 1" in compare_table(entry(good, "good"), elsewhere).note


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (entry(predictions(50), "b"), "different photographs"),
        (entry(dataclasses.replace(predictions(), truth=None), "b"), "without labels"),
        (entry(dataclasses.replace(predictions(), labels=("a", "b", "d")), "b"), "same classes"),
        (entry(dataclasses.replace(predictions(), corrupted={}), "b"), "same corruptions"),
        (entry(predictions(), "b", encoding={"quality": None, "text": "lossless"}), "same encoding"),
        (entry(predictions(), "b", corruption={"seed": 1, "base": "package", "versions": "numpy 2"}), "seed"),
        (Entry("latency", {}, None, {"name": "b"}), "kind 'latency'"),
    ],
)
def test_results_that_do_not_belong_together_are_refused(second: Entry, words: str) -> None:
    with pytest.raises(InputError, match=words):
        compare_table(entry(predictions(), "a"), second)


def test_predictions_come_back_from_a_file_as_they_were() -> None:
    found = predictions()
    back = predictions_from_json(predictions_to_json(found), "x")
    assert (back.matrix() == found.matrix()).all()
    assert (back.bursts == found.bursts).all()
    assert back.subsets == found.subsets
    assert (back.labels, back.identities) == (found.labels, found.identities)
    many = dataclasses.replace(found, labels=tuple(map(str, range(300))), clean=np.full(60, 299))
    assert (predictions_from_json(predictions_to_json(many), "x").clean == 299).all()


@pytest.mark.parametrize(("name", "value"), [("clean", "####"), ("clean", "AAAA"), ("truth", "/" * 80)])
def test_damaged_predictions_are_refused(name: str, value: str) -> None:
    values = predictions_to_json(predictions())
    values[name] = value
    with pytest.raises(InputError, match="predictions"):
        predictions_from_json(values, "x")
