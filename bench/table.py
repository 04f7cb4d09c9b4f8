"""Tables of text: CSV, Parquet, and the field runner's journal (SQLite, read without writing)."""

from __future__ import annotations

import csv
import hashlib
import sqlite3
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

from edge.errors import InputError
from edge.files import sha256

MAXIMUM_BYTES = 2 * 2**30
MAXIMUM_ROWS = 2_000_000
MAXIMUM_COLUMNS = 2_000
_MISSING = frozenset(("", "na", "n/a", "nan", "null", "none", "-", "?", "nat", "#n/a"))
_CSV, _PARQUET = (".csv", ".tsv", ".txt"), (".parquet", ".pq")
_SQLITE = b"SQLite format 3\x00"

JOURNAL_FILE = "journal.db"
JOURNAL_VIEW = "decisions"
JOURNAL_COLUMNS = {
    "time": "time",
    "label": "label",
    "camera": "source",
    "picture": "picture",
    "temperature_c": "temperature_c",
}
"""Our name of a column -> the journal's (`edge.journal`); the label is what the model decided."""


@dataclass(frozen=True)
class Table:
    """Columns of text, None where a value is missing.

    Attributes:
        path: the file.
        source: "table" or "journal".
        names: of the columns, in order.
        columns: of each name, one value a row.
        decimal_comma: numbers may be written as 12,5.
        digest: SHA-256 of the file's bytes (of the rows, for a journal).
    """

    path: Path
    source: str
    names: tuple[str, ...]
    columns: dict[str, list[str | None]]
    decimal_comma: bool
    digest: str

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.columns[self.names[0]])


def is_journal(path: Path) -> bool:
    """Whether the file is an SQLite database."""
    try:
        with open(path, "rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return False


def read_table(path: Path) -> Table:
    """Read a table, its kind told by content (SQLite) or ending (.csv, .tsv, .txt, .parquet, .pq).

    Raises:
        InputError: the file is missing, too large, damaged, empty, or of another kind.
    """
    try:
        size = path.stat().st_size
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path") from None
    if size > MAXIMUM_BYTES:
        raise InputError(f"{path}: {size:,} bytes are more than the {MAXIMUM_BYTES:,} that are accepted")
    if is_journal(path):
        return _read_journal(path)
    if path.suffix.lower() in _PARQUET:
        return _read_parquet(path)
    if path.suffix.lower() in _CSV:
        return _read_csv(path)
    raise InputError(
        f"{path}: neither a folder of class folders nor a table; give a folder, {', '.join(_CSV + _PARQUET)} or the"
        " field runner's journal"
    )


def _read_csv(path: Path) -> Table:
    data = path.read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: not UTF-8 text (byte {error.start}); save the table as CSV in UTF-8"
        ) from None
    lines = text.splitlines()
    header = next((line for line in lines if line.strip()), "")
    delimiter = max((",", ";", "\t"), key=header.count)
    csv.field_size_limit(min(sys.maxsize, 2**20))
    names: tuple[str, ...] = ()
    columns: list[list[str | None]] = []
    reader = csv.reader(iter(text.splitlines(keepends=True)), delimiter=delimiter, strict=True)
    try:
        for row in reader:
            if not any(cell.strip() for cell in row):
                continue
            if not names:
                names = _names(row, path)
                columns = [[] for _ in names]
                continue
            if len(row) != len(names):
                raise InputError(
                    f"{path}: line {reader.line_num} has {len(row)} fields, the header has {len(names)}; mend the line"
                )
            for column, cell in zip(columns, row, strict=True):
                column.append(_value(cell))
            if len(columns[0]) > MAXIMUM_ROWS:
                raise InputError(f"{path}: more than the {MAXIMUM_ROWS:,} rows that are accepted")
    except csv.Error as error:
        raise InputError(f"{path}: line {reader.line_num} is not CSV ({error}); mend the line") from None
    return _table(path, "table", names, columns, delimiter == ";", sha256(data))


def _read_parquet(path: Path) -> Table:
    try:
        import pyarrow.parquet as parquet
    except ModuleNotFoundError:
        raise InputError(
            f"{path}: Parquet needs pyarrow; install it with: pip install 'mango-leaf-kit[parquet]'"
        ) from None
    try:
        file = parquet.ParquetFile(path)
        if file.metadata.num_rows > MAXIMUM_ROWS:
            raise InputError(f"{path}: more than the {MAXIMUM_ROWS:,} rows that are accepted")
        read = file.read()
        names = _names(read.column_names, path)
        columns = [
            [_value(cell) for cell in read.column(position).to_pylist()] for position in range(len(names))
        ]
    except InputError:
        raise
    # pyarrow raises ArrowInvalid, OSError, NotImplementedError, ... by the damage.
    except Exception as error:
        cause = " ".join(str(error).split())[:200]
        raise InputError(f"{path}: not a Parquet file that can be read ({cause})") from None
    return _table(path, "table", names, columns, False, sha256(path.read_bytes()))


def _read_journal(path: Path) -> Table:
    # A journal in use has its newest rows in the WAL beside it; where that cannot be opened (read-only card),
    # the file is read as it lies.
    problem = ""
    for flags in ("mode=ro", "mode=ro&immutable=1"):
        try:
            uri = f"{path.absolute().as_uri()}?{flags}"
            connection = sqlite3.connect(uri, uri=True)
        except sqlite3.Error as error:
            problem = str(error)
            continue
        try:
            return _journal_rows(path, connection)
        except sqlite3.Error as error:
            problem = str(error)
        finally:
            connection.close()
    raise InputError(
        f"{path}: the journal cannot be read ({problem}); copy it from the device again or export it as CSV"
    )


def _journal_rows(path: Path, connection: sqlite3.Connection) -> Table:
    views = [str(row[0]) for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'view'")]
    if JOURNAL_VIEW not in views:
        raise InputError(
            f"{path}: an SQLite file without the view {JOURNAL_VIEW}, so not a field runner's journal"
        )
    wanted = ", ".join(f"{column} AS {name}" for name, column in JOURNAL_COLUMNS.items())
    cursor = connection.execute(f"SELECT {wanted} FROM {JOURNAL_VIEW} ORDER BY id LIMIT {MAXIMUM_ROWS + 1}")
    columns: list[list[str | None]] = [[] for _ in JOURNAL_COLUMNS]
    digest = hashlib.sha256()
    for row in cursor:
        for column, cell in zip(columns, row, strict=True):
            column.append(_value(cell))
        digest.update(repr(row).encode())
    if len(columns[0]) > MAXIMUM_ROWS:
        raise InputError(f"{path}: more than the {MAXIMUM_ROWS:,} rows that are accepted")
    return _table(path, "journal", tuple(JOURNAL_COLUMNS), columns, False, digest.hexdigest())


def _names(names: Sequence[Any], path: Path) -> tuple[str, ...]:
    found = tuple(str(name).strip() for name in names)
    if len(found) > MAXIMUM_COLUMNS:
        raise InputError(f"{path}: {len(found)} columns are more than the {MAXIMUM_COLUMNS} accepted")
    twice = sorted({name for name in found if found.count(name) > 1})
    if twice:
        raise InputError(f"{path}: the column {twice[0]!r} stands twice; rename one of them")
    return found


def _table(
    path: Path,
    source: str,
    names: tuple[str, ...],
    columns: Iterable[list[str | None]],
    decimal_comma: bool,
    digest: str,
) -> Table:
    table = Table(path, source, names, dict(zip(names, columns, strict=True)), decimal_comma, digest)
    if not names or not table.rows:
        raise InputError(f"{path}: the table has no rows; give one with a header and a row for each picture")
    return table


def _value(cell: Any) -> str | None:
    if cell is None:
        return None
    if isinstance(cell, datetime | date):
        return cell.isoformat()
    if isinstance(cell, bool):
        return str(int(cell))
    text = str(cell).strip()
    return None if text.casefold() in _MISSING else text
