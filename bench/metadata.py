"""What a picture's file tells without its pixels: camera, software, size, JPEG tables, bytes."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from edge.files import sha256

_MAKE, _MODEL, _SOFTWARE = 0x010F, 0x0110, 0x0131
_LONGEST = 100


@dataclass(frozen=True)
class Metadata:
    """Of one picture file; None where the file does not tell.

    Attributes:
        camera: maker and model.
        software: that wrote the file.
        width, height: pixels as stored.
        jpeg_tables: first 12 hexadecimal digits of the SHA-256 of the JPEG quantisation tables: one for each
            encoder and quality.
        bytes: size of the file.
    """

    camera: str | None
    software: str | None
    width: int | None
    height: int | None
    jpeg_tables: str | None
    bytes: int | None


UNKNOWN = Metadata(None, None, None, None, None, None)


def read_metadata(path: Path) -> Metadata:
    """Read the head of a picture file; what cannot be read is None (the pixels are not looked at)."""
    try:
        size = path.stat().st_size
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(path) as image:
                exif = image.getexif()
                tables = getattr(image, "quantization", None)
                camera = " ".join(part for part in (_text(exif.get(_MAKE)), _text(exif.get(_MODEL))) if part)
                return Metadata(
                    camera or None,
                    _text(exif.get(_SOFTWARE)) or None,
                    image.width,
                    image.height,
                    sha256(repr(sorted(tables.items())).encode())[:12] if tables else None,
                    size,
                )
    # A damaged head is no fact about the plant: its values are missing, and the reader of pixels complains.
    except Exception:
        return UNKNOWN


def _text(value: object) -> str:
    return "" if value is None else " ".join(str(value).replace("\x00", " ").split())[:_LONGEST]
