"""Calibrating a model file on the validation part: confidence, the `uncertain` threshold, and what leaves look like.

Temperature scaling and expected calibration error: Guo et al. 2017, "On calibration of modern neural networks".
The threshold follows selective classification (Geifman and El-Yaniv 2017): the lowest confidence from which on the
answers of the validation part are right as often as asked. The appearance (`edge.appearance`) is estimated on the
training part, half of it with changed light, colour and noise, as another camera would give.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from convert.dataset import Dataset, Photograph
from convert.split import Split, part_of
from edge.appearance import EXTRA as APPEARANCE
from edge.appearance import FEATURES, Appearance, appearance_to_json, features
from edge.calibration import TEMPERATURE, UNCERTAIN_BELOW, floor_of, rescale
from edge.classifier import Classifier
from edge.contract import read_model, write_model
from edge.errors import InputError
from edge.preprocessing import InputSpec, Pixels, fit, read_photograph

BINS = 15
RIGHT = 0.9
"""Share of right answers that decisions which are not `uncertain` shall have on the validation part."""

SEED = 7
FOREIGN_QUANTILE = 0.99
_RIDGE = 0.05  # share of the mean variance added to all: keeps rare hues from dividing by nearly nothing
_LOG_RANGE = (-3.0, 3.0)  # of ln T in the search: temperatures from 0.05 to 20

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Confidence:
    """How far confidence can be trusted on one part.

    Attributes:
        part, images: which photographs.
        accuracy: of all answers, 0..1.
        ece_before, ece_after: expected calibration error (15 bins) without and with the temperature, 0..1.
        nll_before, nll_after: mean negative log-likelihood, nats.
        covered: share of photographs that are not `uncertain`, 0..1.
        covered_accuracy: share of right answers among them, 0..1; 0 where there are none.
    """

    part: str
    images: int
    accuracy: float
    ece_before: float
    ece_after: float
    nll_before: float
    nll_after: float
    covered: float
    covered_accuracy: float


@dataclass(frozen=True)
class Calibrated:
    """What `calibrate` found and wrote: temperature, threshold, and the figures of validation and test part."""

    temperature: float
    uncertain_below: float
    validation: Confidence
    test: Confidence
    foreign: Mapping[str, float]


def calibrate(
    path: Path,
    dataset: Dataset,
    split: Split,
    right: float = RIGHT,
    report: Callable[[str], None] | None = None,
) -> Calibrated:
    """Calibrate a model file in place, atomically.

    Temperature and threshold are fitted to the file's own outputs (of int8: its int8 outputs) on the
    validation part; the test part is only measured. `Contract.extra` gets "temperature", "uncertain_below",
    "calibrated" (split, seed, parts and figures) and "appearance".

    Args:
        path: the model file.
        dataset, split: the split that it was trained on.
        right: see `RIGHT`, 0..1.
        report: told what is being done.

    Returns:
        The figures, as written.

    Raises:
        InputError: the model was not trained on this split, an unreadable file, or `right` out of range.
    """
    if not 0 <= right <= 1:
        raise InputError(f"share of right answers {right}: give a number from 0 to 1")
    say = report or (lambda text: None)
    classifier = Classifier.open(path)
    contract = classifier.contract
    if contract.training is None or contract.training.split_digest != split.digest:
        trained = "never trained" if contract.training is None else f"trained on {contract.training.split}"
        raise InputError(
            f"{path}: {trained}, not on split {split.name} with seed {split.seed} of these photographs: its validation"
            " part would hold training photographs; give the split that it was trained on"
        )
    if contract.labels != dataset.labels:
        raise InputError(
            f"{path}: its labels are not the classes of {dataset.root}; give the data it was trained on"
        )
    floor = floor_of(contract)
    outputs: dict[str, tuple[Floats, npt.NDArray[np.int64]]] = {}
    for part in ("validation", "test"):
        say(f"running the {part} part")
        outputs[part] = _outputs(classifier, dataset, part_of(split, dataset, part))
    temperature = fit_temperature(*outputs["validation"], floor)
    probabilities, truth = outputs["validation"]
    threshold = find_threshold(rescale(probabilities, temperature, floor), truth, right)
    validation, test = (
        measure(part, *outputs[part], temperature, threshold, floor) for part in ("validation", "test")
    )
    say("measuring what the training photographs look like")
    appearance = learn_appearance(dataset, part_of(split, dataset, "training"), contract.input)
    foreign = {
        part: foreign_share(appearance, dataset, part_of(split, dataset, part), contract.input)
        for part in ("validation", "test")
    }
    result = Calibrated(temperature, threshold, validation, test, foreign)
    calibrated: dict[str, Any] = {
        "split": split.name,
        "seed": split.seed,
        "split_digest": split.digest,
        "right": right,
        "bins": BINS,
        "runtime": str(classifier.runtime),
        "validation": asdict(validation),
        "test": asdict(test),
        "taken_for_no_leaf": dict(foreign),
    }
    # Read anew: the file may have gained scores or members since it was opened.
    model = read_model(path)
    if model.digest != classifier.model.digest:
        raise InputError(f"{path}: changed while it was being calibrated; run it again")
    extra = {
        **model.contract.extra,
        TEMPERATURE: temperature,
        UNCERTAIN_BELOW: threshold,
        "calibrated": calibrated,
        APPEARANCE: appearance_to_json(appearance),
    }
    write_model(path, model.flatbuffer, dataclasses.replace(model.contract, extra=extra), dict(model.members))
    return result


def fit_temperature(probabilities: npt.ArrayLike, truth: npt.NDArray[np.int64], floor: float) -> float:
    """The temperature with the smallest mean negative log-likelihood, 0.05..20, to 4 decimals.

    The likelihood is unimodal in ln T; golden-section search finds its minimum.

    Args:
        probabilities: (n, labels), uncalibrated.
        truth: (n,) class numbers.
        floor: see `edge.calibration.rescale`.

    Raises:
        InputError: no photographs.
    """
    values = np.asarray(probabilities, dtype=np.float64)
    if len(values) == 0:
        raise InputError("no photographs to calibrate on; give a split with a validation part")

    def loss(log_temperature: float) -> float:
        return negative_log_likelihood(rescale(values, float(np.exp(log_temperature)), floor), truth)

    ratio = (np.sqrt(5) - 1) / 2
    low, high = _LOG_RANGE
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = loss(left), loss(right)
    while high - low > 1e-6:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = loss(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = loss(right)
    return round(float(np.exp((low + high) / 2)), 4)


def negative_log_likelihood(probabilities: Floats, truth: npt.NDArray[np.int64]) -> float:
    """Mean of -ln p(true class), nats; probabilities (n, labels), truth (n,)."""
    right = probabilities[np.arange(len(truth)), truth]
    return float(-np.log(np.maximum(right, np.finfo(np.float64).tiny)).mean())


def expected_calibration_error(
    probabilities: Floats, truth: npt.NDArray[np.int64], bins: int = BINS
) -> float:
    """Guo et al. 2017, equation 3: sum over equal bins ((m-1)/M, m/M] of n_m/n |accuracy - mean confidence|.

    Args:
        probabilities: (n, labels); the confidence of a row is its largest value.
        truth: (n,) class numbers.
        bins: M.

    Returns:
        0..1; 0 for no rows.
    """
    if len(truth) == 0:
        return 0.0
    confidence = probabilities.max(axis=1)
    right = probabilities.argmax(axis=1) == truth
    # The nudge keeps 0.2 = 3/15, which is not exact in binary, in the third bin.
    number = np.clip(np.ceil(confidence * bins - 1e-9).astype(np.int64) - 1, 0, bins - 1)
    gaps = np.bincount(number, weights=right - confidence, minlength=bins)
    return float(np.abs(gaps).sum() / len(truth))


def find_threshold(probabilities: Floats, truth: npt.NDArray[np.int64], right: float) -> float:
    """The lowest confidence from which on at least the share `right` of the answers is right.

    Where no threshold reaches it, the one with the largest share, and of equal ones the lowest. Rounded down
    to 4 decimals, so that the photograph that it was taken from stays above it.

    Args:
        probabilities: calibrated, (n, labels).
        truth: (n,) class numbers.
        right: wanted share, 0..1.
    """
    confidence = probabilities.max(axis=1)
    order = np.argsort(-confidence, kind="stable")
    sorted_confidence = confidence[order]
    shares = np.cumsum((probabilities.argmax(axis=1) == truth)[order]) / np.arange(1, len(truth) + 1)
    # Equal confidences stand or fall together: only the last of a run is a possible cut.
    last = np.append(sorted_confidence[1:] < sorted_confidence[:-1], True)
    cuts = np.flatnonzero(last)
    enough = cuts[shares[cuts] >= right]
    if len(enough):
        cut = enough[-1]
    else:
        best = shares[cuts].max()
        cut = cuts[shares[cuts] == best][-1]
    return float(np.floor(sorted_confidence[cut] * 1e4) / 1e4)


def measure(
    part: str,
    probabilities: Floats,
    truth: npt.NDArray[np.int64],
    temperature: float,
    threshold: float,
    floor: float,
) -> Confidence:
    """The figures of one part: uncalibrated probabilities (n, labels), truth (n,); see `Confidence`."""
    before, after = rescale(probabilities, 1.0, floor), rescale(probabilities, temperature, floor)
    right = after.argmax(axis=1) == truth
    covered = after.max(axis=1) >= threshold
    return Confidence(
        part=part,
        images=len(truth),
        accuracy=float(right.mean()) if len(truth) else 0.0,
        ece_before=expected_calibration_error(before, truth),
        ece_after=expected_calibration_error(after, truth),
        nll_before=negative_log_likelihood(before, truth) if len(truth) else 0.0,
        nll_after=negative_log_likelihood(after, truth) if len(truth) else 0.0,
        covered=float(covered.mean()) if len(truth) else 0.0,
        covered_accuracy=float(right[covered].mean()) if covered.any() else 0.0,
    )


def learn_appearance(
    dataset: Dataset, photographs: tuple[Photograph, ...], spec: InputSpec, seed: int = SEED
) -> Appearance:
    """What photographs look like: each once as it is and once as another camera might have taken it.

    The limit is the 0.99 quantile of the squared distances of all of them.

    Raises:
        InputError: fewer photographs than the estimate needs, or an unreadable one.
    """
    if len(photographs) < FEATURES:
        raise InputError(f"{len(photographs)} training photographs are too few; {FEATURES} are the least")
    generator = np.random.default_rng(seed)
    rows = []
    for photograph in photographs:
        fitted = fit(read_photograph(dataset.root / photograph.path, spec.exif), spec)
        rows += [features(fitted), features(other_camera(fitted, generator))]
    values = np.array(rows)
    mean = values.mean(axis=0)
    covariance = np.cov((values - mean).T)
    scale = np.trace(covariance) / FEATURES
    inverse = np.linalg.inv((1 - _RIDGE) * covariance + _RIDGE * scale * np.eye(FEATURES))
    appearance = Appearance(mean, (inverse + inverse.T) / 2, 1.0)
    distances = [appearance.distance(row) for row in values]
    return dataclasses.replace(appearance, limit=float(np.quantile(distances, FOREIGN_QUANTILE)))


def other_camera(picture: Pixels, generator: np.random.Generator) -> Pixels:
    """A picture with another gamma (0.7..1.4), red and blue gain (0.85..1.15) and noise (deviation 0..6)."""
    gains = np.array([generator.uniform(0.85, 1.15), 1.0, generator.uniform(0.85, 1.15)])
    lit = 255 * (picture / 255.0) ** generator.uniform(0.7, 1.4) * gains
    noise = generator.normal(0, generator.uniform(0, 6), picture.shape)
    changed: Pixels = np.clip(np.rint(lit + noise), 0, 255).astype(np.uint8)
    return changed


def foreign_share(
    appearance: Appearance, dataset: Dataset, photographs: tuple[Photograph, ...], spec: InputSpec
) -> float:
    """Share of photographs that the appearance takes for foreign, 0..1; 0 for none."""
    found = [
        appearance.distance(features(fit(read_photograph(dataset.root / photograph.path, spec.exif), spec)))
        > appearance.limit
        for photograph in photographs
    ]
    return float(np.mean(found)) if found else 0.0


def _outputs(
    classifier: Classifier, dataset: Dataset, photographs: tuple[Photograph, ...]
) -> tuple[Floats, npt.NDArray[np.int64]]:
    spec = classifier.contract.input
    rows = [
        classifier.probabilities(fit(read_photograph(dataset.root / photograph.path, spec.exif), spec))
        for photograph in photographs
    ]
    truth = np.array([dataset.labels.index(photograph.label) for photograph in photographs], dtype=np.int64)
    return np.array(rows, dtype=np.float64).reshape(-1, len(dataset.labels)), truth
