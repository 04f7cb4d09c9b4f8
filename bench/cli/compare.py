"""`mango-bench compare`: did it get slower, and do two models differ in robustness?"""

from __future__ import annotations

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

    The exit status is 1 if a pair got slower by more than is accepted, beyond doubt: its interval lies above. Times
    on other pictures are not compared; if there are no others, the status is 2.
    """
    from bench.duration import parse_share
    from bench.regression import compare_latency, compare_robustness, comparison_table, unlike_table
    from bench.report.page import text_table
    from bench.result import read_results
    from edge.console import FAILED, complain
    from edge.errors import InputError

    allowed = parse_share(max_slowdown, "--max-slowdown")
    first, second = read_results(old), read_results(new)
    comparison = compare_latency(first, second, allowed)
    tables, reasons = compare_robustness(first, second)
    if comparison.changes:
        tables = [comparison_table(comparison, allowed), *tables]
    if comparison.unlike:
        typer.echo(text_table(unlike_table(comparison)))
    if not tables and comparison.unlike:
        raise InputError(
            f"{old} and {new} are not comparable: they were timed on other pictures; time both with the same --pictures"
            " and --images"
        )
    if not tables:
        raise InputError(
            f"{old} and {new} have nothing in common to compare: no latency of the same model, board, runtime and"
            f" threads, and {reasons[0] if reasons else 'no robustness in both'}"
        )
    for table in tables:
        typer.echo(text_table(table))
    for where, keys in ((old, comparison.only_old), (new, comparison.only_new)):
        for key in keys:
            complain(f"only in {where}: {', '.join(map(str, key[:4]))}, {key[4]} threads")
    for pair in comparison.unlike:
        complain(
            f"not comparable: {pair.key[0]} ({pair.key[3]}, {pair.key[4]} threads) was timed on other pictures"
            f" ({pair.old_pictures} against {pair.new_pictures})"
        )
    for change in comparison.slower:
        complain(
            f"slower: {change.key[0]} ({change.key[3]}, {change.key[4]} threads) p90 {change.old:.2f} ms ->"
            f" {change.new:.2f} ms, at least {100 * ((change.lower or 1) - 1):.1f} % slower"
        )
    if comparison.slower:
        raise typer.Exit(FAILED)
