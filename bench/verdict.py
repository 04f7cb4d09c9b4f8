"""The audit's answer in plain words, and whether it is a leak."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.fusion import caveats
from bench.granularity import NEAR_SECONDS
from bench.interval import Interval
from bench.reading import Readings
from bench.session import Grouping

if TYPE_CHECKING:
    from bench.audit import CropAudit
    from bench.baseline import Difference, Scores, Settings

CLEAR = 0.10
"""A baseline tells the class clearly when its macro-F1 beats shuffled labels by more than this for certain (lower
end of the interval)."""

MOST_NAMED = 3
"""Leaking crops whose scores the paragraph gives; further ones are only named."""

_NEAR = f"{NEAR_SECONDS[0]:g}"
_SEVERITY = ("none", "open", "leak")
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
            "none" (nothing was found), or "open" (a part of the question could not be asked); the worst of any
            crop and of their mean.
        leaks: baselines that a mixed split rewards, in whatever crop: "time", "metadata", "sensors".
        crops: crop -> its own finding.
        paragraph: for people who do not do statistics, with the numbers.
        next_steps: what to do, a sentence each.
    """

    finding: str
    leaks: tuple[str, ...]
    crops: Mapping[str, str]
    paragraph: str
    next_steps: tuple[str, ...]


@dataclass(frozen=True)
class _Weighed:
    """What one crop's scores (or their mean) say: baselines by how far they beat chance, those that do so clearly,
    those that are leaks, and the finding."""

    excess: Mapping[str, Interval]
    clear: tuple[str, ...]
    leaks: tuple[str, ...]
    finding: str


def judge(
    crops: Sequence[CropAudit],
    scores: Scores,
    differences: Sequence[Difference],
    drops: Sequence[Difference],
    groups: Grouping | None,
    readings: Readings,
    settings: Settings,
    duplicates: Mapping[str, Any] | None,
    kind: str | None,
    split_command: Callable[[], str | None],
) -> Verdict:
    """Weigh what was measured in each crop and in their mean, and take the worst; see `Verdict`.

    Time or metadata that tell the class clearly are a leak on whatever folds: a picture's own merit cannot be
    told from them. Sensors are one only if they lose when sessions are held out (or none can be): what still
    holds on sessions that were never seen is knowledge.

    Args:
        crops: each on its own.
        scores, differences, drops: their mean.
        groups: what was held out; None where nothing could be.
        duplicates: near-duplicates, where they were looked for.
        kind: what was to be held out ("burst", ...); None where the data tell of no groups at all.
        split_command: gives the command that splits the data without leak, or None; asked only on a leak.
    """
    whole = _weigh(scores, differences, drops)
    each = {
        crop.name: _weigh(crop.baselines.scores, crop.baselines.differences, crop.baselines.drops)
        for crop in crops
    }
    everything = [whole, *each.values()]
    finding = max((weighed.finding for weighed in everything), key=_SEVERITY.index)
    found = {baseline for weighed in everything for baseline in weighed.leaks}
    leaks = tuple(baseline for baseline in ("time", "metadata", "sensors") if baseline in found)
    sentences = []
    for baseline in sorted(
        whole.excess, key=lambda name: (name not in whole.leaks, -whole.excess[name].mean)
    ):
        where = f"Mean over {len(crops)} crops: without" if len(crops) > 1 else "Without"
        sentences.append(_baseline_sentence(where, baseline, scores, baseline in whole.clear, groups))
    if len(crops) > 1:
        sentences += _crop_sentences(crops, each, groups)
    if not whole.excess:
        sentences.append(
            "The data hold nothing beside the pictures (no time, no metadata, no sensors), so whether something else"
            " gives the class away could not be asked."
        )
    if finding == "leak":
        of = [name for name, weighed in each.items() if weighed.leaks]
        where = _list(of) if of and len(crops) > 1 else "these data"
        sentences.append(
            f"So on {where} a good score on a random split can be had by recognising the "
            + ("session" if "time" in leaks or "sensors" in leaks else "camera and its settings")
            + " and says little about recognising the disease."
        )
    elif finding == "none":
        telling = [name for name, weighed in each.items() if "sensors" in weighed.clear]
        if telling or "sensors" in whole.clear:
            sentences.append(
                "The sensors tell the class on sessions that were never seen as well"
                + (f" (in {_list(telling)})" if len(crops) > 1 and telling else "")
                + ": that is knowledge about the disease, not memory of a session."
            )
        else:
            sentences.append("Nothing beside the picture gives the class away.")
    elif whole.excess:
        closed = [name for name, weighed in each.items() if weighed.finding == "open"]
        sentences.append(
            "Nothing that could be asked gives the class away, but "
            + (f"in {_list(closed)} " if len(crops) > 1 else "")
            + "no session could be held out, so the question stays open."
        )
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
        leaks,
        {name: weighed.finding for name, weighed in each.items()},
        " ".join(sentences),
        tuple(
            _next_steps(
                finding,
                crops,
                groups,
                readings,
                settings,
                duplicates,
                kind,
                bool(whole.excess),
                split_command,
            )
        ),
    )


def _weigh(scores: Scores, differences: Sequence[Difference], drops: Sequence[Difference]) -> _Weighed:
    excess = {
        different.first: different.interval
        for different in differences
        if (different.protocol, different.second, different.metric) == ("cv", "shuffled", "macro_f1")
    }
    lost = {drop.first: drop.verdict for drop in drops}
    carries_over = {
        different.first
        for different in differences
        if (different.protocol, different.second, different.metric) == ("disjoint", "shuffled", "macro_f1")
        and different.verdict == "superior"
    }
    clear = tuple(baseline for baseline, interval in excess.items() if interval.low > CLEAR)
    leaks = tuple(
        baseline
        for baseline in clear
        if baseline in ("time", "metadata")
        or (baseline == "sensors" and (baseline not in carries_over or lost.get(baseline) == "superior"))
    )
    finding = "leak" if leaks else "none" if excess and "disjoint" in scores else "open"
    return _Weighed(excess, clear, leaks, finding)


def _baseline_sentence(
    where: str, baseline: str, scores: Scores, clear: bool, groups: Grouping | None
) -> str:
    mixed = scores["cv"][baseline]
    chance = scores["cv"]["shuffled"]["macro_f1"].mean
    text = (
        f"{where} looking at any picture, {_SEES[baseline]} names the right class for"
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


def _crop_sentences(
    crops: Sequence[CropAudit], each: Mapping[str, _Weighed], groups: Grouping | None
) -> list[str]:
    """The leaking crops, worst first: a mean over crops hides the one."""
    leaking = [crop for crop in crops if each[crop.name].leaks]
    leaking.sort(key=lambda crop: -max(each[crop.name].excess[leak].mean for leak in each[crop.name].leaks))
    sentences = []
    for crop in leaking[:MOST_NAMED]:
        where = f"In {crop.name} ({sum(crop.counts.values()):,} pictures), without"
        sentences += [
            _baseline_sentence(where, baseline, crop.baselines.scores, True, groups)
            for baseline in each[crop.name].leaks
        ]
    if len(leaking) > MOST_NAMED:
        sentences.append(f"The same holds in {_list([crop.name for crop in leaking[MOST_NAMED:]])}.")
    return sentences


def _given_sentences(scores: Scores, crops: Sequence[CropAudit], readings: Readings) -> list[str]:
    reached = {
        baseline: by_metric["macro_f1"].mean
        for baseline, by_metric in scores.get("given", {}).items()
        if baseline in ("time", "metadata", "sensors")
    }
    if not reached:
        return []
    best = "time" if "time" in reached else max(reached, key=lambda baseline: reached[baseline])
    text = f"On the given split's test part {_SEES[best]} reaches macro-F1 {reached[best]:.2f}"
    near = [(crop.near[_NEAR]["given"], crop.name) for crop in crops if "given" in crop.near.get(_NEAR, {})]
    if near:
        rate, name = max(near, key=lambda one: one[0])
        text += (
            f"; {_percent(rate)} of its test pictures have a training picture of their class within {_NEAR} s"
            + (f" (in {name})" if len(crops) > 1 else "")
        )
    # Jointly, sensors tell single pictures apart; of metadata already one column (the camera) can name the class.
    sensors = [variable.name for variable in readings.of("sensor")]
    candidates = [
        ["time"],
        sensors if len(sensors) == 1 else ["all sensors"],
        [variable.name for variable in readings.of("metadata")],
    ]
    shares = []
    for names in candidates:
        rates = [
            (found.leak["given"], found.name, crop.name)
            for crop in crops
            for found in crop.sharing
            if found.name in names and "given" in found.leak
        ]
        if rates:
            rate, reading, name = max(rates, key=lambda one: one[0])
            shares.append(f"{reading} {_percent(rate)}" + (f" (in {name})" if len(crops) > 1 else ""))
    if shares:
        text += f"; the exact reading of a test picture occurs in training for this share of them: {', '.join(shares)}"
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
                "yes": "the gain survives on sessions that were never seen, so it is real"
                if gain.addition == "sensors"
                # The clock and the camera know of no disease: what they still tell there is a wider session.
                else "it survives there, which says that something wider than these sessions (a day, a camera) is still"
                " shared, not that it knows the disease",
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
    finding: str,
    crops: Sequence[CropAudit],
    groups: Grouping | None,
    readings: Readings,
    settings: Settings,
    duplicates: Mapping[str, Any] | None,
    kind: str | None,
    asked: bool,
    split_command: Callable[[], str | None],
) -> list[str]:
    steps = []
    if finding == "leak":
        whole = "sessions" if groups is None else _plural(groups.by)
        command = None if groups is None else split_command()
        steps.append(
            f"Train and test on splits that keep {whole} whole{f' ({command})' if command else ''}, and quote the mean"
            " over the folds."
        )
        if command is None and readings.source == "table" and groups is not None and not _at_hand(readings):
            steps.append(
                "mango-bench split writes such splits where the picture files are at hand: name their column with"
                " --path and the folder that paths start from with --pictures."
            )
        steps.append(
            "Put the score of the capture time beside every score of a model on the same split; a model that does not"
            " beat it has shown nothing."
        )

    def named(label: str, crop: CropAudit) -> str:
        return f"{label} ({crop.name})" if len(crops) > 1 else label

    lonely = [
        named(label, crop)
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
    thin = [named(shortfall.label, crop) for crop in crops for shortfall in crop.baselines.shortfalls]
    if thin:
        steps.append(
            f"Take pictures of {_list(thin)} in more sessions: some held-out fold tests them with fewer than"
            f" {settings.floor_pictures} pictures or {settings.floor_groups} groups, so their part of the held-out"
            " score is uncertain."
        )
    thinned = [named(label, crop) for crop in crops for label in crop.baselines.thinned]
    if thinned:
        steps.append(
            f"Raise --rows ({settings.rows:,}): of the pictures that are drawn, some held-out fold tests"
            f" {_list(thinned)} with fewer than {settings.floor_pictures} pictures or {settings.floor_groups} groups."
        )
    if kind is None:
        steps.append("Record when, or in which session, each picture was taken.")
    elif groups is None:
        steps.append(
            f"Take pictures in further sessions: all belong to one {kind}, so nothing can be tested on a session that"
            " was never seen."
        )
    else:
        alone = [crop.name for crop in crops if crop.groups is None]
        if alone:
            steps.append(
                f"Take pictures of {_list(alone)} in further sessions: all belong to one {kind}, so nothing of them can"
                " be tested on a session that was never seen."
            )
    if not asked:
        steps.append(
            "Put beside each picture what was recorded with it (capture time, camera, sensors): without any of it the"
            " audit can compare nothing with the picture."
        )
    if duplicates and any(found["pairs"] for found in duplicates["across"].values()):
        steps.append("Keep near-duplicates on one side: add --with-near-duplicates.")
    return steps or ["Nothing has to change; keep this audit beside the results."]


def _at_hand(readings: Readings) -> bool:
    return all(file is not None for file in readings.files)


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
