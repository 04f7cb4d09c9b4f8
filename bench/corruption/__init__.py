"""The 19 corruptions of `imagecorruptions` 1.1.2 at 5 severities: same pixels, seeded, fast.

Hendrycks & Dietterich, Benchmarking Neural Network Robustness to Common Corruptions and Perturbations, ICLR 2019;
the package is Michaelis et al., Benchmarking Robustness in Object Detection, 2019. Against ImageNet-C itself the
package differs in elastic transform (no affine part, other strengths), motion blur and snow (numpy where ImageNet-C
calls ImageMagick), pixelate (enlarged by repetition) and frost (pictures scaled); its fork imagecorruptions-imaug 1.1.5
centres the motion blur's kernel differently. Figures made with another base are not comparable to the point.

Two things are defined here that the package leaves open: where no drop of spatter falls, which happens on small
pictures and makes the package divide 0 by 0, the picture stays as it is; and shot noise draws its Poisson numbers by
inversion (`noise.poisson`), so that the same Generator gives other numbers of the same distribution than
`Generator.poisson`. Everything else is the package's result to the last bit, fed with the same numbers.

    from bench.corruption import corrupt, corruption_generator
    generator = corruption_generator(digest, "fog", 3, seed=0)
    corrupted = corrupt(image, "fog", 3, generator)
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from bench.corruption import blur, digital, noise, package, weather
from bench.corruption.package import CORRUPTIONS
from edge.errors import InputError
from edge.preprocessing import Pixels

__all__ = [
    "CORRUPTIONS",
    "FAMILIES",
    "MINIMUM_SIDE",
    "SEVERITIES",
    "base",
    "corrupt",
    "corruption_generator",
    "versions",
]

SEVERITIES = (1, 2, 3, 4, 5)

FAMILIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "noise": ("gaussian_noise", "shot_noise", "impulse_noise", "speckle_noise"),
        "blur": ("defocus_blur", "glass_blur", "motion_blur", "zoom_blur", "gaussian_blur"),
        "weather": ("snow", "frost", "fog", "brightness", "spatter"),
        "digital": ("contrast", "elastic_transform", "pixelate", "jpeg_compression", "saturate"),
    }
)
"""Family to corruptions, as ImageNet-C groups them: the 15 of the benchmark, then the family's extra one (speckle
noise, Gaussian blur, spatter, saturate are ImageNet-C's "extra" set, which it holds out for validation)."""

_FUNCTIONS: Mapping[str, Callable[[Pixels, int, np.random.Generator], Pixels]] = MappingProxyType(
    {
        name: getattr(family, name)
        for name in CORRUPTIONS
        for family in (noise, blur, weather, digital)
        if hasattr(family, name)
    }
)

MINIMUM_SIDE = 32
"""Smaller pictures are refused, as the package refuses them: its kernels and grids have no meaning there."""

MAXIMUM_SIDE = 4096
"""Larger pictures are refused: corruptions work on double precision copies of the whole picture."""


def base() -> str:
    """What the corruptions are those of; every result made with them names it."""
    return f"{package.NAME} {package.RELEASE}, repaired"


def versions() -> str:
    """The base and the libraries that decide the bytes: the same text means the same corrupted pixels."""
    return f"{base()}; {package.installed()}"


def corruption_generator(image_digest_hex: str, name: str, severity: int, seed: int) -> np.random.Generator:
    """The random numbers of one corrupted picture: the same on every machine, whatever ran before.

    Args:
        image_digest_hex: hexadecimal SHA-256 of the picture (any hexadecimal digest of at least 8 digits).
        name: one of `CORRUPTIONS`.
        severity: 1 to 5.
        seed: of the whole set, 0 or more.

    Returns:
        A PCG64 Generator whose SeedSequence is the SHA-256 of the four values.

    Raises:
        InputError: one of them is out of range.
    """
    _check(name, severity)
    if len(image_digest_hex) < 8 or any(c not in "0123456789abcdefABCDEF" for c in image_digest_hex):
        raise InputError(f"{image_digest_hex!r} is not a hexadecimal digest; give the SHA-256 of the picture")
    if seed < 0:
        raise InputError(f"seed {seed} is negative; give 0 or more")
    text = f"{image_digest_hex.lower()}/{name}/{severity}/{seed}"
    words = np.frombuffer(hashlib.sha256(text.encode()).digest(), dtype="<u4")
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([int(word) for word in words])))


def corrupt(image: Pixels, name: str, severity: int, generator: np.random.Generator) -> Pixels:
    """Corrupt one picture as `imagecorruptions` does.

    Args:
        image: uint8 array (height, width, 3), RGB, each side 32 to 4096 pixels. Grey pictures are refused: the
            package copies them to three channels before it corrupts them, and so does `read_photograph`.
        name: one of `CORRUPTIONS`.
        severity: 1 (mild) to 5 (severe).
        generator: every random number is drawn from it, and from nothing else.

    Returns:
        uint8 array (height, width, 3), RGB, newly made; values are cut to whole numbers, not rounded, as in the
        package.

    Raises:
        InputError: the array, the name or the severity is not one of those, or the package's frost pictures are
            not installed.
    """
    _check(name, severity)
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
        raise InputError(
            f"a picture to corrupt must be a uint8 array (height, width, 3), not {image.dtype} {tuple(image.shape)}"
        )
    height, width = image.shape[:2]
    if min(height, width) < MINIMUM_SIDE or max(height, width) > MAXIMUM_SIDE:
        raise InputError(
            f"a picture of {width}x{height} pixels cannot be corrupted;"
            f" give {MINIMUM_SIDE} to {MAXIMUM_SIDE} pixels a side"
        )
    return _FUNCTIONS[name](np.ascontiguousarray(image), severity, generator)


def _check(name: str, severity: int) -> None:
    if name not in CORRUPTIONS:
        raise InputError(f"corruption {name!r} is not known; the 19 are {', '.join(CORRUPTIONS)}")
    if severity not in SEVERITIES:
        raise InputError(f"severity {severity} is not known; give 1 to 5")
