"""The pictures that a measurement goes round: chosen from the user's, or drawn."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from bench.drawing import LABELS, draw_leaf
from edge.errors import InputError
from edge.files import sha256, write_atomic
from edge.photograph import find_photographs
from edge.preprocessing import read_photograph

_DRAWN = re.compile(r"drawn-\d+\.(png|jpg)")


@dataclass(frozen=True)
class Pictures:
    """Readable picture files, a sentence for each that is not, and what a result says of them."""

    paths: tuple[Path, ...]
    problems: tuple[str, ...]
    data: dict[str, Any]


def choose_pictures(arguments: Sequence[str], count: int, seed: int = 0) -> Pictures:
    """Take `count` of the pictures that the arguments name, at random by `seed`; all if there are no more.

    Each is decoded once: what cannot be read is named instead of spoiling a measurement, and the others are in
    the page cache from then on.

    Raises:
        InputError: no picture can be read.
    """
    found = find_photographs(arguments)
    problems = [message for _, message in found.problems]
    paths = list(found.paths)
    if len(paths) > count:
        chosen = np.random.default_rng(seed).choice(len(paths), size=count, replace=False)
        paths = [paths[position] for position in sorted(chosen)]
    readable = []
    for path in paths:
        try:
            read_photograph(path)
        except InputError as error:
            problems.append(str(error))
            continue
        readable.append(path)
    if not readable:
        cause = problems[0] if problems else f"{', '.join(arguments)}: no picture found"
        raise InputError(f"no picture can be read ({cause})")
    drawn = all(_DRAWN.fullmatch(path.name) for path in readable)
    name = f"{len(readable)} of {len(found.paths)} pictures under {', '.join(arguments)}"
    return Pictures(
        tuple(readable),
        tuple(problems),
        _data(name, readable, "drawn leaves" if drawn else "photographs", seed),
    )


def draw_pictures(folder: Path, per_class: int = 3, seed: int = 0) -> Pictures:
    """Draw leaves as JPEG files of 320x240 pixels, the size and form of the photographs of MangoLeafDB."""
    paths = []
    for class_number, label in enumerate(LABELS):
        for number in range(per_class):
            leaf = draw_leaf(label, np.random.default_rng([seed, class_number, number]))
            buffer = io.BytesIO()
            Image.fromarray(leaf).save(buffer, format="JPEG", quality=95)
            path = folder / label / f"drawn-{number}.jpg"
            write_atomic(path, buffer.getvalue())
            paths.append(path)
    return Pictures(tuple(paths), (), _data("320x240 JPEG drawings", paths, "drawn leaves", seed))


def _data(name: str, paths: Sequence[Path], source: str, seed: int) -> dict[str, Any]:
    digests = sorted(sha256(path.read_bytes()) for path in paths)
    return {
        "name": name,
        "digest": sha256("\n".join(digests).encode()),
        "images": len(paths),
        "source": source,
        "seed": seed,
    }
