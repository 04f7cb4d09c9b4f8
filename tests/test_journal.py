"""The journal keeps what it acknowledged, dates it, bounds its pictures, and degrades instead of crashing."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Command

from edge.clock import BUILT, Clock, system_clock
from edge.decision import Decision
from edge.errors import InputError
from edge.journal import DATABASE, SCHEMA_VERSION, open_journal
from edge.journal_reader import JournalReader, day_of
from edge.journal_score import read_truth, score

NOON = 1_790_000_000.0 - 1_790_000_000.0 % 86400 + 43200
"""A noon (UTC) after the build date."""

SURE = Decision(
    source="folder:leaves",
    label="Anthracnose",
    probabilities=(0.75, 0.25),
    labels=("Anthracnose", "Healthy"),
    gate="",
    stage_ms={"decode": 2.5, "invoke": 6.25},
    model_digest="ab" * 32,
    temperature_c=48.5,
    frame_number=7,
)
UNSURE = dataclasses.replace(SURE, label="uncertain", probabilities=(0.5, 0.5))
DARK = dataclasses.replace(SURE, label="", probabilities=(), gate="dark", temperature_c=None)


class Hands:
    """A clock whose two hands the test moves."""

    def __init__(self, wall: float, boot_id: str = "first") -> None:
        self.wall, self.monotonic = wall, 100.0
        self.clock = Clock(lambda: self.wall, lambda: self.monotonic, boot_id)

    def tick(self, seconds: float) -> None:
        self.wall += seconds
        self.monotonic += seconds


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def times(folder: Path) -> list[tuple[float | None, str]]:
    return [(row.time, row.clock) for row in JournalReader(folder).rows()]


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def test_a_recorded_row_reads_back_while_the_journal_is_open(folder: Path) -> None:
    hands = Hands(NOON)
    with open_journal(folder, clock=hands.clock) as journal:
        assert journal.record(SURE) == 1
        hands.tick(1)
        assert journal.record(DARK) == 2
        first, second = JournalReader(folder).rows()
    # The values are exact in float32.
    assert first.decision == SURE
    assert second.decision == DARK
    assert (first.id, first.time, first.clock, first.device_time) == (1, NOON, "set", NOON)
    assert (first.monotonic, first.boot_id, first.picture) == (100.0, "first", None)
    assert second.time == NOON + 1
    assert journal.degraded == ""


def test_rows_are_synced_before_they_are_acknowledged(folder: Path) -> None:
    with open_journal(folder) as journal:
        connection = journal._connection
        assert connection is not None
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL


def test_the_database_is_readable_by_any_sqlite(folder: Path) -> None:
    with open_journal(folder, clock=Hands(NOON).clock) as journal:
        journal.record(SURE)
    with sqlite3.connect(folder / DATABASE) as connection:
        names = [column[0] for column in connection.execute("SELECT * FROM decisions").description]
        row = dict(zip(names, connection.execute("SELECT * FROM decisions").fetchone(), strict=True))
    assert (row["label"], row["gate"], row["source"], row["clock"]) == ("Anthracnose", "", SURE.source, "set")
    assert json.loads(row["labels"]) == ["Anthracnose", "Healthy"]
    assert row["probabilities"] == b"\x00\x00\x40\x3f\x00\x00\x80\x3e"  # 0.75, 0.25 as little-endian float32


def test_a_row_takes_little_room(folder: Path) -> None:
    eight = dataclasses.replace(SURE, labels=tuple("abcdefgh"), probabilities=(0.125,) * 8)
    with open_journal(folder) as journal:
        futures = [journal.submit(dataclasses.replace(eight, frame_number=number)) for number in range(5000)]
        assert [future.result() for future in futures] == list(range(1, 5001))
    assert (folder / DATABASE).stat().st_size / 5000 < 160


def transactions(folder: Path) -> int:
    """Commits in the write-ahead log: 32 bytes, then frames of 24 and a page; a commit's frame tells the new size."""
    log = (folder / f"{DATABASE}-wal").read_bytes()
    step = 24 + int.from_bytes(log[8:12], "big")
    return sum(log[at + 4 : at + 8] != bytes(4) for at in range(32, len(log), step))


def test_quick_decisions_share_transactions_and_one_that_is_waited_for_comes_at_once(folder: Path) -> None:
    with open_journal(folder) as journal:
        journal.record(SURE)
        before, begun = transactions(folder), time.monotonic()
        futures = []
        for number in range(60):
            futures.append(journal.submit(dataclasses.replace(SURE, frame_number=number)))
            time.sleep(0.005)
        assert futures[-1].result() == 61
        quick = transactions(folder) - before
        # One each tenth of a second, and the two ends; not one for each of the sixty.
        assert 1 <= quick <= (time.monotonic() - begun) / 0.1 + 2
        for number in range(5):
            journal.record(dataclasses.replace(SURE, frame_number=number))
        assert transactions(folder) - before - quick == 5


def test_decisions_of_many_threads_are_all_stored_once(folder: Path) -> None:
    acknowledged: list[tuple[int, int]] = []

    def run(first: int) -> None:
        for number in range(first, first + 100):
            row = journal.record(dataclasses.replace(SURE, frame_number=number))
            acknowledged.append((row, number))

    with open_journal(folder) as journal:
        threads = [threading.Thread(target=run, args=(1000 * index,)) for index in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    stored = [(row.id, row.decision.frame_number) for row in JournalReader(folder).rows()]
    assert stored == sorted(acknowledged)
    assert [row for row, _ in stored] == list(range(1, 601))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"probabilities": ("much", 0)}, "not numbers"),
        ({"probabilities": (1e300, 0)}, "not numbers"),
        ({"probabilities": (1.0,)}, "1 probabilities for 2 labels"),
        ({"stage_ms": {"invoke": "long"}}, "not numbers"),
        ({"frame_number": 2**63}, "out of range"),
        ({"temperature_c": "hot"}, "could not convert"),
    ],
)
def test_a_decision_that_no_row_can_hold_is_the_callers_error_and_stops_nothing(
    folder: Path, change: dict[str, Any], reason: str
) -> None:
    with open_journal(folder) as journal:
        with pytest.raises(ValueError, match=reason):
            journal.record(dataclasses.replace(SURE, **change))
        assert journal.record(SURE) == 1


def test_numpy_numbers_and_names_that_are_no_text_are_stored(folder: Path) -> None:
    odd = dataclasses.replace(
        SURE,
        source=os.fsdecode(b"leaf-\xff.jpg"),
        probabilities=tuple(np.float32([0.75, 0.25])),
        stage_ms={"invoke": np.float64(6.25)},
        temperature_c=np.float32(48.5),
        frame_number=np.int64(7),
    )
    with open_journal(folder) as journal:
        assert journal.record(odd) == 1
    (row,) = JournalReader(folder).rows()
    expected = dataclasses.replace(SURE, source="leaf-\\udcff.jpg", stage_ms={"invoke": 6.25})
    assert row.decision == expected


def test_a_closed_journal_takes_nothing(folder: Path) -> None:
    journal = open_journal(folder)
    journal.close()
    journal.close()
    with pytest.raises(ValueError, match="closed"):
        journal.record(SURE)


def test_rows_go_on_counting_after_a_restart(folder: Path) -> None:
    for expected in (1, 2, 3):
        with open_journal(folder) as journal:
            assert journal.record(SURE) == expected


# Time.


def test_a_clock_before_the_build_date_dates_nothing(folder: Path) -> None:
    with open_journal(folder, clock=Hands(BUILT - 1).clock) as journal:
        journal.record(SURE)
    (row,) = JournalReader(folder).rows()
    assert (row.time, row.clock, row.device_time) == (None, "unset", BUILT - 1)


def test_a_clock_of_another_age_dates_nothing(folder: Path, command: Command) -> None:
    with open_journal(folder, keep="all", clock=Hands(1e15).clock) as journal:
        assert journal.record(SURE, b"picture") == 1
    assert times(folder) == [(None, "unset")]
    assert command("mango-edge", "export", folder).returncode == 0


def test_rows_are_dated_once_the_clock_is_set(folder: Path) -> None:
    hands = Hands(5.0)  # 1970
    with open_journal(folder, clock=hands.clock) as journal:
        journal.record(SURE)
        hands.tick(30)
        journal.record(SURE)
        hands.tick(30)
        hands.wall = NOON
        journal.record(SURE)
    assert times(folder) == [(NOON - 60, "repaired"), (NOON - 30, "repaired"), (NOON, "set")]
    assert [row.device_time for row in JournalReader(folder).rows()] == [5.0, 35.0, NOON]


def test_rows_of_an_earlier_boot_stay_undated(folder: Path) -> None:
    with open_journal(folder, clock=Hands(5.0, "first").clock) as journal:
        journal.record(SURE)
    with open_journal(folder, clock=Hands(NOON, "second").clock) as journal:
        journal.record(SURE)
    assert times(folder) == [(None, "unset"), (NOON, "set")]


def test_rows_are_dated_after_a_restart_in_the_same_boot(folder: Path) -> None:
    hands = Hands(5.0)
    with open_journal(folder, clock=hands.clock) as journal:
        journal.record(SURE)
    hands.tick(10)
    hands.wall = NOON
    with open_journal(folder, clock=hands.clock) as journal:
        journal.record(SURE)
    assert times(folder) == [(NOON - 10, "repaired"), (NOON, "set")]


def test_rows_dated_by_a_clock_that_lagged_are_dated_anew(folder: Path) -> None:
    # What a board without a battery does that saved its time before the power went: the time looks right.
    hands = Hands(NOON - 3 * 3600)
    with open_journal(folder, clock=hands.clock) as journal:
        journal.record(SURE)
        hands.tick(20)
        hands.wall = NOON
        journal.record(SURE)
    assert times(folder) == [(NOON - 20, "repaired"), (NOON, "set")]


def test_drift_is_not_a_step(folder: Path) -> None:
    hands = Hands(NOON)
    with open_journal(folder, clock=hands.clock) as journal:
        for _ in range(4):
            journal.record(SURE)
            hands.tick(1)
            hands.wall += 40
    assert [clock for _, clock in times(folder)] == ["set"] * 4


def test_the_machines_own_clock_counts_on(folder: Path) -> None:
    clock = system_clock()
    assert clock.boot_id
    assert clock.boot_id == system_clock().boot_id or not Path("/proc/sys/kernel/random/boot_id").exists()
    assert clock.monotonic() <= clock.monotonic()


# Pictures.


@pytest.mark.parametrize(
    ("keep", "expected"), [("none", [False] * 3), ("uncertain", [False, True, False]), ("all", [True] * 3)]
)
def test_pictures_are_kept_by_policy(folder: Path, keep: str, expected: list[bool]) -> None:
    with open_journal(folder, keep=keep, clock=Hands(NOON).clock) as journal:  # type: ignore[arg-type]
        for decision, kept in zip((SURE, UNSURE, DARK), expected, strict=True):
            assert journal.wants_picture(decision) == kept
            journal.record(decision, b"\xff\xd8 picture")
    reader = JournalReader(folder)
    assert [reader.picture(row) is not None for row in reader.rows()] == expected


def test_a_picture_lies_in_the_folder_of_its_day(folder: Path) -> None:
    with open_journal(folder, keep="all", clock=Hands(NOON).clock) as journal:
        journal.record(SURE, b"dated")
    day = time.strftime("%Y-%m-%d", time.localtime(NOON))
    assert (folder / "pictures" / day / "000000000001.jpg").read_bytes() == b"dated"
    other = folder.parent / "other"
    with open_journal(other, keep="all", clock=Hands(5.0).clock) as journal:
        journal.record(SURE, b"undated")
    assert (other / "pictures" / "unset" / "000000000001.jpg").read_bytes() == b"undated"


def test_the_oldest_pictures_make_room_and_no_row_goes(folder: Path) -> None:
    hands = Hands(NOON)
    for _ in range(2):  # the bound holds over a restart
        with open_journal(folder, keep="all", maximum_picture_bytes=3500, clock=hands.clock) as journal:
            for _ in range(10):
                journal.record(SURE, b"x" * 1000)
                hands.tick(43200)
    reader = JournalReader(folder)
    rows = list(reader.rows())
    assert len(rows) == 20
    assert [row.id for row in rows if row.picture] == [18, 19, 20]
    assert [row.id for row in rows if reader.picture(row)] == [18, 19, 20]
    assert len(list((folder / "pictures").iterdir())) <= 3  # days without pictures have no folder
    newest = reader.last_picture()
    assert newest is not None
    assert newest[0].id == 20


def test_a_picture_beyond_the_bound_is_left_out_and_said(folder: Path) -> None:
    with open_journal(folder, keep="all", maximum_picture_bytes=100) as journal:
        assert journal.record(SURE, b"x" * 101) == 1
        assert "pictures are not kept" in journal.degraded
    assert JournalReader(folder).stats().pictures == 0


def test_pictures_leave_the_reserve_to_the_rows(folder: Path) -> None:
    with open_journal(folder, keep="all", reserve_bytes=2**60) as journal:
        assert journal.record(SURE, b"x") == 1
        assert "free space" in journal.degraded


def test_a_picture_path_that_leaves_the_folder_is_not_followed(folder: Path) -> None:
    with open_journal(folder, keep="all") as journal:
        journal.record(SURE, b"x")
    (folder.parent / "secret.jpg").write_bytes(b"secret")
    with sqlite3.connect(folder / DATABASE) as connection:
        connection.execute("UPDATE decision SET picture = 'pictures/../../secret.jpg'")
    reader = JournalReader(folder)
    assert [reader.picture(row) for row in reader.rows()] == [None]


# What must not be written.


def test_bad_arguments_are_refused(folder: Path) -> None:
    with pytest.raises(InputError, match="not a policy"):
        open_journal(folder, keep="some")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="negative"):
        open_journal(folder, maximum_picture_bytes=-1)
    folder.write_text("a file")
    with pytest.raises(InputError, match="is a file"):
        open_journal(folder)


def test_one_process_writes_a_journal(folder: Path) -> None:
    with open_journal(folder), pytest.raises(InputError, match="another process"):
        open_journal(folder)
    open_journal(folder).close()


def test_a_newer_schema_is_refused_and_left_alone(folder: Path) -> None:
    open_journal(folder).close()
    with sqlite3.connect(folder / DATABASE) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    connection.close()
    before = (folder / DATABASE).read_bytes()
    with pytest.raises(InputError, match="newer mango-edge"):
        open_journal(folder)
    with pytest.raises(InputError, match="newer mango-edge"):
        JournalReader(folder)
    assert (folder / DATABASE).read_bytes() == before


def test_another_programs_database_is_refused_and_left_alone(folder: Path) -> None:
    folder.mkdir()
    with sqlite3.connect(folder / DATABASE) as connection:
        connection.execute("CREATE TABLE letters (text)")
    connection.close()
    before = (folder / DATABASE).read_bytes()
    with pytest.raises(InputError, match="not made by mango-edge"):
        open_journal(folder)
    assert (folder / DATABASE).read_bytes() == before


# Damage.


def filled(folder: Path, rows: int) -> None:
    with open_journal(folder, clock=Hands(NOON).clock) as journal:
        futures = [
            journal.submit(dataclasses.replace(SURE, frame_number=number, source=f"source {number}"))
            for number in range(rows)
        ]
        assert futures[-1].result() == rows


def zero_header(path: Path) -> None:
    path.write_bytes(b"\0" * 100 + path.read_bytes()[100:])


def garble_middle(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4096 : len(data) - 4096] = bytes(reversed(data[4096 : len(data) - 4096]))
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: 3 * 4096 + 100])


def overwrite(path: Path) -> None:
    path.write_bytes(b"This was once a database.\n" * 1000)


@pytest.mark.parametrize("damage", [zero_header, garble_middle, cut, overwrite])
def test_a_corrupt_database_is_moved_aside_and_a_new_one_begun(
    folder: Path, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    filled(folder, 500)
    damage(folder / DATABASE)
    damaged = (folder / DATABASE).read_bytes()
    with open_journal(folder) as journal:
        assert "corrupt" in journal.degraded
        assert "journal-corrupt-1.db" in journal.degraded
        assert journal.record(SURE) > 0
    assert (folder / "journal-corrupt-1.db").read_bytes() == damaged
    assert JournalReader(folder).stats().rows == 1
    with open_journal(folder) as journal:
        assert journal.degraded == ""
    assert sum("moved to" in record.message for record in caplog.records) == 1


def test_new_rows_do_not_take_the_numbers_of_kept_pictures(folder: Path) -> None:
    with open_journal(folder, keep="all") as journal:
        for _ in range(5):
            journal.record(SURE, b"old")
    overwrite(folder / DATABASE)
    with open_journal(folder, keep="all") as journal:
        assert journal.record(SURE, b"new") == 6
    assert sorted(path.read_bytes() for path in (folder / "pictures").glob("*/*")) == [b"new"] + [b"old"] * 5


def test_damage_found_while_running_is_survived(folder: Path) -> None:
    filled(folder, 2000)
    with open_journal(folder) as journal:
        journal._disconnect()  # as after any other trouble
        overwrite(folder / DATABASE)
        assert journal.record(SURE) == 2001
        assert "corrupt" in journal.degraded


def test_a_card_that_ruins_every_database_is_not_filled_with_them(folder: Path) -> None:
    folder.mkdir()
    for number in range(1, 6):
        (folder / f"journal-corrupt-{number}.db").write_bytes(b"earlier")
    overwrite(folder / DATABASE)
    with open_journal(folder) as journal:
        assert journal.record(SURE) == 0
        assert "cannot be moved aside" in journal.degraded
    assert not (folder / "journal-corrupt-6.db").exists()


def test_an_export_of_a_damaged_journal_gives_one_sentence(folder: Path, command: Command) -> None:
    filled(folder, 500)
    garble_middle(folder / DATABASE)
    result = command("mango-edge", "export", folder)
    assert result.returncode == 2
    assert "damaged" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def snapshot(folder: Path, copy: Path) -> Path:
    """What a power cut would leave: the files as they are, without the orderly end."""
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir()
    for suffix in ("", "-wal"):
        shutil.copy(folder / (DATABASE + suffix), copy / (DATABASE + suffix))
    return copy


def numbers(folder: Path) -> list[int]:
    return [row.decision.frame_number for row in JournalReader(folder).rows()]


def test_a_torn_last_page_of_the_log_costs_no_acknowledged_row(folder: Path, tmp_path: Path) -> None:
    with open_journal(folder) as journal:
        for number in range(20):
            journal.record(dataclasses.replace(SURE, frame_number=number))
        acknowledged = (folder / f"{DATABASE}-wal").stat().st_size
        journal.record(
            dataclasses.replace(SURE, frame_number=20)
        )  # stands for the one that was being written
        database = (folder / DATABASE).read_bytes()
        log = (folder / f"{DATABASE}-wal").read_bytes()
    assert len(log) > acknowledged
    copy = tmp_path / "copy"
    for size in range(acknowledged, len(log), 397):
        for tail in (b"", b"\xa5" * 3000):  # cut off, and cut off with another file's bytes behind
            shutil.rmtree(copy, ignore_errors=True)
            copy.mkdir()
            (copy / DATABASE).write_bytes(database)
            (copy / f"{DATABASE}-wal").write_bytes(log[:size] + tail)
            with open_journal(copy) as journal:
                assert journal.degraded == ""
            assert numbers(copy) == list(range(20))
    # The test can fail: a log cut one page earlier has lost an acknowledged row.
    (copy / DATABASE).write_bytes(database)
    (copy / f"{DATABASE}-wal").write_bytes(log[: acknowledged - 4096])
    assert numbers(copy) == list(range(19))


def test_an_undone_checkpoint_is_repaired_from_the_log(folder: Path, tmp_path: Path) -> None:
    filled(folder, 1)  # and closed: these pages are in the database
    with open_journal(folder) as journal:
        for number in range(30):
            journal.record(dataclasses.replace(SURE, frame_number=number))
        copy = snapshot(folder, tmp_path / "copy")
    # The power goes while pages are copied from the log into the database: every one of them is torn.
    log = (copy / f"{DATABASE}-wal").read_bytes()
    data = bytearray((copy / DATABASE).read_bytes().ljust(64 * 4096, b"\0"))
    pages = {int.from_bytes(log[at : at + 4], "big") for at in range(32, len(log), 24 + 4096)}
    for page in pages:
        data[(page - 1) * 4096 + 512 : page * 4096] = b"\xff" * (4096 - 512)
    (copy / DATABASE).write_bytes(data[: max(pages) * 4096])
    alone = tmp_path / "alone.db"  # without the log, the damage shows
    alone.write_bytes((copy / DATABASE).read_bytes())
    with pytest.raises(InputError, match="damaged"):
        list(JournalReader(alone).rows())
    with open_journal(copy) as journal:
        assert journal.degraded == ""
    assert numbers(copy) == [0, *range(30)]


# Reading.


def day_by_day(folder: Path) -> None:
    hands = Hands(NOON)
    with open_journal(folder, clock=hands.clock) as journal:
        for decision in (SURE, SURE, UNSURE, DARK):
            for _ in range(2):
                journal.record(decision)
                hands.tick(43200)


def test_rows_are_selected_by_number_and_time(folder: Path) -> None:
    day_by_day(folder)
    reader = JournalReader(folder)
    assert [row.id for row in reader.rows(after=5)] == [6, 7, 8]
    assert [row.id for row in reader.rows(limit=3)] == [1, 2, 3]
    assert [row.id for row in reader.rows(since=NOON + 43200, until=NOON + 3 * 43200)] == [2, 3]
    assert [row.id for row in reader.rows(since=NOON + 43200, after=6, limit=1)] == [7]
    assert list(reader.rows(since=NOON + 1e9)) == []
    assert reader.size() == 8


def test_many_rows_are_read_in_portions(folder: Path) -> None:
    filled(folder, 2500)
    reader = JournalReader(folder)
    assert numbers(folder) == list(range(2500))
    assert len(list(reader.rows(since=0.0))) == 2500
    assert len(list(reader.rows(limit=1500))) == 1500


def test_rows_without_a_time_are_in_no_span(folder: Path) -> None:
    with open_journal(folder, clock=Hands(5.0).clock) as journal:
        journal.record(SURE)
    reader = JournalReader(folder)
    assert list(reader.rows(since=0.0)) == []
    assert reader.count(0.0, 1e12) == ({}, {})
    assert reader.count_boot("first") == ({"Anthracnose": 1}, {})
    assert reader.count_boot("second") == ({}, {})


def test_a_day_is_counted_by_class_and_by_gate(folder: Path) -> None:
    day_by_day(folder)
    reader = JournalReader(folder)
    assert reader.count(NOON, NOON + 1e9) == ({"Anthracnose": 4, "uncertain": 2}, {"dark": 2})
    first, last = day_of(NOON)
    assert first <= NOON < last
    assert sum(reader.count(first, last)[0].values()) in (1, 2)


def test_the_last_decision_and_the_last_that_was_used(folder: Path) -> None:
    open_journal(folder).close()
    reader = JournalReader(folder)
    assert reader.last() is None
    day_by_day(folder)
    last, used = reader.last(), reader.last(used=True)
    assert last is not None
    assert used is not None
    assert (last.id, used.id) == (8, 6)


def test_statistics(folder: Path) -> None:
    day_by_day(folder)
    found = JournalReader(folder).stats()
    assert (found.rows, found.first_time, found.last_time) == (8, NOON, NOON + 7 * 43200)
    assert found.by_label == {"Anthracnose": 4, "uncertain": 2}
    assert found.by_gate == {"dark": 2}
    assert found.by_clock == {"set": 8}
    assert found.stage_ms == {"decode": (2.5, 2.5), "invoke": (6.25, 6.25)}
    assert found.temperature_c == (48.5, 48.5)
    assert (found.sources, found.models, found.boots) == ((SURE.source,), (SURE.model_digest,), ("first",))


def test_a_folder_without_a_journal_gives_one_sentence(tmp_path: Path, command: Command) -> None:
    result = command("mango-edge", "journal", "stats", tmp_path)
    assert result.returncode == 2
    assert "no journal here" in result.stderr
    assert len(result.stderr.splitlines()) == 1


# Scores.


def test_a_journal_is_scored_against_known_labels(tmp_path: Path, folder: Path, command: Command) -> None:
    """Of 6 frames with a truth: 1 dark, 1 uncertain (right by its best class), 4 decided, 3 of them right.

    Decided, true/said: AA AA HA HH. F1 of A: 2*2/(2+3) = 0.8, of H: 2*1/(2+1) = 2/3.
    """
    with open_journal(folder) as journal:
        for number, decision in enumerate((SURE, SURE, SURE, SURE, UNSURE, DARK, SURE)):
            wrong = dataclasses.replace(decision, frame_number=number)
            if number == 3:
                wrong = dataclasses.replace(wrong, label="Healthy", probabilities=(0.25, 0.75))
            journal.record(wrong)
    truth = tmp_path / "truth.csv"
    labels = ("Anthracnose", "Anthracnose", "Healthy", "Healthy", "Anthracnose", "Healthy")
    truth.write_text("frame_number,label\n" + "".join(f"{n},{label}\n" for n, label in enumerate(labels)))
    found = score(JournalReader(folder).rows(), read_truth(truth))
    assert (found.rows, found.unused, found.uncertain, found.decided) == (6, 1, 1, 4)
    assert found.accuracy == pytest.approx(3 / 4)
    assert found.macro_f1 == pytest.approx((0.8 + 2 / 3) / 2)
    assert found.predicted_accuracy == pytest.approx(4 / 5)
    result = command("mango-edge", "journal", "stats", folder, "--truth", truth, "--json")
    values = json.loads(result.stdout)
    assert values["score"] == pytest.approx(dataclasses.asdict(found))
    assert values["by_gate"] == {"dark": 1}
    assert "accuracy 0.7500" in command("mango-edge", "journal", "stats", folder, "--truth", truth).stdout


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("number,label\n1,a\n", "needs a header"),
        ("frame_number,label\none,a\n", "line 2"),
        ("frame_number,label\n1,a\n1,b\n", "two labels"),
        ("frame_number,label\n99,a\n", "no decision"),
    ],
)
def test_a_truth_that_cannot_be_used_is_refused(tmp_path: Path, folder: Path, text: str, reason: str) -> None:
    day_by_day(folder)
    truth = tmp_path / "truth.csv"
    truth.write_text(text)
    with pytest.raises(InputError, match=reason):
        score(JournalReader(folder).rows(), read_truth(truth))
