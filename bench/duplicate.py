"""Near-duplicates: pictures that show the same shot again, scaled, re-encoded, turned or mirrored.

Candidates come from a perceptual hash (Zauner 2010; 64 bits of the DCT, by imagehash) of every picture, compared
under the eight rotations and mirrorings of a square. Each candidate is then confirmed on aligned thumbnails by
normalised correlation of what is finer than the leaf's outline: leaves on a white sheet all have one outline.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from edge.errors import InputError
from edge.preprocessing import read_photograph

RADIUS = 12
"""Bits of 64 that the hashes of a candidate pair may differ in."""

CORRELATION = 0.9
"""Normalised correlation of the fine structure from which a candidate counts as a near-duplicate.

Chosen by eye on MangoLeafDB: from 0.9 on, every pair shows one leaf again; between 0.8 and 0.9 some pairs show
two leaves of one shape.
"""

MOST_PICTURES = 60_000
THUMBNAIL = 96
_BLUR = 6
_SHIFT = 6
_BLOCK = 2_000_000

TURNS: tuple[tuple[str, int, bool], ...] = (
    ("as it is", 0, False),
    ("turned by 90 degrees", 1, False),
    ("turned by 180 degrees", 2, False),
    ("turned by 270 degrees", 3, False),
    ("mirrored", 0, True),
    ("mirrored and turned by 90 degrees", 1, True),
    ("mirrored and turned by 180 degrees", 2, True),
    ("mirrored and turned by 270 degrees", 3, True),
)
"""Name, quarter turns (counter-clockwise), and whether mirrored left to right before turning."""

Grey = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Pair:
    """Two near-duplicates, by position: `second`, transformed by `turn`, shows `first`.

    Attributes:
        bits: in which the hashes differ, 0..64.
        correlation: of the fine structure, -1..1.
    """

    first: int
    second: int
    turn: str
    bits: int
    correlation: float


def turned(picture: npt.NDArray[Any], turns: int, mirrored: bool) -> npt.NDArray[Any]:
    """A square picture mirrored left to right, then turned by quarter turns counter-clockwise."""
    return np.rot90(picture[:, ::-1] if mirrored else picture, turns)


def thumbnail(path: Path) -> Grey:
    """Grey thumbnail (96, 96) uint8 of a picture file, squashed; EXIF orientation applied.

    Raises:
        InputError: as `read_photograph`.
    """
    image = Image.fromarray(read_photograph(path)).convert("L")
    return np.asarray(image.resize((THUMBNAIL, THUMBNAIL), Image.Resampling.BILINEAR, reducing_gap=None))


def hashes(picture: Grey) -> npt.NDArray[np.uint64]:
    """Perceptual hashes uint64 (8,) of a square thumbnail in each of `TURNS`."""
    try:
        import imagehash
    except ModuleNotFoundError:
        raise InputError(
            "imagehash is not installed; near-duplicates need: pip install 'mango-leaf-kit[bench]'"
        ) from None
    found = []
    for _, turns, mirrored in TURNS:
        bits = imagehash.phash(Image.fromarray(np.ascontiguousarray(turned(picture, turns, mirrored)))).hash
        found.append(int("".join("1" if bit else "0" for bit in bits.reshape(-1)), 2))
    return np.array(found, dtype=np.uint64)


def correlation(first: Grey, second: Grey) -> float:
    """Largest normalised correlation of two thumbnails' fine structure over shifts of up to six pixels."""
    return _aligned(_fine(first), _fine(second))


def _aligned(a: npt.NDArray[np.float32], b: npt.NDArray[np.float32]) -> float:
    # The shifts that the whole cross-correlation (by FFT) favours, then exactly on the overlap.
    product = np.fft.irfft2(np.fft.rfft2(a) * np.conj(np.fft.rfft2(b)), s=a.shape)
    steps = np.arange(-_SHIFT, _SHIFT + 1)
    window = product[np.ix_(steps, steps)].reshape(-1)
    favoured = np.argsort(-window, kind="stable")[:3]
    return max(
        _overlap(a, b, int(steps[place // len(steps)]), int(steps[place % len(steps)])) for place in favoured
    )


def find_pairs(
    paths: Sequence[Path],
    report: Callable[[], None] | None = None,
    radius: int = RADIUS,
    least: float = CORRELATION,
    damaged: Callable[[int, str], None] | None = None,
) -> list[Pair]:
    """All near-duplicate pairs among picture files.

    Args:
        paths: at most 60,000 files.
        report: called after each picture.
        damaged: called with position and fault of each picture that cannot be read, which is then compared with
            none; None: such a picture is an error.

    Returns:
        Pairs with first < second, sorted.

    Raises:
        InputError: a picture cannot be read, there are too many, or imagehash is missing.
    """
    if len(paths) > MOST_PICTURES:
        raise InputError(
            f"{len(paths):,} pictures are more than the {MOST_PICTURES:,} that are compared with each other; audit a"
            " part, or leave near-duplicates away"
        )
    thumbnails = np.zeros((len(paths), THUMBNAIL, THUMBNAIL), np.uint8)
    codes = np.zeros((len(paths), len(TURNS)), np.uint64)
    read = np.ones(len(paths), dtype=bool)
    for row, path in enumerate(paths):
        try:
            thumbnails[row] = thumbnail(path)
        except InputError as error:
            if damaged is None:
                raise
            damaged(row, str(error))
            read[row] = False
        else:
            codes[row] = hashes(thumbnails[row])
        if report is not None:
            report()
    compared = np.flatnonzero(read)
    # Blurring and turning by quarters commute, so each picture's fine structure is needed once.
    fine = lru_cache(maxsize=4096)(lambda position: _fine(thumbnails[position]))
    pairs = []
    for one, other, turn, bits in candidates(codes[compared], radius):
        first, second = int(compared[one]), int(compared[other])
        _, turns, mirrored = TURNS[turn]
        value = _aligned(fine(first), turned(fine(second), turns, mirrored))
        if value >= least:
            pairs.append(Pair(first, second, TURNS[turn][0], bits, value))
    best: dict[tuple[int, int], Pair] = {}
    for pair in pairs:
        key = (pair.first, pair.second)
        if key not in best or pair.correlation > best[key].correlation:
            best[key] = pair
    return [best[key] for key in sorted(best)]


def candidates(codes: npt.NDArray[np.uint64], radius: int) -> list[tuple[int, int, int, int]]:
    """(first, second, turn, bits) of all pairs whose hashes differ in at most `radius` bits.

    Args:
        codes: uint64 (pictures, 8), hash of each picture in each of `TURNS`.
    """
    count = len(codes)
    found = []
    step = max(1, _BLOCK // max(count, 1))
    for start in range(0, count, step):
        rows = codes[start : start + step, 0]
        for turn in range(codes.shape[1]):
            bits = _population(rows[:, np.newaxis] ^ codes[np.newaxis, :, turn])
            for row, column in np.argwhere(bits <= radius):
                first, second = start + int(row), int(column)
                if first < second:
                    found.append((first, second, turn, int(bits[row, column])))
    return found


def joined(codes: npt.NDArray[np.int64], pairs: Sequence[Pair]) -> npt.NDArray[np.int64]:
    """Groups (codes of each picture) with those that share a near-duplicate made one."""
    parent = list(range(int(codes.max()) + 1))

    def root(group: int) -> int:
        while parent[group] != group:
            parent[group] = parent[parent[group]]
            group = parent[group]
        return group

    for pair in pairs:
        a, b = root(int(codes[pair.first])), root(int(codes[pair.second]))
        parent[max(a, b)] = min(a, b)
    return np.array([root(int(code)) for code in codes], dtype=np.int64)


def across(pairs: Sequence[Pair], part: Sequence[str]) -> list[Pair]:
    """The pairs whose pictures lie in two different parts ("" is no part)."""
    return [
        pair
        for pair in pairs
        if part[pair.first] and part[pair.second] and part[pair.first] != part[pair.second]
    ]


def summary(
    pairs: Sequence[Pair], names: Sequence[str], labels: Sequence[int], listed: int
) -> Mapping[str, Any]:
    """Counts, and the first `listed` pairs by name, strongest first."""
    strongest = sorted(pairs, key=lambda pair: (-pair.correlation, pair.first, pair.second))
    return {
        "pairs": len(pairs),
        "pictures": len({position for pair in pairs for position in (pair.first, pair.second)}),
        "two_classes": sum(labels[pair.first] != labels[pair.second] for pair in pairs),
        "turned": sum(pair.turn != TURNS[0][0] for pair in pairs),
        "listed": [
            {
                "first": names[pair.first],
                "second": names[pair.second],
                "turn": pair.turn,
                "bits": pair.bits,
                "correlation": pair.correlation,
            }
            for pair in strongest[:listed]
        ],
    }


def _fine(picture: Grey) -> npt.NDArray[np.float32]:
    """What is finer than about a tenth of the picture."""
    from scipy.ndimage import gaussian_filter

    values = picture.astype(np.float32)
    return np.asarray(values - gaussian_filter(values, _BLUR), dtype=np.float32)


def _overlap(a: npt.NDArray[np.float32], b: npt.NDArray[np.float32], dy: int, dx: int) -> float:
    height, width = a.shape
    first = a[max(dy, 0) : height + min(dy, 0), max(dx, 0) : width + min(dx, 0)]
    second = b[max(-dy, 0) : height + min(-dy, 0), max(-dx, 0) : width + min(-dx, 0)]
    first, second = first - first.mean(), second - second.mean()
    scale = float(np.sqrt((first**2).sum() * (second**2).sum()))
    return float((first * second).sum()) / scale if scale > 0 else 0.0


def _population(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint8]:
    """Number of one bits, by a table of 16-bit words (numpy before 2.0 cannot count them)."""
    words = values.reshape(*values.shape, 1).view(np.uint16)
    return np.asarray(_ONES[words].sum(axis=-1, dtype=np.uint8), dtype=np.uint8)


_ONES = np.array([bin(word).count("1") for word in range(2**16)], dtype=np.uint8)
