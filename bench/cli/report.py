"""`mango-bench report`: results of several models and devices on one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bench.cli.app import app


@app.command()
def report(
    results: Annotated[list[Path], typer.Argument(help="Result files, of any kinds and devices.")],
    out: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("report"),
) -> None:
    """Write report.html (one self-contained page), report.md, summary.csv and the figures as SVG and CSV."""
    from bench.report.page import write_report
    from bench.result import merge
    from edge.files import check_folder

    entries = merge(results)
    check_folder(out)
    paths = write_report(entries, out)
    typer.echo(
        f"{paths[0]}: {len(results)} result file(s), with report.md, summary.csv and {len(paths) - 3} figure file(s)"
    )
