"""A decision over a window of frames, with hysteresis, so that it does not flicker between two classes."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edge.decision import UNCERTAIN
from edge.errors import InputError


@dataclass(frozen=True)
class Smoothing:
    """How decisions are smoothed.

    Attributes:
        window: number of used frames that are averaged, 1..1000; 1 looks at each frame by itself.
        hysteresis: 0..1. The class that stands is kept until another leads it by more than this, or until it
            falls more than this under the threshold that it had to reach.
        seconds: frames taken longer ago than this no longer count: a leaf of minutes ago says nothing.
    """

    window: int = 5
    hysteresis: float = 0.1
    seconds: float = 30.0

    def __post_init__(self) -> None:
        if not (1 <= self.window <= 1000 and 0 <= self.hysteresis <= 1 and self.seconds > 0):
            raise InputError(
                f"window {self.window} (1..1000), hysteresis {self.hysteresis} (0..1) or {self.seconds} seconds"
                " (above 0) is out of range"
            )


class Smoother:
    """The window of one source.

    Args:
        labels: class names.
        uncertain_below: smoothed probability that a class must reach, 0..1.
        smoothing: see `Smoothing`.
    """

    def __init__(self, labels: Sequence[str], uncertain_below: float, smoothing: Smoothing) -> None:
        self._labels = tuple(labels)
        self._threshold = uncertain_below
        self._smoothing = smoothing
        self._window: deque[tuple[float, npt.NDArray[np.float64]]] = deque(maxlen=smoothing.window)
        self._standing: int | None = None

    def add(self, probabilities: npt.NDArray[np.float64], taken: float) -> tuple[str, tuple[float, ...]]:
        """Take in a used frame.

        Args:
            probabilities: calibrated, (labels,) float64, 0..1.
            taken: monotonic time of the frame, seconds.

        Returns:
            The decision (a label or `UNCERTAIN`) and the mean probabilities over the window.
        """
        while self._window and taken - self._window[0][0] > self._smoothing.seconds:
            self._window.popleft()
        if not self._window:
            self._standing = None
        self._window.append((taken, probabilities))
        mean = np.mean([values for _, values in self._window], axis=0)
        best = int(mean.argmax())
        standing, slack = self._standing, self._smoothing.hysteresis
        # A single frame has no past to hold on to.
        if standing is not None and self._smoothing.window > 1:
            kept = mean[standing] >= self._threshold - slack and mean[best] - mean[standing] <= slack
        else:
            kept = False
        if not kept:
            self._standing = best if mean[best] >= self._threshold else None
        label = UNCERTAIN if self._standing is None else self._labels[self._standing]
        return label, tuple(float(value) for value in mean)
