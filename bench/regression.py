"""Did a model get slower? Two latency results of the same model, runtime, threads and delegate, compared.

The ratio of two p90s is uncertain because each of them is. Their intervals give its bounds: the new p90 over the
old one lies between new.lower / old.upper and new.upper / old.lower. Each interval misses with at most 5 %, so
both hold with at least 90 % (Bonferroni). A pair is slower only when even the lower bound is beyond what is
allowed, and is called undecided where the interval holds the limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.machine import board_name
from bench.result import Entry
from bench.section import Cell, Table
from edge.errors import InputError

Key = tuple[str, str, str, str, int, bool]
"""Model name, precision, board, runtime, threads, XNNPACK."""

VERDICTS = ("slower", "undecided", "not slower")


@dataclass(frozen=True)
class Change:
    """One pair: p90 end to end in milliseconds, their ratio new / old, and its bounds (None: too few samples)."""

    key: Key
    old: float
    new: float
    lower: float | None
    upper: float | None
    verdict: str
    suspect: bool

    @property
    def ratio(self) -> float:
        """New p90 over old p90."""
        return self.new / self.old


@dataclass(frozen=True)
class Comparison:
    """Pairs found in both results, and what only one of them has."""

    changes: tuple[Change, ...]
    only_old: tuple[Key, ...]
    only_new: tuple[Key, ...]

    @property
    def slower(self) -> tuple[Change, ...]:
        """The pairs that got worse by more than is allowed."""
        return tuple(change for change in self.changes if change.verdict == "slower")


def key_of(entry: Entry) -> Key:
    """What must be equal for two latency entries to be comparable; the runtime's version may differ."""
    model, body = entry.model or {}, entry.body
    return (
        str(model.get("name")),
        str(model.get("precision")),
        board_name(entry.machine or {}),
        str(body["runtime"]["name"]),
        int(body["threads"]),
        bool(body["xnnpack"]),
    )


def judge(
    old: float, new: float, old_interval: Any, new_interval: Any, allowed: float
) -> tuple[float | None, float | None, str]:
    """Bounds of new / old, and the verdict.

    Args:
        old, new: p90 in milliseconds.
        old_interval, new_interval: {"lower", "upper"}, a side None where it is unknown.
        allowed: slowdown that is still accepted, as a share.
    """
    lower = upper = None
    if new_interval["lower"] is not None and old_interval["upper"] is not None:
        lower = new_interval["lower"] / old_interval["upper"]
    if new_interval["upper"] is not None and old_interval["lower"] is not None:
        upper = new_interval["upper"] / old_interval["lower"]
    if lower is not None and lower > 1 + allowed:
        return lower, upper, "slower"
    if upper is not None and upper <= 1 + allowed:
        return lower, upper, "not slower"
    return lower, upper, "undecided"


def compare_latency(old: Sequence[Entry], new: Sequence[Entry], allowed: float) -> Comparison:
    """Compare the latency entries of two results; where a key stands twice, its last entry counts."""
    before = {key_of(entry): entry for entry in old if entry.kind == "latency"}
    after = {key_of(entry): entry for entry in new if entry.kind == "latency"}
    changes = []
    for key, entry in after.items():
        if key not in before:
            continue
        first, second = before[key].body, entry.body
        lower, upper, verdict = judge(
            first["end_to_end"]["p90"],
            second["end_to_end"]["p90"],
            first["p90_interval"],
            second["p90_interval"],
            allowed,
        )
        suspect = any((one.machine or {}).get("suspect") for one in (before[key], entry))
        changes.append(
            Change(
                key, first["end_to_end"]["p90"], second["end_to_end"]["p90"], lower, upper, verdict, suspect
            )
        )
    return Comparison(
        tuple(changes),
        tuple(key for key in before if key not in after),
        tuple(key for key in after if key not in before),
    )


def compare_robustness(old: Sequence[Entry], new: Sequence[Entry]) -> tuple[list[Table], list[str]]:
    """Paired tests of all robustness entries of two results that belong together.

    Returns:
        A table for each pair on the same photographs, and for each pair that cannot be compared the reason.
    """
    pairs = [
        (one, other)
        for one in old
        for other in new
        if one.kind == "robustness" and other.kind == "robustness"
    ]
    if not pairs:
        return [], []
    # Only here: comparing latency needs none of the robustness modules.
    from bench.significance import compare_table

    tables, reasons = [], []
    for one, other in pairs:
        try:
            tables.append(compare_table(one, other))
        except InputError as error:
            reasons.append(str(error))
    return tables, reasons


def comparison_table(comparison: Comparison, allowed: float) -> Table:
    """The pairs as a table, worst first."""
    rows: list[list[Cell]] = []
    for change in sorted(comparison.changes, key=lambda change: -change.ratio):
        name, precision, board, runtime, threads, xnnpack = change.key
        rows.append(
            [
                name,
                precision,
                board,
                runtime,
                threads,
                "on" if xnnpack else "off",
                change.old,
                change.new,
                change.ratio,
                change.lower,
                change.upper,
                change.verdict + (" (suspect machine)" if change.suspect else ""),
            ]
        )
    columns = (
        "model", "precision", "board", "runtime", "threads", "XNNPACK", "old p90, ms", "new p90, ms", "new / old",
        "at least", "at most", "verdict",
    )  # fmt: skip
    note = f"Slower: even the lower bound of new / old is above {1 + allowed:.3g}."
    return Table("Latency, old against new", columns, rows, note)
