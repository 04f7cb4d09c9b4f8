"""A model on another data set: classes matched, scores as scikit-learn has them, intervals by session."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from conftest import Command
from PIL import Image

from bench.baseline import Settings
from bench.drawing import draw_leaf
from bench.report.page import render_html, sections
from bench.report.transfer import lines, section
from bench.result import read_results, write_results
from bench.transfer import _by_cluster, _scores, match_classes, parse_map, transfer
from edge.classifier import DEFAULT_MODEL, Classifier
from edge.errors import InputError

LABELS = ("Anthracnose", "Bacterial Canker", "Gall Midge", "Healthy")


def test_maps_are_read_and_bad_ones_refused() -> None:
    assert parse_map(["Gall_Mid=Gall Midge, cuts = Cutting Weevil", "x=Healthy"]) == {
        "Gall_Mid": "Gall Midge",
        "cuts": "Cutting Weevil",
        "x": "Healthy",
    }
    for text in ("Gall_Mid", "=x", "a=", "a=b,a=c"):
        with pytest.raises(InputError, match="--map"):
            parse_map([text])


def test_classes_spelled_alike_need_no_map() -> None:
    found = match_classes(("healthy", "BACTERIAL_canker", "gm", "rust"), LABELS, {"gm": "gall-midge"}, "x")
    assert found == {"healthy": "Healthy", "BACTERIAL_canker": "Bacterial Canker", "gm": "Gall Midge"}
    with pytest.raises(InputError, match="no class 'nothing'"):
        match_classes(("healthy",), LABELS, {"nothing": "Healthy"}, "x")
    with pytest.raises(InputError, match="the model knows no class 'Rust'"):
        match_classes(("healthy", "rust"), LABELS, {"rust": "Rust"}, "x")
    with pytest.raises(InputError, match=r"1 class\(es\) shared"):
        match_classes(("healthy", "rust"), LABELS, {}, "x")


def test_scores_are_scikit_learns_over_the_shared_classes() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    generator = np.random.default_rng(0)
    truth = generator.integers(0, 3, 300)
    columns = [0, 2, 3]
    said = np.where(generator.random(300) < 0.5, np.array(columns)[truth], generator.integers(0, 4, 300))
    matrices = _by_cluster(truth, said, np.arange(300), 3, 4)
    found = _scores(matrices, columns, 200, 0)
    of_model = np.array(columns)[truth]
    assert found["accuracy"]["value"] == pytest.approx((said == of_model).mean())
    expected = metrics.f1_score(of_model, said, labels=columns, average="macro")
    assert found["macro_f1"]["value"] == pytest.approx(expected)
    assert found["macro_f1"]["low"] < expected < found["macro_f1"]["high"]


def test_sessions_that_agree_within_make_wider_intervals_than_their_pictures_would() -> None:
    generator = np.random.default_rng(1)
    session = np.repeat(np.arange(20), 15)
    truth = session % 2
    said = np.where(generator.random(20)[session] < 0.6, truth, 1 - truth)
    by_session = _scores(_by_cluster(truth, said, session, 2, 2), [0, 1], 1000, 0)["accuracy"]
    by_picture = _scores(_by_cluster(truth, said, np.arange(300), 2, 2), [0, 1], 1000, 0)["accuracy"]
    assert by_session["value"] == by_picture["value"]
    assert by_session["high"] - by_session["low"] > 2.5 * (by_picture["high"] - by_picture["low"])


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Drawn leaves of two known classes, one named otherwise, and of one that no model knows, with times."""
    root = tmp_path_factory.mktemp("elsewhere") / "data"
    for number, (folder, label) in enumerate(
        (("gall_mid", "Gall Midge"), ("HEALTHY", "Healthy"), ("rust", "Anthracnose"))
    ):
        for shot in range(8):
            taken = datetime(2022, 3, 1) + timedelta(hours=4 * (shot // 2) + number, seconds=shot)
            path = root / folder / f"IMG_{taken:%Y%m%d_%H%M%S}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(draw_leaf(label, np.random.default_rng([9, number, shot]))).save(path)
    (root / "HEALTHY" / "torn.jpg").write_bytes(b"\xff\xd8\xff\xe0 torn")
    return root


def test_a_model_is_scored_free_and_restricted_beside_the_clock(elsewhere: Path, tmp_path: Path) -> None:
    entry = transfer(
        DEFAULT_MODEL, elsewhere, {"gall_mid": "Gall Midge"}, settings=Settings(seeds=2, trees=10)
    )
    body = entry.body
    assert body["map"] == {"Healthy": "Healthy", "gall_mid": "Gall Midge"}
    assert body["images"] == {"Gall Midge": 8, "Healthy": 8}
    assert body["left_out"] == ["rust"]
    assert len(body["unreadable"]) == 1
    assert "torn.jpg" in body["unreadable"][0]
    assert body["sessions"] == {"unit": "burst", "number": 8}
    classifier = Classifier.open()
    right = [
        classifier.classify_path(path).label == label
        for folder, label in (("gall_mid", "Gall Midge"), ("HEALTHY", "Healthy"))
        for path in sorted((elsewhere / folder).glob("IMG*"))
    ]
    assert body["free"]["accuracy"]["value"] == pytest.approx(np.mean(right))
    assert body["restricted"]["accuracy"]["value"] >= body["free"]["accuracy"]["value"]
    assert np.array(body["confusion"]["free"]).sum() == 16
    assert np.array(body["confusion"]["restricted"]).shape == (2, 2)
    assert set(body["time_baseline"]) == {"cv", "disjoint"}
    write_results(tmp_path / "t.json", [entry], [])
    [read] = read_results(tmp_path / "t.json")
    assert "an independent data set" in lines(read)[0]
    assert "The capture time alone" in " ".join(lines(read))
    part = section([read])
    assert any("only 8 sessions" in warning for warning in part.warnings)
    assert "On pictures from elsewhere" in render_html(sections([read]))


def test_pictures_without_times_are_resampled_one_by_one_and_that_is_said(tmp_path: Path) -> None:
    for number, label in enumerate(("Healthy", "Anthracnose")):
        (tmp_path / label).mkdir()
        for shot in range(3):
            leaf = draw_leaf(label, np.random.default_rng([number, shot]))
            Image.fromarray(leaf).save(tmp_path / label / f"{shot}.png")
    entry = transfer(DEFAULT_MODEL, tmp_path, {})
    assert entry.body["sessions"] == {"unit": "picture", "number": 6}
    assert entry.body["time_baseline"] is None
    assert "no times" in section([entry]).warnings[0]


def test_the_command_names_what_it_could_not_read(elsewhere: Path, tmp_path: Path, command: Command) -> None:
    done = command(
        "mango-bench", "transfer", DEFAULT_MODEL, elsewhere, "--map", "gall_mid=Gall Midge",
        "--out", tmp_path / "t.json", "--seeds", 2,
    )  # fmt: skip
    assert done.returncode == 1
    assert "torn.jpg" in done.stderr
    assert "macro-F1" in done.stdout
    assert read_results(tmp_path / "t.json")[0].kind == "transfer"
    done = command("mango-bench", "transfer", DEFAULT_MODEL, elsewhere, "--map", "gall_mid=Rust")
    assert done.returncode == 2
    assert "the model knows no class 'Rust'" in done.stderr
