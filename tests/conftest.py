"""What several tests share: drawn leaves, real photographs where they are at hand, the shipped model."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bench.drawing import LABELS, draw_leaf
from edge.classifier import Classifier
from edge.preprocessing import Pixels

ROOT = Path(__file__).parent.parent

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def leaf() -> Pixels:
    """A drawn leaf with spots, 240x320."""
    return draw_leaf("Anthracnose", np.random.default_rng(1))


@pytest.fixture(scope="session")
def leaves() -> list[Pixels]:
    """A drawn leaf of each class, alternately 240x320 and 320x240."""
    return [
        draw_leaf(label, np.random.default_rng([2, number]), *((240, 320) if number % 2 else (320, 240)))
        for number, label in enumerate(LABELS)
    ]


@pytest.fixture(scope="session")
def mango() -> Path:
    """The folder of real photographs; tests that need it are skipped where it is absent."""
    folder = Path(os.environ.get("MANGO_DATA", ROOT.parent / "shared" / "mangoleaf"))
    if not folder.is_dir():
        pytest.skip(f"no photographs at {folder}: put MangoLeafDB there or set MANGO_DATA")
    return folder


@pytest.fixture(scope="session")
def classifier() -> Classifier:
    """The shipped model in the preferred runtime."""
    return Classifier.open()


@pytest.fixture(scope="session")
def command() -> Command:
    """Run a console command in a process of its own: command("mango-edge", "classify", ...)."""

    def run(name: str, *arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
        package = name.removeprefix("mango-")
        program = f"import sys; sys.argv[0] = {name!r}; from {package}.cli import main; main()"
        return subprocess.run(
            [sys.executable, "-c", program, *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=300,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            **options,  # type: ignore[call-overload]
        )

    return run


@pytest.fixture(scope="session")
def float_flatbuffer() -> bytes:
    """A small float32 model with LCNN's input and output, made on the spot; needs TensorFlow."""
    pytest.importorskip("tensorflow", reason="the conversion tests need TensorFlow (make test installs it)")
    import keras

    from convert.tflite import convert

    keras.utils.set_random_seed(3)
    layers = [
        keras.Input((224, 224, 3)),
        keras.layers.Conv2D(4, 7, strides=7, activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(8, activation="softmax"),
    ]
    return convert(keras.Sequential(layers, name="tiny"), "float32")
