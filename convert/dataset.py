"""A MangoLeafDB folder (or any folder of class folders) as a list of photographs.

MangoLeafBD: Ali et al. 2022, "MangoLeafBD: A comprehensive image dataset to classify diseased and healthy
mango leaves", Mendeley Data, CC BY 4.0.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from PIL import Image

from edge.errors import InputError
from edge.photograph import SUFFIXES
from edge.preprocessing import MAXIMUM_BYTES

CLASSES = (
    "Anthracnose",
    "Bacterial Canker",
    "Cutting Weevil",
    "Die Back",
    "Gall Midge",
    "Healthy",
    "Powdery Mildew",
    "Sooty Mould",
)
"""The classes of MangoLeafDB in the order of every model trained here."""

MISSPELLINGS = {
    "scooty mould": "Sooty Mould",
    "powdary mildew": "Powdery Mildew",
    "sooty mold": "Sooty Mould",
}

BESIDE = "pictures beside the class folders"
EMPTY = "class folders without a picture"
HIDDEN = "hidden pictures and folders"
LINKED = "links to folders"
"""What `index` leaves out and says so; see `Dataset.skipped`."""

_NAME_TIME = re.compile(r"(?<!\d)((?:19|20)\d{6})[_-](\d{6})(?!\d)")
_EXIF_FOLDER, _EXIF_TAKEN, _EXIF_TIME = 0x8769, 0x9003, 0x0132


@dataclass(frozen=True)
class Photograph:
    """One picture of a data set.

    Attributes:
        path: relative to the data set's folder, with forward slashes.
        label: class name.
        digest: SHA-256 of the file's bytes, hexadecimal.
        taken: local capture time without zone, from the name, else EXIF; None where neither tells.
    """

    path: str
    label: str
    digest: str
    taken: datetime | None


@dataclass(frozen=True)
class Dataset:
    """The photographs of a folder, sorted by label and path.

    Attributes:
        root: the folder.
        labels: class names in order (MangoLeafDB's order where they are its classes, else alphabetical).
        photographs: without the duplicates.
        duplicates: paths dropped because another photograph of the same class has the same bytes.
        ignored: paths of files that are not pictures.
        skipped: what else was left out, in words (`BESIDE`, ...) -> its names; nothing where all was taken.
    """

    root: Path
    labels: tuple[str, ...]
    photographs: tuple[Photograph, ...]
    duplicates: tuple[str, ...]
    ignored: tuple[str, ...]
    skipped: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """SHA-256 over labels and file contents; independent of folder spelling, file names and order."""
        lines = sorted(f"{photograph.label}\t{photograph.digest}\n" for photograph in self.photographs)
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    def count(self, label: str) -> int:
        """Number of photographs with this label."""
        return sum(photograph.label == label for photograph in self.photographs)


def canonical_label(folder: str) -> str:
    """The class name meant by a folder name: letter case, `_`/`-` and known misspellings do not matter."""
    plain = " ".join(re.split(r"[\s_-]+", folder.strip())).casefold()
    if plain in MISSPELLINGS:
        return MISSPELLINGS[plain]
    return {name.casefold(): name for name in CLASSES}.get(plain, folder.strip())


def capture_time(name: str) -> datetime | None:
    """The time in a file name such as `IMG_20211106_120640 (Custom).jpg`; None where there is none."""
    for date, time in _NAME_TIME.findall(name):
        try:
            return datetime.strptime(date + time, "%Y%m%d%H%M%S")
        except ValueError:
            continue
    return None


def exif_time(path: Path) -> datetime | None:
    """DateTimeOriginal, else DateTime, of a picture's EXIF block; None where it is absent or absurd."""
    try:
        with warnings.catch_warnings():
            # Pillow warns of damaged metadata and of large pictures; neither concerns the time.
            warnings.simplefilter("ignore")
            with Image.open(path) as image:
                exif = image.getexif()
                text = exif.get_ifd(_EXIF_FOLDER).get(_EXIF_TAKEN) or exif.get(_EXIF_TIME)
        return datetime.strptime(str(text).strip("\x00 "), "%Y:%m:%d %H:%M:%S")
    # A picture without a usable time is no error here; a picture that cannot be read fails when it is used.
    except Exception:
        return None


def index(folder: Path | str) -> Dataset:
    """List the photographs of a folder of class folders.

    A single folder around the class folders (as archives have it) is stepped into. Files with the same bytes
    in one class are counted once; in two classes they contradict each other, which is an error. Whatever has a
    part of its path below the folder that begins with a dot is hidden and left out.

    Raises:
        InputError: no such folder, no class folder with a picture, an unreadable file or folder, or one picture
            in two classes.
    """
    root = Path(folder)
    if not root.is_dir():
        raise InputError(f"{root}: no such folder; give the folder that holds one folder a class")
    ignored: list[str] = []
    skipped: dict[str, list[str]] = {reason: [] for reason in (BESIDE, EMPTY, HIDDEN, LINKED)}
    while True:
        folders: list[Path] = []
        for entry in sorted(root.iterdir()):
            if entry.is_dir():
                if _hidden(entry.name):
                    skipped[HIDDEN].append(entry.name)
                else:
                    folders.append(entry)
            elif _is_picture(entry.name):
                skipped[HIDDEN if _hidden(entry.name) else BESIDE].append(entry.name)
            elif not _hidden(entry.name):
                ignored.append(entry.name)
        if len(folders) != 1 or _pictures(folders[0]) or not _class_folders(folders[0]):
            break
        root = folders[0]
    photographs: list[Photograph] = []
    duplicates: list[str] = []
    seen: dict[str, Photograph] = {}
    for class_folder in folders:
        label = canonical_label(class_folder.name)
        files, hidden, linked = _walk(class_folder)
        for reason, entries in ((HIDDEN, hidden), (LINKED, linked)):
            skipped[reason] += [entry.relative_to(root).as_posix() for entry in entries]
        if not any(_is_picture(path.name) for path in files):
            skipped[EMPTY].append(class_folder.name)
        for path in files:
            relative = path.relative_to(root).as_posix()
            if not _is_picture(path.name):
                ignored.append(relative)
                continue
            digest = _file_digest(path)
            if digest in seen:
                if seen[digest].label != label:
                    raise InputError(
                        f"{root}: the same picture stands in two classes, {seen[digest].path} and {relative};"
                        " remove the wrong one"
                    )
                duplicates.append(relative)
                continue
            photograph = Photograph(relative, label, digest, capture_time(path.name) or exif_time(path))
            seen[digest] = photograph
            photographs.append(photograph)
    if not photographs:
        raise InputError(f"{root}: no pictures in class folders; expected for example {root}/Healthy/*.jpg")
    found = {photograph.label for photograph in photographs}
    labels = [name for name in CLASSES if name in found] + sorted(found - set(CLASSES))
    photographs.sort(key=lambda photograph: (labels.index(photograph.label), photograph.path))
    return Dataset(
        root,
        tuple(labels),
        tuple(photographs),
        tuple(duplicates),
        tuple(ignored),
        {reason: tuple(names) for reason, names in skipped.items() if names},
    )


def _walk(folder: Path) -> tuple[list[Path], list[Path], list[Path]]:
    """Files below a folder; hidden pictures and folders; links to folders, which may lead in a circle."""

    def fail(error: OSError) -> None:
        raise InputError(
            f"{error.filename}: the folder cannot be read ({error.strerror}); change its permissions or remove it"
        )

    files: list[Path] = []
    hidden: list[Path] = []
    linked: list[Path] = []
    for parent, folders, names in os.walk(folder, onerror=fail):
        here = Path(parent)
        files += [here / name for name in names if not _hidden(name)]
        hidden += [here / name for name in folders if _hidden(name)]
        hidden += [here / name for name in names if _hidden(name) and _is_picture(name)]
        linked += [here / name for name in folders if not _hidden(name) and (here / name).is_symlink()]
        folders[:] = [name for name in folders if not _hidden(name)]
    return sorted(files), sorted(hidden), sorted(linked)


def _class_folders(root: Path) -> list[Path]:
    return [entry for entry in root.iterdir() if entry.is_dir() and not _hidden(entry.name)]


def _pictures(folder: Path) -> bool:
    return any(
        _is_picture(entry.name) and not _hidden(entry.name) for entry in folder.iterdir() if entry.is_file()
    )


def _is_picture(name: str) -> bool:
    return Path(name).suffix.lower() in SUFFIXES


def _hidden(name: str) -> bool:
    return name.startswith((".", "__MACOSX"))


def _file_digest(path: Path) -> str:
    try:
        status = os.stat(path)
        size = status.st_size
        if not stat.S_ISREG(status.st_mode):
            # Reading a pipe or a device may never end.
            raise InputError(f"{path}: not a regular file; remove it, or put the picture itself there")
        if size > MAXIMUM_BYTES:
            raise InputError(f"{path}: {size:,} bytes are more than the {MAXIMUM_BYTES:,} that are accepted")
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}); mend or remove it") from None
