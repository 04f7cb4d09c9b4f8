"""Files, folders and globs as a user means them: what can be read is found, what cannot is named."""

from __future__ import annotations

import os
import pickle
from collections.abc import Sequence
from pathlib import Path

import pytest

from edge.photograph import Found, find_photographs


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Two class folders, a text beside them, a hidden folder."""
    for name in ("Healthy/a.png", "Healthy/deep/b.JPG", "Rust/c.jpeg", "notes.txt", ".trash/old.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def names(found: Found, root: Path) -> list[str]:
    return [path.relative_to(root).as_posix() for path in found.paths]


def test_a_folder_gives_its_pictures_and_counts_the_other_files(tree: Path) -> None:
    found = find_photographs([str(tree)])
    assert names(found, tree) == ["Healthy/a.png", "Healthy/deep/b.JPG", "Rust/c.jpeg"]
    assert (found.problems, found.ignored) == ((), 1)


@pytest.mark.parametrize("pattern", ["*", "**", "[HR]*"])
def test_folders_that_a_pattern_matches_are_taken_like_folders_that_are_named(
    tree: Path, pattern: str
) -> None:
    (tree / "notes.txt").unlink()
    found = find_photographs([f"{tree}/{pattern}"])
    assert sorted(names(found, tree)) == ["Healthy/a.png", "Healthy/deep/b.JPG", "Rust/c.jpeg"]
    assert found.problems == ()


def test_a_file_is_taken_and_counted_once_however_often_it_is_meant(tree: Path) -> None:
    (tree / "Rust" / "field.txt").touch()
    found = find_photographs([str(tree), f"{tree}/Rust", f"{tree}/R*", f"{tree}/Rust/c.jpeg"])
    assert names(found, tree) == ["Healthy/a.png", "Healthy/deep/b.JPG", "Rust/c.jpeg"]
    assert found.ignored == 2


def test_a_pattern_that_matches_nothing_and_a_folder_without_pictures_are_problems(tree: Path) -> None:
    (tree / "Empty").mkdir()
    found = find_photographs([f"{tree}/*.webp", f"{tree}/E*"])
    assert [(where, why.split(": ")[1].split(" (")[0]) for where, why in found.problems] == [
        (f"{tree}/*.webp", "no file matches this pattern"),
        (f"{tree}/Empty", "no picture in this folder"),
    ]


def test_linked_folders_are_read_once_and_circles_end(
    tree: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("card")
    (elsewhere / "d.png").touch()
    (elsewhere / "back").symlink_to(tree)
    (tree / "Healthy" / "card").symlink_to(elsewhere)
    (tree / "Rust" / "again").symlink_to(tree / "Healthy")
    (tree / "Rust" / "self").symlink_to(tree / "Rust")
    found = find_photographs([str(tree)])
    assert names(found, tree) == ["Healthy/a.png", "Healthy/deep/b.JPG", "Rust/c.jpeg", "Healthy/card/d.png"]
    assert found.problems == ()


@pytest.mark.parametrize(
    "bad", ["x" * 300 + ".png", "x" * 300, "x" * 300 + "*", "a\0b.png", "a\0b*", "a\0b/*"]
)
def test_a_name_that_no_file_can_have_does_not_hide_the_others(tree: Path, bad: str) -> None:
    found = find_photographs([bad, f"{tree}/Rust"])
    assert found.paths[-1] == tree / "Rust" / "c.jpeg"
    # Either the argument is a problem here, or it is when it is read.
    assert len(found.paths) - 1 + len(found.problems) == 1


def as_another_user(arguments: Sequence[str]) -> Found:
    """`find_photographs` as a user who is not root, who may read everything."""
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setuid(65534)
            os.write(sending, pickle.dumps(find_photographs(arguments)))
        finally:
            os._exit(0)
    os.close(sending)
    with os.fdopen(receiving, "rb") as file:
        data = file.read()
    os.waitpid(child, 0)
    assert data, "the search raised"
    found: Found = pickle.loads(data)
    return found


def test_an_unreadable_subfolder_is_named_and_the_others_are_still_searched(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # From inside: the folders above belong to whoever runs the tests.
    monkeypatch.chdir(tree)
    tree.chmod(0o755)
    closed = [tree / "Healthy" / "closed", tree / "locked"]
    for folder in closed:
        folder.mkdir()
        folder.chmod(0)
    try:
        found = as_another_user(["Healthy", "Rust", "locked/x.png", "locked"])
    finally:
        for folder in closed:
            folder.chmod(0o755)
    assert [path.as_posix() for path in found.paths] == [
        "Healthy/a.png", "Healthy/deep/b.JPG", "Rust/c.jpeg", "locked/x.png",
    ]  # fmt: skip
    assert sorted(where for where, _ in found.problems) == ["Healthy/closed", "locked"]
    assert all("cannot be read (Permission denied)" in why for _, why in found.problems)
