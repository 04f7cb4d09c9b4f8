"""Confusion matrices of the clean photographs, from the predictions that robustness results hold."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.plot import new_figure, to_svg
from bench.prediction import predictions_from_json
from bench.result import Entry
from bench.section import Figure
from convert.score import confusion_matrix


def confusion_figures(entries: Sequence[Entry]) -> list[Figure]:
    """One matrix for each labelled robustness entry: rows the true class, columns the predicted one."""
    figures = []
    for entry in entries:
        if entry.kind != "robustness" or not entry.body["labelled"] or entry.model is None:
            continue
        name = str(entry.model["name"])
        predictions = predictions_from_json(entry.body["predictions"], name)
        assert predictions.truth is not None
        matrix = confusion_matrix(predictions.truth, predictions.clean, len(predictions.labels))
        data = entry.data or {}
        split = f"{data['split']} split, {data.get('part')} part" if data.get("split") else None
        where = split or str(entry.body["images"]["choice"])
        figures.append(_figure(matrix, predictions.labels, f"{name}, {where}"))
    return figures


def _figure(matrix: Any, labels: Sequence[str], title: str) -> Figure:
    figure, axis = new_figure(6.4, 5.2)
    shares = matrix / matrix.sum(axis=1, keepdims=True).clip(min=1)
    # Cividis (Nuñez et al. 2018) looks the same to the colour-blind, and its lightness grows evenly.
    axis.imshow(shares, cmap="cividis", vmin=0, vmax=1, aspect="auto")
    for row in range(len(labels)):
        for column in range(len(labels)):
            colour = "#101010" if shares[row, column] > 0.5 else "#fafafa"
            axis.text(
                column, row, int(matrix[row, column]), ha="center", va="center", fontsize=8, color=colour
            )
    axis.set_xticks(range(len(labels)), labels, rotation=45, ha="right", fontsize=8)
    axis.set_yticks(range(len(labels)), labels, fontsize=8)
    axis.set_xlabel("predicted")
    axis.set_ylabel("true")
    axis.grid(visible=False)
    off = matrix - np.diag(np.diag(matrix))
    row, column = divmod(int(off.argmax()), len(labels))
    worst = (
        "nothing was confused"
        if off.max() == 0
        else f"most often {labels[row]} was taken for {labels[column]} ({int(off[row, column])} times)"
    )
    total, right = int(matrix.sum()), int(matrix.trace())
    buffer = io.StringIO()
    table = csv.writer(buffer, lineterminator="\n")
    table.writerow(["true", *labels])
    table.writerows([label, *map(int, values)] for label, values in zip(labels, matrix, strict=True))
    return Figure(
        title=f"Confusion of clean photographs: {title}. Numbers are photographs; colour is their share of the class.",
        alternative=f"{right} of {total} photographs lie on the diagonal; {worst}.",
        svg=to_svg(figure),
        csv=buffer.getvalue(),
    )
