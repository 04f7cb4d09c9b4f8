"""`mango-edge run`: the field runner."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edge.cli.app import app

if TYPE_CHECKING:
    from edge.journal import Journal
    from edge.runner import Sink
    from edge.vitals import Vitals


@app.command()
def run(
    source: Annotated[
        str,
        typer.Option(
            help="Picture, folder, video file, v4l2:/dev/video0, rtsp://..., http://... or picamera2:",
        ),
    ],
    model: Annotated[
        str,
        typer.Option(
            help="Model file, or folder that `mango-edge model install` writes [default: the kit's model]."
        ),
    ] = "",
    fps: Annotated[
        float | None, typer.Option(min=0.0, help="Decisions a second; 0: as many as it can.")
    ] = None,
    interval: Annotated[
        float | None,
        typer.Option(min=0.0, help="Seconds between decisions [default: 1 for cameras and streams, else 0]."),
    ] = None,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch",
            help="Go on with new pictures in the folder; those that the journal knows are passed over.",
        ),
    ] = False,
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
    journal: Annotated[
        Path | None, typer.Option(help="Folder to record decisions in; without it they are printed.")
    ] = None,
    keep: Annotated[str, typer.Option(help="Whose pictures the journal keeps: uncertain, all or none.")] = (
        "uncertain"
    ),
    web: Annotated[str, typer.Option(help="Serve the status page, for example on 127.0.0.1:8080.")] = "",
    web_token_file: Annotated[
        Path | None,
        typer.Option(help="File with the page's token; needed on other addresses than 127.0.0.1."),
    ] = None,
    mqtt: Annotated[
        str, typer.Option(help="Publish to a broker: mqtt://[USER@]HOST[/TOPIC] or mqtts://")
    ] = "",
    mqtt_password_file: Annotated[Path | None, typer.Option(help="File with the broker's password.")] = None,
    mqtt_authority: Annotated[
        Path | None, typer.Option(help="Certificates to check the broker's by [default: the system's].")
    ] = None,
    runtime: Annotated[
        str, typer.Option(help="auto, ai-edge-litert, tflite-runtime or tensorflow.")
    ] = "auto",
    threads: Annotated[int, typer.Option(min=1, max=64, help="Threads of one inference.")] = 1,
    log_format: Annotated[str, typer.Option(help="Log on standard error as text or json.")] = "text",
) -> None:
    """Decide on frames of a camera, stream, video or folder for as long as it runs.

    Without a journal each decision is printed. SIGTERM ends it within two seconds, with nothing lost.
    """
    import contextlib
    import logging
    import os
    import sys

    from edge import notify
    from edge.capture import Retry
    from edge.classifier import Classifier
    from edge.errors import InputError
    from edge.journal import open_journal
    from edge.journal_reader import JournalReader
    from edge.log import start_log
    from edge.printer import Printer
    from edge.runner import Plan, Stop
    from edge.runner import run as decide
    from edge.smoothing import Smoothing
    from edge.source import open_source
    from edge.vitals import Vitals

    if fps is not None and interval is not None:
        raise InputError("--fps and --interval say the same; give one of them")
    if journal is None and (web or mqtt):
        raise InputError("--web and --mqtt show what the journal holds; give --journal FOLDER as well")
    if keep not in ("uncertain", "all", "none"):
        raise InputError(f"pictures to keep: {keep!r} is not a policy; choose uncertain, all, none")
    start_log(log_format)
    stop = Stop()
    stop.on_signals()
    path, store = _find_model(model)
    classifier = Classifier.open(path, runtime, threads)
    with contextlib.ExitStack() as closing:
        sinks: list[Sink] = []
        done: frozenset[str] = frozenset()
        vitals = Vitals()
        if journal is None:
            sinks.append(Printer(log_format))
        else:
            written = closing.enter_context(open_journal(journal, keep=keep))  # type: ignore[arg-type]
            sinks.append(written)
            if watch:
                # A journal that cannot be read just now has no say in what is done.
                with contextlib.suppress(InputError):
                    done = JournalReader(journal, must_exist=False).sources()
            sinks += _show(
                written, vitals, closing, web, web_token_file, mqtt, mqtt_password_file, mqtt_authority
            )
        opened = open_source(
            source, exif=classifier.contract.input.exif, watch=watch, every_frame=every_frame, done=done
        )
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

        def works() -> None:
            from edge.model_store import confirm

            try:
                if store is not None and confirm(store, path):
                    logging.getLogger(__name__).info("the model on trial works and stays")
            except (OSError, InputError) as error:
                logging.getLogger(__name__).warning("the model's trial cannot be ended (%s)", error)

        watchdog = notify.watchdog_interval()
        summary = decide(opened, classifier, plan, sinks, stop, notify, watchdog or 1.0, works, vitals)
    if once and not summary.frames and not stop.asked:
        raise InputError(f"{opened.name}: no frame came")
    if summary.hanging:
        # A thread is stuck in a driver. All is written; ending the interpreter would wait for it or crash.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _find_model(argument: str) -> tuple[Path | None, Path | None]:
    """The model file (None: the shipped one), and the store that it came from, if any."""
    if not argument:
        return None, None
    path = Path(argument)
    # What looks like no file is a store, also before anything was installed into it.
    if path.is_dir() or (not path.exists() and not path.suffix):
        from edge.model_store import current_model

        return current_model(path), path
    return path, None


def _show(
    written: Journal,
    vitals: Vitals,
    closing: Any,
    web: str,
    token_file: Path | None,
    mqtt: str,
    password_file: Path | None,
    authority: Path | None,
) -> list[Sink]:
    """Start the status page and the publisher that are asked for; both end with `closing`."""
    from edge.errors import InputError
    from edge.files import read_regular
    from edge.journal_reader import JournalReader
    from edge.live_view import LiveView

    sinks: list[Sink] = []

    def problems() -> list[str]:
        degraded = [written.degraded] if written.degraded else []
        return degraded + vitals.problems(written.folder)

    if mqtt:
        from edge.mqtt import parse_broker, start_publisher

        broker = parse_broker(mqtt, password_file=password_file, authority=authority)
        publisher = start_publisher(
            broker, JournalReader(written.folder, must_exist=False), problems=problems
        )
        closing.callback(publisher.close)
        sinks.append(publisher)
    if web:
        from edge.web import serve

        token = ""
        if token_file is not None:
            try:
                token = read_regular(token_file, "a token file", 2**16).decode().strip()
            except (OSError, UnicodeDecodeError) as error:
                raise InputError(f"{token_file}: the token cannot be read ({error})") from None
        live = LiveView()
        server = serve(
            web,
            JournalReader(written.folder, must_exist=False),
            lambda: {**vitals.health(written.folder), "problems": problems()},
            token,
            live=live,
        )
        closing.callback(server.close)
        sinks.append(live)
    return sinks
