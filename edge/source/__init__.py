"""Where the field runner's frames come from: pictures, videos, cameras and streams, by one argument."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from edge.errors import InputError
from edge.photograph import SUFFIXES
from edge.source.frame import Frame, Source, SourceLostError

__all__ = ["Frame", "Source", "SourceLostError", "open_source", "public_name"]

KINDS = (
    "a picture, a folder, a video file, v4l2:/dev/video0, rtsp://HOST/PATH, http://HOST/PATH or picamera2:"
)

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):")
_SIZE = re.compile(r"^(\d{2,5})x(\d{2,5})$")


def open_source(
    argument: str,
    *,
    exif: str = "apply",
    watch: bool = False,
    every_frame: bool = False,
    done: frozenset[str] = frozenset(),
) -> Source:
    """The source that a user means by `argument`.

    | argument | source |
    |---|---|
    | path of a picture, or of a folder | its pictures in order, each one |
    | path of a folder, with `watch` | the same, then new files as they come |
    | path of another file | a video at its own pace, or each frame of it with `every_frame` |
    | `v4l2:/dev/video0[?size=640x480]` | a V4L2 camera |
    | `rtsp://...`, `rtsps://...`, `http://...`, `https://...` | a stream |
    | `picamera2:[NUMBER][?size=640x480]` | a Raspberry Pi camera |

    Args:
        exif: what to do with a picture file's orientation, from the model's contract.
        done: paths of a watched folder that need no decision any more.

    Raises:
        InputError: no such file, unknown scheme, options that do not fit, or a missing package.
    """
    scheme = _SCHEME.match(argument)
    # Not Path.exists: it raises for what is too long for a file's name, as an address with a token may be.
    kind = scheme.group(1).lower() if scheme and not os.path.exists(argument) else "path"
    if watch and not (kind == "path" and os.path.isdir(argument)):
        raise InputError(f"{argument}: only a folder can be watched for new pictures")
    if every_frame and kind != "path":
        raise InputError(
            f"{public_name(argument)}: a camera or stream does not wait, so its frames cannot all be taken;"
            " leave out --every-frame"
        )
    if kind == "path":
        return _open_path(argument, exif, watch, every_frame, done)
    if kind == "v4l2":
        device, size = _with_size(argument.partition(":")[2])
        if not device.startswith("/"):
            raise InputError(f"{argument}: give the device's path, for example v4l2:/dev/video0")
        from edge.source.opencv import V4L2Camera

        return V4L2Camera(device, size)
    if kind in ("rtsp", "rtsps", "http", "https"):
        try:
            host = urlsplit(argument).hostname
        except ValueError:
            host = None
        if not host:
            raise InputError(
                f"{public_name(argument)}: not an address with a host, like rtsp://camera/stream"
            )
        from edge.source.opencv import Stream

        return Stream(argument, public_name(argument))
    if kind == "picamera2":
        number, size = _with_size(argument.partition(":")[2])
        if number and not number.isdecimal():
            raise InputError(f"{argument}: give the camera's number, for example picamera2:0")
        from edge.source.picamera import PiCamera

        return PiCamera(int(number or 0), size)
    raise InputError(f"{argument}: no such file, and {kind!r} is not a kind of source; give {KINDS}")


def public_name(argument: str) -> str:
    """The source's argument without a user's password and query, fit for logs and journals."""
    scheme, separator, rest = argument.partition("://")
    if not separator:
        return argument
    rest = rest.partition("?")[0]
    authority, slash, path = rest.partition("/")
    return f"{scheme}://{authority.rpartition('@')[2]}{slash}{path}"


def _open_path(argument: str, exif: str, watch: bool, every_frame: bool, done: frozenset[str]) -> Source:
    from edge.source.pictures import WatchedFolder, open_pictures

    path = Path(argument)
    if watch:
        return WatchedFolder(path, exif, done)
    if os.path.isdir(path) or path.suffix.lower() in SUFFIXES:
        return open_pictures(argument, exif)
    if not os.path.isfile(path):
        raise InputError(f"{argument}: no such file or folder; give {KINDS}")
    from edge.source.opencv import VideoFile

    return VideoFile(path, every_frame)


def _with_size(text: str) -> tuple[str, tuple[int, int] | None]:
    name, question, query = text.partition("?")
    if not question:
        return name, None
    values = parse_qs(query, keep_blank_values=True)
    size = _SIZE.match(values.pop("size", [""])[0])
    if values or size is None:
        raise InputError(f"{text}: the only option is the picture's size, for example ?size=640x480")
    return name, (int(size.group(1)), int(size.group(2)))
