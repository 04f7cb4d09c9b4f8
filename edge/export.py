"""A journal as a table: CSV, JSON Lines or Parquet.

One row a decision, the columns in this order:

`id`, `time` (ISO 8601, UTC, empty while unset), `clock` ("set", "unset", "repaired"), `device_time` (as the
device's clock had it), `monotonic_s`, `boot_id`, `source`, `frame_number`, `label`, `gate`, `predicted` (the most
probable class), `probability` (its), `probability_<class>` for each class of every model in the journal,
`ms_<stage>` for each stage, `temperature_c`, `model_digest`, `picture`.

What does not apply is empty in CSV and null in the other formats.
"""

from __future__ import annotations

import csv
import datetime
import io
import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Literal

from edge.errors import InputError
from edge.files import open_atomic
from edge.journal import Row
from edge.journal_reader import PORTION, JournalReader

Format = Literal["csv", "jsonl", "parquet"]
FORMATS: tuple[Format, ...] = ("csv", "jsonl", "parquet")

_TEXTS = (
    "time",
    "clock",
    "device_time",
    "boot_id",
    "source",
    "label",
    "gate",
    "predicted",
    "model_digest",
    "picture",
)
_LIMIT_S = 6e10  # a broken clock can show years that no calendar has
_INTEGERS = ("id", "frame_number")


def columns(reader: JournalReader) -> tuple[str, ...]:
    """The columns of the table that this journal makes."""
    classes = dict.fromkeys(label for labels in reader.label_sets() for label in labels)
    stages = dict.fromkeys(stage for names in reader.stage_sets() for stage in names)
    return (
        *("id", "time", "clock", "device_time", "monotonic_s", "boot_id", "source", "frame_number"),
        *("label", "gate", "predicted", "probability"),
        *(f"probability_{label}" for label in classes),
        *(f"ms_{stage}" for stage in stages),
        *("temperature_c", "model_digest", "picture"),
    )


def record(row: Row) -> dict[str, Any]:
    """A row as column -> value; columns that do not apply are missing or None."""
    decision = row.decision
    best = max(range(len(decision.probabilities)), key=decision.probabilities.__getitem__, default=None)
    return {
        "id": row.id,
        "time": None if row.time is None else iso(row.time),
        "clock": row.clock,
        "device_time": iso(row.device_time),
        "monotonic_s": round(row.monotonic, 6),
        "boot_id": row.boot_id,
        "source": decision.source,
        "frame_number": decision.frame_number,
        "label": decision.label,
        "gate": decision.gate,
        "predicted": None if best is None else decision.labels[best],
        "probability": None if best is None else _number(decision.probabilities[best], 6),
        **{
            f"probability_{label}": _number(value, 6)
            for label, value in zip(decision.labels, decision.probabilities, strict=False)
        },
        **{f"ms_{stage}": _number(value, 3) for stage, value in decision.stage_ms.items()},
        "temperature_c": _number(decision.temperature_c, 2),
        "model_digest": decision.model_digest,
        "picture": row.picture,
    }


def export(
    reader: JournalReader,
    file: BinaryIO,
    format: Format,
    since: float | None = None,
    until: float | None = None,
) -> int:
    """Write the rows from `since` (Unix seconds, included) to `until` (excluded); returns how many.

    Rows without a time are written only when neither bound is given.

    Raises:
        InputError: the journal cannot be read, or pyarrow is missing for Parquet.
    """
    names = columns(reader)
    rows = reader.rows(since=since, until=until)
    if format == "parquet":
        return _write_parquet(file, names, rows)
    count = 0
    for text in csv_lines(names, rows) if format == "csv" else _json_lines(names, rows):
        file.write(text.encode("utf-8"))
        count += 1
    return count - 1 if format == "csv" else count


def export_to(
    reader: JournalReader, path: Path, format: Format, since: float | None = None, until: float | None = None
) -> int:
    """As `export`, to a file that appears when it is complete."""
    with open_atomic(path) as file:
        return export(reader, file, format, since, until)


def csv_lines(names: Iterable[str], rows: Iterable[Row]) -> Iterator[str]:
    """The header and one line a row, as RFC 4180 has it: any text survives, also one with line breaks."""
    names = tuple(names)
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, names, extrasaction="ignore")
    writer.writeheader()
    yield buffer.getvalue()
    for row in rows:
        buffer.seek(0)
        buffer.truncate()
        writer.writerow(record(row))
        yield buffer.getvalue()


def _json_lines(names: tuple[str, ...], rows: Iterable[Row]) -> Iterator[str]:
    for row in rows:
        values = record(row)
        yield json.dumps({name: values.get(name) for name in names}, ensure_ascii=False) + "\n"


def _write_parquet(file: BinaryIO, names: tuple[str, ...], rows: Iterable[Row]) -> int:
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError:
        raise InputError(
            "Parquet needs pyarrow: pip install 'mango-leaf-kit[parquet]', or choose csv or jsonl"
        ) from None
    kinds = {
        **dict.fromkeys(_TEXTS, arrow.string()),
        **dict.fromkeys(_INTEGERS, arrow.int64()),
        **dict.fromkeys(("time", "device_time"), arrow.timestamp("us", tz="UTC")),
    }
    schema = arrow.schema([(name, kinds.get(name, arrow.float64())) for name in names])
    count = 0
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        portion: list[dict[str, Any]] = []

        def write() -> None:
            writer.write_table(arrow.Table.from_pylist(portion, schema=schema))
            portion.clear()

        for row in rows:
            values = record(row)
            values["time"] = None if row.time is None else _moment(row.time)
            values["device_time"] = _moment(row.device_time)
            portion.append({name: values.get(name) for name in names})
            count += 1
            if len(portion) >= 16 * PORTION:
                write()
        if portion:
            write()
    return count


def iso(moment: float) -> str:
    """Unix seconds as `2026-11-30T07:00:00.000Z`."""
    return _moment(moment).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _moment(moment: float) -> datetime.datetime:
    # Exact for every time that a clock can show, where fromtimestamp has a platform's limits.
    bounded = min(max(moment, -_LIMIT_S), _LIMIT_S)
    return datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc) + datetime.timedelta(seconds=bounded)


def _number(value: float | None, digits: int) -> float | None:
    return None if value is None or not math.isfinite(value) else round(value, digits)


def parse_moment(text: str) -> float:
    """Unix seconds of an ISO 8601 date or time; UTC unless it names another offset.

    Raises:
        InputError: it is not one.
    """
    try:
        # Python 3.10 does not read the Z.
        moment = datetime.datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError:
        raise InputError(
            f"{text!r} is not a time; write 2026-11-30, 2026-11-30T07:00 (UTC) or 2026-11-30T07:00+02:00"
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=datetime.timezone.utc)).timestamp()
