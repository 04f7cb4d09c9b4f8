"""`mango-edge info`: what a model file promises."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edge.cli.app import app

if TYPE_CHECKING:
    from edge.contract import ModelFile


@app.command()
def info(
    model: Annotated[
        Path | None, typer.Argument(help="Model file [default: the one that comes with the kit].")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole contract as JSON.")] = False,
    runtime: Annotated[
        str, typer.Option(help="auto, ai-edge-litert, tflite-runtime or tensorflow.")
    ] = "auto",
) -> None:
    """Check a model file and show its contract: labels, input, origin of the weights, scores, digests."""
    from edge.classifier import Classifier
    from edge.contract import contract_to_json

    # Opened, not just read: a file whose tensors differ from its contract must not look well here.
    classifier = Classifier.open(model, runtime)
    contract = classifier.contract
    if as_json:
        typer.echo(json.dumps(contract_to_json(contract), indent=1, ensure_ascii=False))
        return
    spec, training = contract.input, contract.training
    size = classifier.model.path.stat().st_size
    rows = [
        ("file", f"{classifier.model.path} ({size:,} bytes, SHA-256 {classifier.model.digest})"),
        ("opened by", str(classifier.runtime)),
        (
            "network",
            f"{contract.architecture}, {contract.precision}, {contract.parameters:,} parameters,"
            f" {contract.macs / 1e6:,.1f} million multiply-accumulates",
        ),
        ("labels", ", ".join(contract.labels)),
        (
            "input",
            f"{spec.width}x{spec.height} {spec.colour} {spec.minimum}..{spec.maximum}, {spec.fit}, {spec.resize},"
            f" EXIF orientation: {spec.exif}",
        ),
    ]
    for side, tensor in (("input tensor", contract.input_tensor), ("output tensor", contract.output_tensor)):
        scale = f", scale {tensor.scale:.8g}, zero point {tensor.zero_point}" if tensor.scale else ""
        rows.append((side, f"{tensor.dtype} {list(tensor.shape)}{scale}"))
    if training is None:
        rows.append(("weights", "never trained"))
    else:
        rows.append(
            (
                "weights",
                f"split {training.split} (seed {training.seed}), {training.images} photographs, best epoch"
                f" {training.best_epoch} of {training.epochs}, data {training.data_digest[:12]}",
            )
        )
    if contract.calibration is not None:
        rows.append(
            ("calibration", ", ".join(f"{key} {value}" for key, value in contract.calibration.items()))
        )
    rows.append(("confidence", _confidence(classifier.model)))
    for score in contract.scores:
        own = training is not None and score.weights_digest == training.weights_digest
        whose = "" if own else " [sister model trained on that split]"
        baseline = score.time_baseline
        beside = "unknown" if baseline is None else f"{baseline['accuracy']:.4f} / {baseline['macro_f1']:.4f}"
        rows.append(
            (
                f"{score.split}, {score.part}",
                f"accuracy {score.accuracy:.4f}, macro-F1 {score.macro_f1:.4f} on {score.images} photographs"
                f" (capture time alone: {beside}){whose}",
            )
        )
    rows.append(("made with", ", ".join(f"{name} {version}" for name, version in contract.versions.items())))
    for name, text in rows:
        typer.echo(f"{name:<14} {text}")


def _confidence(model: ModelFile) -> str:
    from edge.calibration import calibration_of

    calibration = calibration_of(model.contract, model.path)
    if not calibration.measured:
        return "as the network gives it; calibrate it with: mango-convert calibrate"
    text = f"temperature {calibration.temperature:.4f}, uncertain below {calibration.uncertain_below:.4f}"
    found: Any = model.contract.extra.get("calibrated")
    try:
        test = found["test"]
        return (
            f"{text}; expected calibration error on the test part of {found['split']}"
            f" {float(test['ece_before']):.4f} without, {float(test['ece_after']):.4f} with it"
        )
    # What else the file says of itself is for people; a decision does not depend on it.
    except (KeyError, TypeError, ValueError, OverflowError):
        return text
