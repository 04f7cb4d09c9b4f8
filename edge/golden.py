"""The self-test of a model file: golden outputs that it carries for a few small pictures.

The pictures go the whole way that a frame goes on the device (fitting, quantising, inference, dequantising) in
the runtime that is installed there. Labels must be the ones that the signer's machine gave, probabilities may
differ by the tolerance that the file states: kernels of different runtimes and processors round differently by
a step or two (see `edge.runtime`).
"""

from __future__ import annotations

import io
import json
import math
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from edge.classifier import Classifier
from edge.contract import ModelFile
from edge.errors import InputError
from edge.preprocessing import Pixels

MEMBER = "golden.json"
VERSION = 1
MAXIMUM_CASES = 16
MAXIMUM_SIDE = 256
"""Pixels of a golden picture's longer side; they are small so that the file stays small."""

SECONDS = 600.0
"""Time that a self-test may take in `run_apart`; large networks on a slow board need a minute or two."""

_SIGN_AGAIN = "sign it again with: mango-convert sign"


@dataclass(frozen=True)
class Case:
    """One golden picture, uint8 (height, width, 3) RGB, and the probabilities (0..1) that it must give."""

    picture: Pixels
    probabilities: tuple[float, ...]


@dataclass(frozen=True)
class Golden:
    """The golden outputs of a model file.

    Attributes:
        cases: the pictures and their outputs.
        tolerance: largest difference of a probability that passes, 0..1.
        runtime: the runtime that gave the outputs, for example "ai-edge-litert 2.3.0".
    """

    cases: tuple[Case, ...]
    tolerance: float
    runtime: str


@dataclass(frozen=True)
class Outcome:
    """A passed self-test: how many cases, the largest difference seen, the tolerance, and the runtime here."""

    cases: int
    largest_difference: float
    tolerance: float
    runtime: str

    def __str__(self) -> str:
        return (
            f"{self.cases} golden outputs agree in {self.runtime} (largest difference"
            f" {self.largest_difference:.4f}, allowed {self.tolerance:.4f})"
        )


def to_members(golden: Golden) -> dict[str, bytes]:
    """Golden outputs as zip members of a model file."""
    members: dict[str, bytes] = {}
    cases = []
    for number, case in enumerate(golden.cases):
        buffer = io.BytesIO()
        Image.fromarray(case.picture).save(buffer, "PNG", optimize=True)
        name = f"golden/{number}.png"
        members[name] = buffer.getvalue()
        cases.append({"picture": name, "probabilities": [round(p, 9) for p in case.probabilities]})
    values = {"version": VERSION, "tolerance": golden.tolerance, "runtime": golden.runtime, "cases": cases}
    return {MEMBER: json.dumps(values, indent=1).encode(), **members}


def without_golden(members: Mapping[str, bytes]) -> dict[str, bytes]:
    """A model file's zip members less the golden outputs."""
    return {name: data for name, data in members.items() if name != MEMBER and not name.startswith("golden/")}


def read_golden(model: ModelFile) -> Golden:
    """The golden outputs that a model file carries.

    Raises:
        InputError: there are none, or they are malformed.
    """
    where = model.path
    if MEMBER not in model.members:
        raise InputError(f"{where}: carries no golden outputs for a self-test; {_SIGN_AGAIN}")
    try:
        values = json.loads(model.members[MEMBER])
        if values["version"] != VERSION:
            raise InputError(
                f"{where}: its golden outputs have version {values['version']}, this program reads {VERSION};"
                " update the program"
            )
        tolerance = float(values["tolerance"])
        cases = tuple(_case(model, entry) for entry in values["cases"])
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InputError(f"{where}: its golden outputs are malformed ({error}); {_SIGN_AGAIN}") from None
    if not 1 <= len(cases) <= MAXIMUM_CASES or not (math.isfinite(tolerance) and 0 <= tolerance < 0.5):
        raise InputError(
            f"{where}: its golden outputs are malformed ({len(cases)} cases, tolerance {tolerance}); {_SIGN_AGAIN}"
        )
    return Golden(cases, tolerance, str(values.get("runtime", "unknown")))


def self_test(classifier: Classifier) -> Outcome:
    """Run a model's golden pictures in the runtime it is opened in.

    Raises:
        InputError: there are none, or an output differs; says which and by how much.
    """
    golden = read_golden(classifier.model)
    where, labels = classifier.model.path, classifier.contract.labels
    largest = 0.0
    for number, case in enumerate(golden.cases, start=1):
        prediction = classifier.classify(case.picture)
        expected = labels[int(np.argmax(case.probabilities))]
        differences = np.abs(np.subtract(prediction.probabilities, case.probabilities))
        # A network that has gone wrong may well give NaN, which is larger than nothing.
        difference = float(differences.max()) if np.isfinite(differences).all() else math.inf
        if prediction.label != expected or difference > golden.tolerance:
            raise InputError(
                f"{where}: self-test failed in {classifier.runtime}: golden picture {number} gave"
                f" {prediction.label} for {expected}, probabilities differ by {difference:.4f}"
                f" (allowed {golden.tolerance:.4f}, made by {golden.runtime}); keep the model that works"
            )
        largest = max(largest, difference)
    return Outcome(len(golden.cases), largest, golden.tolerance, str(classifier.runtime))


def run_apart(path: Path, seconds: float = SECONDS) -> str:
    """Self-test of a model file in a process of its own, which may crash without taking this one with it.

    Returns:
        What the test found, one line.

    Raises:
        InputError: it failed, ended by a signal, or took longer than `seconds`.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-m", "edge.golden", str(path.absolute())],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
            stdin=subprocess.DEVNULL,
            # -m looks in the working folder first: let that be where this package lies, not wherever we are.
            cwd=Path(__file__).parent.parent,
        )
    except subprocess.TimeoutExpired:
        raise InputError(
            f"{path}: the self-test did not end within {seconds:.0f} s; keep the model that works"
        ) from None
    if done.returncode == 0:
        return done.stdout.strip()
    said = " ".join(done.stderr.split()).removeprefix("error: ")
    if done.returncode < 0:
        said = f"{path}: the runtime crashed (signal {-done.returncode}) in the self-test; keep the model that works"
    raise InputError(said or f"{path}: the self-test ended with status {done.returncode}")


def _case(model: ModelFile, entry: Any) -> Case:
    name, probabilities = str(entry["picture"]), tuple(float(value) for value in entry["probabilities"])
    if len(probabilities) != len(model.contract.labels) or not all(map(math.isfinite, probabilities)):
        raise ValueError(f"{name} needs {len(model.contract.labels)} probabilities")
    if name not in model.members:
        raise ValueError(f"{name} is missing")
    try:
        with Image.open(io.BytesIO(model.members[name]), formats=("PNG",)) as image:
            if max(image.size) > MAXIMUM_SIDE or image.mode != "RGB":
                raise ValueError(f"{name} is {image.size} {image.mode}")
            return Case(np.asarray(image, dtype=np.uint8), probabilities)
    except (OSError, SyntaxError, Image.DecompressionBombError):
        raise ValueError(f"{name} is no readable PNG") from None


def _main() -> None:
    from edge.console import fail

    try:
        print(self_test(Classifier.open(sys.argv[1])))
    except InputError as error:
        fail(str(error))


if __name__ == "__main__":
    _main()
