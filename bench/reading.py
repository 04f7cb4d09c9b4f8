"""The readings of a data set: for each picture its class, time, group, and whatever was measured beside it.

No pixel is in them. They come from a folder of class folders, a table, or the field runner's journal.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.clock import read_clock, without_absurd
from bench.column import (
    ALIASES,
    IDENTIFIERS,
    METADATA,
    NO_COLUMN,
    OPTIONS,
    Columns,
    find_columns,
    plain,
)
from bench.metadata import UNKNOWN, Metadata, read_metadata
from bench.table import JOURNAL_FILE, Table, read_table
from convert.dataset import canonical_label, capture_time, exif_time, index
from convert.split import Split, identity
from edge.errors import InputError

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

MOST_LEVELS = 1000
"""Different values that a text column may have to be taken as a category."""

LARGEST = float(np.finfo(np.float32).max)
"""Size up to which a number is a reading: a forest works in float32."""

_NUMERIC_SHARE = 0.95
_PARTS = ("training", "test")
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
        options: with which `mango-bench split` finds the same columns and files of a table.
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
    options: tuple[str, ...] = ()

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
        columns: purpose -> column name that the user gave (keys of `bench.column.NAMES`), or `NO_COLUMN`.
        sensors: columns that the user named as sensors.
        utc_offset: hours that times without zone are ahead of UTC.
        pictures: folder that picture paths of a table start from; the table's own by default.

    Raises:
        InputError: nothing there, unreadable, no label column, no picture with a label, or a named split column
            that names no training or no test part.
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
        if pictures is not None:
            raise InputError(f"{path}: a folder holds its pictures itself; --pictures belongs to a table")
        return _of_folder(path)
    table = read_table(path)
    found = find_columns(table.names, columns or {}, sensors, str(path))
    asked = (columns or {}).get("split") is not None
    readings = _of_table(table, found, utc_offset, pictures or path.parent, asked)
    return replace(readings, options=_options(table, found, utc_offset, pictures))


def with_split(readings: Readings, split: Split) -> Readings:
    """The readings with a split file's parts as the given split.

    Raises:
        InputError: the split belongs to other data or has no training or no test part, or the readings have no
            picture files to know them by.
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
    missing = [part for part in _PARTS if part not in parts]
    if missing:
        found = ", ".join(sorted({part for part in parts if part}))
        raise InputError(
            f"split {split.name} has no {missing[0]} part among the pictures of {readings.path} (its parts: {found});"
            " give a split with a training and a test part"
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


def _options(
    table: Table, columns: Columns, utc_offset: float | None, pictures: Path | None
) -> tuple[str, ...]:
    """What `mango-bench split` must be told to read a table as it was read here."""
    purposes = ("label", "time", "group", "path")
    try:
        unaided: Columns | None = find_columns(table.names, {}, (), str(table.path))
    except InputError:
        unaided = None
    options: list[str] = []
    for purpose in purposes:
        name = getattr(columns, purpose)
        if unaided is None or getattr(unaided, purpose) != name:
            options += [OPTIONS[purpose], name or NO_COLUMN]
    if utc_offset is not None:
        options += ["--utc-offset", f"{utc_offset:g}"]
    if pictures is not None:
        options += ["--pictures", str(pictures)]
    return tuple(options)


def _of_table(
    table: Table, columns: Columns, utc_offset: float | None, pictures: Path, split_asked: bool
) -> Readings:
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
    crop_names, crop = _crops(column(columns.crop) if columns.crop else [None] * len(kept))
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
    if part is not None and not set(_PARTS) <= set(part):
        values = sorted({value for value in column(str(columns.split)) if value is not None})
        listed = ", ".join(values[:6]) + (" ..." if len(values) > 6 else "")
        if split_asked:
            raise InputError(
                f"{table.path}: the split column {columns.split!r} holds {listed or 'nothing'}, but no picture is of"
                f" the {next(name for name in _PARTS if name not in part)} part; write training (or train) and test"
            )
        notes.append(
            f"The column {columns.split!r} ({listed or 'empty'}) does not name a training and a test part, so no given"
            " split is scored."
        )
        part = None
    labels_of = np.array([number[name] for name in names], dtype=np.int64)
    variables, more = _variables(table, columns, kept, labels_of, crop)
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
        labels=labels_of,
        times=times,
        groups=groups,
        crops=crop_names,
        crop=crop,
        variables=variables,
        names=tuple(path or f"row {row + 1}" for row, path in zip(kept, paths, strict=True)),
        files=files,
        part=part,
        part_name=None if part is None else columns.split,
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


def _crops(values: Sequence[str | None]) -> tuple[tuple[str, ...], Integers]:
    """Names of the crops, and each picture's position in them; one crop "" where none is named."""
    if all(value is None for value in values):
        return ("",), np.zeros(len(values), dtype=np.int64)
    named = ["no crop" if value is None else value for value in values]
    names = tuple(sorted(set(named)))
    number = {name: position for position, name in enumerate(names)}
    return names, np.array([number[name] for name in named], dtype=np.int64)


def _is_code(values: Floats, labels: Integers, crop: Integers) -> bool:
    """Whether a column only says again, in other words, what the class is: in every crop with several classes each
    class has one value, and not all have the same. What is missing for a whole class is a fact of its own."""
    width = int(labels.max()) + 1
    cells, cell = np.unique(crop * width + labels, return_inverse=True)
    cell = cell.reshape(-1)
    lowest, highest = np.full(len(cells), np.inf), np.full(len(cells), -np.inf)
    known = ~np.isnan(values)
    np.minimum.at(lowest, cell[known], values[known])
    np.maximum.at(highest, cell[known], values[known])
    of_crop = cells // width
    several = np.bincount(of_crop)[of_crop] > 1
    # Classes of one picture each have one value whatever it is.
    enough = int(several[cell[known]].sum()) >= 2 * int(several.sum())
    if not several.any() or not enough or (lowest != highest)[several].any():
        return False
    least = np.full(int(of_crop.max()) + 1, np.inf)
    np.minimum.at(least, of_crop, lowest)
    return bool((lowest != least[of_crop])[several].any())


def _variables(
    table: Table, columns: Columns, kept: list[int], labels: Integers, crop: Integers
) -> tuple[tuple[Variable, ...], list[str]]:
    found: list[Variable] = []
    passed_over: list[str] = []
    notes: list[str] = []
    wanted = columns.sensors
    for name in table.names:
        short = plain(name)
        asked = wanted is not None and name in wanted
        if not asked and (name in columns.taken or short in IDENTIFIERS):
            continue
        if not asked and (short in _TIME_PARTS or (short in ALIASES and short not in METADATA)):
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
        if role == "sensor" and not asked and good and _is_code(numbers, labels, crop):
            notes.append(
                f"{name} has one value for each class and follows nothing else: a code of the class rather than a"
                f" reading, so it was left out; if it was measured, name it with --sensor {shlex.quote(name)}."
            )
            continue
        if good >= _NUMERIC_SHARE * present and good:
            found.append(Variable(name, role, numbers))
            if good < present:
                notes.append(
                    f"{present - good:,} values of {name} are no finite numbers up to {LARGEST:.1e} in size and count"
                    " as missing."
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
            f"Columns not used: {', '.join(passed_over[:12])}{' ...' if len(passed_over) > 12 else ''} (text, empty,"
            f" numbers beyond {LARGEST:.1e}, parts of the time, or called like a class, time, group, crop, picture or"
            " split); name one with --sensor to use it."
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
        if abs(value) <= LARGEST:
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
