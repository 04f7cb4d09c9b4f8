"""`mango-bench embed`: what an image model makes of each picture, for the audit's gain of fusion."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bench.cli.app import app


@app.command()
def embed(
    model: Annotated[Path, typer.Argument(help="Model file.")],
    data: Annotated[Path, typer.Argument(help="Folder of class folders.")],
    out: Annotated[Path, typer.Option(help="File to write (.npz).")] = Path("build/embeddings.npz"),
    split: Annotated[
        str | None,
        typer.Option(help="Split file the model was trained on [default: drawn again from its contract]."),
    ] = None,
    runtime: Annotated[
        str, typer.Option(help="auto, ai-edge-litert, tflite-runtime or tensorflow.")
    ] = "auto",
) -> None:
    """Save every picture's embedding (the input of the last dense layer) and probabilities."""
    from bench.embedding import embed as run
    from bench.embedding import training_split, write_embeddings
    from convert.dataset import index
    from convert.split import open_split
    from edge.console import complain, progress
    from edge.files import check_writable

    check_writable(out)
    dataset = index(data)
    chosen = training_split(dataset, model) if split is None else open_split(split, dataset)
    if chosen is None:
        complain(
            f"{model}: was not trained on these pictures by a split that can be drawn again, so the audit cannot tell"
            " which of them it has seen"
        )
    with progress("embedding", len(dataset.photographs)) as step:
        found = run(model, dataset, chosen, runtime, step)
    write_embeddings(found, out)
    assert found.embedding is not None
    typer.echo(f"{out}: {len(found.paths):,} pictures, embeddings of {found.embedding.shape[1]} values")
