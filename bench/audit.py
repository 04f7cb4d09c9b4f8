"""The leakage audit: does the picture decide, or the session?

Follows the protocol of sensor-leakage studies in crop data: a granularity probe, baselines that see no picture,
and the gain of fusion, each on folds that mix sessions and on folds that hold whole sessions out. Several crops
in one table are audited and judged apart; their scores are averaged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from bench.baseline import (
    CV_FOLDS,
    RANDOM_FOLDS,
    Baselines,
    Difference,
    Scores,
    Settings,
    covered_classes,
    score_baselines,
)
from bench.clock import seconds
from bench.disjoint import split_command
from bench.duplicate import Pair, across, find_pairs, joined, summary
from bench.embedding import Embeddings
from bench.fold import Fold, disjoint, stratified
from bench.fusion import Fusion, against_time, gain, score_fusion
from bench.granularity import (
    BINS,
    NEAR_SECONDS,
    PERMUTATIONS,
    Explained,
    Sharing,
    explained,
    near_rate,
    readings_of,
    sharing,
)
from bench.interval import against_band, student
from bench.reading import Readings, Variable
from bench.result import Entry
from bench.session import Grouping, default_kind, grouping
from bench.verdict import judge
from edge.contract import read_model
from edge.errors import InputError

MOST_CROPS = 100
LISTED = 200
"""Near-duplicate pairs that a result lists by name."""


@dataclass(frozen=True)
class CropAudit:
    """The audit of one crop.

    Attributes:
        name: of the crop, "" where there is only one.
        counts: class -> pictures.
        groups: class -> number of groups; None without groups.
        sharing, explained: the granularity probe.
        near: seconds -> protocol -> share of test pictures with a training picture of their class that near.
        baselines: without pictures.
        fusion: with an image model; None where none was given, or it could not be scored (the notes say why).
    """

    name: str
    counts: Mapping[str, int]
    groups: Mapping[str, int] | None
    sharing: tuple[Sharing, ...]
    explained: tuple[Explained, ...]
    near: Mapping[str, Mapping[str, float]]
    baselines: Baselines
    fusion: Fusion | None


def audit(
    readings: Readings,
    by: str | None = None,
    settings: Settings | None = None,
    embeddings: Embeddings | None = None,
    unseen: bool = False,
    near_duplicates: bool = False,
    with_near_duplicates: bool = False,
    models: Sequence[str] = (),
    permutations: int = PERMUTATIONS,
    report: Callable[[str], None] | None = None,
) -> Entry:
    """Audit a data set.

    Args:
        readings: the data.
        by: what is held out ("group", "burst", "date", "camera"); None: given groups, else bursts.
        settings: seeds, trees, row cap, band, coverage floor.
        embeddings: of an image model, for the gain of fusion.
        unseen: take only pictures that the image model has not seen; needs `embeddings`.
        near_duplicates: look for near-duplicates in the picture files.
        with_near_duplicates: make one group of groups that share a near-duplicate.
        models: model files whose own scores are put beside the baselines.
        permutations: for the intervals of explained variance.
        report: called with what is being done.

    Returns:
        An entry of kind "audit".

    Raises:
        InputError: nothing can be told apart (one class), there are more than 100 crops, or what was asked for is
            not in the data.
    """
    settings = settings or Settings()
    if unseen and embeddings is None:
        raise InputError(
            "--unseen chooses among the pictures of an image model's --embeddings; give those as well, or leave it away"
        )
    say = report or (lambda text: None)
    if len(readings.classes) < 2:
        raise InputError(
            f"{readings.path}: all {len(readings):,} pictures are of the class {readings.classes[0]}; an audit needs at"
            " least two classes to tell apart"
        )
    if len(readings.crops) > MOST_CROPS:
        column = (readings.columns or {}).get("crop")
        raise InputError(
            f"{readings.path}: the column {column!r} tells {len(readings.crops):,} crops apart, more than the"
            f" {MOST_CROPS} that are audited apart; name the crop's column with --crop, or audit all as one with --crop"
            " none"
        )
    kind = by or default_kind(readings)
    groups = None if kind is None else grouping(readings, kind)
    notes = list(readings.notes)
    if groups is None:
        notes.append(
            "Neither times nor groups are known, so no session can be held out: whether scores carry over to other"
            " sessions stays open."
        )
    duplicates: dict[str, Any] | None = None
    pairs: list[Pair] = []
    if near_duplicates or with_near_duplicates:
        duplicates, pairs, groups, more = _near_duplicates(readings, groups, with_near_duplicates, say)
        notes += more
    if groups is not None and len(groups.names) == 1:
        notes.append(f"All pictures belong to one of the {groups.words}, so none can be held out.")
        groups = None
    crops: list[CropAudit] = []
    not_fused: list[str] = []
    refusal: InputError | None = None
    odd: dict[str, list[str]] = {}
    order = np.argsort(readings.crop, kind="stable")
    ends = np.cumsum(np.bincount(readings.crop, minlength=len(readings.crops)))[:-1]
    for name, rows in zip(readings.crops, np.split(order, ends), strict=True):
        part = readings.take(rows)
        if len(part.classes) < 2:
            odd.setdefault("Crops of a single class, left out for want of another to tell apart", []).append(
                name
            )
            continue
        sub = None if groups is None else groups.take(rows)
        if sub is not None and len(sub.names) == 1:
            odd.setdefault("Crops of a single group, of which none can be held out", []).append(name)
            sub = None
        if part.part is not None and not {"training", "test"} <= set(part.part):
            odd.setdefault("Crops without a training or a test part in the given split", []).append(name)
        where = name or "all pictures"
        tell = partial(_at, say, where)
        crop = _crop(name, part, sub, settings, permutations, tell)
        if embeddings is not None:
            try:
                fusion = score_fusion(part, sub, embeddings, settings, unseen, tell)
                crop = replace(crop, fusion=fusion)
            except InputError as error:
                not_fused.append(f"{where}: no gain of fusion: {error}.")
                refusal = error
        crops.append(crop)
    if refusal is not None and all(crop.fusion is None for crop in crops):
        raise refusal
    notes += [
        f"{what}: {', '.join(names)} ({len(names)} of {len(readings.crops)})." for what, names in odd.items()
    ]
    notes += not_fused
    if not crops:
        raise InputError(f"{readings.path}: no crop has two classes; there is nothing to tell apart")
    scores, different, lost = average(crops, settings)
    verdict = judge(
        crops,
        scores,
        different,
        lost,
        groups,
        readings,
        settings,
        duplicates,
        kind,
        partial(split_command, readings, kind or "", pairs if with_near_duplicates else ()),
    )
    body = {
        "columns": dict(readings.columns or {}),
        "variables": [
            {
                "name": variable.name,
                "role": variable.role,
                "kind": "category" if variable.levels else "number",
            }
            for variable in readings.variables
        ],
        "groups": None
        if groups is None
        else {"by": groups.by, "words": groups.words, "number": len(groups.names)},
        "settings": {
            **{key: value for key, value in asdict(settings).items() if key != "jobs"},
            "permutations": permutations,
            "cv_folds": CV_FOLDS,
            "random_folds": RANDOM_FOLDS,
            "leak_folds": RANDOM_FOLDS,
            "histogram_from": list(BINS),
        },
        "notes": notes,
        "crops": [_plain(crop) for crop in crops],
        "average": {
            "scores": _plain(scores),
            "differences": _plain(different),
            "drops": _plain(lost),
            "fusion": _plain(average_fusion(crops, settings)),
        },
        "near_duplicates": duplicates,
        "models": [model_scores(path, readings.digest) for path in models],
        "verdict": _plain(verdict),
    }
    data = {
        "name": readings.path.name,
        "digest": readings.digest,
        "images": len(readings),
        "source": readings.source,
        "split": readings.part_name,
        "seed": None,
        "part": None,
    }
    return Entry(kind="audit", body=body, data=data)


def average(
    crops: Sequence[CropAudit], settings: Settings
) -> tuple[Scores, tuple[Difference, ...], tuple[Difference, ...]]:
    """Mean over the crops within each seed: scores, differences and drops (of the crops that have each)."""
    scores: Scores = {}
    keys = {
        (protocol, baseline, metric): None
        for crop in crops
        for protocol, by_baseline in crop.baselines.scores.items()
        for baseline, by_metric in by_baseline.items()
        for metric in by_metric
    }
    for protocol, baseline, metric in keys:
        values = [
            crop.baselines.scores[protocol][baseline][metric].values
            for crop in crops
            if baseline in crop.baselines.scores.get(protocol, {})
        ]
        mean = [float(value) for value in np.mean(np.array(values), axis=0)]
        scores.setdefault(protocol, {}).setdefault(baseline, {})[metric] = student(mean)
    return (
        scores,
        _averaged([crop.baselines.differences for crop in crops], settings.margin),
        _averaged([crop.baselines.drops for crop in crops], settings.margin),
    )


def _averaged(found: Sequence[Sequence[Difference]], margin: float) -> tuple[Difference, ...]:
    """Each difference's mean over the crops that have it, within each seed: what one crop lacks must not stand on
    one side of it only."""
    same: dict[tuple[str, str, str, str], list[Difference]] = {}
    for of_crop in found:
        for one in of_crop:
            same.setdefault((one.protocol, one.first, one.second, one.metric), []).append(one)
    means = []
    for ones in same.values():
        interval = student(
            [float(value) for value in np.mean(np.array([one.interval.values for one in ones]), axis=0)]
        )
        means.append(replace(ones[0], interval=interval, verdict=against_band(interval, margin)))
    return tuple(means)


def average_fusion(crops: Sequence[CropAudit], settings: Settings) -> dict[str, Any] | None:
    """Gains of fusion averaged over the crops within each seed; None without an image model."""
    found = [crop.fusion for crop in crops if crop.fusion is not None]
    if not found:
        return None
    protocols = [name for name in found[0].scores if all(name in fusion.scores for fusion in found)]
    scores = {
        protocol: {
            name: student(
                [
                    float(value)
                    for value in np.mean(
                        np.array([fusion.scores[protocol][name].values for fusion in found]), axis=0
                    )
                ]
            )
            for name in found[0].scores[protocol]
            if all(name in fusion.scores[protocol] for fusion in found)
        }
        for protocol in protocols
    }
    additions = [
        one.addition
        for one in found[0].gains
        if all(f"picture + {one.addition}" in scores[protocol] for protocol in protocols)
    ]
    return {
        "scores": scores,
        "gains": [gain(scores, addition, settings.margin) for addition in additions],
        "against_time": {
            protocol: {"interval": interval, "verdict": verdict}
            for protocol, (interval, verdict) in against_time(scores, settings.margin).items()
        },
    }


def model_scores(path: str, digest: str) -> dict[str, Any]:
    """What a model file says of itself, and whether it was made from the audited data."""
    contract = read_model(path).contract
    own = contract.training.weights_digest if contract.training else None
    return {
        "name": str(path).rsplit("/", 1)[-1],
        "architecture": contract.architecture,
        "precision": contract.precision,
        "same_data": contract.training is not None and contract.training.data_digest == digest,
        "scores": [
            {
                "split": score.split,
                "seed": score.seed,
                "part": score.part,
                "images": score.images,
                "own": score.weights_digest == own,
                "accuracy": score.accuracy,
                "macro_f1": score.macro_f1,
                "time_baseline": None
                if score.time_baseline is None
                else {key: score.time_baseline[key] for key in ("accuracy", "macro_f1")},
            }
            for score in contract.scores
        ],
    }


def _crop(
    name: str,
    readings: Readings,
    groups: Grouping | None,
    settings: Settings,
    permutations: int,
    say: Callable[[str], None],
) -> CropAudit:
    labels = readings.labels
    protocols: dict[str, Sequence[Fold]] = {"random": stratified(labels, RANDOM_FOLDS, 0)}
    if readings.part is not None:
        part = np.array(readings.part)
        given = Fold(np.flatnonzero(part == "training"), np.flatnonzero(part == "test"))
        if len(given.training) and len(given.test):
            protocols["given"] = [given]
    covered = covered_classes(readings, groups)
    if groups is not None and len(covered) > 1:
        inside = np.flatnonzero(np.isin(labels, covered))
        sub = groups.take(inside)
        # As many folds as the random ones: with more pictures to learn from, more readings occur among them.
        protocols["disjoint"] = [
            Fold(inside[fold.training], inside[fold.test])
            for fold in disjoint(labels[inside], sub, RANDOM_FOLDS, 0)
        ]
    say("granularity")
    probed = readings_of(readings)
    time = seconds(readings.times)
    # That times differ between bursts or dates is how those were made, and tells nothing.
    own_time = (
        [Variable("time", "time", time)]
        if "time" in probed and groups is not None and groups.by in ("group", "camera")
        else []
    )
    found = [
        None if groups is None else explained(variable, groups, permutations)
        for variable in (*own_time, *readings.variables)
    ]
    return CropAudit(
        name,
        {label: int((labels == number).sum()) for number, label in enumerate(readings.classes)},
        None
        if groups is None
        else dict(zip(readings.classes, groups.of_class(labels, len(readings.classes)), strict=True)),
        tuple(sharing(what, codes, labels, groups, protocols) for what, codes in probed.items()),
        tuple(one for one in found if one is not None),
        {
            f"{within:g}": {
                protocol: near_rate(time, labels, folds, within) for protocol, folds in protocols.items()
            }
            for within in NEAR_SECONDS
        }
        if "time" in probed
        else {},
        score_baselines(readings, groups, settings, say),
        None,
    )


def _at(say: Callable[[str], None], where: str, text: str) -> None:
    say(f"{where}: {text}")


def _near_duplicates(
    readings: Readings,
    groups: Grouping | None,
    keep_together: bool,
    say: Callable[[str], None],
) -> tuple[dict[str, Any], list[Pair], Grouping | None, list[str]]:
    rows = [row for row, file in enumerate(readings.files) if file is not None]
    if not rows:
        raise InputError(
            f"{readings.path}: no picture file is at hand, so near-duplicates cannot be looked for; give the folder"
            " that paths start from with --pictures"
        )
    say(f"near-duplicates among {len(rows):,} pictures")
    damaged: list[str] = []
    found = find_pairs(
        [file for file in readings.files if file is not None],
        damaged=lambda _, fault: damaged.append(fault),
    )
    pairs = [replace(pair, first=rows[pair.first], second=rows[pair.second]) for pair in found]
    labels = [int(label) for label in readings.labels]
    body = dict(summary(pairs, readings.names, labels, LISTED))
    body["looked_at"] = len(rows) - len(damaged)
    body["unreadable"] = damaged
    body["across"] = {}
    notes = []
    if damaged:
        notes.append(
            f"{len(damaged):,} of {len(rows):,} pictures cannot be read and were compared with none: {damaged[0]}"
            + ("; ..." if len(damaged) > 1 else ".")
        )
    if keep_together and groups is None:
        notes.append(
            "Near-duplicates cannot be kept on one side, because no groups are known to be held out."
        )
    parts: dict[str, Sequence[str]] = {}
    random = stratified(readings.labels, RANDOM_FOLDS, 0)[0]
    parts["random"] = _parts(len(readings), random)
    if readings.part is not None:
        parts["given"] = readings.part
    if groups is not None:
        body["in_one_group"] = sum(groups.codes[pair.first] == groups.codes[pair.second] for pair in pairs)
        if keep_together:
            codes = joined(groups.codes, pairs)
            present, renumbered = np.unique(codes, return_inverse=True)
            merged = len(groups.names) - len(present)
            groups = Grouping(
                groups.by,
                tuple(groups.names[code] for code in present),
                renumbered.reshape(-1).astype(np.int64),
            )
            notes.append(f"{merged} groups were joined to others because they share near-duplicates.")
        if len(groups.names) > 1:
            parts["disjoint"] = _parts(len(readings), disjoint(readings.labels, groups, RANDOM_FOLDS, 0)[0])
    for name, part in parts.items():
        crossing = across(pairs, part)
        body["across"][name] = {
            "pairs": len(crossing),
            "listed": [
                [readings.names[pair.first], readings.names[pair.second]] for pair in crossing[:LISTED]
            ],
        }
    for key in ("pairs", "pictures", "two_classes", "turned", "in_one_group"):
        if key in body:
            body[key] = int(body[key])
    return body, pairs, groups, notes


def _parts(count: int, fold: Fold) -> list[str]:
    parts = [""] * count
    for name, rows in (("training", fold.training), ("test", fold.test)):
        for row in rows:
            parts[row] = name
    return parts


def _plain(value: Any) -> Any:
    """Dataclasses, tuples and mappings as JSON values."""
    if hasattr(value, "__dataclass_fields__"):
        return {key: _plain(getattr(value, key)) for key in value.__dataclass_fields__}
    if isinstance(value, Mapping):
        return {str(key): _plain(found) for key, found in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(found) for found in value]
    return value.item() if isinstance(value, np.generic) else value
