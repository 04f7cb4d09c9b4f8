"""How well the gates of the field runner work: on leaves, on the same leaves under other light, on other things.

A frame without a leaf should be refused, whatever gate does it ("no-leaf" judges what the others let pass); a
leaf should not be. The leaves are a data set's photographs; the other things are picture folders given by the
user, and what Python packages bring along (`packaged_pictures`), so the figure can be repeated anywhere.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import util
from pathlib import Path

import numpy as np
from PIL import Image, ImageFilter

from convert.dataset import Dataset
from convert.split import Split, part_of
from edge.appearance import Appearance
from edge.errors import InputError
from edge.gate import gate
from edge.photograph import find_photographs
from edge.preprocessing import InputSpec, Pixels, fit, read_photograph

SMALLEST = 100
"""Pictures with a shorter side than this, in pixels, are icons and not scenes; they are left out."""

_PACKAGED = (
    ("skimage", "data"),
    ("sklearn", "datasets/images"),
    ("matplotlib", "mpl-data/sample_data"),
    ("imagecorruptions", "frost"),
)

_CHANGES: dict[str, Callable[[Pixels], Pixels]] = {
    "darker (gamma 1.4)": lambda p: _gamma(p, 1.4),
    "brighter (gamma 0.7)": lambda p: _gamma(p, 0.7),
    "warmer (red +15 %, blue -15 %)": lambda p: _gains(p, 1.15, 0.85),
    "cooler (red -13 %, blue +15 %)": lambda p: _gains(p, 0.87, 1.15),
    "noise (deviation 15)": lambda p: _noise(p, 15.0),
    "JPEG quality 30": lambda p: _jpeg(p, 30),
    "middle half of it": lambda p: _middle(p, 0.5),
    "slightly soft (blur 1)": lambda p: _blur(p, 1.0),
    "very soft (blur 8)": lambda p: _blur(p, 8.0),
}


@dataclass(frozen=True)
class Count:
    """What became of one group of pictures.

    Attributes:
        group: its name.
        pictures: how many.
        refused: gate -> how many it refused.
        passed: names of those that passed (of groups that should not), sorted.
    """

    group: str
    pictures: int
    refused: Mapping[str, int]
    passed: tuple[str, ...] = ()

    @property
    def share(self) -> float:
        """Share that was refused, 0..1; 0 for none."""
        return sum(self.refused.values()) / self.pictures if self.pictures else 0.0


def leaves(
    dataset: Dataset, split: Split, spec: InputSpec, appearance: Appearance | None, step: Callable[[], None]
) -> list[Count]:
    """Refusals by part of the split and class; `step` is called for each photograph."""
    counts = []
    for part in split.parts:
        members = part_of(split, dataset, part)
        for label in dataset.labels:
            found: Counter[str] = Counter()
            chosen = [photograph for photograph in members if photograph.label == label]
            for photograph in chosen:
                found[
                    _judge(read_photograph(dataset.root / photograph.path, spec.exif), spec, appearance)
                ] += 1
                step()
            counts.append(Count(f"{part}, {label}", len(chosen), _refused(found)))
    return counts


def changed_leaves(
    dataset: Dataset, split: Split, spec: InputSpec, appearance: Appearance | None, step: Callable[[], None]
) -> list[Count]:
    """Refusals of the test part as another camera or another light would show it."""
    found: dict[str, Counter[str]] = {name: Counter() for name in _CHANGES}
    members = part_of(split, dataset, "test")
    for photograph in members:
        picture = read_photograph(dataset.root / photograph.path, spec.exif)
        for name, change in _CHANGES.items():
            found[name][_judge(change(picture), spec, appearance)] += 1
        step()
    return [Count(name, len(members), _refused(counts)) for name, counts in found.items()]


def other_things(group: str, paths: Iterable[Path], spec: InputSpec, appearance: Appearance | None) -> Count:
    """Refusals of pictures that show no leaf; small and unreadable ones are left out."""
    found: Counter[str] = Counter()
    passed = []
    for path in paths:
        try:
            picture = read_photograph(path, spec.exif)
        except InputError:
            continue
        if min(picture.shape[:2]) < SMALLEST:
            continue
        reason = _judge(picture, spec, appearance)
        found[reason] += 1
        if not reason:
            passed.append(path.name)
    return Count(group, found.total(), _refused(found), tuple(sorted(passed)))


def packaged_pictures() -> dict[str, list[Path]]:
    """Package -> the pictures it brings along, of those packages that are installed."""
    found = {}
    for package, folder in _PACKAGED:
        where = util.find_spec(package)
        if where is not None and where.origin is not None:
            found[package] = pictures_in(Path(where.origin).parent / folder)
    return found


def pictures_in(folder: Path) -> list[Path]:
    """Picture files of a folder and its subfolders, sorted; none for a missing folder."""
    return list(find_photographs([str(folder)]).paths) if folder.is_dir() else []


def _judge(picture: Pixels, spec: InputSpec, appearance: Appearance | None) -> str:
    return gate(picture, fit(picture, spec), appearance)


def _refused(found: Counter[str]) -> dict[str, int]:
    return {name: count for name, count in sorted(found.items()) if name}


def total(group: str, counts: Sequence[Count]) -> Count:
    """The sum of several groups."""
    refused: Counter[str] = Counter()
    for count in counts:
        refused.update(count.refused)
    return Count(group, sum(count.pictures for count in counts), dict(sorted(refused.items())))


def _gamma(picture: Pixels, gamma: float) -> Pixels:
    return _rounded(255 * (picture / 255.0) ** gamma)


def _gains(picture: Pixels, red: float, blue: float) -> Pixels:
    return _rounded(picture * np.array([red, 1.0, blue]))


def _noise(picture: Pixels, deviation: float) -> Pixels:
    # The same noise for every picture: a figure must not depend on their order.
    return _rounded(picture + np.random.default_rng(7).normal(0, deviation, picture.shape))


def _jpeg(picture: Pixels, quality: int) -> Pixels:
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, "JPEG", quality=quality)
    return read_photograph(buffer.getvalue())


def _middle(picture: Pixels, share: float) -> Pixels:
    height, width = picture.shape[:2]
    top, left = int(height * (1 - share) / 2), int(width * (1 - share) / 2)
    return picture[top : height - top, left : width - left].copy()


def _blur(picture: Pixels, radius: float) -> Pixels:
    return np.asarray(Image.fromarray(picture).filter(ImageFilter.GaussianBlur(radius)))


def _rounded(values: np.ndarray) -> Pixels:
    result: Pixels = np.clip(np.rint(values), 0, 255).astype(np.uint8)
    return result
