"""What the field runner says of one frame: the record that is journalled, shown and published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

UNCERTAIN = "uncertain"
"""The label of a frame that was used but whose smoothed probabilities name no class clearly."""

GATES = ("dark", "bright", "blurred", "no-leaf", "frozen", "torn", "empty")
"""Why a frame was not used."""


@dataclass(frozen=True)
class Decision:
    """One frame, used or refused.

    Attributes:
        source: where the frame came from, as the user named it (without a stream's password).
        label: one of `labels`, or `UNCERTAIN`, or "" when the frame was not used.
        probabilities: smoothed over the window, calibrated, 0..1, in the order of `labels`; empty when the
            frame was not used.
        labels: the model's class names.
        gate: "" for a frame that was used, else one of `GATES`.
        stage_ms: milliseconds spent on this frame by stage ("capture", "decode", "gate", "resize", "invoke").
        model_digest: SHA-256 of the model file, hexadecimal.
        temperature_c: of the processor, degrees Celsius; None where the board does not tell.
        frame_number: of the source since it was opened, from 0; gaps are frames that were passed over.
    """

    source: str
    label: str
    probabilities: tuple[float, ...]
    labels: tuple[str, ...]
    gate: str
    stage_ms: Mapping[str, float] = field(default_factory=dict)
    model_digest: str = ""
    temperature_c: float | None = None
    frame_number: int = 0

    @property
    def used(self) -> bool:
        """Whether the frame passed the gates."""
        return not self.gate

    @property
    def confidence(self) -> float:
        """Smoothed probability of the most probable class, 0..1; 0 for a frame that was not used."""
        return max(self.probabilities, default=0.0)
