"""Sample leaves drawn by a small seeded program, for trying the kit where no photograph may be shipped.

They are drawings: a leaf's outline with veins, and marks in the manner of each class. They exercise every step
from file to probabilities, and they say nothing about how well a model recognises real diseases.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from edge.errors import InputError
from edge.files import write_atomic
from edge.preprocessing import Pixels

LABELS = (
    "Anthracnose",
    "Bacterial Canker",
    "Cutting Weevil",
    "Die Back",
    "Gall Midge",
    "Healthy",
    "Powdery Mildew",
    "Sooty Mould",
)

Point = tuple[float, float]
_Marks = Callable[[ImageDraw.ImageDraw, np.random.Generator, list[Point], float], None]


def draw_leaf(label: str, generator: np.random.Generator, height: int = 240, width: int = 320) -> Pixels:
    """Draw one leaf of a class.

    Args:
        label: one of `LABELS`.
        generator: every random choice is drawn from it.
        height, width: pixels, at least 16.

    Returns:
        uint8 array (height, width, 3), RGB.
    """
    if label not in _MARKS:
        raise InputError(f"no leaf can be drawn for {label!r}; the classes are {', '.join(LABELS)}")
    if height < 16 or width < 16:
        raise InputError(f"a drawing of {width}x{height} pixels is too small; give at least 16 a side")
    paper = generator.integers(205, 240, size=3)
    image = Image.new("RGB", (width, height), (int(paper[0]), int(paper[1]), int(paper[2])))
    green = (
        int(generator.integers(60, 110)),
        int(generator.integers(110, 160)),
        int(generator.integers(40, 80)),
    )
    outline = _outline(generator, height, width, cut=label == "Cutting Weevil")
    mask = Image.new("L", (width, height), 0)
    ImageDraw.Draw(mask).polygon(outline, fill=255)
    blade = Image.new("RGB", (width, height), green)
    pen = ImageDraw.Draw(blade)
    unit = min(height, width) / 240
    _veins(pen, outline, green, unit)
    inside = _inside(mask, generator, 160)
    _MARKS[label](pen, generator, inside, unit)
    blade = blade.filter(ImageFilter.GaussianBlur(0.7 * unit))
    image.paste(blade, mask=mask.filter(ImageFilter.GaussianBlur(0.6 * unit)))
    grain = generator.normal(0, 4, size=(height, width, 1)) + generator.normal(0, 2, size=(height, width, 3))
    return np.clip(np.rint(np.asarray(image) + grain), 0, 255).astype(np.uint8)


def draw_samples(folder: Path, per_class: int = 3, seed: int = 0) -> list[Path]:
    """Write `per_class` drawn leaves of each class as `folder/<class>/drawn-<n>.png`; same seed, same bytes."""
    if not 1 <= per_class <= 1000:
        raise InputError(f"{per_class} drawings a class: give a number from 1 to 1000")
    paths = []
    for class_number, label in enumerate(LABELS):
        for number in range(per_class):
            leaf = draw_leaf(label, np.random.default_rng([seed, class_number, number]))
            buffer = io.BytesIO()
            Image.fromarray(leaf).save(buffer, format="PNG")
            path = folder / label / f"drawn-{number}.png"
            write_atomic(path, buffer.getvalue())
            paths.append(path)
    return paths


def _outline(generator: np.random.Generator, height: int, width: int, cut: bool) -> list[Point]:
    length = 0.45 * max(height, width) * generator.uniform(0.85, 1.0)
    half = 0.28 * min(height, width) * generator.uniform(0.7, 1.0)
    # A mango leaf is a lancet: widest a little before the middle, pointed at the tip.
    along = np.linspace(0, 1, 60)
    if cut:
        along = along[: int(generator.integers(28, 42))]
    breadth = half * np.sin(np.pi * along**0.8) * (1 + 0.03 * np.sin(along * 25 + generator.uniform(0, 6)))
    forward = np.stack([length * (2 * along - 1), breadth])
    back = np.stack([length * (2 * along - 1), -breadth])[:, ::-1]
    points = np.concatenate([forward, back], axis=1)
    angle = generator.uniform(-0.35, 0.35) + (np.pi / 2 if height > width else 0)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    x, y = turn @ points
    return [(float(a + width / 2), float(b + height / 2)) for a, b in zip(x, y, strict=True)]


def _veins(pen: ImageDraw.ImageDraw, outline: list[Point], green: tuple[int, int, int], unit: float) -> None:
    light = (min(green[0] + 45, 255), min(green[1] + 40, 255), min(green[2] + 35, 255))
    count = len(outline) // 2
    middle = [
        ((outline[i][0] + outline[-1 - i][0]) / 2, (outline[i][1] + outline[-1 - i][1]) / 2)
        for i in range(count)
    ]
    pen.line(middle, fill=light, width=max(1, round(3 * unit)))
    for i in range(4, count - 4, 4):
        for side in (outline[min(i + 5, count - 1)], outline[-1 - min(i + 5, count - 1)]):
            pen.line([middle[i], side], fill=light, width=max(1, round(unit)))


def _inside(mask: Image.Image, generator: np.random.Generator, count: int) -> list[Point]:
    rows, columns = np.nonzero(np.asarray(mask))
    chosen = generator.integers(0, len(rows), size=count)
    return [(float(columns[i]), float(rows[i])) for i in chosen]


def _spots(
    pen: ImageDraw.ImageDraw,
    generator: np.random.Generator,
    points: list[Point],
    size: tuple[float, float],
    colour: tuple[int, int, int],
    rim: tuple[int, int, int] | None = None,
) -> None:
    for x, y in points:
        a, b = generator.uniform(*size), generator.uniform(*size)
        if rim is not None:
            pen.ellipse((x - a * 1.35, y - b * 1.35, x + a * 1.35, y + b * 1.35), fill=rim)
        pen.ellipse((x - a, y - b, x + a, y + b), fill=colour)


def _anthracnose(
    pen: ImageDraw.ImageDraw, rng: np.random.Generator, inside: list[Point], unit: float
) -> None:
    _spots(pen, rng, inside[:22], (3 * unit, 11 * unit), (62, 40, 26), (140, 120, 50))


def _canker(pen: ImageDraw.ImageDraw, rng: np.random.Generator, inside: list[Point], unit: float) -> None:
    _spots(pen, rng, inside[:45], (1.5 * unit, 4 * unit), (35, 25, 20), (190, 180, 60))


def _weevil(pen: ImageDraw.ImageDraw, rng: np.random.Generator, inside: list[Point], unit: float) -> None:
    _spots(pen, rng, inside[:4], (1 * unit, 2 * unit), (70, 60, 40))


def _die_back(pen: ImageDraw.ImageDraw, rng: np.random.Generator, inside: list[Point], unit: float) -> None:
    _spots(pen, rng, inside[:60], (12 * unit, 26 * unit), (120, 84, 50))
    _spots(pen, rng, inside[60:80], (3 * unit, 8 * unit), (88, 58, 36))


def _gall_midge(pen: ImageDraw.ImageDraw, rng: np.random.Generator, inside: list[Point], unit: float) -> None:
    _spots(pen, rng, inside[:70], (2 * unit, 4 * unit), (70, 74, 34), (150, 160, 80))


def _healthy(pen: ImageDraw.ImageDraw, rng: np.random.Generator, inside: list[Point], unit: float) -> None:
    del pen, rng, inside, unit


def _mildew(pen: ImageDraw.ImageDraw, rng: np.random.Generator, inside: list[Point], unit: float) -> None:
    _spots(pen, rng, inside[:90], (4 * unit, 14 * unit), (205, 208, 198))


def _sooty(pen: ImageDraw.ImageDraw, rng: np.random.Generator, inside: list[Point], unit: float) -> None:
    _spots(pen, rng, inside[:110], (5 * unit, 16 * unit), (38, 40, 36))


_MARKS: dict[str, _Marks] = {
    "Anthracnose": _anthracnose,
    "Bacterial Canker": _canker,
    "Cutting Weevil": _weevil,
    "Die Back": _die_back,
    "Gall Midge": _gall_midge,
    "Healthy": _healthy,
    "Powdery Mildew": _mildew,
    "Sooty Mould": _sooty,
}
