"""Predicted classes of every photograph under every corruption, kept compactly in result files.

They are what significance tests and intervals are made from, so a result file can be compared with another
without the photographs or the models.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.metric import Errors
from edge.errors import InputError

Classes = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Predictions:
    """What one model answered. All arrays are (photographs,) and in the order of `identities`.

    Attributes:
        labels: class names; the arrays hold indices into them.
        identities: first 16 hexadecimal digits of each photograph's digest, sorted.
        truth: true class; None for photographs without labels.
        bursts: number of the chain of photographs taken together that each belongs to.
        clean: predicted class without corruption.
        corrupted: corruption -> severity -> predicted class.
    """

    labels: tuple[str, ...]
    identities: tuple[str, ...]
    truth: Classes | None
    bursts: Classes
    clean: Classes
    corrupted: Mapping[str, Mapping[int, Classes]]

    @property
    def subsets(self) -> list[tuple[str, int]]:
        """The measured (corruption, severity) pairs in order."""
        return [(name, severity) for name, row in self.corrupted.items() for severity in row]

    def matrix(self) -> Classes:
        """Predicted classes (photographs, 1 + subsets): clean first, then `subsets` in order."""
        return np.stack(
            [self.clean, *(self.corrupted[name][severity] for name, severity in self.subsets)], axis=1
        )

    def errors(self) -> Errors:
        """Top-1 errors; only for labelled photographs."""
        assert self.truth is not None
        return Errors(
            float((self.clean != self.truth).mean()),
            {
                name: {severity: float((found != self.truth).mean()) for severity, found in row.items()}
                for name, row in self.corrupted.items()
            },
        )


def predictions_to_json(predictions: Predictions) -> dict[str, Any]:
    """JSON values: classes as base64 of uint8 (uint16 little-endian from 257 labels on), bursts of uint32."""
    dtype = "u1" if len(predictions.labels) <= 256 else "<u2"
    return {
        "labels": list(predictions.labels),
        "identities": list(predictions.identities),
        "dtype": dtype,
        "truth": None if predictions.truth is None else _pack(predictions.truth, dtype),
        "bursts": _pack(predictions.bursts, "<u4"),
        "clean": _pack(predictions.clean, dtype),
        "corrupted": {
            name: {str(severity): _pack(found, dtype) for severity, found in row.items()}
            for name, row in predictions.corrupted.items()
        },
    }


def predictions_from_json(values: Mapping[str, Any], where: str) -> Predictions:
    """Read `predictions_to_json`'s values.

    Raises:
        InputError: arrays of other lengths, or classes that no label stands for.
    """
    labels = tuple(str(label) for label in values["labels"])
    identities = tuple(str(name) for name in values["identities"])
    dtype = str(values["dtype"])

    def unpack(text: str, kind: str, below: int) -> Classes:
        try:
            found = np.frombuffer(base64.b64decode(text, validate=True), dtype=np.dtype(kind)).astype(np.intp)
        except (binascii.Error, ValueError, TypeError):
            raise InputError(
                f"{where}: its predictions are damaged; run mango-bench robustness again"
            ) from None
        if len(found) != len(identities) or (found >= below).any():
            raise InputError(
                f"{where}: its predictions do not fit its photographs; run mango-bench robustness again"
            )
        return found

    return Predictions(
        labels=labels,
        identities=identities,
        truth=None if values["truth"] is None else unpack(values["truth"], dtype, len(labels)),
        bursts=unpack(values["bursts"], "<u4", 2**32),
        clean=unpack(values["clean"], dtype, len(labels)),
        corrupted={
            str(name): {int(severity): unpack(text, dtype, len(labels)) for severity, text in row.items()}
            for name, row in values["corrupted"].items()
        },
    )


def _pack(values: Classes, dtype: str) -> str:
    return base64.b64encode(values.astype(np.dtype(dtype)).tobytes()).decode()
