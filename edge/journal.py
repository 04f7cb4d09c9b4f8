"""The journal of the field runner: one row a decision in SQLite, and the pictures that are kept.

A journal is a folder:

- `journal.db` (with `-wal` and `-shm` beside it while it is open): the rows, never removed;
- `pictures/<day>/<row>.jpg`: kept pictures, bounded, the oldest removed first;
- `journal.lock`: held by the process that writes;
- `journal-corrupt-<n>.db`: a database that could not be read and was moved aside.

One thread writes, in WAL mode with `synchronous=FULL`: when `Journal.record` returns a row's number, the row is
on the disk and survives `kill -9` and a power cut. Decisions that come faster than ten a second share
transactions, so that a card is not worn by each of them. Trouble with the disk never raises; it is stated in
`Journal.degraded` and retried:

| trouble | what happens |
|---|---|
| disk full | the oldest pictures go first; without any left, rows wait in memory, bounded |
| card read-only or failing | rows go to the log, and wait in memory, bounded, for the card to come back |
| database corrupt | it is moved aside, a new one is started, numbered on from the old one |

Rows are compact: texts that repeat (source, labels, gate, digest, ...) are numbers into the table `name`,
probabilities and stage times are little-endian float32. The view `decisions` joins them back; its columns are

| column | holds |
|---|---|
| id | number of the row, from 1, rising |
| time | Unix seconds, UTC; NULL while the clock of that boot was never set |
| clock | `set`, `unset`, or `repaired`: `time` follows from `monotonic` and a later, set clock of the same boot |
| device_time | Unix seconds as the device's clock had them, right or wrong; never changed |
| monotonic, boot_id | seconds since boot, and which boot |
| source, frame_number | where the frame came from, and its number since the source was opened |
| label, gate | the decision (`uncertain`, or "" when not used) and why it was not used ("" when it was) |
| labels, probabilities | JSON list of class names; a blob with a float32 for each, empty when not used |
| stages, stage_ms | JSON list of stage names; a blob with a float32 for each, milliseconds |
| temperature_c | of the processor, degrees Celsius, or NULL |
| model_digest | SHA-256 of the model file |
| picture | path of the kept picture below the journal's folder, or NULL |
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import errno
import json
import logging
import os
import sqlite3
import struct
import threading
import time
import uuid
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from edge.clock import Clock, is_set, system_clock
from edge.decision import UNCERTAIN, Decision
from edge.errors import InputError
from edge.files import sync_folder
from edge.picture_folder import PictureFolder

try:
    import fcntl
except ImportError:  # not a POSIX system: two writers are then the user's affair
    fcntl = None  # type: ignore[assignment]

DATABASE = "journal.db"
SCHEMA_VERSION = 1
APPLICATION_ID = 0x6D6C6B6A  # "mlkj"
STEP_S = 60.0
"""A wall clock that jumps further than this was set; smaller steps are drift."""

Policy = Literal["uncertain", "all", "none"]
POLICIES: tuple[Policy, ...] = ("uncertain", "all", "none")

_UNSET, _SET, _REPAIRED = 0, 1, 2
CLOCK_STATES = ("unset", "set", "repaired")

_SCHEMA = """
CREATE TABLE name (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, value TEXT NOT NULL, UNIQUE (kind, value));
CREATE TABLE decision (
  id INTEGER PRIMARY KEY,
  time REAL, clock INTEGER NOT NULL, device_time REAL NOT NULL, monotonic REAL NOT NULL, boot INTEGER NOT NULL,
  source INTEGER NOT NULL, frame_number INTEGER NOT NULL, label INTEGER NOT NULL, gate INTEGER NOT NULL,
  labels INTEGER NOT NULL, probabilities BLOB NOT NULL, stages INTEGER NOT NULL, stage_ms BLOB NOT NULL,
  temperature_c REAL, model INTEGER NOT NULL, picture TEXT
);
CREATE INDEX decision_by_time ON decision (time, label, gate);
CREATE VIEW decisions AS SELECT
  d.id, d.time, CASE d.clock WHEN 0 THEN 'unset' WHEN 1 THEN 'set' ELSE 'repaired' END AS clock, d.device_time,
  d.monotonic, boot.value AS boot_id, source.value AS source, d.frame_number, label.value AS label,
  gate.value AS gate, labels.value AS labels, d.probabilities, stages.value AS stages, d.stage_ms,
  d.temperature_c, model.value AS model_digest, d.picture
FROM decision AS d
  JOIN name AS boot ON boot.id = d.boot JOIN name AS source ON source.id = d.source
  JOIN name AS label ON label.id = d.label JOIN name AS gate ON gate.id = d.gate
  JOIN name AS labels ON labels.id = d.labels JOIN name AS stages ON stages.id = d.stages
  JOIN name AS model ON model.id = d.model;
"""

_GROUP = 256  # decisions a transaction, and decisions that may wait for one before `submit` waits as well
_APART_S = 0.1  # between transactions, unless somebody waits for a row
_CHECK_S = 5.0  # longest look through an existing database before the first row
_FIRST_RETRY_S, _LAST_RETRY_S = 1.0, 60.0
_FREED_AT_ONCE = 4 * 2**20
_ASIDE_LIMIT = 5  # a card that ruins more databases than this is failing: no new one is begun on it

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Row:
    """One row: the decision and when it was made; the columns are explained at the top of this module."""

    id: int
    time: float | None
    clock: str
    device_time: float
    monotonic: float
    boot_id: str
    picture: str | None
    decision: Decision


@dataclass(frozen=True)
class _Entry:
    decision: Decision
    picture: bytes | None
    wall: float
    monotonic: float
    stages: str
    probabilities: bytes
    stage_ms: bytes
    stored: Future[int]
    urgent: bool = False


def open_journal(
    folder: Path,
    *,
    keep: Policy = "uncertain",
    maximum_picture_bytes: int = 2**30,
    reserve_bytes: int = 64 * 2**20,
    backlog: int = 20_000,
    clock: Clock | None = None,
) -> Journal:
    """Open a journal for writing, making it where there is none.

    Args:
        folder: the journal's folder.
        keep: whose pictures are kept: of uncertain decisions, of all frames, or none.
        maximum_picture_bytes: bound on the kept pictures together.
        reserve_bytes: free space that pictures leave to the rows.
        backlog: how many decisions wait in memory while the disk takes none; beyond, the oldest are lost, and
            counted.
        clock: where times come from; by default this machine's clocks.

    Raises:
        InputError: bad arguments; another process writes this journal; the database belongs to another
            program or to a newer version of this one. Trouble with the disk does not raise: see
            `Journal.degraded`.
    """
    if keep not in POLICIES:
        raise InputError(f"pictures to keep: {keep!r} is not a policy; choose {', '.join(POLICIES)}")
    if maximum_picture_bytes < 0 or reserve_bytes < 0 or backlog < 1:
        raise InputError("the journal's bounds must not be negative, and its backlog at least 1")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: this is a file; give a folder for the journal")
    return Journal(folder, keep, maximum_picture_bytes, reserve_bytes, backlog, clock or system_clock())


class Journal:
    """A journal that is being written. Its methods may be called from any thread. Made by `open_journal`."""

    def __init__(
        self,
        folder: Path,
        keep: Policy,
        maximum_picture_bytes: int,
        reserve_bytes: int,
        backlog: int,
        clock: Clock,
    ) -> None:
        self.folder = folder
        self.keep = keep
        self._clock = clock
        self._bounds = (maximum_picture_bytes, reserve_bytes)
        self._changed = threading.Condition()
        self._pending: deque[_Entry] = deque()
        self._closing = False
        # What follows belongs to the writing thread (and to this constructor before it starts).
        self._backlog: deque[_Entry] = deque(maxlen=backlog)
        self._lost = 0
        self._row_trouble = ""
        self._picture_trouble = ""
        self._notice = ""
        self._retry_s = _FIRST_RETRY_S
        self._retry_at = 0.0
        self._pictures_at = 0.0
        self._lock: int | None = None
        self._connection: sqlite3.Connection | None = None
        self._pictures: PictureFolder | None = None
        self._names: dict[tuple[str, str], int] = {}
        self._offset: float | None = None
        self._next_row = 1
        try:
            self._flush([])
        except BaseException:
            self._disconnect()
            self._unlock()
            raise
        self._writer = threading.Thread(target=self._write, name="journal", daemon=True)
        self._writer.start()

    @property
    def degraded(self) -> str:
        """ "" while all is well, else what is wrong and what becomes of rows and pictures meanwhile."""
        lost = f"{self._lost:,} decisions were lost, memory being bounded" if self._lost else ""
        return "; ".join(filter(None, (self._row_trouble, lost, self._picture_trouble, self._notice)))

    @property
    def lost(self) -> int:
        """Decisions that fell out of memory while the disk took none."""
        return self._lost

    def wants_picture(self, decision: Decision) -> bool:
        """Whether the picture of this decision would be kept; saves encoding one that would not."""
        if self._picture_trouble and time.monotonic() < self._pictures_at:
            return False
        return self.keep == "all" or (self.keep == "uncertain" and decision.label == UNCERTAIN)

    def submit(self, decision: Decision, picture: bytes | None = None) -> Future[int]:
        """Hand over a decision, stamped with the present time, without waiting for the disk.

        It is written at once, or with others a tenth of a second after the transaction before.

        Args:
            decision: what to record.
            picture: the frame as JPEG; ignored where the policy does not keep it.

        Returns:
            A future of the row's number, done when the row is on the disk; 0 when it could not be stored:
            it is then in the log and, while the journal is open, in memory for another attempt.

        Raises:
            ValueError: the journal is closed, or the decision holds something a row cannot.
        """
        return self._submit(decision, picture, urgent=False)

    def record(self, decision: Decision, picture: bytes | None = None) -> int:
        """Record a decision at once; see `submit`. When a number other than 0 returns, the row is on the disk."""
        return self._submit(decision, picture, urgent=True).result()

    def _submit(self, decision: Decision, picture: bytes | None, urgent: bool) -> Future[int]:
        entry = _Entry(
            _storable(decision),
            picture if picture is not None and self.wants_picture(decision) else None,
            self._clock.wall(),
            self._clock.monotonic(),
            json.dumps([_text(name) for name in decision.stage_ms], ensure_ascii=False),
            pack(decision.probabilities),
            pack(tuple(decision.stage_ms.values())),
            Future(),
            urgent,
        )
        entry.stored.set_running_or_notify_cancel()  # no longer to be cancelled
        with self._changed:
            while len(self._pending) >= _GROUP and not self._closing:
                self._changed.wait()
            if self._closing:
                raise ValueError("the journal is closed")
            self._pending.append(entry)
            self._changed.notify_all()
        return entry.stored

    def close(self) -> None:
        """Write what waits, and end. Safe to call twice."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._writer.join()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The writing thread.

    def _write(self) -> None:
        due = 0.0
        while True:
            with self._changed:
                while not self._closing and (wait := self._wait(due)) != 0:
                    self._changed.wait(wait)
                due = time.monotonic() + _APART_S
                batch = [self._pending.popleft() for _ in range(min(_GROUP, len(self._pending)))]
                ending = self._closing and not self._pending
                self._changed.notify_all()
            try:
                if ending:
                    self._retry_at = 0.0  # the last chance of what waits in memory
                self._flush(batch)
            # Whatever it is, those who wait must hear of it, and the next decision deserves its attempt.
            except Exception as error:
                _log.exception("the journal's writer failed")
                self._disconnect()
                self._hold(batch, f"the journal cannot be written ({error})")
            if ending:
                break
        if self._backlog:
            _log.error("%d decisions were not stored: %s", len(self._backlog), self._row_trouble)
        self._disconnect()
        self._unlock()

    def _wait(self, due: float) -> float | None:
        """Seconds until something is to be written, 0 for now; None: not before a decision comes."""
        now = time.monotonic()
        if self._pending:
            hurry = len(self._pending) > _GROUP // 2 or any(entry.urgent for entry in self._pending)
            return 0 if hurry else max(0.0, due - now)
        return max(0.0, self._retry_at - now) if self._row_trouble else None

    def _flush(self, batch: Sequence[_Entry]) -> None:
        if self._row_trouble and time.monotonic() < self._retry_at:
            self._hold(batch, self._row_trouble)
            return
        again = True
        while True:
            try:
                stored = self._store(batch)
                break
            except (sqlite3.Error, OSError) as error:
                self._disconnect()
                reason, cause = _reason(error), _sentence(error)
            if reason == "corrupt" and self._set_aside():
                continue
            if reason == "full" and (self._free_pictures() or again):
                again = False  # closing the database has given back what its log took
                continue
            self._hold(batch, f"{_TROUBLE[reason]} ({cause})")
            return
        if self._row_trouble:
            _log.warning("the journal is written again; %d waiting decisions were stored", len(self._backlog))
        self._row_trouble, self._retry_s = "", _FIRST_RETRY_S
        self._backlog.clear()
        for entry, row in zip(batch, stored, strict=True):
            entry.stored.set_result(row)

    def _hold(self, batch: Sequence[_Entry], reason: str) -> None:
        if reason != self._row_trouble:
            _log.error("%s", reason)
            self._row_trouble = reason
        if time.monotonic() >= self._retry_at:
            self._retry_at = time.monotonic() + self._retry_s
            self._retry_s = min(2 * self._retry_s, _LAST_RETRY_S)
        for entry in batch:
            _log.warning("not stored: %s", json.dumps(_describe(entry), ensure_ascii=False))
            self._lost += len(self._backlog) == self._backlog.maxlen
            waiting: Future[int] = Future()
            self._backlog.append(_Entry(**{**vars(entry), "picture": None, "stored": waiting}))
            entry.stored.set_result(0)

    def _store(self, batch: Sequence[_Entry]) -> list[int]:
        connection = self._connection or self._connect()
        if not batch and not self._backlog:
            return []
        first_row, rows = self._next_row, []
        try:
            connection.execute("BEGIN IMMEDIATE")
            self._step(connection, [*self._backlog, *batch])
            for entry in (*self._backlog, *batch):
                self._insert(connection, entry)
                rows.append(self._next_row)
                self._next_row += 1
            removed = self._pictures.removed if self._pictures is not None else []
            connection.executemany(
                "UPDATE decision SET picture = NULL WHERE id = ?", ((row,) for row in removed)
            )
            connection.execute("COMMIT")
            removed.clear()
        except BaseException:
            self._next_row = first_row
            if self._pictures is not None:
                self._pictures.discard(first_row)
            raise
        return rows[len(self._backlog) :]

    def _step(self, connection: sqlite3.Connection, entries: Sequence[_Entry]) -> None:
        """Date the earlier rows of this boot when the wall clock was set since.

        The newest offset is the best known, so rows dated by a clock that was wrong follow as well.
        """
        newest = entries[-1]
        if not is_set(newest.wall):
            return
        offset = newest.wall - newest.monotonic
        if self._offset is None or abs(offset - self._offset) > STEP_S:
            boot = self._name(connection, "boot", self._clock.boot_id)
            # Rows of one boot lie together at the end.
            before = connection.execute(
                "SELECT id FROM decision WHERE boot != ? ORDER BY id DESC LIMIT 1", (boot,)
            ).fetchone()
            repaired = connection.execute(
                "UPDATE decision SET time = monotonic + ?, clock = ?"
                " WHERE id > ? AND abs(coalesce(time, 0) - (monotonic + ?)) > ?",
                (offset, _REPAIRED, before[0] if before else 0, offset, STEP_S),
            ).rowcount
            if repaired:
                _log.info("the clock was set: %d earlier decisions of this boot are dated anew", repaired)
        self._offset = offset

    def _insert(self, connection: sqlite3.Connection, entry: _Entry) -> None:
        decision, row = entry.decision, self._next_row
        moment: float | None
        if self._offset is not None and abs(entry.wall - entry.monotonic - self._offset) > STEP_S:
            moment, state = entry.monotonic + self._offset, _REPAIRED
        elif is_set(entry.wall):
            moment, state = entry.wall, _SET
        else:
            moment, state = None, _UNSET
        picture = None if entry.picture is None else self._keep_picture(row, moment, entry.picture)
        connection.execute(
            "INSERT INTO decision VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
            (
                row,
                moment,
                state,
                entry.wall,
                entry.monotonic,
                self._name(connection, "boot", self._clock.boot_id),
                self._name(connection, "source", decision.source),
                decision.frame_number,
                self._name(connection, "label", decision.label),
                self._name(connection, "gate", decision.gate),
                self._name(connection, "labels", json.dumps(list(decision.labels), ensure_ascii=False)),
                entry.probabilities,
                self._name(connection, "stages", entry.stages),
                entry.stage_ms,
                decision.temperature_c,
                self._name(connection, "model", decision.model_digest),
                picture,
            ),
        )

    def _name(self, connection: sqlite3.Connection, kind: str, value: str) -> int:
        key = (kind, value)
        if key not in self._names:
            if len(self._names) >= 1024:
                self._names.clear()
            connection.execute("INSERT OR IGNORE INTO name (kind, value) VALUES (?, ?)", key)
            found = connection.execute("SELECT id FROM name WHERE kind = ? AND value = ?", key).fetchone()
            self._names[key] = found[0]
        return self._names[key]

    def _keep_picture(self, row: int, moment: float | None, picture: bytes) -> str | None:
        assert self._pictures is not None
        day = "unset" if moment is None else datetime.datetime.fromtimestamp(moment).strftime("%Y-%m-%d")
        try:
            path = self._pictures.keep(row, day, picture)
        except OSError as error:
            reason = f"pictures are not kept ({_sentence(error)})"
            if not self._picture_trouble:
                _log.error("%s", reason)
            self._picture_trouble = reason
            self._pictures_at = time.monotonic() + _LAST_RETRY_S
            return None
        if self._picture_trouble:
            _log.warning("pictures are kept again")
            self._picture_trouble = ""
        return path

    def _free_pictures(self) -> bool:
        if self._pictures is None:
            return False
        try:
            freed = self._pictures.free(_FREED_AT_ONCE)
        except OSError:
            return False
        if freed:
            _log.warning("the disk is full: the %d oldest pictures were removed to make room for rows", freed)
        return freed > 0

    def _connect(self) -> sqlite3.Connection:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._take_lock()
        if self._pictures is None:
            self._pictures = PictureFolder(self.folder / "pictures", *self._bounds)
        path = self.folder / DATABASE
        connection = sqlite3.connect(path, timeout=1.0, isolation_level=None, check_same_thread=False)
        self._connection = connection
        check_schema(connection, path)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        # 1 MB of log at most: what has to be copied at the end, within the two seconds a service is given.
        connection.execute("PRAGMA wal_autocheckpoint = 256")
        connection.execute(f"PRAGMA journal_size_limit = {4 * 2**20}")
        if connection.execute("PRAGMA user_version").fetchone()[0] == 0:
            connection.executescript(
                f"BEGIN IMMEDIATE; PRAGMA application_id = {APPLICATION_ID};"
                f" PRAGMA user_version = {SCHEMA_VERSION}; {_SCHEMA}"
                f" INSERT INTO name (kind, value) VALUES ('journal', '{uuid.uuid4().hex}'); COMMIT;"
            )
            sync_folder(self.folder)
        else:
            _quick_check(connection)
        last = connection.execute(
            "SELECT d.id, d.monotonic, name.value FROM decision AS d LEFT JOIN name ON name.id = d.boot"
            " ORDER BY d.id DESC LIMIT 1"
        ).fetchone()
        if last is not None:
            self._next_row = max(self._next_row, last[0] + 1)
            # An attempt that failed may yet have reached the disk: what is there is not written again.
            if last[2] == self._clock.boot_id:
                while self._backlog and self._backlog[0].monotonic <= last[1]:
                    self._backlog.popleft()
        self._next_row = max(self._next_row, self._pictures.last_row + 1)
        self._names.clear()
        return connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
        self._connection = None
        self._names.clear()
        self._offset = None

    def _set_aside(self) -> bool:
        """Move a corrupt database away; False where that cannot be done."""
        for number in range(1, _ASIDE_LIMIT + 1):
            aside = self.folder / f"journal-corrupt-{number}.db"
            if aside.exists():
                continue
            try:
                # The log last: without its database it says nothing, the other way round it may still help.
                for suffix in ("", "-wal", "-shm"):
                    part = self.folder / (DATABASE + suffix)
                    if part.exists():
                        os.replace(part, f"{aside}{suffix}")
                sync_folder(self.folder)
            except OSError:
                return False
            self._notice = f"the journal was corrupt; it was moved to {aside.name} and a new one was started"
            _log.error("%s", self._notice)
            return True
        return False

    def _take_lock(self) -> None:
        if fcntl is None or self._lock is not None:
            return
        lock = os.open(self.folder / "journal.lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(lock)
            if error.errno in (errno.EAGAIN, errno.EACCES):
                raise InputError(
                    f"{self.folder}: another process writes this journal; stop it, or give another folder"
                ) from None
            raise
        self._lock = lock

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
        self._lock = None


def _storable(decision: Decision) -> Decision:
    """The same decision in SQLite's types: what cannot be stored is refused here, not in the writing thread.

    Raises:
        ValueError: a number is none or out of range, or probabilities and labels differ in number.
    """
    if len(decision.probabilities) not in (0, len(decision.labels)):
        raise ValueError(f"{len(decision.probabilities)} probabilities for {len(decision.labels)} labels")
    if not 0 <= decision.frame_number < 2**63:
        raise ValueError(f"frame number {decision.frame_number} is out of range")
    return dataclasses.replace(
        decision,
        source=_text(decision.source),
        label=_text(decision.label),
        labels=tuple(_text(label) for label in decision.labels),
        gate=_text(decision.gate),
        model_digest=_text(decision.model_digest),
        temperature_c=None if decision.temperature_c is None else float(decision.temperature_c),
        frame_number=int(decision.frame_number),
    )


def _text(text: str) -> str:
    # The name of a file need not be valid text.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def pack(values: Sequence[float]) -> bytes:
    """Numbers as little-endian float32, 4 bytes each.

    Raises:
        ValueError: one is not a number, or too large.
    """
    try:
        return struct.pack(f"<{len(values)}f", *values)
    except (struct.error, OverflowError) as error:
        raise ValueError(f"not numbers a row can hold: {error}") from None


def unpack(packed: bytes) -> tuple[float, ...]:
    """The inverse of `pack`."""
    return struct.unpack(f"<{len(packed) // 4}f", packed)


def check_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a database of another program or of a newer version of this one.

    Raises:
        InputError: it is one of these.
        sqlite3.DatabaseError: it cannot be read as a database.
    """
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    owner = connection.execute("PRAGMA application_id").fetchone()[0]
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if owner != APPLICATION_ID and (tables or version or owner):
        raise InputError(f"{path}: this database was not made by mango-edge; give another folder")
    if version > SCHEMA_VERSION:
        raise InputError(
            f"{path}: written by a newer mango-edge (schema {version}, this one knows {SCHEMA_VERSION});"
            " update mango-edge, or give another folder"
        )


def _quick_check(connection: sqlite3.Connection) -> None:
    """Look for damage, for as long as a start may take; what lies beyond is noticed when it is read."""
    deadline = time.monotonic() + _CHECK_S
    connection.set_progress_handler(lambda: time.monotonic() > deadline, 10_000)
    try:
        found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.OperationalError as error:
        if "interrupted" not in str(error):
            raise
        found = "ok"
    finally:
        connection.set_progress_handler(None, 0)
    if found != "ok":
        raise sqlite3.DatabaseError(f"database disk image is malformed: {found}")


_TROUBLE = {
    "full": "the disk is full: decisions wait in memory",
    "read-only": "the card is read-only: decisions go to the log and wait in memory",
    "corrupt": "the journal is corrupt and cannot be moved aside: decisions go to the log and wait in memory",
    "other": "the journal cannot be written: decisions go to the log and wait in memory",
}


def _reason(error: Exception) -> str:
    """The kind of trouble. By SQLite's texts: Python 3.10 does not tell the error's code."""
    text = str(error)
    number = getattr(error, "errno", None)
    if "is full" in text or number in (errno.ENOSPC, errno.EDQUOT):
        return "full"
    if "readonly" in text or number == errno.EROFS:
        return "read-only"
    if "malformed" in text or "not a database" in text:
        return "corrupt"
    return "other"


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error) or type(error).__name__


def _describe(entry: _Entry) -> dict[str, Any]:
    """What the log says of a decision that could not be stored."""
    decision = entry.decision
    return {
        "time": entry.wall,
        "source": decision.source,
        "frame_number": decision.frame_number,
        "label": decision.label,
        "gate": decision.gate,
        "probabilities": [round(value, 4) for value in decision.probabilities],
    }
