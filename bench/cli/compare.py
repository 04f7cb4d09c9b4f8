"""`mango-bench compare`: did it get slower, and do two models differ in robustness?"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from bench.cli.app import app


@app.command()
def compare(
    old: Annotated[Path, typer.Argument(help="Result file.")],
    new: Annotated[Path, typer.Argument(help="Result file to judge by it.")],
    max_slowdown: Annotated[str, typer.Option(help="Slowdown that is still accepted.")] = "5%",
) -> None:
    """Compare two result files: latency by the intervals of the p90, robustness by paired tests.

    The exit status is 1 if a pair got slower by more than is accepted, beyond doubt: its interval lies above.
    """
    from bench.duration import parse_share
    from bench.regression import compare_latency, comparison_table
    from bench.report.page import text_table
    from bench.result import read_results
    from edge.console import FAILED, complain
    from edge.errors import InputError

    allowed = parse_share(max_slowdown, "--max-slowdown")
    first, second = read_results(old), read_results(new)
    comparison = compare_latency(first, second, allowed)
    robust = [[entry for entry in entries if entry.kind == "robustness"] for entries in (first, second)]
    if not comparison.changes and not all(robust):
        raise InputError(
            f"{old} and {new} have nothing in common to compare: no latency of the same model, board, runtime and"
            " threads, and no robustness in both"
        )
    if comparison.changes:
        typer.echo(text_table(comparison_table(comparison, allowed)))
    for where, keys in ((old, comparison.only_old), (new, comparison.only_new)):
        for key in keys:
            complain(f"only in {where}: {', '.join(map(str, key[:4]))}, {key[4]} threads")
    if all(robust):
        # Paired tests need SciPy's statistics, which take seconds to import on a small board.
        compare_table = import_module("bench.significance").compare_table
        for one in robust[0]:
            for other in robust[1]:
                typer.echo(text_table(compare_table(one, other)))
    for change in comparison.slower:
        complain(
            f"slower: {change.key[0]} ({change.key[3]}, {change.key[4]} threads) p90 {change.old:.2f} ms ->"
            f" {change.new:.2f} ms, at least {100 * ((change.lower or 1) - 1):.1f} % slower"
        )
    if comparison.slower:
        raise typer.Exit(FAILED)
