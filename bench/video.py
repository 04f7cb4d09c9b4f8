"""Videos made of photographs, to try the field runner on: a camera that goes from leaf to leaf, with the answers."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from convert.dataset import Dataset
from convert.split import Split, part_of
from edge.errors import InputError
from edge.files import write_atomic
from edge.preprocessing import InputSpec, Pixels, fit, read_photograph

RATE = 25.0
"""Frames a second."""

WIDTH, HEIGHT = 320, 240
_SHAKE = 3  # pixels
_NOISE = 2.0  # standard deviation


def write_video(path: Path, pictures: Iterable[Pixels], width: int = WIDTH, height: int = HEIGHT) -> int:
    """Write pictures (height, width, 3) as a Motion JPEG video (AVI), 25 frames a second.

    Returns:
        The number of frames.

    Raises:
        InputError: OpenCV is missing or cannot write there.
    """
    from edge.source.opencv import load_opencv

    cv2 = load_opencv()
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"MJPG"), RATE, (width, height))
    if not writer.isOpened():
        raise InputError(f"{path}: OpenCV cannot write a video there; give a name that ends with .avi")
    count = 0
    try:
        for picture in pictures:
            writer.write(cv2.cvtColor(np.ascontiguousarray(picture), cv2.COLOR_RGB2BGR))
            count += 1
    finally:
        writer.release()
    return count


def write_walk(
    dataset: Dataset,
    split: Split,
    part: str,
    path: Path,
    each: int,
    seed: int,
    step: Callable[[], None] = lambda: None,
) -> tuple[int, Path]:
    """A video of one part's photographs in drawn order, `each` frames of every one, and their labels.

    A photograph is squashed to 320x240, as the networks squash it in turn; each of its frames is moved by up to 3
    pixels and gets fresh noise (standard deviation 2), as from a hand-held camera.

    Args:
        dataset, split, part: which photographs.
        path: the video; the labels go to a CSV file of the same name, with the columns frame_number, label and
            photograph.
        each: frames of a photograph, at least 1.
        seed: of order, movement and noise.
        step: called for each photograph.

    Returns:
        The number of frames, and the path of the labels.
    """
    if each < 1:
        raise InputError(f"{each} frames of each photograph: give at least 1")
    generator = np.random.default_rng(seed)
    members = part_of(split, dataset, part)
    order = [members[number] for number in generator.permutation(len(members))]
    spec = InputSpec(HEIGHT, WIDTH)

    def frames() -> Iterator[Pixels]:
        for photograph in order:
            still = fit(read_photograph(dataset.root / photograph.path), spec)
            for _ in range(each):
                yield _shaken(still, generator)
            step()

    count = write_video(path, frames())
    table = io.StringIO()
    rows = csv.writer(table, lineterminator="\n")
    rows.writerow(["frame_number", "label", "photograph"])
    for number in range(count):
        photograph = order[number // each]
        rows.writerow([number, photograph.label, photograph.path])
    labels = path.with_suffix(".csv")
    write_atomic(labels, table.getvalue().encode())
    return count, labels


def _shaken(still: Pixels, generator: np.random.Generator) -> Pixels:
    down, right = generator.integers(0, 2 * _SHAKE + 1, size=2)
    padded = np.pad(still, ((_SHAKE, _SHAKE), (_SHAKE, _SHAKE), (0, 0)), mode="edge")
    moved = padded[down : down + still.shape[0], right : right + still.shape[1]]
    noisy: Pixels = np.clip(np.rint(moved + generator.normal(0, _NOISE, still.shape)), 0, 255).astype(
        np.uint8
    )
    return noisy
