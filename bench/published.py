"""Figures of the published study, and the absolute errors that its tables imply.

"From Code to Field" (arXiv 2512.13641) gives, for five models, the clean error c, CE and relative CE of each
corruption, both relative to ResNet-101 = 100, but no absolute error. The two determine it: with e the mean error
over the five severities and r the reference,

    a = CE / 100 = e_f / e_r        b = relative CE / 100 = (e_f - c_f) / (e_r - c_r)
    =>  e_r = (c_f - b c_r) / (a - b),   e_f = a e_r.

Each model yields its own e_r, as exact as the printed digits allow: CE and relative CE are whole numbers, clean
errors have one decimal of a percent. The estimates are averaged with the inverse squared width of the interval
that the rounding leaves; where a and b cannot be told apart, a model says nothing about e_r.

The tables are on the whole data set, training photographs included.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from bench.metric import Errors, Reference
from edge.errors import InputError

REFERENCE = "ResNet-101"
"""The model whose CE is 100 in the tables."""

INCOMPARABLE = {
    "frost": "the study blends smoothed grey noise; the package, pictures of frost",
    "snow": "the study's snow lacks the motion blur and the second layer",
    "spatter": "the study uses the table of CIFAR-10-C; the package, ImageNet-C's",
    "elastic_transform": "the study warps with 224 where ImageNet-C has 244, and the package differs from both",
}
"""Corruptions that the study made differently, and how: published figures for them are not comparable with ours
to the point."""

_SEVERITIES = (1, 2, 3, 4, 5)
_HALF_PERCENT = 0.005  # CE and relative CE are rounded to whole percents
_HALF_DIGIT = 0.0005  # clean errors to a tenth of a percent


@dataclass(frozen=True)
class Estimate:
    """A mean error of the reference from one model's two columns: value, and the interval of its rounding."""

    value: float
    low: float
    high: float

    @property
    def width(self) -> float:
        """Length of the interval."""
        return self.high - self.low


@dataclass(frozen=True)
class Published:
    """The study's tables, as its authors print them, and another group's errors.

    Attributes:
        source: where the tables stand.
        models: names of the table columns.
        clean: model -> clean error, 0..1 (whole data set).
        ce, relative_ce: corruption -> model -> percent.
        mce, relative_mce: model -> percent.
        macro_f1: model -> corruption -> mean macro-F1 over the severities, 0..1.
        test_scores: model -> "f1_original", "f1", "accuracy" on the study's 10 % test part.
        peer: another group's LCNN.
    """

    source: str
    models: tuple[str, ...]
    clean: Mapping[str, float]
    ce: Mapping[str, Mapping[str, float]]
    relative_ce: Mapping[str, Mapping[str, float]]
    mce: Mapping[str, float]
    relative_mce: Mapping[str, float]
    macro_f1: Mapping[str, Mapping[str, float]]
    test_scores: Mapping[str, Mapping[str, float]]
    peer: Reference | None


def read_published(path: Path | None = None) -> Published:
    """Read the tables: those that come with the kit, or a JSON file of the same form.

    Raises:
        InputError: the file is missing, not JSON, or lacks a table.
    """
    if path is None:
        return _shipped()
    try:
        if path.stat().st_size > 2**24:
            raise InputError(f"{path}: too large for a file of published tables")
        return _parse(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None
    except (ValueError, RecursionError):
        raise InputError(f"{path}: not a file of published tables (not JSON)") from None
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: not a file of published tables ({error!r} is missing or wrong)") from None


def estimates(published: Published, corruption: str) -> dict[str, Estimate]:
    """The reference's mean error on a corruption as each model's columns give it.

    Returns:
        model -> estimate, 0..1; models that leave it open (a and b equal within rounding) are not in it.
    """
    found = {}
    for model in published.models:
        if model == REFERENCE:
            continue
        a, b = published.ce[corruption][model] / 100, published.relative_ce[corruption][model] / 100
        own, other = published.clean[model], published.clean[REFERENCE]
        # The solution is monotone in each of the four numbers as long as a - b keeps its sign.
        if abs(a - b) <= 2 * _HALF_PERCENT:
            continue
        corners = [
            _solve(a + da, b + db, own + dc, other + dr)
            for da, db in itertools.product((-_HALF_PERCENT, _HALF_PERCENT), repeat=2)
            for dc, dr in itertools.product((-_HALF_DIGIT, _HALF_DIGIT), repeat=2)
        ]
        found[model] = Estimate(_solve(a, b, own, other), min(corners), max(corners))
    return found


def mean_errors(published: Published) -> dict[str, float]:
    """The reference's mean error over the severities of each corruption, 0..1."""
    means = {}
    for corruption in published.ce:
        found = estimates(published, corruption).values()
        if not found:
            raise InputError(f"the published tables do not determine the reference's error on {corruption}")
        weights = [1 / estimate.width**2 for estimate in found]
        means[corruption] = sum(
            weight * estimate.value for weight, estimate in zip(weights, found, strict=True)
        ) / sum(weights)
    return means


def published_reference(published: Published, model: str = REFERENCE) -> Reference:
    """A published model as a reference: its clean error and the mean errors that the tables imply."""
    if model not in published.models:
        raise InputError(f"no published model is called {model!r}; there are {', '.join(published.models)}")
    base = mean_errors(published)
    means = {name: base[name] * published.ce[name][model] / 100 for name in base}
    origin = (
        f"absolute errors solved from the CE and relative CE of {published.source.split(';')[0]};"
        " all photographs of the study, training photographs included"
    )
    return Reference(f"{model}, published", origin, published.clean[model], {}, means)


def counterpart(published: Published, architecture: str) -> str | None:
    """The published model of an architecture ("lcnn" -> "LCNN", "resnet50" -> "ResNet-50"); None without one."""

    def plain(name: str) -> str:
        return re.sub(r"[^a-z0-9]", "", name.lower())

    return next((model for model in published.models if plain(model) == plain(architecture)), None)


def published_errors(published: Published, model: str) -> Errors:
    """A published model's errors, its mean error standing for each severity (only the mean is known)."""
    reference = published_reference(published, model)
    return Errors(
        reference.clean,
        {name: dict.fromkeys(_SEVERITIES, value) for name, value in reference.means.items()},
    )


@cache
def _shipped() -> Published:
    return _parse(json.loads(resources.files("bench").joinpath("published.json").read_text(encoding="utf-8")))


def _parse(values: Any) -> Published:
    table3, table4 = values["table3"], values["table4"]
    models = tuple(str(model) for model in table3["models"])
    peer = values.get("peer")
    return Published(
        source=str(values["source"]),
        models=models,
        clean={model: float(table3["clean_error_percent"][model]) / 100 for model in models},
        ce={name: {model: float(row[model]) for model in models} for name, row in table3["CE"].items()},
        relative_ce={
            name: {model: float(table4["relative_CE"][name][model]) for model in models}
            for name in table3["CE"]
        },
        mce={model: float(table3["mCE"][model]) for model in models},
        relative_mce={model: float(table4["relative_mCE"][model]) for model in models},
        macro_f1={
            model: {name: float(value) for name, value in row.items()}
            for model, row in values["table2_mean_macro_f1"].items()
        },
        test_scores={
            _column(models, model): {name: float(value) for name, value in row.items()}
            for model, row in values["table1_test_scores"].items()
        },
        peer=None if peer is None else _peer(peer),
    )


def _column(models: tuple[str, ...], name: str) -> str:
    """Table 1 writes ResNet101 where the others have ResNet-101."""
    return next((model for model in models if model.replace("-", "") == name), name)


def _peer(values: Any) -> Reference:
    errors = {
        str(name): {int(severity): float(error) for severity, error in row.items()}
        for name, row in values["error"].items()
    }
    return Reference("LCNN of another group", str(values["source"]), None, errors, {})


def _solve(a: float, b: float, clean: float, reference_clean: float) -> float:
    return (clean - b * reference_clean) / (a - b)
