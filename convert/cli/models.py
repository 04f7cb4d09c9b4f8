"""`mango-convert models`: the networks that can be trained here, and what they weigh."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from convert.cli.app import app

FIGURES = ("parameters", "macs", "float32_bytes", "int8_bytes")


@app.command()
def models(
    size: Annotated[int, typer.Option(min=32, max=1024, help="Input pixels a side.")] = 224,
    classes: Annotated[int, typer.Option(min=2, help="Classes of the last layer.")] = 8,
    every_head: Annotated[
        bool, typer.Option("--heads", help="A row for every head, not the default alone.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print each network's parameters, multiply-accumulates, sizes, input convention and head.

    The sizes are computed from the layers as TFLite stores them, batch normalisation folded in; a file adds
    the graph's description, 1 to 3 % of an int8 file. Every exported file takes RGB 0..255: the convention is
    a layer inside. A network that needs a larger input than --size is marked so.
    """
    from convert.architecture import (
        CONVENTIONS,
        HEADS,
        NETWORKS,
        build,
        multiply_accumulates,
        parameters,
        weight_bytes,
    )
    from convert.summary import Table
    from edge.preprocessing import InputSpec

    rows: list[dict[str, Any]] = []
    for name, network in NETWORKS.items():
        for head in network.heads if every_head else network.heads[:1]:
            figures = dict.fromkeys(FIGURES)
            if size >= network.smallest:
                model = build(name, classes, InputSpec(height=size, width=size), head)
                values = (parameters(model), multiply_accumulates(model), *weight_bytes(model))
                figures = dict(zip(FIGURES, values, strict=True))
            rows.append(
                {
                    "name": name,
                    "network": network.title,
                    "smallest_input": network.smallest,
                    **figures,
                    "convention": CONVENTIONS[network.convention].text,
                    "head": head,
                    "head_text": HEADS[head],
                    "default_weights": "none" if network.application is None else "imagenet",
                }
            )
    if as_json:
        typer.echo(json.dumps({"input": size, "classes": classes, "models": rows}, indent=1))
        return
    table = Table(
        (
            "name",
            "network",
            "smallest input",
            "parameters",
            "million MACs",
            "float32, MB",
            "int8, MB",
            "network's own input",
            "head",
        ),
        tuple(
            (
                row["name"],
                row["network"],
                row["smallest_input"],
                *(
                    ("input too small",) * len(FIGURES)
                    if row["macs"] is None
                    else (
                        row["parameters"],
                        round(row["macs"] / 1e6, 1),
                        round(row["float32_bytes"] / 1e6, 2),
                        round(row["int8_bytes"] / 1e6, 2),
                    )
                ),
                row["convention"],
                f"{row['head']}: {row['head_text']}",
            )
            for row in rows
        ),
    )
    typer.echo(table.markdown())
