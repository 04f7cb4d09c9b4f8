"""`mango-bench field`: what the field runner costs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from bench.cli.app import app


@app.command()
def field(
    data: Annotated[
        Path | None, typer.Option(help="Folder with 320x240 pictures [default: drawn leaves].")
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="Model file [default: the one that comes with the kit].")
    ] = None,
    frames: Annotated[int, typer.Option(min=2000, help="Frames of the memory run.")] = 20_000,
    files: Annotated[int, typer.Option(min=20, help="Files of each rate round.")] = 1000,
    rounds: Annotated[int, typer.Option(min=1, help="Rate rounds, alternating with the bare network.")] = 5,
    seconds: Annotated[float, typer.Option(min=5.0, help="Length of the run at one frame a second.")] = 60.0,
    out: Annotated[Path | None, typer.Option(help="Write the figures as JSON as well.")] = None,
) -> None:
    """Measure `mango-edge run`: rate beside the bare network, memory and its growth, processor time at 1 frame/s."""
    import os
    import platform
    from dataclasses import asdict
    from itertools import cycle, islice
    from statistics import median

    from bench.drawing import draw_samples
    from bench.field import (
        measure_memory,
        measure_rate,
        measure_share,
        pictures_of_size,
        scratch,
    )
    from bench.video import write_video
    from edge.classifier import DEFAULT_MODEL, Classifier
    from edge.console import complain
    from edge.files import check_writable, write_atomic
    from edge.photograph import find_photographs

    if out is not None:
        check_writable(out)
    path = model or DEFAULT_MODEL
    opened = Classifier.open(path)
    with scratch() as name:
        folder = Path(name)
        if data is None:
            draw_samples(folder / "drawn", 5)
        chosen = find_photographs([str(data or folder / "drawn")]).paths
        paths, pictures = pictures_of_size(chosen, 320, 240, 200)
        video = folder / "video.avi"
        load_before = os.getloadavg()[0]
        rate = measure_rate(path, paths, files, rounds, folder, complain)
        write_video(video, islice(cycle(pictures), int(30 * (seconds + 30))))
        share = measure_share(path, video, seconds, folder, complain)
        write_video(video, islice(cycle(pictures), frames))
        memory = measure_memory(path, video, frames, folder, complain)
        load_after = os.getloadavg()[0]
    where = (
        f"{platform.machine()}, {os.cpu_count()} processors, load average {load_before:.1f} before and"
        f" {load_after:.1f} after; {opened.runtime}, {path.name} {opened.model.digest[:12]}"
    )
    typer.echo(f"machine        {where}")
    typer.echo(
        f"rate           {median(rate.runner):.1f} decisions/s on 320x240 files with the journal,"
        f" {median(rate.bare):.1f} invocations/s bare: {rate.ratio:.1%} (medians of {rounds} rounds of {files})"
    )
    typer.echo(
        f"               processor time {median(rate.runner_ms):.2f} ms a decision, {median(rate.bare_ms):.2f} ms"
        " an invocation"
    )
    typer.echo(f"processor      {share.share:.1%} of one core at one frame a second ({share.seconds:.0f} s)")
    typer.echo(
        f"memory         {memory.late / 1e6:.1f} MB resident at the end of {memory.frames:,} frames, peak"
        f" {memory.peak / 1e6:.1f} MB, growth {memory.growth / 1e6:+.2f} MB since its second tenth"
    )
    if out is not None:
        values = {
            "machine": where,
            "rate": {**asdict(rate), "ratio": rate.ratio},
            "share": asdict(share),
            "memory": {**asdict(memory), "growth": memory.growth},
        }
        write_atomic(out, (json.dumps(values, indent=1) + "\n").encode())
