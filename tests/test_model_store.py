"""A device always has a whole model to run: whatever is installed, fails, or is cut off halfway."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Command

pytest.importorskip("cryptography", reason="signatures need the package cryptography")

from convert.signing import make_keys, sign_model
from edge import model_store
from edge.classifier import DEFAULT_MODEL
from edge.contract import Contract, read_contract, read_model, write_model
from edge.errors import InputError
from edge.files import sha256
from edge.model_store import (
    ATTEMPTS,
    Candidate,
    confirm,
    current_model,
    install,
    read_candidate,
    read_status,
    rollback,
)
from edge.signature import read_private_key, signed

Change = Callable[[Contract], Contract]


def passes(path: Path) -> str:
    assert path.exists()
    return "passed"


def fails(path: Path) -> str:
    raise InputError(f"{path}: self-test failed")


class Releases:
    """Signed releases made on demand; `store` is empty at first, `default` stands for the shipped model."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.store, self.default = folder, folder / "store", folder / "shipped.tflite"
        self.key = folder / "release.pub.pem"
        make_keys(folder / "release.pem", self.key)
        shutil.copy(DEFAULT_MODEL, self.default)

    def file(self, number: int, change: Change = lambda contract: contract) -> Path:
        model = read_model(DEFAULT_MODEL)
        path = self.folder / f"release-{number}.tflite"
        contract = dataclasses.replace(model.contract, extra={"release": number})
        write_model(path, model.flatbuffer, change(contract))
        path.write_bytes(signed(path.read_bytes(), read_private_key(self.folder / "release.pem")))
        return path

    def candidate(self, number: int, change: Change = lambda contract: contract) -> Candidate:
        return read_candidate(self.file(number, change), self.key)

    def install(self, number: int) -> Path:
        return install(self.store, self.candidate(number), default=self.default, test=passes)[0].path

    def start(self, test: model_store.SelfTest = passes) -> Path:
        """What the runner does when it starts."""
        return current_model(self.store, self.default, test)

    def run(self, number: int) -> Path:
        """Install, start and confirm."""
        path = self.install(number)
        assert self.start() == path
        assert confirm(self.store, path)
        return path


@pytest.fixture
def releases(tmp_path: Path) -> Releases:
    return Releases(tmp_path)


def number_of(path: Path) -> int:
    return int(read_contract(path).extra.get("release", 0))


def refusal(act: Callable[[], object], words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        act()
    assert "\n" not in str(caught.value)


def test_an_empty_store_means_the_shipped_model(releases: Releases) -> None:
    assert releases.start() == releases.default
    assert not confirm(releases.store)
    refusal(lambda: rollback(releases.store), "no release is installed")


def test_a_release_is_on_trial_until_the_runner_confirms_it(releases: Releases) -> None:
    path = releases.install(1)
    assert read_status(releases.store).current.starts == 0  # type: ignore[union-attr]
    assert releases.start() == path
    assert read_status(releases.store).current.starts == 1  # type: ignore[union-attr]
    assert confirm(releases.store, path)
    assert not read_status(releases.store).current.on_trial  # type: ignore[union-attr]
    assert not confirm(releases.store, path)
    assert path.read_bytes() == releases.file(1).read_bytes()


def test_a_release_that_never_gets_healthy_gives_way_to_the_last_good_one(releases: Releases) -> None:
    good, bad = releases.run(1), releases.install(2)
    assert [releases.start() for _ in range(ATTEMPTS)] == [bad] * ATTEMPTS
    assert releases.start() == good
    status = read_status(releases.store)
    assert (status.current.number, status.current.on_trial) == (1, False)  # type: ignore[union-attr]
    assert status.rolled_back is not None
    assert status.rolled_back["release"] == 2
    assert "never reported itself healthy" in status.rolled_back["why"]
    assert releases.start() == good


def test_the_first_release_falls_back_on_the_shipped_model(releases: Releases) -> None:
    releases.install(1)
    assert releases.start(fails) == releases.default
    assert read_status(releases.store).current is None


def test_a_failed_self_test_on_the_device_changes_nothing(releases: Releases) -> None:
    good = releases.run(1)
    before = sorted(releases.store.rglob("*"))
    refusal(
        lambda: install(releases.store, releases.candidate(2), default=releases.default, test=fails),
        "self-test failed",
    )
    assert sorted(releases.store.rglob("*")) == before
    assert releases.start() == good


def test_a_self_test_that_fails_at_the_start_rolls_back(releases: Releases) -> None:
    good = releases.run(1)
    releases.install(2)
    assert releases.start(fails) == good  # for example after the runtime was updated


def test_older_and_equal_releases_are_refused(releases: Releases) -> None:
    releases.run(5)
    for number in (4, 5):
        other = releases.candidate(
            number, lambda contract: dataclasses.replace(contract, macs=contract.macs + 1)
        )
        refusal(lambda other=other: install(releases.store, other, test=passes), "release 5 is installed")  # type: ignore[misc]
    release, found = install(releases.store, releases.candidate(5), test=passes)
    assert (release.number, found) == (5, "is installed already")


def test_a_release_older_than_the_shipped_model_is_refused(releases: Releases) -> None:
    shutil.copy(releases.file(9), releases.default)
    refusal(
        lambda: install(releases.store, releases.candidate(8), default=releases.default, test=passes),
        "release 9 is installed",
    )


def test_other_labels_or_input_need_consent(releases: Releases) -> None:
    releases.run(1)
    renamed = releases.candidate(
        2, lambda contract: dataclasses.replace(contract, labels=(*contract.labels[:-1], "Rust"))
    )
    cropped = releases.candidate(
        3,
        lambda contract: dataclasses.replace(contract, input=dataclasses.replace(contract.input, fit="crop")),
    )
    refusal(lambda: install(releases.store, renamed, test=passes), "its labels .*Rust.*--allow-other-shape")
    refusal(lambda: install(releases.store, cropped, test=passes), "its input .*crop.*--allow-other-shape")
    install(releases.store, renamed, allow_other_shape=True, test=passes)
    assert read_contract(releases.start()).labels[-1] == "Rust"


def test_only_genuine_whole_numbered_files_become_candidates(releases: Releases, tmp_path: Path) -> None:
    good = releases.file(1).read_bytes()
    for name, data, words in (
        ("tampered", good[:5000] + b"x" + good[5001:], "does not match its signature"),
        ("truncated", good[:-1], "carries no signature"),
        ("unsigned", DEFAULT_MODEL.read_bytes(), "carries no signature"),
        ("empty", b"", "carries no signature"),
    ):
        path = tmp_path / name
        path.write_bytes(data)
        refusal(lambda path=path: read_candidate(path, releases.key), words)  # type: ignore[misc]
    make_keys(tmp_path / "o.pem", tmp_path / "o.pub.pem")
    refusal(lambda: read_candidate(releases.file(1), tmp_path / "o.pub.pem"), "signed with key")
    refusal(lambda: read_candidate(tmp_path / "absent", releases.key), "no such model file")
    refusal(lambda: read_candidate(tmp_path, releases.key), "a folder, not a model file")
    for number in (0, -3, 1.5, "7", True):
        broken = releases.file(
            1, lambda contract, number=number: dataclasses.replace(contract, extra={"release": number})
        )  # type: ignore[misc]
        refusal(lambda broken=broken: read_candidate(broken, releases.key), "release number")  # type: ignore[misc]


def test_rollback_goes_back_and_the_number_may_be_installed_again(releases: Releases) -> None:
    one, _ = releases.run(1), releases.run(2)
    assert rollback(releases.store).path == one  # type: ignore[union-attr]
    assert releases.start() == one
    assert rollback(releases.store) is None
    assert releases.start() == releases.default
    assert number_of(releases.run(2)) == 2


def test_confirming_says_nothing_about_a_release_installed_meanwhile(releases: Releases) -> None:
    old = releases.install(1)
    assert releases.start() == old
    releases.install(2)  # while the runner still works with release 1
    assert not confirm(releases.store, old)
    assert not confirm(releases.store)  # never started
    assert read_status(releases.store).current.on_trial  # type: ignore[union-attr]


def test_an_unproven_release_is_never_the_one_to_go_back_to(releases: Releases) -> None:
    good = releases.run(1)
    releases.install(2)  # never started
    releases.install(3)
    assert releases.start(fails) == good


def test_a_release_damaged_on_the_card_is_given_up(releases: Releases) -> None:
    good, path = releases.run(1), releases.run(2)
    data = bytearray(path.read_bytes())
    data[1000] ^= 8
    path.write_bytes(data)
    assert releases.start() == good
    assert "damaged" in read_status(releases.store).rolled_back["why"]  # type: ignore[index]
    shutil.rmtree(good.parent)
    assert releases.start() == releases.default


def test_a_torn_record_or_trial_counts_against_the_release(releases: Releases) -> None:
    good = releases.run(1)
    for name in ("trial", "release.json"):
        path = releases.install(2)
        (path.parent / name).write_bytes(b"")
        assert releases.start() == good


def test_a_link_to_nowhere_or_somewhere_else_is_not_followed(releases: Releases, tmp_path: Path) -> None:
    good = releases.run(1)
    link = releases.store / "current"
    link.unlink()
    link.symlink_to("releases/77")
    assert releases.start() == good
    link.unlink()
    link.symlink_to("/etc/passwd")
    assert releases.start() == releases.default


def test_old_releases_are_removed_and_the_last_good_one_kept(releases: Releases) -> None:
    for number in range(1, 6):
        releases.run(number)
    kept = sorted(number_of(path) for path in releases.store.glob("releases/*/model.tflite"))
    assert kept == [4, 5]
    (releases.store / "releases" / ".new-1234").mkdir()
    releases.run(6)
    assert sorted(path.name for path in (releases.store / "releases").iterdir()) == ["5", "6"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_card_that_cannot_be_written_leaves_the_good_model_running(
    releases: Releases, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    good = releases.run(1)
    releases.install(2)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(code, os.strerror(code))

    candidate = releases.candidate(3)
    monkeypatch.setattr(model_store, "write_atomic", full)
    assert releases.start() == good  # a trial whose starts cannot be counted is not begun
    with pytest.raises(OSError, match=os.strerror(code)):
        install(releases.store, candidate, default=releases.default, test=passes)
    monkeypatch.undo()
    assert number_of(releases.start()) == 2


def test_an_installation_waits_for_the_one_before(releases: Releases) -> None:
    candidates = [releases.candidate(number) for number in (1, 2)]
    inside, let_go, order = threading.Event(), threading.Event(), []

    def slow(path: Path) -> str:
        inside.set()
        let_go.wait(20)
        order.append("first")
        return "passed"

    def second(path: Path) -> str:
        order.append("second")
        return "passed"

    workers = [
        threading.Thread(target=install, args=(releases.store, candidate), kwargs={"test": test})
        for candidate, test in zip(candidates, (slow, second), strict=True)
    ]
    workers[0].start()
    assert inside.wait(20)
    workers[1].start()
    let_go.set()
    for worker in workers:
        worker.join(20)
    assert order == ["first", "second"]
    assert number_of(releases.start()) == 2


OPERATIONS = ("rename", "replace", "symlink", "unlink", "mkdir", "rmdir", "fsync", "close")
"""Calls of the system before which the power may fail."""


def cut_power_at(step: int, act: Callable[[], object], store: Path) -> bool:
    """Do `act` in a process that dies before its step-th system call, losing all data that was not synced.

    Returns:
        Whether it died; otherwise it had fewer steps.
    """
    known = {path.stat().st_ino for path in store.rglob("*") if path.is_file() and not path.is_symlink()}
    child = os.fork()
    if child == 0:
        synced: set[int] = set()
        count = 0

        def wrapped(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any, **options: Any) -> Any:
                nonlocal count
                count += 1
                if count == step:
                    for path in store.rglob("*"):
                        if (
                            path.is_file()
                            and not path.is_symlink()
                            and path.stat().st_ino not in known | synced
                        ):
                            os.truncate(path, 0)
                    os._exit(137)
                if name == "fsync":
                    synced.add(os.fstat(arguments[0]).st_ino)
                return real(*arguments, **options)

            return call

        try:
            for name in OPERATIONS:
                setattr(os, name, wrapped(name, getattr(os, name)))
            act()
        except BaseException:
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, 137), f"step {step}: ended with {code}"
    return code == 137


@pytest.mark.parametrize("operation", ["install", "start", "confirm", "roll back", "give up"])
def test_power_that_fails_at_any_step_leaves_a_whole_model(
    releases: Releases, tmp_path: Path, operation: str
) -> None:
    releases.run(1)
    candidate, newer = releases.candidate(2), releases.candidate(3)
    if operation == "roll back":
        releases.run(2)
    elif operation != "install":
        releases.install(2)
    if operation == "confirm":
        releases.start()
    prepared = tmp_path / "prepared"
    shutil.copytree(releases.store, prepared, symlinks=True)
    acts: dict[str, Callable[[], object]] = {
        "install": lambda: install(releases.store, candidate, default=releases.default, test=passes),
        "start": releases.start,
        "confirm": lambda: confirm(releases.store),
        "roll back": lambda: rollback(releases.store),
        "give up": lambda: releases.start(fails),
    }
    digests = {1: sha256(releases.file(1).read_bytes()), 2: candidate.digest}
    steps = 0
    while cut_power_at(steps + 1, acts[operation], releases.store):
        steps += 1
        # The board starts again: there is a whole release to run, the old one or the new one.
        path = releases.start()
        assert sha256(path.read_bytes()) in digests.values(), f"{operation}, step {steps}: {path}"
        good = read_status(releases.store).previous
        if number_of(path) == 2 and operation != "confirm":
            assert good is not None
            assert good.number == 1
        # And the store works on.
        assert number_of(install(releases.store, newer, default=releases.default, test=passes)[0].path) == 3
        assert number_of(releases.start()) == 3
        shutil.rmtree(releases.store)
        shutil.copytree(prepared, releases.store, symlinks=True)
    assert steps >= {"install": 15, "start": 3, "confirm": 3, "roll back": 5, "give up": 8}[operation]


def test_the_commands_install_show_and_go_back(command: Command, tmp_path: Path) -> None:
    make_keys(tmp_path / "k.pem", tmp_path / "k.pub.pem")
    made = sign_model(DEFAULT_MODEL, tmp_path / "k.pem", 1, tmp_path / "one.tflite")
    store = ("--store", tmp_path / "store")
    done = command("mango-edge", "model", "install", made.path, "--key", tmp_path / "k.pub.pem", *store)
    assert done.returncode == 0, done.stderr
    assert "4 golden outputs agree" in done.stdout
    done = command("mango-edge", "model", "status", "--json", *store)
    status = json.loads(done.stdout)
    assert (status["current"]["release"], status["current"]["on_trial"]) == (1, True)
    made.path.write_bytes(made.path.read_bytes()[:-1] + b"!")
    done = command("mango-edge", "model", "install", made.path, "--key", tmp_path / "k.pub.pem", *store)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "the model that the package ships" in command("mango-edge", "model", "rollback", *store).stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give up its rights")
def test_root_installs_as_the_user_that_the_store_belongs_to(releases: Releases, tmp_path: Path) -> None:
    file = releases.file(1)
    store = tmp_path / "var" / "models"
    store.mkdir(parents=True)
    nobody = 65534
    os.chown(store, nobody, nobody)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.owner() == "root" and folder not in (Path("/"), Path("/tmp")):
            folder.chmod(folder.stat().st_mode | 0o055)
    file.chmod(0o600)  # for root's eyes alone
    program = (
        "import sys; from pathlib import Path; from edge.cli.model import _become_owner;"
        "from edge.model_store import install, read_candidate;"
        "c = read_candidate(sys.argv[1], sys.argv[2]); _become_owner(Path(sys.argv[3]));"
        "install(sys.argv[3], c, test=lambda path: 'passed')"
    )
    subprocess.run(
        [sys.executable, "-c", program, file, releases.key, store],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
        timeout=120,
    )
    assert {path.lstat().st_uid for path in store.rglob("*")} == {nobody}
