"""The one way from a picture file to a network's input, shared by training, calibration, bench and device.

A photograph is decoded to 8-bit RGB (`read_photograph`) and fitted to the model's input (`fit`). Both steps
use Pillow alone: its resize for 8-bit pictures is integer arithmetic, so an ARM board and a workstation get
the same bytes.
"""

from __future__ import annotations

import io
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

from edge.errors import InputError
from edge.files import read_regular

Pixels = npt.NDArray[np.uint8]

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "TIFF")
"""Pillow names of the containers that are read; everything else is refused."""

MAXIMUM_PIXELS = 64 * 2**20
"""A picture with more pixels is refused before it is decoded: it would not fit a 512 MB board."""

MAXIMUM_BYTES = 256 * 2**20
"""A picture file larger than this is refused before it is read."""

BACKGROUND = (255, 255, 255)
"""Transparent pixels are laid on white, as leaves are photographed on paper."""

FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}
FITS = ("squash", "crop")
EXIF_POLICIES = ("apply", "ignore")

_ORIENTATION_TAG = 0x0112
_TRANSPOSE = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_INVERSE = {6: 8, 8: 6}


@dataclass(frozen=True)
class InputSpec:
    """What a network takes, as its contract states it.

    Attributes:
        height, width: pixels, 1..4096.
        resize: a key of `FILTERS`; filters other than nearest widen with the scale (anti-aliased).
        fit: "squash" ignores the aspect ratio; "crop" cuts the largest centred part of the input's aspect.
        exif: "apply" turns the picture as its EXIF orientation says (0, absent or out of range: as stored).
        colour: the order of the channels, always "RGB".
        minimum, maximum: the range of the values given to the network, always 0 and 255.
    """

    height: int = 224
    width: int = 224
    resize: str = "bilinear"
    fit: str = "squash"
    exif: str = "apply"
    colour: str = "RGB"
    minimum: int = 0
    maximum: int = 255

    def __post_init__(self) -> None:
        if not (1 <= self.height <= 4096 and 1 <= self.width <= 4096):
            raise InputError(f"input size {self.height}x{self.width} is outside 1..4096 pixels a side")
        for name, value, known in (
            ("resize filter", self.resize, tuple(FILTERS)),
            ("fit", self.fit, FITS),
            ("EXIF policy", self.exif, EXIF_POLICIES),
            ("colour order", self.colour, ("RGB",)),
            ("value range", (self.minimum, self.maximum), ((0, 255),)),
        ):
            if value not in known:
                raise InputError(
                    f"{name} {value!r} is not known; this version knows {', '.join(map(str, known))}"
                )


def read_photograph(source: Path | str | bytes, exif: str = "apply") -> Pixels:
    """Decode a picture to RGB.

    Greyscale (1, 8 or 16 bit, integer or float in 0..65535), palettes, transparency and CMYK are converted.
    16-bit greys v become round(v / 257); of 16-bit colours, and greys with an alpha channel, Pillow gives only the
    high byte, v // 256, which is the same or one level beside it. Transparent pixels are laid on white. Of an
    animation or a multi-page file the first picture counts.

    Args:
        source: a path, or the bytes of a file.
        exif: "apply" or "ignore" (see `InputSpec`).

    Returns:
        uint8 array (height, width, 3), RGB, 0..255.

    Raises:
        InputError: the file is missing, unreadable, not a picture, of an unsupported format, truncated, or
            larger than `MAXIMUM_PIXELS`; the message names the file.
    """
    name = "picture" if isinstance(source, bytes) else str(source)
    data = source if isinstance(source, bytes) else _read_bytes(Path(source))
    if not data:
        raise InputError(f"{name}: the file is empty; copy it again from the camera")
    try:
        with warnings.catch_warnings():
            # Pillow warns of damaged metadata and of sizes that are checked below; neither concerns pixels.
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(data), formats=FORMATS) as image:
                width, height = image.size
                if width * height > MAXIMUM_PIXELS:
                    raise InputError(
                        f"{name}: {width}x{height} pixels are more than the {MAXIMUM_PIXELS:,} that are accepted;"
                        " scale the picture down"
                    )
                stored = _orientation(image)
                image.load()
                # Pillow turns a TIFF by itself while loading, and takes the tag away.
                turned = stored != _orientation(image)
                pixels = _rgb(image)
    except InputError:
        raise
    except UnidentifiedImageError:
        raise InputError(
            f"{name}: not a picture that can be read; give JPEG, PNG, WebP, BMP or TIFF"
        ) from None
    except Image.DecompressionBombError:
        raise InputError(
            f"{name}: more pixels than the {MAXIMUM_PIXELS:,} that are accepted; scale the picture down"
        ) from None
    except MemoryError:
        raise InputError(f"{name}: not enough memory to decode it; scale the picture down") from None
    # Decoders of damaged files raise whatever the damage led them into (OSError, SyntaxError, struct.error,
    # ValueError, ...): all of them mean the same to the person who holds the file.
    except Exception as error:
        cause = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{name}: damaged or truncated ({cause}); copy it again from the camera") from None
    if exif == "apply" and not turned and stored in _TRANSPOSE:
        pixels = pixels.transpose(_TRANSPOSE[stored])
    if exif == "ignore" and turned and stored in _TRANSPOSE:
        pixels = pixels.transpose(_TRANSPOSE[_INVERSE.get(stored, stored)])
    return np.asarray(pixels, dtype=np.uint8)


def fit(image: Pixels, spec: InputSpec) -> Pixels:
    """Bring a photograph to the network's input size.

    Args:
        image: uint8 array (height, width, 3), RGB, any size from 1x1.
        spec: the model's input.

    Returns:
        uint8 array (spec.height, spec.width, 3), RGB, 0..255, newly made.

    Raises:
        InputError: the array has another shape or type.
    """
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8 or 0 in image.shape:
        raise InputError(
            f"a photograph must be a uint8 array (height, width, 3), not {image.dtype} {tuple(image.shape)}"
        )
    height, width = image.shape[:2]
    box = (0.0, 0.0, float(width), float(height))
    if spec.fit == "crop":
        scale = min(width / spec.width, height / spec.height)
        left, top = (width - spec.width * scale) / 2, (height - spec.height * scale) / 2
        box = (left, top, left + spec.width * scale, top + spec.height * scale)
    if (height, width) == (spec.height, spec.width):
        return image.copy()
    picture = Image.fromarray(np.ascontiguousarray(image))
    return np.array(picture.resize((spec.width, spec.height), FILTERS[spec.resize], box), dtype=np.uint8)


def _read_bytes(path: Path) -> bytes:
    try:
        return read_regular(path, "a picture", MAXIMUM_BYTES)
    except FileNotFoundError:
        if path.is_symlink():
            raise InputError(
                f"{path}: a link to a file that does not exist; mend or remove the link"
            ) from None
        raise InputError(f"{path}: no such file; check the path") from None
    except PermissionError:
        raise InputError(f"{path}: not readable by this user; change its permissions") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}); check the path") from None
    except ValueError as error:  # a NUL, or a letter that the file system's encoding lacks
        raise InputError(f"{str(path)!r}: no name that a file can have ({error}); check the path") from None


def _orientation(image: Image.Image) -> int:
    try:
        return int(image.getexif().get(_ORIENTATION_TAG, 1))
    # A damaged EXIF block says nothing about the pixels: the picture is taken as stored.
    except Exception:
        return 1


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I") or image.mode == "F":
        values = np.asarray(image).astype(np.float64)
        return Image.fromarray(np.clip(np.floor(values / 257 + 0.5), 0, 255).astype(np.uint8)).convert("RGB")
    if image.mode in ("LA", "PA", "La", "RGBA", "RGBa") or "transparency" in image.info:
        above = image.convert("RGBA")
        below = Image.new("RGBA", image.size, (*BACKGROUND, 255))
        return Image.alpha_composite(below, above).convert("RGB")
    return image.convert("RGB")
