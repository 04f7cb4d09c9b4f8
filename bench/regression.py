"""Did a model get slower? Two latency results of the same model, runtime, threads and delegate, compared.

The ratio of two p90s is uncertain because each of them is. Their intervals give its bounds: the new p90 over the
old one lies between new.lower / old.upper and new.upper / old.lower. Each interval (`bench.sample.p90_interval`,
made from the samples in the file) misses with at most 5 %, so both hold with at least 90 % (Bonferroni). A pair is
slower only when even the lower bound is beyond what is allowed, and is called undecided where the interval holds
the limit.

A larger photograph takes longer to read and decode, so times from file to label are compared only where both went
round the same pictures, byte for byte. Of other pairs `invoke` is shown, in which the network gets equally large
input, but not judged: it depends a little on what decoding left in the caches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.machine import board_name
from bench.result import Entry, pictures_text, same_pictures
from bench.sample import Interval, end_to_end, milliseconds, p90_interval, unpack
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
class Unlike:
    """A pair that went round other pictures: what they were, and the p90 of `invoke` alone in milliseconds.

    The bounds are those of the ratio new / old (None: too few samples).
    """

    key: Key
    old_pictures: str
    new_pictures: str
    old_invoke: float
    new_invoke: float
    lower: float | None
    upper: float | None


@dataclass(frozen=True)
class Comparison:
    """Pairs found in both results, pairs that cannot be compared, and what only one of them has."""

    changes: tuple[Change, ...]
    unlike: tuple[Unlike, ...]
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


def bounds(old: Interval, new: Interval) -> tuple[float | None, float | None]:
    """Bounds of new / old from the intervals of both; None where a side that it needs is unknown."""
    lower = upper = None
    if new.lower is not None and old.upper is not None:
        lower = new.lower / old.upper
    if new.upper is not None and old.lower is not None:
        upper = new.upper / old.lower
    return lower, upper


def judge(old: Interval, new: Interval, allowed: float) -> tuple[float | None, float | None, str]:
    """Bounds of new / old, and the verdict.

    Args:
        old, new: of the p90.
        allowed: slowdown that is still accepted, as a share.
    """
    lower, upper = bounds(old, new)
    if lower is not None and lower > 1 + allowed:
        return lower, upper, "slower"
    if upper is not None and upper <= 1 + allowed:
        return lower, upper, "not slower"
    return lower, upper, "undecided"


def compare_latency(old: Sequence[Entry], new: Sequence[Entry], allowed: float) -> Comparison:
    """Compare the latency entries of two results; where one stands twice on the same pictures, the last counts."""
    before, after = _by_key(old), _by_key(new)
    changes, unlike = [], []
    for key, entries in after.items():
        # Old entries on pictures that no new one went round are left to be shown beside new ones of the same kind.
        left = [
            entry
            for entry in before.get(key, ())
            if not any(same_pictures(entry.data, other.data) for other in entries)
        ]
        for entry in entries:
            twin = next((one for one in before.get(key, ()) if same_pictures(one.data, entry.data)), None)
            if twin is not None:
                changes.append(_change(key, twin, entry, allowed))
            elif left:
                unlike.append(_unlike(key, left[-1], entry))
    return Comparison(
        tuple(changes),
        tuple(unlike),
        tuple(key for key in before if key not in after),
        tuple(key for key in after if key not in before),
    )


def _by_key(entries: Sequence[Entry]) -> dict[Key, list[Entry]]:
    """The latency entries of each key, of those on the same pictures the last."""
    found: dict[Key, list[Entry]] = {}
    for entry in entries:
        if entry.kind == "latency":
            same = found.setdefault(key_of(entry), [])
            same[:] = [*(one for one in same if not same_pictures(one.data, entry.data)), entry]
    return found


def _change(key: Key, old: Entry, new: Entry, allowed: float) -> Change:
    first, second = (p90_interval(end_to_end(entry.body["samples"])) for entry in (old, new))
    lower, upper, verdict = judge(first, second, allowed)
    suspect = any((one.machine or {}).get("suspect") for one in (old, new))
    times = [float(entry.body["end_to_end"]["p90"]) for entry in (old, new)]
    return Change(key, times[0], times[1], lower, upper, verdict, suspect)


def _unlike(key: Key, old: Entry, new: Entry) -> Unlike:
    times = [float(entry.body["stages"]["invoke"]["p90"]) for entry in (old, new)]
    first, second = (
        p90_interval(milliseconds(unpack(entry.body["samples"]["invoke"]))) for entry in (old, new)
    )
    return Unlike(
        key, pictures_text(old.data), pictures_text(new.data), times[0], times[1], *bounds(first, second)
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


_KEY_COLUMNS = ("model", "precision", "board", "runtime", "threads", "XNNPACK")


def _key_cells(key: Key) -> list[Cell]:
    """What a pair is of, in the order of `_KEY_COLUMNS`."""
    return [*key[:5], "on" if key[5] else "off"]


def comparison_table(comparison: Comparison, allowed: float) -> Table:
    """The pairs as a table, worst first."""
    rows: list[list[Cell]] = []
    for change in sorted(comparison.changes, key=lambda change: -change.ratio):
        rows.append(
            [
                *_key_cells(change.key),
                change.old,
                change.new,
                change.ratio,
                change.lower,
                change.upper,
                change.verdict + (" (suspect machine)" if change.suspect else ""),
            ]
        )
    columns = (
        *_KEY_COLUMNS, "old p90, ms", "new p90, ms", "new / old", "at least", "at most", "verdict",
    )  # fmt: skip
    note = f"Slower: even the lower bound of new / old is above {1 + allowed:.3g}."
    return Table("Latency, old against new", columns, rows, note)


def unlike_table(comparison: Comparison) -> Table:
    """The pairs that went round other pictures, with `invoke` alone; no verdict is given on them."""
    rows: list[list[Cell]] = []
    for pair in comparison.unlike:
        rows.append(
            [
                *_key_cells(pair.key),
                pair.old_pictures,
                pair.new_pictures,
                pair.old_invoke,
                pair.new_invoke,
                pair.lower,
                pair.upper,
            ]
        )
    columns = (
        *_KEY_COLUMNS, "old pictures", "new pictures", "old invoke p90, ms", "new invoke p90, ms",
        "new / old at least", "at most",
    )  # fmt: skip
    note = (
        "Other pictures take other times to read and decode. invoke gets equally large input, but depends a little on"
        " what decoding left in the caches, so no verdict is given on it."
    )
    return Table("Latency, not comparable: other pictures", columns, rows, note)
