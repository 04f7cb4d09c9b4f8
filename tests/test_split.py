"""Splits: what is taken together stays together, and everything is somewhere exactly once."""

from __future__ import annotations

import dataclasses
import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from convert.dataset import Dataset, Photograph, index
from convert.split import (
    PARTS,
    Split,
    assign_groups,
    burst_split,
    chains,
    make_split,
    open_split,
    part_of,
    random_split,
    read_split,
    write_split,
)
from edge.errors import InputError
from edge.files import sha256

SPLIT = (
    '{"format": "mango-leaf-split", "version": 1, "name": "random", "seed": 7, "data_digest": "", "note": "",'
    ' "parts": {}}'
)
START = datetime(2021, 11, 6, 12, 0, 0)


def made(sessions: dict[str, list[int]], step: int = 10) -> Dataset:
    """A data set without files: label -> photographs in each session; sessions lie an hour apart."""
    photographs = []
    hour = 0
    for label, sizes in sessions.items():
        for size in sizes:
            hour += 1
            for number in range(size):
                path = f"{label}/{hour}-{number}.jpg"
                taken = START + timedelta(hours=hour, seconds=step * number)
                photographs.append(Photograph(path, label, sha256(path.encode()), taken))
    return Dataset(Path("made"), tuple(sessions), tuple(photographs), (), ())


def test_the_random_split_is_stratified_eighty_ten_ten() -> None:
    dataset = made({"a": [100], "b": [50]})
    split = random_split(dataset)
    for label, expected in (("a", (80, 10, 10)), ("b", (40, 5, 5))):
        counts = tuple(sum(p.label == label for p in part_of(split, dataset, part)) for part in PARTS)
        assert counts == expected


@pytest.mark.parametrize("kind", ["random", "burst"])
def test_every_photograph_is_in_exactly_one_part(kind: str) -> None:
    dataset = made({"a": [9, 4, 1, 6], "b": [5, 5, 5]})
    split = make_split(kind, dataset)
    names = [name for part in PARTS for name in split.parts[part]]
    assert len(names) == len(set(names)) == len(dataset.photographs)


def test_chains_break_where_more_than_a_minute_passes() -> None:
    times = [0, 60, 121, 121, 300]
    photographs = [
        Photograph(f"{number}.jpg", "a", "", START + timedelta(seconds=second))
        for number, second in enumerate(times)
    ]
    names = chains(photographs)
    assert [names[f"{number}.jpg"] for number in range(5)] == ["0000", "0000", "0001", "0001", "0002"]


def test_photographs_without_a_time_form_one_chain_for_each_class() -> None:
    photographs = [
        Photograph("1.jpg", "a", "", None),
        Photograph("2.jpg", "a", "", None),
        Photograph("3.jpg", "b", "", None),
    ]
    assert set(chains(photographs).values()) == {"untimed a", "untimed b"}


def test_no_chain_lies_on_two_sides_of_the_burst_split() -> None:
    dataset = made({"a": [30, 3, 3, 12], "b": [10, 10, 10, 10], "c": [2, 2, 20]})
    split = burst_split(dataset)
    chain_of = chains(dataset.photographs)
    sides: dict[str, set[str]] = {}
    for part in PARTS:
        for photograph in part_of(split, dataset, part):
            sides.setdefault(chain_of[photograph.path], set()).add(part)
    assert all(len(parts) == 1 for parts in sides.values())
    for part in PARTS:
        assert {photograph.label for photograph in part_of(split, dataset, part)} == {"a", "b", "c"}


def test_groups_are_assigned_as_well_as_an_exhaustive_search_can() -> None:
    import itertools

    sizes = [13, 2, 1, 3, 1]
    groups = [str(number) for number, size in enumerate(sizes) for _ in range(size)]
    assigned = assign_groups(groups, ["a"] * sum(sizes), seed=0)

    def cost(choice: tuple[int, ...]) -> float:
        filled = [sum(s for s, part in zip(sizes, choice, strict=True) if part == p) for p in range(3)]
        if 0 in filled:
            return 9.0
        return sum((n / 20 - f) ** 2 for n, f in zip(filled, (0.8, 0.1, 0.1), strict=True))

    best = min(cost(choice) for choice in itertools.product(range(3), repeat=5))
    found = cost(tuple(PARTS.index(assigned[str(number)]) for number in range(5)))
    assert found == pytest.approx(best)


def test_a_class_with_too_few_chains_is_named() -> None:
    with pytest.raises(InputError, match=r"class b has 2 group\(s\)"):
        burst_split(made({"a": [5, 5, 5], "b": [10, 10]}))
    with pytest.raises(InputError, match="class b has 2 photographs"):
        random_split(made({"a": [5], "b": [2]}))


def test_splits_depend_on_seed_and_content_but_not_on_names() -> None:
    dataset = made({"a": [30, 20, 30, 20, 7], "b": [10, 10, 10, 10, 5]})
    renamed = dataclasses.replace(
        dataset,
        photographs=tuple(
            sorted(
                (dataclasses.replace(p, path=f"{p.label}/{p.digest[:8]}.png") for p in dataset.photographs),
                key=lambda p: p.path,
            )
        ),
    )
    for kind in ("random", "burst"):
        assert make_split(kind, dataset).parts == make_split(kind, renamed).parts
    assert random_split(dataset, 1).parts != random_split(dataset, 2).parts


def test_a_split_file_is_small_and_survives(tmp_path: Path) -> None:
    dataset = made({"a": [30, 20, 30], "b": [10, 10, 10]})
    split = burst_split(dataset)
    path = tmp_path / "burst.json"
    write_split(split, path)
    assert read_split(path) == split == open_split(str(path), dataset)
    assert path.stat().st_size < 40 * len(dataset.photographs) + 1000


def test_a_split_of_other_data_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "split.json"
    write_split(random_split(made({"a": [30]})), path)
    with pytest.raises(InputError, match="was made for other data"):
        open_split(str(path), made({"a": [31]}))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not JSON"),
        ("[]", "damaged split file"),
        ('{"format": "x"}', "not a split file"),
        ('{"format": "mango-leaf-split", "version": 9}', "newer than this program"),
        ('{"format": "mango-leaf-split", "version": 1}', "damaged split file"),
        (SPLIT.replace("7", "1e999"), "damaged split file"),
        (SPLIT.replace("random", "\\ud800"), "damaged split file"),
    ],
)
def test_damaged_split_files_are_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "split.json"
    path.write_text(text)
    with pytest.raises(InputError, match=words):
        read_split(path)


def test_a_photograph_in_two_parts_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "split.json"
    write_split(Split("random", 7, "", {"training": ("a",), "test": ("a",)}), path)
    with pytest.raises(InputError, match="stands in two parts"):
        read_split(path)
    assert json.loads(path.read_text())["format"] == "mango-leaf-split"


@pytest.mark.parametrize(
    ("part", "names", "words"),
    [
        ("test", [], "has an empty test part"),
        ("validation", [], "has an empty validation part"),
        ("test", ["0123456789abcdef"], "names 1 photographs in its test part that made does not have"),
        ("training", "abc", "names 3 photographs in its training part"),
    ],
)
def test_a_split_with_an_empty_part_or_unknown_photographs_is_refused(
    tmp_path: Path, part: str, names: object, words: str
) -> None:
    dataset = made({"a": [30, 20, 30], "b": [10, 10, 10]})
    path = tmp_path / "split.json"
    write_split(random_split(dataset), path)
    values = json.loads(path.read_text())
    values["parts"][part] = names
    path.write_text(json.dumps(values))
    with pytest.raises(InputError, match=words):
        open_split(str(path), dataset)


def test_a_split_of_some_classes_is_accepted(tmp_path: Path) -> None:
    dataset = made({"a": [30, 20, 30], "b": [10, 10, 10]})
    split = random_split(dataset)
    own = {p.digest[:16] for p in dataset.photographs if p.label == "a"}
    some = {part: tuple(name for name in names if name in own) for part, names in split.parts.items()}
    write_split(dataclasses.replace(split, parts=some), tmp_path / "some.json")
    opened = open_split(str(tmp_path / "some.json"), dataset)
    assert {p.label for part in PARTS for p in part_of(opened, dataset, part)} == {"a"}


def test_the_real_photographs_split_as_the_readme_says(mango: Path) -> None:
    dataset = index(mango)
    random, burst = random_split(dataset), burst_split(dataset)
    assert [len(random.parts[part]) for part in PARTS] == [2664, 334, 334]
    assert [len(burst.parts[part]) for part in PARTS] == [2655, 378, 299]
    assert len(set(chains(dataset.photographs).values())) == 103
