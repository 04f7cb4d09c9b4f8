"""A model on another data set: classes matched, scores as scikit-learn has them, intervals by session."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from conftest import Command
from PIL import Image

from bench.baseline import Settings
from bench.drawing import draw_leaf
from bench.reading import read_readings
from bench.report.page import render_html, sections
from bench.report.transfer import lines, section, warnings
from bench.result import read_results, write_results
from bench.transfer import _by_cluster, _check_source, _scores, match_classes, parse_map, transfer
from convert.dataset import index
from edge.classifier import DEFAULT_MODEL, Classifier
from edge.contract import Training, read_model, write_model
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
    both = match_classes(("Rust", "healthy", "rust"), LABELS, {"RUST": "Anthracnose"}, "x")
    assert both == {"Rust": "Anthracnose", "healthy": "Healthy", "rust": "Anthracnose"}
    with pytest.raises(InputError, match="two of the model's, Anthracnose and Gall Midge"):
        match_classes(("healthy", "rust"), LABELS, {"rust": "Anthracnose", "Rust": "Gall Midge"}, "x")
    # The folder "scooty mould" is read as Sooty Mould, so that is what --map may call it as well.
    mapped = match_classes(("Healthy", "Sooty Mould"), LABELS, {"scooty_mould": "Anthracnose"}, "x")
    assert mapped["Sooty Mould"] == "Anthracnose"


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


def trained_on(folder: Path, into: Path) -> Path:
    """The shipped network with a contract that says it was trained on the folder."""
    shipped = read_model(DEFAULT_MODEL)
    training = Training(index(folder).digest, 16, "random", "1" * 64, 7, 1, 1, "2" * 64)
    write_model(into, shipped.flatbuffer, replace(shipped.contract, training=training, scores=()))
    return into


def save(folder: Path, names: Mapping[str, str]) -> None:
    """Drawn leaves: path below the folder -> class to draw."""
    for number, (name, label) in enumerate(names.items()):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draw_leaf(label, np.random.default_rng([11, number]))).save(path)


PAIR = {f"{label}/{shot}.png": label for label in ("Gall Midge", "Healthy") for shot in range(3)}


def test_the_models_own_data_are_refused_whatever_folders_and_files_are_called(tmp_path: Path) -> None:
    home = tmp_path / "home"
    save(home, PAIR)
    model = trained_on(home, tmp_path / "m.tflite")
    with pytest.raises(InputError, match=r"these are the data that .* was trained on"):
        transfer(model, home, {})
    shutil.copytree(home / "Healthy", tmp_path / "copy" / "sound")
    shutil.copytree(home / "Gall Midge", tmp_path / "copy" / "gm")
    (tmp_path / "copy" / "gm" / "0.png").rename(tmp_path / "copy" / "gm" / "other.png")
    with pytest.raises(InputError, match=r"these are the data that .* was trained on"):
        transfer(model, tmp_path / "copy", {"sound": "Healthy", "gm": "Gall Midge"})
    table = tmp_path / "home.csv"
    rows = "".join(f"home/{name},{label}\n" for name, label in PAIR.items())
    table.write_text(f"path,label\n{rows}")
    with pytest.raises(InputError, match=r"these are the data that .* was trained on"):
        transfer(model, table, {})


def test_a_part_of_the_models_data_is_not_called_independent(tmp_path: Path) -> None:
    save(tmp_path / "home", PAIR)
    model = trained_on(tmp_path / "home", tmp_path / "m.tflite")
    shutil.copytree(tmp_path / "home", tmp_path / "part")
    (tmp_path / "part" / "Healthy" / "0.png").unlink()
    entry = transfer(model, tmp_path / "part", {})
    text = " ".join(lines(entry))
    assert "independent" not in text
    assert "whether single ones come from it is not checked" in text
    untrained = replace(entry, model={**(entry.model or {}), "training": None})
    assert "does not say what it was trained on" in " ".join(lines(untrained))
    # A result that an earlier version wrote of the model's own data.
    digest = index(tmp_path / "home").digest
    old = replace(entry, data={**(entry.data or {}), "digest": digest})
    assert any("the score is no transfer" in warning for warning in warnings(old))


def test_one_session_gives_no_interval(tmp_path: Path) -> None:
    save(tmp_path / "d", {f"{label}/IMG_20220301_08000{shot}.png": label for label in ("Gall Midge", "Healthy")
                          for shot in range(3)})  # fmt: skip
    entry = transfer(DEFAULT_MODEL, tmp_path / "d", {}, settings=Settings(seeds=2, trees=5))
    assert entry.body["sessions"] == {"unit": "burst", "number": 1}
    for way in ("free", "restricted"):
        for score in entry.body[way].values():
            assert (score["low"], score["high"]) == (None, None)
    assert "(no interval)" in lines(entry)[0]
    assert "1 burst," in lines(entry)[0]
    assert set(entry.body["time_baseline"]) == {"cv"}
    assert any("there is no interval" in warning for warning in warnings(entry))
    write_results(tmp_path / "t.json", [entry], [])
    assert "(no interval)" in render_html(sections(read_results(tmp_path / "t.json")))


def test_two_pictures_are_too_few_for_a_time_baseline(tmp_path: Path) -> None:
    names = {"Gall Midge/IMG_20220301_080000.png": "Gall Midge", "Healthy/IMG_20220302_080000.png": "Healthy"}
    save(tmp_path / "d", names)
    entry = transfer(DEFAULT_MODEL, tmp_path / "d", {}, settings=Settings(seeds=2, trees=5))
    assert entry.body["time_baseline"] is None
    assert "too few for a time baseline" in " ".join(lines(entry))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Pictures of two classes in four named sessions without times; one picture is missing, one stands there twice."""
    save(tmp_path / "p", PAIR)
    (tmp_path / "p" / "again.png").write_bytes((tmp_path / "p" / "Healthy" / "1.png").read_bytes())
    rows = [f"p/{name},{label},{label[0]}{name[-5] == '0'}" for name, label in PAIR.items()]
    rows += ["p/again.png,Healthy,H", "p/gone.png,Healthy,H", ",Healthy,H", "p/unknown.png,rust,R"]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["path,label,session", *rows]) + "\n")
    return path


def test_given_sessions_are_resampled_and_missing_pictures_named(table: Path, command: Command) -> None:
    out = table.parent / "t.json"
    done = command("mango-bench", "transfer", DEFAULT_MODEL, table, "--out", out)
    assert done.returncode == 1, done.stderr
    assert "p/gone.png: no such picture file" in done.stderr
    assert "row 9: no such picture file" in done.stderr
    assert "unknown.png" not in done.stderr
    [entry] = read_results(out)
    assert entry.body["sessions"] == {"unit": "group", "number": 4}
    assert sum(entry.body["images"].values()) == 6
    assert "6 pictures of 2 shared classes in 4 given sessions" in done.stdout
    assert "only 4 given sessions, so the intervals are rough" in done.stdout
    assert "picture(s) that stand there twice were counted once" in done.stdout
    assert "picture files are not below" in " ".join(section([entry]).paragraphs)


def test_tables_that_tell_nothing_of_transfer_are_refused(table: Path) -> None:
    text = table.read_text()
    table.write_text(text + "p/again.png,Gall Midge,H\n")
    with pytest.raises(InputError, match="the same picture stands in two classes"):
        transfer(DEFAULT_MODEL, table, {})
    table.write_text(text.replace("path,", "leaf,"))
    with pytest.raises(InputError, match="no column names picture files"):
        transfer(DEFAULT_MODEL, table, {})
    table.write_text(text.replace("p/", "q/"))
    with pytest.raises(InputError, match=r"no picture of a shared class can be read.*q/Gall Midge/0\.png"):
        transfer(DEFAULT_MODEL, table, {})
    journal = replace(read_readings(table), source="journal")
    with pytest.raises(InputError, match="what a model decided"):
        _check_source(journal)


def test_sessions_that_all_score_alike_give_no_interval_of_no_width(table: Path) -> None:
    truth = np.repeat([0, 1], 30)
    for said in (truth, 1 - truth):
        for score in _scores(_by_cluster(truth, said, np.arange(60) // 3, 2, 2), [0, 1], 300, 4).values():
            assert (score["low"], score["high"]) == (None, None)
    entry = transfer(DEFAULT_MODEL, table, {})
    alike = {"value": 1.0, "low": None, "high": None}
    body = {**entry.body, "free": {"accuracy": alike, "macro_f1": alike}}
    assert any("all given sessions score alike" in warning for warning in warnings(replace(entry, body=body)))


def test_resamples_in_blocks_are_those_of_one_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(3)
    matrices = _by_cluster(
        generator.integers(0, 2, 60), generator.integers(0, 2, 60), np.arange(60) // 3, 2, 2
    )
    whole = _scores(matrices, [0, 1], 300, 4)
    monkeypatch.setattr("bench.transfer._CELLS", 100)
    assert _scores(matrices, [0, 1], 300, 4) == whole


def test_scores_of_a_sister_model_are_not_called_the_models(elsewhere: Path) -> None:
    entry = transfer(
        DEFAULT_MODEL, elsewhere, {"gall_mid": "Gall Midge"}, settings=Settings(seeds=2, trees=5)
    )
    model = dict(entry.model or {})
    model["training"] = {**model["training"], "weights_digest": model["scores"][0]["weights_digest"]}
    model["scores"] = [
        model["scores"][0],
        {**model["scores"][0], "split": "random", "weights_digest": "0" * 64},
    ]
    [scores, _] = section([replace(entry, model=model)]).tables
    sees = [str(row[0]) for row in scores.rows]
    assert sees.count(model["name"]) == 1
    assert f"{model['name']} (sister trained on random)" in sees


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
    assert "16 pictures of 2 shared classes in 8 bursts" in lines(read)[0]
    assert "The capture time alone" in " ".join(lines(read))
    part = section([read])
    assert any("only 8 bursts" in warning for warning in part.warnings)
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
    assert "neither sessions nor times" in section([entry]).warnings[0]


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
