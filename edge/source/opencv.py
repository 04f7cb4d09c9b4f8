"""Video files, V4L2 cameras and network streams, decoded by OpenCV (the extra `camera`)."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from edge.errors import InputError
from edge.source.frame import NO_PIXELS, Frame, SourceLostError, check_pixels

TIMEOUT_MS = 5000
"""A stream that gives nothing for this long is lost, milliseconds."""

_FALLBACK_RATE = 25.0  # frames a second, of a video file that does not say


def load_opencv() -> Any:
    """Import OpenCV without its messages on standard error; raises InputError where it is missing."""
    # Set before the import: the library reads them once. What matters of a failure is logged by the runner.
    os.environ.setdefault("OPENCV_LOG_LEVEL", "SILENT")
    os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")
    try:
        import cv2
    except ModuleNotFoundError:
        raise InputError(
            "cameras, streams and video files need OpenCV, which is not installed;"
            " install the extra: pip install 'mango-leaf-kit[camera]'"
        ) from None
    except ImportError as error:
        raise InputError(
            f"OpenCV is installed but cannot be imported ({' '.join(str(error).split())})"
        ) from None
    # One frame a second needs no thread for each core, and each has a stack in memory.
    cv2.setNumThreads(1)
    return cv2


class _Capture:
    """What the three kinds share: `cv2.VideoCapture`, numbering, and frames turned to RGB."""

    live = True
    camera = True

    def __init__(self, name: str) -> None:
        self.name = name
        self._cv2 = load_opencv()
        self._capture: Any = None
        self._number = 0

    def open(self) -> None:
        """Begin; raises SourceLostError."""
        self.close()
        capture = self._begin()
        if not capture.isOpened():
            capture.release()
            raise SourceLostError(self._why_closed())
        self._capture = capture

    def close(self) -> None:
        """Release the device or stream."""
        if self._capture is not None:
            self._capture.release()
            self._capture = None

    def stop(self) -> None:
        """Nothing to do: OpenCV's own timeouts end its waits."""

    def skip(self) -> bool:
        """Take a frame off the source without converting it."""
        if not self._capture.grab():
            return self._ended()
        self._number += 1
        return True

    def read(self) -> Frame | None:
        """The next frame, RGB."""
        begun = time.perf_counter()
        if not self._capture.grab():
            self._ended()
            return None
        taken, grabbed = time.monotonic(), time.perf_counter()
        try:
            good, decoded = self._capture.retrieve()
            fault = check_pixels(decoded) if good else "empty"
        except self._cv2.error:  # a frame whose data do not fit its format
            fault, decoded = "torn", None
        pixels = NO_PIXELS if fault else self._cv2.cvtColor(decoded, self._cv2.COLOR_BGR2RGB)
        done = time.perf_counter()
        frame = Frame(
            self._number,
            self.name,
            np.asarray(pixels, dtype=np.uint8),
            taken,
            fault,
            stage_ms={"capture": 1e3 * (grabbed - begun), "decode": 1e3 * (done - grabbed)},
        )
        self._number += 1
        return frame

    def _begin(self) -> Any:
        raise NotImplementedError

    def _why_closed(self) -> str:
        raise NotImplementedError

    def _ended(self) -> bool:
        raise SourceLostError("it gives no more frames")


class VideoFile(_Capture):
    """A video file: at its own pace, where only the newest frame counts, or every frame as fast as wanted."""

    camera = False

    def __init__(self, path: Path, every_frame: bool) -> None:
        super().__init__(str(path))
        self._path = path
        self.live = not every_frame
        self._rate = _FALLBACK_RATE
        self._begun = 0.0
        try:
            with path.open("rb") as file:
                empty = not file.read(1)
        except OSError as error:
            raise InputError(f"{path}: the video cannot be read ({error.strerror or error})") from None
        if empty:
            raise InputError(f"{path}: the file is empty; copy it again from the camera")
        try:
            self.open()
        except SourceLostError as lost:
            raise InputError(str(lost)) from None

    def open(self) -> None:
        """Begin at the first frame."""
        super().open()
        rate = float(self._capture.get(self._cv2.CAP_PROP_FPS))
        self._rate = rate if 0.01 <= rate <= 1000 else _FALLBACK_RATE
        self._begun = time.monotonic()
        self._number = 0

    def read(self) -> Frame | None:
        """The next frame; None after the last."""
        self._pace()
        return super().read()

    def skip(self) -> bool:
        """Let a frame pass at the video's pace; False after the last."""
        self._pace()
        return super().skip()

    def _pace(self) -> None:
        if self.live:
            time.sleep(max(0.0, self._begun + self._number / self._rate - time.monotonic()))

    def _begin(self) -> Any:
        return self._cv2.VideoCapture(str(self._path), self._cv2.CAP_FFMPEG)

    def _why_closed(self) -> str:
        return f"{self._path}: neither a picture nor a video that OpenCV can decode"

    def _ended(self) -> bool:
        return False


class V4L2Camera(_Capture):
    """A camera of Video4Linux: a USB camera, or anything else behind /dev/video*."""

    def __init__(self, device: str, size: tuple[int, int] | None) -> None:
        super().__init__(f"v4l2:{device}")
        self._device = device
        self._size = size

    def _begin(self) -> Any:
        if not os.path.exists(self._device):
            raise SourceLostError(
                f"{self._device} is not there; plug the camera in, or look with: ls /dev/video*"
            )
        if not os.access(self._device, os.R_OK | os.W_OK):
            raise SourceLostError(
                f"{self._device} may not be used by this user; add it to the group video"
                " (sudo usermod -aG video USER)"
            )
        capture = self._cv2.VideoCapture(self._device, self._cv2.CAP_V4L2)
        # The driver keeps several filled buffers by default: frames that are old when they are read.
        capture.set(self._cv2.CAP_PROP_BUFFERSIZE, 1)
        if self._size is not None:
            capture.set(self._cv2.CAP_PROP_FRAME_WIDTH, self._size[0])
            capture.set(self._cv2.CAP_PROP_FRAME_HEIGHT, self._size[1])
        return capture

    def _why_closed(self) -> str:
        return f"{self._device} does not open as a camera; it may be in use by another program"


class Stream(_Capture):
    """A network stream: RTSP (over TCP) or HTTP (MJPEG, MPEG-TS, ...)."""

    def __init__(self, url: str, name: str) -> None:
        super().__init__(name)
        self._url = url

    def _begin(self) -> Any:
        cv2 = self._cv2
        limits = [cv2.CAP_PROP_OPEN_TIMEOUT_MSEC, TIMEOUT_MS, cv2.CAP_PROP_READ_TIMEOUT_MSEC, TIMEOUT_MS]
        return cv2.VideoCapture(self._url, cv2.CAP_FFMPEG, limits)

    def _why_closed(self) -> str:
        return f"{self.name} cannot be reached; check the camera, the network and the address"
