"""Readings come from folders, tables and journals; columns are found by name or as the user says."""

from __future__ import annotations

import csv
import sqlite3
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from bench.drawing import draw_leaf
from bench.reading import Readings, read_readings, with_split
from bench.session import default_kind, grouping
from convert.dataset import index
from convert.split import make_split
from edge.decision import Decision
from edge.errors import InputError
from edge.journal import open_journal

START = datetime(2021, 11, 6, 12, 0, 0)


def write(path: Path, header: list[str], rows: list[list[object]], delimiter: str = ",") -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(header)
        writer.writerows(rows)
    return path


def variable(readings: Readings, name: str) -> list[float]:
    return next(one for one in readings.variables if one.name == name).values.tolist()


def test_columns_are_found_by_sensible_names(tmp_path: Path) -> None:
    table = write(
        tmp_path / "field.csv",
        [
            "ID",
            "Image Path",
            "Disease",
            "Timestamp",
            "Farm ID",
            "Crop",
            "Humidity",
            "Soil pH",
            "Camera",
            "Remarks",
        ],
        [
            [1, "a.jpg", "rust", "2021-11-06 12:00", "north", "wheat", 40, 6.5, "phone", "wet"],
            [2, "b.jpg", "Sooty_Mould", "2021-11-07 12:00", "south", "maize", "", 7, "board", "dry"],
        ],
    )
    found = read_readings(table)
    assert found.classes == ("Sooty Mould", "rust")
    assert found.labels.tolist() == [1, 0]
    assert found.times == (START, START + timedelta(days=1))
    assert found.groups == ("north", "south")
    assert found.crops == ("maize", "wheat")
    assert [one.name for one in found.of("sensor")] == ["Humidity", "Soil pH"]
    assert np.isnan(variable(found, "Humidity")[1])
    assert [one.name for one in found.of("metadata")] == ["Camera"]
    assert any("Remarks" in note for note in found.notes)


def test_options_name_columns_and_sensors_outright(tmp_path: Path) -> None:
    table = write(
        tmp_path / "odd.csv",
        ["what", "when", "where", "a", "b", "soil"],
        [["x", "1636200000", "p", 1, 2, "clay"], ["y", "1636200060", "q", 3, 4, "sand"]],
    )
    found = read_readings(
        table, {"label": "what", "time": "When", "group": "where", "crop": None}, ["b", "soil"]
    )
    assert found.times[0] == START
    assert [(one.name, one.levels) for one in found.variables] == [("b", ()), ("soil", ("clay", "sand"))]
    for columns, sensors, words in (
        ({}, [], "no column looks like the class"),
        ({"label": "nothing"}, [], "no column answers to --label nothing"),
        ({"label": "what"}, ["c"], "no column answers to --sensor c"),
    ):
        with pytest.raises(InputError, match=words):
            read_readings(table, columns, sensors)


def test_semicolons_with_decimal_commas_are_read(tmp_path: Path) -> None:
    table = write(tmp_path / "t.csv", ["label", "ph"], [["a", "6,5"], ["b", "7,25"]], ";")
    assert variable(read_readings(table), "ph") == [6.5, 7.25]


def test_parts_of_the_time_are_no_sensors(tmp_path: Path) -> None:
    table = write(tmp_path / "t.csv", ["label", "hour", "month", "t"], [["a", 1, 2, 3], ["b", 2, 3, 4]])
    assert [one.name for one in read_readings(table).variables] == ["t"]


def test_a_second_column_of_a_purpose_and_codes_of_the_class_are_no_sensors(tmp_path: Path) -> None:
    header = ["image", "label", "target", "severity", "code", "constant", "logger", "t"]
    rows: list[list[object]] = []
    for row in range(30):
        kind = row % 3
        logger = "" if kind == 0 else 4.5
        rows.append([f"{row}.jpg", "abc"[kind], kind, int(kind > 0), 10 - kind, 7, logger, row % 5])
    table = write(tmp_path / "t.csv", header, rows)
    found = read_readings(table)
    # That a logger was off for a whole class tells of the taking, not of the table.
    assert [one.name for one in found.variables] == ["constant", "logger", "t"]
    notes = " ".join(found.notes)
    assert "Columns not used: target" in notes
    assert "code has one value for each class" in notes
    assert "severity has one value for each class" in notes
    assert [one.name for one in read_readings(table, sensors=["target", "code"]).variables] == [
        "target",
        "code",
    ]


def test_a_code_that_starts_anew_in_each_crop_is_no_sensor(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        [crop, f"{crop} {kind}", kind if crop == "rice" else 1 - kind, row]
        for crop in ("rice", "maize")
        for kind in (0, 1)
        for row in range(4)
    ]
    found = read_readings(write(tmp_path / "t.csv", ["crop", "label", "code", "t"], rows))
    assert [one.name for one in found.variables] == ["t"]
    assert any("code has one value for each class" in note for note in found.notes)


def test_numbers_that_a_forest_cannot_take_count_as_missing(tmp_path: Path) -> None:
    values = [1.5, "1e39", "-1e300", "inf", *range(96)]
    table = write(
        tmp_path / "t.csv", ["label", "t"], [["ab"[row % 2], value] for row, value in enumerate(values)]
    )
    found = read_readings(table)
    assert np.isnan(variable(found, "t")).tolist() == [False, True, True, True] + [False] * 96
    assert any("3 values of t" in note for note in found.notes)


def test_a_split_column_without_training_and_test_is_refused_if_asked_for_and_noted_if_found(
    tmp_path: Path,
) -> None:
    rows: list[list[object]] = [["ab"[row % 2], "AB"[row % 3 == 0], row % 5, row] for row in range(12)]
    table = write(tmp_path / "t.csv", ["label", "split", "fold", "t"], rows)
    found = read_readings(table)
    assert (found.part, found.part_name) == (None, None)
    assert any("'split' (A, B) does not name a training and a test part" in note for note in found.notes)
    for column, words in (("fold", "'fold' holds 0, 1, 2, 3, 4,"), ("split", "'split' holds A, B,")):
        with pytest.raises(InputError, match=words):
            read_readings(table, {"split": column})
    assert not any("does not name" in note for note in read_readings(table, {"split": "none"}).notes)
    half = write(tmp_path / "half.csv", ["label", "split"], [["a", "train"], ["b", "val"]])
    with pytest.raises(InputError, match="of the test part"):
        read_readings(half, {"split": "split"})


def test_parquet_gives_what_csv_gives(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="Parquet needs the extra 'parquet'")
    import pyarrow.parquet as parquet

    columns = {
        "label": ["a", "b", None],
        "time": [START, START + timedelta(seconds=1), START],
        "t": [20.5, None, 3.0],
    }
    parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
    found = read_readings(tmp_path / "t.parquet")
    assert found.times == (START, START + timedelta(seconds=1))
    assert found.labels.tolist() == [0, 1]
    assert "1 of 3 rows have no class" in found.notes[0]
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 nonsense")
    with pytest.raises(InputError, match="not a Parquet file"):
        read_readings(tmp_path / "bad.parquet")


def journal(path: Path) -> Path:
    """A database with the columns that `edge.journal` documents for its view `decisions`."""
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TABLE row (id INTEGER PRIMARY KEY, time REAL, clock TEXT, source TEXT, label TEXT, gate TEXT,"
            " temperature_c REAL, picture TEXT)"
        )
        connection.execute("CREATE VIEW decisions AS SELECT * FROM row")
        for number, label in enumerate(["Healthy", "Die Back", "uncertain", "", "Healthy"]):
            connection.execute(
                "INSERT INTO row VALUES (?, ?, 'set', 'v4l2:/dev/video0', ?, '', ?, NULL)",
                (number + 1, None if number == 4 else 1636200000.0 + number, label, 50.0 + number),
            )
    connection.close()
    return path


def test_the_field_runners_journal_is_read_without_writing(tmp_path: Path) -> None:
    path = journal(tmp_path / "journal.db")
    before = path.read_bytes()
    for where in (path, tmp_path):
        found = read_readings(where)
        assert found.source == "journal"
        assert found.classes == ("Die Back", "Healthy")
        assert found.times == (START, START + timedelta(seconds=1), None)
        assert [one.name for one in found.of("sensor")] == ["temperature_c"]
        assert "what the model decided" in found.notes[0]
        assert "2 of 5 rows have no class" in found.notes[1]
    assert path.read_bytes() == before


def test_the_real_journals_rows_are_read(tmp_path: Path) -> None:
    with open_journal(tmp_path / "journal") as writer:
        for number in range(6):
            label = ("Healthy", "Die Back")[number % 2]
            probabilities = (0.9, 0.1) if label == "Healthy" else (0.1, 0.9)
            writer.record(
                Decision("folder", label, probabilities, ("Healthy", "Die Back"), "", temperature_c=50.0)
            )
    found = read_readings(tmp_path / "journal")
    assert found.source == "journal"
    assert len(found) == 6
    assert found.classes == ("Die Back", "Healthy")


def test_another_sqlite_file_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "other.db") as connection:
        connection.execute("CREATE TABLE t (x)")
    connection.close()
    with pytest.raises(InputError, match="not a field runner's journal"):
        read_readings(tmp_path / "other.db")
    torn = tmp_path / "torn.db"
    torn.write_bytes((tmp_path / "other.db").read_bytes()[:1000])
    with pytest.raises(InputError, match=r"torn\.db"):
        read_readings(torn)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no rows|no column"),
        ("label,t\n", "has no rows"),
        ("label,t\na,1,2\n", "line 2 has 3 fields"),
        ("label,label\na,b\n", "stands twice"),
        ('label,t\n"a,1\n', "not CSV"),
        ("label,t\n,1\n", "no row has a value"),
    ],
)
def test_damaged_tables_are_refused_in_one_sentence(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(InputError, match=words):
        read_readings(tmp_path / "t.csv")


def test_other_bad_arguments_are_refused(tmp_path: Path) -> None:
    (tmp_path / "latin.csv").write_bytes("label,größe\na,1\n".encode("latin-1"))
    (tmp_path / "x.docx").write_bytes(b"PK")
    for name, words in (
        ("latin.csv", "not UTF-8"),
        ("x.docx", "neither a folder"),
        ("none.csv", "no such file"),
    ):
        with pytest.raises(InputError, match=words):
            read_readings(tmp_path / name)


def photographs(folder: Path) -> Path:
    """Two classes of drawn leaves as JPEGs with EXIF camera and times in their names, in bursts."""
    for number, label in enumerate(("Anthracnose", "Healthy")):
        for shot in range(6):
            leaf = draw_leaf(label, np.random.default_rng([number, shot]), 60, 80)
            exif = Image.Exif()
            exif[0x010F], exif[0x0110] = "maker", f"phone {number}"
            taken = START + timedelta(days=number, minutes=10 * (shot // 2), seconds=shot)
            path = folder / label / f"IMG_{taken:%Y%m%d_%H%M%S}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(leaf).save(path, exif=exif, quality=80 + number)
    return folder


def test_a_folders_metadata_are_variables(tmp_path: Path) -> None:
    found = read_readings(photographs(tmp_path / "data"))
    assert {one.name for one in found.of("metadata")} == {"camera", "width", "height", "jpeg_tables", "bytes"}
    camera = next(one for one in found.variables if one.name == "camera")
    assert camera.levels == ("maker phone 0", "maker phone 1")
    assert (camera.values == found.labels).all()
    assert len(set(variable(found, "jpeg_tables"))) == 2
    assert default_kind(found) == "burst"
    assert [len(grouping(found, by).names) for by in ("burst", "date", "camera")] == [6, 2, 2]
    with pytest.raises(InputError, match="--group"):
        grouping(found, "group")
    with pytest.raises(InputError, match="a folder has no columns"):
        read_readings(tmp_path / "data", {"label": "x"})
    with pytest.raises(InputError, match="--pictures belongs to a table"):
        read_readings(tmp_path / "data", pictures=tmp_path)


def test_a_table_of_picture_paths_takes_time_and_metadata_from_the_files(tmp_path: Path) -> None:
    data = photographs(tmp_path / "data")
    paths = sorted(path.relative_to(tmp_path) for path in data.rglob("*.jpg"))
    table = write(
        tmp_path / "t.csv",
        ["path", "label"],
        [[path, path.parent.name] for path in [*paths, Path("data/Healthy/gone.jpg")]],
    )
    found = read_readings(table)
    assert found.times[0] == START
    assert "camera" in {one.name for one in found.variables}
    assert any("1 of 13 picture files are not below" in note for note in found.notes)


def test_a_split_file_gives_the_parts(tmp_path: Path) -> None:
    data = photographs(tmp_path / "data")
    split = make_split("random", index(data))
    found = with_split(read_readings(data), split)
    assert found.part is not None
    assert sorted(set(found.part)) == ["test", "training", "validation"]
    whole = replace(split, parts={"all": tuple(name for names in split.parts.values() for name in names)})
    with pytest.raises(InputError, match=r"has no training part .* \(its parts: all\)"):
        with_split(read_readings(data), whole)
    other = photographs(tmp_path / "other" / "deep")
    for path in other.rglob("*.jpg"):
        path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(InputError, match="names no picture"):
        with_split(read_readings(other), split)
