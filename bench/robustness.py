"""Robustness of models: predictions under every corruption, and the scores made from them.

`measure` runs the networks, `robustness_entry` turns predictions into a result entry. What a score depends on
stands in the entry: photographs, split, encoding, corruption code and versions, seed, runtime, reference.
Nothing that changes from run to run (times, memory, number of processes) stands in it, so that the same
measurement gives the same entry wherever and however often interrupted it is made.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from bench.corrupted_set import CorruptedSet, read_digests
from bench.corruption import FAMILIES, base, versions
from bench.encoding import Encoding
from bench.execution import run_cluster, run_here, run_processes
from bench.metric import Errors, Reference, macro_f1, relate
from bench.prediction import Predictions, predictions_to_json
from bench.result import Entry, describe_model
from bench.selection import Selection, Training
from bench.significance import (
    LEVEL,
    RESAMPLES,
    Interval,
    bootstrap,
    burst_counts,
    difference,
    score_statistics,
)
from bench.unit import CHUNK, CLEAN, Network, Source, Unit, predict_unit, read_shard, write_shard
from convert.split import identity
from edge.classifier import Classifier
from edge.errors import InputError


@dataclass(frozen=True)
class Measurement:
    """What to measure.

    Attributes:
        classifiers: the opened models; all take the same input.
        threads: of each inference.
        selection: the photographs.
        corruptions, severities: which; none for the clean pictures only.
        encoding: the JPEG step.
        seed: of the corruptions.
        stored: a corrupted set to read instead of corrupting on the fly.
    """

    classifiers: tuple[Classifier, ...]
    threads: int
    selection: Selection
    corruptions: tuple[str, ...]
    severities: tuple[int, ...]
    encoding: Encoding
    seed: int
    stored: CorruptedSet | None = None

    @property
    def networks(self) -> tuple[Network, ...]:
        """The models as units of work name them."""
        return tuple(
            Network(
                str(classifier.model.path.absolute()),
                classifier.model.digest,
                str(classifier.runtime),
                self.threads,
            )
            for classifier in self.classifiers
        )

    @property
    def subsets(self) -> list[tuple[str, int]]:
        """Clean first, then each corruption and severity."""
        return [CLEAN, *((name, severity) for name in self.corruptions for severity in self.severities)]


def check_measurement(measurement: Measurement) -> None:
    """Refuse what cannot be measured, before any work is done.

    Raises:
        InputError: models of different inputs or labels, photographs of a class that a model does not know, or a
            corrupted set that was made otherwise.
    """
    first = measurement.classifiers[0].contract
    for classifier in measurement.classifiers:
        where = classifier.model.path
        if classifier.contract.input != first.input:
            raise InputError(f"{where}: takes another input than {measurement.classifiers[0].model.path}")
        if measurement.selection.labelled:
            unknown = sorted(
                {photograph.label for photograph in measurement.selection.photographs}
                - set(classifier.contract.labels)
            )
            if unknown:
                raise InputError(
                    f"{measurement.selection.dataset.root}: class {unknown[0]!r} is not among the labels of {where}"
                    f" ({', '.join(classifier.contract.labels)}); rename or remove the folder, or give --unlabelled"
                )
    stored = measurement.stored
    if stored is not None:
        if stored.spec != first.input:
            raise InputError(
                f"{stored.root}: its pictures were fitted to {_spec(stored.spec)}, but the model takes"
                f" {_spec(first.input)}; make a set for it with: mango-bench corrupt --model"
            )
        for name, severity in measurement.subsets[1:]:
            if name not in stored.corruptions or severity not in stored.severities:
                raise InputError(
                    f"{stored.root}: has no {name} of severity {severity}; make it with mango-bench corrupt, or choose"
                    " --corruptions and --severities that it has"
                )


def units(measurement: Measurement, together: bool = True) -> Iterator[Unit]:
    """The work: chunk by chunk, each under every subset.

    Args:
        measurement: what to measure.
        together: True runs all networks on each corrupted picture; False makes one unit for each network, so
            that they can be spread.
    """
    stored = measurement.stored
    source = Source(
        root=str((stored.root if stored else measurement.selection.dataset.root).absolute()),
        stored=stored is not None,
        spec=measurement.classifiers[0].contract.input,
        encoding=measurement.encoding,
        seed=measurement.seed,
        versions=versions() if stored is None else stored.versions,
    )
    digests = (
        {} if stored is None else {subset: read_digests(stored, subset) for subset in measurement.subsets}
    )
    photographs = measurement.selection.photographs
    for start in range(0, len(photographs), CHUNK):
        chunk = photographs[start : start + CHUNK]
        for subset in measurement.subsets:
            files: tuple[tuple[str, str], ...] = ()
            if stored is not None:
                names = [stored.names[photograph.digest] for photograph in chunk]
                lacking = [name for name in names if name not in digests[subset]]
                if lacking:
                    raise InputError(
                        f"{stored.root}: not complete, {subset[0]}/{subset[1]}/{lacking[0]} is missing; finish it with:"
                        " mango-bench corrupt"
                    )
                files = tuple((f"{subset[0]}/{subset[1]}/{name}", digests[subset][name]) for name in names)
            if together:
                yield Unit(measurement.networks, source, *subset, chunk, files)
            else:
                for network in measurement.networks:
                    yield Unit((network,), source, *subset, chunk, files)


def measure(
    measurement: Measurement,
    shards: Path,
    jobs: int = 1,
    dask: str | None = None,
    report: Callable[[int], None] | None = None,
) -> list[Predictions]:
    """Run every network on every picture; answers kept in `shards` are taken over.

    Args:
        measurement: what to measure; see `check_measurement`.
        shards: folder for the answers to finished units.
        jobs: processes, 1 for this one alone.
        dask: address of a scheduler whose workers do the work instead.
        report: called with the number of pictures done after each unit.

    Returns:
        The predictions of each network, in order.
    """
    shards.mkdir(parents=True, exist_ok=True)
    say = report or (lambda count: None)

    def missing() -> Iterator[Unit]:
        for unit in units(measurement, together=dask is None):
            lacking = tuple(
                network
                for network in unit.networks
                if read_shard(shards, unit.shard(network), len(unit.photographs)) is None
            )
            say(len(unit.photographs) * (len(unit.networks) - len(lacking)))
            if lacking:
                yield replace(unit, networks=lacking)

    if dask is not None:
        results = run_cluster(predict_unit, missing(), dask, _unit_name)
    elif jobs > 1:
        results = run_processes(predict_unit, missing(), jobs)
    else:
        results = run_here(predict_unit, missing())
    for unit, answers in results:
        for network, classes in zip(unit.networks, answers, strict=True):
            write_shard(shards, unit.shard(network), classes)
        say(len(unit.photographs) * len(unit.networks))
    return _collect(measurement, shards)


def remove_shards(measurement: Measurement, shards: Path) -> None:
    """Remove what `measure` kept, once the result is safely written; the folder too if nothing else is in it."""
    for unit in units(measurement):
        for network in unit.networks:
            (shards / f"{unit.shard(network)}.shard").unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        shards.rmdir()


def measured_reference(predictions: Predictions, name: str, choice: str) -> Reference:
    """A model measured in the same run as a reference."""
    errors = predictions.errors()
    return Reference(name, f"measured on the {choice}", errors.clean, errors.corrupted, {})


def robustness_entry(
    measurement: Measurement,
    classifier: Classifier,
    predictions: Predictions,
    references: Sequence[Reference],
    training: Training,
    time_baseline: tuple[Mapping[str, object] | None, str],
    against: tuple[Classifier, Predictions] | None = None,
) -> Entry:
    """The result entry of one model.

    Args:
        measurement: what was measured.
        classifier, predictions: the model and its answers.
        references: the chosen one first; none for no relative scores.
        training: what is known of the photographs' part in the model's training.
        time_baseline: as `bench.selection.baseline` gives it.
        against: the float model, for the robustness lost to quantisation.
    """
    selection = measurement.selection
    corruption = {"seed": measurement.seed, "base": base(), "versions": versions()}
    if measurement.stored is not None:
        corruption["versions"] = measurement.stored.versions
    reference = references[0] if references else None
    labelled = predictions.truth is not None
    corruptions, severities = measurement.corruptions, measurement.severities
    scored = (
        [relative_json(predictions.errors(), one, corruptions, severities) for one in references]
        if labelled
        else []
    )
    intervals = _intervals(predictions, reference, measurement.seed) if labelled else None
    bursts = len(np.unique(predictions.bursts))
    body = {
        "labelled": labelled,
        "corruptions": list(corruptions),
        "severities": list(severities) if corruptions else [],
        "images": {
            "choice": selection.choice,
            "images": selection.images,
            "number": len(selection.photographs),
            "limit": selection.limit,
            "digest": selection.digest,
            "bursts": bursts,
            "seen_in_training": training.seen,
            "training": training.text,
            "absent_classes": _absent(predictions),
        },
        "encoding": {"quality": measurement.encoding.quality, "text": str(measurement.encoding)},
        "corruption": corruption,
        "runtime": str(classifier.runtime),
        "threads": measurement.threads,
        "scores": scores(predictions) if labelled else None,
        "intervals": None
        if intervals is None
        else {
            "method": f"percentile bootstrap over {bursts} bursts, {RESAMPLES} resamples, reference held fixed",
            "level": LEVEL,
            "values": {name: list(pair) for name, pair in intervals.items()},
        },
        "references": scored,
        "time_baseline": time_baseline[0],
        "time_baseline_missing": time_baseline[1],
        "changes": changes(predictions, measurement.seed) if corruptions else None,
        "agreement": None if against is None else agreement(predictions, *against),
        "quantisation": None
        if against is None or not labelled or not corruptions
        else quantisation(predictions, *against, reference, measurement.seed),
        "predictions": predictions_to_json(predictions),
        "warnings": _warnings(selection, training, predictions, bursts),
    }
    split = selection.split if selection.images == "held-out" else None
    drawn = all(
        PurePosixPath(photograph.path).name.startswith("drawn-") for photograph in selection.photographs
    )
    data = {
        "name": selection.dataset.root.name,
        "digest": selection.dataset.digest,
        "images": len(selection.photographs),
        "source": "drawn leaves" if drawn else "photographs",
        "split": None if split is None else split.name,
        "seed": None if split is None else split.seed,
        "split_digest": None if split is None else split.digest,
        "part": None if split is None else "test",
    }
    return Entry("robustness", body, None, describe_model(classifier.model, classifier), data)


def scores(predictions: Predictions) -> dict[str, Any]:
    """Top-1 error and macro-F1, both 0..1: clean, mean over all, by corruption, family, severity and subset.

    Means are over corruptions and severities, each counting the same; those of macro-F1 are means of the subsets'
    macro-F1. "mean" is empty where there was no corruption.
    """
    assert predictions.truth is not None
    found = predictions.matrix()
    error = (found != predictions.truth[:, np.newaxis]).mean(axis=0)
    classes = len(predictions.labels)
    f1 = [
        float(macro_f1(_confusion(predictions.truth, found[:, column], classes)))
        for column in range(found.shape[1])
    ]
    subsets = predictions.subsets

    def mean(wanted: Callable[[str, int], bool]) -> dict[str, float]:
        places = [1 + place for place, (name, severity) in enumerate(subsets) if wanted(name, severity)]
        return {
            "error": float(np.mean([error[place] for place in places])),
            "macro_f1": float(np.mean([f1[place] for place in places])),
        }

    names = list(predictions.corrupted)
    levels = list(dict.fromkeys(severity for _, severity in subsets))
    families = [family for family, members in FAMILIES.items() if set(members) & set(names)]
    return {
        "clean": {"error": float(error[0]), "macro_f1": f1[0]},
        "mean": mean(lambda name, severity: True) if subsets else {},
        "corruptions": {name: mean(lambda other, _, name=name: other == name) for name in names},  # type: ignore[misc]
        "families": {
            family: mean(lambda other, _, members=FAMILIES[family]: other in members)  # type: ignore[misc]
            for family in families
        },
        "severities": {str(level): mean(lambda _, other, level=level: other == level) for level in levels},  # type: ignore[misc]
        "subsets": {
            name: {
                str(severity): {
                    "error": float(error[1 + subsets.index((name, severity))]),
                    "macro_f1": f1[1 + subsets.index((name, severity))],
                }
                for severity in row
            }
            for name, row in predictions.corrupted.items()
        },
    }


def changes(predictions: Predictions, seed: int) -> dict[str, Any]:
    """How often the predicted class differs from the one of the clean picture, 0..1; needs no labels."""
    counted = scores(replace(predictions, truth=predictions.clean))

    def share(values: Mapping[str, Any]) -> float:
        return float(values["error"])

    found = _intervals(replace(predictions, truth=predictions.clean), None, seed)
    return {
        "mean": share(counted["mean"]),
        "mean_interval": None if found is None else list(found["mean/error"]),
        "corruptions": {name: share(values) for name, values in counted["corruptions"].items()},
        "families": {name: share(values) for name, values in counted["families"].items()},
        "severities": {name: share(values) for name, values in counted["severities"].items()},
        "subsets": {
            name: {severity: share(values) for severity, values in row.items()}
            for name, row in counted["subsets"].items()
        },
    }


def relative_json(
    errors: Errors, reference: Reference, corruptions: Sequence[str], severities: Sequence[int]
) -> dict[str, Any]:
    """One reference and the scores against it, as a result entry holds them."""
    found = relate(errors, reference, corruptions, severities)
    partial = found.missing or len(corruptions) < 19
    used = len(corruptions) - len(found.missing) - len(found.undefined)
    name = f"{reference.name} ({used} of 19 corruptions)" if partial or found.undefined else reference.name
    return {
        "name": name,
        "origin": reference.origin,
        "clean_error": reference.clean,
        "mean_errors": {
            one: mean for one in corruptions if (mean := reference.mean(one, severities)) is not None
        },
        "mce": found.mce,
        "relative_mce": found.relative_mce,
        "ce": dict(found.ce),
        "relative_ce": dict(found.relative_ce),
        "missing": list(found.missing),
        "undefined": list(found.undefined),
        "relative_undefined": list(found.relative_undefined),
        "decisive": None
        if found.decisive is None
        else {"corruption": found.decisive[0], "share": found.decisive[1]},
    }


def agreement(predictions: Predictions, other: Classifier, original: Predictions) -> dict[str, Any]:
    """How often two models give the same class, 0..1: on clean and on corrupted pictures; needs no labels."""
    same = predictions.matrix() == original.matrix()
    return {
        "against": _short(other),
        "clean": float(same[:, 0].mean()),
        "corrupted": float(same[:, 1:].mean()) if same.shape[1] > 1 else None,
    }


def quantisation(
    predictions: Predictions, other: Classifier, original: Predictions, reference: Reference | None, seed: int
) -> dict[str, Any]:
    """What quantisation costs: the quantised model's scores minus the float model's, on the same pictures.

    Errors and F1 0..1, mCE in percent; positive means that the quantised model is worse (macro-F1: better).
    "agreement" is the share of corrupted pictures on which the two give the same class.
    """
    point, intervals = difference(predictions, original, reference, seed)
    keys = {
        "clean_error": "clean/error",
        "error": "mean/error",
        "macro_f1": "mean/macro_f1",
        "mce": "mce",
        "relative_mce": "relative_mce",
    }
    return {
        "against": _short(other),
        "agreement": float((predictions.matrix()[:, 1:] == original.matrix()[:, 1:]).mean()),
        **{name: point.get(key) for name, key in keys.items()},
        "corruptions": {name: point[f"corruptions/{name}/error"] for name in predictions.corrupted},
        "reference": None if reference is None else reference.name,
        "intervals": None
        if intervals is None
        else {name: list(intervals[key]) for name, key in keys.items() if key in intervals},
    }


def _short(classifier: Classifier) -> dict[str, Any]:
    return {
        "name": classifier.model.path.stem,
        "digest": classifier.model.digest,
        "precision": classifier.contract.precision,
    }


def _unit_name(unit: Unit) -> str:
    return f"mango-{unit.shard(unit.networks[0])}"


def _collect(measurement: Measurement, shards: Path) -> list[Predictions]:
    answers: dict[tuple[Network, tuple[str, int]], list[Any]] = {}
    for unit in units(measurement):
        for network in unit.networks:
            classes = read_shard(shards, unit.shard(network), len(unit.photographs))
            if classes is None:
                raise InputError(f"{shards}: answers vanished while they were needed; run the command again")
            answers.setdefault((network, (unit.corruption, unit.severity)), []).append(classes)
    selection = measurement.selection
    collected = []
    for network, classifier in zip(measurement.networks, measurement.classifiers, strict=True):
        labels = classifier.contract.labels
        truth = (
            np.array([labels.index(photograph.label) for photograph in selection.photographs], dtype=np.intp)
            if selection.labelled
            else None
        )
        collected.append(
            Predictions(
                labels=labels,
                identities=tuple(identity(photograph) for photograph in selection.photographs),
                truth=truth,
                bursts=np.array(selection.bursts, dtype=np.intp),
                clean=np.concatenate(answers[network, CLEAN]),
                corrupted={
                    name: {
                        severity: np.concatenate(answers[network, (name, severity)])
                        for severity in measurement.severities
                    }
                    for name in measurement.corruptions
                },
            )
        )
    return collected


def _intervals(
    predictions: Predictions, reference: Reference | None, seed: int
) -> dict[str, Interval] | None:
    counts = burst_counts(predictions)
    statistics = score_statistics(counts, predictions.subsets, reference, FAMILIES)
    return bootstrap(len(counts.size), statistics, seed)


def _confusion(truth: Any, predicted: Any, classes: int) -> Any:
    return np.bincount(truth * classes + predicted, minlength=classes * classes).reshape(classes, classes)


def _absent(predictions: Predictions) -> list[str]:
    if predictions.truth is None:
        return []
    present = set(predictions.truth.tolist())
    return [label for place, label in enumerate(predictions.labels) if place not in present]


def _warnings(selection: Selection, training: Training, predictions: Predictions, bursts: int) -> list[str]:
    found = []
    if selection.images == "all":
        found.append(
            "Scored on all photographs, those of the training included: the score flatters the model."
        )
    if training.seen is None or training.seen > 0:
        found.append(f"{training.text[0].upper()}{training.text[1:]}.")
    absent = _absent(predictions)
    if absent:
        found.append(
            f"No photograph of {', '.join(absent)}: macro-F1 is over the classes that occur in truth or predictions."
        )
    untimed = sum(photograph.taken is None for photograph in selection.photographs)
    if untimed:
        found.append(
            f"{untimed} photographs have no capture time; those of one class count as one burst, as nothing shows"
            " that they are apart."
        )
    if bursts < 2:
        found.append("All photographs are of one burst: no interval can be given.")
    return found


def _spec(spec: Any) -> str:
    values = asdict(spec)
    return f"{values['width']}x{values['height']} {values['resize']} {values['fit']} EXIF {values['exif']}"
