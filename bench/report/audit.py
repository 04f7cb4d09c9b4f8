"""Section on the leakage audit: verdict, scores without pictures, shared readings, variance, gain of fusion."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from bench.baseline import BASELINES, PROTOCOLS
from bench.fold import Shortfall
from bench.fusion import caveats
from bench.plot import MARKERS, PALETTE, new_figure, to_svg
from bench.result import Entry
from bench.section import Cell, Figure, Section, Table

OTHER_DATA = " of the model's own data, which are not known to be these"
"""Beside the scores of a model whose contract does not name the audited data."""

_MOST_SHOWN = 12
_SHORT = {
    "cv": "3 folds, mixed",
    "random": "1 of 7, mixed",
    "given": "given split",
    "disjoint": "held out",
    "cv covered": "mixed, same classes",
}
_METRICS = (("macro_f1", "macro-F1"), ("accuracy", "accuracy"), ("balanced_accuracy", "balanced accuracy"))


def section(entries: Sequence[Entry]) -> Section:
    """Everything that the audits found, one after the other."""
    paragraphs: list[str] = [
        "The baselines below see no picture. Where they score well, a network's score on the same split does not show"
        " that it recognises a disease. Mixed: pictures of one session lie on both sides. Held out: whole sessions"
        " are tested that training never saw. Shuffled: the same forest on shuffled labels, which is chance."
    ]
    tables: list[Table] = []
    figures: list[Figure] = []
    warnings: list[str] = []
    for entry in entries:
        body, name = entry.body, str((entry.data or {}).get("name"))
        verdict = body["verdict"]
        paragraphs.append(f"{name}: {verdict['paragraph']}")
        paragraphs.append("What to do: " + " ".join(verdict["next_steps"]))
        if body["notes"]:
            paragraphs.append("Notes: " + " ".join(body["notes"]))
        tables.append(_score_table(name, body))
        if len(body["crops"]) > 1:
            tables.append(_crop_table(name, body))
        figures += [
            figure
            for figure in (
                _sharing_figure(name, body),
                _variance_figure(name, body),
                _margin_figure(name, body),
                _score_figure(name, body),
            )
            if figure is not None
        ]
        tables += _more_tables(name, body)
        warnings += _warnings(name, body)
    return Section(
        title="Does the picture decide, or the session?",
        anchor="audit",
        paragraphs=tuple(paragraphs),
        tables=tuple(tables),
        figures=tuple(figures),
        warnings=tuple(warnings),
    )


def _warnings(name: str, body: Mapping[str, Any]) -> list[str]:
    found = []
    if body["verdict"]["finding"] == "leak":
        leaking = _leaking(body)
        where = f"{name}, {', '.join(leaking)}" if leaking and len(body["crops"]) > 1 else name
        found.append(
            f"{where}: the class can be told without the picture ({', '.join(body['verdict']['leaks'])}); random splits"
            " of these data flatter every model."
        )
    floor = (body["settings"]["floor_pictures"], body["settings"]["floor_groups"])
    for crop in body["crops"]:
        where = f"{name}, {crop['name']}" if crop["name"] else name
        parts = (crop["baselines"], crop["fusion"] or {"shortfalls": ()})
        for what, part in zip(("baselines", "fusion"), parts, strict=True):
            if part["shortfalls"]:
                sentences = " ".join(Shortfall(**one).sentence(*floor) for one in part["shortfalls"])
                found.append(f"{where}, coverage of the held-out folds ({what}): {sentences}")
        fusion = crop["fusion"]
        if fusion and fusion["seen"]:
            # What falls short stands above in full.
            [sentence] = caveats(fusion["pictures"], 0, fusion["seen"], (), *floor)
            found.append(f"{where}: {sentence}")
    return found


def _leaking(body: Mapping[str, Any]) -> list[str]:
    """Crops whose own finding is a leak; none in results that only judged the mean."""
    return [name for name, finding in body["verdict"].get("crops", {}).items() if finding == "leak"]


def _shown_crop(body: Mapping[str, Any], what: str) -> Mapping[str, Any] | None:
    """The crop that a figure shows: the first leaking one, else the first, of those that have `what`."""
    leaking = _leaking(body)
    having: list[Mapping[str, Any]] = [crop for crop in body["crops"] if crop[what]]
    return min(having, key=lambda crop: crop["name"] not in leaking, default=None)


def _score_table(name: str, body: Mapping[str, Any]) -> Table:
    rows: list[list[Cell]] = []
    for protocol, by_baseline in body["average"]["scores"].items():
        for baseline in BASELINES:
            if baseline in by_baseline:
                cells = [_interval(by_baseline[baseline][metric]) for metric, _ in _METRICS]
                rows.append([PROTOCOLS[protocol], baseline, *cells])
    for model in body["models"]:
        for score in model["scores"]:
            baseline = score["time_baseline"]
            where = f"{score['split']} split (seed {score['seed']}), {score['part']} part" + (
                "" if model["same_data"] else OTHER_DATA
            )
            who = model["name"] if score["own"] else f"{model['name']} (sister)"
            rows.append(
                [where, f"{who}, with pictures", f"{score['macro_f1']:.3f}", f"{score['accuracy']:.3f}", None]
            )
            if baseline is not None:
                rows.append(
                    [where, "time", f"{baseline['macro_f1']:.3f}", f"{baseline['accuracy']:.3f}", None]
                )
    number = len(body["crops"])
    crops = f" Mean over {number} crops, each audited apart." if number > 1 else ""
    settings = body["settings"]
    return Table(
        f"{name}: scores without a picture",
        ("split", "sees", *(title for _, title in _METRICS)),
        rows,
        f"Random forests of {settings['trees']} trees, mean over {settings['seeds']} seeds with 95 % Student-t"
        f" interval, at most {settings['rows']:,} pictures a seed.{crops}",
    )


def _crop_table(name: str, body: Mapping[str, Any]) -> Table:
    """Each crop's own finding and macro-F1 without pictures, mixed and held out: a mean hides the one that leaks."""
    seen = [
        one for one in BASELINES if any(one in crop["baselines"]["scores"]["cv"] for crop in body["crops"])
    ]
    rows: list[list[Cell]] = []
    for crop in body["crops"]:
        scores = crop["baselines"]["scores"]
        cells: list[Cell] = []
        for baseline in seen:
            found = [
                f"{scores[protocol][baseline]['macro_f1']['mean']:.3f}"
                for protocol in ("cv", "disjoint")
                if baseline in scores.get(protocol, {})
            ]
            cells.append(" / ".join(found) or None)
        finding = body["verdict"].get("crops", {}).get(crop["name"])
        rows.append([crop["name"], sum(crop["counts"].values()), finding, *cells])
    return Table(
        f"{name}: crop by crop",
        ("crop", "pictures", "finding", *seen),
        rows,
        "Macro-F1 without a picture: 3-fold cross-validation with sessions on both sides / whole groups held out.",
    )


def _more_tables(name: str, body: Mapping[str, Any]) -> list[Table]:
    tables = []
    for crop in body["crops"]:
        where = f"{name}, {crop['name']}" if crop["name"] else name
        rows: list[list[Cell]] = [
            [
                one["name"], one["pictures"], one["values"], _percent(one["shared"]), one["median"], one["most"],
                one["sessions"], _percent(one["one_session"]), _percent(one["one_class"]),
                *(_percent(one["leak"].get(protocol)) for protocol in ("random", "given", "disjoint")),
            ]
            for one in crop["sharing"]
        ]  # fmt: skip
        columns = (
            "reading", "pictures", "values", "pictures that share it", "median sharers", "most sharers",
            "sessions a value", "values of one session", "pictures whose value names one class",
            "leak: random", "leak: given", "leak: held out",
        )  # fmt: skip
        note = "Leak: share of test pictures whose exact reading occurs in training."
        if "leak_folds" in body["settings"]:
            note += f" Random and held out: over {body['settings']['leak_folds']} folds, each tested in turn."
        if crop["near"]:
            note += " " + " ".join(
                f"A training picture of the same class within {within} s exists for {rates['random']:.0%} of a random"
                " test part."
                for within, rates in crop["near"].items()
            )
        tables.append(Table(f"{where}: how pictures share readings", columns, rows, note))
        variance: list[list[Cell]] = [
            [
                one["name"], one["kind"], f"{one['eta_squared']:.3f}",
                None if one["epsilon_squared"] is None else f"{one['epsilon_squared']:.3f}",
                f"[{one['low']:.3f}, {one['high']:.3f}]", f"{one['p']:.3f}", one["pictures"], one["groups"],
            ]
            for one in crop["explained"]
        ]  # fmt: skip
        if variance:
            tables.append(
                Table(
                    f"{where}: how much of each reading is explained by {body['groups']['words']}",
                    ("reading", "kind", "eta squared", "epsilon squared (bias-corrected)", "by chance, 95 %", "p",
                     "pictures", "groups"),
                    variance,
                    f"By chance: values permuted over the pictures, {body['settings']['permutations']} times. Of a"
                    " category, Goodman and Kruskal's tau.",
                )
            )  # fmt: skip
        counts: list[list[Cell]] = [
            [label, count, None if crop["groups"] is None else crop["groups"][label]]
            for label, count in crop["counts"].items()
        ]
        of = body["groups"]["words"] if body["groups"] else "groups"
        tables.append(Table(f"{where}: classes", ("class", "pictures", of), counts))
        if crop["fusion"]:
            tables.append(_fusion_table(where, crop["fusion"]))
    near = body["near_duplicates"]
    if near:
        duplicates: list[list[Cell]] = [
            [pair["first"], pair["second"], pair["turn"], pair["correlation"]]
            for pair in near["listed"][:_MOST_SHOWN]
        ]
        across = ", ".join(
            f"{found['pairs']} on two sides of the {'held-out' if split == 'disjoint' else split} split"
            for split, found in near["across"].items()
        )
        tables.append(
            Table(
                f"{name}: near-duplicates, the strongest of {near['pairs']} pairs",
                ("picture", "near-duplicate", "the second is", "correlation"),
                duplicates,
                f"{near['looked_at']:,} pictures compared; {near['turned']} pairs turned or mirrored,"
                f" {near['two_classes']} of two classes; {across}.",
            )
        )
    return tables


def _fusion_table(where: str, fusion: Mapping[str, Any]) -> Table:
    rows: list[list[Cell]] = []
    protocols = tuple(fusion["scores"])
    for name in fusion["scores"][protocols[0]]:
        rows.append(
            [name, *(_interval(fusion["scores"][protocol][name]) for protocol in protocols), None, None]
        )
    for gain in fusion["gains"]:
        rows.append(
            [
                f"gain of {gain['addition']}",
                *(f"{_interval(gain['gains'][p])} ({gain['verdicts'][p]})" for p in protocols),
                None if gain["reduction"] is None else _interval(gain["reduction"]),
                gain["survives"],
            ]
        )
    beside_time = fusion["against_time"]
    if beside_time:
        cells = [
            f"{_interval(beside_time[p][0])} ({beside_time[p][1]})" if p in beside_time else None
            for p in protocols
        ]
        rows.append(["with readings against with time", *cells, None, None])
    return Table(
        f"{where}: what is gained beside the picture (macro-F1)",
        ("sees", *protocols, "reduction of the gain", "survives"),
        rows,
        f"Late fusion by averaging probabilities; {fusion['pictures']:,} pictures, from {fusion['source']}, classes"
        f" {', '.join(fusion['classes'])}; paired within seed, Student t over seeds.",
    )


def _sharing_figure(name: str, body: Mapping[str, Any]) -> Figure | None:
    """Figure 1: how many pictures share one reading."""
    crop = _shown_crop(body, "sharing")
    if crop is None:
        return None
    shown = [one for one in crop["sharing"] if one["pictures"]]
    # The joint readings matter most; single variables fill what room is left.
    shown.sort(key=lambda one: (not one["name"].startswith("all "), one["name"] != "time"))
    shown = shown[:6]
    if not shown:
        return None
    starts = list(body["settings"]["histogram_from"])
    labels = [
        str(low) if high == low + 1 else (f"{low}–{high - 1}" if high else f"{low}+")
        for low, high in zip(starts, [*starts[1:], None], strict=True)
    ]
    figure, axes = new_figure(7.0, 3.8)
    width = 0.8 / len(shown)
    for number, one in enumerate(shown):
        places = [place + (number - (len(shown) - 1) / 2) * width for place in range(len(labels))]
        axes.bar(places, [100 * share for share in one["histogram"]], width, label=one["name"],
                 color=PALETTE[number % len(PALETTE)])  # fmt: skip
    axes.set_xticks(range(len(labels)), labels)
    axes.set_xlabel("pictures that share one exact reading")
    axes.set_ylabel("share of the pictures, %")
    axes.legend(fontsize=8)
    rows = [[one["name"], *one["histogram"]] for one in shown]
    told = "; ".join(f"{one['name']} is shared by {one['shared']:.0%} of the pictures" for one in shown)
    of = f" ({crop['name']})" if crop["name"] else ""
    return Figure(
        f"{name}{of}: how many pictures share one exact reading. Far right: a reading stands for a whole session.",
        f"Shared readings: {told}.",
        to_svg(figure),
        _csv(["reading", *labels], rows),
    )


def _variance_figure(name: str, body: Mapping[str, Any]) -> Figure | None:
    """Figure 2: share of each variable's variance that the group explains."""
    crop = _shown_crop(body, "explained")
    if crop is None:
        return None
    found = sorted(crop["explained"], key=lambda one: one["eta_squared"])[-2 * _MOST_SHOWN :]
    figure, axes = new_figure(7.0, 1.2 + 0.36 * len(found))
    for place, one in enumerate(found):
        axes.barh(
            place,
            100 * one["eta_squared"],
            0.55,
            color=PALETTE[0],
            label="eta squared" if not place else None,
        )
        axes.plot([100 * one["low"], 100 * one["high"]], [place, place], color=PALETTE[1], linewidth=5,
                  solid_capstyle="butt", label="by chance (permutations, 95 %)" if not place else None)  # fmt: skip
        if one["epsilon_squared"] is not None:
            axes.plot([100 * one["epsilon_squared"]], [place], marker="D", color=PALETTE[4], linestyle="none",
                      label="epsilon squared (bias-corrected)" if not place else None)  # fmt: skip
    axes.set_yticks(range(len(found)), [one["name"] for one in found])
    axes.set_xlabel("share of the variance that the group explains, %")
    axes.set_xlim(min(0, *(100 * (one["epsilon_squared"] or 0) for one in found)), 102)
    axes.legend(fontsize=8, loc="lower right")
    keys = ("name", "kind", "eta_squared", "epsilon_squared", "low", "high", "p", "pictures", "groups")
    most = found[-1]
    of = f" ({crop['name']})" if crop["name"] else ""
    return Figure(
        f"{name}{of}: how much of each reading is explained by {body['groups']['words']}.",
        f"{most['name']} is explained most: eta squared {most['eta_squared']:.2f}, by chance up to {most['high']:.2f}.",
        to_svg(figure),
        _csv(list(keys), [[one[key] for key in keys] for one in found]),
    )


def _margin_figure(name: str, body: Mapping[str, Any]) -> Figure | None:
    """Figure 3: paired differences with intervals and the comparable band."""
    shown = [
        (f"{one['first']} − {one['second']}, {_SHORT[one['protocol']]}", one)
        for one in body["average"]["differences"]
        if one["metric"] == "macro_f1" and one["protocol"] in ("cv", "disjoint", "given")
    ]
    shown += [(f"{one['first']}: mixed − held out", one) for one in body["average"]["drops"]]
    fusion = body["average"]["fusion"]
    for gain in (fusion or {"gains": ()})["gains"]:
        shown += [
            (
                f"picture + {gain['addition']} − picture, {'held out' if protocol == 'disjoint' else 'mixed'}",
                {"interval": interval, "verdict": gain["verdicts"][protocol]},
            )
            for protocol, interval in gain["gains"].items()
        ]
    if not shown:
        return None
    shown.reverse()
    margin = 100 * body["settings"]["margin"]
    colours = {
        "superior": PALETTE[2], "comparable": PALETTE[7], "inferior": PALETTE[4], "undecided": PALETTE[1],
    }  # fmt: skip
    marks = {"superior": "^", "comparable": "o", "inferior": "v", "undecided": "s"}
    figure, axes = new_figure(7.0, 1.2 + 0.3 * len(shown))
    axes.axvspan(-margin, margin, color=PALETTE[7], alpha=0.25, label=f"comparable (±{margin:g} points)")
    seen: set[str] = set()
    for place, (_, one) in enumerate(shown):
        interval, verdict = one["interval"], one["verdict"]
        axes.plot(
            [100 * interval["low"], 100 * interval["high"]],
            [place, place],
            color=colours[verdict],
            linewidth=2,
        )
        axes.plot([100 * interval["mean"]], [place], marker=marks[verdict], color=colours[verdict], linestyle="none",
                  label=None if verdict in seen else verdict)  # fmt: skip
        seen.add(verdict)
    axes.set_yticks(range(len(shown)), [text for text, _ in shown], fontsize=8)
    axes.set_xlabel("difference of macro-F1, points")
    axes.legend(fontsize=8)
    rows = [
        [
            text,
            100 * one["interval"]["mean"],
            100 * one["interval"]["low"],
            100 * one["interval"]["high"],
            one["verdict"],
        ]
        for text, one in reversed(shown)
    ]
    return Figure(
        f"{name}: differences paired within seed, with 95 % intervals and the comparable band.",
        "; ".join(f"{row[0]}: {row[1]:+.1f} points, {row[4]}" for row in rows) + ".",
        to_svg(figure),
        _csv(["difference", "points", "low", "high", "verdict"], rows),
    )


def _score_figure(name: str, body: Mapping[str, Any]) -> Figure | None:
    """Figure 4: scores on mixed and on held-out sessions."""
    scores = body["average"]["scores"]
    mixed = "cv covered" if "cv covered" in scores else "cv"
    protocols = [protocol for protocol in (mixed, "random", "given", "disjoint") if protocol in scores]
    lines: dict[str, dict[str, Mapping[str, float]]] = {
        baseline: {protocol: scores[protocol][baseline]["macro_f1"] for protocol in protocols}
        for baseline in BASELINES
        if baseline in scores[mixed]
    }
    fusion = body["average"]["fusion"]
    if fusion:
        for what in fusion["scores"]["in distribution"]:
            lines[what] = {
                protocol: fusion["scores"][own][what]
                for protocol, own in ((mixed, "in distribution"), ("disjoint", "disjoint"))
                if own in fusion["scores"] and what in fusion["scores"][own]
            }
    names = list(lines)[::-1]
    figure, axes = new_figure(7.0, 1.3 + 0.4 * len(names))
    for number, protocol in enumerate(protocols):
        places = [place for place, one in enumerate(names) if protocol in lines[one]]
        found = [lines[names[place]][protocol] for place in places]
        axes.errorbar(
            [100 * one["mean"] for one in found],
            [place + 0.12 * ((len(protocols) - 1) / 2 - number) for place in places],
            xerr=[
                [100 * (one["mean"] - one["low"]) for one in found],
                [100 * (one["high"] - one["mean"]) for one in found],
            ],
            fmt=MARKERS[number],
            color=PALETTE[number],
            capsize=2,
            label=_SHORT[protocol],
        )
    axes.set_yticks(range(len(names)), names)
    axes.set_xlim(-2, 102)
    axes.set_xlabel("macro-F1, %")
    axes.legend(fontsize=8)
    rows = [
        [one, protocol, values["mean"], values["low"], values["high"]]
        for one in lines
        for protocol, values in lines[one].items()
    ]
    return Figure(
        f"{name}: the same scores on mixed and on held-out sessions. What moves left was memory of sessions.",
        "; ".join(f"{row[0]} on {_SHORT[str(row[1])]}: {row[2]:.2f}" for row in rows) + ".",
        to_svg(figure),
        _csv(["sees", "split", "macro_f1", "low", "high"], rows),
    )


def _interval(values: Mapping[str, Any]) -> str:
    return f"{values['mean']:.3f} [{values['low']:.3f}, {values['high']:.3f}]"


def _percent(value: float | None) -> str | None:
    return None if value is None else f"{100 * value:.1f} %"


def _csv(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return buffer.getvalue()
