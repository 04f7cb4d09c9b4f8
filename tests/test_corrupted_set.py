"""MangoLeafDB-C as files: layout, digests, resuming, and what is refused."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from conftest import Command
from PIL import Image

import bench.corrupted_set
from bench.corrupted_set import (
    Estimate,
    check_space,
    estimate,
    open_set,
    plan_set,
    read_digests,
    write_set,
)
from bench.corruption import corrupt, corruption_generator
from bench.drawing import draw_samples
from bench.encoding import Encoding
from bench.selection import select
from convert.dataset import index
from edge.errors import InputError
from edge.preprocessing import InputSpec, fit, read_photograph

SPEC = InputSpec(64, 48)
NAMES, LEVELS = ("gaussian_noise", "pixelate"), (1, 5)


@pytest.fixture(scope="module")
def leaves_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("leaves")
    draw_samples(folder, per_class=1, seed=3)
    # The same stem twice in one class, once in a folder below: names in the set must stay apart.
    below = folder / "Healthy" / "below"
    below.mkdir()
    Image.open(folder / "Healthy" / "drawn-0.png").rotate(180).save(folder / "Healthy" / "drawn-0.jpg")
    Image.open(folder / "Healthy" / "drawn-0.png").rotate(90).save(below / "drawn-0.bmp")
    return folder


def plan(
    leaves: Path, out: Path, encoding: Encoding | None = None, seed: int = 0
) -> bench.corrupted_set.CorruptedSet:
    return plan_set(
        out, select(index(leaves), "all", None), SPEC, encoding or Encoding(), seed, NAMES, LEVELS
    )


@pytest.fixture(scope="module")
def made(leaves_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sets") / "c"
    write_set(plan(leaves_folder, out))
    return out


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def test_the_layout_is_the_studys(made: Path, leaves_folder: Path) -> None:
    assert sorted(path.name for path in made.iterdir()) == [
        "clean", "digests", "gaussian_noise", "manifest.json", "pixelate",
    ]  # fmt: skip
    assert sorted(path.name for path in (made / "pixelate").iterdir()) == ["1", "5"]
    subset = made / "pixelate" / "5"
    assert sorted(path.name for path in subset.iterdir()) == sorted(index(leaves_folder).labels)
    assert len(list((subset / "Healthy").iterdir())) == 3
    for subset in (made / "clean" / "0", made / "pixelate" / "1"):
        assert sum(1 for path in subset.rglob("*.jpg")) == 10


def test_each_file_holds_the_fitted_then_corrupted_photograph(made: Path, leaves_folder: Path) -> None:
    data = index(leaves_folder)
    photograph = next(one for one in data.photographs if one.label == "Die Back")
    fitted = fit(read_photograph(leaves_folder / photograph.path), SPEC)
    for name, severity in (("gaussian_noise", 5), ("pixelate", 1)):
        generator = corruption_generator(photograph.digest, name, severity, 0)
        expected = Encoding(85).through(corrupt(fitted, name, severity, generator))
        found = read_photograph(made / name / str(severity) / "Die Back" / "drawn-0.jpg")
        assert np.array_equal(found, expected)
    clean = read_photograph(made / "clean" / "0" / "Die Back" / "drawn-0.jpg")
    assert np.array_equal(clean, Encoding(85).through(fitted))


def test_lossless_files_are_the_pixels(leaves_folder: Path, tmp_path: Path) -> None:
    write_set(plan(leaves_folder, tmp_path / "c", Encoding(None)))
    photograph = next(one for one in index(leaves_folder).photographs if one.label == "Die Back")
    fitted = fit(read_photograph(leaves_folder / photograph.path), SPEC)
    assert np.array_equal(
        read_photograph(tmp_path / "c" / "clean" / "0" / "Die Back" / "drawn-0.png"), fitted
    )


def test_the_digests_are_those_that_sha256sum_checks(made: Path) -> None:
    if shutil.which("sha256sum") is None:
        pytest.skip("no sha256sum here (coreutils)")
    files = sorted(path.relative_to(made).as_posix() for path in (made / "digests").iterdir())
    assert len(files) == 5
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", *files], cwd=made, capture_output=True, text=True
    )
    assert done.returncode == 0
    assert done.stdout.count(": OK") == 50


def test_an_interrupted_or_damaged_set_is_completed_to_the_same_bytes(
    made: Path, leaves_folder: Path, tmp_path: Path
) -> None:
    whole = contents(made)
    out = tmp_path / "c"
    shutil.copytree(made, out)
    (out / "pixelate" / "1" / "Healthy" / "drawn-0.jpg").write_bytes(b"cut")
    (out / "digests" / "gaussian_noise-5.sha256").unlink()
    shutil.rmtree(out / "gaussian_noise" / "5" / "Gall Midge")
    write_set(plan(leaves_folder, out))
    assert contents(out) == whole


def test_several_processes_make_the_same_bytes(made: Path, leaves_folder: Path, tmp_path: Path) -> None:
    write_set(plan(leaves_folder, tmp_path / "c"), jobs=2)
    assert contents(tmp_path / "c") == contents(made)


def test_a_folder_with_something_else_in_it_is_left_alone(
    made: Path, leaves_folder: Path, tmp_path: Path
) -> None:
    before = contents(made)
    with pytest.raises(InputError, match="other seed"):
        write_set(plan(leaves_folder, made, seed=1))
    with pytest.raises(InputError, match="other encoding"):
        write_set(plan(leaves_folder, made, Encoding(95)))
    assert contents(made) == before
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="not empty"):
        write_set(plan(leaves_folder, tmp_path))
    assert contents(tmp_path) == {"notes.txt": b"mine"}


def test_the_estimate_is_near_and_a_full_disk_is_refused_before_the_first_file(
    made: Path, leaves_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = plan(leaves_folder, tmp_path / "c")
    needed = estimate(planned)
    taken = sum(
        -(-len(data) // 4096) * 4096 for name, data in contents(made).items() if name.endswith(".jpg")
    )
    assert needed.files == 50
    assert needed.bytes == pytest.approx(taken, rel=0.3)
    assert estimate(plan(leaves_folder, made)).bytes < 0.3 * needed.bytes
    full = shutil._ntuple_diskusage(10**9, 10**9 - 1000, 1000)  # type: ignore[attr-defined]
    monkeypatch.setattr(bench.corrupted_set.shutil, "disk_usage", lambda path: full)
    with pytest.raises(InputError, match=r"GB more, but 0\.00 GB are free"):
        check_space(planned, estimate(planned))
    with pytest.raises(InputError, match="room for 10 more"):
        check_space(planned, Estimate(50, 0, 10**9, 10))
    assert not (tmp_path / "c").exists()


def test_a_manifest_comes_back_as_it_was(made: Path, leaves_folder: Path) -> None:
    found = open_set(made)
    planned = plan(leaves_folder, made)
    assert found.dataset.digest == planned.dataset.digest
    assert found.names == planned.names
    assert (found.spec, found.encoding, found.seed) == (SPEC, Encoding(85), 0)
    assert len(read_digests(found, ("pixelate", 5))) == 10


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "other"}, "not the manifest"),
        ({"version": 99}, "update it"),
        ({"names": {"0" * 64: "../../etc/passwd"}}, "damaged"),
        ({"names": {"0" * 64: "/etc/passwd"}}, "damaged"),
        ({"names": {"0" * 64: "a/../b"}}, "damaged"),
        ({"spec": {"height": -1}}, "damaged|outside"),
        ({"corruptions": ["../x"]}, "damaged"),
        ({"data": None}, "damaged"),
    ],
)
def test_a_manifest_that_lies_is_refused(
    made: Path, tmp_path: Path, change: dict[str, object], words: str
) -> None:
    values = json.loads((made / "manifest.json").read_text())
    (tmp_path / "manifest.json").write_text(json.dumps({**values, **change}))
    with pytest.raises(InputError, match=words):
        open_set(tmp_path)


def test_the_command_prints_an_estimate_and_makes_the_set(
    command: Command, leaves_folder: Path, tmp_path: Path
) -> None:
    arguments = ("corrupt", leaves_folder, tmp_path / "c", "--corruptions", "pixelate", "--severities", "3")
    dry = command("mango-bench", *arguments, "--dry-run")
    assert dry.returncode == 0
    assert "20 files of 10 photographs" in dry.stderr
    assert not (tmp_path / "c").exists()
    done = command("mango-bench", *arguments)
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "c" / "pixelate" / "3").rglob("*.jpg"))) == 10


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--quality", "0"), "1 to 100"),
        (("--quality", "90", "--lossless"), "exclude each other"),
        (("--corruptions", "rain"), "'rain' is not known"),
        (("--severities", "6"), "--severities"),
        (("--images", "fresh"), "all or held-out"),
    ],
)
def test_misuse_ends_in_one_sentence(
    command: Command, leaves_folder: Path, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    done = command("mango-bench", "corrupt", leaves_folder, tmp_path / "c", *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "c").exists()
