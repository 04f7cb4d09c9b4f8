"""Splits of a data set into training, validation and test parts, and the files that keep them.

`random` is the split of the published study: stratified 80:10:10. `burst` keeps together what was taken
together: photographs no more than 60 s apart form one chain, and a chain lies whole on one side.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from convert.dataset import Dataset, Photograph
from edge.errors import InputError
from edge.files import sha256, write_atomic

FORMAT = "mango-leaf-split"
VERSION = 1
PARTS = ("training", "validation", "test")
FRACTIONS = (0.8, 0.1, 0.1)
KINDS = ("random", "burst")
SEED = 7
CHAIN_SECONDS = 60.0
_IDENTITY = (
    16  # hexadecimal digits of a photograph's digest: 64 bits tell apart any data set that fits a disk
)
_RESTARTS = 40
MOST_EXCHANGED = 400
"""Groups up to which every exchange of two is tried when groups are balanced over parts."""


@dataclass(frozen=True)
class Split:
    """Which photographs belong to which part.

    Attributes:
        name: for example "random" or "burst".
        seed: of the Generator that drew it.
        data_digest: `Dataset.digest` of the data it belongs to.
        parts: part name -> identities of its photographs (the first 16 hexadecimal digits of their digest),
            sorted.
        note: how it was made, in words.
    """

    name: str
    seed: int
    data_digest: str
    parts: Mapping[str, tuple[str, ...]]
    note: str = ""

    @property
    def digest(self) -> str:
        """SHA-256 of the split's JSON text."""
        return sha256(_text(self).encode())


def identity(photograph: Photograph) -> str:
    """What a split file calls a photograph: survives renaming and moving."""
    return photograph.digest[:_IDENTITY]


def random_split(dataset: Dataset, seed: int = SEED) -> Split:
    """Stratified 80:10:10 by label; photographs of one session fall on every side.

    Raises:
        InputError: a class has fewer than three photographs.
    """
    generator = np.random.default_rng(seed)
    parts: dict[str, list[str]] = {part: [] for part in PARTS}
    for label in dataset.labels:
        members = [identity(photograph) for photograph in dataset.photographs if photograph.label == label]
        if len(members) < len(PARTS):
            raise InputError(
                f"class {label} has {len(members)} photographs; a split needs at least {len(PARTS)}"
            )
        # Sorted by content first: the draw must not depend on file names.
        members = [sorted(members)[position] for position in generator.permutation(len(members))]
        test = max(1, round(FRACTIONS[2] * len(members)))
        validation = max(1, round(FRACTIONS[1] * len(members)))
        parts["test"] += members[:test]
        parts["validation"] += members[test : test + validation]
        parts["training"] += members[test + validation :]
    return _make("random", seed, dataset, parts, "stratified 80:10:10 by class; sessions fall on every side")


def burst_split(dataset: Dataset, seed: int = SEED, seconds: float = CHAIN_SECONDS) -> Split:
    """Whole chains of photographs on one side, 80:10:10 of every class as near as the chains allow.

    Raises:
        InputError: a class has fewer than three chains.
    """
    chain_of = chains(dataset.photographs, seconds)
    assigned = assign_groups(
        [chain_of[photograph.path] for photograph in dataset.photographs],
        [photograph.label for photograph in dataset.photographs],
        seed,
    )
    parts: dict[str, list[str]] = {part: [] for part in PARTS}
    for photograph in dataset.photographs:
        parts[assigned[chain_of[photograph.path]]].append(identity(photograph))
    note = (
        f"whole chains of photographs no more than {seconds:g} s apart on one side, balanced over the classes"
    )
    return _make("burst", seed, dataset, parts, note)


def chains(photographs: Iterable[Photograph], seconds: float = CHAIN_SECONDS) -> dict[str, str]:
    """Group photographs into chains: each lies at most `seconds` after the one before it, whatever its class.

    Photographs without a capture time form one chain for each class: nothing shows that they are apart.

    Returns:
        path -> name of the chain ("0000", "0001", ... by time, or "untimed <label>").
    """
    ordered = sorted(photographs, key=lambda photograph: (photograph.taken or datetime.min, photograph.path))
    names: dict[str, str] = {}
    last: datetime | None = None
    number = -1
    for photograph in ordered:
        if photograph.taken is None:
            names[photograph.path] = f"untimed {photograph.label}"
            continue
        if last is None or (photograph.taken - last).total_seconds() > seconds:
            number += 1
        last = photograph.taken
        names[photograph.path] = f"{number:04d}"
    return names


def assign_groups(
    groups: list[str],
    labels: list[str],
    seed: int,
    fractions: tuple[float, ...] = FRACTIONS,
    parts: tuple[str, ...] = PARTS,
) -> dict[str, str]:
    """Assign whole groups to parts so that every class comes as near to the fractions as it can.

    Minimises the sum over classes and parts of ((n - target) / class size)^2 by local search (moves of one
    group, exchanges of two) from several seeded starts; a class without a photograph in a part costs 1 more.

    Args:
        groups, labels: of each photograph.
        seed: of the Generator.
        fractions: wanted share of each part; sums to 1.
        parts: their names.

    Returns:
        group -> part.

    Raises:
        InputError: a class has fewer groups than there are parts.
    """
    names = sorted(set(groups))
    classes = sorted(set(labels))
    row, column_of = ({name: at for at, name in enumerate(values)} for values in (names, classes))
    counts = np.zeros((len(names), len(classes)))
    for group, label in zip(groups, labels, strict=True):
        counts[row[group], column_of[label]] += 1
    for column, label in enumerate(classes):
        chains_of_class = int((counts[:, column] > 0).sum())
        if chains_of_class < len(parts):
            raise InputError(
                f"class {label} has {chains_of_class} group(s) of photographs taken together, too few for"
                f" {len(parts)} disjoint parts; add sessions or take the random split and say so"
            )
    best = balance(counts, fractions, seed)
    return {name: parts[part] for name, part in zip(names, best, strict=True)}


def balance(
    counts: npt.NDArray[np.float64], fractions: Sequence[float], seed: int, restarts: int = _RESTARTS
) -> npt.NDArray[np.intp]:
    """Assign groups to parts so that every class comes as near to the fractions as it can.

    The cost is that of `assign_groups`. Its local search looks at every exchange of two groups; beyond
    `MOST_EXCHANGED` groups, where chance alone balances well, the groups are dealt out one by one instead,
    largest first, each to the part that it improves most.

    Args:
        counts: (groups, classes) photographs.
        fractions: wanted share of each part; sums to 1.
        seed: of the Generator.
        restarts: random starts of the local search.

    Returns:
        intp (groups,): the part of each group.
    """
    sizes = np.maximum(counts.sum(axis=0), 1.0)
    target = np.outer(fractions, sizes)
    generator = np.random.default_rng(seed)
    if len(counts) > MOST_EXCHANGED:
        return _deal(counts, target, sizes, generator)
    best_cost, best = np.inf, np.zeros(len(counts), dtype=np.intp)
    for _ in range(restarts):
        assignment = generator.choice(len(fractions), size=len(counts), p=fractions)
        cost = _descend(counts, assignment, target, sizes, generator)
        if cost < best_cost - 1e-12:
            best_cost, best = cost, assignment
    return best


def part_of(split: Split, dataset: Dataset, part: str) -> tuple[Photograph, ...]:
    """The photographs of one part, in the data set's order.

    Raises:
        InputError: the split was made for other data, has no such part, none of its photographs, or names some
            that are not in the data.
    """
    if part not in split.parts:
        raise InputError(
            f"split {split.name} has no part {part!r}; it has {', '.join(split.parts) or 'none'}"
        )
    if split.data_digest != dataset.digest:
        raise InputError(
            f"split {split.name} was made for other data (digest {split.data_digest[:12]}, but {dataset.root} has"
            f" {dataset.digest[:12]}); make a new one with: mango-convert split"
        )
    wanted = set(split.parts[part])
    found = tuple(photograph for photograph in dataset.photographs if identity(photograph) in wanted)
    unknown = wanted - {identity(photograph) for photograph in found}
    if unknown:
        raise InputError(
            f"split {split.name} names {len(unknown)} photographs in its {part} part that {dataset.root} does not have"
            f" (the first is {min(unknown)}); make a new one with: mango-convert split"
        )
    if not found:
        raise InputError(
            f"split {split.name} has an empty {part} part; make a new one with: mango-convert split"
        )
    return found


def make_split(kind: str, dataset: Dataset, seed: int = SEED) -> Split:
    """The split called `kind` ("random" or "burst")."""
    if kind == "random":
        return random_split(dataset, seed)
    if kind == "burst":
        return burst_split(dataset, seed)
    raise InputError(
        f"split {kind!r} is not known; choose {' or '.join(KINDS)}, or give a split file (.json)"
    )


def open_split(argument: str, dataset: Dataset, seed: int = SEED) -> Split:
    """A split by kind, or from the file it was saved to; checked against the data.

    Raises:
        InputError: unknown kind, unusable file, a split of other data, or one with an empty part.
    """
    split = read_split(Path(argument)) if argument.endswith(".json") else make_split(argument, dataset, seed)
    for part in split.parts:
        part_of(split, dataset, part)
    return split


def write_split(split: Split, path: Path) -> None:
    """Save a split as JSON, atomically."""
    write_atomic(path, _text(split).encode())


def read_split(path: Path) -> Split:
    """Read a split file.

    Raises:
        InputError: the file is missing, not a split, of a newer version, or puts a photograph on two sides.
    """
    try:
        if path.stat().st_size > 64 * 2**20:
            raise InputError(f"{path}: too large for a split file")
        values: Any = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: the split file cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError):
        raise InputError(f"{path}: not a split file (not JSON); make one with: mango-convert split") from None
    try:
        if values["format"] != FORMAT:
            raise InputError(f"{path}: not a split file; make one with: mango-convert split")
        if values["version"] > VERSION:
            raise InputError(
                f"{path}: split version {values['version']} is newer than this program; update it"
            )
        split = Split(
            name=str(values["name"]),
            seed=int(values["seed"]),
            data_digest=str(values["data_digest"]),
            parts={str(part): tuple(str(name) for name in names) for part, names in values["parts"].items()},
            note=str(values["note"]),
        )
        # Text that cannot be written has no digest.
        _text(split).encode()
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InputError(
            f"{path}: damaged split file ({error!r}); make it again with: mango-convert split"
        ) from None
    everything = [name for names in split.parts.values() for name in names]
    if len(everything) != len(set(everything)):
        raise InputError(f"{path}: a photograph stands in two parts; make the split again")
    return split


def _text(split: Split) -> str:
    values = {
        "format": FORMAT,
        "version": VERSION,
        "name": split.name,
        "seed": split.seed,
        "data_digest": split.data_digest,
        "note": split.note,
        "parts": {part: list(names) for part, names in split.parts.items()},
    }
    return json.dumps(values, indent=0, ensure_ascii=False) + "\n"


def _make(name: str, seed: int, dataset: Dataset, parts: Mapping[str, list[str]], note: str) -> Split:
    return Split(name, seed, dataset.digest, {part: tuple(sorted(parts[part])) for part in PARTS}, note)


def _deal(
    counts: npt.NDArray[np.float64],
    target: npt.NDArray[np.float64],
    sizes: npt.NDArray[np.float64],
    generator: np.random.Generator,
) -> npt.NDArray[np.intp]:
    order = generator.permutation(len(counts))
    order = order[np.argsort(-counts[order].sum(axis=1), kind="stable")]
    totals = np.zeros_like(target)
    assignment = np.zeros(len(counts), dtype=np.intp)
    for group in order:
        # Only the classes of the group change; what each part lacks of them decides.
        lacking = (((target - totals) / sizes**2) * counts[group]).sum(axis=1)
        # The part's own size counts too: a lack of ten pictures weighs more where fifty are wanted.
        part = int((lacking / target.sum(axis=1)).argmax())
        assignment[group] = part
        totals[part] += counts[group]
    return assignment


def _descend(
    counts: npt.NDArray[np.float64],
    assignment: npt.NDArray[np.intp],
    target: npt.NDArray[np.float64],
    sizes: npt.NDArray[np.float64],
    generator: np.random.Generator,
) -> float:
    """Improve `assignment` in place until no move or exchange helps; returns its cost."""
    parts = target.shape[0]
    totals = np.zeros_like(target)
    np.add.at(totals, assignment, counts)

    def cost(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        deviation = (((values - target) / sizes) ** 2).sum(axis=(-2, -1))
        empty = (values == 0).sum(axis=(-2, -1))
        return np.asarray(deviation + empty, dtype=np.float64)

    current = float(cost(totals))
    improved = True
    while improved:
        improved = False
        for group in generator.permutation(len(counts)):
            here = assignment[group]
            others = [part for part in range(parts) if part != here]
            trials = np.repeat(totals[np.newaxis], len(others) + len(counts), axis=0)
            trials[:, here] -= counts[group]
            for row, part in enumerate(others):
                trials[row, part] += counts[group]
            rows = np.arange(len(others), len(trials))
            trials[rows, assignment] += counts[group] - counts
            trials[rows, here] += counts
            # An exchange with a group of the same part changes nothing.
            values = cost(trials)
            best = int(values.argmin())
            if values[best] < current - 1e-12:
                if best < len(others):
                    assignment[group] = others[best]
                else:
                    partner = best - len(others)
                    assignment[group], assignment[partner] = assignment[partner], here
                totals, current, improved = trials[best], float(values[best]), True
    return current
