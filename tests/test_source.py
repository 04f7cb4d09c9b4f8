"""Sources by their argument: pictures, folders, videos, cameras; real decoders on real files."""

from __future__ import annotations

import os
import sys
import threading
import time
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from edge.errors import InputError
from edge.preprocessing import Pixels
from edge.source import SourceLostError, open_source, public_name
from edge.source.frame import Frame, Source


def everything(source: Source) -> list[Frame]:
    source.open()
    frames = []
    while (frame := source.read()) is not None:
        frames.append(frame)
    source.close()
    return frames


def write_video(path: Path, pictures: list[Pixels], rate: float = 25.0) -> None:
    cv2 = pytest.importorskip("cv2", reason="videos need OpenCV (make test installs it)")
    height, width = pictures[0].shape[:2]
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"MJPG"), rate, (width, height))
    assert writer.isOpened()
    for picture in pictures:
        writer.write(cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))
    writer.release()


def numbered(count: int) -> list[Pixels]:
    """Plain pictures whose red tells their number, 10 apart."""
    return [np.full((48, 64, 3), (10 * number, 128, 60), dtype=np.uint8) for number in range(count)]


def number_of(frame: Frame) -> int:
    return round(float(frame.pixels[..., 0].mean()) / 10)


def test_a_picture_is_one_frame_with_its_own_bytes(tmp_path: Path, leaf: Pixels) -> None:
    path = tmp_path / "leaf.png"
    Image.fromarray(leaf).save(path)
    (frame,) = everything(open_source(str(path)))
    assert np.array_equal(frame.pixels, leaf)
    assert (frame.source, frame.number, frame.fault) == (str(path), 0, "")
    assert frame.encoded == path.read_bytes()


def test_exif_orientation_is_applied_as_the_contract_says(tmp_path: Path, leaf: Pixels) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    path = tmp_path / "turned.jpg"
    Image.fromarray(leaf).save(path, exif=exif)
    shapes = [
        everything(open_source(str(path), exif=policy))[0].pixels.shape for policy in ("apply", "ignore")
    ]
    assert shapes == [(320, 240, 3), (240, 320, 3)]


def test_a_folder_gives_every_picture_and_marks_the_unreadable(tmp_path: Path, leaf: Pixels) -> None:
    Image.fromarray(leaf).save(tmp_path / "a.jpg")
    (tmp_path / "b.jpg").write_bytes((tmp_path / "a.jpg").read_bytes()[:4000])
    (tmp_path / "c.jpg").touch()
    (tmp_path / "notes.txt").write_text("row 3")
    (tmp_path / "sub").mkdir()
    Image.fromarray(leaf).save(tmp_path / "sub" / "d.png")
    frames = everything(open_source(str(tmp_path)))
    assert [(Path(frame.source).name, frame.number, frame.fault) for frame in frames] == [
        ("a.jpg", 0, ""),
        ("b.jpg", 1, "torn"),
        ("c.jpg", 2, "empty"),
        ("d.png", 3, ""),
    ]


@pytest.mark.parametrize("watch", [False, True])
def test_a_pipe_in_a_folder_is_a_torn_frame_and_holds_nothing_up(
    tmp_path: Path, leaf: Pixels, watch: bool
) -> None:
    Image.fromarray(leaf).save(tmp_path / "a.png")
    os.mkfifo(tmp_path / "b.jpg")
    (tmp_path / "c.jpg").symlink_to("/dev/zero")
    source = open_source(str(tmp_path), watch=watch)
    timer = threading.Timer(30, source.stop)
    timer.start()
    frames = [source.read() for _ in range(3)]
    timer.cancel()
    assert [frame and (Path(frame.source).name, frame.fault) for frame in frames] == [
        ("a.png", ""),
        ("b.jpg", "torn"),
        ("c.jpg", "torn"),
    ]


@pytest.mark.parametrize("watch", [False, True])
def test_pictures_of_a_linked_folder_are_frames(tmp_path: Path, leaf: Pixels, watch: bool) -> None:
    (tmp_path / "card").mkdir()
    Image.fromarray(leaf).save(tmp_path / "card" / "a.png")
    (tmp_path / "field").mkdir()
    (tmp_path / "field" / "today").symlink_to(tmp_path / "card")
    source = open_source(str(tmp_path / "field"), watch=watch)
    frame = source.read()
    source.stop()
    assert frame is not None
    assert frame.source == str(tmp_path / "field" / "today" / "a.png")


def test_a_long_address_is_an_address_and_no_file_name() -> None:
    pytest.importorskip("cv2", reason="streams need OpenCV (make test installs it)")
    source = open_source(f"rtsp://127.0.0.1:1/leaf?token={'x' * 400}")
    assert source.name == "rtsp://127.0.0.1:1/leaf"


def test_a_watched_folder_waits_until_a_file_is_whole(tmp_path: Path, leaf: Pixels) -> None:
    Image.fromarray(leaf).save(tmp_path / "first.png")
    whole = (tmp_path / "first.png").read_bytes()
    source = open_source(str(tmp_path), watch=True)
    source.open()
    first = source.read()
    assert first is not None
    assert Path(first.source).name == "first.png"

    def copy_slowly() -> None:
        with (tmp_path / "second.png").open("wb") as file:
            for part in range(40):
                file.write(whole[part * len(whole) // 40 : (part + 1) * len(whole) // 40])
                file.flush()
                time.sleep(0.05)

    copying = threading.Thread(target=copy_slowly)
    copying.start()
    second = source.read()
    copying.join()
    assert second is not None
    assert (Path(second.source).name, second.fault) == ("second.png", "")
    assert np.array_equal(second.pixels, leaf)


def test_a_watched_folder_takes_a_changed_file_again_and_ends_when_told(tmp_path: Path, leaf: Pixels) -> None:
    path = tmp_path / "a.png"
    Image.fromarray(leaf).save(path)
    source = open_source(str(tmp_path), watch=True, done=frozenset([str(path)]))
    threading.Timer(1.2, lambda: Image.fromarray(leaf[::2]).save(path)).start()
    frame = source.read()  # not the first version, which an earlier run has done
    assert frame is not None
    assert frame.pixels.shape == (120, 320, 3)
    threading.Timer(0.3, source.stop).start()
    assert source.read() is None


def test_every_frame_of_a_video_comes_in_order_and_in_rgb(tmp_path: Path) -> None:
    write_video(tmp_path / "video.avi", numbered(20))
    frames = everything(open_source(str(tmp_path / "video.avi"), every_frame=True))
    assert [number_of(frame) for frame in frames] == list(range(20))
    assert [frame.number for frame in frames] == list(range(20))
    red, green, blue = frames[0].pixels.reshape(-1, 3).mean(axis=0)
    assert red < 20
    assert abs(green - 128) < 10
    assert abs(blue - 60) < 10


def test_a_video_plays_at_its_own_pace(tmp_path: Path) -> None:
    write_video(tmp_path / "video.avi", numbered(10), rate=20)
    source = open_source(str(tmp_path / "video.avi"))
    assert source.live
    source.open()
    begun = time.monotonic()
    count = 0
    while source.read() is not None:
        count += 1
    # A lower bound only: a busy machine may be slower, but nothing may be faster than the video.
    assert time.monotonic() - begun >= 9 / 20
    assert count == 10


@pytest.mark.parametrize(
    ("argument", "options", "sentence"),
    [
        ("nowhere.mp4", {}, "no such file"),
        ("nowhere.jpg", {}, "no such file"),
        ("ftp://host/stream", {}, "'ftp' is not a kind of source"),
        ("rtsp://", {}, "not an address with a host"),
        ("http:///x", {}, "not an address with a host"),
        ("v4l2:video0", {}, "give the device's path"),
        ("v4l2:/dev/video0?fps=3", {}, "the only option is the picture's size"),
        ("v4l2:/dev/video0?size=huge", {}, "the only option is the picture's size"),
        ("picamera2:left", {}, "give the camera's number"),
        ("v4l2:/dev/video0", {"every_frame": True}, "cannot all be taken"),
        ("rtsp://host/x", {"watch": True}, "only a folder can be watched"),
    ],
)
def test_an_argument_that_means_nothing_is_refused(
    argument: str, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        open_source(argument, **options)


@pytest.mark.parametrize("content", [b"", b"not a video at all" * 100])
def test_a_file_that_is_no_video_is_refused(tmp_path: Path, content: bytes) -> None:
    pytest.importorskip("cv2", reason="videos need OpenCV (make test installs it)")
    path = tmp_path / "video.mp4"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"video\.mp4: (the file is empty|neither a picture nor a video)"):
        open_source(str(path))


def test_passwords_stay_out_of_names() -> None:
    assert public_name("rtsp://admin:secret@camera:554/live/1?token=abc") == "rtsp://camera:554/live/1"
    assert public_name("http://camera") == "http://camera"
    assert public_name("/home/pi/leaf.jpg") == "/home/pi/leaf.jpg"


def test_without_opencv_a_video_is_refused_with_the_extra_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "video.mp4").write_bytes(b"x")
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(InputError, match=r"mango-leaf-kit\[camera\]"):
        open_source(str(tmp_path / "video.mp4"))


def test_a_camera_that_is_not_plugged_in_is_lost_not_fatal() -> None:
    pytest.importorskip("cv2", reason="V4L2 needs OpenCV (make test installs it)")
    source = open_source("v4l2:/dev/video-that-is-not-there?size=640x480")
    with pytest.raises(SourceLostError, match="plug the camera in"):
        source.open()


class FakeCapture:
    """Stands in for `cv2.VideoCapture` on a V4L2 device and writes down the calls."""

    calls: list[tuple[Any, ...]] = []  # noqa: RUF012 - shared by all instances on purpose
    frame: Any = np.full((48, 64, 3), (50, 100, 200), dtype=np.uint8)
    works = True

    def __init__(self, device: str, backend: int) -> None:
        self.calls.append(("open", device, backend))

    def isOpened(self) -> bool:  # noqa: N802 - OpenCV's name
        return True

    def set(self, name: int, value: float) -> bool:
        self.calls.append(("set", name, value))
        return True

    def grab(self) -> bool:
        return self.works

    def retrieve(self) -> tuple[bool, Any]:
        if isinstance(self.frame, Exception):
            raise self.frame
        return self.frame is not None, self.frame

    def release(self) -> None:
        self.calls.append(("release",))


def test_a_v4l2_camera_keeps_one_buffer_gives_rgb_and_is_lost_when_unplugged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cv2 = pytest.importorskip("cv2", reason="V4L2 needs OpenCV (make test installs it)")
    device = tmp_path / "video0"
    device.touch()
    monkeypatch.setattr(cv2, "VideoCapture", FakeCapture)
    monkeypatch.setattr(FakeCapture, "calls", [])
    source = open_source(f"v4l2:{device}?size=64x48")
    assert source.name == f"v4l2:{device}"
    source.open()
    assert FakeCapture.calls == [
        ("open", str(device), cv2.CAP_V4L2),
        ("set", cv2.CAP_PROP_BUFFERSIZE, 1),
        ("set", cv2.CAP_PROP_FRAME_WIDTH, 64),
        ("set", cv2.CAP_PROP_FRAME_HEIGHT, 48),
    ]
    assert source.skip()
    frame = source.read()
    assert frame is not None
    assert (frame.number, frame.fault) == (1, "")
    assert frame.pixels[0, 0].tolist() == [200, 100, 50]
    for nothing in (None, np.zeros((0, 0, 3), dtype=np.uint8), np.zeros((4, 4), dtype=np.uint8)):
        monkeypatch.setattr(FakeCapture, "frame", nothing)
        frame = source.read()
        assert frame is not None
        assert (frame.fault, frame.pixels.size) == ("empty", 0)
    monkeypatch.setattr(FakeCapture, "frame", cv2.error("Insufficient memory"))
    frame = source.read()
    assert frame is not None
    assert frame.fault == "torn"
    monkeypatch.setattr(FakeCapture, "works", False)
    with pytest.raises(SourceLostError, match="no more frames"):
        source.read()
    device.unlink()
    with pytest.raises(SourceLostError, match="plug the camera in"):
        source.open()
    assert FakeCapture.calls[-1] == ("release",)


class FakePicamera2:
    """Stands in for the hardware and writes down the calls."""

    calls: list[tuple[Any, ...]] = []  # noqa: RUF012 - shared by all instances on purpose
    cameras = 1
    failing = False

    def __init__(self, number: int) -> None:
        self.calls.append(("init", number))

    @staticmethod
    def global_camera_info() -> list[dict[str, Any]]:
        return [{"Num": number} for number in range(FakePicamera2.cameras)]

    def create_video_configuration(self, **options: Any) -> dict[str, Any]:
        self.calls.append(("create_video_configuration", options))
        return options

    def configure(self, configuration: dict[str, Any]) -> None:
        self.calls.append(("configure", configuration["main"]["format"]))

    def start(self) -> None:
        self.calls.append(("start",))

    def capture_array(self, name: str) -> Any:
        self.calls.append(("capture_array", name))
        if self.failing:
            raise RuntimeError("Camera frontend has timed out!")
        return np.full((480, 640, 3), (200, 100, 50), dtype=np.uint8)

    def stop(self) -> None:
        self.calls.append(("stop",))

    def close(self) -> None:
        self.calls.append(("close",))


@pytest.fixture
def picamera2(monkeypatch: pytest.MonkeyPatch) -> type[FakePicamera2]:
    module = types.ModuleType("picamera2")
    module.Picamera2 = FakePicamera2  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "picamera2", module)
    monkeypatch.setattr(FakePicamera2, "calls", [])
    return FakePicamera2


def test_picamera2_is_configured_for_rgb_without_a_queue_and_released(picamera2: type[FakePicamera2]) -> None:
    source = open_source("picamera2:0?size=1280x720")
    assert picamera2.calls == []
    source.open()
    frame = source.read()
    source.close()
    assert frame is not None
    assert frame.pixels[0, 0].tolist() == [200, 100, 50]
    options = {"main": {"size": (1280, 720), "format": "BGR888"}, "buffer_count": 3, "queue": False}
    assert picamera2.calls == [
        ("init", 0),
        ("create_video_configuration", options),
        ("configure", "BGR888"),
        ("start",),
        ("capture_array", "main"),
        ("stop",),
        ("close",),
    ]


def test_a_picamera2_that_fails_is_lost_and_can_be_opened_again(
    picamera2: type[FakePicamera2], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = open_source("picamera2:")
    source.open()
    monkeypatch.setattr(picamera2, "failing", True)
    with pytest.raises(SourceLostError, match="timed out"):
        source.read()
    monkeypatch.setattr(picamera2, "failing", False)
    source.open()
    assert picamera2.calls[-5:-3] == [("close",), ("init", 0)]
    assert source.read() is not None


def test_a_missing_ribbon_cable_is_said(
    picamera2: type[FakePicamera2], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(picamera2, "cameras", 0)
    with pytest.raises(SourceLostError, match="check the ribbon cable"):
        open_source("picamera2:").open()


def test_picamera2_is_imported_only_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "picamera2", None)
    with pytest.raises(InputError, match="sudo apt install python3-picamera2"):
        open_source("picamera2:")
