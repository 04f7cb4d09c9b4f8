"""`mango-convert calibrate` and `mango-bench gates`, `field` on drawn leaves with a real model."""

from __future__ import annotations

import csv
import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from conftest import Command

from bench.drawing import draw_samples
from bench.field import measure_rate, pictures_of_size
from bench.gates import other_things, packaged_pictures
from bench.video import write_walk
from convert.baseline import beside
from convert.calibration import calibrate
from convert.dataset import Dataset, index
from convert.split import Split, make_split, part_of, write_split
from edge.appearance import appearance_of
from edge.calibration import calibration_of
from edge.classifier import DEFAULT_MODEL, Classifier
from edge.contract import Training, read_model, write_model
from edge.errors import InputError
from edge.preprocessing import InputSpec, fit, read_photograph
from edge.source import open_source


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Eight drawn leaves of each class."""
    folder = tmp_path_factory.mktemp("drawn")
    draw_samples(folder, per_class=8)
    return index(folder)


@pytest.fixture(scope="module")
def split(drawn: Dataset) -> Split:
    return make_split("random", drawn)


@pytest.fixture(scope="module")
def calibrated(drawn: Dataset, split: Split, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped network, said to be trained on the drawings, and calibrated on them."""
    shipped = read_model(DEFAULT_MODEL)
    training = Training(drawn.digest, 1, split.name, split.digest, split.seed, 1, 1, "0" * 64)
    contract = dataclasses.replace(shipped.contract, training=training, extra={"release": 3})
    path = tmp_path_factory.mktemp("model") / "model.tflite"
    write_model(path, shipped.flatbuffer, contract, {"note.txt": b"kept"})
    calibrate(path, drawn, split)
    return path


def test_calibration_is_written_into_the_file_and_nothing_else_is_changed(calibrated: Path) -> None:
    model, shipped = read_model(calibrated), read_model(DEFAULT_MODEL)
    assert model.flatbuffer == shipped.flatbuffer
    assert model.members == {"note.txt": b"kept"}
    extra = model.contract.extra
    assert extra["release"] == 3
    found = extra["calibrated"]
    assert (found["validation"]["images"], found["test"]["images"]) == (8, 8)
    assert calibration_of(model.contract).measured
    assert found["validation"]["nll_after"] <= found["validation"]["nll_before"]
    for part in ("validation", "test"):
        assert 0 <= found[part]["ece_after"] <= 1
    assert appearance_of(model.contract) is not None


def test_calibrating_again_gives_the_same_bytes(calibrated: Path, drawn: Dataset, split: Split) -> None:
    before = calibrated.read_bytes()
    calibrate(calibrated, drawn, split)
    assert calibrated.read_bytes() == before


def test_another_split_is_refused_for_it_would_hold_training_photographs(
    calibrated: Path, drawn: Dataset
) -> None:
    before = calibrated.read_bytes()
    with pytest.raises(InputError, match="its validation part would hold training photographs"):
        calibrate(calibrated, drawn, make_split("random", drawn, seed=8))
    assert calibrated.read_bytes() == before


def test_the_calibrated_gate_knows_leaves_from_other_things(
    calibrated: Path, drawn: Dataset, split: Split
) -> None:
    appearance = appearance_of(read_model(calibrated).contract)
    leaves = [drawn.root / photograph.path for photograph in part_of(split, drawn, "test")]
    assert other_things("leaves", leaves, InputSpec(), appearance).share <= 0.25
    pictures = packaged_pictures().get("skimage")
    if not pictures:
        pytest.skip("scikit-image is not installed: its pictures stand for things that are no leaves")
    found = other_things("skimage", pictures, InputSpec(), appearance)
    assert found.pictures > 15
    assert found.share > 0.9
    assert len(found.passed) == found.pictures - sum(found.refused.values())


def test_the_commands_print_what_they_measured(
    command: Command, calibrated: Path, drawn: Dataset, split: Split, tmp_path: Path
) -> None:
    split_file = tmp_path / "split.json"
    write_split(split, split_file)
    model = tmp_path / "model.tflite"
    model.write_bytes(calibrated.read_bytes())
    done = command("mango-convert", "calibrate", model, "--data", drawn.root, "--split", split_file)
    assert done.returncode == 0, done.stderr
    assert model.read_bytes() == calibrated.read_bytes()
    temperature = calibration_of(read_model(model).contract).temperature
    assert f"temperature {temperature:.4f}" in done.stdout
    for part in ("validation", "test"):
        [line] = [line for line in done.stdout.splitlines() if line.startswith(f"  {part}")]
        assert beside(drawn, split, part) in line
    out = tmp_path / "gates.json"
    done = command(
        *("mango-bench", "gates", "--data", drawn.root, "--model", model),
        *("--split", split_file, "--other", drawn.root / "Healthy", "--out", out),
    )
    assert done.returncode == 0, done.stderr
    values = json.loads(out.read_text())
    assert values["other_things"][-1]["pictures"] == 8
    assert sum(count["pictures"] for count in values["leaves"]) == 64


def test_weights_that_were_never_trained_are_not_calibrated(
    tmp_path: Path, drawn: Dataset, split: Split
) -> None:
    shipped = read_model(DEFAULT_MODEL)
    path = tmp_path / "model.tflite"
    write_model(path, shipped.flatbuffer, dataclasses.replace(shipped.contract, training=None))
    with pytest.raises(InputError, match="never trained"):
        calibrate(path, drawn, split)


def test_the_rate_is_that_of_the_runner_and_of_invoke(tmp_path: Path, drawn: Dataset) -> None:
    paths = [drawn.root / photograph.path for photograph in drawn.photographs]
    chosen, pictures = pictures_of_size(paths, 320, 240, 3)
    assert len(pictures) == 3
    rate = measure_rate(DEFAULT_MODEL, chosen, 20, 1, tmp_path, lambda text: None)
    assert len(rate.runner) == len(rate.bare) == 1
    assert rate.ratio == rate.runner[0] / rate.bare[0]
    assert rate.runner_ms[0] > 0
    assert len(list((tmp_path / "pictures").iterdir())) == 20
    with pytest.raises(InputError, match="no picture of 17x17 pixels"):
        pictures_of_size(paths, 17, 17, 1)


def test_a_walk_shows_each_photograph_with_its_label(
    tmp_path: Path, drawn: Dataset, split: Split, command: Command
) -> None:
    pytest.importorskip("cv2", reason="videos need OpenCV (make test installs it)")
    count, labels = write_walk(drawn, split, "test", tmp_path / "walk.avi", 2, 7)
    with labels.open(newline="") as file:
        rows = list(csv.DictReader(file))
    members = part_of(split, drawn, "test")
    assert count == len(rows) == 2 * len(members)
    assert {(row["photograph"], row["label"]) for row in rows} == {(p.path, p.label) for p in members}
    source = open_source(str(tmp_path / "walk.avi"), every_frame=True)
    source.open()
    for row in rows:
        frame = source.read()
        assert frame is not None
        assert frame.number == int(row["frame_number"])
        still = fit(read_photograph(drawn.root / row["photograph"]), InputSpec(240, 320))
        difference = np.abs(frame.pixels.astype(np.int16) - still).mean()
        others = [
            np.abs(
                frame.pixels.astype(np.int16) - fit(read_photograph(drawn.root / p.path), InputSpec(240, 320))
            ).mean()
            for p in members
            if p.path != row["photograph"]
        ]
        assert difference < min(others)
    journal = tmp_path / "journal"
    video = tmp_path / "walk.avi"
    done = command("mango-edge", "run", "--source", video, "--every-frame", "--journal", journal)
    assert done.returncode == 0, done.stderr
    done = command("mango-edge", "journal", "stats", journal, "--truth", labels, "--json")
    assert json.loads(done.stdout)["score"]["rows"] == count


def test_the_runner_takes_the_calibrated_threshold(
    calibrated: Path, drawn: Dataset, command: Command, tmp_path: Path
) -> None:
    model = read_model(calibrated)
    strict = tmp_path / "strict.tflite"
    extra = {**model.contract.extra, "uncertain_below": 1.0}
    write_model(strict, model.flatbuffer, dataclasses.replace(model.contract, extra=extra))
    picture = drawn.root / drawn.photographs[0].path
    done = command("mango-edge", "run", "--source", picture, "--model", strict, "--log-format", "json")
    decision = json.loads(done.stdout)
    assert (decision["label"], decision["gate"]) in (("uncertain", ""), ("", "no-leaf"))
    assert Classifier.open(strict).contract.extra["uncertain_below"] == 1.0
