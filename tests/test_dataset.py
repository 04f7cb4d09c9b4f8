"""A folder of class folders, as it comes from Kaggle, Mendeley or an orchard."""

from __future__ import annotations

import io
import os
import warnings
from datetime import datetime
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from convert.cli import app
from convert.dataset import BESIDE, CLASSES, EMPTY, HIDDEN, LINKED, canonical_label, capture_time, index
from edge.errors import InputError


def picture(value: int, taken: str | None = None) -> bytes:
    buffer = io.BytesIO()
    exif = Image.Exif()
    if taken is not None:
        exif.get_ifd(0x8769)[0x9003] = taken
    Image.new("RGB", (8, 8), (value * 20 % 256, value // 12, 0)).save(buffer, "JPEG", exif=exif)
    return buffer.getvalue()


def place(root: Path, name: str, data: bytes) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("folder", "label"),
    [
        ("Scooty Mould", "Sooty Mould"),
        ("Powdary Mildew", "Powdery Mildew"),
        ("die_back", "Die Back"),
        ("GALL MIDGE", "Gall Midge"),
        ("bacterial-canker", "Bacterial Canker"),
        (" Healthy ", "Healthy"),
        ("Rust", "Rust"),
    ],
)
def test_folder_names_of_the_public_set_are_understood(folder: str, label: str) -> None:
    assert canonical_label(folder) == label


@pytest.mark.parametrize(
    ("name", "time"),
    [
        ("20211008_124249 (Custom).jpg", datetime(2021, 10, 8, 12, 42, 49)),
        ("IMG_20211106_120640 (Custom).jpg", datetime(2021, 11, 6, 12, 6, 40)),
        ("20211011_134655(0) (Custom).jpg", datetime(2021, 10, 11, 13, 46, 55)),
        ("IMG_20211109_101112_1 (Custom).jpg", datetime(2021, 11, 9, 10, 11, 12)),
        ("20211011_170706 - Copy - Copy (Custom).jpg", datetime(2021, 10, 11, 17, 7, 6)),
        ("20211399_250000.jpg", None),
        ("IMG_0001.jpg", None),
        ("120211008_1242490.jpg", None),
    ],
)
def test_capture_times_are_read_from_names(name: str, time: datetime | None) -> None:
    assert capture_time(name) == time


def test_the_time_comes_from_exif_where_the_name_has_none(tmp_path: Path) -> None:
    place(tmp_path, "Healthy/leaf.jpg", picture(1, "2021:12:31 10:11:12"))
    place(tmp_path, "Healthy/none.jpg", picture(2))
    place(tmp_path, "Healthy/odd.jpg", picture(3, "0000:00:00 00:00:00"))
    times = {photograph.path: photograph.taken for photograph in index(tmp_path).photographs}
    assert times == {
        "Healthy/leaf.jpg": datetime(2021, 12, 31, 10, 11, 12),
        "Healthy/none.jpg": None,
        "Healthy/odd.jpg": None,
    }


def test_duplicates_are_dropped_and_counted(tmp_path: Path) -> None:
    place(tmp_path, "Healthy/a.jpg", picture(1))
    place(tmp_path, "Healthy/a - Copy.jpg", picture(1))
    place(tmp_path, "Healthy/b.jpg", picture(2))
    place(tmp_path, "Healthy/Thumbs.db", b"x")
    dataset = index(tmp_path)
    assert [photograph.path for photograph in dataset.photographs] == [
        "Healthy/a - Copy.jpg",
        "Healthy/b.jpg",
    ]
    assert dataset.duplicates == ("Healthy/a.jpg",)
    assert dataset.ignored == ("Healthy/Thumbs.db",)


def test_whatever_is_left_out_is_named(tmp_path: Path) -> None:
    place(tmp_path, "Healthy/a.jpg", picture(1))
    place(tmp_path, "Healthy/.b.jpg", picture(2))
    place(tmp_path, "Healthy/.trash/deep/old.png", picture(3))
    place(tmp_path, "Healthy/.DS_Store", b"x")
    place(tmp_path, "stray.jpg", picture(4))
    place(tmp_path, "readme.txt", b"x")
    place(tmp_path, ".thumbnails/c.jpg", picture(5))
    place(tmp_path, "Rust/notes.txt", b"x")
    (tmp_path / "Die Back").mkdir()
    (tmp_path / "Healthy" / "more").symlink_to(tmp_path / ".thumbnails")
    dataset = index(tmp_path)
    assert [photograph.path for photograph in dataset.photographs] == ["Healthy/a.jpg"]
    assert dataset.ignored == ("readme.txt", "Rust/notes.txt")
    assert dataset.skipped == {
        BESIDE: ("stray.jpg",),
        EMPTY: ("Die Back", "Rust"),
        HIDDEN: (".thumbnails", "Healthy/.b.jpg", "Healthy/.trash"),
        LINKED: ("Healthy/more",),
    }
    said = CliRunner().invoke(app, ["split", str(tmp_path), "--out", str(tmp_path / "out")]).stderr
    assert "pictures beside the class folders, left out: 1 (stray.jpg)" in said
    assert "class folders without a picture, left out: 2 (Die Back, Rust)" in said


def test_a_folder_below_a_hidden_one_can_be_a_data_set(tmp_path: Path) -> None:
    place(tmp_path, ".cache/set/Healthy/a.jpg", picture(1))
    dataset = index(tmp_path / ".cache" / "set")
    assert (len(dataset.photographs), dataset.skipped) == (1, {})


def test_pictures_beside_a_wrapping_folder_are_named_too(tmp_path: Path) -> None:
    place(tmp_path, "Dataset/Healthy/a.jpg", picture(1))
    place(tmp_path, "stray.jpg", picture(2))
    assert index(tmp_path).skipped == {BESIDE: ("stray.jpg",)}


def test_a_large_picture_is_indexed_without_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place(tmp_path, "Healthy/large.jpg", picture(1))
    # As if 8x8 pixels were many: Pillow warns from this limit on and refuses from twice the limit on.
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 8 * 8 - 1)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert len(index(tmp_path).photographs) == 1
    assert warned == []


def test_a_pipe_is_no_photograph(tmp_path: Path) -> None:
    (tmp_path / "Healthy").mkdir()
    os.mkfifo(tmp_path / "Healthy" / "pipe.jpg")
    with pytest.raises(InputError, match=r"pipe\.jpg: not a regular file"):
        index(tmp_path)


def test_one_picture_in_two_classes_is_refused(tmp_path: Path) -> None:
    place(tmp_path, "Healthy/a.jpg", picture(1))
    place(tmp_path, "Die Back/b.jpg", picture(1))
    with pytest.raises(InputError, match=r"two classes, Die Back/b.jpg and Healthy/a.jpg"):
        index(tmp_path)


def test_a_folder_around_the_classes_is_stepped_into(tmp_path: Path) -> None:
    place(tmp_path, "MangoLeafBD/Dataset/Healthy/a.jpg", picture(1))
    place(tmp_path, "MangoLeafBD/Dataset/scooty mould/b.JPG", picture(2))
    place(tmp_path, "__MACOSX/Dataset/Healthy/._a.jpg", b"x")
    dataset = index(tmp_path)
    assert dataset.labels == ("Healthy", "Sooty Mould")
    assert dataset.root == tmp_path / "MangoLeafBD" / "Dataset"


def test_the_digest_depends_on_labels_and_pictures_alone(tmp_path: Path) -> None:
    place(tmp_path, "one/Sooty Mould/a.jpg", picture(1))
    place(tmp_path, "one/Healthy/b.jpg", picture(2))
    place(tmp_path, "two/SCOOTY MOULD/other.jpg", picture(1))
    place(tmp_path, "two/healthy/name.jpg", picture(2))
    place(tmp_path, "three/Healthy/a.jpg", picture(1))
    place(tmp_path, "three/Sooty Mould/b.jpg", picture(2))
    assert index(tmp_path / "one").digest == index(tmp_path / "two").digest
    assert index(tmp_path / "one").digest != index(tmp_path / "three").digest


def test_labels_stand_in_the_order_of_the_public_set(tmp_path: Path) -> None:
    for number, label in enumerate(reversed((*CLASSES, "Anthrax"))):
        place(tmp_path, f"{label}/{number}.jpg", picture(number))
    assert index(tmp_path).labels == (*CLASSES, "Anthrax")


def test_unusable_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        index(tmp_path / "missing")
    (tmp_path / "Healthy").mkdir()
    with pytest.raises(InputError, match="no pictures in class folders"):
        index(tmp_path)
    (tmp_path / "Healthy" / "gone.jpg").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"gone\.jpg: cannot be read"):
        index(tmp_path)


def test_the_real_photographs_are_indexed(mango: Path) -> None:
    dataset = index(mango)
    assert dataset.labels == CLASSES
    assert len(dataset.photographs) + len(dataset.duplicates) == 3334
    assert len(dataset.duplicates) == 2
    assert dataset.digest.startswith("e90cad8fc2889b5522b106ad06197fab")
    assert dataset.skipped == {}
    assert all(photograph.taken for photograph in dataset.photographs)
    assert len({photograph.taken.date() for photograph in dataset.photographs if photograph.taken}) == 12
