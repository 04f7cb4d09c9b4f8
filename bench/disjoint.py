"""Split files that keep groups whole, fold by fold, or the reason why there can be none."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from bench.duplicate import Pair, joined
from bench.fold import disjoint_parts
from bench.reading import Readings
from bench.session import Grouping, grouping
from convert.dataset import Dataset, Photograph
from convert.split import PARTS, Split, identity
from edge.errors import InputError
from edge.files import sha256

VALIDATION = 0.1
MOST_FOLDS = 50
_SUGGESTED = (3, 2)
_PLURAL = {"group": "groups", "burst": "bursts", "date": "dates", "camera": "cameras"}


def identified(readings: Readings) -> Readings:
    """The readings with what split files call each picture, and the digest that training will find.

    Folders have both already. Of a table, every picture file is read; files of one class with the same bytes
    count once, as in `convert.dataset.index`.

    Raises:
        InputError: a picture file is not at hand, or one picture stands in two classes.
    """
    if readings.identities:
        return readings
    photographs: list[Photograph] = []
    kept: list[int] = []
    seen: dict[str, Photograph] = {}
    for row, (file, name, label) in enumerate(
        zip(readings.files, readings.names, readings.labels, strict=True)
    ):
        if file is None:
            raise InputError(
                f"{readings.path}: the picture of {name} is not at hand, and split files name pictures by their"
                " content; give the folder that paths start from with --pictures"
            )
        digest = sha256(file.read_bytes())
        photograph = Photograph(name, readings.classes[label], digest, readings.times[row])
        if digest in seen and seen[digest].label != photograph.label:
            raise InputError(
                f"{readings.path}: the same picture stands in two classes, {seen[digest].path} and {name}; remove the"
                " wrong one"
            )
        if digest not in seen:
            seen[digest] = photograph
            photographs.append(photograph)
            kept.append(row)
    dataset = Dataset(readings.path, readings.classes, tuple(photographs), (), ())
    return replace(
        readings.take(np.array(kept, dtype=np.intp)),
        digest=dataset.digest,
        identities=tuple(identity(photograph) for photograph in photographs),
    )


def fold_splits(
    readings: Readings,
    by: str,
    folds: int,
    seed: int = 7,
    classes: Sequence[str] = (),
    pairs: Sequence[Pair] = (),
) -> list[Split]:
    """One split for each fold: that fold is the test part, the rest is training and validation.

    Whole groups are dealt to the folds so that every class is spread as evenly as it can be. A tenth of what is
    not tested becomes the validation part, in whole groups where every class has one to spare, else in whole
    bursts, else at random; the split's note says which.

    Args:
        readings: with identities (`identified`).
        by: "group", "burst", "date" or "camera".
        folds: 2..50.
        seed: of the draw.
        classes: take only these; the others are in no part.
        pairs: near-duplicates to keep on one side.

    Raises:
        InputError: a class has too few groups; every such class is named with its groups.
    """
    if not 2 <= folds <= MOST_FOLDS:
        raise InputError(f"{folds} folds: give a number from 2 to {MOST_FOLDS}")
    groups = grouping(readings, by)
    if pairs:
        groups = _joined(groups, pairs)
    rows = np.arange(len(readings))
    if classes:
        unknown = [name for name in classes if name not in readings.classes]
        if unknown:
            raise InputError(
                f"{readings.path}: no class {unknown[0]!r}; its classes are {', '.join(readings.classes)}"
            )
        rows = np.flatnonzero(np.isin([readings.classes[label] for label in readings.labels], list(classes)))
    chosen, of = readings.take(rows), groups.take(rows)
    _refuse_impossible(chosen, of, folds)
    fold = disjoint_parts(chosen.labels, of, [1 / folds] * folds, seed)
    for number in range(folds):
        missing = set(range(len(chosen.classes))) - set(chosen.labels[fold == number].tolist())
        if missing:
            names = ", ".join(chosen.classes[label] for label in sorted(missing))
            raise InputError(
                f"{readings.path}: no {by}-disjoint split into {folds} folds was found in which every fold tests every"
                f" class (fold {number + 1} lacks {names}, whose {_PLURAL[by]} are shared with other classes);"
                f" take fewer folds, leave classes out with --classes, or --by burst"
            )
    splits = []
    for number in range(folds):
        test = fold == number
        validation, how = _validation(chosen, of, ~test, seed)
        parts = {
            "training": _identities(chosen, ~test & ~validation),
            "validation": _identities(chosen, validation),
            "test": _identities(chosen, test),
        }
        note = (
            f"fold {number + 1} of {folds}: no {of.by} lies in the test part and in another; validation {how}"
            + (f"; only {', '.join(chosen.classes)}" if classes else "")
            + ("; near-duplicates kept on one side" if pairs else "")
        )
        splits.append(
            Split(
                f"{by}-fold{number + 1}of{folds}",
                seed,
                readings.digest,
                {part: parts[part] for part in PARTS},
                note,
            )
        )
    return splits


def split_command(readings: Readings, by: str, pairs: Sequence[Pair] = ()) -> str | None:
    """The `mango-bench split` command that keeps the groups of these readings whole, after trying that it works.

    Three folds of all classes, else two, else of the classes that have the groups for it.

    Args:
        readings: as `bench.reading.read_readings` gives them.
        by: "group", "burst", "date" or "camera".
        pairs: near-duplicates to keep on one side.

    Returns:
        The command, quoted for a shell; None where picture files are not at hand, the classes are a model's own
        decisions, or no such split exists.
    """
    if readings.source == "journal" or any(file is None for file in readings.files):
        return None
    try:
        known = identified(readings)
    except (InputError, OSError):
        return None
    of_class = grouping(known, by).of_class(known.labels, len(known.classes))
    # Positions mean the same pictures only where no copy was dropped.
    together = pairs if len(known) == len(readings) else ()
    trials: list[tuple[int, list[str]]] = [(folds, []) for folds in _SUGGESTED]
    for folds in _SUGGESTED:
        chosen = [name for name, number in zip(known.classes, of_class, strict=True) if number >= folds]
        # The command takes the classes in one word, separated by commas.
        if 2 <= len(chosen) < len(known.classes) and not any("," in name for name in chosen):
            trials.append((folds, chosen))
    for folds, classes in trials:
        try:
            fold_splits(known, by, folds, classes=classes, pairs=together)
        except InputError:
            continue
        words = ["mango-bench", "split", str(readings.path), *readings.options]
        words += ["--by", by, "--folds", str(folds)]
        words += ["--classes", ",".join(classes)] if classes else []
        words += ["--with-near-duplicates"] if pairs else []
        return shlex.join(words)
    return None


def parts_of(readings: Readings, split: Split) -> list[str]:
    """Each picture's part in a split; "" for none."""
    part = {name: part for part, names in split.parts.items() for name in names}
    return [part.get(name, "") for name in readings.identities]


def _refuse_impossible(readings: Readings, groups: Grouping, folds: int) -> None:
    short = []
    enough = []
    for label, name in enumerate(readings.classes):
        own = sorted({groups.names[code] for code in groups.codes[readings.labels == label]})
        if len(own) < folds:
            listed = ", ".join(own[:3]) + (" ..." if len(own) > 3 else "")
            short.append(
                f"{name} has {len(own)} ({listed})" if groups.by != "burst" else f"{name} has {len(own)}"
            )
        else:
            enough.append(name)
    if not short:
        return
    singular = {"group": "group", "burst": "burst", "date": "date", "camera": "camera"}[groups.by]
    advice = [f"photograph them on further {_PLURAL[groups.by]}"]
    if len(enough) > 1:
        advice.append(f"split the others alone with --classes '{','.join(enough)}'")
    if groups.by != "burst":
        advice.append("take --by burst")
    raise InputError(
        f"{readings.path}: no {singular}-disjoint split into {folds} folds covers every class, because each class needs"
        f" at least {folds} {_PLURAL[groups.by]}: {'; '.join(short)}. Choose one: {'; '.join(advice)}."
    )


def _validation(
    readings: Readings, groups: Grouping, rest: npt.NDArray[np.bool_], seed: int
) -> tuple[npt.NDArray[np.bool_], str]:
    """Which of `rest` are for validation, and in what units they were drawn."""
    rows = np.flatnonzero(rest)
    labels = readings.labels[rows]
    kinds = [(groups, f"in whole {_PLURAL[groups.by]}")]
    if groups.by in ("date", "camera", "group") and any(time is not None for time in readings.times):
        kinds.append((grouping(readings, "burst"), "in whole bursts"))
    for of, how in kinds:
        sub = of.take(rows)
        if min(n for n in sub.of_class(labels, len(readings.classes)) if n) < 2:
            continue
        part = disjoint_parts(labels, sub, [1 - VALIDATION, VALIDATION], seed)
        present = set(labels.tolist())
        if all(set(labels[part == side].tolist()) == present for side in (0, 1)):
            chosen = np.zeros(len(rest), dtype=bool)
            chosen[rows[part == 1]] = True
            return chosen, how
    chosen = np.zeros(len(rest), dtype=bool)
    generator = np.random.default_rng([seed, 4])
    for label in np.unique(labels):
        members = rows[labels == label]
        members = members[np.argsort(np.array(readings.identities)[members])]
        count = max(1, round(VALIDATION * len(members)))
        if count >= len(members):
            raise InputError(
                f"class {readings.classes[label]} has too few pictures beside the test part for a validation part;"
                " take fewer folds"
            )
        chosen[members[generator.permutation(len(members))[:count]]] = True
    return chosen, "drawn at random from the same sessions as training, for want of groups"


def _joined(groups: Grouping, pairs: Sequence[Pair]) -> Grouping:
    present, codes = np.unique(joined(groups.codes, pairs), return_inverse=True)
    return Grouping(
        groups.by, tuple(groups.names[code] for code in present), codes.reshape(-1).astype(np.int64)
    )


def _identities(readings: Readings, chosen: npt.NDArray[np.bool_]) -> tuple[str, ...]:
    return tuple(sorted(readings.identities[row] for row in np.flatnonzero(chosen)))
