"""Shared readings, leak rates and explained variance, against values worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from bench.fold import Fold
from bench.granularity import codes_of, explained, leak_rate, near_rate, sharing
from bench.reading import Variable
from bench.session import Grouping

NAN = float("nan")


def groups(*codes: int) -> Grouping:
    return Grouping("group", tuple(str(code) for code in sorted(set(codes))), np.array(codes, dtype=np.int64))


def number(*values: float) -> Variable:
    return Variable("x", "sensor", np.array(values))


def test_eta_squared_and_its_correction_by_hand() -> None:
    # Means 2 and 6 about 4: between 3*4 + 3*4 = 24; within 2 + 2 = 4; total 28.
    found = explained(number(1, 2, 3, 5, 6, 7), groups(0, 0, 0, 1, 1, 1), permutations=99)
    assert found is not None
    assert found.eta_squared == pytest.approx(24 / 28)
    assert found.epsilon_squared == pytest.approx(1 - (4 / 28) * 5 / 4)
    assert found.low <= found.high < found.eta_squared + 1e-9


def test_tau_of_a_category_is_eta_squared_of_its_indicators() -> None:
    levels = np.array([0, 0, 1, 1, 1, 2, 0, 2], dtype=float)
    of = groups(0, 0, 0, 1, 1, 1, 1, 1)
    found = explained(Variable("c", "metadata", levels, ("a", "b", "c")), of, permutations=9)
    assert found is not None
    indicators = (levels[:, np.newaxis] == np.arange(3)).astype(float)
    total = ((indicators - indicators.mean(axis=0)) ** 2).sum()
    between = sum(
        (of.codes == code).sum() * (indicators[of.codes == code].mean(axis=0) - indicators.mean(axis=0)) ** 2
        for code in (0, 1)
    ).sum()
    assert found.eta_squared == pytest.approx(between / total)


def test_groups_that_tell_nothing_explain_what_chance_explains() -> None:
    generator = np.random.default_rng(4)
    of = groups(*generator.integers(0, 40, 400).tolist())
    found = explained(number(*generator.normal(size=400)), of)
    assert found is not None
    assert found.low < found.eta_squared < found.high
    assert found.p > 0.05
    assert found.epsilon_squared is not None
    assert abs(found.epsilon_squared) < 0.06 < found.eta_squared


def test_a_session_constant_is_explained_whole_and_beyond_chance() -> None:
    codes = np.repeat(np.arange(10), 20)
    found = explained(number(*np.random.default_rng(1).normal(size=10)[codes]), groups(*codes.tolist()))
    assert found is not None
    assert found.eta_squared == pytest.approx(1.0)
    assert found.high < 0.2
    assert found.p == pytest.approx(1 / 201)


def test_constants_and_single_groups_explain_nothing() -> None:
    assert explained(number(3, 3, 3, 3), groups(0, 0, 1, 1)) is None
    assert explained(number(1, 2, 3, 4), groups(0, 0, 0, 0)) is None
    assert explained(number(NAN, NAN, NAN), groups(0, 1, 1)) is None


def test_shared_readings_are_counted_by_hand() -> None:
    first, second = number(1, 1, 1, 2, NAN, NAN), number(5, 5, 6, 5, NAN, 5)
    codes = codes_of([first, second])
    assert codes[4] == -1
    assert codes[0] == codes[1]
    assert len(set(codes.tolist())) == 5
    found = sharing(
        "all sensors",
        codes,
        np.array([0, 1, 0, 0, 0, 0]),
        groups(0, 1, 1, 1, 2, 2),
        {"random": [Fold(np.array([0, 2, 4]), np.array([1, 3, 5]))]},
    )
    assert (found.pictures, found.values, found.most) == (5, 4, 2)
    assert found.shared == pytest.approx(2 / 5)
    assert found.histogram[:2] == pytest.approx((3 / 5, 2 / 5))
    assert found.one_class == pytest.approx(3 / 5)
    assert found.sessions == pytest.approx((2 + 1 + 1 + 1) / 4)
    assert found.one_session == pytest.approx(3 / 4)
    assert found.leak["random"] == pytest.approx(1 / 3)


def test_leak_rates_of_several_folds_count_every_test_picture_once() -> None:
    codes = np.array([0, 0, 1, 2, -1, 2])
    folds = [
        Fold(np.array([3, 4, 5]), np.array([0, 1, 2])),
        Fold(np.array([0, 1, 2]), np.array([3, 4, 5])),
    ]
    assert leak_rate(codes, folds) == 0.0
    assert leak_rate(codes, [Fold(np.array([0, 2, 5]), np.array([1, 3, 4]))]) == 1.0


def test_near_neighbours_are_of_the_same_class_only() -> None:
    time = np.array([0.0, 3.0, 100.0, 103.0, NAN])
    labels = np.array([0, 0, 1, 0, 1])
    fold = Fold(np.array([0, 2]), np.array([1, 3, 4]))
    assert near_rate(time, labels, [fold], 5.0) == pytest.approx(1 / 2)
    assert near_rate(time, labels, [fold], 2.0) == 0.0
