"""`mango-convert keygen` and `mango-convert sign`: releases that devices in the field accept."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from convert.cli.app import app


@app.command()
def keygen(
    name: Annotated[
        Path, typer.Argument(help="Name of the pair: NAME.pem stays with you, NAME.pub.pem goes on devices.")
    ] = Path("mango-release"),
) -> None:
    """Make an Ed25519 key pair for signing model files."""
    from convert.signing import make_keys

    private, public = name.with_name(f"{name.name}.pem"), name.with_name(f"{name.name}.pub.pem")
    identity = make_keys(private, public)
    typer.echo(f"{private}: private key {identity}; keep it off the devices, and keep a copy")
    typer.echo(f"{public}: public key for the devices (mango-edge model install FILE --key {public.name})")


@app.command()
def sign(
    model: Annotated[Path, typer.Argument(help="Model file; signed in place unless --out is given.")],
    key: Annotated[Path, typer.Option(help="Private key (PEM).")],
    release: Annotated[
        int, typer.Option(help="Release number; higher than that of every release before it.")
    ],
    out: Annotated[Path | None, typer.Option(help="File to write [default: the model file].")] = None,
    runtime: Annotated[str, typer.Option(help="Runtime that gives the golden outputs.")] = "auto",
) -> None:
    """Give a model file a release number, golden outputs for the self-test, and a signature over all of it."""
    from convert.signing import sign_model

    made = sign_model(model, key, release, out, runtime)
    typer.echo(
        f"{made.path}: release {made.release}, signed with key {made.key_id}, {len(made.golden.cases)} golden"
        f" outputs by {made.golden.runtime} (tolerance {made.golden.tolerance:.4f}), SHA-256 {made.digest}"
    )
