"""A MangoLeafDB folder (or any folder of class folders) as a list of photographs.

MangoLeafBD: Ali et al. 2022, "MangoLeafBD: A comprehensive image dataset to classify diseased and healthy
mango leaves", Mendeley Data, CC BY 4.0.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
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
    """

    root: Path
    labels: tuple[str, ...]
    photographs: tuple[Photograph, ...]
    duplicates: tuple[str, ...]
    ignored: tuple[str, ...]

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
    in one class are counted once; in two classes they contradict each other, which is an error.

    Raises:
        InputError: no such folder, no class folder with a picture, an unreadable file, or one picture in two
            classes.
    """
    root = Path(folder)
    if not root.is_dir():
        raise InputError(f"{root}: no such folder; give the folder that holds one folder a class")
    folders = _class_folders(root)
    while len(folders) == 1 and not _pictures(folders[0]) and _class_folders(folders[0]):
        root = folders[0]
        folders = _class_folders(root)
    photographs: list[Photograph] = []
    duplicates: list[str] = []
    ignored = [entry.name for entry in sorted(root.iterdir()) if entry.is_file() and not _hidden(entry)]
    seen: dict[str, Photograph] = {}
    for class_folder in folders:
        label = canonical_label(class_folder.name)
        for path in sorted(entry for entry in class_folder.rglob("*") if not entry.is_dir()):
            relative = path.relative_to(root).as_posix()
            if _hidden(path):
                continue
            if path.suffix.lower() not in SUFFIXES:
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
    return Dataset(root, tuple(labels), tuple(photographs), tuple(duplicates), tuple(ignored))


def _class_folders(root: Path) -> list[Path]:
    return sorted(entry for entry in root.iterdir() if entry.is_dir() and not _hidden(entry))


def _pictures(folder: Path) -> bool:
    return any(entry.suffix.lower() in SUFFIXES for entry in folder.iterdir() if entry.is_file())


def _hidden(path: Path) -> bool:
    return path.name.startswith((".", "__MACOSX"))


def _file_digest(path: Path) -> str:
    try:
        size = os.stat(path).st_size
        if size > MAXIMUM_BYTES:
            raise InputError(f"{path}: {size:,} bytes are more than the {MAXIMUM_BYTES:,} that are accepted")
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}); mend or remove it") from None
