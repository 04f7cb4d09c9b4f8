"""The newest frame with its decision, kept in memory for the status page."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from edge.decision import Decision

_IDLE_S = 10.0  # between two pictures while nobody looks
_WATCHED_S = 1.0  # while somebody does
_ATTENTION_S = 30.0  # for which a look counts


@dataclass(frozen=True)
class Shown:
    """A decision, the frame it was made on as JPEG (None where there was none), and its age in seconds."""

    decision: Decision
    picture: bytes | None
    age_s: float


class LiveView:
    """Takes decisions as the journal does, and remembers the last whose picture it asked for.

    Encoding a picture takes longer than many a decision, so it asks for one every ten seconds, and every second
    while somebody looks.

    Args:
        monotonic: seconds that never step.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._held: tuple[Decision, bytes | None, float] | None = None
        self._looked = float("-inf")

    def wants_picture(self, decision: Decision) -> bool:
        """Whether it is time for another picture."""
        del decision
        now = self._monotonic()
        with self._lock:
            if self._held is None or self._held[1] is None:
                return True
            pause = _WATCHED_S if now - self._looked < _ATTENTION_S else _IDLE_S
            return now - self._held[2] >= pause

    def submit(self, decision: Decision, picture: bytes | None = None) -> None:
        """Take a decision; without a picture it is kept only where none is held yet."""
        with self._lock:
            if picture is not None or self._held is None or self._held[1] is None:
                self._held = (decision, picture, self._monotonic())

    def __call__(self) -> Shown | None:
        """What is held; None before the first decision."""
        with self._lock:
            self._looked = self._monotonic()
            if self._held is None:
                return None
            decision, picture, taken = self._held
            return Shown(decision, picture, self._looked - taken)
