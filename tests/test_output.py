"""Where a result is to go is looked at before the work, and said in a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from bench.cli import app
from edge.errors import InputError
from edge.files import check_folder, check_writable

# Data and models that are not there: what is said of --out must be said before they are looked for.
WITH_FILE = {
    "latency": ["nowhere.tflite"],
    "audit": ["nowhere"],
    "transfer": ["nowhere.tflite", "nowhere"],
    "robustness": ["nowhere.tflite", "--data", "nowhere"],
    "gates": ["--data", "nowhere"],
    "field": ["--data", "nowhere"],
    "embed": ["nowhere.tflite", "nowhere"],
    "video": ["--data", "nowhere"],
}


@pytest.mark.parametrize("name", WITH_FILE)
@pytest.mark.parametrize("place", ["folder", "file/result.json", "folder/" + "x" * 300])
def test_a_result_that_cannot_be_written_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"")
    done = CliRunner().invoke(app, [name, *WITH_FILE[name], "--out", place])
    assert isinstance(done.exception, InputError), done.output
    assert str(done.exception).startswith(f"{place}: ")
    assert list((tmp_path / "folder").iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        (["audit", "nowhere", "--report"], "file"),
        (["transfer", "nowhere.tflite", "nowhere", "--report"], "file/report"),
        (["split", "nowhere", "--out"], "file"),
    ],
)
def test_a_folder_that_cannot_be_written_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_bytes(b"")
    done = CliRunner().invoke(app, [*arguments, place])
    assert isinstance(done.exception, InputError), done.output
    assert str(done.exception).startswith(f"{place}: ")


def test_what_can_be_written_is_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text("old")
    check_writable(tmp_path / "old.json")
    check_writable(tmp_path / "deep" / "down" / "new.json")
    check_folder(tmp_path / "report")
    assert (tmp_path / "old.json").read_text() == "old"
    check_writable(Path("/dev/null"))
    (tmp_path / "there").mkdir()
    check_folder(tmp_path / "there")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["old.json", "there"]
