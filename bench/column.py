"""Which column of a table is what: by the names that people give them, or as the user says."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edge.errors import InputError

NAMES: Mapping[str, tuple[str, ...]] = {
    "label": (
        "label", "class", "disease", "diagnosis", "target", "category", "y", "class_name", "disease_name", "true_label",
    ),
    "time": (
        "time", "timestamp", "datetime", "date_time", "capture_time", "captured_at", "captured", "taken", "taken_at",
        "device_time", "created_at", "time_stamp", "date",
    ),
    "group": (
        "group", "session", "session_id", "farm", "farm_id", "field", "field_id", "plot", "site", "orchard", "burst",
        "visit", "location",
    ),
    "crop": ("crop", "plant", "host", "species", "crop_name"),
    "path": (
        "path", "picture", "image", "photo", "photograph", "file", "filename", "file_name", "image_path", "img",
        "image_name", "picture_path",
    ),
    "split": ("split", "part", "subset", "partition"),
}  # fmt: skip
"""What a column is for -> names it goes by, the most telling first; letter case, spaces and dashes do not matter."""

METADATA = frozenset(
    (
        "camera", "camera_model", "model", "make", "device", "phone", "software", "width", "height", "bytes",
        "file_size", "size", "orientation", "iso", "exposure", "f_number", "jpeg_tables", "latitude", "longitude",
        "lat", "lon", "lng", "altitude",
    )
)  # fmt: skip
"""Columns that describe the picture's file or its taking rather than the plant's surroundings."""

ALIASES = frozenset(alias for known in NAMES.values() for alias in known)
"""Names that say what a column is for; a second column of one purpose (a class as text and as a number) is no
sensor unless asked for by name."""

IDENTIFIERS = frozenset(("id", "index", "row", "number", "no", "nr", "uid", "uuid", "unnamed:_0", ""))
"""Columns that only count rows; they are passed over unless asked for by name."""

OPTIONS: Mapping[str, str] = {
    "label": "--label",
    "time": "--time",
    "group": "--group",
    "crop": "--crop",
    "path": "--path",
    "split": "--split-column",
}
"""Purpose -> the option that names its column."""

NO_COLUMN = "none"
"""Given as a column's name: there is none for this purpose, whatever the table's columns are called."""


@dataclass(frozen=True)
class Columns:
    """Names of a table's columns by purpose; None where there is none. `sensors` are those that were asked
    for (None: whatever else is numeric)."""

    label: str
    time: str | None = None
    group: str | None = None
    crop: str | None = None
    path: str | None = None
    split: str | None = None
    sensors: tuple[str, ...] | None = None

    @property
    def taken(self) -> set[str]:
        """Columns that have a purpose other than being a sensor."""
        return {
            name for name in (self.label, self.time, self.group, self.crop, self.path, self.split) if name
        }


def plain(name: str) -> str:
    """A column's name without letter case and with one underscore for spaces and dashes."""
    return re.sub(r"[\s\-_/.]+", "_", name.strip().casefold()).strip("_")


def find_columns(
    names: Sequence[str], given: Mapping[str, str | None], sensors: Sequence[str], where: str
) -> Columns:
    """Choose the columns of a table.

    Args:
        names: all columns.
        given: purpose (a key of `NAMES`) -> the column that the user named, or `NO_COLUMN`.
        sensors: columns that the user named as sensors; empty: all other numeric ones.
        where: the table, for messages.

    Raises:
        InputError: a named column does not exist, two columns answer to a name, or no label column is found.
    """
    by_plain: dict[str, list[str]] = {}
    for name in names:
        by_plain.setdefault(plain(name), []).append(name)

    def exact(wanted: str, option: str) -> str:
        if wanted in names:
            return wanted
        candidates = by_plain.get(plain(wanted), [])
        if len(candidates) == 1:
            return candidates[0]
        problem = "answer" if candidates else "no column answers"
        count = f"{len(candidates)} columns " if candidates else ""
        raise InputError(
            f"{where}: {count}{problem} to {option} {wanted}; its columns are {', '.join(names)}"
        )

    chosen_sensors = tuple(dict.fromkeys(exact(name, "--sensor") for name in sensors)) if sensors else None
    # A column that was named for one purpose is not found for another.
    used = set(chosen_sensors or ())
    chosen: dict[str, str | None] = {}
    for purpose, wanted in given.items():
        if wanted == NO_COLUMN and wanted not in names and purpose != "label":
            chosen[purpose] = None
        elif wanted is not None:
            chosen[purpose] = exact(wanted, OPTIONS[purpose])
    used |= {name for name in chosen.values() if name}
    for purpose, known in NAMES.items():
        if purpose in chosen:
            continue
        found = next((name for alias in known for name in by_plain.get(alias, ()) if name not in used), None)
        chosen[purpose] = found
        if found:
            used.add(found)
    label = chosen["label"]
    if label is None:
        raise InputError(
            f"{where}: no column looks like the class (such as {', '.join(NAMES['label'][:4])}); name it with --label;"
            f" its columns are {', '.join(names)}"
        )
    return Columns(
        label,
        chosen["time"],
        chosen["group"],
        chosen["crop"],
        chosen["path"],
        chosen["split"],
        chosen_sensors,
    )
