"""`mango-convert train`: train a network on one split."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from convert.cli.app import app
from convert.cli.options import Batch, Data, FineTuningRate, HeadEpochs, Layers, LearningRate, Seed, Weights


@app.command()
def train(
    architecture: Annotated[str, typer.Argument(help="Network to train; see mango-convert models.")],
    data: Data,
    split: Annotated[str, typer.Option(help="random, burst, or a split file (.json).")] = "burst",
    out: Annotated[
        Path | None, typer.Option(help="Folder for checkpoints [default: build/train/NETWORK-SPLIT].")
    ] = None,
    weights: Weights = None,
    head: Annotated[str | None, typer.Option(help="Another head than the default one.")] = None,
    layers: Layers = None,
    head_epochs: HeadEpochs = 0,
    fine_tuning_rate: FineTuningRate = 1e-5,
    epochs: Annotated[
        int, typer.Option(min=1, help="Epochs; a finished training goes on when given more.")
    ] = 50,
    batch: Batch = 32,
    learning_rate: LearningRate = 1e-3,
    seed: Seed = 7,
) -> None:
    """Train, keeping the epoch with the best macro-F1 on the validation part.

    Run it again after an interruption: it goes on from the last whole epoch, with the same result.
    """
    from convert.baseline import beside
    from convert.cli.split import describe
    from convert.dataset import index
    from convert.split import open_split
    from edge.console import progress

    dataset = index(data)
    describe(dataset)
    chosen = open_split(split, dataset, seed)
    # TensorFlow takes seconds to import: not before the data are known to be usable.
    from convert.architecture import choose_head
    from convert.training import choose_schedule
    from convert.training import train as run
    from convert.weights import choose

    choose_head(architecture, head)
    origin = choose(architecture, weights)
    schedule = choose_schedule(
        origin, epochs, batch, learning_rate, seed, layers, head_epochs, fine_tuning_rate
    )
    folder = out or Path("build/train") / f"{architecture}-{chosen.name}"
    with progress(f"training {architecture} on {chosen.name}", 1.0) as step:
        trained = run(
            architecture,
            dataset,
            chosen,
            folder,
            schedule=schedule,
            report=lambda text, done: step(completed=done, description=text),
            weights=origin,
            head=head,
        )
    best = trained.best
    typer.echo(
        f"{folder}: best epoch {best.epoch} of {len(trained.history)}, validation accuracy"
        f" {best.validation_accuracy:.4f}, macro-F1 {best.validation_macro_f1:.4f} (split {chosen.name},"
        f" seed {chosen.seed}, validation part); {beside(dataset, chosen, 'validation')}; weights"
        f" {trained.weights_digest[:12]}"
    )
