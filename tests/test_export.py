"""A journal as CSV, JSON Lines and Parquet: the same rows, readable by ordinary readers."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Command
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.clock import Clock
from edge.decision import Decision
from edge.errors import InputError
from edge.export import columns, csv_lines, export, export_to, iso, parse_moment
from edge.journal import Row, open_journal
from edge.journal_reader import JournalReader

NOON = 1_788_696_000.0  # 2026-09-06T12:00:00Z

FIRST = Decision(
    'camera "north", tree 7\nupper',
    "Healthy",
    (0.25, 0.75),
    ("Anthracnose", "Healthy"),
    "",
    {"decode": 2.5, "invoke": 6.25},
    "ab" * 32,
    48.5,
    3,
)
DARK = dataclasses.replace(
    FIRST, label="", probabilities=(), gate="dark", temperature_c=None, stage_ms={"decode": 2.0}
)
OTHER_MODEL = dataclasses.replace(
    FIRST, label="Mildew", probabilities=(1.0,), labels=("Mildew",), model_digest="cd" * 32
)

EXPECTED: list[dict[str, Any]] = [
    {"id": 1, "time": "2026-09-06T12:00:00.000Z", "label": "Healthy", "gate": "", "predicted": "Healthy",
     "probability": 0.75, "probability_Anthracnose": 0.25, "probability_Healthy": 0.75, "probability_Mildew": None,
     "ms_decode": 2.5, "ms_invoke": 6.25, "temperature_c": 48.5, "frame_number": 3, "source": FIRST.source,
     "clock": "set", "monotonic_s": 10.0, "boot_id": "boot", "device_time": "2026-09-06T12:00:00.000Z",
     "model_digest": "ab" * 32, "picture": None},
    {"id": 2, "label": "", "gate": "dark", "predicted": None, "probability": None, "probability_Healthy": None,
     "ms_invoke": None, "ms_decode": 2.0, "temperature_c": None},
    {"id": 3, "label": "Mildew", "predicted": "Mildew", "probability_Mildew": 1.0, "probability_Healthy": None},
    {"id": 4, "time": None, "clock": "unset", "device_time": "1970-01-01T00:00:05.000Z", "boot_id": "next"},
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export") / "journal"
    wall = [NOON]
    with open_journal(folder, clock=Clock(lambda: wall[0], lambda: wall[0] - NOON + 10.0, "boot")) as journal:
        for decision in (FIRST, DARK, OTHER_MODEL):
            journal.record(decision)
            wall[0] += 3600
    with open_journal(folder, clock=Clock(lambda: 5.0, lambda: 1.0, "next")) as journal:
        journal.record(FIRST)
    return folder


def written(folder: Path, format: Any, **span: float) -> bytes:
    file = io.BytesIO()
    count = export(JournalReader(folder), file, format, **span)
    assert count == (4 if not span else count)
    return file.getvalue()


def agrees(rows: list[dict[str, Any]]) -> None:
    assert len(rows) == len(EXPECTED)
    for row, expected in zip(rows, EXPECTED, strict=True):
        assert {name: row[name] for name in expected} == expected


def test_the_columns_are_the_documented_ones(folder: Path) -> None:
    assert columns(JournalReader(folder)) == (
        *(
            "id",
            "time",
            "clock",
            "device_time",
            "monotonic_s",
            "boot_id",
            "source",
            "frame_number",
            "label",
            "gate",
        ),
        *("predicted", "probability", "probability_Anthracnose", "probability_Healthy", "probability_Mildew"),
        *("ms_decode", "ms_invoke", "temperature_c", "model_digest", "picture"),
    )


def test_csv(folder: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(written(folder, "csv").decode(), newline="")))
    texts = (
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
    agrees(
        [
            {
                name: value
                if name in texts and (value or name in ("label", "gate"))
                else json.loads(value or "null")
                for name, value in row.items()
            }
            for row in rows
        ]
    )


def test_json_lines(folder: Path) -> None:
    rows = [json.loads(line) for line in written(folder, "jsonl").decode().splitlines()]
    agrees(rows)
    assert tuple(rows[0]) == columns(JournalReader(folder))


def test_parquet(folder: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="no pyarrow here: Parquet is not tested")
    table = parquet.read_table(io.BytesIO(written(folder, "parquet")))
    assert str(table.schema.field("time").type) == "timestamp[us, tz=UTC]"
    assert str(table.schema.field("frame_number").type) == "int64"
    rows = table.to_pylist()
    for row in rows:
        for name in ("time", "device_time"):
            row[name] = None if row[name] is None else iso(row[name].timestamp())
    agrees(rows)


def test_a_span_of_time(folder: Path) -> None:
    for span, expected in (
        ({"since": NOON + 3600}, [2, 3]),
        ({"until": NOON + 3600}, [1]),
        ({"since": NOON, "until": NOON + 7200}, [1, 2]),
        ({"since": NOON + 1e6}, []),
    ):
        rows = written(folder, "jsonl", **span).decode().splitlines()
        assert [json.loads(row)["id"] for row in rows] == expected


def test_an_empty_journal_is_an_empty_table(tmp_path: Path) -> None:
    open_journal(tmp_path / "journal").close()
    reader = JournalReader(tmp_path / "journal")
    for format, lines in (("csv", 1), ("jsonl", 0)):
        assert export_to(reader, tmp_path / "table", format) == 0  # type: ignore[arg-type]
        assert len((tmp_path / "table").read_text().splitlines()) == lines


def test_what_is_not_finite_is_empty(tmp_path: Path) -> None:
    with open_journal(tmp_path / "journal") as journal:
        journal.record(
            dataclasses.replace(FIRST, probabilities=(float("nan"), 0.5), temperature_c=float("inf"))
        )
    file = io.BytesIO()
    export(JournalReader(tmp_path / "journal"), file, "jsonl")

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    row = json.loads(file.getvalue(), parse_constant=refuse)
    assert (row["probability_Anthracnose"], row["temperature_c"]) == (None, None)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=30), st.text(st.sampled_from('",;\n\r\t=+ é'), max_size=30))
def test_any_text_survives_csv(source: str, gate: str) -> None:
    row = Row(1, NOON, "set", NOON, 1.0, "boot", None, dataclasses.replace(FIRST, source=source, gate=gate))
    text = "".join(csv_lines(("source", "gate"), [row]))
    (read,) = csv.DictReader(io.StringIO(text, newline=""))
    assert (read["source"], read["gate"]) == (source, gate)


def test_the_command_writes_a_file_and_standard_output(
    folder: Path, tmp_path: Path, command: Command
) -> None:
    out = tmp_path / "new" / "table.csv"
    result = command("mango-edge", "export", folder, "--since", "2026-09-06T13:00Z", "--out", out)
    assert (result.returncode, result.stdout) == (0, "")
    assert "2 decisions" in result.stderr
    assert command("mango-edge", "export", folder, "--since", "2026-09-06T13:00").stdout == out.read_text(
        "utf-8"
    )


def test_a_failed_export_leaves_the_old_file(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "table.csv"
    out.write_text("old")
    broken = tmp_path / "broken.db"
    broken.write_bytes((folder / "journal.db").read_bytes()[:4096] + b"\xff" * 40000)
    with pytest.raises(InputError):
        export_to(JournalReader(broken), out, "csv")
    assert out.read_text() == "old"
    assert not list(tmp_path.glob(".*"))  # nor a temporary one


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--format", "xlsx"), "choose csv, jsonl, parquet"),
        (("--since", "yesterday"), "is not a time"),
        (("--since", "2026-02-02", "--until", "2026-02-01"), "must lie after"),
    ],
)
def test_bad_arguments_give_one_sentence(
    folder: Path, command: Command, arguments: tuple[str, ...], reason: str
) -> None:
    result = command("mango-edge", "export", folder, *arguments)
    assert result.returncode == 2
    assert reason in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_moments_are_read_with_and_without_an_offset() -> None:
    assert parse_moment("2026-09-06T12:00") == NOON
    assert parse_moment("2026-09-06T12:00:00Z") == NOON
    assert parse_moment("2026-09-06T14:00+02:00") == NOON
    assert parse_moment("2026-09-06") == NOON - 43200
    assert iso(NOON) == "2026-09-06T12:00:00.000Z"
    assert iso(1e18).startswith("38")
