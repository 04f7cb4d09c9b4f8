"""`mango-edge model`: the model that an unattended device runs; installed, shown, taken back."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from edge.cli.app import app
from edge.console import Commands

STORE = Path("/var/lib/mango-edge/models")

model = typer.Typer(
    cls=Commands, help="Install signed models on this device, show which runs, go back.", no_args_is_help=True
)
app.add_typer(model, name="model")

Store = Annotated[
    Path, typer.Option(help="Folder that holds the device's models.", envvar="MANGO_EDGE_MODELS")
]

_RESTART = "sudo systemctl restart mango-edge"


@model.command()
def install(
    file: Annotated[Path, typer.Argument(help="Model file signed by `mango-convert sign`.")],
    key: Annotated[Path, typer.Option(help="Public key (PEM) that it must be signed with.")],
    store: Store = STORE,
    allow_other_shape: Annotated[
        bool, typer.Option(help="Take it although labels or input differ from the model it replaces.")
    ] = False,
) -> None:
    """Verify a signed model file, try it on this device, and make it the one to run.

    A file that is tampered with, older, of another shape, or fails its self-test is refused and nothing changes.
    The release is on trial until the runner has worked with it; if it does not, the last good one comes back.
    """
    from edge.model_store import install as put
    from edge.model_store import read_candidate

    # Before rights are given up: a file on a stick or in a home may be readable by the caller alone.
    candidate = read_candidate(file, key)
    _become_owner(store)
    release, found = put(store, candidate, allow_other_shape)
    typer.echo(f"{release}: {found}")
    if release.on_trial:
        typer.echo(f"On trial from the next start on: {_RESTART}")


@model.command()
def status(
    store: Store = STORE,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show the release that runs, the one to go back to, and what was given up last."""
    from edge.classifier import DEFAULT_MODEL
    from edge.model_store import ATTEMPTS, Release, read_status

    found = read_status(store)

    def values(release: Release | None) -> dict[str, object]:
        if release is None:
            return {"release": 0, "path": str(DEFAULT_MODEL), "shipped": True}
        return {
            "release": release.number,
            "path": str(release.path),
            "digest": release.digest,
            "key": release.key_id,
            "on_trial": release.on_trial,
            "starts": release.starts,
        }

    if as_json:
        typer.echo(
            json.dumps(
                {
                    "current": values(found.current),
                    "previous": None if found.current is None else values(found.previous),
                    "rolled_back": found.rolled_back,
                },
                indent=1,
            )
        )
        return
    current = found.current
    if current is None:
        typer.echo(f"current   the model that the package ships ({DEFAULT_MODEL})")
    else:
        trial = (
            f", on trial: started {current.starts} of {ATTEMPTS} times" if current.on_trial else ", confirmed"
        )
        typer.echo(f"current   {current}, key {current.key_id}{trial}")
        typer.echo(f"previous  {found.previous or 'the model that the package ships'}")
    if found.rolled_back is not None:
        typer.echo(f"given up  release {found.rolled_back.get('release')}: {found.rolled_back.get('why')}")


@model.command()
def rollback(store: Store = STORE) -> None:
    """Go back to the release before the current one."""
    from edge.model_store import rollback as go_back

    _become_owner(store)
    release = go_back(store)
    typer.echo(f"{release or 'the model that the package ships'}: runs from the next start on: {_RESTART}")


def _become_owner(store: Path) -> None:
    """Give up root's rights for those of the user that the store belongs to.

    The service writes to the store too, so what root left there would lock it out; and root must not follow links
    that a service user may have planted.
    """
    if os.geteuid() != 0:
        return
    folder = store.absolute()
    while not folder.exists():
        folder = folder.parent
    owner = folder.stat()
    if owner.st_uid != 0:
        os.setgroups([])
        os.setgid(owner.st_gid)
        os.setuid(owner.st_uid)
