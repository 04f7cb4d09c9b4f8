"""A full disk and a read-only card, as real file systems of a private mount namespace."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

PRELUDE = """
import dataclasses, json, logging, pathlib, subprocess, sys, time
from edge.decision import Decision
from edge.journal import open_journal
from edge.journal_reader import JournalReader

card = pathlib.Path(sys.argv[1])
folder = card / "journal"
SURE = Decision("camera", "Healthy", (0.25, 0.75), ("Anthracnose", "Healthy"), "", {"invoke": 5.0}, "ab" * 32)

def say(**values):
    print(json.dumps(values))

def record(journal, number, picture=None):
    return journal.record(dataclasses.replace(SURE, frame_number=number), picture)

def mount(*options):
    subprocess.run(["mount", *options, str(card)], check=True)

def wait(journal):
    until = time.monotonic() + 60
    while journal.degraded and time.monotonic() < until:
        time.sleep(0.05)

def stored():
    return [row.decision.frame_number for row in JournalReader(folder).rows()]
"""


def on_a_card(tmp_path: Path, size: str, program: str) -> list[dict[str, object]]:
    """Run a program with a small file system of its own; returns what it said."""
    if shutil.which("unshare") is None:
        pytest.skip("no unshare: a full disk and a read-only card need a mount namespace of their own")
    card = tmp_path / "card"
    card.mkdir()
    inside = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    inside += ['mount -t tmpfs -o "size=$0" none "$1" && shift && exec "$@"', size, str(card)]
    if subprocess.run([*inside, "true"], capture_output=True).returncode:
        pytest.skip("this user may not make a mount namespace: full disk and read-only card are not tested")
    result = subprocess.run(
        [*inside, sys.executable, "-c", PRELUDE + program, str(card)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_on_a_full_disk_pictures_go_first_then_rows_wait_and_none_is_lost(tmp_path: Path) -> None:
    said = on_a_card(
        tmp_path,
        "3m",
        """
journal = open_journal(folder, keep="all", reserve_bytes=0)
number = 0
while journal.wants_picture(SURE) and number < 500:  # pictures fill the card
    record(journal, number, b"x" * 100_000)
    number += 1
pictures = len(list(folder.glob("pictures/*/*")))
say(step="pictures", kept=pictures, of=number)
(card / "ballast").write_bytes(b"")
try:
    with (card / "ballast").open("wb", buffering=0) as ballast:
        while True:
            ballast.write(b"x" * 4096)
except OSError:
    pass
rows = 0
while not journal.degraded.startswith("the disk is full") and number < 60_000:
    rows += record(journal, number) > 0
    number += 1
say(step="full", degraded=journal.degraded, pictures=len(list(folder.glob("pictures/*/*"))), rows_after=rows)
for _ in range(50):
    assert record(journal, number) == 0
    number += 1
(card / "ballast").unlink()
wait(journal)
say(step="freed", degraded=journal.degraded, row=record(journal, number), lost=journal.lost)
journal.close()
say(step="end", complete=stored() == list(range(number + 1)))
""",
    )
    pictures, full, freed, end = said
    assert 5 <= pictures["kept"] < 30  # type: ignore[operator]
    assert str(full["degraded"]).startswith("the disk is full: decisions wait in memory")
    assert full["pictures"] == 0
    assert full["rows_after"] > 100  # type: ignore[operator]
    assert freed["degraded"] == ""
    assert freed["row"]
    assert freed["lost"] == 0
    assert end["complete"] is True


def test_a_card_that_turns_read_only_is_waited_for(tmp_path: Path) -> None:
    said = on_a_card(
        tmp_path,
        "16m",
        """
logged = []
handler = logging.Handler()
handler.emit = lambda record: logged.append(record.getMessage())
logging.getLogger("edge.journal").addHandler(handler)
journal = open_journal(folder)
for number in range(10):
    record(journal, number)
journal._disconnect()  # files that are open for writing keep a tmpfs from turning read-only
journal._unlock()
mount("-o", "remount,ro")
numbers = [record(journal, number) for number in range(10, 20)]
say(step="read-only", numbers=numbers, degraded=journal.degraded, rows=len(stored()),
    logged=sum(line.startswith("not stored: {") for line in logged),
    errors=sum("read-only" in line and not line.startswith("not stored") for line in logged))
mount("-o", "remount,rw")
wait(journal)
say(step="back", degraded=journal.degraded, rows=stored() == list(range(20)))
journal.close()
""",
    )
    assert said[0]["numbers"] == [0] * 10
    assert "read-only" in str(said[0]["degraded"])
    assert said[0]["rows"] == 10
    assert said[0]["logged"] == 10
    assert said[0]["errors"] == 1  # said once, not for every decision
    assert said[1] == {"step": "back", "degraded": "", "rows": True}


def test_a_journal_begins_on_a_read_only_card_and_memory_is_bounded(tmp_path: Path) -> None:
    said = on_a_card(
        tmp_path,
        "16m",
        """
mount("-o", "remount,ro")
journal = open_journal(folder, backlog=20)
numbers = [record(journal, number) for number in range(50)]
say(step="read-only", numbers=set(numbers) == {0}, degraded=journal.degraded, lost=journal.lost)
mount("-o", "remount,rw")
until = time.monotonic() + 60
while "read-only" in journal.degraded.lower() and time.monotonic() < until:
    time.sleep(0.05)
degraded = journal.degraded
journal.close()
say(step="back", degraded=degraded, rows=stored() == list(range(30, 50)))
""",
    )
    assert said[0]["numbers"] is True
    assert "read-only" in str(said[0]["degraded"]).lower()
    assert said[0]["lost"] == 30
    assert said[1]["rows"] is True
    assert said[1]["degraded"] == "30 decisions were lost, memory being bounded"


def test_a_closed_journal_is_read_from_a_read_only_card(tmp_path: Path) -> None:
    said = on_a_card(
        tmp_path,
        "16m",
        """
with open_journal(folder) as journal:
    for number in range(10):
        record(journal, number)
mount("-o", "remount,ro")
say(rows=len(stored()))
""",
    )
    assert said == [{"rows": 10}]
