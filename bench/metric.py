"""Robustness metrics after Hendrycks & Dietterich (2019), "Benchmarking Neural Network Robustness to Common
Corruptions and Perturbations", section 4.

With E(f, s, c) the top-1 error of model f on corruption c at severity s, and E(f) its error on clean pictures:

    CE(f, c)           = 100 * sum_s E(f, s, c) / sum_s E(ref, s, c)
    relative CE(f, c)  = 100 * sum_s (E(f, s, c) - E(f)) / sum_s (E(ref, s, c) - E(ref))

mCE and relative mCE are their means over the corruptions. What the paper leaves open is settled here:

- CE is undefined (None) where the reference makes no error on a corruption; relative CE where the reference is
  no worse on the corrupted pictures than on the clean ones. An undefined value is left out of the mean, which
  then names it in `undefined`; with nothing left the mean itself is None. No result is ever NaN or infinite.
- A model that is better on corrupted pictures than on clean ones has a negative relative CE; it is kept.
- A corruption that was not measured, or that the reference lacks at the measured severities, is left out of the
  mean and named in `missing`. Such a mean is comparable only with means over the same corruptions.
- Macro-F1 is the mean over the classes that occur in the truth or among the predictions of a subset
  (`convert.score.macro_f1`): a class without photographs counts, with F1 = 0, only where it was predicted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

ROUNDING = 1e-12
"""A denominator that is not larger counts as zero: no set of photographs has an error that small."""


@dataclass(frozen=True)
class Errors:
    """Top-1 errors of one model, 0..1.

    Attributes:
        clean: on the pictures without corruption; None where it is not known.
        corrupted: corruption -> severity -> error.
    """

    clean: float | None
    corrupted: Mapping[str, Mapping[int, float]]

    def mean(self, corruption: str, severities: Sequence[int]) -> float | None:
        """Mean error over `severities`; None where one of them was not measured."""
        known = self.corrupted.get(corruption, {})
        if not severities or any(severity not in known for severity in severities):
            return None
        return sum(known[severity] for severity in severities) / len(severities)


@dataclass(frozen=True)
class Reference:
    """The model that stands for 100.

    Attributes:
        name: as it is shown beside every score.
        origin: where its errors come from: file or table, photographs, split.
        clean: its error on clean pictures, 0..1; None where it is not known (no relative CE then).
        errors: corruption -> severity -> error, 0..1, where each severity was measured.
        means: corruption -> mean error over severities 1 to 5, where only that is known.
    """

    name: str
    origin: str
    clean: float | None
    errors: Mapping[str, Mapping[int, float]]
    means: Mapping[str, float]

    def mean(self, corruption: str, severities: Sequence[int]) -> float | None:
        """Mean error over `severities`; None where it is not known."""
        found = Errors(None, self.errors).mean(corruption, severities)
        if found is None and tuple(severities) == (1, 2, 3, 4, 5):
            return self.means.get(corruption)
        return found


@dataclass(frozen=True)
class Relative:
    """Scores of a model against a reference, in percent; see the module's docstring for None.

    Attributes:
        reference: the reference's name.
        ce, relative_ce: corruption -> value, for each measured corruption that the reference has.
        mce, relative_mce: their means over the defined values.
        missing: corruptions of the wanted list without a value, because the model or the reference lacks them.
        undefined, relative_undefined: corruptions whose denominator is zero (or, relative, not positive).
        decisive: the corruption with the largest CE, and its share of the sum of all CE (0..1): a share far above
            one over their number means that this corruption decides the mCE.
    """

    reference: str
    ce: Mapping[str, float | None]
    relative_ce: Mapping[str, float | None]
    mce: float | None
    relative_mce: float | None
    missing: tuple[str, ...]
    undefined: tuple[str, ...]
    relative_undefined: tuple[str, ...]
    decisive: tuple[str, float] | None


def corruption_error(model: float, reference: float) -> float | None:
    """CE in percent from two mean errors (0..1); None where the reference makes no error (below `ROUNDING`)."""
    return None if reference <= ROUNDING else 100 * model / reference


def relative_corruption_error(
    model: float, model_clean: float, reference: float, reference_clean: float
) -> float | None:
    """Relative CE in percent from mean and clean errors (0..1); None where the reference does not get worse.

    The increase of the error is compared with the increase of the reference's; differences below `ROUNDING` are no
    increase.
    """
    increase = reference - reference_clean
    return None if increase <= ROUNDING else 100 * (model - model_clean) / increase


def relate(
    model: Errors, reference: Reference, corruptions: Sequence[str], severities: Sequence[int]
) -> Relative:
    """Score a model against a reference over `corruptions` and `severities`."""
    ce: dict[str, float | None] = {}
    relative: dict[str, float | None] = {}
    missing = []
    for name in corruptions:
        own, other = model.mean(name, severities), reference.mean(name, severities)
        if own is None or other is None:
            missing.append(name)
            continue
        ce[name] = corruption_error(own, other)
        if model.clean is not None and reference.clean is not None:
            relative[name] = relative_corruption_error(own, model.clean, other, reference.clean)
    defined = {name: value for name, value in ce.items() if value is not None}
    total = sum(defined.values())
    largest = max(defined, key=lambda name: defined[name], default=None)
    return Relative(
        reference=reference.name,
        ce=ce,
        relative_ce=relative,
        mce=_mean(list(ce.values())),
        relative_mce=_mean(list(relative.values())),
        missing=tuple(missing),
        undefined=tuple(name for name, value in ce.items() if value is None),
        relative_undefined=tuple(name for name, value in relative.items() if value is None),
        decisive=None if largest is None or total <= 0 else (largest, defined[largest] / total),
    )


def mean_corruption_errors(
    means: Floats, clean: Floats, reference: Reference, corruptions: Sequence[str], severities: Sequence[int]
) -> tuple[Floats | None, Floats | None]:
    """mCE and relative mCE of many sets of errors at once, as `relate` gives them for each.

    Args:
        means: (sets, corruptions) mean error over the severities, 0..1.
        clean: (sets,) clean error, 0..1.
        reference: its errors are the same for all sets.
        corruptions, severities: of the columns of `means`, and what they were averaged over.

    Returns:
        (sets,) mCE and (sets,) relative mCE in percent; None where no corruption has a defined value.
    """
    others = np.array(
        [np.nan if (value := reference.mean(name, severities)) is None else value for name in corruptions]
    )
    usable = np.nan_to_num(others) > ROUNDING
    mce = (100 * means[:, usable] / others[usable]).mean(axis=1) if usable.any() else None
    if reference.clean is None:
        return mce, None
    increase = np.nan_to_num(others - reference.clean)
    usable = increase > ROUNDING
    if not usable.any():
        return mce, None
    return mce, (100 * (means[:, usable] - clean[:, np.newaxis]) / increase[usable]).mean(axis=1)


def macro_f1(confusion: npt.NDArray[Any]) -> Floats:
    """Macro-F1 of many confusion matrices at once; of each as `convert.score.macro_f1` gives it.

    Args:
        confusion: (..., classes, classes), rows the true class, columns the predicted; counts or weights.

    Returns:
        (...) float64, 0..1; 0 for an empty matrix.
    """
    right = np.diagonal(confusion, axis1=-2, axis2=-1).astype(np.float64)
    # F1 = 2 TP / (2 TP + FP + FN), and 2 TP + FP + FN is the row's sum plus the column's.
    involved = confusion.sum(axis=-2) + confusion.sum(axis=-1)
    f1 = np.divide(2 * right, involved, out=np.zeros_like(right), where=involved > 0)
    present = (involved > 0).sum(axis=-1)
    total = f1.sum(axis=-1)
    return np.asarray(np.divide(total, present, out=np.zeros_like(total), where=present > 0))


def _mean(values: Sequence[float | None]) -> float | None:
    defined = [value for value in values if value is not None]
    return sum(defined) / len(defined) if defined else None
