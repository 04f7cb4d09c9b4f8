"""The field runner's loop: the newest frame, its gate, one inference, a smoothed decision, and on to the sinks.

Three threads share the work: `edge.capture` fetches, decodes, fits and judges a frame while this one runs the
network on the frame before, and the journal writes in its own.
"""

from __future__ import annotations

import io
import logging
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy.typing as npt
from PIL import Image

from edge.appearance import Appearance, appearance_of
from edge.calibration import calibration_of, floor_of, rescale
from edge.capture import Capture, Retry
from edge.classifier import Classifier
from edge.decision import Decision
from edge.gate import LIMITS, Limits, gate
from edge.log import fields
from edge.preprocessing import Pixels, fit
from edge.smoothing import Smoother, Smoothing
from edge.source.frame import Frame, Source
from edge.thermal import Thermometer
from edge.vitals import Vitals

_log = logging.getLogger(__name__)

HANGS_AFTER_S = 30.0
"""A source that neither gives a frame nor fails for this long hangs: the watchdog is no longer answered."""

_TICK_S = 0.25  # longest wait in one piece, so that a signal is noticed well within 2 s
_STATUS_EVERY_S = 10.0
_SUMMARY_EVERY_S = 3600.0
_STOP_S = 0.5
_JPEG_QUALITY = 90


class Sink(Protocol):
    """Where decisions go: the journal, a status page, a publisher."""

    def wants_picture(self, decision: Decision) -> bool:
        """Whether this decision's picture is wanted; none is encoded for nobody."""

    def submit(self, decision: Decision, picture: bytes | None = None) -> object:
        """Take a decision, and its picture as JPEG where wanted. Does not wait for a disk or a network."""


class Pulse(Protocol):
    """What tells a service manager that the loop lives; see `edge.notify`."""

    def ready(self, text: str = "") -> bool:
        """The first frame was decided, or the source is being waited for."""

    def status(self, text: str) -> bool:
        """One line on how it goes."""

    def watchdog(self) -> bool:
        """The loop lives."""

    def stopping(self, text: str = "") -> bool:
        """The loop ends."""


@dataclass(frozen=True)
class Plan:
    """How a run goes.

    Attributes:
        interval: seconds from one decision to the next; 0 is as fast as frames come.
        frames: decisions after which it ends; 0 is without end.
        smoothing: see `edge.smoothing`.
        limits: of the gates.
        retry: of a lost source.
    """

    interval: float = 0.0
    frames: int = 0
    smoothing: Smoothing = field(default_factory=Smoothing)
    limits: Limits = LIMITS
    retry: Retry = field(default_factory=Retry)


@dataclass(frozen=True)
class Summary:
    """What a run did.

    Attributes:
        frames: decisions made, used or not.
        by_label, by_gate: how often each label and each reason not to use a frame came.
        seconds: from the first decision to the last.
        processor_s: processor time of all threads meanwhile, seconds.
        outages: how often the source was lost.
        passed_over: frames of a live source that made way for newer ones.
        hanging: the source did not let go at the end; leave the process without waiting for its thread.
    """

    frames: int
    by_label: dict[str, int]
    by_gate: dict[str, int]
    seconds: float
    processor_s: float
    outages: int
    passed_over: int
    hanging: bool

    @property
    def rate(self) -> float:
        """Decisions a second; 0 for fewer than two."""
        return (self.frames - 1) / self.seconds if self.frames > 1 and self.seconds > 0 else 0.0


@dataclass
class Stop:
    """Whether the end was asked for. A plain flag: an Event's lock must not be taken in a signal handler."""

    asked: bool = False
    reason: str = field(default="")

    def __call__(self) -> bool:
        return self.asked

    def on_signals(self) -> None:
        """Let SIGTERM and SIGINT ask; a second one ends the process at once."""

        def ask(number: int, _: Any) -> None:
            self.asked, self.reason = True, signal.Signals(number).name
            signal.signal(number, signal.SIG_DFL)

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, ask)


@dataclass(frozen=True)
class Prepared:
    """A frame ready for the network, or why it is not used ("" when it is)."""

    frame: Frame
    gate: str
    tensor: npt.NDArray[Any] | None
    stage_ms: dict[str, float]
    at: float  # time.perf_counter()


def prepare(
    frame: Frame, classifier: Classifier, appearance: Appearance | None, limits: Limits = LIMITS
) -> Prepared:
    """Fit and judge a frame, and quantise it where it is used. Safe beside a running inference."""
    stages = dict(frame.stage_ms)
    if frame.fault:
        return Prepared(frame, frame.fault, None, stages, time.perf_counter())
    begun = time.perf_counter()
    fitted = fit(frame.pixels, classifier.contract.input)
    resized = time.perf_counter()
    reason = gate(frame.pixels, fitted, appearance, limits)
    judged = time.perf_counter()
    tensor = None if reason else classifier.quantise(fitted)
    done = time.perf_counter()
    stages |= {"resize": 1e3 * (resized - begun), "gate": 1e3 * (judged - resized)}
    if not reason:
        stages["quantise"] = 1e3 * (done - judged)
    return Prepared(frame, reason, tensor, stages, done)


def run(
    source: Source,
    classifier: Classifier,
    plan: Plan,
    sinks: Sequence[Sink],
    stop: Callable[[], bool],
    pulse: Pulse | None = None,
    watchdog_s: float = 1.0,
    works: Callable[[], None] | None = None,
    vitals: Vitals | None = None,
) -> Summary:
    """Decide on frames until the source ends, the plan's number is reached, or `stop` says so.

    Args:
        source: opened, read and closed here.
        classifier: used by this thread alone.
        plan: see `Plan`.
        sinks: each gets every decision, in order.
        stop: asked at least four times a second.
        pulse: the service manager, or None.
        watchdog_s: how often the watchdog is answered, seconds: only while this loop turns and the source's
            thread does not hang.
        works: called once, after the first used frame: model and source have shown that they work.
        vitals: kept up to date for others to read.

    Raises:
        InputError: the source cannot be used; the model's contract is malformed.
    """
    contract, digest, path = classifier.contract, classifier.model.digest, classifier.model.path
    calibration, floor = calibration_of(contract, path), floor_of(contract)
    appearance = appearance_of(contract, path)
    smoother = Smoother(contract.labels, calibration.uncertain_below, plan.smoothing)
    thermometer = Thermometer()
    capture = Capture(
        source,
        lambda frame: prepare(frame, classifier, appearance, plan.limits),
        on_demand=plan.interval > 0,
        retry=plan.retry,
    )
    vitals = vitals or Vitals()
    vitals.source, vitals.model = source.name, f"{contract.architecture} {contract.precision} {digest[:12]}"
    vitals.lost_for = lambda: capture.lost_for
    beat = _Beat(capture, vitals, pulse, watchdog_s)
    labels: Counter[str] = Counter()
    gates: Counter[str] = Counter()
    frames, first, last = 0, 0.0, 0.0
    used_before = used = 0.0
    summed_at = time.monotonic()
    _log.info(
        "started",
        extra=fields(
            event="started",
            source=source.name,
            model=digest[:12],
            runtime=str(classifier.runtime),
            interval_s=plan.interval,
            window=plan.smoothing.window,
            temperature=round(calibration.temperature, 3),
            uncertain_below=round(calibration.uncertain_below, 3),
            calibrated=calibration.measured,
            no_leaf_gate=appearance is not None,
        ),
    )
    capture.start()
    due = time.monotonic()
    try:
        while not stop() and not (plan.frames and frames >= plan.frames):
            now = time.monotonic()
            beat(now)
            if now < due:
                time.sleep(min(due - now, _TICK_S))
                continue
            item = capture.next(_TICK_S)
            if item is None:
                if capture.ended:
                    break
                continue
            decision = _decide(
                item, classifier, smoother, calibration.temperature, floor, digest, thermometer
            )
            _hand_on(decision, item.frame, sinks)
            last = time.monotonic()
            used = time.process_time()
            if not frames:
                first, used_before = last, used
            frames += 1
            (labels if decision.used else gates)[decision.label or decision.gate] += 1
            if decision.used and works is not None:
                works()
                works = None
            vitals.frames, vitals.state = frames, _note(decision, item.frame, source.live, vitals.state)
            # What was missed is not made up for: it would be a burst of frames that nobody asked for.
            due = max(due + plan.interval, last) if plan.interval else 0.0
            if last - summed_at >= _SUMMARY_EVERY_S:
                summed_at = last
                _log.info("running", extra=fields(event="summary", frames=frames, **labels, **gates))
    finally:
        if pulse is not None:
            pulse.stopping()
        hanging = not capture.stop(_STOP_S)
    summary = Summary(
        frames=frames,
        by_label=dict(labels),
        by_gate=dict(gates),
        seconds=last - first,
        processor_s=used - used_before,
        outages=capture.outages,
        passed_over=capture.passed_over,
        hanging=hanging,
    )
    _log.info(
        "stopped",
        extra=fields(
            event="stopped",
            frames=frames,
            used=labels.total(),
            not_used=gates.total(),
            outages=capture.outages,
            passed_over=capture.passed_over,
            rate=round(summary.rate, 2),
            processor_ms=round(1e3 * summary.processor_s / max(1, frames - 1), 2),
        ),
    )
    return summary


def encode(pixels: Pixels) -> bytes:
    """A picture (height, width, 3) uint8 RGB as JPEG."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=_JPEG_QUALITY)
    return buffer.getvalue()


class _Beat:
    """Answers the watchdog while loop and capture live, and keeps the status line."""

    def __init__(
        self, capture: Capture[Prepared], vitals: Vitals, pulse: Pulse | None, watchdog_s: float
    ) -> None:
        self._capture, self._vitals, self._pulse, self._every = capture, vitals, pulse, watchdog_s
        self._pinged = self._told = float("-inf")
        self._ready = False

    def __call__(self, now: float) -> None:
        vitals, lost = self._vitals, self._capture.lost_for
        hangs = now - self._capture.beat > HANGS_AFTER_S
        if hangs and not vitals.hangs:
            _log.error(
                "the source hangs; the watchdog is no longer answered",
                extra=fields(event="source-hangs", source=vitals.source),
            )
        vitals.hangs = hangs
        if self._pulse is None:
            return
        # A camera that is missing must not keep the service from being up, nor a watched folder without news.
        if not self._ready and (vitals.frames or lost or self._capture.waits_for_files):
            self._pulse.ready()
            self._ready = True
        if not hangs and now - self._pinged >= self._every:
            self._pinged = now
            self._pulse.watchdog()
        if now - self._told >= _STATUS_EVERY_S:
            self._told = now
            waiting = (
                f"source lost for {lost:.0f} s" if lost else vitals.state or "waiting for the first frame"
            )
            self._pulse.status(f"{vitals.frames} frames; {waiting}")


def _decide(
    item: Prepared,
    classifier: Classifier,
    smoother: Smoother,
    temperature: float,
    floor: float,
    digest: str,
    thermometer: Thermometer,
) -> Decision:
    label, stages = "", dict(item.stage_ms)
    probabilities: tuple[float, ...] = ()
    begun = time.perf_counter()
    stages["wait"] = 1e3 * (begun - item.at)
    if item.tensor is not None:
        output = classifier.invoke(item.tensor)
        stages["invoke"] = 1e3 * (time.perf_counter() - begun)
        calibrated = rescale(classifier.dequantise(output), temperature, floor)
        label, probabilities = smoother.add(calibrated, item.frame.taken)
    return Decision(
        source=item.frame.source,
        label=label,
        probabilities=probabilities,
        labels=classifier.contract.labels,
        gate=item.gate,
        stage_ms=stages,
        model_digest=digest,
        temperature_c=thermometer.read(),
        frame_number=item.frame.number,
    )


def _hand_on(decision: Decision, frame: Frame, sinks: Sequence[Sink]) -> None:
    picture: bytes | None = None
    for sink in sinks:
        wanted = frame.pixels.size > 0 and sink.wants_picture(decision)
        if wanted and picture is None:
            stored = frame.encoded
            picture = stored if stored is not None and stored[:2] == b"\xff\xd8" else encode(frame.pixels)
        sink.submit(decision, picture if wanted else None)


def _note(decision: Decision, frame: Frame, live: bool, before: str) -> str:
    """Log what changed: for a live source the label or the gate, for files those that cannot be read."""
    state = decision.label or f"not used: {decision.gate}"
    if live:
        if state != before:
            _log.info(
                state,
                extra=fields(
                    event="decision",
                    frame=decision.frame_number,
                    confidence=round(decision.confidence, 3),
                ),
            )
    elif frame.fault:
        _log.warning("%s: not a readable picture", frame.source, extra=fields(event="bad-picture"))
    return state
