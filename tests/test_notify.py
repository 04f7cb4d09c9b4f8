"""The service manager hears when the service is ready, alive and stopping."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge import notify


@pytest.fixture(params=["path", "abstract"])
def manager(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[socket.socket]:
    """A datagram socket that stands where systemd's would, by path and in the abstract namespace."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        name = str(tmp_path / "notify") if request.param == "path" else f"@mango-test-{os.getpid()}"
        listener.bind(name if name.startswith("/") else "\0" + name[1:])
        listener.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        yield listener


def received(manager: socket.socket) -> list[str]:
    return manager.recv(4096).decode().split("\n")


def test_each_message_is_one_datagram_of_assignments(manager: socket.socket) -> None:
    assert notify.ready("model lcnn-int8, waiting for frames")
    assert received(manager) == ["READY=1", "STATUS=model lcnn-int8, waiting for frames"]
    assert notify.watchdog()
    assert received(manager) == ["WATCHDOG=1"]
    assert notify.status("camera away")
    assert received(manager) == ["STATUS=camera away"]
    assert notify.extend(2.5)
    assert received(manager) == ["EXTEND_TIMEOUT_USEC=2500000"]
    assert notify.reloading()
    assert received(manager)[0] == "RELOADING=1"
    assert notify.stopping()
    assert received(manager) == ["STOPPING=1"]


def test_a_status_cannot_smuggle_in_an_assignment(manager: socket.socket) -> None:
    assert notify.status("frames 12\nREADY=1\r\nMAINPID=1")
    assert received(manager) == ["STATUS=frames 12 READY=1 MAINPID=1"]


def test_an_empty_status_is_not_sent(manager: socket.socket) -> None:
    assert not notify.status("  \n")
    assert notify.watchdog()
    assert received(manager) == ["WATCHDOG=1"]


@pytest.mark.parametrize("address", ["", "relative/socket", "vsock:2:1234"])
def test_without_a_manager_nothing_is_sent(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    assert not notify.ready()
    monkeypatch.delenv("NOTIFY_SOCKET")
    assert not notify.ready()


def test_a_manager_that_went_away_does_not_stop_the_service(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "gone"))
    assert not notify.watchdog()
    monkeypatch.setenv("NOTIFY_SOCKET", "/" + "long" * 100)
    assert not notify.watchdog()


def test_the_watchdog_is_fed_twice_as_often_as_systemd_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "30000000")
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    assert notify.watchdog_interval() == 15.0
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
    assert notify.watchdog_interval() == 15.0
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid() + 1))
    assert notify.watchdog_interval() is None


@pytest.mark.parametrize("value", ["", "0", "-5", "soon"])
def test_a_watchdog_setting_that_is_no_time_means_no_watchdog(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    monkeypatch.setenv("WATCHDOG_USEC", value)
    assert notify.watchdog_interval() is None
