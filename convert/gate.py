"""The gate between a conversion and a device: how much a quantised file may lose against float."""

from __future__ import annotations

from dataclasses import dataclass

from edge.contract import Contract, Score

QUANTISED = ("int8", "int16x8")
ADVICE = (
    "try more calibration pictures (--per-class), int16 activations (--precision int16x8) or float layers where"
    " `mango-convert debug` finds the noise; --auto tries them in that order"
)


@dataclass(frozen=True)
class Gate:
    """What is demanded on the test part: both against the float original on the same photographs.

    Attributes:
        drop: macro-F1 that may be lost, 0..1 (0.01 is one point).
        agreement: share of photographs that must get the same label, 0..1.
    """

    drop: float = 0.01
    agreement: float = 0.98


def faults(score: Score, gate: Gate) -> list[str]:
    """What a score fails the gate by, a phrase with its figures each; empty when it passes."""
    found = []
    lost = score.keras_macro_f1 - score.macro_f1
    # Scores are quotients of whole numbers; a difference equal to the limit must not fail by rounding.
    if lost > gate.drop + 1e-9:
        found.append(
            f"loses {100 * lost:.2f} points of macro-F1 ({score.keras_macro_f1:.4f} to {score.macro_f1:.4f},"
            f" {100 * gate.drop:.2f} allowed)"
        )
    if score.agreement < gate.agreement - 1e-9:
        found.append(
            f"agrees with float on {100 * score.agreement:.2f} % of {score.images} photographs"
            f" ({100 * gate.agreement:.2f} % demanded)"
        )
    return found


def own_score(contract: Contract) -> Score | None:
    """The score of the file's own weights; None where it was never scored."""
    return next(
        (
            score
            for score in contract.scores
            if contract.training is not None and score.weights_digest == contract.training.weights_digest
        ),
        None,
    )


def verdict(name: str, contract: Contract, gate: Gate) -> str | None:
    """One sentence on why a model file fails the gate; None for one that passes or is not quantised."""
    score = own_score(contract)
    if contract.precision not in QUANTISED or score is None:
        return None
    found = faults(score, gate)
    if not found:
        return None
    return f"{name} {' and '.join(found)} on the {score.part} part of split {score.split}; {ADVICE}"
