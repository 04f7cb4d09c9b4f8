"""The field runner: from frames to decisions, its log, its end, and its word to the service manager."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT, Command
from PIL import Image
from test_capture import Scripted, events
from test_source import write_video

from bench.drawing import LABELS, draw_leaf
from edge import runner
from edge.capture import Retry
from edge.classifier import DEFAULT_MODEL, Classifier
from edge.contract import read_model, write_model
from edge.decision import UNCERTAIN, Decision
from edge.errors import InputError
from edge.journal_reader import JournalReader
from edge.preprocessing import Pixels
from edge.runner import Plan, Stop, Summary, run
from edge.smoothing import Smoothing
from edge.source import open_source
from edge.thermal import read_temperature

ALONE = Plan(smoothing=Smoothing(window=1))


class Kept:
    """A sink that keeps everything it is given."""

    def __init__(self, wants: bool = False) -> None:
        self.wants = wants
        self.decisions: list[Decision] = []
        self.pictures: list[bytes | None] = []

    def wants_picture(self, decision: Decision) -> bool:
        return self.wants and decision.used

    def submit(self, decision: Decision, picture: bytes | None = None) -> None:
        self.decisions.append(decision)
        self.pictures.append(picture)


class Recorded:
    """Stands in for `edge.notify` and writes down what it is told."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def _say(self, what: str) -> bool:
        self.said.append(what)
        return True

    def ready(self, text: str = "") -> bool:
        return self._say("ready")

    def status(self, text: str) -> bool:
        return self._say("status")

    def watchdog(self) -> bool:
        return self._say("watchdog")

    def stopping(self, text: str = "") -> bool:
        return self._say("stopping")


@pytest.fixture(scope="module")
def open_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped model without what leaves look like: drawings need not resemble photographs."""
    model = read_model(DEFAULT_MODEL)
    extra = {key: value for key, value in model.contract.extra.items() if key != "appearance"}
    path = tmp_path_factory.mktemp("model") / "open.tflite"
    write_model(path, model.flatbuffer, dataclasses.replace(model.contract, extra=extra))
    return path


@pytest.fixture(scope="module")
def classifier(open_model: Path) -> Classifier:
    return Classifier.open(open_model)


@pytest.fixture
def folder(tmp_path: Path, leaves: list[Pixels]) -> Path:
    """Eight leaves as JPEG, then a dark picture, then a file that is cut."""
    for number, leaf in enumerate(leaves):
        Image.fromarray(leaf).save(tmp_path / f"{number}.jpg", quality=95)
    Image.fromarray(leaves[0] // 20).save(tmp_path / "8.jpg")
    (tmp_path / "9.jpg").write_bytes((tmp_path / "0.jpg").read_bytes()[:3000])
    return tmp_path


def test_every_picture_of_a_folder_is_decided_in_order(folder: Path, classifier: Classifier) -> None:
    sink = Kept(wants=True)
    summary = run(open_source(str(folder)), classifier, ALONE, [sink], Stop())
    assert [Path(d.source).name for d in sink.decisions] == [f"{n}.jpg" for n in range(10)]
    assert [d.frame_number for d in sink.decisions] == list(range(10))
    assert [d.gate for d in sink.decisions] == [""] * 8 + ["dark", "torn"]
    assert summary.frames == 10
    assert summary.by_gate == {"dark": 1, "torn": 1}
    assert sum(summary.by_label.values()) == 8
    assert sink.pictures[0] == (folder / "0.jpg").read_bytes()
    assert sink.pictures[8:] == [None, None]


def test_a_single_frame_is_decided_as_classify_would(folder: Path, classifier: Classifier) -> None:
    sink = Kept()
    run(open_source(str(folder / "3.jpg")), classifier, ALONE, [sink], Stop())
    (decision,) = sink.decisions
    expected = classifier.classify_path(folder / "3.jpg")
    assert decision.labels == expected.labels
    assert decision.model_digest == classifier.model.digest
    assert int(np.argmax(decision.probabilities)) == int(np.argmax(expected.probabilities))
    assert sum(decision.probabilities) == pytest.approx(1)
    assert decision.label in (expected.label, UNCERTAIN)
    assert set(decision.stage_ms) == {"capture", "decode", "resize", "gate", "quantise", "wait", "invoke"}
    assert all(value >= 0 for value in decision.stage_ms.values())


def test_a_refused_frame_never_reaches_the_network(
    folder: Path, classifier: Classifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(classifier, "invoke", None)  # calling it would raise
    sink = Kept()
    run(open_source(str(folder / "8.jpg")), classifier, ALONE, [sink], Stop())
    (decision,) = sink.decisions
    assert (decision.gate, decision.label, decision.probabilities) == ("dark", "", ())


def test_a_video_is_smoothed_over_its_window(tmp_path: Path, classifier: Classifier) -> None:
    frames = [draw_leaf(LABELS[n // 10], np.random.default_rng(n)) for n in range(40)]
    write_video(tmp_path / "video.avi", frames)
    changes = {}
    for window in (1, 8):
        sink = Kept(wants=True)
        plan = Plan(smoothing=Smoothing(window=window))
        run(open_source(str(tmp_path / "video.avi"), every_frame=True), classifier, plan, [sink], Stop())
        assert [d.frame_number for d in sink.decisions] == list(range(40))
        series = np.array([d.probabilities for d in sink.decisions])
        changes[window] = float(np.abs(np.diff(series, axis=0)).sum())
        assert sink.pictures[0] is not None
        assert sink.pictures[0][:2] == b"\xff\xd8"
    assert changes[8] < changes[1] / 2


def test_the_number_of_decisions_and_the_interval_are_kept(classifier: Classifier, leaf: Pixels) -> None:
    source = Scripted(lambda number: np.roll(leaf, number, axis=1))
    sink = Kept()
    begun = time.monotonic()
    summary = run(source, classifier, Plan(interval=0.2, frames=4), [sink], Stop())
    assert summary.frames == 4
    assert time.monotonic() - begun >= 3 * 0.2
    assert source.read_frames <= 6  # the rest passed by unconverted
    assert summary.passed_over > 10


def test_the_service_manager_hears_that_it_lives_and_what_it_does(
    classifier: Classifier, leaf: Pixels
) -> None:
    pulse, worked = Recorded(), []
    source = Scripted(lambda number: np.roll(leaf, number, axis=1), period=0.01)
    plan = Plan(frames=20)
    run(source, classifier, plan, [], Stop(), pulse, watchdog_s=0.01, works=lambda: worked.append(1))
    assert pulse.said.count("ready") == 1
    assert pulse.said.count("watchdog") >= 3
    assert pulse.said[-1] == "stopping"
    assert worked == [1]


def test_a_hanging_source_silences_the_watchdog_and_is_logged_once(
    classifier: Classifier, leaf: Pixels, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="edge")
    monkeypatch.setattr(runner, "HANGS_AFTER_S", 0.5)
    release, stop, pulse = threading.Event(), Stop(), Recorded()

    def hang(number: int) -> Pixels:
        if number == 3:
            release.wait(30)
        return np.roll(leaf, number, axis=1)

    done: list[Summary] = []

    def work() -> None:
        done.append(run(Scripted(hang), classifier, ALONE, [], stop, pulse, watchdog_s=0.01))

    thread = threading.Thread(target=work)
    thread.start()
    while "source-hangs" not in events(caplog):
        time.sleep(0.05)
    before = pulse.said.count("watchdog")
    time.sleep(1)
    assert pulse.said.count("watchdog") == before
    stop.asked = True
    thread.join(30)
    release.set()
    assert done[0].hanging
    assert done[0].frames + done[0].passed_over == 3
    assert events(caplog).count("source-hangs") == 1


def test_a_watched_folder_without_news_is_ready(classifier: Classifier, tmp_path: Path) -> None:
    stop, pulse = Stop(), Recorded()
    source = open_source(str(tmp_path), watch=True)
    thread = threading.Thread(target=run, args=(source, classifier, ALONE, [], stop, pulse, 0.01))
    thread.start()
    deadline = time.monotonic() + 30
    while "ready" not in pulse.said and time.monotonic() < deadline:
        time.sleep(0.02)
    stop.asked = True
    thread.join(30)
    assert pulse.said.count("ready") == 1


def test_an_outage_keeps_the_watchdog_answered(classifier: Classifier) -> None:
    pulse = Recorded()
    until = time.monotonic() + 60

    def stop() -> bool:
        return pulse.said.count("watchdog") >= 3 or time.monotonic() > until

    plan = Plan(retry=Retry(first=0.05, last=0.1))
    source = open_source("v4l2:/dev/video-that-is-not-there")
    summary = run(source, classifier, plan, [], stop, pulse, watchdog_s=0.01)
    assert (summary.frames, summary.outages) == (0, 1)
    assert pulse.said.count("ready") == 1
    assert pulse.said.count("watchdog") == 3


def started(*arguments: object) -> subprocess.Popen[str]:
    program = "import sys; sys.argv[0] = 'mango-edge'; from edge.cli import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", program, "run", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_well_with_every_decision_out(tmp_path: Path, leaf: Pixels, number: int) -> None:
    Image.fromarray(leaf).save(tmp_path / "leaf.jpg")
    process = started("--source", tmp_path, "--watch", "--log-format", "json")
    assert process.stdout is not None
    first = json.loads(process.stdout.readline())
    assert first["source"] == str(tmp_path / "leaf.jpg")
    Image.fromarray(leaf[:, ::-1]).save(tmp_path / "later.jpg")
    second = json.loads(process.stdout.readline())
    assert second["source"] == str(tmp_path / "later.jpg")
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "")
    log = [json.loads(line) for line in err.splitlines()]
    assert [line["event"] for line in log] == ["started", "stopped"]
    assert log[-1]["frames"] == 2


def recorded(journal: Path) -> int:
    """Rows of a journal that may not have been begun yet."""
    try:
        return JournalReader(journal, must_exist=False).size()
    except InputError:
        return 0


def test_a_journal_holds_every_decision_and_a_restart_goes_on_where_it_was(
    tmp_path: Path, leaf: Pixels, command: Command
) -> None:
    pictures, journal = tmp_path / "pictures", tmp_path / "journal"
    pictures.mkdir()
    for number in range(5):
        Image.fromarray(np.roll(leaf, 20 * number, axis=1)).save(pictures / f"{number}.jpg")
    options = ("--watch", "--journal", journal, "--keep", "all", "--log-format", "json")
    process = started("--source", pictures, *options)
    while recorded(journal) < 5:
        time.sleep(0.1)
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    _, log = process.communicate(timeout=60)
    assert process.returncode == 0, log
    Image.fromarray(leaf).save(pictures / "5.jpg")
    done = command("mango-edge", "run", "--source", pictures, *options, "--frames", 1)
    assert done.returncode == 0, done.stderr
    rows = list(JournalReader(journal).rows())
    assert [Path(row.decision.source).name for row in rows] == [f"{number}.jpg" for number in range(6)]
    assert JournalReader(journal).picture(rows[5]) == (pictures / "5.jpg").read_bytes()
    assert done.stdout == ""


def test_the_page_shows_the_run_and_ends_with_it(tmp_path: Path, folder: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    process = started("--source", folder, "--watch", "--journal", tmp_path / "journal", "--web", address)
    values: dict[str, Any] = {"health": {}, "last": None}
    while values["health"].get("frames") != 10 or values["last"]["id"] != 10:
        time.sleep(0.2)
        assert process.poll() is None
        with contextlib.suppress(OSError):
            values = json.load(urllib.request.urlopen(f"http://{address}/health.json", timeout=30))
    assert values["health"]["frames"] == 10
    assert values["health"]["source"] == str(folder)
    assert values["last"]["gate"] == "torn"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 0


def test_the_command_prints_decisions_and_names_bad_pictures(
    command: Command, folder: Path, open_model: Path
) -> None:
    done = command("mango-edge", "run", "--source", folder, "--model", open_model, "--log-format", "json")
    assert done.returncode == 0
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["gate"] for line in lines] == [""] * 8 + ["dark", "torn"]
    assert set(lines[0]["probabilities"]) == set(LABELS)
    log = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["event"] for line in log] == ["started", "bad-picture", "stopped"]
    assert "9.jpg" in log[1]["message"]
    assert log[0]["time"].endswith("Z")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--source", "nowhere.mp4"], "no such file"),
        (["--source", "v4l2:/dev/video-that-is-not-there", "--once"], "plug the camera in"),
        (["--source", ".", "--fps", "1", "--interval", "1"], "give one of them"),
        (["--source", ".", "--log-format", "xml"], "log format 'xml' is not known"),
        (["--source", ".", "--web", "127.0.0.1:0"], "give --journal FOLDER as well"),
        (["--source", ".", "--journal", "x", "--keep", "some"], "'some' is not a policy"),
        (["--source", ".", "--model", "nowhere.tflite"], "no such model file"),
    ],
)
def test_misuse_ends_in_one_sentence(command: Command, arguments: list[str], sentence: str) -> None:
    done = command("mango-edge", "run", *arguments)
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert last.startswith("error: ")
    assert sentence in last
    assert "Traceback" not in done.stderr


def test_the_processor_s_temperature_is_preferred(tmp_path: Path) -> None:
    for number, (kind, value) in enumerate([("acpitz", "30000"), ("cpu-thermal", "51234"), ("gpu", "x")]):
        zone = tmp_path / f"thermal_zone{number}"
        zone.mkdir()
        (zone / "type").write_text(f"{kind}\n")
        (zone / "temp").write_text(f"{value}\n")
    assert read_temperature(tmp_path) == 51.234
    assert read_temperature(tmp_path / "thermal_zone0") is None


def test_a_lost_standard_error_does_not_end_the_run(
    folder: Path, classifier: Classifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    from edge.log import start_log

    def broken(_: str) -> int:
        raise OSError(28, "No space left on device")

    logger = logging.getLogger("edge")
    before = (logger.handlers[:], logger.propagate, logger.level, logging.raiseExceptions)
    try:
        start_log("json")
        monkeypatch.setattr(logger.handlers[0], "stream", type("Full", (), {"write": staticmethod(broken)})())
        assert run(open_source(str(folder)), classifier, ALONE, [], Stop()).frames == 10
    finally:
        logger.handlers[:], logger.propagate, logger.level, logging.raiseExceptions = before
