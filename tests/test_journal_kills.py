"""`kill -9` at any moment: every row that was acknowledged is there afterwards.

By default a few kills; `make test-kills` runs 300 (MANGO_KILLS sets the number).
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from conftest import ROOT

from edge.journal import DATABASE
from edge.journal_reader import JournalReader

KILLS = int(os.environ.get("MANGO_KILLS", "8"))

WRITER = """
import dataclasses, os, pathlib, sys, threading
from edge.decision import Decision
from edge.journal import open_journal

folder, first = pathlib.Path(sys.argv[1]), int(sys.argv[2])
decision = Decision("camera", "Healthy", (0.25, 0.75), ("Anthracnose", "Healthy"), "", {"invoke": 5.0}, "ab" * 32)
journal = open_journal(folder, keep="all", maximum_picture_bytes=200_000, reserve_bytes=0)

def write(number):
    while True:
        # Texts that are new as well: a row then changes several tables and pages.
        entry = dataclasses.replace(decision, frame_number=number, source=f"camera {number % 50}")
        row = journal.record(entry, str(number).encode() * 300 if number % 3 == 0 else None)
        os.write(1, b"%d %d\\n" % (row, number))
        number += 2

for offset in (0, 1):
    threading.Thread(target=write, args=(first + offset,)).start()
"""


def test_acknowledged_rows_survive_kills_and_torn_pages(tmp_path: Path) -> None:
    random = np.random.default_rng(6)
    folder = tmp_path / "journal"
    acknowledged: dict[int, int] = {}
    killed = 0
    for kill in range(KILLS):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(folder), str(kill * 1_000_000)],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert writer.stdout is not None
        early = random.random() < 0.2  # while it opens the journal and repairs what the last kill left
        said = b"" if early else os.read(writer.stdout.fileno(), 65536)
        time.sleep(random.uniform(0, 0.25))
        writer.send_signal(signal.SIGKILL)
        said += writer.stdout.read()
        killed += writer.wait() == -signal.SIGKILL
        for line in said.split(b"\n")[:-1]:  # the last piece is empty, or was torn by the kill
            row, number = map(int, line.split())
            assert row > 0
            assert row not in acknowledged, "a number was given twice"
            acknowledged[row] = number
        log = folder / f"{DATABASE}-wal"
        if log.exists() and random.random() < 0.5:
            # What a power cut leaves of a page that was being written behind the acknowledged ones.
            with log.open("ab") as file:
                file.write(random.bytes(int(random.integers(1, 9000))))
        if acknowledged:
            reader = JournalReader(folder)
            stored = {
                row.id: row.decision.frame_number for row in reader.rows(after=max(acknowledged) - 3000)
            }
            recent = {row: number for row, number in acknowledged.items() if row > max(acknowledged) - 3000}
            assert recent.items() <= stored.items()
    assert killed == KILLS
    stored = {row.id: row.decision.frame_number for row in JournalReader(folder).rows()}
    assert acknowledged
    assert acknowledged.items() <= stored.items()
    assert not list(folder.glob("journal-corrupt-*"))
    reader = JournalReader(folder)
    for row in reader.rows():
        if (picture := reader.picture(row)) is not None:
            assert picture == str(row.decision.frame_number).encode() * 300
    with sqlite3.connect(folder / DATABASE) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    print(f"{killed} kills, {len(acknowledged)} acknowledged rows, all {len(stored)} rows read back")
