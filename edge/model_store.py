"""The models of a device in the field: installed by signature, switched in one step, given up when they fail.

A store is a folder:

    current -> releases/7          the model that is to run; a symbolic link, replaced by one rename
    releases/7/model.tflite        the signed file, byte for byte
    releases/7/release.json        its release number, digest, key, and the release to go back to
    releases/7/trial               {"starts": n} until the runner has reported itself healthy
    rolled-back.json               what was given up last, when and why

A release folder is written and synced under another name before it gets its own, and is whole from then on; the
link moves last. So a power cut at any moment leaves either the old model or the new one, and what it
interrupted is a folder that nothing points to, removed by the next `confirm` or `install`.

The runner calls `current_model` when it starts and `confirm` once it has worked for a while. A release on trial
that was started `ATTEMPTS` times without being confirmed, fails its self-test, or is damaged on the card gives
way to the last one that was confirmed, and this, should it be gone, to the model that the package ships.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edge.classifier import DEFAULT_MODEL
from edge.contract import MAXIMUM_BYTES, Contract, read_contract, read_model
from edge.errors import InputError
from edge.files import read_regular, sha256, sync_folder, write_atomic
from edge.golden import run_apart
from edge.signature import key_id, read_public_key, verify

RELEASE = "release"
"""Key of the release number in `Contract.extra`."""

ATTEMPTS = 3
"""Starts that a release on trial gets. More than one: the power may fail just then, which is not its fault."""

SelfTest = Callable[[Path], str]
"""Tests a model file and says what it found; raises InputError where it fails."""

_MODEL, _RECORD, _TRIAL = "model.tflite", "release.json", "trial"
_CURRENT, _RELEASES, _ROLLED_BACK, _LOCK = "current", "releases", "rolled-back.json", "lock"


@dataclass(frozen=True)
class Release:
    """An installed release.

    Attributes:
        folder: its folder in the store.
        number: the release number that was signed.
        digest: SHA-256 of the model file.
        key_id: the key it was signed with.
        previous: name of the release folder to go back to; None for the model that the package ships.
        starts: how often it was started while on trial; None once it was confirmed.
    """

    folder: Path
    number: int
    digest: str
    key_id: str
    previous: str | None
    starts: int | None

    @property
    def path(self) -> Path:
        """The model file."""
        return self.folder / _MODEL

    @property
    def on_trial(self) -> bool:
        """Whether the runner has yet to report itself healthy with it."""
        return self.starts is not None

    def __str__(self) -> str:
        return f"release {self.number} ({self.digest[:12]})"


@dataclass(frozen=True)
class Candidate:
    """A genuine, whole model file that was read for installation; see `read_candidate`."""

    file: Path
    data: bytes
    contract: Contract
    number: int
    digest: str
    key_id: str


@dataclass(frozen=True)
class Status:
    """What a store holds: the release to run, the one to go back to (None: the shipped model), the last failure."""

    current: Release | None
    previous: Release | None
    rolled_back: dict[str, Any] | None


def release_of(contract: Contract) -> int:
    """The release number in a contract; 0 for a model that was never signed.

    Raises:
        InputError: it is no whole number from 0 on.
    """
    number = contract.extra.get(RELEASE, 0)
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise InputError(f"its release number is {number!r}, which is no whole number from 0 on")
    return number


def current_model(folder: Path | str, default: Path = DEFAULT_MODEL, test: SelfTest = run_apart) -> Path:
    """The model file that the runner is to open, for each start anew.

    Counts the start of a release on trial, and rolls back where the release has had its starts, fails its
    self-test or is damaged. Where the store cannot be written (card full or read-only), a release on trial is
    not begun: its starts could not be counted.

    Args:
        folder: the store; a missing or empty one holds no release.
        default: the model to run where no release is left.
        test: the self-test of a release on trial.
    """
    folder = Path(folder)
    with _locked(folder):
        release = _read_current(folder)
        for _ in range(len(_release_names(folder)) + 1):
            if release is None:
                break
            problem = damage(release)
            if problem is None and release.starts is not None:
                if release.starts >= ATTEMPTS:
                    problem = f"was started {release.starts} times and never reported itself healthy"
                else:
                    try:
                        _write_trial(release.folder, release.starts + 1)
                        test(release.path)
                    except InputError as error:
                        problem = str(error)
                    except OSError as error:
                        problem = f"its starts cannot be counted ({error.strerror or error})"
            if problem is None:
                return release.path
            target = _last_good(folder, release)
            # On a card that cannot be written the link stays; the model that works is taken all the same.
            with contextlib.suppress(OSError):
                _switch_back(folder, release, target, problem)
            release = target
        return default


def confirm(folder: Path | str, running: Path | None = None) -> bool:
    """The runner works: end the trial of the release it runs, and remove releases that are no longer needed.

    Args:
        folder: the store.
        running: what `current_model` returned to this runner. Another release may have been installed since,
            which this runner can say nothing about; without it, any release that was started is confirmed.

    Returns:
        Whether a trial was ended by this call.

    Raises:
        OSError: the store cannot be written.
    """
    folder = Path(folder)
    with _locked(folder):
        release = _read_current(folder)
        if release is None or not release.starts:
            return False
        if running is not None and Path(running).resolve() != release.path.resolve():
            return False
        (release.folder / _TRIAL).unlink()
        sync_folder(release.folder)
        (folder / _ROLLED_BACK).unlink(missing_ok=True)
        _prune(folder)
        return True


def read_candidate(file: Path | str, key: Path | str) -> Candidate:
    """Read a signed model file and check that it is genuine and whole.

    Args:
        file: the model file, as `mango-convert sign` made it.
        key: the public key (PEM) that it must be signed with.

    Raises:
        InputError: file or key cannot be read, the file is not signed with this key, was changed, or is damaged.
    """
    file = Path(file)
    public = read_public_key(key)
    data = _read_once(file)
    # Genuine before anything in it is parsed.
    verify(data, public, str(file))
    model = read_model(file)
    if model.digest != sha256(data):
        raise InputError(f"{file}: was changed while it was being read; install it again")
    try:
        number = release_of(model.contract)
    except InputError as error:
        raise InputError(f"{file}: {error}; sign it again with: mango-convert sign") from None
    if number < 1:
        raise InputError(f"{file}: carries no release number; sign it again with: mango-convert sign")
    return Candidate(file, data, model.contract, number, model.digest, key_id(public))


def install(
    folder: Path | str,
    candidate: Candidate,
    allow_other_shape: bool = False,
    default: Path = DEFAULT_MODEL,
    test: SelfTest = run_apart,
) -> tuple[Release, str]:
    """Make a model the one to run, on trial.

    Args:
        folder: the store; made if missing.
        candidate: what `read_candidate` returned.
        allow_other_shape: take it although labels or input differ from those of the model it replaces.
        default: the model that runs where the store holds none.
        test: the self-test.

    Returns:
        The release, and what the self-test found.

    Raises:
        InputError: the model is not newer, of another shape, or fails its self-test. The store is then as it was.
        OSError: the store cannot be written; it is then as it was.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder):
        _prune(folder)
        current = _read_current(folder)
        running = default
        if current is not None and damage(current) is None:
            if current.digest == candidate.digest:
                return current, "is installed already"
            running = current.path
        if running.exists():
            _check_newer(candidate, running)
            if not allow_other_shape:
                _check_shape(candidate, running)
        release = _write_release(
            folder,
            candidate.data,
            {
                "release": candidate.number,
                "digest": candidate.digest,
                "key": candidate.key_id,
                "previous": None if current is None else _name(_last_good(folder, current, itself=True)),
            },
        )
        try:
            # From the store's own copy: that is what will run.
            found = test(release.path)
        except BaseException:
            shutil.rmtree(release.folder, ignore_errors=True)
            raise
        _point_to(folder, release)
        return release, found


def rollback(folder: Path | str, why: str = "asked for on the command line") -> Release | None:
    """Go back to the release before the current one; it counts as good from then on.

    Returns:
        The release that is current now; None for the model that the package ships.

    Raises:
        InputError: there is no release to go back from.
        OSError: the store cannot be written.
    """
    folder = Path(folder)
    with _locked(folder):
        release = _read_current(folder)
        if release is None:
            raise InputError(f"{folder}: no release is installed, so there is none to go back from")
        target = _last_good(folder, release)
        _switch_back(folder, release, target, why)
        return target


def read_status(folder: Path | str) -> Status:
    """What the store holds; changes nothing. A missing folder holds nothing."""
    folder = Path(folder)
    current = _read_current(folder)
    try:
        rolled_back = json.loads((folder / _ROLLED_BACK).read_text("utf-8"))
    except (OSError, ValueError):
        rolled_back = None
    return Status(
        current,
        None if current is None else _last_good(folder, current),
        rolled_back if isinstance(rolled_back, dict) else None,
    )


def damage(release: Release) -> str | None:
    """What is wrong with a release's file on the card; None if it is as it was installed."""
    try:
        digest = sha256(release.path.read_bytes())
    except OSError as error:
        return f"its model file cannot be read ({error.strerror or error})"
    return None if digest == release.digest else "its model file is damaged"


def _check_newer(candidate: Candidate, running: Path) -> None:
    installed = release_of(read_contract(running))
    if candidate.number <= installed:
        raise InputError(
            f"{candidate.file}: is release {candidate.number}, and release {installed} is installed;"
            " sign a newer one with a higher number, or go back with: mango-edge model rollback"
        )


def _check_shape(candidate: Candidate, running: Path) -> None:
    before, after = read_contract(running), candidate.contract
    if after.labels != before.labels:
        what = f"its labels ({', '.join(after.labels)}) are not those of"
        were = ", ".join(before.labels)
    elif after.input != before.input:
        what, were = f"its input ({_describe_input(after)}) is not that of", _describe_input(before)
    else:
        return
    raise InputError(
        f"{candidate.file}: {what} the model it replaces ({were}); if that is meant, add --allow-other-shape"
    )


def _describe_input(contract: Contract) -> str:
    spec = contract.input
    return f"{spec.width}x{spec.height} {spec.colour}, {spec.fit}, {spec.resize}, EXIF {spec.exif}"


def _read_once(file: Path) -> bytes:
    try:
        return read_regular(file, "a model file", MAXIMUM_BYTES)
    except FileNotFoundError:
        raise InputError(f"{file}: no such model file; check the path") from None
    except OSError as error:
        raise InputError(f"{file}: the model file cannot be read ({error.strerror or error})") from None


def _write_release(folder: Path, data: bytes, record: dict[str, Any]) -> Release:
    releases = folder / _RELEASES
    releases.mkdir(exist_ok=True)
    sync_folder(folder)
    staged = releases / f".new-{secrets.token_hex(4)}"
    staged.mkdir()
    try:
        write_atomic(staged / _MODEL, data)
        write_atomic(staged / _RECORD, json.dumps(record, indent=1).encode())
        _write_trial(staged, 0)
        name = str(max((int(name) for name in _release_names(folder)), default=0) + 1)
        staged.rename(releases / name)
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        raise
    sync_folder(releases)
    release = _read_release(releases / name)
    if release is None or damage(release) is not None:
        raise InputError(f"{releases / name}: the card does not give back what was written; replace it")
    return release


def _write_trial(folder: Path, starts: int) -> None:
    write_atomic(folder / _TRIAL, json.dumps({"starts": starts}).encode())


def _point_to(folder: Path, release: Release) -> None:
    link = folder / f".current-{secrets.token_hex(4)}"
    link.symlink_to(Path(_RELEASES) / release.folder.name)
    try:
        link.replace(folder / _CURRENT)
    except BaseException:
        link.unlink(missing_ok=True)
        raise
    sync_folder(folder)


def _switch_back(folder: Path, release: Release, target: Release | None, why: str) -> None:
    note = {"release": release.number, "digest": release.digest, "why": why, "time": int(time.time())}
    write_atomic(folder / _ROLLED_BACK, json.dumps(note, indent=1).encode())
    if target is not None:
        _point_to(folder, target)
    else:
        (folder / _CURRENT).unlink(missing_ok=True)
        sync_folder(folder)


def _last_good(folder: Path, release: Release, itself: bool = False) -> Release | None:
    """The whole, confirmed release to go back to; with `itself`, the given one if it is one."""
    if itself and not release.on_trial:
        return release
    names = sorted(_release_names(folder), key=int, reverse=True)
    for name in dict.fromkeys([*([release.previous] if release.previous else []), *names]):
        # Only back, never on to a release that was given up after this one.
        if int(name) >= int(release.folder.name):
            continue
        candidate = _read_release(folder / _RELEASES / name)
        if candidate is not None and not candidate.on_trial and damage(candidate) is None:
            return candidate
    return None


def _name(release: Release | None) -> str | None:
    return None if release is None else release.folder.name


def _release_names(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in (folder / _RELEASES).iterdir() if entry.name.isdecimal()]
    except OSError:
        return []


def _read_current(folder: Path) -> Release | None:
    try:
        name = Path(os.readlink(folder / _CURRENT)).name
    except OSError:
        return None
    if not name.isdecimal():
        return None
    # A record that cannot be read still is a release: a damaged one, to be given up.
    return _read_release(folder / _RELEASES / name) or Release(
        folder / _RELEASES / name, 0, "", "", previous=None, starts=ATTEMPTS
    )


def _read_release(folder: Path) -> Release | None:
    try:
        record = json.loads((folder / _RECORD).read_text("utf-8"))
        previous = record["previous"]
        if previous is not None and not str(previous).isdecimal():
            return None
        return Release(
            folder,
            int(record["release"]),
            str(record["digest"]),
            str(record["key"]),
            None if previous is None else str(previous),
            _read_starts(folder),
        )
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return None


def _read_starts(folder: Path) -> int | None:
    try:
        return int(json.loads((folder / _TRIAL).read_text("utf-8"))["starts"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        # Nobody knows how often it was started: prefer the model that is known to work.
        return ATTEMPTS


def _prune(folder: Path) -> None:
    """Remove what nothing points to: interrupted installations, and releases before the last good one."""
    current = _read_current(folder)
    kept: set[str | None] = set()
    if current is not None:
        kept = {current.folder.name, current.previous, _name(_last_good(folder, current))}
    for entry in (folder / _RELEASES).glob("*"):
        if entry.name not in kept and (entry.name.isdecimal() or entry.name.startswith(".new-")):
            shutil.rmtree(entry, ignore_errors=True)
    for entry in folder.glob(".current-*"):
        entry.unlink(missing_ok=True)
    for entry in folder.glob(f".{_ROLLED_BACK}.*.part"):
        entry.unlink(missing_ok=True)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One at a time: an installation beside a starting runner. A read-only store is read without the lock."""
    import fcntl

    try:
        handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError:
        yield
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
