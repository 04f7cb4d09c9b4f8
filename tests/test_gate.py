"""Quality gates on drawn and real pictures, smoothing with hysteresis, calibrated confidence."""

from __future__ import annotations

import io
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFile, ImageFilter

from bench.drawing import LABELS, draw_leaf
from convert.calibration import (
    expected_calibration_error,
    find_threshold,
    fit_temperature,
    negative_log_likelihood,
    other_camera,
)
from edge.appearance import FEATURES, Appearance, appearance_of, appearance_to_json, features
from edge.calibration import Calibration, calibration_of, floor_of, rescale
from edge.classifier import Classifier
from edge.contract import Contract
from edge.decision import UNCERTAIN
from edge.errors import InputError
from edge.gate import gate, sharpness, torn_rows
from edge.preprocessing import InputSpec, Pixels, fit, read_photograph
from edge.smoothing import Smoother, Smoothing

SPEC = InputSpec()


def judged(pixels: Pixels, appearance: Appearance | None = None) -> str:
    return gate(pixels, fit(pixels, SPEC), appearance)


def plain(value: int) -> Pixels:
    return np.full((240, 320, 3), value, dtype=np.uint8)


def test_drawn_leaves_pass(leaves: list[Pixels]) -> None:
    assert [judged(leaf) for leaf in leaves] == [""] * len(leaves)


def test_each_gate_says_why(leaf: Pixels) -> None:
    assert judged(plain(0)) == "dark"
    assert judged((leaf * 0.15).astype(np.uint8)) == "dark"
    assert judged(plain(255)) == "bright"
    assert judged(np.clip(leaf.astype(np.int16) + 120, 0, 255).astype(np.uint8)) == "bright"
    assert judged(plain(128)) == "empty"
    soft = Image.fromarray(leaf).filter(ImageFilter.MedianFilter(5)).filter(ImageFilter.GaussianBlur(8))
    assert judged(np.asarray(soft)) == "blurred"


def test_a_jpeg_that_was_cut_is_torn(leaf: Pixels, monkeypatch: pytest.MonkeyPatch) -> None:
    # Camera drivers fill up what libjpeg could not decode; so does Pillow when told to.
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    buffer = io.BytesIO()
    Image.fromarray(leaf).save(buffer, "JPEG", quality=90)
    for share in (0.1, 0.3, 0.5, 0.7):
        with Image.open(io.BytesIO(buffer.getvalue()[: int(share * buffer.tell())])) as cut:
            assert judged(np.asarray(cut.convert("RGB"))) == "torn"


def test_torn_rows_by_hand() -> None:
    rows = np.repeat(np.arange(10, 210, 10, dtype=np.uint8), 12).reshape(20, 4, 3)
    assert torn_rows(rows) == 0
    rows[6:13] = rows[9]
    assert torn_rows(rows) == 7
    rows[6:13] = 255  # white paper that is clipped is no damage
    assert torn_rows(rows) == 0
    rows[15:] = rows[:4] = 0  # nor are the bars around a picture of another shape
    assert torn_rows(rows) == 0
    rows[6:11] = 0  # but a black band within it is
    assert torn_rows(rows) == 5


def test_sharpness_by_hand() -> None:
    point = np.zeros((5, 5), dtype=np.uint8)
    point[2, 2] = 10
    # The Laplacian of a point is 4 times it in the middle, its negative at the four neighbours, 0 in the
    # corners: mean 0, mean square (40^2 + 4 * 10^2) / 9.
    assert sharpness(point) == pytest.approx(2000 / 9)
    ramp = np.tile(np.arange(0, 250, 10, dtype=np.uint8), (9, 1))
    assert sharpness(ramp) == 0


@pytest.fixture(scope="module")
def appearance() -> Appearance:
    """Learnt from drawn leaves, as `mango-convert calibrate` does from photographs."""
    generator = np.random.default_rng(5)
    rows = []
    for number in range(48):
        leaf = fit(draw_leaf(LABELS[number % 8], np.random.default_rng([6, number])), SPEC)
        rows += [features(leaf), features(other_camera(leaf, generator))]
    values = np.array(rows)
    covariance = np.cov(values.T)
    inverse = np.linalg.inv(0.95 * covariance + 0.05 * np.trace(covariance) / FEATURES * np.eye(FEATURES))
    measure = Appearance(values.mean(axis=0), inverse, 1.0)
    limit = float(np.quantile([measure.distance(row) for row in values], 0.99))
    return Appearance(measure.mean, inverse, limit)


def test_what_is_unlike_all_leaves_is_no_leaf(appearance: Appearance) -> None:
    data = pytest.importorskip("skimage.data", reason="its pictures stand for things that are no leaves")
    things = [data.astronaut(), data.coffee(), data.rocket(), data.chelsea()]
    assert [judged(thing, appearance) for thing in things] == ["no-leaf"] * len(things)
    fresh = [draw_leaf(label, np.random.default_rng([9, n])) for n, label in enumerate(LABELS)]
    assert Counter(judged(leaf, appearance) for leaf in fresh)[""] >= 7


def test_features_by_hand() -> None:
    half = np.zeros((16, 16, 3), dtype=np.uint8)
    half[:8] = (0, 255, 0)  # hue 85 of 256: the fifth bin of 12 is 85 * 12 // 256 = 3
    half[8:] = 255
    found = features(half)
    assert found[3] == pytest.approx(np.sqrt(0.5))
    assert found[12 + 4] == pytest.approx(np.sqrt(0.5))
    assert found[: 12 + 5].sum() == pytest.approx(2 * np.sqrt(0.5))
    green = round(0.587 * 255)
    assert found[17] == pytest.approx((green + 255) / 2 / 255, abs=2e-3)
    # One of the 15 steps down is from green to white; across there is none.
    assert found[21] == pytest.approx(np.log1p((255 - green) / 15), abs=0.01)
    assert found[22] == 0


def test_an_appearance_goes_through_a_contract_and_a_wrong_one_is_refused(
    appearance: Appearance, classifier: Classifier
) -> None:
    import dataclasses

    def with_extra(value: object) -> Contract:
        return dataclasses.replace(classifier.contract, extra={"appearance": value})

    read = appearance_of(with_extra(appearance_to_json(appearance)))
    assert read is not None
    summary = features(fit(draw_leaf("Healthy", np.random.default_rng(3)), SPEC))
    assert read.distance(summary) == pytest.approx(appearance.distance(summary), rel=1e-3)
    assert appearance_of(dataclasses.replace(classifier.contract, extra={})) is None
    for wrong in ({}, [], {**appearance_to_json(appearance), "limit": 0}, {"mean": [1], "limit": 2}):
        with pytest.raises(InputError, match=r"leaf\.tflite: .*extra\.appearance is malformed"):
            appearance_of(with_extra(wrong), "leaf.tflite")


def test_photographs_of_leaves_pass_the_gates_of_light_and_sharpness(mango: Path) -> None:
    paths = sorted(mango.glob("*/*.jpg"))[::40]
    assert len(paths) > 70
    assert Counter(judged(read_photograph(path)) for path in paths) == {"": len(paths)}


def test_hysteresis_by_hand() -> None:
    smoother = Smoother(("a", "b"), 0.6, Smoothing(window=2, hysteresis=0.1))

    def step(a: float, at: float) -> tuple[str, float]:
        label, mean = smoother.add(np.array([a, 1 - a]), at)
        return label, round(mean[0], 3)

    assert step(0.5, 0) == (UNCERTAIN, 0.5)  # below 0.6
    assert step(0.8, 1) == ("a", 0.65)
    assert step(0.26, 2) == ("a", 0.53)  # under 0.6, but not by more than 0.1: held
    assert step(0.7, 3) == (UNCERTAIN, 0.48)  # under 0.5
    assert step(0.24, 4) == (UNCERTAIN, 0.47)  # b has 0.53: enough to be held, not to be taken up
    assert step(0.2, 5) == ("b", 0.22)
    assert step(0.66, 6) == ("b", 0.43)  # b has 0.57: held
    assert step(0.5, 7) == (UNCERTAIN, 0.58)  # a leads b by more than 0.1, and has not reached 0.6
    assert step(0.9, 8) == ("a", 0.7)
    assert step(0.3, 100) == ("b", 0.3)  # what was seen long ago is forgotten


def test_a_class_that_leads_by_little_does_not_take_over() -> None:
    smoother = Smoother(("a", "b", "c"), 0.4, Smoothing(window=2, hysteresis=0.1))
    labels = [
        smoother.add(np.array(values), number)[0]
        for number, values in enumerate([(0.5, 0.4, 0.1), (0.4, 0.6, 0.0), (0.4, 0.6, 0.0)])
    ]
    assert labels == ["a", "a", "b"]  # means of b less a: -0.1, 0.05, 0.2


def test_without_a_window_each_frame_stands_for_itself() -> None:
    smoother = Smoother(("a", "b"), 0.6, Smoothing(window=1, hysteresis=0.3))
    labels = [smoother.add(np.array([a, 1 - a]), number)[0] for number, a in enumerate((0.9, 0.5, 0.3, 0.6))]
    assert labels == ["a", UNCERTAIN, "b", "a"]


@pytest.mark.parametrize("values", [{"window": 0}, {"hysteresis": 1.5}, {"seconds": 0.0}])
def test_smoothing_out_of_range_is_refused(values: dict[str, float]) -> None:
    with pytest.raises(InputError, match="out of range"):
        Smoothing(**values)  # type: ignore[arg-type]


def test_temperature_scaling_of_known_values() -> None:
    p = np.array([0.8, 0.2])
    assert rescale(p, 1.0, 1e-7) == pytest.approx(p)
    # odds 4 become 4^(1/2) = 2 at T = 2, and 4^2 = 16 at T = 1/2
    assert rescale(p, 2.0, 1e-7) == pytest.approx([2 / 3, 1 / 3])
    assert rescale(p, 0.5, 1e-7) == pytest.approx([16 / 17, 1 / 17])
    # a quantised 0 is half a step of 1/256
    assert rescale([255 / 256, 0.0], 1.0, 1 / 512) == pytest.approx([510 / 511, 1 / 511])


def test_the_temperature_that_made_the_answers_is_found_again() -> None:
    generator = np.random.default_rng(4)
    logits = generator.normal(0, 3, size=(20000, 5))
    honest = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    truth = (honest.cumsum(axis=1) < generator.random((20000, 1))).sum(axis=1)
    boastful = rescale(honest, 1 / 2.5, 0.0)
    found = fit_temperature(boastful, truth, 1e-300)
    assert found == pytest.approx(2.5, rel=0.03)
    before, after = (
        expected_calibration_error(p, truth) for p in (boastful, rescale(boastful, found, 1e-300))
    )
    assert before > 0.14
    assert after < 0.015


def test_calibration_error_by_hand() -> None:
    p = np.array([[0.95, 0.05], [0.95, 0.05], [0.6, 0.4], [0.4, 0.6]])
    truth = np.array([0, 1, 0, 1])
    # bin of 0.95: confidence 0.95, right 1/2; bin of 0.6 (9/15, so the ninth): confidence 0.6, right 2/2
    assert expected_calibration_error(p, truth) == pytest.approx(0.5 * 0.45 + 0.5 * 0.4)
    assert negative_log_likelihood(p, truth) == pytest.approx(-np.log([0.95, 0.05, 0.6, 0.6]).mean())


def test_the_threshold_is_the_lowest_that_keeps_the_promise() -> None:
    confidence = np.array([0.99, 0.9, 0.8, 0.7, 0.7, 0.55])
    p = np.stack([confidence, 1 - confidence], axis=1)
    truth = np.array([0, 0, 1, 0, 0, 1])  # shares from above: 1, 1, 2/3, (3/4), 4/5, 4/6
    assert find_threshold(p, truth, 0.8) == 0.7
    assert find_threshold(p, truth, 0.9) == 0.9
    assert find_threshold(p, truth, 0.75) == 0.7  # not between two that are equally sure
    assert find_threshold(p, 1 - truth, 0.9) == 0.55  # out of reach: the best there is


def test_calibration_of_a_contract(classifier: Classifier) -> None:
    import dataclasses

    def of(**extra: object) -> Calibration:
        return calibration_of(dataclasses.replace(classifier.contract, extra=extra), "leaf.tflite")

    assert of() == Calibration(1.0, 0.5, measured=False)
    assert of(temperature=1.5, uncertain_below=0.7) == Calibration(1.5, 0.7, measured=True)
    for value in (0, "hot", True, -1.0, 1e-300, 1e300, math.nan, math.inf, 10**400, None):
        with pytest.raises(
            InputError, match=r"leaf\.tflite: .* extra\.temperature .*mango-convert calibrate"
        ):
            of(temperature=value, uncertain_below=0.5)
    for value in (1.5, "low", False, math.nan, None):
        with pytest.raises(
            InputError, match=r"leaf\.tflite: .* extra\.uncertain_below .*mango-convert calibrate"
        ):
            of(temperature=1.0, uncertain_below=value)
    with pytest.raises(InputError, match=r"extra\.uncertain_below"):
        of(temperature=1.0)
    assert floor_of(classifier.contract) == pytest.approx(classifier.contract.output_tensor.scale / 2)
