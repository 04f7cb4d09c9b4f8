"""What was taken together: bursts, dates, cameras, or the groups that a table names."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bench.reading import Readings
from convert.dataset import Photograph
from convert.split import CHAIN_SECONDS, chains
from edge.errors import InputError

KINDS = ("group", "burst", "date", "camera")


@dataclass(frozen=True)
class Grouping:
    """Each picture's group.

    Attributes:
        by: one of `KINDS`.
        names: of the groups, sorted.
        codes: int64 (pictures,), positions in `names`.
    """

    by: str
    names: tuple[str, ...]
    codes: npt.NDArray[np.int64]

    @property
    def words(self) -> str:
        """What a group is, in words."""
        return {
            "group": "given groups",
            "burst": f"bursts (pictures at most {CHAIN_SECONDS:g} s apart)",
            "date": "dates",
            "camera": "cameras",
        }[self.by]

    def take(self, rows: npt.NDArray[np.integer]) -> Grouping:
        """The groups of some pictures."""
        present, codes = np.unique(self.codes[rows], return_inverse=True)
        return Grouping(
            self.by, tuple(self.names[code] for code in present), codes.reshape(-1).astype(np.int64)
        )

    def of_class(self, labels: npt.NDArray[np.int64], classes: int) -> list[int]:
        """Number of groups that each class occurs in."""
        return [len(np.unique(self.codes[labels == label])) for label in range(classes)]


def default_kind(readings: Readings) -> str | None:
    """Given groups where there are any, else bursts where a time is known, else none."""
    if readings.groups is not None:
        return "group"
    return "burst" if any(time is not None for time in readings.times) else None


def grouping(readings: Readings, by: str) -> Grouping:
    """Group the pictures.

    Pictures without a time (without a camera) form one group for each class (one group): nothing shows that
    they are apart.

    Raises:
        InputError: `by` is unknown, or the data do not tell it.
    """
    if by == "group":
        if readings.groups is None:
            raise InputError(
                f"{readings.path}: no groups are given; name the column that holds session or farm with --group"
            )
        names = list(readings.groups)
    elif by in ("burst", "date"):
        if not any(time is not None for time in readings.times):
            raise InputError(f"{readings.path}: no picture has a time, so there are no {by}s to keep apart")
        untimed = [f"untimed {readings.classes[label]}" for label in readings.labels]
        if by == "date":
            names = [
                other if time is None else time.date().isoformat()
                for time, other in zip(readings.times, untimed, strict=True)
            ]
        else:
            stand_ins = [
                Photograph(f"{row:09d}", readings.classes[label], "", time)
                for row, (label, time) in enumerate(zip(readings.labels, readings.times, strict=True))
            ]
            chain = chains(stand_ins)
            names = [chain[stand_in.path] for stand_in in stand_ins]
    elif by == "camera":
        camera = next((v for v in readings.variables if v.name in ("camera", "camera_model", "model")), None)
        if camera is None or not camera.levels:
            raise InputError(
                f"{readings.path}: no camera is known, neither from EXIF nor from a column 'camera'"
            )
        names = [
            "unknown camera" if np.isnan(value) else camera.levels[int(value)] for value in camera.values
        ]
    else:
        raise InputError(f"groups by {by!r} are not known; choose {', '.join(KINDS)}")
    found, codes = np.unique(np.array(names, dtype=object).astype(str), return_inverse=True)
    return Grouping(by, tuple(str(name) for name in found), codes.reshape(-1).astype(np.int64))
