"""The robustness metrics: by hand, against scikit-learn, and at their edges."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.metric import (
    Errors,
    Reference,
    corruption_error,
    macro_f1,
    mean_corruption_errors,
    relate,
    relative_corruption_error,
)
from convert.score import confusion_matrix
from convert.score import macro_f1 as single_macro_f1


def reference(
    errors: dict[str, dict[int, float]], clean: float | None = 0.1, means: dict[str, float] | None = None
) -> Reference:
    return Reference("reference", "by hand", clean, errors, means or {})


MODEL = Errors(0.05, {"fog": {1: 0.1, 2: 0.3}, "snow": {1: 0.2, 2: 0.6}})
OTHER = reference({"fog": {1: 0.2, 2: 0.6}, "snow": {1: 0.3, 2: 0.5}})


def test_errors_relative_to_a_reference_by_hand() -> None:
    found = relate(MODEL, OTHER, ("fog", "snow"), (1, 2))
    # fog: (0.1 + 0.3) / (0.2 + 0.6); snow: 0.8 / 0.8
    assert found.ce == pytest.approx({"fog": 50.0, "snow": 100.0})
    assert found.mce == pytest.approx(75.0)
    # fog: (0.4 - 2 * 0.05) / (0.8 - 2 * 0.1); snow: (0.8 - 0.1) / (0.8 - 0.2)
    assert found.relative_ce == pytest.approx({"fog": 50.0, "snow": 100 * 0.7 / 0.6})
    assert found.relative_mce == pytest.approx((50 + 100 * 0.7 / 0.6) / 2)
    assert found.decisive is not None
    assert found.decisive[0] == "snow"
    assert found.decisive[1] == pytest.approx(2 / 3)


def test_a_model_is_100_relative_to_itself() -> None:
    found = relate(MODEL, reference(dict(MODEL.corrupted), MODEL.clean), ("fog", "snow"), (1, 2))
    assert found.mce == pytest.approx(100)
    assert found.relative_mce == pytest.approx(100)


def test_a_reference_without_errors_leaves_ce_undefined_and_named() -> None:
    found = relate(
        MODEL, reference({"fog": {1: 0.0, 2: 0.0}, "snow": {1: 0.3, 2: 0.5}}), ("fog", "snow"), (1, 2)
    )
    assert found.ce == {"fog": None, "snow": pytest.approx(100)}
    assert found.undefined == ("fog",)
    assert found.mce == pytest.approx(100)
    assert found.relative_undefined == ("fog",)
    nothing = relate(MODEL, reference({"fog": {1: 0.0, 2: 0.0}}), ("fog",), (1, 2))
    assert nothing.mce is None
    assert nothing.relative_mce is None
    assert nothing.decisive is None


def test_a_reference_that_corruption_does_not_hurt_leaves_relative_ce_undefined() -> None:
    same = reference({"fog": {1: 0.1, 2: 0.1}}, clean=0.1)
    better = reference({"fog": {1: 0.05, 2: 0.1}}, clean=0.1)
    for one in (same, better):
        found = relate(MODEL, one, ("fog",), (1, 2))
        assert found.relative_ce == {"fog": None}
        assert found.relative_mce is None
        assert found.ce["fog"] is not None


def test_a_model_better_on_corrupted_pictures_has_a_negative_relative_ce() -> None:
    model = Errors(0.5, {"fog": {1: 0.1, 2: 0.3}})
    found = relate(model, OTHER, ("fog",), (1, 2))
    assert found.relative_ce["fog"] == pytest.approx(100 * (0.2 - 0.5) / (0.4 - 0.1))


def test_corruptions_that_either_lacks_are_named_and_left_out() -> None:
    found = relate(MODEL, OTHER, ("fog", "snow", "frost"), (1, 2))
    assert found.missing == ("frost",)
    assert found.mce == pytest.approx(75.0)
    assert relate(MODEL, OTHER, ("fog",), (1, 2, 3)).missing == ("fog",)


def test_a_reference_known_only_over_all_severities_serves_no_part_of_them() -> None:
    published = reference({}, means={"fog": 0.4})
    errors = Errors(0.05, {"fog": dict.fromkeys(range(1, 6), 0.2)})
    assert relate(errors, published, ("fog",), (1, 2, 3, 4, 5)).mce == pytest.approx(50)
    partial = relate(errors, published, ("fog",), (1, 2))
    assert partial.mce is None
    assert partial.missing == ("fog",)


def test_a_reference_with_unknown_clean_error_has_no_relative_score() -> None:
    found = relate(MODEL, reference(dict(OTHER.errors), clean=None), ("fog", "snow"), (1, 2))
    assert found.mce == pytest.approx(75.0)
    assert found.relative_mce is None
    assert found.relative_ce == {}


share = st.floats(0, 1)


@settings(deadline=None)
@given(share, share, share, share)
def test_no_score_is_ever_nan_or_infinite(
    model: float, clean: float, other: float, other_clean: float
) -> None:
    for value in (
        corruption_error(model, other),
        relative_corruption_error(model, clean, other, other_clean),
    ):
        assert value is None or math.isfinite(value)


@settings(deadline=None)
@given(st.lists(share, min_size=6, max_size=6), st.lists(share, min_size=4, max_size=4))
def test_many_scores_at_once_are_those_of_each(model: list[float], other: list[float]) -> None:
    names = ("fog", "snow", "frost")
    against = reference({name: {1: value} for name, value in zip(names, other, strict=False)}, clean=other[3])
    means, clean = np.array([model[:3], model[3:]]), np.array([model[0], model[5]])
    mce, relative = mean_corruption_errors(means, clean, against, names, (1,))
    for row in range(2):
        errors = Errors(
            float(clean[row]), {name: {1: float(means[row, place])} for place, name in enumerate(names)}
        )
        single = relate(errors, against, names, (1,))
        assert (mce is None) == (single.mce is None)
        assert (relative is None) == (single.relative_mce is None)
        if mce is not None:
            assert mce[row] == pytest.approx(single.mce)
        if relative is not None:
            assert relative[row] == pytest.approx(single.relative_mce)


def test_macro_f1_is_scikit_learns_and_the_kits() -> None:
    sklearn = pytest.importorskip("sklearn.metrics")
    generator = np.random.default_rng(5)
    for classes in (2, 8):
        # Some classes occur in neither, in one, or in both of truth and prediction.
        truth, predicted = generator.integers(0, classes, (2, 30)) // generator.integers(1, 3, (2, 1))
        matrix = confusion_matrix(truth, predicted, classes)
        expected = sklearn.f1_score(truth, predicted, average="macro", zero_division=0)
        assert float(macro_f1(matrix)) == pytest.approx(expected)
        assert float(macro_f1(matrix)) == pytest.approx(single_macro_f1(matrix))


def test_macro_f1_counts_an_absent_class_only_where_it_was_predicted() -> None:
    truth = np.array([0, 0, 1, 1])
    assert float(macro_f1(confusion_matrix(truth, truth, 3))) == 1.0
    # Class 2 has no photograph but one prediction: F1 of 1, 2/3 and 0.
    found = float(macro_f1(confusion_matrix(truth, np.array([0, 0, 1, 2]), 3)))
    assert found == pytest.approx((1 + 2 / 3 + 0) / 3)
    assert float(macro_f1(np.zeros((3, 3)))) == 0.0
    assert macro_f1(np.zeros((2, 5, 3, 3))).shape == (2, 5)
