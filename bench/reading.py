"""The readings of a data set: for each picture its class, time, group, and whatever was measured beside it.

No pixel is in them. They come from a folder of class folders, a table, or the field runner's journal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.clock import read_clock, without_absurd
from bench.column import IDENTIFIERS, METADATA, Columns, find_columns, plain
from bench.metadata import UNKNOWN, Metadata, read_metadata
from bench.table import JOURNAL_FILE, Table, read_table
from convert.dataset import canonical_label, capture_time, exif_time, index
from convert.split import Split, identity
from edge.errors import InputError

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

MOST_LEVELS = 1000
"""Different values that a text column may have to be taken as a category."""

_NUMERIC_SHARE = 0.95
_TIME_PARTS = frozenset(
    ("year", "month", "day", "hour", "minute", "second", "weekday", "doy", "day_of_year", "week", "epoch")
)
_NOT_DECIDED = "uncertain"


@dataclass(frozen=True)
class Variable:
    """One column of readings.

    Attributes:
        name: as the table or the metadata call it.
        role: "sensor" or "metadata".
        values: float64 (pictures,); NaN where missing; for a category the position of its level.
        levels: of a category, sorted; empty for a number.
    """

    name: str
    role: str
    values: Floats
    levels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Readings:
    """The pictures of a data set without their pixels.

    Attributes:
        path: the folder or table.
        source: "photographs", "table" or "journal".
        digest: of the data, hexadecimal.
        classes: names of the classes.
        labels: int64 (pictures,), positions in `classes`.
        times: capture times on one clock, None where unknown.
        groups: given session or farm of each picture; None where there is none for the whole data set.
        crops: names of the crops, and each picture's position in them.
        crop: int64 (pictures,).
        variables: metadata and sensors.
        names: what to call each picture (its path in the data set, or its row).
        files: path of each picture file; None where it is not at hand.
        part: of the given split, each picture's part ("" for none); None without a given split.
        part_name: name of the given split.
        identities: what a split file calls each picture; empty for tables without picture files.
        notes: what was left out or found odd, a sentence each.
        columns: column of each purpose, for the report.
    """

    path: Path
    source: str
    digest: str
    classes: tuple[str, ...]
    labels: Integers
    times: tuple[datetime | None, ...]
    groups: tuple[str, ...] | None
    crops: tuple[str, ...]
    crop: Integers
    variables: tuple[Variable, ...]
    names: tuple[str, ...]
    files: tuple[Path | None, ...]
    part: tuple[str, ...] | None = None
    part_name: str | None = None
    identities: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    columns: Mapping[str, Any] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def of(self, role: str) -> tuple[Variable, ...]:
        """Variables of one role."""
        return tuple(variable for variable in self.variables if variable.role == role)

    def take(self, rows: npt.NDArray[np.integer]) -> Readings:
        """The readings of some pictures, in the order of `rows`; classes without a picture are dropped."""
        rows = np.asarray(rows, dtype=np.intp)
        present = np.unique(self.labels[rows])
        renumber = np.full(len(self.classes), -1, dtype=np.int64)
        renumber[present] = np.arange(len(present))

        def chosen(values: Sequence[Any]) -> tuple[Any, ...]:
            return tuple(values[row] for row in rows) if len(values) else ()

        return replace(
            self,
            classes=tuple(self.classes[label] for label in present),
            labels=renumber[self.labels[rows]],
            times=chosen(self.times),
            groups=None if self.groups is None else chosen(self.groups),
            crop=self.crop[rows],
            variables=tuple(replace(variable, values=variable.values[rows]) for variable in self.variables),
            names=chosen(self.names),
            files=chosen(self.files),
            part=None if self.part is None else chosen(self.part),
            identities=chosen(self.identities),
        )


def read_readings(
    path: Path,
    columns: Mapping[str, str | None] | None = None,
    sensors: Sequence[str] = (),
    utc_offset: float | None = None,
    pictures: Path | None = None,
) -> Readings:
    """Read a folder of class folders, a CSV or Parquet table, or the field runner's journal.

    Args:
        path: which of them.
        columns: purpose -> column name that the user gave (keys of `bench.column.NAMES`).
        sensors: columns that the user named as sensors.
        utc_offset: hours that times without zone are ahead of UTC.
        pictures: folder that picture paths of a table start from; the table's own by default.

    Raises:
        InputError: nothing there, unreadable, no label column, or no picture with a label.
    """
    if not path.exists():
        raise InputError(f"{path}: no such file or folder; check the path")
    if (path / JOURNAL_FILE).is_file():
        path = path / JOURNAL_FILE
    if path.is_dir():
        if sensors or any((columns or {}).values()):
            raise InputError(
                f"{path}: a folder has no columns; options that name columns need a CSV or Parquet table"
            )
        return _of_folder(path)
    table = read_table(path)
    found = find_columns(table.names, columns or {}, sensors, str(path))
    return _of_table(table, found, utc_offset, pictures or path.parent)


def with_split(readings: Readings, split: Split) -> Readings:
    """The readings with a split file's parts as the given split.

    Raises:
        InputError: the split belongs to other data, or the readings have no picture files to know them by.
    """
    if not readings.identities:
        raise InputError(
            f"{readings.path}: a split file names pictures by their content, but the picture files are not at hand;"
            " give the split as a column of the table"
        )
    part_of = {name: part for part, names in split.parts.items() for name in names}
    parts = tuple(part_of.get(name, "") for name in readings.identities)
    if not any(parts):
        raise InputError(
            f"split {split.name} names no picture of {readings.path}; it was made for other data"
        )
    return replace(readings, part=parts, part_name=split.name)


def metadata_variables(found: Sequence[Metadata]) -> tuple[Variable, ...]:
    """Camera, software, width, height, JPEG tables and bytes as variables; those without any value left out."""
    variables = []
    for name in ("camera", "software", "width", "height", "jpeg_tables", "bytes"):
        values = [getattr(metadata, name) for metadata in found]
        if all(value is None for value in values):
            continue
        if name in ("camera", "software", "jpeg_tables"):
            variables.append(_category(name, "metadata", values))
        else:
            numbers = np.array([np.nan if value is None else float(value) for value in values])
            variables.append(Variable(name, "metadata", numbers))
    return tuple(variables)


def _of_folder(path: Path) -> Readings:
    dataset = index(path)
    files = tuple(dataset.root / photograph.path for photograph in dataset.photographs)
    number = {label: position for position, label in enumerate(dataset.labels)}
    times, absurd = without_absurd([photograph.taken for photograph in dataset.photographs])
    notes = []
    untimed = sum(photograph.taken is None for photograph in dataset.photographs)
    if untimed:
        notes.append(f"{untimed:,} of {len(files):,} pictures carry no time in name or EXIF.")
    if absurd:
        notes.append(
            f"{absurd:,} times lie more than ten years from the median (a clock that was never set) and count as"
            " unknown."
        )
    if dataset.duplicates:
        notes.append(f"{len(dataset.duplicates):,} files with the bytes of another were left out.")
    return Readings(
        path=dataset.root,
        source="photographs",
        digest=dataset.digest,
        classes=dataset.labels,
        labels=np.array([number[photograph.label] for photograph in dataset.photographs], dtype=np.int64),
        times=tuple(times),
        groups=None,
        crops=("",),
        crop=np.zeros(len(files), dtype=np.int64),
        variables=metadata_variables([read_metadata(file) for file in files]),
        names=tuple(photograph.path for photograph in dataset.photographs),
        files=files,
        identities=tuple(identity(photograph) for photograph in dataset.photographs),
        notes=tuple(notes),
        columns={"label": "class folder", "time": "file name, else EXIF"},
    )


def _of_table(table: Table, columns: Columns, utc_offset: float | None, pictures: Path) -> Readings:
    notes: list[str] = []
    if table.source == "journal":
        notes.append(
            "The classes are what the model decided, not what a person saw: the audit tells whether its decisions"
            " follow the clock."
        )
    labels = table.columns[columns.label]
    kept = [
        row
        for row, label in enumerate(labels)
        if label is not None and not (table.source == "journal" and label == _NOT_DECIDED)
    ]
    if not kept:
        raise InputError(f"{table.path}: no row has a value in the label column {columns.label!r}")
    if len(kept) < table.rows:
        notes.append(f"{table.rows - len(kept):,} of {table.rows:,} rows have no class and were left out.")

    def column(name: str) -> list[str | None]:
        values = table.columns[name]
        return [values[row] for row in kept]

    names = [canonical_label(str(labels[row])) for row in kept]
    classes = tuple(sorted(set(names)))
    if len(classes) > MOST_LEVELS:
        raise InputError(
            f"{table.path}: column {columns.label!r} has {len(classes):,} different values, so it does not name"
            " classes; give the right column with --label"
        )
    number = {label: position for position, label in enumerate(classes)}
    paths = column(columns.path) if columns.path else [None] * len(kept)
    files = tuple(_file(pictures, path) for path in paths) if columns.path else (None,) * len(kept)
    at_hand = sum(file is not None for file in files)
    if columns.path and at_hand < len(files):
        notes.append(f"{len(files) - at_hand:,} of {len(files):,} picture files are not below {pictures}.")
    if columns.time:
        clock = read_clock(column(columns.time), utc_offset)
        times: tuple[datetime | None, ...] = clock.times
        notes += clock.notes
    else:
        named = [None if path is None else capture_time(Path(path).name) for path in paths]
        found = [
            time or (exif_time(file) if file is not None else None)
            for time, file in zip(named, files, strict=True)
        ]
        times = tuple(without_absurd(found)[0])
    crops = ["" if crop is None else crop for crop in column(columns.crop)] if columns.crop else []
    crop_names = tuple(sorted(set(crops))) or ("",)
    groups = None
    if columns.group:
        given = column(columns.group)
        missing = sum(group is None for group in given)
        if missing:
            # A picture of unknown origin may belong to any group; its class then stays together.
            notes.append(f"{missing:,} pictures have no group; those of a class are taken as one group.")
        groups = tuple(
            f"no group, {name}" if group is None else group for group, name in zip(given, names, strict=True)
        )
    part = tuple(_part(value) for value in column(columns.split)) if columns.split else None
    variables, more = _variables(table, columns, kept)
    known = {variable.name for variable in variables}
    if at_hand:
        variables += tuple(
            variable
            for variable in metadata_variables(
                [UNKNOWN if file is None else read_metadata(file) for file in files]
            )
            if variable.name not in known
        )
    return Readings(
        path=table.path,
        source=table.source,
        digest=table.digest,
        classes=classes,
        labels=np.array([number[name] for name in names], dtype=np.int64),
        times=times,
        groups=groups,
        crops=crop_names,
        crop=np.array([crop_names.index(crop) for crop in crops] or [0] * len(kept), dtype=np.int64),
        variables=variables,
        names=tuple(path or f"row {row + 1}" for row, path in zip(kept, paths, strict=True)),
        files=files,
        part=part,
        part_name=columns.split,
        notes=(*notes, *more),
        columns={
            "label": columns.label,
            "time": columns.time,
            "group": columns.group,
            "crop": columns.crop,
            "path": columns.path,
            "split": columns.split,
        },
    )


def _variables(table: Table, columns: Columns, kept: list[int]) -> tuple[tuple[Variable, ...], list[str]]:
    found: list[Variable] = []
    passed_over: list[str] = []
    notes: list[str] = []
    wanted = columns.sensors
    for name in table.names:
        short = plain(name)
        asked = wanted is not None and name in wanted
        if (name in columns.taken or short in IDENTIFIERS or short in _TIME_PARTS) and not asked:
            if short in _TIME_PARTS and name not in columns.taken:
                passed_over.append(name)
            continue
        if wanted is not None and not asked and short not in METADATA:
            continue
        role = "sensor" if asked or short not in METADATA else "metadata"
        texts = [table.columns[name][row] for row in kept]
        present = sum(text is not None for text in texts)
        if not present:
            if asked:
                raise InputError(f"{table.path}: the sensor column {name!r} is empty")
            passed_over.append(name)
            continue
        numbers = _numbers(texts, table.decimal_comma)
        good = int(np.isfinite(numbers).sum())
        if good >= _NUMERIC_SHARE * present and good:
            found.append(Variable(name, role, numbers))
            if good < present:
                notes.append(
                    f"{present - good:,} values of {name} are no finite numbers and count as missing."
                )
        elif (asked or role == "metadata") and len(set(texts)) <= MOST_LEVELS:
            found.append(_category(name, role, texts))
        elif asked:
            raise InputError(
                f"{table.path}: the sensor column {name!r} holds neither numbers nor up to {MOST_LEVELS} categories"
            )
        else:
            passed_over.append(name)
    if passed_over:
        notes.append(
            f"Columns not used: {', '.join(passed_over[:12])}{' ...' if len(passed_over) > 12 else ''} (text, empty, or"
            " parts of the time); name one with --sensor to use it."
        )
    for variable in found:
        values = variable.values[~np.isnan(variable.values)]
        if len(values) and (values == values[0]).all():
            notes.append(f"{variable.name} has the same value throughout: it can tell nothing.")
    return tuple(found), notes


def _category(name: str, role: str, texts: Sequence[str | None]) -> Variable:
    levels = tuple(sorted({text for text in texts if text is not None}))
    number = {level: float(position) for position, level in enumerate(levels)}
    return Variable(
        name, role, np.array([np.nan if text is None else number[text] for text in texts]), levels
    )


def _numbers(texts: Sequence[str | None], decimal_comma: bool) -> Floats:
    values = np.full(len(texts), np.nan)
    for row, text in enumerate(texts):
        if text is None:
            continue
        try:
            value = float(text.replace(",", ".") if decimal_comma else text)
        except ValueError:
            continue
        if np.isfinite(value):
            values[row] = value
    return values


def _file(folder: Path, path: str | None) -> Path | None:
    if path is None or "\x00" in path:
        return None
    file = folder / path
    try:
        return file if file.is_file() else None
    except OSError:
        return None


def _part(value: str | None) -> str:
    short = "" if value is None else plain(value)
    return {
        "train": "training",
        "training": "training",
        "val": "validation",
        "valid": "validation",
        "validation": "validation",
        "dev": "validation",
        "test": "test",
        "testing": "test",
        "holdout": "test",
    }.get(short, short)
