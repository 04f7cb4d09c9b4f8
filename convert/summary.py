"""The table that conversion ends with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edge.contract import read_contract


def table(paths: Sequence[Path]) -> str:
    """Model files as a Markdown table: size, scores on the split each was trained on, agreement with Keras.

    The time baseline is what a random forest reaches on the same split from the capture time alone, without a
    picture: an accuracy near it proves little.
    """
    lines = [
        "| model file | precision | bytes | split, part | images | accuracy | macro-F1 | Keras macro-F1 | agreement"
        " | largest difference | time baseline accuracy | time baseline macro-F1 |",
        "|---|---|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for path in paths:
        contract = read_contract(path)
        for found in contract.scores[:1]:
            baseline = (
                "unknown | unknown"
                if found.time_baseline is None
                else f"{found.time_baseline['accuracy']:.4f} | {found.time_baseline['macro_f1']:.4f}"
            )
            lines.append(
                f"| {path.name} | {contract.precision} | {path.stat().st_size:,} | {found.split} (seed {found.seed}),"
                f" {found.part} | {found.images} | {found.accuracy:.4f} | {found.macro_f1:.4f} |"
                f" {found.keras_macro_f1:.4f} | {found.agreement:.4f} | {found.largest_difference:.4f} | {baseline} |"
            )
    return "\n".join(lines)
