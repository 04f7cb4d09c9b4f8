"""Reading a journal, also while the field runner writes it: rows, counts, statistics, kept pictures.

Every call opens the database anew, for reading only, and long answers are fetched in portions. So a reader may
be used by several threads, never keeps the writer from shortening its log, and follows when a corrupt database
was moved aside and a new one begun.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edge.decision import Decision
from edge.errors import InputError
from edge.journal import DATABASE, Row, check_schema, unpack

PORTION = 1000
"""Rows that are fetched at once."""


@dataclass(frozen=True)
class Stats:
    """What a journal holds.

    Attributes:
        rows: decisions in all.
        first_time, last_time: Unix seconds of the earliest and latest dated row; None without one.
        by_clock: rows by state of the clock ("set", "unset", "repaired").
        by_label: used frames by label, `uncertain` among them.
        by_gate: frames that were not used, by reason.
        sources, models, boots: what occurs, in order of first appearance.
        stage_ms: stage -> (mean, maximum), milliseconds.
        temperature_c: (lowest, highest), degrees Celsius; None where none was measured.
        pictures, picture_bytes: kept pictures, and their size together.
        database_bytes: size of the database and its log.
    """

    rows: int
    first_time: float | None
    last_time: float | None
    by_clock: dict[str, int]
    by_label: dict[str, int]
    by_gate: dict[str, int]
    sources: tuple[str, ...]
    models: tuple[str, ...]
    boots: tuple[str, ...]
    stage_ms: dict[str, tuple[float, float]] = field(default_factory=dict)
    temperature_c: tuple[float, float] | None = None
    pictures: int = 0
    picture_bytes: int = 0
    database_bytes: int = 0


class JournalReader:
    """A journal, for reading.

    Args:
        path: the journal's folder, or a database file (for instance one that was moved aside).
        must_exist: False for one that may be begun later; until then its methods raise InputError.

    Raises:
        InputError: there is no journal, or it is not one that this version reads.
    """

    def __init__(self, path: Path, must_exist: bool = True) -> None:
        self.database = path if path.is_file() else path / DATABASE
        self.folder = self.database.parent
        if not must_exist:
            return
        if not self.database.is_file():
            raise InputError(f"{path}: no journal here; give the folder that mango-edge run writes")
        with self._open():
            pass

    def rows(
        self,
        *,
        after: int = 0,
        since: float | None = None,
        until: float | None = None,
        limit: int | None = None,
    ) -> Iterator[Row]:
        """Rows in the order they were made.

        Args:
            after: only rows with a higher number.
            since, until: Unix seconds, first included, last excluded; rows without a time are then left out.
            limit: how many at most.

        Raises:
            InputError: the database cannot be read (any further).
        """
        last = None
        if since is not None or until is not None:
            span = (float("-inf") if since is None else since, float("inf") if until is None else until)
            with self._open() as connection:
                first, last = connection.execute(
                    "SELECT min(id), max(id) FROM decision WHERE time >= ? AND time < ?", span
                ).fetchone()
            if first is None:
                return
            after = max(after, first - 1)
        else:
            span = None
        remaining = limit
        while remaining is None or remaining > 0:
            portion = PORTION if remaining is None else min(PORTION, remaining)
            with self._open() as connection:
                found = connection.execute(
                    "SELECT * FROM decisions WHERE id > ? AND id <= ? ORDER BY id LIMIT ?",
                    (after, 2**63 - 1 if last is None else last, portion),
                ).fetchall()
            for row in map(_row, found):
                # A clock that was set back leaves rows of other times in between.
                if span is None or (row.time is not None and span[0] <= row.time < span[1]):
                    yield row
                    remaining = None if remaining is None else remaining - 1
            if len(found) < portion:
                return
            after = found[-1][0]

    def last(self, used: bool = False) -> Row | None:
        """The newest row, or of the newest thousand the last whose frame was used; None without one."""
        with self._open() as connection:
            # Bounded: a camera may have looked into the dark for weeks.
            found = connection.execute(
                "SELECT * FROM decisions WHERE id > (SELECT max(id) FROM decision) - ? ORDER BY id DESC",
                (PORTION if used else 1,),
            )
            rows = (_row(values) for values in found)
            return next((row for row in rows if row.decision.used or not used), None)

    def count(self, since: float, until: float) -> tuple[dict[str, int], dict[str, int]]:
        """Used frames by label, and unused ones by reason, over a span of Unix seconds (until excluded)."""
        with self._open() as connection:
            found = connection.execute(
                "SELECT label, gate, count(*) FROM decision WHERE time >= ? AND time < ? GROUP BY label, gate",
                (since, until),
            ).fetchall()
            return _counts(connection, found)

    def count_boot(self, boot_id: str) -> tuple[dict[str, int], dict[str, int]]:
        """The same over the newest rows as far as they are of one boot, for a clock that was never set."""
        with self._open() as connection:
            found = connection.execute(
                "WITH boot AS (SELECT id FROM name WHERE kind = 'boot' AND value = ?)"
                " SELECT label, gate, count(*) FROM decision WHERE EXISTS (SELECT * FROM boot) AND id >"
                " (SELECT coalesce((SELECT id FROM decision WHERE boot != (SELECT id FROM boot)"
                " ORDER BY id DESC LIMIT 1), 0)) GROUP BY label, gate",
                (boot_id,),
            ).fetchall()
            return _counts(connection, found)

    def identity(self) -> str:
        """Drawn when the database was begun; another one when a new database took its place."""
        with self._open() as connection:
            found = connection.execute("SELECT value FROM name WHERE kind = 'journal'").fetchone()
            return str(found[0]) if found else ""

    def size(self) -> int:
        """Number of the last row."""
        with self._open() as connection:
            return int(connection.execute("SELECT coalesce(max(id), 0) FROM decision").fetchone()[0])

    def stats(self) -> Stats:
        """Statistics over all rows."""
        with self._open() as connection:
            rows, first, last, coldest, hottest = connection.execute(
                "SELECT count(*), min(time), max(time), min(temperature_c), max(temperature_c) FROM decision"
            ).fetchone()
            by_clock = dict(
                connection.execute("SELECT clock, count(*) FROM decisions GROUP BY clock ORDER BY clock")
            )
            by_label, by_gate = _counts(
                connection,
                connection.execute("SELECT label, gate, count(*) FROM decision GROUP BY label, gate"),
            )
            names = {
                kind: tuple(
                    value
                    for (value,) in connection.execute(
                        "SELECT value FROM name WHERE kind = ? ORDER BY id", (kind,)
                    )
                )
                for kind in ("source", "model", "boot")
            }
            sums: dict[str, list[float]] = {}
            for stages, packed in connection.execute("SELECT stages, stage_ms FROM decisions"):
                for stage, value in zip(json.loads(stages), unpack(packed), strict=True):
                    held = sums.setdefault(stage, [0, 0.0, 0.0])
                    held[0], held[1], held[2] = held[0] + 1, held[1] + value, max(held[2], value)
        pictures = [path.stat().st_size for path in (self.folder / "pictures").glob("*/*.jpg")]
        files = [self.database, *(Path(f"{self.database}{suffix}") for suffix in ("-wal", "-shm"))]
        return Stats(
            rows,
            first,
            last,
            by_clock,
            by_label,
            by_gate,
            names["source"],
            names["model"],
            names["boot"],
            {stage: (total / count, highest) for stage, (count, total, highest) in sums.items()},
            None if coldest is None else (coldest, hottest),
            len(pictures),
            sum(pictures),
            sum(path.stat().st_size for path in files if path.exists()),
        )

    def label_sets(self) -> tuple[tuple[str, ...], ...]:
        """The models' class lists, in order of first appearance."""
        return self._lists("labels")

    def stage_sets(self) -> tuple[tuple[str, ...], ...]:
        """The lists of stages, in order of first appearance."""
        return self._lists("stages")

    def sources(self) -> frozenset[str]:
        """All sources that any row names."""
        with self._open() as connection:
            return frozenset(
                value for (value,) in connection.execute("SELECT value FROM name WHERE kind = 'source'")
            )

    def picture(self, row: Row) -> bytes | None:
        """The kept picture of a row as JPEG; None where none was kept or it was removed for space."""
        if row.picture is None:
            return None
        path = (self.folder / row.picture).resolve()
        if not path.is_relative_to((self.folder / "pictures").resolve()):
            return None
        try:
            return path.read_bytes()
        except OSError:
            return None

    def last_picture(self) -> tuple[Row, bytes] | None:
        """The newest kept picture among the last 100,000 rows, with its row; None without one."""
        with self._open() as connection:
            # Bounded: uncertain decisions may be rare.
            found = connection.execute(
                "SELECT id FROM decision WHERE id > (SELECT max(id) FROM decision) - ? AND picture IS NOT NULL"
                " ORDER BY id DESC LIMIT 1",
                (100 * PORTION,),
            ).fetchone()
        for row in self.rows(after=found[0] - 1, limit=1) if found else ():
            data = self.picture(row)
            if data is not None:
                return row, data
        return None

    def _lists(self, kind: str) -> tuple[tuple[str, ...], ...]:
        with self._open() as connection:
            found = connection.execute("SELECT value FROM name WHERE kind = ? ORDER BY id", (kind,))
            return tuple(tuple(json.loads(value)) for (value,) in found)

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        address = self.database.resolve().as_uri()
        connection = None
        try:
            try:
                connection = sqlite3.connect(f"{address}?mode=ro", uri=True, timeout=5.0)
                check_schema(connection, self.database)
            except sqlite3.OperationalError:
                # On a read-only card SQLite cannot lay its index beside the log; without a log it needs none.
                log = Path(f"{self.database}-wal")
                if log.exists() and log.stat().st_size:
                    raise
                if connection is not None:
                    connection.close()
                connection = sqlite3.connect(f"{address}?mode=ro&immutable=1", uri=True)
                check_schema(connection, self.database)
            yield connection
        except sqlite3.Error as error:
            raise InputError(f"{self.database}: {_explain(str(error))}") from None
        finally:
            if connection is not None:
                connection.close()


def day_of(moment: float) -> tuple[float, float]:
    """The local day that holds a moment (Unix seconds): its first second, and the next day's."""
    day = datetime.datetime.fromtimestamp(moment).date()
    first = datetime.datetime.combine(day, datetime.time())
    following = datetime.datetime.combine(day + datetime.timedelta(days=1), datetime.time())
    return first.timestamp(), following.timestamp()


def _counts(connection: sqlite3.Connection, found: Any) -> tuple[dict[str, int], dict[str, int]]:
    names = dict(connection.execute("SELECT id, value FROM name WHERE kind IN ('label', 'gate')"))
    by_label: Counter[str] = Counter()
    by_gate: Counter[str] = Counter()
    for label, gate, count in found:
        if names[gate]:
            by_gate[names[gate]] += count
        else:
            by_label[names[label]] += count
    return dict(sorted(by_label.items())), dict(sorted(by_gate.items()))


def _row(values: tuple[Any, ...]) -> Row:
    (
        number, moment, clock, device_time, monotonic, boot_id, source, frame_number, label, gate, labels,
        probabilities, stages, stage_ms, temperature_c, model_digest, picture,
    ) = values  # fmt: skip
    stage_names = json.loads(stages)
    decision = Decision(
        source=source,
        label=label,
        probabilities=unpack(probabilities),
        labels=tuple(json.loads(labels)),
        gate=gate,
        stage_ms=dict(zip(stage_names, unpack(stage_ms), strict=True)),
        model_digest=model_digest,
        temperature_c=temperature_c,
        frame_number=frame_number,
    )
    return Row(number, moment, clock, device_time, monotonic, boot_id, picture, decision)


def _explain(message: str) -> str:
    if "malformed" in message or "not a database" in message:
        return f"damaged ({message}); what precedes the damage can be exported, the rest is lost"
    if "unable to open" in message or "readonly" in message:
        return "cannot be opened where nothing can be written; copy the journal's folder and read the copy"
    if "no such table" in message:
        return "no journal: it has none of a journal's tables"
    return f"cannot be read ({message})"
