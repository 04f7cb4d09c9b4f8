"""Which photographs a robustness score is measured on, and what is known of their part in the training."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from convert.baseline import time_baseline
from convert.dataset import Dataset, Photograph, capture_time, exif_time
from convert.split import KINDS, SEED, Split, chains, identity, make_split, part_of
from edge.contract import Contract
from edge.errors import InputError
from edge.files import read_regular, sha256
from edge.photograph import find_photographs
from edge.preprocessing import MAXIMUM_BYTES

CHOICES = ("held-out", "all", "fresh", "unlabelled")
PART = "test"
OWN = "own"
"""The name for "the split that each model was trained on"."""


@dataclass(frozen=True)
class Selection:
    """Photographs to score on.

    Attributes:
        dataset: the whole data set; its folder is where the photographs are read from.
        photographs: the chosen ones, sorted by digest, so that names and order of files do not matter.
        bursts: of each of them, the number of its chain of photographs at most 60 s apart (in the whole set).
        images: one of `CHOICES`.
        split: the split whose test part was chosen, or beside which `all` is reported; None for the others.
        limit: how many photographs were asked for at most; None for all.
        seed: of the draw when there is a limit.
        choice: the choice in words.
    """

    dataset: Dataset
    photographs: tuple[Photograph, ...]
    bursts: tuple[int, ...]
    images: str
    split: Split | None
    limit: int | None
    seed: int
    choice: str

    @property
    def labelled(self) -> bool:
        """Whether the photographs' classes are known."""
        return self.images != "unlabelled"

    @property
    def digest(self) -> str:
        """SHA-256 over the chosen photographs."""
        return sha256("".join(f"{identity(photograph)}\n" for photograph in self.photographs).encode())


@dataclass(frozen=True)
class Training:
    """What is known of the chosen photographs' part in a model's training.

    Attributes:
        seen: how many of them are in the training or validation part of the model's own split; None if unknown.
        text: the same in words.
    """

    seen: int | None
    text: str


def unlabelled_dataset(folder: Path) -> Dataset:
    """Every picture below a folder, its classes unknown; files with the same bytes are counted once.

    Raises:
        InputError: no such folder, no picture in it, or one that cannot be read.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give the folder that holds the pictures")
    found = find_photographs([str(folder)])
    for _, message in found.problems:
        raise InputError(message)
    photographs: dict[str, Photograph] = {}
    duplicates = []
    for path in found.paths:
        try:
            digest = sha256(read_regular(path, "a picture", MAXIMUM_BYTES))
        except OSError as error:
            raise InputError(
                f"{path}: cannot be read ({error.strerror or error}); mend or remove it"
            ) from None
        relative = path.relative_to(folder).as_posix()
        if digest in photographs:
            duplicates.append(relative)
            continue
        photographs[digest] = Photograph(relative, "", digest, capture_time(path.name) or exif_time(path))
    return Dataset(folder, (), tuple(photographs.values()), tuple(duplicates), ())


def own_split(contract: Contract, dataset: Dataset, given: Split | None = None) -> Split | None:
    """The split a model was trained on, if it can be made again for this data set; None otherwise.

    It is known by the digests that the contract carries: `given` is taken if it is that split, else a split of
    the same kind and seed is drawn and compared.
    """
    training = contract.training
    if training is None or training.data_digest != dataset.digest:
        return None
    if given is not None and given.digest == training.split_digest:
        return given
    if training.split not in KINDS:
        return None
    seeds = [score.seed for score in contract.scores if score.split_digest == training.split_digest]
    for seed in dict.fromkeys([*seeds, training.seed, SEED]):
        drawn = make_split(training.split, dataset, seed)
        if drawn.digest == training.split_digest:
            return drawn
    return None


def select(
    dataset: Dataset,
    images: str,
    split: Split | None,
    limit: int | None = None,
    seed: int = 0,
    members: frozenset[str] | None = None,
) -> Selection:
    """Choose photographs.

    Args:
        dataset: all photographs at hand.
        images: "held-out" takes the test part of `split`; "all" and "fresh" every photograph; "unlabelled" every
            picture of `unlabelled_dataset`.
        split: needed for "held-out"; "all" reports it.
        limit: at most so many, drawn class by class in turn.
        seed: of that draw.
        members: digests of the photographs that a corrupted set holds; None where they are corrupted on the fly.

    Raises:
        InputError: nothing is left, or a chosen photograph is not in the corrupted set.
    """
    if images not in CHOICES:
        raise InputError(f"--images {images!r} is not known; choose {', '.join(CHOICES[:-1])} or auto")
    if images == "held-out":
        assert split is not None
        chosen: Sequence[Photograph] = part_of(split, dataset, PART)
        words = f"held-out {PART} part of the {split.name} split (seed {split.seed})"
    else:
        chosen = dataset.photographs
        words = {
            "all": "all photographs, training photographs included (the study's way)",
            "fresh": "all photographs of a data set that the model was not trained on",
            "unlabelled": "all pictures of a folder, without labels",
        }[images]
    if not chosen:
        raise InputError(f"{dataset.root}: no photograph is left to score on ({words})")
    ordered = sorted(chosen, key=lambda photograph: photograph.digest)
    if limit is not None and limit < len(ordered):
        ordered = _draw(ordered, limit, seed)
        words += f", {limit} of {len(chosen)} drawn class by class (seed {seed})"
    if members is not None:
        lacking = [photograph for photograph in ordered if photograph.digest not in members]
        if lacking:
            raise InputError(
                f"the corrupted set lacks {len(lacking)} of the {len(ordered)} photographs, for example"
                f" {lacking[0].path}; make it with the same --images and --split, or with --images all"
            )
    names = chains(dataset.photographs)
    number = {name: place for place, name in enumerate(sorted(set(names.values())))}
    return Selection(
        dataset=dataset,
        photographs=tuple(ordered),
        bursts=tuple(number[names[photograph.path]] for photograph in ordered),
        images=images,
        split=split if images in ("held-out", "all") else None,
        limit=limit,
        seed=seed,
        choice=words,
    )


def seen_in_training(selection: Selection, contract: Contract, own: Split | None) -> Training:
    """How many of the chosen photographs the model was trained on, as far as the files tell."""
    training = contract.training
    if training is None:
        return Training(0, "the model was never trained")
    if training.data_digest != selection.dataset.digest:
        return Training(
            None,
            f"the model was trained on other data (digest {training.data_digest[:12]}, here"
            f" {selection.dataset.digest[:12]}), so it cannot be told whether it knows these photographs",
        )
    if own is None:
        return Training(
            None,
            f"the split that the model was trained on ({training.split}, digest {training.split_digest[:12]}) cannot"
            " be made again here, so it cannot be told which of these photographs it knows; give the split file",
        )
    known = {name for part, names in own.parts.items() if part != PART for name in names}
    seen = sum(identity(photograph) in known for photograph in selection.photographs)
    if seen == 0:
        return Training(0, f"none of them was in the training or validation part ({own.name} split)")
    return Training(
        seen,
        f"{seen} of {len(selection.photographs)} were in the model's own training or validation part"
        f" ({own.name} split): the score flatters the model",
    )


def check_fresh(selection: Selection, contract: Contract, own: Split | None, where: str) -> None:
    """Refuse photographs called fresh that the model was trained on.

    Raises:
        InputError: the data set is the model's own, or the given split file shows that some are in its training.
    """
    training = contract.training
    if training is not None and training.data_digest == selection.dataset.digest:
        raise InputError(
            f"{selection.dataset.root}: these are the photographs that {where} was trained on, not fresh ones; take"
            " --images held-out"
        )
    if own is not None:
        known = {name for part, names in own.parts.items() if part != PART for name in names}
        seen = [photograph for photograph in selection.photographs if identity(photograph) in known]
        if seen:
            raise InputError(
                f"{selection.dataset.root}: {len(seen)} photographs, for example {seen[0].path}, are in the training"
                " of the given split, so they are not fresh; take them out"
            )


def baseline(selection: Selection, contracts: Sequence[Contract]) -> tuple[Mapping[str, object] | None, str]:
    """The time baseline of the selection's split: from a contract that carries it, else computed.

    It is computed in a process of its own: scikit-learn would take memory that the device has not to spare.

    Returns:
        accuracy, macro_f1, images, seed, part; and why there is none ("" if there is).
    """
    split = selection.split
    if split is None:
        return None, "there is no training part of this data set to learn the capture times of"
    if not any(photograph.taken for photograph in selection.dataset.photographs):
        return None, "the capture times are not known"
    for contract in contracts:
        for score in contract.scores:
            if score.split_digest == split.digest and score.part == PART and score.time_baseline:
                return {**score.time_baseline, "part": PART, "split": split.name}, ""
    try:
        # Ctrl-C ends it without a traceback.
        with ProcessPoolExecutor(
            1,
            mp_context=get_context("spawn"),
            initializer=signal.signal,
            initargs=(signal.SIGINT, signal.SIG_DFL),
        ) as pool:
            found = pool.submit(time_baseline, selection.dataset, split).result()
    except InputError as error:
        return None, str(error)
    if found is None:
        return None, "the capture times are not known"
    return {**found, "part": PART, "split": split.name}, ""


def _draw(ordered: Sequence[Photograph], limit: int, seed: int) -> list[Photograph]:
    """`limit` photographs, the classes in turn, so that a small draw still has every class."""
    if limit < 1:
        raise InputError(f"--limit {limit}: give at least 1")
    generator = np.random.default_rng(seed)
    queues = []
    for label in sorted({photograph.label for photograph in ordered}):
        of_label = [photograph for photograph in ordered if photograph.label == label]
        queues.append([of_label[place] for place in generator.permutation(len(of_label))])
    drawn: list[Photograph] = []
    turn = 0
    while len(drawn) < limit:
        drawn += [queue[turn] for queue in queues if turn < len(queue)][: limit - len(drawn)]
        turn += 1
    return sorted(drawn, key=lambda photograph: photograph.digest)
