"""How a corrupted picture is stored: as JPEG, which is itself a small corruption, or without loss.

ImageNet-C is stored as JPEG of quality 85, and so every published score holds that loss too. Clean and corrupted
pictures take the same step here, whether they are written to a folder or corrupted on the fly, so that they
differ by the corruption alone.
"""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
from PIL import Image

from edge.errors import InputError
from edge.preprocessing import Pixels, read_photograph

QUALITY = 85
"""JPEG quality of ImageNet-C."""


@dataclass(frozen=True)
class Encoding:
    """JPEG of a quality from 1 to 100 (Pillow's tables, 4:2:0 chroma), or lossless PNG where it is None."""

    quality: int | None = QUALITY

    def __post_init__(self) -> None:
        if self.quality is not None and not 1 <= self.quality <= 100:
            raise InputError(f"JPEG quality {self.quality}: give a number from 1 to 100, or --lossless")

    @property
    def suffix(self) -> str:
        """Ending of the files."""
        return ".png" if self.quality is None else ".jpg"

    def __str__(self) -> str:
        return "lossless" if self.quality is None else f"JPEG quality {self.quality}"

    def encode(self, image: Pixels) -> bytes:
        """The bytes of a file that holds the picture: uint8 (height, width, 3), RGB."""
        buffer = io.BytesIO()
        picture = Image.fromarray(np.ascontiguousarray(image))
        if self.quality is None:
            picture.save(buffer, format="PNG")
        else:
            picture.save(buffer, format="JPEG", quality=self.quality)
        return buffer.getvalue()

    def through(self, image: Pixels) -> Pixels:
        """The picture as it comes back from its file."""
        return image if self.quality is None else read_photograph(self.encode(image))
