"""Section on the models: what they are, how they score on each split, and how each class fares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.report.confusion import confusion_figures
from bench.result import Entry
from bench.section import Cell, Section, Table


def distinct_models(entries: Sequence[Entry]) -> list[Mapping[str, Any]]:
    """The models of the entries, each file once, in order of appearance."""
    models: dict[str, Mapping[str, Any]] = {}
    for entry in entries:
        if entry.model is not None:
            models.setdefault(str(entry.model["digest"]), entry.model)
    return list(models.values())


def own_score(model: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The score of the model's own weights on the split they were trained on; None for untrained weights."""
    training = model.get("training")
    for score in model.get("scores", ()):
        if training is not None and score["weights_digest"] == training["weights_digest"]:
            found: Mapping[str, Any] = score
            return found
    return None


def section(entries: Sequence[Entry]) -> Section:
    """What each model file's contract says of it."""
    models = distinct_models(entries)
    untrained = [str(model["name"]) for model in models if model.get("training") is None]
    tables = [_files(models)]
    if any(model.get("scores") for model in models):
        tables.append(_scores(models))
    tables += [table for table in map(_classes, models) if table is not None]
    return Section(
        title="Models",
        anchor="models",
        paragraphs=(
            "Photographs taken in one session look alike. On a random split, photographs of one session lie on"
            " both sides, so the score also measures how well the model remembers sessions; the burst split keeps"
            " photographs taken within a minute of each other on one side. The time baseline sees no picture at"
            " all: it is a random forest on the capture time alone, on the same split.",
        ),
        tables=tuple(tables),
        figures=tuple(confusion_figures(entries)),
        warnings=(
            f"Weights that were never trained: {', '.join(untrained)}. Their answers mean nothing, only their speed"
            " and size do.",
        )
        if untrained
        else (),
    )


def _files(models: Sequence[Mapping[str, Any]]) -> Table:
    rows: list[list[Cell]] = []
    for model in models:
        training = model.get("training")
        trained = "never" if training is None else f"{training['split']} split (seed {training['seed']})"
        rows.append(
            [
                model["name"],
                model["architecture"],
                model["precision"],
                round(model["bytes"] / 1000, 1),
                model.get("parameters"),
                None if model.get("macs") is None else model["macs"] / 1e6,
                trained,
                model["digest"][:12],
            ]
        )
    columns = (
        "model", "network", "precision", "size, kB", "parameters", "million MACs", "trained on", "file digest",
    )  # fmt: skip
    return Table("Model files", columns, rows, "MACs: multiply-accumulates of one inference.")


def _scores(models: Sequence[Mapping[str, Any]]) -> Table:
    rows: list[list[Cell]] = []
    for model in models:
        training = model.get("training") or {}
        for score in model.get("scores", ()):
            own = score["weights_digest"] == training.get("weights_digest")
            baseline = score.get("time_baseline") or {}
            rows.append(
                [
                    model["name"] if own else f"{model['name']} (sister trained on {score['split']})",
                    f"{score['split']} (seed {score['seed']}), {score['part']}",
                    score["images"],
                    score["accuracy"],
                    score["macro_f1"],
                    baseline.get("accuracy"),
                    baseline.get("macro_f1"),
                    score["keras_macro_f1"],
                    score["agreement"],
                    score["largest_difference"],
                ]
            )
    columns = (
        "model", "split, part", "photographs", "accuracy", "macro-F1", "time baseline accuracy",
        "time baseline macro-F1", "float original macro-F1", "same label as original", "largest difference",
    )  # fmt: skip
    note = "The last three columns compare the file with the Keras model that it was converted from."
    return Table("Scores on held-out photographs, as the model files state them", columns, rows, note)


def _classes(model: Mapping[str, Any]) -> Table | None:
    score = own_score(model)
    if score is None or not score.get("per_class"):
        return None
    rows = [
        [label, values["precision"], values["recall"], int(values["images"])]
        for label, values in score["per_class"].items()
    ]
    title = f"{model['name']}: each class on the {score['split']} split's {score['part']} part"
    return Table(title, ("class", "precision", "recall", "photographs"), rows)
