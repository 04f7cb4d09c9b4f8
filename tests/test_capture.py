"""Capture apart from inference: newest frames, nothing dropped from files, outages, frozen frames, a real stream."""

from __future__ import annotations

import logging
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from rtsp import RtspServer
from test_source import number_of, numbered, write_video

from edge.capture import FROZEN_AFTER, GIVE_UP_AFTER, Capture, Retry
from edge.errors import InputError
from edge.source import Frame, SourceLostError, open_source

QUICK = Retry(first=0.01, last=0.04, steady_s=0.05)


class Scripted:
    """A source that follows a script: a function of the frame's number that returns pixels or raises."""

    name = "scripted"

    def __init__(
        self,
        script: Callable[[int], np.ndarray],
        live: bool = True,
        period: float = 0.002,
        camera: bool = True,
    ) -> None:
        self.live, self.camera, self.period, self.script = live, camera, period, script
        self.number = self.opened = self.read_frames = 0

    def open(self) -> None:
        self.opened += 1

    def read(self) -> Frame | None:
        time.sleep(self.period)
        number, self.number = self.number, self.number + 1
        self.read_frames += 1
        try:
            pixels = self.script(number)
        except StopIteration:
            return None
        return Frame(number, self.name, pixels, time.monotonic(), "" if pixels.size else "empty")

    def skip(self) -> bool:
        time.sleep(self.period)
        self.number += 1
        return True

    def stop(self) -> None:
        pass

    def close(self) -> None:
        pass


def noise(number: int) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 256, (8, 8, 3), dtype=np.uint8)


@pytest.fixture
def captured() -> Iterator[Callable[..., Capture[Frame]]]:
    made: list[Capture[Frame]] = []

    def start(source: object, on_demand: bool = False, retry: Retry = QUICK) -> Capture[Frame]:
        capture: Capture[Frame] = Capture(source, lambda frame: frame, on_demand, retry)  # type: ignore[arg-type]
        capture.start()
        made.append(capture)
        return capture

    yield start
    for capture in made:
        capture.stop(5)


Start = Callable[..., Capture[Frame]]


def test_a_slow_reader_gets_the_newest_frame_never_an_old_one(captured: Start) -> None:
    source = Scripted(noise)
    capture = captured(source)
    for _ in range(3):
        time.sleep(0.1)
        before = source.number
        frame = capture.next(5)
        assert frame is not None
        # One may have been taken between the two lines; a queue would lag by dozens.
        assert frame.number >= before - 2
    assert capture.passed_over > 20


def test_on_demand_converts_only_what_is_asked_for(captured: Start) -> None:
    source = Scripted(noise)
    capture = captured(source, on_demand=True)
    numbers = []
    for _ in range(4):
        asked = time.monotonic()
        frame = capture.next(5)
        assert frame is not None
        assert frame.taken >= asked
        numbers.append(frame.number)
        time.sleep(0.05)
    assert source.read_frames == 4
    assert numbers[-1] > 4


def test_files_are_never_dropped_however_slow_the_reader(captured: Start) -> None:
    def twenty(number: int) -> np.ndarray:
        if number == 20:
            raise StopIteration
        return noise(number)

    capture = captured(Scripted(twenty, live=False, period=0, camera=False))
    numbers = []
    while not capture.ended:
        frame = capture.next(1)
        if frame is not None:
            numbers.append(frame.number)
            time.sleep(0.005)
    assert numbers == list(range(20))


def events(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.kit_fields["event"] for record in caplog.records if hasattr(record, "kit_fields")]  # type: ignore[attr-defined]


def test_an_outage_is_logged_once_however_often_the_camera_fails(
    captured: Start, caplog: pytest.LogCaptureFixture
) -> None:
    def flapping(number: int) -> np.ndarray:
        if number < 100 and number % 3 == 2:
            raise SourceLostError("the cable is loose")
        return noise(number)

    caplog.set_level(logging.INFO, logger="edge")
    source = Scripted(flapping)
    capture = captured(source)
    until = time.monotonic() + 20
    while events(caplog) != ["source-lost", "source-back"] and time.monotonic() < until:
        capture.next(0.1)
    assert events(caplog) == ["source-lost", "source-back"]
    assert source.opened > 20
    assert capture.outages == 1
    back = caplog.records[-1].kit_fields  # type: ignore[attr-defined]
    assert back["attempts"] > 20


def test_waiting_doubles_up_to_its_limit(captured: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    source = Scripted(noise)

    def failing() -> None:
        waits.append(time.monotonic())
        raise SourceLostError("gone")

    monkeypatch.setattr(source, "open", failing)
    captured(source, retry=Retry(first=0.05, last=0.2, steady_s=1))
    while len(waits) < 6:
        time.sleep(0.01)
    # Lower bounds only: the machine may be busy.
    for gap, least in zip(np.diff(waits), (0.05, 0.1, 0.2, 0.2, 0.2), strict=False):
        assert gap >= least - 0.005


def test_a_source_that_must_be_there_at_once_is_given_up(captured: Start) -> None:
    def gone(_: int) -> np.ndarray:
        raise SourceLostError("no such device")

    capture = captured(Scripted(gone), retry=Retry(attempts=1))
    while not capture.ended:
        time.sleep(0.01)
    with pytest.raises(InputError, match="scripted: no such device"):
        capture.next(1)


def test_frozen_frames_are_marked_and_the_camera_is_opened_anew(captured: Start) -> None:
    still = noise(0)
    source = Scripted(lambda number: still if number >= 3 else noise(number + 1))
    capture = captured(source)
    faults: dict[int, str] = {}
    while source.opened < 2:
        frame = capture.next(5)
        assert frame is not None
        faults[frame.number] = frame.fault
    frozen_from = 3 + FROZEN_AFTER
    assert all(fault == ("frozen" if number >= frozen_from else "") for number, fault in faults.items())
    assert "frozen" in faults.values()
    assert source.number >= frozen_from + GIVE_UP_AFTER


def test_equal_frames_of_a_video_are_not_frozen(captured: Start) -> None:
    source = Scripted(lambda number: noise(0), camera=False)
    capture = captured(source)
    while source.number < 2 * GIVE_UP_AFTER:
        frame = capture.next(5)
        assert frame is not None
        assert frame.fault == ""
    assert source.opened == 1


def test_a_camera_that_gives_empty_frames_is_opened_anew(captured: Start) -> None:
    source = Scripted(lambda number: np.zeros((0, 0, 3), dtype=np.uint8))
    capture = captured(source)
    while source.opened < 3:
        frame = capture.next(5)
        assert frame is None or frame.fault == "empty"
    assert capture.outages == 1


def test_a_source_stuck_in_its_driver_is_noticed_and_does_not_hold_up_the_end(captured: Start) -> None:
    stuck = threading.Event()

    def hang(_: int) -> np.ndarray:
        stuck.wait(20)
        raise StopIteration

    capture = captured(Scripted(hang))
    time.sleep(0.2)
    assert time.monotonic() - capture.beat >= 0.19
    assert capture.stop(0.05) is False
    stuck.set()
    assert capture.stop(10) is True


@pytest.fixture
def ffmpeg_server(tmp_path: Path) -> Iterator[Callable[[int], subprocess.Popen[bytes]]]:
    """Start an ffmpeg that serves a looped video as MJPEG over HTTP to one client at the given port."""
    program = shutil.which("ffmpeg")
    if program is None:
        pytest.skip("ffmpeg is not installed (apt install ffmpeg)")
    write_video(tmp_path / "video.avi", numbered(20), rate=20)
    running: list[subprocess.Popen[bytes]] = []

    def serve(port: int) -> subprocess.Popen[bytes]:
        command = (
            f"{program} -loglevel quiet -re -stream_loop -1 -i {tmp_path / 'video.avi'} -c copy -f mpjpeg"
        )
        server = subprocess.Popen([*command.split(), "-listen", "1", f"http://127.0.0.1:{port}/feed"])
        running.append(server)
        return server

    yield serve
    for server in running:
        server.kill()
        server.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_a_stream_that_drops_is_picked_up_again_and_logged_once(
    captured: Start,
    ffmpeg_server: Callable[[int], subprocess.Popen[bytes]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="edge")
    port = free_port()
    server = ffmpeg_server(port)
    source = open_source(f"http://user:secret@127.0.0.1:{port}/feed")
    assert "secret" not in source.name
    capture = captured(source, retry=Retry(first=0.1, last=0.4, steady_s=0.2))

    def frames(count: int) -> list[Frame]:
        found: list[Frame] = []
        until = time.monotonic() + 30
        while len(found) < count and time.monotonic() < until:
            frame = capture.next(1)
            if frame is not None:
                found.append(frame)
        assert len(found) == count
        return found

    first = frames(5)
    assert all(number_of(frame) in range(20) and frame.fault == "" for frame in first)
    server.kill()
    server.wait()
    until = time.monotonic() + 30
    while "source-lost" not in events(caplog) and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(1)  # several attempts in vain
    ffmpeg_server(port)
    again = frames(8)
    assert again[-1].number > first[-1].number
    until = time.monotonic() + 30
    while "source-back" not in events(caplog) and time.monotonic() < until:
        capture.next(1)
    # The server may not have been up at the very first attempt either: an outage of its own, before any frame.
    assert events(caplog)[-2:] == ["source-lost", "source-back"]
    assert events(caplog).count("source-lost") == events(caplog).count("source-back") <= 2
    assert "secret" not in caplog.text


def test_an_rtsp_stream_is_decoded_and_picked_up_again(tmp_path: Path, captured: Start) -> None:
    program = shutil.which("ffmpeg")
    if program is None:
        pytest.skip("ffmpeg is not installed (apt install ffmpeg)")
    write_video(tmp_path / "video.avi", numbered(20), rate=20)
    server = RtspServer(program, tmp_path / "video.avi")
    port = server.server_address[1]
    try:
        source = open_source(f"rtsp://user:secret@127.0.0.1:{port}/live/1")
        assert source.name == f"rtsp://127.0.0.1:{port}/live/1"
        capture = captured(source, retry=Retry(first=0.1, last=0.4, steady_s=0.2))
        for server_number in range(2):
            found: list[int] = []
            until = time.monotonic() + 60
            while len(found) < 6 and time.monotonic() < until:
                frame = capture.next(1)
                if frame is not None:
                    found.append(number_of(frame))
            assert len(found) == 6
            assert len(set(found)) > 2
            assert server.asked[:2] == ["OPTIONS", "DESCRIBE"]
            if server_number == 0:
                server.close()
                while not capture.lost_for:
                    capture.next(0.1)
                server = RtspServer(program, tmp_path / "video.avi", port)
    finally:
        server.close()
