"""`mango-bench corrupt`: the corrupted pictures as files, in the study's layout."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bench.cli.app import app
from bench.cli.options import MAXIMUM_SEED


@app.command()
def corrupt(
    data: Annotated[Path, typer.Argument(help="Folder with one folder of photographs for each class.")],
    out: Annotated[Path, typer.Argument(help="Folder for the set; an unfinished one is completed.")],
    model: Annotated[
        Path | None, typer.Option(help="Fit the pictures to this model's input [default: 224x224, squashed].")
    ] = None,
    images: Annotated[str, typer.Option(help="all, or held-out (the split's test part).")] = "all",
    split: Annotated[str, typer.Option(help="random, burst, or a split file (.json).")] = "burst",
    split_seed: Annotated[int, typer.Option(min=0, max=MAXIMUM_SEED, help="Seed of the split.")] = 7,
    corruptions: Annotated[
        str, typer.Option(help="all, or names and families (noise, blur, weather, digital) with commas.")
    ] = "all",
    severities: Annotated[str, typer.Option(help="For example 1-5 or 1,3,5.")] = "1-5",
    limit: Annotated[
        int | None, typer.Option(min=1, help="At most so many photographs, drawn class by class.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=MAXIMUM_SEED, help="Seed of the corruptions.")] = 0,
    quality: Annotated[
        int | None, typer.Option(help="JPEG quality [default: 85, ImageNet-C's; the study's script has 95].")
    ] = None,
    lossless: Annotated[bool, typer.Option("--lossless", help="PNG instead of JPEG.")] = False,
    jobs: Annotated[int, typer.Option("-j", "--jobs", min=1, help="Processes.")] = 1,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the estimate and stop.")] = False,
) -> None:
    """Write MangoLeafDB-C: OUT/CORRUPTION/SEVERITY/CLASS/FILE, the clean pictures in OUT/clean/0.

    The clean pictures go through the same encoding, so that clean and corrupted differ by the corruption alone.
    """
    from bench.campaign import parse_corruptions, parse_severities
    from bench.corrupted_set import check_space, estimate, plan_set, write_set
    from bench.encoding import QUALITY, Encoding
    from bench.selection import select
    from convert.dataset import index
    from convert.split import open_split
    from edge.console import complain, progress
    from edge.contract import read_contract
    from edge.errors import InputError
    from edge.files import check_folder
    from edge.preprocessing import InputSpec

    if lossless and quality is not None:
        raise InputError("--lossless and --quality exclude each other; give one of them")
    if images not in ("all", "held-out"):
        raise InputError(f"--images {images!r} is not known; choose all or held-out")
    dataset = index(data)
    chosen = select(
        dataset, images, open_split(split, dataset, split_seed) if images == "held-out" else None, limit, seed
    )
    spec = InputSpec() if model is None else read_contract(model).input
    encoding = Encoding(None) if lossless else Encoding(QUALITY if quality is None else quality)
    planned = plan_set(
        out, chosen, spec, encoding, seed, parse_corruptions(corruptions), parse_severities(severities)
    )
    needed = estimate(planned)
    complain(
        f"{out}: {needed.files:,} files of {len(planned.names):,} photographs ({chosen.choice}), {encoding}: about"
        f" {needed.bytes / 1e9:.2f} GB to write, {needed.free_bytes / 1e9:.2f} GB free"
    )
    check_space(planned, needed)
    if dry_run:
        return
    check_folder(out)
    with progress("pictures", needed.files) as step:
        done = 0

        def report(count: int) -> None:
            nonlocal done
            done += count
            step(completed=done)

        subsets = write_set(planned, jobs, report)
    typer.echo(
        f"{out}: {len(subsets)} subsets, {needed.files:,} files; check with: cd OUT && sha256sum --check digests/*"
    )
