"""Options that several commands share, so that each has one name, one help text and one range."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from edge.contract import PRECISIONS
from edge.errors import InputError

Data = Annotated[Path, typer.Option(help="Folder with one folder of photographs for each class.")]
Batch = Annotated[int, typer.Option(min=1, help="Photographs in a batch.")]
LearningRate = Annotated[float, typer.Option(min=0.0, help="Adam's step size.")]
Weights = Annotated[
    str | None, typer.Option(help="imagenet, none, or a file; by default imagenet, for lcnn none.")
]
Layers = Annotated[str | None, typer.Option(help="all or head; by default head on loaded weights, else all.")]
HeadEpochs = Annotated[
    int, typer.Option(min=0, help="With --layers all: so many epochs train the head alone first.")
]
FineTuningRate = Annotated[float, typer.Option(min=0.0, help="Adam's step size after those.")]
Precision = Annotated[list[str] | None, typer.Option(help=f"{', '.join(PRECISIONS)}; by default all.")]
PerClass = Annotated[int, typer.Option(min=1, help="Calibration photographs of each class.")]
MaxDrop = Annotated[float, typer.Option(min=0.0, help="Points of macro-F1 that quantisation may cost.")]
MinAgreement = Annotated[
    float, typer.Option(min=0.0, max=100.0, help="Percent of labels that must be float's.")
]
Seed = Annotated[
    int,
    # TensorFlow's and scikit-learn's seeds have 32 bits.
    typer.Option(
        min=0, max=2**32 - 1, help="Seed of the split, and of weights and order where they are drawn."
    ),
]
Auto = Annotated[bool, typer.Option(help="Where int8 fails, write the first variant that passes.")]


def known_precisions(names: Sequence[str] | None) -> list[str]:
    """The precisions asked for; all of them where none was.

    Raises:
        InputError: one is not known.
    """
    for name in names or ():
        if name not in PRECISIONS:
            raise InputError(f"precision {name!r} is not known; choose {', '.join(PRECISIONS)}")
    return list(names or PRECISIONS)
