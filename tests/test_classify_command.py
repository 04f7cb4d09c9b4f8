"""`mango-edge classify` and `info` as a user meets them."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pytest
from conftest import Command
from PIL import Image

from bench.cli import app as bench_app
from bench.drawing import draw_samples
from edge.classifier import DEFAULT_MODEL
from edge.contract import read_model, write_model
from edge.preprocessing import Pixels


@pytest.fixture
def folder(tmp_path: Path, leaf: Pixels) -> Path:
    """Two good pictures and one of every kind of bad one."""
    good = Image.fromarray(leaf)
    good.save(tmp_path / "good.PNG")
    (tmp_path / "sub").mkdir()
    good.save(tmp_path / "sub" / "Blatt ü.jpeg", quality=95)
    (tmp_path / "cut.jpg").write_bytes((tmp_path / "sub" / "Blatt ü.jpeg").read_bytes()[:3000])
    (tmp_path / "empty.jpg").touch()
    (tmp_path / "text.jpg").write_text("not a picture")
    (tmp_path / "gone.jpg").symlink_to(tmp_path / "nowhere.jpg")
    (tmp_path / "notes.txt").write_text("row 3")
    return tmp_path


def test_good_pictures_are_classified_and_bad_ones_named(command: Command, folder: Path) -> None:
    done = command("mango-edge", "classify", folder)
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 2
    errors = done.stderr.splitlines()
    assert [line.split(":")[0] for line in errors] == ["passed over 1 file(s) that are not pictures"] + [
        "error"
    ] * 4
    for name in ("cut.jpg", "empty.jpg", "text.jpg", "gone.jpg"):
        assert sum(name in line for line in errors) == 1
    assert "Traceback" not in done.stderr


def test_json_is_valid_and_complete_even_when_pictures_fail(command: Command, folder: Path) -> None:
    done = command(
        "mango-edge", "classify", folder, folder / "missing.jpg", folder / "*.webp", "--json", "--top", 8
    )
    values = json.loads(done.stdout)
    assert done.returncode == 1
    assert len(values["results"]) == 2
    assert len(values["errors"]) == 6
    assert values["runtime"].startswith("ai-edge-litert")
    for result in values["results"]:
        assert result["top"][0]["label"] == result["label"]
        assert len(result["top"]) == 8


def test_csv_has_a_row_for_each_picture(command: Command, folder: Path) -> None:
    done = command("mango-edge", "classify", folder / "good.PNG", folder / "sub", "--csv", "--top", 2)
    rows = list(csv.reader(io.StringIO(done.stdout)))
    assert done.returncode == 0
    assert rows[0] == ["path", "label_1", "probability_1", "label_2", "probability_2", "uncertain"]
    assert [Path(row[0]).name for row in rows[1:]] == ["good.PNG", "Blatt ü.jpeg"]


def test_a_folder_without_a_picture_is_an_error(command: Command, tmp_path: Path) -> None:
    done = command("mango-edge", "classify", tmp_path)
    assert done.returncode == 1
    assert "no picture in this folder" in done.stderr


def test_globs_find_files_that_a_shell_did_not_expand(command: Command, folder: Path) -> None:
    done = command("mango-edge", "classify", f"{folder}/**/*.jpeg")
    assert done.returncode == 0
    assert "Blatt" in done.stdout


def test_what_cannot_be_read_does_not_hold_up_the_others(command: Command, folder: Path) -> None:
    os.mkfifo(folder / "pipe.jpg")
    long = "x" * 300 + ".png"
    done = command("mango-edge", "classify", folder, long, "/dev/zero", f"{folder}/su*", "--json")
    values = json.loads(done.stdout)
    assert done.returncode == 1
    assert sorted(Path(result["path"]).name for result in values["results"]) == ["Blatt ü.jpeg", "good.PNG"]
    named = {error["path"] for error in values["errors"]}
    assert {str(folder / "pipe.jpg"), long, "/dev/zero"} <= named
    assert len(named) == len(done.stderr.splitlines()) - 1 == 7


def test_an_interrupted_command_says_so_in_one_line(folder: Path) -> None:
    # Standard input stays open, so the second picture is waited for until the interruption.
    program = "import sys; sys.argv[0] = 'mango-edge'; from edge.cli import main; main()"
    arguments = ["classify", str(folder / "good.PNG"), "/dev/stdin"]
    with interruptible(program, *arguments) as process:
        assert process.stdout is not None
        assert "good.PNG" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "interrupted\n")


@pytest.mark.parametrize("package", ["edge", "convert", "bench"])
def test_every_command_line_says_that_it_was_interrupted(package: str) -> None:
    program = (
        f"import time; from edge.console import run; from {package}.cli.app import app\n"
        "@app.command()\n"
        "def wait():\n"
        "    print('waiting', flush=True)\n"
        "    time.sleep(60)\n"
        "run(app)"
    )
    with interruptible(program, "wait") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "interrupted\n")


def interruptible(program: str, *arguments: str) -> subprocess.Popen[str]:
    """A running Python program. SIGINT is given back its meaning, which a shell takes from background jobs."""
    begin = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    return subprocess.Popen(
        [sys.executable, "-c", begin + program, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
    )


@pytest.mark.parametrize("name", ["mango-edge", "mango-convert", "mango-bench"])
def test_a_usage_error_still_ends_with_status_two(command: Command, name: str) -> None:
    done = command(name, "no-such-command")
    assert done.returncode == 2
    assert "No such command 'no-such-command'" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_malformed_calibration_is_named_with_its_file(
    command: Command, tmp_path: Path, folder: Path
) -> None:
    model = read_model(DEFAULT_MODEL)
    path = tmp_path / "hot.tflite"
    contract = dataclasses.replace(model.contract, extra={**model.contract.extra, "temperature": "hot"})
    write_model(path, model.flatbuffer, contract, model.members)
    for arguments in (("info", path), ("classify", folder / "good.PNG", "--model", path)):
        done = command("mango-edge", *arguments)
        assert done.returncode == 2
        assert f"{path}: its contract is wrong: extra.temperature" in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_every_seed_of_the_bench_is_bounded_to_what_generators_take(command: Command, tmp_path: Path) -> None:
    seeds = {}
    for made in bench_app.registered_commands:
        assert made.callback is not None
        for name, hint in get_type_hints(made.callback, include_extras=True).items():
            if name.endswith("seed"):
                option = hint.__metadata__[0]
                seeds[made.callback.__name__, name] = (option.min, option.max)
    assert {name for name, _ in seeds} >= {"draw", "gates", "robustness", "split", "transfer", "video"}
    assert set(seeds.values()) == {(0, 2**32 - 1)}
    for option, value in (("--seed", -1), ("--seed", 2**32), ("--per-class", 0)):
        done = command("mango-bench", "draw", tmp_path / "out", option, value)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr
        assert option in done.stderr


def test_a_name_that_is_not_text_is_still_classified(command: Command, folder: Path) -> None:
    odd = os.fsencode(folder) + b"/caf\xe9.png"
    try:
        with open(odd, "wb") as file:
            file.write((folder / "good.PNG").read_bytes())
    except OSError:
        pytest.skip("this file system takes only valid text as names")
    for form in ("--json", "--csv", "--top=1"):
        done = command("mango-edge", "classify", os.fsdecode(odd), form)
        assert done.returncode == 0, done.stderr
        assert "caf" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("classify", "x.png", "--json", "--csv"), "exclude each other"),
        (("classify", "x.png", "--model", "missing.tflite"), "no such model file"),
        (("classify", "x.png", "--runtime", "onnx"), "'onnx' is not known"),
        (("info", "pyproject.toml"), "not a TFLite model"),
    ],
)
def test_misuse_ends_in_one_sentence_and_status_two(
    command: Command, arguments: tuple[str, ...], words: str
) -> None:
    done = command("mango-edge", *arguments, cwd=Path(__file__).parent.parent)
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_info_shows_the_contract(command: Command) -> None:
    done = command("mango-edge", "info")
    assert done.returncode == 0
    for words in (
        "lcnn, int8",
        "171,784 parameters",
        "split burst",
        "224x224 RGB",
        "opened by      ai-edge-litert",
    ):
        assert words in done.stdout
    assert json.loads(command("mango-edge", "info", "--json").stdout)["precision"] == "int8"


@pytest.mark.parametrize("name", ["mango-edge", "mango-convert", "mango-bench"])
def test_every_command_line_says_what_it_is(command: Command, name: str) -> None:
    done = command(name, "--help")
    assert done.returncode == 0
    assert "--version" in done.stdout
    assert command(name, "--version").stdout.startswith(name)


def test_drawn_samples_are_the_same_bytes_for_the_same_seed(tmp_path: Path) -> None:
    first = [path.read_bytes() for path in draw_samples(tmp_path / "a", 1, seed=4)]
    again = [path.read_bytes() for path in draw_samples(tmp_path / "b", 1, seed=4)]
    other = [path.read_bytes() for path in draw_samples(tmp_path / "c", 1, seed=5)]
    assert first == again != other
    assert len(first) == 8
    assert np.asarray(Image.open(io.BytesIO(first[0]))).shape == (240, 320, 3)


def test_probabilities_are_calibrated_as_the_field_runner_s_are(command: Command, tmp_path: Path) -> None:
    draw_samples(tmp_path, 1)
    values = json.loads(command("mango-edge", "classify", tmp_path, "--json", "--top", 8).stdout)
    extra = read_model(DEFAULT_MODEL).contract.extra
    assert values["calibration"] == {name: extra[name] for name in ("temperature", "uncertain_below")}
    lines = command("mango-edge", "classify", tmp_path).stdout.splitlines()
    assert len(lines) == len(values["results"]) > 0
    for result, line in zip(values["results"], lines, strict=True):
        # Softmax of log p / T is p to the power of 1 / T over the sum of these; 0 stands for half a step of 1/256.
        powers = [
            max(entry["uncalibrated"], 1 / 512) ** (1 / extra["temperature"]) for entry in result["top"]
        ]
        expected = [power / sum(powers) for power in powers]
        assert [entry["probability"] for entry in result["top"]] == pytest.approx(expected, abs=2e-5)
        assert result["uncertain"] == (expected[0] < extra["uncertain_below"])
        assert line.endswith("(uncertain)") == result["uncertain"]
