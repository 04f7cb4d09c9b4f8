"""`mango-edge doctor`: is this device fit to work unattended?"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer

from edge.cli.app import app
from edge.cli.model import STORE

JOURNAL = Path("/var/lib/mango-edge/journal")


@app.command()
def doctor(
    source: Annotated[
        str, typer.Option(help="Take a frame from here, as `mango-edge run --source` would.")
    ] = "",
    store: Annotated[Path, typer.Option(help="Folder that holds the device's models.")] = STORE,
    journal: Annotated[Path, typer.Option(help="Folder of the journal.")] = JOURNAL,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON array.")] = False,
    root: Annotated[
        Path, typer.Option(help="Examine a recorded tree of a device instead of this one.")
    ] = Path("/"),
) -> None:
    """Check power, temperature, runtime, model, camera, permissions, disk, memory, clock and watchdog.

    Each check says what to do. The exit status is 1 when one of them fails.
    """
    from edge.console import FAILED
    from edge.doctor import FAIL, Device, examine, run_command
    from edge.errors import InputError

    if not root.is_dir():
        raise InputError(f"{root}: no such folder; give the root of a recorded tree")
    here = root == Path("/")
    checks = examine(Device(source, store, journal, root, run_command if here else None))
    if as_json:
        typer.echo(json.dumps([dataclasses.asdict(check) for check in checks], indent=1, ensure_ascii=False))
    else:
        for check in checks:
            typer.echo(f"{check.state:<8}{check.name:<12} {check.found}")
            if check.advice:
                typer.echo(f"{'':<21}-> {check.advice}")
    if any(check.state == FAIL for check in checks):
        raise typer.Exit(FAILED)
