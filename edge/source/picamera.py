"""The Raspberry Pi's own camera through picamera2, which is imported only when it is asked for."""

from __future__ import annotations

import importlib
import time
from typing import Any

import numpy as np

from edge.errors import InputError
from edge.source.frame import NO_PIXELS, Frame, SourceLostError, check_pixels

DEFAULT_SIZE = (640, 480)
"""Width and height asked of the camera: enough for a 224x224 input, and cheap to convert."""

_PAUSE_S = 0.05


class PiCamera:
    """A camera of libcamera. It keeps no queue (`queue=False`): a read waits for the next exposure.

    Raises:
        InputError: picamera2 is missing.
    """

    live = True
    camera = True

    def __init__(self, number: int = 0, size: tuple[int, int] | None = None) -> None:
        self.name = f"picamera2:{number}"
        self._index = number
        self._size = size or DEFAULT_SIZE
        self._camera: Any = None
        self._number = 0
        try:
            self._module = importlib.import_module("picamera2")
        except ModuleNotFoundError:
            raise InputError(
                "picamera2 is not installed; on Raspberry Pi OS: sudo apt install python3-picamera2, and make the"
                " virtual environment with --system-site-packages"
            ) from None
        # It loads libcamera's bindings, which fail in their own ways on another system or Python.
        except Exception as error:
            raise InputError(
                f"picamera2 is installed but cannot be imported ({' '.join(str(error).split())}); use the Python"
                " of Raspberry Pi OS that it was built for"
            ) from None

    def open(self) -> None:
        """Configure and start the camera; raises SourceLostError."""
        self.close()
        try:
            cameras = self._module.Picamera2.global_camera_info()
            if self._index >= len(cameras):
                raise SourceLostError(
                    f"camera {self._index} is not there ({len(cameras)} found); check the ribbon cable, and look"
                    " with: rpicam-hello --list-cameras"
                )
            self._camera = self._module.Picamera2(self._index)
            # In libcamera's naming "BGR888" has the red byte first in memory: RGB for numpy.
            configuration = self._camera.create_video_configuration(
                main={"size": self._size, "format": "BGR888"}, buffer_count=3, queue=False
            )
            self._camera.configure(configuration)
            self._camera.start()
        except SourceLostError:
            raise
        # picamera2 and libcamera raise RuntimeError, IndexError, TypeError and their own.
        except Exception as error:
            self.close()
            raise SourceLostError(f"{self.name} does not start ({' '.join(str(error).split())})") from None

    def close(self) -> None:
        """Stop the camera and release it."""
        if self._camera is None:
            return
        camera, self._camera = self._camera, None
        for end in (camera.stop, camera.close):
            try:
                end()
            # It is being given up; the next `open` says what is wrong.
            except Exception:
                continue

    def stop(self) -> None:
        """Nothing to do: an exposure comes or fails by itself."""

    def read(self) -> Frame | None:
        """The next exposure, RGB."""
        begun = time.perf_counter()
        try:
            pixels = self._camera.capture_array("main")
        except Exception as error:
            raise SourceLostError(f"{self.name} gives no frame ({' '.join(str(error).split())})") from None
        fault = check_pixels(pixels)
        frame = Frame(
            self._number,
            self.name,
            NO_PIXELS if fault else np.ascontiguousarray(pixels),
            time.monotonic(),
            fault,
            stage_ms={"capture": 1e3 * (time.perf_counter() - begun)},
        )
        self._number += 1
        return frame

    def skip(self) -> bool:
        """Nothing queues up, so there is nothing to take: waits a moment."""
        time.sleep(_PAUSE_S)
        return True
