"""Capture apart from inference: a thread that holds the newest frame ready and mends a lost source.

Of a live source only the newest frame is kept, in a single slot; a source that waits (files) is read a few frames
ahead, and none is dropped. What has to be done to a frame before inference is done here as well, so that decoding
one frame overlaps with the inference of the one before.

An outage begins when the source is lost and ends when frames have come for `Retry.steady_s` again. However
often the source comes and goes in between, it is logged once when it begins and once when it is over.
"""

from __future__ import annotations

import logging
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from edge.errors import InputError
from edge.log import fields
from edge.source.frame import Frame, Source, SourceLostError

_log = logging.getLogger(__name__)

FROZEN_AFTER = 5
"""A camera's frame that equals this many before it, byte for byte, is frozen: a sensor's noise never repeats."""

GIVE_UP_AFTER = 30
"""Frozen or empty frames in a row after which a live source is closed and opened anew."""

_AHEAD = 4  # frames read ahead of a source that waits

T = TypeVar("T")


@dataclass(frozen=True)
class Retry:
    """Waiting times between attempts to open a lost source, seconds.

    Attributes:
        first: before the second attempt; doubled with each.
        last: the longest.
        steady_s: how long frames must come again until the outage is over and the waiting starts from `first`.
        attempts: attempts before the source is given up; 0 never gives up.
    """

    first: float = 1.0
    last: float = 60.0
    steady_s: float = 5.0
    attempts: int = 0


class Capture(Generic[T]):
    """The thread of one source. `T` is what `prepare` makes of a frame.

    Args:
        source: not opened yet; the thread opens, reads and closes it.
        prepare: called in the thread for each frame that is kept.
        on_demand: of a live source, convert only frames that somebody waits for: at one frame a second from a
            camera that gives thirty, most of the work is saved.
        retry: see `Retry`.
    """

    def __init__(
        self, source: Source, prepare: Callable[[Frame], T], on_demand: bool, retry: Retry = Retry()
    ) -> None:
        self._source = source
        self._prepare = prepare
        self._on_demand = on_demand and source.live
        self._retry = retry
        self._changed = threading.Condition()
        self._ready: deque[T] = deque()
        self._wanted = not self._on_demand
        self._stopping = threading.Event()
        self._ended = False
        self._opened = False
        self._error: BaseException | None = None
        self._beat = time.monotonic()
        # An outage: when it began (None: there is none), attempts since, when frames came again.
        self._lost_at: float | None = None
        self._attempts = 0
        self._back_at: float | None = None
        self.outages = 0
        self.passed_over = 0
        self._print: int | None = None
        self._equal = 0
        self._faults = 0
        self._thread = threading.Thread(target=self._run, name="capture", daemon=True)

    @property
    def beat(self) -> float:
        """Monotonic time at which the thread last took a frame or tried to; an old one means that it hangs."""
        if not self._source.live:
            with self._changed:
                # A source that waits for us, or for new files, is not hanging.
                return time.monotonic() if self._thread.is_alive() else self._beat
        return self._beat

    @property
    def waits_for_files(self) -> bool:
        """Whether the source is open and gives what there is when there is something: a watched folder."""
        return self._opened and not self._source.live

    @property
    def lost_for(self) -> float:
        """Seconds since the present outage began; 0 while there is none."""
        begun = self._lost_at
        return 0.0 if begun is None else time.monotonic() - begun

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def next(self, timeout: float) -> T | None:
        """The newest frame (of a live source) or the next one, as prepared.

        Args:
            timeout: longest wait, seconds.

        Returns:
            None when none came in time, or when there will be no more (see `ended`).

        Raises:
            InputError: the source cannot be used, or was given up.
        """
        with self._changed:
            if self._on_demand and not self._wanted:
                self._ready.clear()
                self._wanted = True
            self._changed.wait_for(lambda: self._ready or self._ended, timeout)
            if self._ready:
                item = self._ready.popleft()
                self._wanted = not self._on_demand
                self._changed.notify_all()
                return item
            if self._error is not None:
                raise self._error
            return None

    @property
    def ended(self) -> bool:
        """Whether all frames of the source were handed out and no more will come."""
        with self._changed:
            return self._ended and not self._ready

    def stop(self, timeout: float) -> bool:
        """End the thread.

        Returns:
            False when it still hangs in the source after `timeout` seconds; it ends with the process.
        """
        self._stopping.set()
        self._source.stop()
        with self._changed:
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout)
        return not self._thread.is_alive()

    # The thread.

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                try:
                    self._beat = time.monotonic()
                    self._source.open()
                    self._opened = True
                    self._take()
                    break
                except SourceLostError as lost:
                    self._source.close()
                    self._wait(lost)
        # The runner must hear of anything that ends this thread.
        except BaseException as error:
            self._error = error
        finally:
            self._source.close()
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def _take(self) -> None:
        """Take frames until the source ends or is lost."""
        live = self._source.live
        while not self._stopping.is_set():
            if live and not self._wanted:
                if not self._source.skip():
                    return
                self._beat = time.monotonic()
                self.passed_over += 1
                continue
            frame = self._source.read()
            if frame is None:
                return
            self._beat = time.monotonic()
            frame = self._examine(frame) if live else frame
            item = self._prepare(frame)
            with self._changed:
                if live:
                    self.passed_over += len(self._ready)
                    self._ready.clear()
                    self._wanted = not self._on_demand
                else:
                    self._changed.wait_for(lambda: len(self._ready) < _AHEAD or self._stopping.is_set())
                self._ready.append(item)
                self._changed.notify_all()
            self._judge(frame)

    def _examine(self, frame: Frame) -> Frame:
        """Mark a camera's frame that repeats the ones before it."""
        if frame.fault or not self._source.camera:
            return frame
        # Every fourth row is enough: noise leaves no row unchanged.
        seen = zlib.crc32(frame.pixels[::4].tobytes())
        self._equal = self._equal + 1 if seen == self._print else 0
        self._print = seen
        return replace(frame, fault="frozen") if self._equal >= FROZEN_AFTER else frame

    def _judge(self, frame: Frame) -> None:
        """Note that the source works, or that it has given nothing of use for too long."""
        if frame.fault and self._source.live:
            self._faults += 1
            if self._faults >= GIVE_UP_AFTER:
                self._faults = 0
                raise SourceLostError(
                    f"its last {GIVE_UP_AFTER} frames were {frame.fault}; it is opened anew"
                )
            return
        self._faults = 0
        if self._lost_at is None:
            return
        now = time.monotonic()
        if self._back_at is None:
            self._back_at = now
        if now - self._back_at >= self._retry.steady_s:
            _log.warning(
                "the source is back",
                extra=fields(
                    event="source-back",
                    source=self._source.name,
                    outage_s=round(self._back_at - self._lost_at, 1),
                    attempts=self._attempts,
                ),
            )
            self._lost_at, self._back_at, self._attempts = None, None, 0

    def _wait(self, lost: SourceLostError) -> None:
        """Log an outage that is new, and wait before the next attempt."""
        self._attempts += 1
        self._back_at = None
        if self._retry.attempts and self._attempts >= self._retry.attempts:
            raise InputError(f"{self._source.name}: {lost}")
        delay = min(self._retry.first * 2 ** min(self._attempts - 1, 30), self._retry.last)
        if self._lost_at is None:
            self._lost_at = time.monotonic()
            self.outages += 1
            _log.warning(
                "the source is lost: %s; trying again until it is back",
                lost,
                extra=fields(event="source-lost", source=self._source.name),
            )
        until = time.monotonic() + delay
        while not self._stopping.is_set() and time.monotonic() < until:
            self._beat = time.monotonic()
            self._stopping.wait(min(0.5, max(0.0, until - time.monotonic())))
