"""`mango-edge run`: the field runner."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edge.cli.app import app


@app.command()
def run(
    source: Annotated[
        str,
        typer.Option(
            help="Picture, folder, video file, v4l2:/dev/video0, rtsp://..., http://... or picamera2:",
        ),
    ],
    model: Annotated[
        Path | None, typer.Option(help="Model file [default: the one that comes with the kit].")
    ] = None,
    fps: Annotated[
        float | None, typer.Option(min=0.0, help="Decisions a second; 0: as many as it can.")
    ] = None,
    interval: Annotated[
        float | None,
        typer.Option(min=0.0, help="Seconds between decisions [default: 1 for cameras and streams, else 0]."),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Go on with new pictures in the folder.")] = False,
    every_frame: Annotated[
        bool,
        typer.Option("--every-frame", help="Take each frame of a video file, not the newest in its time."),
    ] = False,
    frames: Annotated[int, typer.Option(min=0, help="End after so many decisions; 0: never.")] = 0,
    once: Annotated[
        bool, typer.Option("--once", help="One decision, and an error if there is none.")
    ] = False,
    window: Annotated[
        int | None,
        typer.Option(min=1, help="Frames that a decision averages [default: 5; 1 for pictures]."),
    ] = None,
    hysteresis: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Lead that another class needs to take over.")
    ] = 0.1,
    runtime: Annotated[
        str, typer.Option(help="auto, ai-edge-litert, tflite-runtime or tensorflow.")
    ] = "auto",
    threads: Annotated[int, typer.Option(min=1, max=64, help="Threads of one inference.")] = 1,
    log_format: Annotated[str, typer.Option(help="Log on standard error as text or json.")] = "text",
) -> None:
    """Decide on frames of a camera, stream, video or folder for as long as it runs.

    Without a journal each decision is printed. SIGTERM ends it within two seconds, with nothing lost.
    """
    import os
    import sys

    from edge.capture import Retry
    from edge.classifier import Classifier
    from edge.errors import InputError
    from edge.log import start_log
    from edge.printer import Printer
    from edge.runner import Plan, Stop
    from edge.runner import run as decide
    from edge.smoothing import Smoothing
    from edge.source import open_source

    if fps is not None and interval is not None:
        raise InputError("--fps and --interval say the same; give one of them")
    start_log(log_format)
    stop = Stop()
    stop.on_signals()
    classifier = Classifier.open(model, runtime, threads)
    opened = open_source(source, exif=classifier.contract.input.exif, watch=watch, every_frame=every_frame)
    pause = interval if interval is not None else (1 / fps if fps else 0.0)
    if fps is None and interval is None and opened.camera:
        pause = 1.0
    still = not opened.live and not every_frame
    plan = Plan(
        interval=pause,
        frames=1 if once else frames,
        smoothing=Smoothing(window if window is not None else (1 if still else 5), hysteresis),
        retry=Retry(attempts=1 if once else 0),
    )
    sinks = [Printer(log_format)]
    summary = decide(opened, classifier, plan, sinks, stop)
    if once and not summary.frames and not stop.asked:
        raise InputError(f"{opened.name}: no frame came")
    if summary.hanging:
        # A thread is stuck in a driver. All is written; ending the interpreter would wait for it or crash.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
