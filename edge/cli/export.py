"""`mango-edge export`: the journal as a table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from edge.cli.app import app


@app.command()
def export(
    journal: Annotated[Path, typer.Argument(help="Folder that mango-edge run writes, or a database file.")],
    format: Annotated[str, typer.Option("--format", help="csv, jsonl or parquet.")] = "csv",
    since: Annotated[
        str | None, typer.Option(help="First moment, ISO 8601, UTC unless it says otherwise: 2026-11-30.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Moment after the last.")] = None,
    out: Annotated[Path | None, typer.Option(help="File to write [default: standard output].")] = None,
) -> None:
    """Write a journal as CSV, JSON Lines or Parquet, one row a decision; also while a runner writes it."""
    from edge.console import complain
    from edge.errors import InputError
    from edge.export import FORMATS, export, export_to, parse_moment
    from edge.journal_reader import JournalReader

    chosen = next((name for name in FORMATS if name == format), None)
    if chosen is None:
        raise InputError(f"format {format!r} is not known; choose {', '.join(FORMATS)}")
    if chosen == "parquet" and out is None and sys.stdout.isatty():
        raise InputError("Parquet is not text; give a file with --out")
    first, last = (None if text is None else parse_moment(text) for text in (since, until))
    if first is not None and last is not None and first >= last:
        raise InputError("--until must lie after --since")
    reader = JournalReader(journal)
    if out is None:
        export(reader, sys.stdout.buffer, chosen, first, last)
        sys.stdout.buffer.flush()
    else:
        count = export_to(reader, out, chosen, first, last)
        complain(f"{out}: {count:,} decisions")
