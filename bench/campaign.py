"""A whole robustness run: from what was asked for to the result file, one model after the other."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from bench.corrupted_set import CorruptedSet, open_set
from bench.corruption import CORRUPTIONS, FAMILIES, SEVERITIES
from bench.encoding import QUALITY, Encoding
from bench.metric import Reference
from bench.prediction import Predictions
from bench.published import REFERENCE, counterpart, read_published
from bench.reference import find_references
from bench.result import Entry, write_results
from bench.robustness import (
    Measurement,
    check_measurement,
    measure,
    measured_reference,
    remove_shards,
    robustness_entry,
)
from bench.selection import (
    OWN,
    Selection,
    baseline,
    check_fresh,
    own_split,
    seen_in_training,
    select,
    unlabelled_dataset,
)
from convert.dataset import Dataset, index
from convert.split import Split, open_split
from edge.classifier import Classifier
from edge.console import complain, progress
from edge.errors import InputError
from edge.files import check_writable

AUTO = "auto"
"""Choice of photographs: held-out if the data are those that the model was trained on, else fresh."""

FALLBACK = "burst"
"""The split of a model whose own one cannot be told: the strictest that covers every class."""


@dataclass(frozen=True)
class Options:
    """What `mango-bench robustness` was asked for; see its help for each."""

    models: tuple[Path, ...]
    out: Path
    data: Path | None = None
    split: str = OWN
    images: str = "held-out"
    corruptions: str = "all"
    severities: str = "1-5"
    limit: int | None = None
    seed: int = 0
    split_seed: int = 7
    quality: int | None = None
    lossless: bool = False
    corrupted: Path | None = None
    references: tuple[str, ...] = ()
    against: Path | None = None
    jobs: int = 1
    dask: str | None = None
    runtime: str = "auto"
    threads: int = 1


@dataclass(frozen=True)
class _Scored:
    """One model with its answers, and where they come from."""

    classifier: Classifier
    measurement: Measurement
    predictions: Predictions


def run_robustness(options: Options) -> Iterator[str]:
    """Measure, write the result file, and say in lines what was found.

    Raises:
        InputError: what was asked for cannot be done; the sentence says why.
    """
    started = time.monotonic()
    references = find_references(options.references)
    corruptions = parse_corruptions(options.corruptions)
    severities = parse_severities(options.severities)
    check_writable(options.out)
    stored = None if options.corrupted is None else open_set(options.corrupted)
    encoding, seed = _encoding(options, stored), options.seed
    if stored is not None:
        seed = stored.seed
    paths = list(dict.fromkeys([*options.models, *([] if options.against is None else [options.against])]))
    classifiers = [Classifier.open(path, options.runtime, options.threads) for path in paths]
    twice = {classifier.model.path.stem for classifier in classifiers}
    if len(twice) < len(classifiers):
        raise InputError(
            "two of the models have the same file name; rename one so that results can tell them apart"
        )
    dataset = _dataset(options, stored)
    shards = options.out.with_name(options.out.name + ".parts")
    scored: dict[str, _Scored] = {}
    selections = _selections(options, dataset, stored, classifiers)
    measurements = [
        Measurement(tuple(group), options.threads, selection, corruptions, severities, encoding, seed, stored)
        for selection, group in selections
    ]
    for measurement in measurements:
        check_measurement(measurement)
    total = sum(
        len(measurement.selection.photographs) * len(measurement.subsets) * len(measurement.classifiers)
        for measurement in measurements
    )
    with progress("pictures classified", total) as step:
        done = 0

        def report(count: int) -> None:
            nonlocal done
            done += count
            step(completed=done)

        for measurement in measurements:
            answers = measure(measurement, shards, options.jobs, options.dask, report)
            for classifier, predictions in zip(measurement.classifiers, answers, strict=True):
                scored[classifier.model.digest] = _Scored(classifier, measurement, predictions)
    entries = list(_entries(options, scored, references, dataset))
    write_results(options.out, entries, sys.argv)
    for measurement in measurements:
        remove_shards(measurement, shards)
    for entry in entries:
        yield from summary(entry)
    yield f"{options.out}: {len(entries)} result(s); {run_note(time.monotonic() - started, options)}"


def parse_corruptions(text: str) -> tuple[str, ...]:
    """Names and families, in the package's order; "all" or "none".

    Raises:
        InputError: a name is neither a corruption nor a family.
    """
    if text == "none":
        return ()
    wanted: set[str] = set()
    for name in filter(None, (part.strip() for part in text.split(","))):
        if name == "all":
            wanted |= set(CORRUPTIONS)
        elif name in FAMILIES:
            wanted |= set(FAMILIES[name])
        elif name in CORRUPTIONS:
            wanted.add(name)
        else:
            raise InputError(
                f"--corruptions: {name!r} is not known; give all, none, {', '.join(FAMILIES)}, or names of"
                f" {', '.join(CORRUPTIONS)}"
            )
    if not wanted:
        raise InputError("--corruptions: nothing was named; give all, none, or names with commas")
    return tuple(name for name in CORRUPTIONS if name in wanted)


def parse_severities(text: str) -> tuple[int, ...]:
    """Numbers and ranges such as "1-5" or "1,3,5", sorted.

    Raises:
        InputError: something else, or a severity outside 1..5.
    """
    wanted: set[int] = set()
    for part in text.split(","):
        low, dash, high = part.strip().partition("-")
        try:
            first, last = int(low), int(high if dash else low)
        except ValueError:
            first, last = 0, 0
        if not 1 <= first <= last <= 5:
            raise InputError(f"--severities: {text!r} is not understood; give for example 1-5 or 1,3,5")
        wanted |= set(range(first, last + 1))
    return tuple(severity for severity in SEVERITIES if severity in wanted)


def summary(entry: Entry) -> list[str]:
    """An entry in a few lines of text."""
    assert entry.model is not None
    assert entry.data is not None
    body = entry.body
    name = entry.model["name"]
    lines = [
        f"{name} ({entry.model['precision']}, {body['runtime']}): {body['images']['number']} pictures of"
        f" {entry.data['name']}, {body['images']['choice']}; {body['images']['bursts']} bursts;"
        f" {body['encoding']['text']}"
    ]
    lines += [f"  note: {warning}" for warning in body["warnings"]]
    if not body["labelled"]:
        if body["changes"] is not None:
            lines.append(
                f"  answer changed by a corruption: {body['changes']['mean']:.1%} of the pictures on average"
            )
            lines += _worst("  most by", body["changes"]["corruptions"])
        return lines
    clean, mean = body["scores"]["clean"], body["scores"]["mean"]
    limits = {} if body["intervals"] is None else body["intervals"]["values"]
    lines.append(
        f"  clean: error {clean['error']:.2%}{_percent(limits.get('clean/error'))},"
        f" macro-F1 {clean['macro_f1']:.4f}; {_beside(body)}"
    )
    if mean:
        lines.append(
            f"  corrupted: mean error {mean['error']:.2%}{_percent(limits.get('mean/error'))}, macro-F1"
            f" {mean['macro_f1']:.4f}, answer changed in {body['changes']['mean']:.1%}"
        )
        lines += _worst(
            "  largest error:", {one: row["error"] for one, row in body["scores"]["corruptions"].items()}
        )
    for place, reference in enumerate(body["references"] if mean else ()):
        if reference["mce"] is None:
            lines.append(
                f"  relative to {reference['name']}: no mCE (its errors at these severities are not known)"
            )
            continue
        decisive = reference["decisive"]
        lines.append(
            f"  relative to {reference['name']}: mCE {reference['mce']:.1f}"
            + (_plain(limits.get("mce")) if place == 0 else "")
            + (
                ""
                if reference["relative_mce"] is None
                else f", relative mCE {reference['relative_mce']:.1f}"
                + (_plain(limits.get("relative_mce")) if place == 0 else "")
            )
            + ("" if decisive is None else f"; largest part {decisive['corruption']} {decisive['share']:.0%}")
        )
    lines += _published_beside(entry)
    lost = body["quantisation"]
    if lost is not None:
        bounds = lost["intervals"] or {}
        mce = "" if lost["mce"] is None else f", mCE {lost['mce']:+.2f}{_plain(bounds.get('mce'), '+.2f')}"
        lines.append(
            f"  lost to quantisation (minus {lost['against']['name']}): clean error {100 * lost['clean_error']:+.2f}"
            f" points, mean error {100 * lost['error']:+.2f} points{_points(bounds.get('error'))}{mce}; same answer on"
            f" {lost['agreement']:.1%} of the corrupted pictures"
        )
    return lines


def peak_memory() -> tuple[int, int]:
    """Peak resident bytes of this process, and of the largest of its finished children."""
    # Linux counts in kilobytes, macOS in bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * unit


def run_note(seconds: float, options: Options) -> str:
    """Run time and memory in words; they are no part of the result."""
    own, children = peak_memory()
    text = f"{seconds:.0f} s, {options.jobs} process(es), peak memory {own / 1e6:.0f} MB"
    return f"{text}, largest worker {children / 1e6:.0f} MB" if options.jobs > 1 else text


def _dataset(options: Options, stored: CorruptedSet | None) -> Dataset:
    if options.images == "unlabelled":
        if options.data is None:
            raise InputError("--unlabelled needs --data, the folder of pictures")
        if stored is not None:
            raise InputError("--unlabelled and --corrupted exclude each other; give one of them")
        return unlabelled_dataset(options.data)
    if options.data is None:
        if stored is None:
            raise InputError("say where the photographs are: --data DIR, or --corrupted DIR")
        return stored.dataset
    dataset = index(options.data)
    if stored is not None and stored.dataset.digest != dataset.digest:
        raise InputError(
            f"{stored.root}: was made from other photographs than {options.data} (digest"
            f" {stored.dataset.digest[:12]} against {dataset.digest[:12]}); leave --data out or make it again"
        )
    return dataset


def _encoding(options: Options, stored: CorruptedSet | None) -> Encoding:
    if options.lossless and options.quality is not None:
        raise InputError("--lossless and --quality exclude each other; give one of them")
    asked = (
        Encoding(None)
        if options.lossless
        else Encoding(QUALITY if options.quality is None else options.quality)
    )
    if stored is None:
        return asked
    if (options.lossless or options.quality is not None) and asked != stored.encoding:
        raise InputError(
            f"{stored.root}: is stored as {stored.encoding}, not {asked}; leave the option out or make another set"
        )
    return stored.encoding


def _selections(
    options: Options, dataset: Dataset, stored: CorruptedSet | None, classifiers: Sequence[Classifier]
) -> list[tuple[Selection, list[Classifier]]]:
    """The photographs of each model; models that share them and their input run together."""
    members = None if stored is None else frozenset(stored.names)

    @cache
    def drawn(kind: str) -> Split:
        return open_split(kind, dataset, options.split_seed)

    groups: dict[tuple[str, Any], tuple[Selection, list[Classifier]]] = {}
    for classifier in classifiers:
        images = options.images
        if images == AUTO:
            training = classifier.contract.training
            own = training is not None and training.data_digest == dataset.digest
            images = "held-out" if own else "fresh"
        split: Split | None = None
        if images in ("held-out", "all"):
            split = own_split(classifier.contract, dataset) if options.split == OWN else drawn(options.split)
            if split is None and images == "held-out":
                complain(
                    f"{classifier.model.path}: its own split cannot be made again for {dataset.root};"
                    f" the {FALLBACK} split is taken"
                )
                split = drawn(FALLBACK)
        selection = select(dataset, images, split, options.limit, options.seed, members)
        if images == "fresh":
            given = drawn(options.split) if options.split.endswith(".json") else None
            check_fresh(selection, classifier.contract, given, str(classifier.model.path))
        key = (f"{selection.digest} {selection.choice}", classifier.contract.input)
        groups.setdefault(key, (selection, []))[1].append(classifier)
    return list(groups.values())


def _entries(
    options: Options, scored: Mapping[str, _Scored], references: Sequence[Reference], dataset: Dataset
) -> Iterable[Entry]:
    float_model = None
    if options.against is not None:
        float_model = next(one for one in scored.values() if one.classifier.model.path == options.against)
    contracts = [one.classifier.contract for one in scored.values()]
    baselines: dict[str, tuple[Mapping[str, object] | None, str]] = {}
    given = (
        open_split(options.split, dataset, options.split_seed) if options.split.endswith(".json") else None
    )
    for one in scored.values():
        selection = one.measurement.selection
        known = selection.split.digest if selection.split is not None else ""
        if known not in baselines:
            baselines[known] = baseline(selection, contracts)
        own = own_split(one.classifier.contract, dataset, given) if selection.labelled else None
        others = [
            measured_reference(
                other.predictions, f"{other.classifier.model.path.stem}, measured", selection.choice
            )
            for other in scored.values()
            if other is not one
            and other.predictions.truth is not None
            and other.measurement.corruptions
            and other.measurement.selection.digest == selection.digest
        ]
        against = None
        if float_model is not None and one is not float_model:
            if float_model.measurement.selection.digest != selection.digest:
                raise InputError(
                    f"{options.against} and {one.classifier.model.path} were measured on different photographs, each on"
                    " its own split; name one with --split"
                )
            against = (float_model.classifier, float_model.predictions)
        yield robustness_entry(
            one.measurement,
            one.classifier,
            one.predictions,
            [*references, *others] if references else [],
            seen_in_training(selection, one.classifier.contract, own),
            baselines[known],
            against,
        )


def _beside(body: Mapping[str, Any]) -> str:
    found = body["time_baseline"]
    if found is None:
        return f"no time baseline: {body['time_baseline_missing']}"
    return (
        f"the capture time alone reaches accuracy {found['accuracy']:.4f}, macro-F1 {found['macro_f1']:.4f} on the"
        f" {found['split']} split's {found['part']} part"
    )


def _published_beside(entry: Entry) -> list[str]:
    """The study's model of the same architecture, where there is one and mCE is relative to the same reference."""
    assert entry.model is not None
    tables = read_published()
    model = counterpart(tables, str(entry.model["architecture"]))
    first = entry.body["references"][0] if entry.body["references"] else None
    if (
        model is None
        or first is None
        or first["mce"] is None
        or not first["name"].startswith(f"{REFERENCE}, ")
    ):
        return []
    return [
        f"  beside it, {model} as published (whole data set, training photographs included): clean error"
        f" {tables.clean[model]:.2%}, mCE {tables.mce[model]:.1f}, relative mCE {tables.relative_mce[model]:.1f}"
    ]


def _worst(title: str, values: Mapping[str, float]) -> list[str]:
    order = sorted(values, key=lambda name: -values[name])[:3]
    return [f"{title} " + ", ".join(f"{name} {values[name]:.1%}" for name in order)]


def _percent(bounds: Sequence[float] | None) -> str:
    return "" if bounds is None else f" (95 % interval {bounds[0]:.1%} to {bounds[1]:.1%})"


def _points(bounds: Sequence[float] | None) -> str:
    return "" if bounds is None else f" ({100 * bounds[0]:+.2f} to {100 * bounds[1]:+.2f})"


def _plain(bounds: Sequence[float] | None, form: str = ".1f") -> str:
    return "" if bounds is None else f" ({bounds[0]:{form}} to {bounds[1]:{form}})"


__all__ = ["Options", "parse_corruptions", "parse_severities", "run_robustness", "summary"]
