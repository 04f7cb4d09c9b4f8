"""`mango-edge journal`: what a journal holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from edge.cli.app import app
from edge.console import Commands

journal = typer.Typer(cls=Commands, help="Look into the journal of a field runner.", no_args_is_help=True)
app.add_typer(journal, name="journal")


@journal.command()
def stats(
    path: Annotated[
        Path, typer.Argument(metavar="JOURNAL", help="Folder that mango-edge run writes, or a database file.")
    ],
    truth: Annotated[
        Path | None,
        typer.Option(help="CSV with the columns frame_number and label: scores the decisions against it."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Count decisions by class, unused frames by reason, times, pictures, and score against known labels."""
    import dataclasses

    from edge.export import iso
    from edge.journal_reader import JournalReader
    from edge.journal_score import read_truth, score

    reader = JournalReader(path)
    found = reader.stats()
    scored = None if truth is None else score(reader.rows(), read_truth(truth))
    if as_json:
        values = dataclasses.asdict(found)
        for name in ("first_time", "last_time"):
            values[name] = None if values[name] is None else iso(values[name])
        values["score"] = None if scored is None else dataclasses.asdict(scored)
        typer.echo(json.dumps(values, indent=1, ensure_ascii=False))
        return

    def counts(values: dict[str, int]) -> str:
        return ", ".join(f"{name} {count:,}" for name, count in values.items()) or "none"

    def few(names: tuple[str, ...]) -> str:
        if len(names) <= 3:
            return ", ".join(names) or "none"
        return f"{len(names):,}, from {names[0]} to {names[-1]}"  # a watched folder has as many as pictures

    rows = [
        ("decisions", f"{found.rows:,} ({counts(found.by_clock)}) in {len(found.boots)} boots"),
        ("used frames", counts(found.by_label)),
        ("not used", counts(found.by_gate)),
        ("sources", few(found.sources)),
        ("models", ", ".join(digest[:12] for digest in found.models) or "none"),
        ("pictures", f"{found.pictures:,} kept, {found.picture_bytes / 1e6:,.1f} MB"),
        ("database", f"{found.database_bytes / 1e6:,.1f} MB"),
    ]
    if found.first_time is not None and found.last_time is not None:
        rows.insert(1, ("from", iso(found.first_time)))
        rows.insert(2, ("to", iso(found.last_time)))
    if found.temperature_c is not None:
        low, high = found.temperature_c
        rows.append(("temperature", f"{low:.1f} to {high:.1f} degrees Celsius"))
    rows.extend(
        (f"{stage}, ms", f"mean {mean:.2f}, maximum {highest:.2f}")
        for stage, (mean, highest) in found.stage_ms.items()
    )
    if scored is not None:
        rows += [
            (
                "scored",
                f"{scored.rows:,} rows: {scored.decided:,} decided, {scored.uncertain:,} uncertain,"
                f" {scored.unused:,} not used",
            ),
            ("decisions", f"accuracy {scored.accuracy:.4f}, macro-F1 {scored.macro_f1:.4f} over the decided"),
            (
                "classes",
                f"accuracy {scored.predicted_accuracy:.4f}, macro-F1 {scored.predicted_macro_f1:.4f}"
                " of the most probable class over all used",
            ),
        ]
    for name, text in rows:
        typer.echo(f"{name:<14} {text}")
