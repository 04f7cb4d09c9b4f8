"""The tables that conversion ends with, as Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edge.contract import read_model
from edge.errors import InputError
from edge.files import write_atomic

Cell = str | int | float | None


@dataclass(frozen=True)
class Table:
    """Columns with their headings, and rows of cells; None is a value that is not known."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def markdown(self) -> str:
        """A Markdown table; numbers to the right."""
        numbers = [
            any(isinstance(row[i], int | float) for row in self.rows) for i in range(len(self.columns))
        ]
        lines = [
            "| " + " | ".join(self.columns) + " |",
            "|" + "|".join("---:" if number else "---" for number in numbers) + "|",
        ]
        lines += ["| " + " | ".join(_text(cell) for cell in row) + " |" for row in self.rows]
        return "\n".join(lines)

    def csv(self) -> str:
        """Comma-separated values with a heading line; unknown values empty."""
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows([["" if cell is None else cell for cell in row] for row in self.rows])
        return buffer.getvalue()


def write_tables(stem: Path, table: Table, values: Sequence[Mapping[str, Any]]) -> None:
    """Write `stem`.md, .csv and .json; the JSON holds `values`, unrounded."""
    write_atomic(stem.with_suffix(".md"), (table.markdown() + "\n").encode())
    write_atomic(stem.with_suffix(".csv"), table.csv().encode())
    text = json.dumps(list(values), indent=1, allow_nan=False, ensure_ascii=False)
    write_atomic(stem.with_suffix(".json"), (text + "\n").encode())


def choose_models(names: Sequence[str]) -> tuple[str, ...]:
    """The networks meant by arguments; "all" is every one the kit knows.

    Raises:
        InputError: an unknown name.
    """
    from convert.architecture import NETWORKS

    if list(names) == ["all"]:
        return tuple(NETWORKS)
    for name in names:
        if name not in NETWORKS:
            raise InputError(f"architecture {name!r} is not known; choose {', '.join(NETWORKS)}, or all")
    return tuple(dict.fromkeys(names))


def describe_files(
    paths: Sequence[Path], costs: Mapping[str, Mapping[str, Any]] | None = None
) -> list[dict[str, Any]]:
    """What the contracts of model files say: a mapping for each score of each file's own weights."""
    from convert.gate import own_score

    found = []
    for path in paths:
        model = read_model(path)
        contract = model.contract
        score = own_score(contract)
        found.append(
            {
                "file": path.name,
                "digest": model.digest,
                "network": contract.architecture,
                "precision": contract.precision,
                "bytes": contract.flatbuffer_bytes,
                "parameters": contract.parameters,
                "macs": contract.macs,
                "trained_on_known_photographs": contract.training is None
                or bool(contract.training.data_digest),
                "split": score and score.split,
                "seed": score and score.seed,
                "part": score and score.part,
                "images": score and score.images,
                "accuracy": score and score.accuracy,
                "macro_f1": score and score.macro_f1,
                "keras_accuracy": score and score.keras_accuracy,
                "keras_macro_f1": score and score.keras_macro_f1,
                "agreement": score and score.agreement,
                "largest_difference": score and score.largest_difference,
                "time_baseline": score and score.time_baseline,
                "per_class": score and score.per_class,
                "quantisation": contract.extra.get("quantisation"),
                "cost": None if costs is None else costs.get(path.name),
            }
        )
    return found


def table(paths: Sequence[Path], costs: Mapping[str, Mapping[str, Any]] | None = None) -> Table:
    """Model files, a row each: size, scores on the split each was trained on, agreement with Keras.

    Of a model that was trained elsewhere nobody knows whether it has seen these photographs: its row says so.

    The time baseline is what a random forest reaches on the same split from the capture time alone, without a
    picture: an accuracy near it proves little. Precision and recall of each class stand at the end.
    """
    values = describe_files(paths, costs)
    classes = list(dict.fromkeys(label for value in values for label in value["per_class"] or ()))
    columns = (
        "model file", "precision", "bytes", "parameters", "million MACs", "split, part", "images", "accuracy",
        "macro-F1", "Keras accuracy", "Keras macro-F1", "agreement", "largest difference", "time baseline accuracy",
        "time baseline macro-F1",
        *(f"{label}: precision, recall" for label in classes),
    )  # fmt: skip
    rows: list[tuple[Cell, ...]] = []
    for value in values:
        baseline = value["time_baseline"]
        per_class = value["per_class"] or {}
        rows.append(
            (
                value["file"],
                value["precision"],
                value["bytes"],
                value["parameters"],
                round(value["macs"] / 1e6, 1),
                None
                if value["split"] is None
                else f"{value['split']} (seed {value['seed']}), {value['part']}"
                + ("" if value["trained_on_known_photographs"] else "; perhaps trained on"),
                value["images"],
                value["accuracy"],
                value["macro_f1"],
                value["keras_accuracy"],
                value["keras_macro_f1"],
                value["agreement"],
                value["largest_difference"],
                None if baseline is None else baseline["accuracy"],
                None if baseline is None else baseline["macro_f1"],
                *(
                    f"{per_class[label]['precision']:.3f}, {per_class[label]['recall']:.3f}"
                    if label in per_class
                    else None
                    for label in classes
                ),
            )
        )
    return Table(columns, tuple(rows))


def cost_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """What converting networks with random weights cost; see `convert.cost.write_untrained`."""
    columns = (
        "network", "precision", "bytes", "parameters", "million MACs", "conversion, s",
        "of processor time, s", "peak memory, GB",
        "images", "agreement", "largest difference",
    )  # fmt: skip
    return Table(
        columns,
        tuple(
            (
                row["model"],
                row["precision"],
                row["bytes"],
                row["parameters"],
                round(row["macs"] / 1e6, 1),
                round(row["seconds"], 1),
                round(row["processor_seconds"], 1),
                None if row["peak_bytes"] is None else round(row["peak_bytes"] / 1e9, 2),
                row["images"],
                row["agreement"],
                row["largest_difference"],
            )
            for row in rows
        ),
    )


def _text(cell: Cell) -> str:
    if cell is None:
        return "unknown"
    if isinstance(cell, int):
        return f"{cell:,}"
    return f"{cell:.4f}".rstrip("0").rstrip(".") if isinstance(cell, float) else cell.replace("|", "\\|")
