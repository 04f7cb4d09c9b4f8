"""`mango-bench latency`: how long does one picture take on this machine?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from bench.cli.app import app


@app.command()
def latency(
    models: Annotated[
        list[Path] | None, typer.Argument(help="Model files [default: the one that comes with the kit].")
    ] = None,
    pictures: Annotated[
        list[str] | None,
        typer.Option(help="Pictures, folders or globs; may be given again [default: drawn leaves]."),
    ] = None,
    images: Annotated[
        int, typer.Option(min=1, help="Pictures to go round, drawn from those by seed 0.")
    ] = 100,
    threads: Annotated[str, typer.Option(help="Numbers of threads to compare, for example 1,2,4.")] = "1",
    runtime: Annotated[
        str,
        typer.Option(help="auto, all, ai-edge-litert, tflite-runtime or tensorflow; or several, by commas."),
    ] = "auto",
    xnnpack: Annotated[str, typer.Option(help="on, off or both.")] = "on",
    min_count: Annotated[int, typer.Option(help="Counted queries, at least.")] = 200,
    min_time: Annotated[str, typer.Option(help="Time of counted queries, at least: 10s, 2m.")] = "10s",
    max_time: Annotated[
        str, typer.Option(help="Bound of that time; the warm-up has the same, but at most 30s.")
    ] = "60s",
    cold_starts: Annotated[int, typer.Option(min=1, help="Fresh processes to time.")] = 3,
    soak: Annotated[str, typer.Option(help="Then a sustained run of this length, for example 10m.")] = "0s",
    peer: Annotated[
        bool,
        typer.Option("--peer", help="Also time invoke alone over 400 pictures, as the peer script does."),
    ] = False,
    operators: Annotated[
        bool, typer.Option("--operators", help="Also profile the operators, where the runtime can.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Result file to write.")] = Path("latency.json"),
) -> None:
    """Time models picture by picture: cold start, then every stage from file to label, until the p90 is known to 2 %.

    Every combination of model, runtime, threads and XNNPACK is measured by itself, one after the other. A model
    that a runtime does not open is named on standard error; the exit status is then 1.
    """
    import tempfile

    from bench.duration import parse_seconds
    from bench.latency import Protocol, configurations, describe_line, measure_model
    from bench.machine import board_name
    from bench.pictures import choose_pictures, draw_pictures
    from bench.result import write_results
    from edge.classifier import DEFAULT_MODEL
    from edge.console import FAILED, complain, progress
    from edge.errors import InputError
    from edge.files import check_writable

    paths = models or [DEFAULT_MODEL]
    bound = parse_seconds(max_time, "--max-time")
    protocol = Protocol(
        minimum_count=min_count,
        minimum_seconds=parse_seconds(min_time, "--min-time"),
        maximum_seconds=bound,
        warm_up_seconds=min(Protocol.warm_up_seconds, bound),
        cold_starts=cold_starts,
    )
    soak_seconds = parse_seconds(soak, "--soak")
    wanted = configurations(runtime, threads, xnnpack)
    check_writable(out)
    entries, problems = [], 0
    with tempfile.TemporaryDirectory(prefix="mango-bench-") as folder:
        if pictures:
            chosen = choose_pictures(pictures, images)
            for message in chosen.problems:
                complain(f"error: {message}")
                problems += 1
        else:
            chosen = draw_pictures(Path(folder))
            typer.echo(f"timed with {len(chosen.paths)} drawn leaves; give photographs with --pictures")
        runs = [(path, configuration) for path in paths for configuration in wanted]
        with progress("timing", len(runs)) as step:
            for path, configuration in runs:
                try:
                    entry = measure_model(
                        path,
                        configuration,
                        chosen.paths,
                        chosen.data,
                        protocol=protocol,
                        soak_seconds=soak_seconds,
                        peer=peer,
                        operators=operators,
                        step=step,
                    )
                except InputError as error:
                    complain(f"error: {error}")
                    problems += 1
                    continue
                finally:
                    step()
                entries.append(entry)
                # After each: a long sweep that is interrupted keeps what it has.
                write_results(out, entries, ["mango-bench", *sys.argv[1:]])
                typer.echo(describe_line(entry))
                for reason in (entry.machine or {})["suspect"]:
                    complain(f"warning: {reason}; these times may not be the machine's own")
    if not entries:
        raise InputError("nothing could be timed; see the messages above")
    typer.echo(f"{out}: {len(entries)} result(s) on {board_name(entries[0].machine or {})}")
    if problems:
        raise typer.Exit(FAILED)
