"""`mango-convert calibrate`: temperature, `uncertain` threshold and appearance for a model file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from convert.cli.app import app
from convert.cli.options import Seed


@app.command()
def calibrate(
    model: Annotated[Path, typer.Argument(help="Model file; it is calibrated in place.")],
    data: Annotated[Path, typer.Option(help="The data set that the model was trained on.")],
    split: Annotated[
        str, typer.Option(help="The split it was trained on: random, burst, or a split file.")
    ] = "burst",
    seed: Seed = 7,
    right: Annotated[
        float,
        typer.Option(
            min=0.0, max=1.0, help="Wanted share of right answers where the decision is not uncertain."
        ),
    ] = 0.9,
) -> None:
    """Fit confidence to the validation part, and print how well it holds there and on the test part."""
    from convert.baseline import beside
    from convert.calibration import calibrate as fit_to
    from convert.cli.split import describe
    from convert.dataset import index
    from convert.split import open_split
    from edge.console import complain

    dataset = index(data)
    describe(dataset)
    chosen = open_split(split, dataset, seed)
    baselines = {part: beside(dataset, chosen, part) for part in ("validation", "test")}
    found = fit_to(model, dataset, chosen, right, complain)
    typer.echo(
        f"{model}: temperature {found.temperature:.4f}, uncertain below {found.uncertain_below:.4f}"
        f" (split {chosen.name}, seed {chosen.seed}, fitted on the validation part)"
    )
    for part in (found.validation, found.test):
        typer.echo(
            f"  {part.part:<10} {part.images} photographs: expected calibration error {part.ece_before:.4f} ->"
            f" {part.ece_after:.4f}, negative log-likelihood {part.nll_before:.3f} -> {part.nll_after:.3f};"
            f" accuracy {part.accuracy:.4f}, without the uncertain {part.covered_accuracy:.4f}"
            f" ({part.covered:.1%} covered); {baselines[part.part]}; taken for no leaf:"
            f" {found.foreign[part.part]:.2%}"
        )
