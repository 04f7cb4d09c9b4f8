"""Golden outputs for a model file: small drawn pictures that the model answers clearly, and its answers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edge.classifier import Classifier
from edge.contract import Contract
from edge.errors import InputError
from edge.golden import Case, Golden
from edge.preprocessing import Pixels

SEED = 20
CANDIDATES = 48
CASES = 4
HEIGHT, WIDTH = 24, 32

STEPS = 32
"""Quantisation steps of the output (of 256) that may lie between two runtimes. LiteRT 2.3.0 on aarch64 and
x86-64 gives the same int8 output to the bit. LiteRT 2.3.0 and tflite-runtime 2.14.0 round differently inside, and
the softmax turns a step of an undecided logit into many: 24 at most over 200 drawn pictures with LCNN int8, 15
or fewer in 99 % of them. Kernels that compute something else are off by far more."""

FLOAT_TOLERANCE = {"float32": 0.005, "float16": 0.01, "dynamic": 0.125, "int16x8": 0.01}
"""Difference of a probability that may lie between two runtimes or processors; the sums of float kernels are
ordered differently, and dynamic-range kernels quantise every layer's input anew."""

CLEAR = 0.1
"""Least distance between the two best probabilities of a golden output; at least twice the tolerance, so that an
output within the tolerance has the same label."""

BEST = 0.7
"""The distance that is looked for. Where a network is sure beyond doubt, its output hardly moves when something
is wrong with it; where it is undecided, rounding alone moves it."""


@dataclass(frozen=True)
class _Candidate:
    picture: Pixels
    probabilities: tuple[float, ...]
    label: str
    margin: float


def tolerance(contract: Contract) -> float:
    """The difference of a probability (0..1) that the self-test of this model lets pass."""
    if contract.output_tensor.dtype == "float32":
        return FLOAT_TOLERANCE.get(contract.precision, FLOAT_TOLERANCE["float32"])
    return STEPS * contract.output_tensor.scale


def draw(generator: np.random.Generator) -> Pixels:
    """A blade of some hue with blotches on paper: uint8 (24, 32, 3)."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    picture = np.empty((HEIGHT, WIDTH, 3), dtype=np.int64)
    picture[:] = generator.integers(150, 250, 3)
    inside = ((y - HEIGHT / 2) / (HEIGHT * 0.42)) ** 2 + ((x - WIDTH / 2) / (WIDTH * 0.46)) ** 2 < 1
    picture[inside] = generator.integers(20, 190, 3)
    for _ in range(int(generator.integers(0, 14))):
        row, column = int(generator.integers(0, HEIGHT)), int(generator.integers(0, WIDTH))
        blotch = (y - row) ** 2 + (x - column) ** 2 < int(generator.integers(1, 30))
        picture[blotch & inside] = generator.integers(0, 256, 3)
    picture += generator.integers(-12, 13, picture.shape)
    return np.clip(picture, 0, 255).astype(np.uint8)


def make_golden(classifier: Classifier, seed: int = SEED) -> Golden:
    """Draw pictures and keep a few that the model answers clearly, of as many classes as there are.

    Raises:
        InputError: the model answers none of the pictures clearly.
    """
    allowed = tolerance(classifier.contract)
    least = max(CLEAR, 2 * allowed)
    generator = np.random.default_rng(seed)
    candidates = [_answer(classifier, draw(generator)) for _ in range(CANDIDATES)]
    clear = sorted(
        (candidate for candidate in candidates if candidate.margin > least),
        key=lambda candidate: abs(candidate.margin - BEST),
    )
    if not clear:
        raise InputError(
            f"{classifier.model.path}: answers none of {CANDIDATES} drawn pictures clearly (best margin"
            f" {max(candidate.margin for candidate in candidates):.3f}, needed {least:.3f}); train it before signing"
        )
    seen: set[str] = set()
    first_of_label: list[_Candidate] = []
    others: list[_Candidate] = []
    for candidate in clear:
        (others if candidate.label in seen else first_of_label).append(candidate)
        seen.add(candidate.label)
    chosen = [*first_of_label, *others][:CASES]
    return Golden(
        tuple(Case(candidate.picture, candidate.probabilities) for candidate in chosen),
        allowed,
        str(classifier.runtime),
    )


def _answer(classifier: Classifier, picture: Pixels) -> _Candidate:
    prediction = classifier.classify(picture)
    second, first = sorted(prediction.probabilities)[-2:]
    return _Candidate(picture, prediction.probabilities, prediction.label, first - second)
