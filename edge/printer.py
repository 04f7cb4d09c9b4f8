"""Decisions on standard output, for runs without a journal."""

from __future__ import annotations

import json
import sys

from edge.decision import Decision
from edge.errors import InputError
from edge.log import FORMATS


class Printer:
    """A sink that prints one line a decision, as text or as JSON (`layout`)."""

    def __init__(self, layout: str = "text") -> None:
        if layout not in FORMATS:
            raise InputError(f"format {layout!r} is not known; choose {' or '.join(FORMATS)}")
        self._json = layout == "json"

    def wants_picture(self, decision: Decision) -> bool:
        """Never: a terminal shows none."""
        del decision
        return False

    def submit(self, decision: Decision, picture: bytes | None = None) -> None:
        """Print a decision at once."""
        del picture
        if self._json:
            values = {
                "source": decision.source,
                "frame": decision.frame_number,
                "label": decision.label,
                "gate": decision.gate,
                "probabilities": {
                    label: round(p, 4)
                    for label, p in zip(decision.labels, decision.probabilities, strict=False)
                },
            }
            line = json.dumps(values, ensure_ascii=False)
        else:
            said = (
                f"{decision.label} {decision.confidence:.1%}"
                if decision.used
                else f"not used: {decision.gate}"
            )
            line = f"{decision.source} {decision.frame_number}: {said}"
        print(line, file=sys.stdout, flush=True)
