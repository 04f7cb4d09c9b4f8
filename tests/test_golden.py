"""The self-test notices a runtime or a file that computes something else."""

from __future__ import annotations

import dataclasses
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from convert.golden import make_golden, tolerance
from edge import golden as module
from edge.classifier import DEFAULT_MODEL, Classifier
from edge.contract import read_model, write_model
from edge.errors import InputError
from edge.golden import Golden, read_golden, run_apart, self_test, to_members


@pytest.fixture(scope="module")
def golden(classifier: Classifier) -> Golden:
    return make_golden(classifier)


def write(path: Path, golden: Golden, **changed: bytes) -> Path:
    model = read_model(DEFAULT_MODEL)
    members = {**to_members(golden), **{name.replace("__", "."): data for name, data in changed.items()}}
    write_model(path, model.flatbuffer, model.contract, members)
    return path


def test_golden_outputs_survive_the_file_and_pass(golden: Golden, tmp_path: Path) -> None:
    opened = Classifier.open(write(tmp_path / "m.tflite", golden))
    read = read_golden(opened.model)
    assert [case.probabilities for case in read.cases] == [case.probabilities for case in golden.cases]
    assert all(np.array_equal(a.picture, b.picture) for a, b in zip(read.cases, golden.cases, strict=True))
    outcome = self_test(opened)
    assert outcome.cases == len(golden.cases) == 4
    assert outcome.largest_difference < 1e-6  # the runtime that made them


def test_golden_outputs_are_clear_enough_for_equal_labels(golden: Golden, classifier: Classifier) -> None:
    for case in golden.cases:
        second, first = sorted(case.probabilities)[-2:]
        assert first - second > 2 * golden.tolerance
    assert golden.tolerance == tolerance(classifier.contract) == 32 / 256
    assert len({int(np.argmax(case.probabilities)) for case in golden.cases}) > 1


def test_the_same_model_gives_the_same_golden_outputs(golden: Golden, classifier: Classifier) -> None:
    assert to_members(make_golden(classifier)) == to_members(golden)


def test_other_weights_fail(golden: Golden, classifier: Classifier, tmp_path: Path) -> None:
    model = read_model(DEFAULT_MODEL)
    weights = bytearray(model.flatbuffer)
    # A few kilobytes in the middle of the weights become noise.
    start, count = len(weights) // 2, 8192
    weights[start : start + count] = np.random.default_rng(0).bytes(count)
    path = tmp_path / "other.tflite"
    write_model(path, bytes(weights), model.contract, to_members(golden))
    with pytest.raises(InputError, match="self-test failed"):
        self_test(Classifier.open(path, classifier.runtime.name))


def test_outputs_that_are_no_numbers_fail(
    golden: Golden, classifier: Classifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Classifier.open(write(tmp_path / "m.tflite", golden))
    monkeypatch.setattr(opened, "probabilities", lambda fitted: np.full(8, np.nan, np.float32))
    with pytest.raises(InputError, match="differ by inf"):
        self_test(opened)


def test_malformed_golden_outputs_get_a_sentence(golden: Golden, tmp_path: Path) -> None:
    case = golden.cases[0]
    huge = dataclasses.replace(case, picture=np.zeros((300, 10, 3), np.uint8))
    short = dataclasses.replace(case, probabilities=(0.5, 0.5))
    written = {
        "no JSON": write(tmp_path / "1", golden, golden__json=b"{"),
        "a list": write(tmp_path / "2", golden, golden__json=b"[]"),
        "a newer version": write(tmp_path / "3", golden, golden__json=b'{"version": 2}'),
        "no cases": write(tmp_path / "4", Golden((), 0.1, "x")),
        "a tolerance that lets all pass": write(tmp_path / "5", Golden(golden.cases, 1.0, "x")),
        "too few probabilities": write(tmp_path / "6", Golden((short,), 0.1, "x")),
        "a large picture": write(tmp_path / "7", Golden((huge,), 0.1, "x")),
    }
    broken = to_members(golden) | {"golden/0.png": b"no picture"}
    model = read_model(DEFAULT_MODEL)
    write_model(tmp_path / "8", model.flatbuffer, model.contract, broken)
    for path in (*written.values(), tmp_path / "8"):
        with pytest.raises(InputError, match="golden outputs") as caught:
            read_golden(read_model(path))
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="carries no golden outputs"):
        read_golden(dataclasses.replace(model, members={}))


def test_the_self_test_runs_apart(golden: Golden, tmp_path: Path) -> None:
    assert "4 golden outputs agree" in run_apart(write(tmp_path / "m.tflite", golden))
    with pytest.raises(InputError, match="no such model file"):
        run_apart(tmp_path / "absent.tflite")


def test_a_crash_and_a_hang_are_the_model_s_failure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\nkill -{signal.SIGSEGV} $$\n")
    os.chmod(program, 0o755)
    monkeypatch.setattr(module.sys, "executable", str(program))
    with pytest.raises(InputError, match="crashed \\(signal 11\\)"):
        run_apart(tmp_path / "m.tflite")
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    with pytest.raises(InputError, match="did not end within"):
        run_apart(tmp_path / "m.tflite", seconds=0.2)
