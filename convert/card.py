"""The model card: a model file's contract in words, as MODEL.md beside it."""

from __future__ import annotations

from pathlib import Path

from convert.gate import own_score
from edge.contract import Contract, ModelFile, Score, Tensor, read_model
from edge.files import write_atomic


def card_path(model: Path) -> Path:
    """Where the card of a model file stands: `lcnn-burst-int8.tflite` -> `lcnn-burst-int8.MODEL.md`."""
    return model.with_name(f"{model.stem}.MODEL.md")


def write_card(path: Path) -> Path:
    """Render the card of a model file beside it.

    Raises:
        InputError: the model file cannot be read.
    """
    target = card_path(path)
    write_atomic(target, render(read_model(path)).encode())
    return target


def render(model: ModelFile) -> str:
    """The card as Markdown; the same file gives the same text."""
    contract = model.contract
    lines = [f"# {model.path.name}", "", *_summary(model, contract), ""]
    lines += ["## Input and output", "", *_tensors(contract), "", "## Weights", "", *_weights(contract), ""]
    if contract.calibration is not None or "quantisation" in contract.extra:
        lines += ["## Quantisation", "", *_quantisation(contract), ""]
    lines += ["## Scores", "", *_scores(contract), "", "## Made with", ""]
    lines += [f"- {name} {version}" for name, version in sorted(contract.versions.items())]
    return "\n".join(lines) + "\n"


def _summary(model: ModelFile, contract: Contract) -> list[str]:
    return [
        f"{contract.architecture}, {contract.precision}: {len(contract.labels)} classes.",
        "" if contract.training is not None else "**Never trained: its answers mean nothing.**",
        f"- size: {contract.flatbuffer_bytes:,} bytes",
        f"- parameters: {contract.parameters:,}",
        f"- multiply-accumulates: {contract.macs / 1e6:,.1f} million an inference",
        f"- digest of the file: {model.digest}",
    ]


def _tensors(contract: Contract) -> list[str]:
    spec = contract.input
    return [
        f"- takes {spec.colour} {spec.minimum}..{spec.maximum}, {spec.height}x{spec.width} pixels,"
        f" {spec.fit} ({spec.resize} filter), EXIF orientation: {spec.exif}",
        f"- input tensor: {_tensor(contract.input_tensor)}",
        f"- output tensor: {_tensor(contract.output_tensor)}, the probabilities of: {', '.join(contract.labels)}",
    ]


def _tensor(tensor: Tensor) -> str:
    text = f"{tensor.dtype} {'x'.join(map(str, tensor.shape))}"
    return f"{text}, value = {tensor.scale:.8g} * (q - {tensor.zero_point})" if tensor.scale else text


def _weights(contract: Contract) -> list[str]:
    training = contract.training
    if training is None:
        return ["Random."]
    if not training.data_digest:
        return [f"Trained elsewhere, on photographs that are not known; digest {training.weights_digest}."]
    return [
        f"Trained on {training.images} photographs of split {training.split} (seed {training.seed}),"
        f" best of {training.epochs} epochs: {training.best_epoch}.",
        "",
        f"- weights: {training.weights_digest}",
        f"- photographs: {training.data_digest}",
        f"- split: {training.split_digest}",
    ]


def _quantisation(contract: Contract) -> list[str]:
    lines = []
    if contract.calibration is not None:
        calibration = contract.calibration
        lines.append(
            f"Activation ranges measured on {calibration['images']} photographs of the {calibration['part']} part,"
            f" up to {calibration['per_class']} of each class, drawn with seed {calibration['seed']}."
            " Weights are quantised channel by channel."
        )
    chosen = contract.extra.get("quantisation")
    if chosen:
        lines += ["", f"Chosen as the first that passes the gate: {chosen['variant']}. Before it failed:", ""]
        lines += [
            f"- {one['variant']}: macro-F1 {one['macro_f1']:.4f}, agreement {one['agreement']:.4f}"
            for one in chosen["tried"]
        ]
    return lines


def _scores(contract: Contract) -> list[str]:
    if not contract.scores:
        return ["Not scored."]
    lines = [
        "Of each split the test part; the other split's row is the sister model's that was trained on it. The time"
        " baseline is a random forest that sees the capture time alone: near it, an accuracy proves little.",
        "",
        "| split | images | accuracy | macro-F1 | Keras accuracy | Keras macro-F1 | agreement with Keras"
        " | largest difference | time baseline accuracy, macro-F1 |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    if contract.training is not None and not contract.training.data_digest:
        lines.insert(0, "**It may have been trained on these photographs: a score may flatter it.**\n")
    own = own_score(contract)
    for score in contract.scores:
        baseline = score.time_baseline
        known = "unknown" if baseline is None else f"{baseline['accuracy']:.4f}, {baseline['macro_f1']:.4f}"
        sister = "" if score is own else " (sister model)"
        lines.append(
            f"| {score.split}, seed {score.seed}, {score.part}{sister} | {score.images} | {score.accuracy:.4f}"
            f" | {score.macro_f1:.4f} | {score.keras_accuracy:.4f} | {score.keras_macro_f1:.4f}"
            f" | {score.agreement:.4f} | {score.largest_difference:.4f} | {known} |"
        )
    for score in contract.scores:
        lines += ["", *_classes(score, score is own)]
    return lines


def _classes(score: Score, own: bool) -> list[str]:
    whose = "" if own else ", sister model"
    return [
        f"| class ({score.split} split{whose}) | precision | recall | images |",
        "|---|---:|---:|---:|",
        *(
            f"| {label} | {values['precision']:.4f} | {values['recall']:.4f} | {int(values['images'])} |"
            for label, values in score.per_class.items()
        ),
    ]
