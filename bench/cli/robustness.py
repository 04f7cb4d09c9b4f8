"""`mango-bench robustness`: errors under 19 corruptions at 5 severities, corrupted on the fly or from a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bench.cli.app import app
from bench.cli.options import MAXIMUM_SEED


@app.command()
def robustness(
    models: Annotated[
        list[Path] | None, typer.Argument(help="Model files [default: the one that comes with the kit].")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Photographs, one folder a class; not needed with --corrupted.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Result file to write.")] = Path(
        "build/robustness.json"
    ),
    split: Annotated[
        str,
        typer.Option(
            help="own (the split each model was trained on), random, burst, or a split file (.json)."
        ),
    ] = "own",
    images: Annotated[
        str,
        typer.Option(
            help="held-out (the split's test part), all (training photographs too, the study's way), fresh (every"
            " photograph of data that the model was not trained on), or auto (held-out or fresh, by the data)."
        ),
    ] = "held-out",
    corruptions: Annotated[
        str,
        typer.Option(help="all, none, or names and families (noise, blur, weather, digital) with commas."),
    ] = "all",
    severities: Annotated[str, typer.Option(help="For example 1-5 or 1,3,5.")] = "1-5",
    limit: Annotated[
        int | None, typer.Option(min=1, help="At most so many photographs, drawn class by class.")
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, max=MAXIMUM_SEED, help="Seed of corruptions, intervals and --limit.")
    ] = 0,
    split_seed: Annotated[int, typer.Option(min=0, max=MAXIMUM_SEED, help="Seed of the split.")] = 7,
    quality: Annotated[
        int | None,
        typer.Option(help="JPEG quality that clean and corrupted pictures go through [default: 85]."),
    ] = None,
    lossless: Annotated[bool, typer.Option("--lossless", help="No JPEG step.")] = False,
    corrupted: Annotated[
        Path | None,
        typer.Option(help="Folder that `mango-bench corrupt` wrote: read it instead of corrupting."),
    ] = None,
    reference: Annotated[
        list[str] | None,
        typer.Option(
            help="What mCE is relative to: published (ResNet-101), a robustness result (FILE or FILE#MODEL), or none."
            " The first counts; further ones are shown beside it [default: published]."
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            help="Float model: measured too, and each model's robustness lost to quantisation printed."
        ),
    ] = None,
    unlabelled: Annotated[
        bool, typer.Option("--unlabelled", help="Pictures without labels: how often does the answer change?")
    ] = False,
    jobs: Annotated[int, typer.Option("-j", "--jobs", min=1, help="Processes.")] = 1,
    dask: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler whose workers do the work.")
    ] = None,
    runtime: Annotated[
        str, typer.Option(help="auto, ai-edge-litert, tflite-runtime or tensorflow.")
    ] = "auto",
    threads: Annotated[int, typer.Option(min=1, max=64, help="Threads of one inference.")] = 1,
) -> None:
    """Measure how models stand up to corrupted pictures.

    Every finished part is kept beside the result file until that is written: run the same command again after an
    interruption and it goes on, with the same result.
    """
    from bench.campaign import Options, run_robustness
    from edge.classifier import DEFAULT_MODEL

    options = Options(
        models=tuple(models or [DEFAULT_MODEL]),
        data=data,
        out=out,
        split=split,
        images="unlabelled" if unlabelled else images,
        corruptions=corruptions,
        severities=severities,
        limit=limit,
        seed=seed,
        split_seed=split_seed,
        quality=quality,
        lossless=lossless,
        corrupted=corrupted,
        references=tuple(reference or ()),
        against=against,
        jobs=jobs,
        dask=dask,
        runtime=runtime,
        threads=threads,
    )
    for line in run_robustness(options):
        typer.echo(line)
