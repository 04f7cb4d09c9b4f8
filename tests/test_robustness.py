"""`mango-bench robustness`: the same numbers on every way, resumed after a kill, and misuse in one sentence."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT, Command
from PIL import Image

from bench.campaign import Options, parse_corruptions, parse_severities, run_robustness
from bench.corrupted_set import plan_set, write_set
from bench.corruption import corrupt, corruption_generator
from bench.drawing import draw_samples
from bench.encoding import Encoding
from bench.execution import run_processes
from bench.prediction import predictions_from_json
from bench.result import Entry, read_results
from bench.selection import select
from convert.dataset import index
from edge.classifier import DEFAULT_MODEL, Classifier
from edge.errors import InputError
from edge.preprocessing import fit, read_photograph

NAMES, LEVELS = ("speckle_noise", "contrast", "pixelate"), (2, 5)
CHOICE = {"corruptions": ",".join(NAMES), "severities": "2,5", "images": "fresh"}


@pytest.fixture(scope="module")
def leaves(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Drawn leaves, two of each class, named as if shot in the field: two bursts a class."""
    folder = tmp_path_factory.mktemp("data") / "leaves"
    for number, path in enumerate(draw_samples(folder, per_class=2, seed=5)):
        path.rename(path.with_name(f"IMG_20220{1 + number // 10}01_{10 + number % 10}0000.png"))
    return folder


def run(out: Path, **options: Any) -> Entry:
    models = options.pop("models", (DEFAULT_MODEL,))
    list(run_robustness(Options(models=models, out=out, **options)))
    return read_results(out)[0]


@pytest.fixture(scope="module")
def entry(leaves: Path, tmp_path_factory: pytest.TempPathFactory) -> Entry:
    return run(tmp_path_factory.mktemp("result") / "r.json", data=leaves, **CHOICE)


def results(path: Path) -> Any:
    """All of a result file but when and by which command it was made."""
    return json.loads(path.read_text())["results"]


def test_predictions_are_those_of_each_picture_taken_by_itself(
    entry: Entry, leaves: Path, classifier: Classifier
) -> None:
    found = predictions_from_json(entry.body["predictions"], "x")
    photographs = sorted(index(leaves).photographs, key=lambda photograph: photograph.digest)
    assert found.truth is not None
    for place in (0, 7, 15):
        photograph = photographs[place]
        fitted = fit(read_photograph(leaves / photograph.path), classifier.contract.input)
        for name, severity in [(name, severity) for name in NAMES for severity in LEVELS]:
            generator = corruption_generator(photograph.digest, name, severity, 0)
            image = Encoding(85).through(corrupt(fitted, name, severity, generator))
            expected = int(np.argmax(classifier.probabilities(image)))
            assert found.corrupted[name][severity][place] == expected
        assert found.clean[place] == int(np.argmax(classifier.probabilities(Encoding(85).through(fitted))))
        assert found.labels[found.truth[place]] == photograph.label


def test_scores_are_means_of_the_predictions(entry: Entry) -> None:
    found = predictions_from_json(entry.body["predictions"], "x")
    scores = entry.body["scores"]
    errors = found.errors()
    assert scores["clean"]["error"] == pytest.approx(errors.clean)
    for name in NAMES:
        assert scores["corruptions"][name]["error"] == pytest.approx(errors.mean(name, LEVELS))
    assert scores["mean"]["error"] == pytest.approx(np.mean([errors.mean(name, LEVELS) for name in NAMES]))
    assert scores["severities"]["5"]["error"] == pytest.approx(
        np.mean([errors.corrupted[name][5] for name in NAMES])
    )
    assert scores["families"]["noise"] == scores["corruptions"]["speckle_noise"]
    digital = [errors.mean(name, LEVELS) for name in ("contrast", "pixelate")]
    assert scores["families"]["digital"]["error"] == pytest.approx(np.mean(digital))
    changed = np.mean([found.corrupted[name][level] != found.clean for name in NAMES for level in LEVELS])
    assert entry.body["changes"]["mean"] == pytest.approx(changed)


def test_the_entry_says_what_its_scores_depend_on(entry: Entry, leaves: Path) -> None:
    body = entry.body
    assert body["images"]["choice"].startswith(
        "all photographs of a data set that the model was not trained on"
    )
    assert body["images"]["seen_in_training"] is None
    assert "other data" in body["images"]["training"]
    assert body["images"]["bursts"] == 16
    assert body["encoding"]["text"] == "JPEG quality 85"
    assert body["corruption"]["base"].startswith("imagecorruptions")
    assert body["time_baseline"] is None
    assert body["time_baseline_missing"]
    assert body["runtime"].startswith("ai-edge-litert")
    assert entry.data is not None
    assert entry.data["digest"] == index(leaves).digest
    assert "3 of 19 corruptions" in " ".join(reference["name"] for reference in body["references"]) or all(
        reference["mce"] is None for reference in body["references"]
    )
    assert "NaN" not in json.dumps(body)


def test_published_references_need_all_severities(leaves: Path, tmp_path: Path, entry: Entry) -> None:
    by_name = {reference["name"].split(" (")[0]: reference for reference in entry.body["references"]}
    assert by_name["ResNet-101, published"]["mce"] is None
    # The other group's errors are known severity by severity.
    assert by_name["LCNN of another group"]["mce"] is not None
    whole = run(tmp_path / "r.json", data=leaves, images="fresh", corruptions="pixelate")
    first = whole.body["references"][0]
    assert first["name"] == "ResNet-101, published (1 of 19 corruptions)"
    error = whole.body["scores"]["corruptions"]["pixelate"]["error"]
    assert first["mce"] == pytest.approx(100 * error / first["mean_errors"]["pixelate"])
    assert first["decisive"] == ({"corruption": "pixelate", "share": 1.0} if error else None)


def test_two_processes_give_the_same_result(entry: Entry, leaves: Path, tmp_path: Path) -> None:
    assert run(tmp_path / "r.json", data=leaves, jobs=2, **CHOICE) == entry


@pytest.mark.parametrize("encoding", [Encoding(85), Encoding(None)])
def test_a_folder_and_the_fly_give_the_same_numbers(
    leaves: Path, tmp_path: Path, classifier: Classifier, encoding: Encoding
) -> None:
    chosen = select(index(leaves), "fresh", None)
    write_set(plan_set(tmp_path / "c", chosen, classifier.contract.input, encoding, 3, NAMES, LEVELS))
    stored = run(tmp_path / "stored.json", corrupted=tmp_path / "c", **CHOICE)
    flown = run(tmp_path / "flown.json", data=leaves, seed=3, lossless=encoding.quality is None, **CHOICE)
    assert stored.body["predictions"] == flown.body["predictions"]
    assert stored.body["scores"] == flown.body["scores"]
    assert stored.body["corruption"] == flown.body["corruption"]


def test_a_damaged_set_is_not_scored(leaves: Path, tmp_path: Path, classifier: Classifier) -> None:
    chosen = select(index(leaves), "fresh", None, limit=2)
    planned = plan_set(
        tmp_path / "c", chosen, classifier.contract.input, Encoding(85), 0, ("pixelate",), (1,)
    )
    write_set(planned)
    options = {"corruptions": "pixelate", "severities": "1", "images": "fresh", "limit": 2}
    victim = next((tmp_path / "c" / "pixelate" / "1").rglob("*.jpg"))
    good = victim.read_bytes()
    victim.write_bytes(good[:-100])
    with pytest.raises(InputError, match="not the picture that the set's digests promise"):
        run(tmp_path / "r.json", corrupted=tmp_path / "c", **options)
    victim.write_bytes(good)
    with pytest.raises(InputError, match="lacks 14 of the 16"):
        run(tmp_path / "r.json", corrupted=tmp_path / "c", **{**options, "limit": None})
    with pytest.raises(InputError, match="has no contrast"):
        run(tmp_path / "r.json", corrupted=tmp_path / "c", **{**options, "corruptions": "contrast"})
    with pytest.raises(InputError, match="stored as JPEG quality 85, not lossless"):
        run(tmp_path / "r.json", corrupted=tmp_path / "c", lossless=True, **options)


def test_a_run_that_was_killed_goes_on_and_ends_with_the_same_result(
    entry: Entry, leaves: Path, tmp_path: Path
) -> None:
    out = tmp_path / "r.json"
    program = "import sys; sys.argv[0] = 'mango-bench'; from bench.cli import main; main()"
    arguments = [
        sys.executable, "-c", program, "robustness", "--data", str(leaves), "-o", str(out), "--images", "fresh",
        "--corruptions", CHOICE["corruptions"], "--severities", CHOICE["severities"],
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        arguments, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    shards = out.with_name("r.json.parts")
    for _ in range(6000):
        if shards.is_dir() and len(list(shards.glob("*.shard"))) >= 2:
            break
        assert process.poll() is None, "the run was over before it could be killed"
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not out.exists()
    kept = {path.name: path.stat().st_mtime_ns for path in shards.glob("*.shard")}
    assert kept
    # A shard that was cut short by the kill is made again; a whole one is taken over.
    cut = next(iter(shards.glob("*.shard")))
    cut.write_bytes(cut.read_bytes()[:-2])
    assert run(out, data=leaves, **CHOICE) == entry
    assert not shards.exists()


def test_kept_answers_are_taken_over(leaves: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bench import robustness

    options = {"data": leaves, "corruptions": "pixelate", "severities": "1", "images": "fresh"}
    with monkeypatch.context() as patch:
        patch.setattr(robustness, "_collect", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "r.json", **options)

    def never(unit: object) -> list[bytes]:
        raise AssertionError("a finished unit was done again")

    monkeypatch.setattr(robustness, "predict_unit", never)
    run(tmp_path / "r.json", **options)
    # With another seed they do not fit.
    with monkeypatch.context(), pytest.raises(AssertionError, match="done again"):
        run(tmp_path / "r.json", seed=1, **options)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two worker processes on this machine."""
    distributed = pytest.importorskip("distributed", reason="distributed is not installed (extra dask)")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", host="127.0.0.1"
    ) as made:
        yield made


def test_a_cluster_gives_the_same_result(entry: Entry, leaves: Path, tmp_path: Path, cluster: Any) -> None:
    assert run(tmp_path / "r.json", data=leaves, dask=cluster.scheduler_address, **CHOICE) == entry


def test_a_cluster_survives_the_loss_of_a_worker(
    entry: Entry, leaves: Path, tmp_path: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bench import robustness

    killed: list[int] = []
    whole = robustness.write_shard

    def kill_after_the_first(folder: Path, name: str, classes: bytes) -> None:
        if not killed:
            victim = next(iter(cluster.workers.values()))
            killed.append(victim.pid)
            os.kill(victim.pid, signal.SIGKILL)
        whole(folder, name, classes)

    monkeypatch.setattr(robustness, "write_shard", kill_after_the_first)
    # Another seed, so that the scheduler has no answers left from the test before.
    lost = run(tmp_path / "lost.json", data=leaves, dask=cluster.scheduler_address, seed=9, **CHOICE)
    assert killed
    assert lost == run(tmp_path / "here.json", data=leaves, seed=9, **CHOICE)


def test_pictures_without_labels_are_scored_by_how_often_the_answer_changes(
    entry: Entry, leaves: Path, tmp_path: Path
) -> None:
    flat = tmp_path / "flat"
    flat.mkdir()
    for number, path in enumerate(sorted(leaves.rglob("*.png"))):
        (flat / f"{number}.png").write_bytes(path.read_bytes())
    found = run(tmp_path / "r.json", data=flat, **{**CHOICE, "images": "unlabelled"})
    assert found.body["labelled"] is False
    assert found.body["scores"] is None
    assert found.body["references"] == []
    assert found.body["changes"]["mean"] == entry.body["changes"]["mean"]
    assert found.body["predictions"]["truth"] is None


def test_two_models_in_one_run_and_what_one_loses_to_the_other(
    leaves: Path, tmp_path: Path, float_flatbuffer: bytes, classifier: Classifier
) -> None:
    from dataclasses import replace

    from convert.tflite import tensors
    from edge.contract import write_model

    taken, given = tensors(float_flatbuffer)
    contract = replace(
        classifier.contract, precision="float32", input_tensor=taken, output_tensor=given, calibration=None
    )
    other = tmp_path / "tiny-float32.tflite"
    write_model(other, float_flatbuffer, contract)
    out = tmp_path / "r.json"
    list(run_robustness(Options((DEFAULT_MODEL,), out, leaves, against=other, **CHOICE)))
    first, second = read_results(out)
    lost = first.body["quantisation"]
    assert second.body["quantisation"] is None
    assert lost["against"]["name"] == "tiny-float32"
    difference = first.body["scores"]["mean"]["error"] - second.body["scores"]["mean"]["error"]
    assert lost["error"] == pytest.approx(difference)
    low, high = lost["intervals"]["error"]
    assert low <= lost["error"] <= high
    one, two = (predictions_from_json(entry.body["predictions"], "x") for entry in (first, second))
    assert lost["agreement"] == pytest.approx((one.matrix()[:, 1:] == two.matrix()[:, 1:]).mean())
    # Each serves as a further reference for the other.
    assert any(
        reference["name"].startswith("tiny-float32, measured") for reference in first.body["references"]
    )
    # And a result file is a reference: a model is 100 relative to itself.
    itself = run(
        tmp_path / "again.json", data=leaves, references=(f"{out}#{DEFAULT_MODEL.stem}",), **CHOICE
    ).body["references"][0]
    assert itself["name"].startswith(f"{DEFAULT_MODEL.stem}, measured")
    assert itself["mce"] == pytest.approx(100) or itself["undefined"]


def test_clean_pictures_alone_can_be_scored(leaves: Path, tmp_path: Path) -> None:
    found = run(tmp_path / "r.json", data=leaves, corruptions="none", images="auto")
    assert found.body["scores"]["mean"] == {}
    assert found.body["scores"]["clean"]["error"] <= 1
    assert found.body["changes"] is None
    assert all(reference["mce"] is None for reference in found.body["references"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"data": None}, "--data DIR"),
        ({"data": Path("missing")}, "no such folder"),
        ({"corruptions": "rain"}, "'rain' is not known"),
        ({"corruptions": ","}, "nothing was named"),
        ({"severities": "0-5"}, "--severities"),
        ({"severities": "a"}, "--severities"),
        ({"images": "some"}, "'some' is not known"),
        ({"split": "weekly", "images": "held-out"}, "'weekly' is not known"),
        ({"lossless": True, "quality": 90}, "exclude each other"),
        ({"quality": 0}, "1 to 100"),
        ({"corrupted": Path("missing")}, "not a corrupted set"),
        ({"references": ("none", "published")}, "cannot stand beside"),
        ({"references": ("missing.json",)}, "cannot be read"),
        ({"references": ("published#AlexNet",)}, "no published model"),
        ({"models": (DEFAULT_MODEL, Path("missing.tflite"))}, "no such model file"),
        ({"dask": "nonsense://here"}, "no Dask scheduler"),
    ],
)
def test_misuse_is_one_sentence(leaves: Path, tmp_path: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        run(tmp_path / "r.json", **{"data": leaves, **CHOICE, **options})
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "r.json").exists()


def test_a_class_that_the_model_does_not_know_is_refused(leaves: Path, tmp_path: Path) -> None:
    folder = tmp_path / "more" / "Rust"
    folder.mkdir(parents=True)
    Image.new("RGB", (64, 64), "brown").save(folder / "a.png")
    with pytest.raises(InputError, match="'Rust' is not among the labels"):
        run(tmp_path / "r.json", data=tmp_path / "more", **CHOICE)


def test_a_picture_that_cannot_be_read_is_named(command: Command, tmp_path: Path) -> None:
    folder = tmp_path / "data" / "Healthy"
    folder.mkdir(parents=True)
    (folder / "cut.jpg").write_bytes(b"\xff\xd8\xff\xe0 cut")
    for more in ((), ("-j", "2")):
        done = command(
            "mango-bench", "robustness", "--data", folder.parent, "-o", tmp_path / "r.json", "--images", "fresh",
            "--corruptions", "none", *more,
        )  # fmt: skip
        assert done.returncode == 2
        assert "cut.jpg" in done.stderr
        assert "Traceback" not in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_the_device_path_stays_within_its_memory(leaves: Path, tmp_path: Path) -> None:
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("no /proc here: peak memory is read from it")
    program = (
        "import sys; sys.argv = ['mango-bench', 'robustness', '--data', sys.argv[1], '-o', sys.argv[2],"
        " '--images', 'fresh', '--severities', '3', '--limit', '3']\n"
        "from bench.cli import app\n"
        "app(standalone_mode=False)\n"
        "print([line for line in open('/proc/self/status') if line.startswith('VmHWM')][0].split()[1])\n"
        "print('tensorflow' in sys.modules, 'sklearn' in sys.modules, 'distributed' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(leaves), str(tmp_path / "r.json")],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    peak, loaded = done.stdout.splitlines()[-2:]
    assert int(peak) * 1024 < 250e6
    assert loaded == "False False False"


def test_a_lost_worker_process_is_said_in_one_sentence() -> None:
    with pytest.raises(InputError, match="a worker process was killed"):
        list(run_processes(os._exit, [1], jobs=1))


def test_corruptions_and_severities_are_read_as_people_write_them() -> None:
    assert parse_corruptions("pixelate, noise") == (
        "gaussian_noise", "shot_noise", "impulse_noise", "pixelate", "speckle_noise",
    )  # fmt: skip
    assert len(parse_corruptions("all")) == 19
    assert parse_corruptions("none") == ()
    assert parse_severities("1-3,5") == (1, 2, 3, 5)


def test_the_command_line_says_what_it_found(command: Command, leaves: Path, tmp_path: Path) -> None:
    done = command(
        "mango-bench", "robustness", "--data", leaves, "-o", tmp_path / "r.json", "--images", "fresh",
        "--corruptions", "brightness", "--limit", 3,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for words in (
        "3 pictures of leaves",
        "mean error",
        "relative to ResNet-101, published",
        "LCNN as published",
        "peak memory",
        "note:",
    ):
        assert words in done.stdout
    with contextlib.suppress(FileNotFoundError):
        assert not list((tmp_path / "r.json.parts").iterdir())
