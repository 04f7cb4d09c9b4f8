"""Split files that keep groups whole: every picture is tested once, nothing crosses, or the reason is told."""

from __future__ import annotations

import shlex
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from conftest import Command
from PIL import Image

from bench.disjoint import fold_splits, identified, split_command
from bench.duplicate import Pair
from bench.reading import Readings, read_readings
from bench.session import grouping
from convert.dataset import index
from convert.split import PARTS, open_split, part_of, write_split
from edge.errors import InputError

START = datetime(2021, 11, 6, 8, 0, 0)


def save(path: Path, number: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(number).integers(0, 255, (12, 12, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Anthracnose on four dates, Healthy on three, Die Back on one; two bursts of three pictures a date."""
    root = tmp_path_factory.mktemp("dated") / "data"
    number = 0
    for hour, (label, dates) in enumerate((("Anthracnose", 4), ("Healthy", 3), ("Die Back", 1))):
        for date in range(dates):
            for burst in range(2):
                for shot in range(3):
                    number += 1
                    taken = START + timedelta(days=date, hours=burst + 3 * hour, seconds=5 * shot)
                    save(root / label / f"{taken:%Y%m%d_%H%M%S}.png", number)
    return root


@pytest.fixture(scope="module")
def readings(folder: Path) -> Readings:
    return identified(read_readings(folder))


@pytest.mark.parametrize(
    ("by", "folds", "classes"), [("burst", 2, ()), ("date", 3, ("Anthracnose", "Healthy"))]
)
def test_no_group_is_tested_and_trained_on_and_everything_is_tested_once(
    readings: Readings, folder: Path, by: str, folds: int, classes: tuple[str, ...]
) -> None:
    splits = fold_splits(readings, by, folds, classes=classes)
    group_of = dict(zip(readings.identities, grouping(readings, by).codes.tolist(), strict=True))
    dataset = index(folder)
    tested: list[str] = []
    for split in splits:
        assert list(split.parts) == list(PARTS)
        test = {group_of[name] for name in split.parts["test"]}
        rest = {group_of[name] for part in ("training", "validation") for name in split.parts[part]}
        assert not test & rest
        tested += split.parts["test"]
        for part in PARTS:
            labels = {photograph.label for photograph in part_of(split, dataset, part)}
            assert labels == set(classes or dataset.labels), part
    assert len(tested) == len(set(tested)) == (len(readings) if not classes else 42)


def test_training_and_benchmark_accept_the_files(readings: Readings, folder: Path, tmp_path: Path) -> None:
    [first, _] = fold_splits(readings, "burst", 2)
    write_split(first, tmp_path / "fold.json")
    assert open_split(str(tmp_path / "fold.json"), index(folder)) == first


def test_an_impossible_split_names_every_class_in_the_way(readings: Readings) -> None:
    with pytest.raises(InputError) as refused:
        fold_splits(readings, "date", 4)
    message = str(refused.value)
    assert "Die Back has 1 (2021-11-06)" in message
    assert "Healthy has 3" in message
    assert "Anthracnose has" not in message
    assert "--by burst" in message
    with pytest.raises(InputError, match=r"--classes 'Anthracnose,Healthy'"):
        fold_splits(readings, "date", 2)
    with pytest.raises(InputError, match="no camera is known"):
        fold_splits(readings, "camera", 2)
    with pytest.raises(InputError, match="1 folds: give a number from 2"):
        fold_splits(readings, "burst", 1)
    with pytest.raises(InputError, match="no class 'Rust'"):
        fold_splits(readings, "burst", 2, classes=("Rust", "Healthy"))


def test_near_duplicates_stay_on_one_side(readings: Readings) -> None:
    apart = fold_splits(readings, "burst", 2)[0]
    side = {name: part for part, names in apart.parts.items() for name in names}
    tests = [side[name] == "test" for name in readings.identities]
    rows = np.flatnonzero(readings.labels == 0)
    first = next(int(row) for row in rows if tests[row])
    second = next(int(row) for row in rows if not tests[row])
    pair = Pair(min(first, second), max(first, second), "as it is", 0, 1.0)
    together = fold_splits(readings, "burst", 2, pairs=[pair])
    for split in together:
        side = {name: part for part, names in split.parts.items() for name in names}
        assert (side[readings.identities[first]] == "test") == (side[readings.identities[second]] == "test")
        assert "near-duplicates" in split.note


def test_a_table_with_groups_makes_splits_of_the_same_data(folder: Path, tmp_path: Path) -> None:
    table = tmp_path / "farms.csv"
    lines = ["path,label,farm"]
    for path in sorted(folder.rglob("*.png")):
        relative = path.relative_to(folder)
        lines.append(f"{relative.as_posix()},{relative.parent.name},farm {path.name[9:11]}{path.name[6:8]}")
    table.write_text("\n".join(lines) + "\n")
    found = identified(read_readings(table, pictures=folder))
    assert found.digest == index(folder).digest
    splits = fold_splits(found, "group", 2)
    assert len(part_of(splits[0], index(folder), "test")) > 0
    with pytest.raises(InputError, match="not at hand"):
        identified(read_readings(table))


def test_the_command_writes_files_and_explains_itself(folder: Path, tmp_path: Path, command: Command) -> None:
    done = command("mango-bench", "split", folder, "--by", "burst", "--folds", 2, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "burst-fold1of2-7.json",
        "burst-fold2of2-7.json",
        "burst-near-duplicates-7.csv",
    ]
    assert "near-duplicate pairs on two sides: 0 of 0" in done.stdout
    done = command("mango-bench", "split", folder, "--by", "date", "--folds", 2, "--out", tmp_path)
    assert done.returncode == 2
    assert "Die Back has 1 (2021-11-06)" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_the_suggested_command_works_as_it_stands(
    folder: Path, readings: Readings, tmp_path: Path, command: Command
) -> None:
    suggested = split_command(readings, "burst")
    assert suggested == shlex.join(["mango-bench", "split", str(folder), "--by", "burst", "--folds", "2"])
    by_date = split_command(readings, "date")
    assert by_date is not None
    assert by_date.endswith("--by date --folds 3 --classes Anthracnose,Healthy")
    # A table with its own names, an offset, and pictures elsewhere.
    table = tmp_path / "my farms.csv"
    lines = ["where,what,when,place"]
    for path in sorted(folder.rglob("*.png")):
        relative = path.relative_to(folder)
        taken = datetime.strptime(path.stem, "%Y%m%d_%H%M%S").isoformat()
        lines.append(f"{relative.as_posix()},{relative.parent.name},{taken},x{path.name[9:11]}")
    table.write_text("\n".join(lines) + "\n")
    columns = {"path": "where", "label": "what", "time": "when", "group": "place"}
    found = split_command(read_readings(table, columns, (), 6.0, folder), "group")
    assert found is not None
    assert "my farms.csv' --label what --time when --group place --path where --utc-offset 6" in found
    program, *arguments = shlex.split(found)
    done = command(program, *arguments, "--no-near-duplicates", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr


def test_no_command_is_suggested_that_cannot_work(folder: Path, readings: Readings) -> None:
    assert split_command(replace(readings, files=(None,) * len(readings)), "burst") is None
    assert split_command(replace(readings, source="journal"), "burst") is None
    die_back = np.flatnonzero(readings.labels != 0)
    assert split_command(readings.take(die_back), "date") is None


def test_mangoleafdb_has_four_classes_of_a_single_date(mango: Path) -> None:
    with pytest.raises(InputError) as refused:
        fold_splits(read_readings(mango), "date", 2)
    message = str(refused.value)
    for text in (
        "Bacterial Canker has 1 (2021-11-06)",
        "Cutting Weevil has 1 (2021-10-11)",
        "Gall Midge has 1 (2021-11-06)",
        "Healthy has 1 (2021-12-31)",
        "--classes 'Anthracnose,Die Back,Powdery Mildew,Sooty Mould'",
    ):
        assert text in message
    assert message.count(" has 1 ") == 4
