"""The audit's answer in plain words, and whether it is a leak."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.fusion import caveats
from bench.interval import Interval
from bench.reading import Readings
from bench.session import Grouping

if TYPE_CHECKING:
    from bench.audit import CropAudit
    from bench.baseline import Difference, Scores, Settings

CLEAR = 0.10
"""A baseline tells the class clearly when its macro-F1 beats shuffled labels by more than this for certain (lower
end of the interval)."""

_SEES = {
    "time": "the capture time alone",
    "metadata": "the file's metadata alone (camera, software, size, JPEG settings)",
    "sensors": "the sensors' record alone",
    "time + sensors": "the record of time and sensors together",
}


@dataclass(frozen=True)
class Verdict:
    """The answer.

    Attributes:
        finding: "leak" (something other than the picture names the class, and a mixed split rewards it),
            "none" (nothing was found), or "open" (a part of the question could not be asked).
        leaks: baselines that a mixed split rewards: "time", "metadata", "sensors".
        paragraph: for people who do not do statistics, with the numbers.
        next_steps: what to do, a sentence each.
    """

    finding: str
    leaks: tuple[str, ...]
    paragraph: str
    next_steps: tuple[str, ...]


def judge(
    crops: Sequence[CropAudit],
    scores: Scores,
    differences: Sequence[Difference],
    drops: Sequence[Difference],
    groups: Grouping | None,
    readings: Readings,
    settings: Settings,
    duplicates: Mapping[str, Any] | None,
) -> Verdict:
    """Weigh what was measured; see `Verdict`.

    Time or metadata that tell the class clearly are a leak on whatever folds: a picture's own merit cannot be
    told from them. Sensors are one only if they lose when sessions are held out (or none can be): what still
    holds on sessions that were never seen is knowledge.
    """
    excess = {
        different.first: different.interval
        for different in differences
        if (different.protocol, different.second, different.metric) == ("cv", "shuffled", "macro_f1")
    }
    lost = {drop.first: drop for drop in drops}
    carries_over = {
        different.first
        for different in differences
        if (different.protocol, different.second, different.metric) == ("disjoint", "shuffled", "macro_f1")
        and different.verdict == "superior"
    }
    clear = [baseline for baseline, interval in excess.items() if interval.low > CLEAR]
    leaks = [
        baseline
        for baseline in clear
        if baseline in ("time", "metadata")
        or (baseline == "sensors" and (baseline not in carries_over or lost[baseline].verdict == "superior"))
    ]
    held_out = "disjoint" in scores
    sentences = []
    for baseline in sorted(excess, key=lambda name: (name not in leaks, -excess[name].mean)):
        sentences.append(_baseline_sentence(baseline, scores, baseline in clear, groups))
    if not excess:
        sentences.append("The data hold nothing beside the pictures: no time, no metadata, no sensors.")
    if leaks:
        sentences.append(
            "So on these data a good score on a random split can be had by recognising the "
            + ("session" if "time" in leaks or "sensors" in leaks else "camera and its settings")
            + " and says little about recognising the disease."
        )
        finding = "leak"
    elif held_out and excess:
        sentences.append("Nothing beside the picture gives the class away.")
        if "sensors" in clear:
            sentences.append(
                "The sensors tell the class on sessions that were never seen as well: that is knowledge about the"
                " disease, not memory of a session."
            )
        finding = "none"
    else:
        sentences.append(
            "Nothing that could be asked gives the class away, but no session could be held out, so the question"
            " stays open."
        )
        finding = "open"
    sentences += _given_sentences(scores, crops, readings)
    sentences += _fusion_sentences(crops, settings)
    if duplicates:
        crossing = duplicates["across"].get("given") or duplicates["across"]["random"]
        split = "given" if "given" in duplicates["across"] else "random"
        sentences.append(
            f"{duplicates['pairs']:,} pairs of pictures show one shot or one leaf again; {crossing['pairs']:,} of them"
            f" lie on two sides of the {split} split."
        )
    return Verdict(
        finding,
        tuple(leaks),
        " ".join(sentences),
        tuple(_next_steps(leaks, crops, groups, readings, settings, duplicates)),
    )


def _baseline_sentence(baseline: str, scores: Scores, clear: bool, groups: Grouping | None) -> str:
    mixed = scores["cv"][baseline]
    chance = scores["cv"]["shuffled"]["macro_f1"].mean
    text = (
        f"Without looking at any picture, {_SEES[baseline]} names the right class for"
        f" {_hundred(mixed['accuracy'])} of 100 pictures when pictures of one session lie on both sides (macro-F1"
        f" {mixed['macro_f1'].mean:.2f}; chance reaches {chance:.2f})"
    )
    if baseline in scores.get("disjoint", {}) and groups is not None:
        apart = scores["disjoint"][baseline]
        limited = "cv covered" in scores
        text += (
            f", and for {_hundred(apart['accuracy'])} of 100 when whole {_plural(groups.by)} are held out (macro-F1"
            f" {apart['macro_f1'].mean:.2f}{', over the classes that allow it' if limited else ''})"
        )
    return text + ("." if clear else "; that is no clear sign of the class.")


def _given_sentences(scores: Scores, crops: Sequence[CropAudit], readings: Readings) -> list[str]:
    if "given" not in scores or "time" not in scores["given"]:
        return []
    sensors = [variable.name for variable in readings.of("sensor")]
    joint = sensors[0] if len(sensors) == 1 else "all sensors"
    rate = [
        found.leak["given"]
        for crop in crops
        for found in crop.sharing
        if found.name in (joint, "time") and "given" in found.leak
    ]
    text = (
        f"On the given split's test part the capture time alone reaches macro-F1"
        f" {scores['given']['time']['macro_f1'].mean:.2f}"
    )
    if rate:
        text += f"; up to {_percent(max(rate))} of its test pictures have a reading that occurs in training"
    return [text + "."]


def _fusion_sentences(crops: Sequence[CropAudit], settings: Settings) -> list[str]:
    sentences = []
    for crop in crops:
        if crop.fusion is None:
            continue
        where = f"{crop.name}: " if crop.name else ""
        for gain in crop.fusion.gains:
            mixed = _points(gain.gains["in distribution"])
            if "disjoint" not in gain.gains:
                sentences.append(
                    f"{where}Adding {gain.addition} to the picture changes macro-F1 by {mixed} points on mixed"
                    " sessions; whether that holds on new sessions could not be tested."
                )
                continue
            apart = _points(gain.gains["disjoint"])
            ending = {
                "yes": "the gain survives on sessions that were never seen, so it is real",
                "no": "the gain does not survive on sessions that were never seen, so it was memory of sessions",
                "none": "there is no gain to speak of",
                "undecided": "these data do not decide whether the gain survives",
            }[gain.survives]
            sentences.append(
                f"{where}Adding {gain.addition} to the picture changes macro-F1 by {mixed} points on mixed sessions and"
                f" by {apart} points on held-out ones: {ending}."
            )
        sentences += [
            f"{where}{sentence}"
            for sentence in caveats(
                crop.fusion.pictures,
                crop.fusion.missing,
                crop.fusion.seen,
                crop.fusion.shortfalls,
                settings.floor_pictures,
                settings.floor_groups,
            )
        ]
    return sentences


def _next_steps(
    leaks: Sequence[str],
    crops: Sequence[CropAudit],
    groups: Grouping | None,
    readings: Readings,
    settings: Settings,
    duplicates: Mapping[str, Any] | None,
) -> list[str]:
    steps = []
    if leaks:
        by = "burst" if groups is None else groups.by
        steps.append(
            f"Train and test on splits that keep {_plural(by)} whole (mango-bench split {readings.path.name} --by {by}"
            " --folds 3), and quote the mean over the folds."
        )
        steps.append(
            "Put the score of the capture time beside every score of a model on the same split; a model that does not"
            " beat it has shown nothing."
        )
    thin = {shortfall.label: shortfall for crop in crops for shortfall in crop.baselines.shortfalls}
    lonely = [
        label
        for crop in crops
        if crop.groups is not None
        for label, number in crop.groups.items()
        if number == 1
    ]
    if lonely:
        steps.append(
            f"Take pictures of {_list(lonely)} in further sessions: with a single group they cannot be tested on a"
            " session that was never seen."
        )
    thin_names = [label for label in thin if label not in lonely]
    if thin_names:
        steps.append(
            f"Take pictures of {_list(thin_names)} in more sessions: some held-out fold tests them with fewer than"
            f" {settings.floor_pictures} pictures or {settings.floor_groups} groups, so their part of the held-out"
            " score is uncertain."
        )
    if groups is None:
        steps.append("Record when, or in which session, each picture was taken.")
    if duplicates and any(found["pairs"] for found in duplicates["across"].values()):
        steps.append("Keep near-duplicates on one side: add --with-near-duplicates.")
    return steps or ["Nothing has to change; keep this audit beside the results."]


def _plural(by: str) -> str:
    return {"group": "groups", "burst": "bursts", "date": "dates", "camera": "cameras"}[by]


def _hundred(interval: Interval) -> str:
    return f"{100 * interval.mean:.0f}"


def _points(interval: Interval) -> str:
    return f"{100 * interval.mean:+.1f} [{100 * interval.low:+.1f}, {100 * interval.high:+.1f}]"


def _percent(value: float) -> str:
    return f"{100 * value:.0f} %"


def _list(names: Sequence[str]) -> str:
    unique = list(dict.fromkeys(names))
    return unique[0] if len(unique) == 1 else f"{', '.join(unique[:-1])} and {unique[-1]}"
