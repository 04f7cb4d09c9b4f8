"""Training that resumes, conversion that repeats, and parity that is measured; on drawn leaves, with TensorFlow."""

from __future__ import annotations

import dataclasses
import json
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, Command
from PIL import Image

from bench.drawing import draw_samples
from convert.dataset import Dataset, index
from convert.given import HISTORY
from convert.split import identity, random_split
from edge.calibration import calibration_of
from edge.classifier import Classifier
from edge.contract import read_contract, read_model
from edge.errors import InputError
from edge.preprocessing import InputSpec, fit, read_photograph

pytest.importorskip("tensorflow", reason="the conversion tests need TensorFlow (make test installs it)")

from convert.architecture import build, multiply_accumulates
from convert.backend import keras
from convert.model_file import PRECISIONS, share_scores, write_model_files
from convert.tflite import convert, representative_photographs
from convert.training import Schedule, Trained, finished, load_pictures, train, weights_digest
from convert.weights import choose


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Five drawn leaves of each class."""
    folder = tmp_path_factory.mktemp("drawn")
    draw_samples(folder, per_class=5)
    return index(folder)


@pytest.fixture(scope="module")
def trained(drawn: Dataset, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Trained]:
    """LCNN trained for two epochs of eight-picture batches."""
    folder = tmp_path_factory.mktemp("train")
    return folder, train("lcnn", drawn, random_split(drawn), folder, schedule=Schedule(epochs=2, batch=8))


@pytest.fixture(scope="module")
def model_files(
    drawn: Dataset, trained: tuple[Path, Trained], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """That training as model files."""
    split = random_split(drawn)
    _, schedule, spec = finished(trained[0], drawn, split)
    folder = tmp_path_factory.mktemp("models")
    return write_model_files(trained[1], drawn, split, schedule, spec, PRECISIONS, folder)


def test_lcnn_is_the_published_network() -> None:
    model = build("lcnn", 8, InputSpec())
    assert model.count_params() == 171_784
    # Six 3x3 convolutions at 222, 109, 52, 24, 10 and 3 pixels a side, and two dense layers, by hand.
    sides, channels = (222, 109, 52, 24, 10, 3), (3, 32, 64, 64, 64, 64, 64)
    convolutions = sum(s * s * 9 * a * b for s, a, b in zip(sides, channels[:-1], channels[1:], strict=True))
    assert multiply_accumulates(model) == convolutions + 64 * 64 + 64 * 8


def test_an_unknown_network_or_too_small_an_input_is_refused() -> None:
    with pytest.raises(InputError, match="'alexnet' is not known"):
        build("alexnet", 8, InputSpec())
    with pytest.raises(InputError, match="lcnn cannot be built for 32x32"):
        build("lcnn", 8, InputSpec(height=32, width=32))


def test_a_training_stopped_between_epochs_ends_with_the_same_weights(
    drawn: Dataset, trained: tuple[Path, Trained], tmp_path: Path
) -> None:
    split = random_split(drawn)
    train("lcnn", drawn, split, tmp_path, schedule=Schedule(epochs=1, batch=8))
    resumed = train("lcnn", drawn, split, tmp_path, schedule=Schedule(epochs=2, batch=8))
    assert resumed.weights_digest == trained[1].weights_digest
    assert resumed.history == trained[1].history


def test_a_killed_training_goes_on_to_the_same_weights(
    drawn: Dataset, trained: tuple[Path, Trained], tmp_path: Path
) -> None:
    program = (
        "from convert.dataset import index; from convert.split import random_split;"
        "from convert.training import Schedule, train; from pathlib import Path; import sys, time;"
        "d = index(sys.argv[1]);"
        # Waits for its end in the middle of the second epoch.
        "wait = lambda text, done: time.sleep(600 if text.startswith('epoch 2') else 0);"
        "train('lcnn', d, random_split(d), Path(sys.argv[2]), schedule=Schedule(epochs=2, batch=8), report=wait)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(drawn.root), str(tmp_path)], cwd=ROOT, stderr=subprocess.DEVNULL
    )
    while not (tmp_path / HISTORY).exists() and process.poll() is None:
        time.sleep(0.05)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert len(json.loads((tmp_path / HISTORY).read_text())["epochs"]) == 1
    resumed = train("lcnn", drawn, random_split(drawn), tmp_path, schedule=Schedule(epochs=2, batch=8))
    assert resumed.weights_digest == trained[1].weights_digest


def test_the_head_alone_trains_over_loaded_weights_and_resumes(
    drawn: Dataset, trained: tuple[Path, Trained], tmp_path: Path
) -> None:
    split, file = random_split(drawn), tmp_path / "weights.keras"
    trained[1].model.save(file)
    origin = choose("lcnn", str(file))
    before = trained[1].model.get_weights()

    def run(folder: str, epochs: int, **options: object) -> Trained:
        schedule = Schedule(epochs=epochs, batch=8, **options)  # type: ignore[arg-type]
        return train("lcnn", drawn, split, tmp_path / folder, schedule=schedule, weights=origin)

    whole = run("whole", 2, layers="head")
    run("parts", 1, layers="head")
    assert run("parts", 2, layers="head").weights_digest == whole.weights_digest
    # Six convolutions, kernel and bias, stay; the two dense layers are trained.
    same = [np.array_equal(a, b) for a, b in zip(before, whole.model.get_weights(), strict=True)]
    assert same == [True] * 12 + [False] * 4
    with pytest.raises(InputError, match="another schedule and weights"):
        train("lcnn", drawn, split, tmp_path / "whole", schedule=Schedule(epochs=2, batch=8))
    run("both", 1, head_epochs=1, fine_tuning_rate=1e-3)
    fine = train(
        "lcnn",
        drawn,
        split,
        tmp_path / "both",
        schedule=Schedule(3, 8, 1e-3, 7, "all", 1, 1e-3),
        weights=origin,
    )
    last = finished(tmp_path / "both", drawn, split)[1]
    assert (last.head_epochs, last.fine_tuning_rate) == (1, 1e-3)
    assert [epoch.epoch for epoch in fine.history] == [1, 2, 3]
    assert fine.history[0] == run("alone", 1, layers="head").history[0]


def test_the_best_validation_epoch_is_kept(trained: tuple[Path, Trained]) -> None:
    folder, result = trained
    best = max(result.history, key=lambda epoch: (epoch.validation_macro_f1, -epoch.validation_loss))
    assert result.best == best
    assert (folder / f"epoch-{best.epoch:03d}.keras").exists()


def test_a_folder_of_another_training_is_refused(drawn: Dataset, trained: tuple[Path, Trained]) -> None:
    with pytest.raises(InputError, match="another schedule"):
        train("lcnn", drawn, random_split(drawn), trained[0], schedule=Schedule(epochs=2, batch=4))
    with pytest.raises(InputError, match="another split"):
        train("lcnn", drawn, random_split(drawn, 8), trained[0], schedule=Schedule(epochs=2, batch=8))
    with pytest.raises(InputError, match="more than the 1 asked for"):
        train("lcnn", drawn, random_split(drawn), trained[0], schedule=Schedule(epochs=1, batch=8))


def test_a_damaged_history_or_checkpoint_is_named(
    drawn: Dataset, trained: tuple[Path, Trained], tmp_path: Path
) -> None:
    (tmp_path / HISTORY).write_text("{")
    with pytest.raises(InputError, match="unusable training history"):
        train("lcnn", drawn, random_split(drawn), tmp_path, schedule=Schedule(epochs=2, batch=8))
    (tmp_path / HISTORY).write_bytes((trained[0] / HISTORY).read_bytes())
    (tmp_path / "epoch-002.keras").write_bytes(b"not a model")
    with pytest.raises(InputError, match="unusable checkpoint"):
        train("lcnn", drawn, random_split(drawn), tmp_path, schedule=Schedule(epochs=3, batch=8))


def test_every_kind_of_damage_to_a_training_folder_is_said_in_one_sentence(
    drawn: Dataset, trained: tuple[Path, Trained], tmp_path: Path
) -> None:
    split = random_split(drawn)
    whole = json.loads((trained[0] / HISTORY).read_text())
    purpose, epochs = whole["purpose"], whole["epochs"]
    without_schedule = {key: value for key, value in purpose.items() if key != "schedule"}
    damaged = [
        [],
        {"purpose": purpose, "epochs": [1]},
        {"purpose": without_schedule, "epochs": epochs},
        {"purpose": {**purpose, "schedule": {"batch": "8"}}, "epochs": epochs},
        {"purpose": {**purpose, "schedule": {"steps": 8}}, "epochs": epochs},
        {"purpose": {**purpose, "schedule": []}, "epochs": epochs},
        {"purpose": {**purpose, "input": {"height": "224"}}, "epochs": epochs},
        {"purpose": {**purpose, "input": {"height": 0}}, "epochs": epochs},
        {"purpose": {**purpose, "architecture": "alexnet"}, "epochs": epochs},
        {"purpose": purpose, "epochs": [{**epochs[0], "epoch": "1"}]},
        {"purpose": purpose, "epochs": [{**epochs[0], "epoch": 1.0}]},
        {"purpose": purpose, "epochs": [{**epochs[0], "loss": None}]},
        {"purpose": purpose, "epochs": epochs[1:]},
    ]
    for values in damaged:
        (tmp_path / HISTORY).write_text(json.dumps(values))
        with pytest.raises(InputError, match=r"history\.json: unusable training history") as caught:
            finished(tmp_path, drawn, split)
        assert "\n" not in str(caught.value), values


def test_a_checkpoint_of_another_network_is_refused(
    drawn: Dataset, trained: tuple[Path, Trained], tmp_path: Path
) -> None:
    split, schedule = random_split(drawn), Schedule(epochs=3, batch=8)
    (tmp_path / HISTORY).write_bytes((trained[0] / HISTORY).read_bytes())
    best = f"epoch-{trained[1].best.epoch:03d}.keras"
    others = [
        build("lcnn", 5, InputSpec()),
        build("lcnn", 8, InputSpec(height=190, width=190)),
        build("lcnn", 8, InputSpec()),  # never compiled: no checkpoint of a training
        keras.Sequential([keras.Input((224, 224, 3)), keras.layers.Flatten(), keras.layers.Dense(8)]),
        keras.Sequential([keras.layers.Dense(8)]),
    ]
    for model in others:
        for name in {best, "epoch-002.keras"}:
            model.save(tmp_path / name)
        for use in (
            lambda: finished(tmp_path, drawn, split),
            lambda: train("lcnn", drawn, split, tmp_path, schedule=schedule),
        ):
            with pytest.raises(InputError, match=r"epoch-\d+\.keras: (holds another|unusable)"):
                use()
    # An archive without its description is no model.
    for name in {best, "epoch-002.keras"}:
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("metadata.json", "{}")
    with pytest.raises(InputError, match="unusable checkpoint"):
        finished(tmp_path, drawn, split)


def test_a_folder_that_takes_no_files_is_known_before_the_first_epoch(drawn: Dataset, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    said: list[str] = []
    with pytest.raises(InputError, match="nothing can be written there"):
        train(
            "lcnn",
            drawn,
            random_split(drawn),
            tmp_path / "file" / "x",
            report=lambda text, _: said.append(text),
        )
    assert said == []


def test_calibration_takes_training_photographs_alone(drawn: Dataset) -> None:
    split = random_split(drawn)
    chosen = representative_photographs(drawn, split, per_class=2)
    assert [photograph.label for photograph in chosen] == [label for label in drawn.labels for _ in range(2)]
    assert {photograph.digest[:16] for photograph in chosen} <= set(split.parts["training"])
    assert chosen == representative_photographs(drawn, split, per_class=2)


def test_the_representative_set_has_the_classes_of_the_split_and_needs_each_in_training(
    drawn: Dataset,
) -> None:
    of_label = {identity(photograph): photograph.label for photograph in drawn.photographs}
    split = random_split(drawn)
    part, whole = drawn.labels[:4], drawn.labels[1:]
    four = {name: tuple(i for i in ids if of_label[i] in part) for name, ids in split.parts.items()}
    chosen = representative_photographs(drawn, dataclasses.replace(split, parts=four), per_class=2)
    assert [photograph.label for photograph in chosen] == [label for label in part for _ in range(2)]
    untrained = split.parts | {"training": tuple(i for i in split.parts["training"] if of_label[i] in whole)}
    with pytest.raises(InputError, match=f"class {drawn.labels[0]} has no training photograph"):
        representative_photographs(drawn, dataclasses.replace(split, parts=untrained), per_class=2)


def test_the_same_weights_convert_to_the_same_bytes(
    drawn: Dataset, trained: tuple[Path, Trained], model_files: dict[str, Path], tmp_path: Path
) -> None:
    split = random_split(drawn)
    again, schedule, spec = finished(trained[0], drawn, split)
    assert weights_digest(again.model) == trained[1].weights_digest
    for precision, path in write_model_files(
        again, drawn, split, schedule, spec, PRECISIONS, tmp_path
    ).items():
        assert path.read_bytes() == model_files[precision].read_bytes(), precision


def test_every_precision_is_checked_against_keras(model_files: dict[str, Path]) -> None:
    for precision, path in model_files.items():
        contract = read_contract(path)
        (score,) = contract.scores
        assert (contract.precision, score.split, score.part, score.images) == (precision, "random", "test", 8)
        assert 0 <= score.largest_difference <= (1e-5 if precision == "float32" else 0.1)
        assert sum(values["images"] for values in score.per_class.values()) == 8
        assert score.time_baseline is None
    sizes = {precision: path.stat().st_size for precision, path in model_files.items()}
    assert sizes["int8"] < 200_000 < sizes["float16"] < sizes["float32"]


def test_int8_takes_and_gives_bytes(model_files: dict[str, Path]) -> None:
    contract = read_contract(model_files["int8"])
    assert contract.input_tensor.dtype == contract.output_tensor.dtype == "uint8"
    assert contract.output_tensor.scale == 1 / 256
    assert contract.calibration == {"images": 24, "per_class": 50, "seed": 7, "part": "training"}


def test_training_and_device_see_the_same_pixels(drawn: Dataset, model_files: dict[str, Path]) -> None:
    classifier = Classifier.open(model_files["float32"])
    photograph = drawn.photographs[0]
    pictures, labels = load_pictures(drawn, [photograph], InputSpec())
    assert labels.tolist() == [0]
    on_device = fit(read_photograph(drawn.root / photograph.path), classifier.contract.input)
    assert np.array_equal(pictures[0], on_device)


def test_sister_models_carry_each_others_scores(model_files: dict[str, Path], tmp_path: Path) -> None:
    import dataclasses

    from edge.contract import write_model

    model = read_model(model_files["int8"])
    assert model.contract.training is not None
    own = model.contract.scores[0]
    other = dataclasses.replace(
        model.contract,
        training=dataclasses.replace(model.contract.training, split="burst", weights_digest="b" * 64),
        scores=(dataclasses.replace(own, split="burst", weights_digest="b" * 64),),
    )
    first, second = tmp_path / "random.tflite", tmp_path / "burst.tflite"
    write_model(first, model.flatbuffer, model.contract)
    write_model(second, model.flatbuffer, other)
    share_scores([first, second])
    share_scores([first, second])
    assert [score.split for score in read_contract(first).scores] == ["random", "burst"]
    assert [score.split for score in read_contract(second).scores] == ["burst", "random"]


def test_int8_without_calibration_pictures_is_refused(trained: tuple[Path, Trained]) -> None:
    with pytest.raises(InputError, match="needs representative pictures"):
        convert(trained[1].model, "int8")
    with pytest.raises(InputError, match="'int4' is not known"):
        convert(trained[1].model, "int4")


def test_the_commands_go_the_whole_way(command: Command, drawn: Dataset, tmp_path: Path) -> None:
    done = command("mango-convert", "split", drawn.root, "--out", tmp_path / "splits", "--kind", "random")
    assert done.returncode == 0, done.stderr
    split = tmp_path / "splits" / "random-7.json"
    common = ("--data", drawn.root, "--split", split)
    done = command("mango-convert", "train", "lcnn", *common, "--epochs", 1, "--out", tmp_path / "t")
    assert done.returncode == 0, done.stderr
    assert "split random, seed 7" in done.stdout
    done = command(
        "mango-convert", "tflite", tmp_path / "t", *common, "--precision", "int8", "--out", tmp_path / "m",
        "--max-drop", 100, "--min-agreement", 0,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "random (seed 7), test" in done.stdout
    assert command("mango-edge", "info", tmp_path / "m" / "lcnn-random-int8.tflite").returncode == 0


def test_one_command_trains_converts_calibrates_and_tells_the_scores_of_both_splits(
    command: Command, tmp_path: Path
) -> None:
    folder = tmp_path / "timed"
    for number, path in enumerate(draw_samples(tmp_path / "drawn", per_class=6)):
        exif = Image.Exif()
        exif.get_ifd(0x8769)[0x9003] = f"2026:07:{1 + number // 24:02} {number % 24:02}:00:00"
        target = folder / path.parent.name / f"{path.stem}.jpg"
        target.parent.mkdir(parents=True, exist_ok=True)
        Image.open(path).save(target, quality=95, exif=exif)
    done = command(
        "mango-convert", "all", "lcnn", "--data", folder, "--out", tmp_path / "out", "--epochs", 1,
        "--precision", "int8", "--max-drop", 100, "--min-agreement", 0,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for kind, other in (("random", "burst"), ("burst", "random")):
        contract = read_contract(tmp_path / "out" / "models" / f"lcnn-{kind}-int8.tflite")
        assert [score.split for score in contract.scores] == [kind, other]
        assert all(score.time_baseline is not None for score in contract.scores)
        assert calibration_of(contract).measured
        assert f"{kind} (seed 7), test" in done.stdout
    assert "Keras accuracy" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("tflite", "folder", "--auto"), "--auto judges variants on photographs"),
        (("split", "missing"), "no such folder"),
        (("train", "lcnn", "--data", "missing"), "no such folder"),
        (("tflite", "missing", "--data", "missing"), "missing: no such folder or file"),
        (("tflite", "missing", "--labels", "a,b"), "missing: no such folder or file"),
        (("tflite", str(ROOT), "--data", "missing"), "neither a training folder"),
        (("tflite", str(ROOT / "README.md"), "--data", "missing"), "only files that end in .keras"),
        (("all", "lcnn", "--data", "missing"), "no such folder"),
    ],
)
def test_misuse_of_the_commands_ends_in_one_sentence(
    command: Command, arguments: tuple[str, ...], words: str
) -> None:
    done = command("mango-convert", *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1
