"""Section on robustness: the study's tables and figures, drawn from result files, its own values beside ours."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from bench.corruption import CORRUPTIONS
from bench.plot import MARKERS, PALETTE, new_figure, to_svg
from bench.published import (
    INCOMPARABLE,
    REFERENCE,
    Published,
    counterpart,
    published_reference,
    read_published,
)
from bench.result import Entry
from bench.section import Cell, Figure, Section, Table

_REFERENCE_NAME = f"{REFERENCE}, published"


def section(entries: Sequence[Entry]) -> Section:
    """All robustness results: what was measured on what, scores, tables 2 to 4, figures 3 and 4."""
    published = read_published()
    labelled = [entry for entry in entries if entry.body["labelled"]]
    corrupted = [entry for entry in labelled if entry.body["corruptions"]]
    tables = [_measured(entries)]
    figures: list[Figure] = []
    if labelled:
        tables.append(_scores(labelled))
    if corrupted:
        tables += [_families(corrupted), _references(corrupted)]
        losses = [entry for entry in corrupted if entry.body["quantisation"]]
        if losses:
            tables.append(_quantisation(losses))
        tables += [_ranking(entry, published, _name(entry, entries)) for entry in corrupted]
        tables += _relative_tables(corrupted, published)
        figures.append(_severity_figure(corrupted, published))
        for group in _selections(corrupted):
            against = _figure_4(group, published)
            if against is not None:
                figures.append(against)
    changed = [entry for entry in entries if entry.body["changes"]]
    if changed:
        tables.append(_changes(changed))
    return Section(
        title="Robustness to corruptions",
        anchor="robustness",
        paragraphs=_paragraphs(entries, published),
        tables=tuple(tables),
        figures=tuple(figures),
        warnings=tuple(
            f"{_name(entry, entries)}: {warning}" for entry in entries for warning in entry.body["warnings"]
        ),
    )


def _paragraphs(entries: Sequence[Entry], published: Published) -> tuple[str, ...]:
    bases = sorted({f"{entry.body['corruption']['base']}" for entry in entries})
    incomparable = "; ".join(f"{name} ({reason})" for name, reason in INCOMPARABLE.items())
    return (
        "Every picture is fitted to the network's input, corrupted, and passed through the stated encoding; the clean"
        " pictures pass through the same encoding. CE is the error under a corruption summed over its severities,"
        " divided by the reference's; mCE its mean over the corruptions; the relative forms count only the increase"
        " over the clean error (Hendrycks & Dietterich 2019). The raw mean error stands beside every mCE, because a"
        " single corruption on which the reference hardly errs can decide an mCE.",
        f"Corruptions: {', '.join(bases)}. Published values are from {published.source}; absolute errors of the"
        " published models are solved from its two tables. They are on the whole data set, training photographs"
        " included, and on a model trained on a random split, so they are to be read beside ours, not against them.",
        f"Not comparable to the point with the published values, because made differently there: {incomparable}.",
        "Intervals are 95 % percentile intervals of a bootstrap that draws whole bursts (photographs at most 60 s"
        " apart); they say nothing about another orchard, camera or season.",
    )


def _measured(entries: Sequence[Entry]) -> Table:
    rows: list[list[Cell]] = []
    for entry in entries:
        images = entry.body["images"]
        rows.append(
            [
                _name(entry, entries),
                _model(entry)["precision"],
                None if entry.data is None else str(entry.data["name"]),
                images["choice"],
                images["number"],
                images["bursts"],
                images["training"],
                entry.body["encoding"]["text"],
                entry.body["corruption"]["seed"],
                entry.body["runtime"],
            ]
        )
    columns = (
        "model", "precision", "data", "photographs", "number", "bursts", "in the model's training", "encoding", "seed",
        "runtime",
    )  # fmt: skip
    return Table("What was measured", columns, rows)


def _scores(entries: Sequence[Entry]) -> Table:
    rows: list[list[Cell]] = []
    for entry in entries:
        scores, baseline = entry.body["scores"], entry.body["time_baseline"] or {}
        limits = {} if entry.body["intervals"] is None else entry.body["intervals"]["values"]
        first = entry.body["references"][0] if entry.body["references"] and scores["mean"] else {}
        decisive = first.get("decisive")
        rows.append(
            [
                _name(entry, entries),
                _split(entry),
                1 - scores["clean"]["error"],
                scores["clean"]["macro_f1"],
                _range(limits.get("clean/macro_f1"), 1, 3),
                baseline.get("accuracy"),
                baseline.get("macro_f1"),
                scores["mean"].get("error"),
                _range(limits.get("mean/error"), 1, 3),
                scores["mean"].get("macro_f1"),
                first.get("mce"),
                _range(limits.get("mce"), 1, 1),
                first.get("relative_mce"),
                _range(limits.get("relative_mce"), 1, 1),
                first.get("name"),
                None if decisive is None else f"{decisive['corruption']} ({decisive['share']:.0%})",
            ]
        )
    columns = (
        "model", "split, part", "clean accuracy", "clean macro-F1", "95 % interval", "time baseline accuracy",
        "time baseline macro-F1", "mean error", "95 % interval ", "mean macro-F1", "mCE", "95 % interval  ",
        "relative mCE", "95 % interval   ", "reference", "largest part of mCE",
    )  # fmt: skip
    note = (
        "Means are over corruptions and severities. The time baseline is a forest on the capture time alone, on the"
        " same split's test part."
    )
    return Table("Scores", columns, rows, note)


def _families(entries: Sequence[Entry]) -> Table:
    columns = ["model", "split, part", "clean"]
    families = list(dict.fromkeys(name for entry in entries for name in entry.body["scores"]["families"]))
    levels = sorted({level for entry in entries for level in entry.body["scores"]["severities"]})
    rows: list[list[Cell]] = []
    for entry in entries:
        scores = entry.body["scores"]
        rows.append(
            [
                _name(entry, entries),
                _split(entry),
                scores["clean"]["error"],
                *(scores["families"].get(family, {}).get("error") for family in families),
                *(scores["severities"].get(level, {}).get("error") for level in levels),
            ]
        )
    return Table(
        "Mean error by family and by severity",
        (*columns, *families, *(f"severity {level}" for level in levels)),
        rows,
    )


def _references(entries: Sequence[Entry]) -> Table:
    """What mCE is under every reference at hand."""
    names = list(
        dict.fromkeys(reference["name"] for entry in entries for reference in entry.body["references"])
    )
    rows: list[list[Cell]] = []
    for name in names:
        row: list[Cell] = [name]
        for entry in entries:
            found: Mapping[str, Any] = next(
                (one for one in entry.body["references"] if one["name"] == name), {}
            )
            decisive = found.get("decisive")
            row += [
                found.get("mce"),
                found.get("relative_mce"),
                None if decisive is None else f"{decisive['corruption']} ({decisive['share']:.0%})",
            ]
        rows.append(row)
    rows.append(
        ["none: raw mean error, %"]
        + [
            cell
            for entry in entries
            for cell in (100 * float(entry.body["scores"]["mean"]["error"]), None, None)
        ]
    )
    columns = ["reference"]
    for entry in entries:
        name = _label(entry, entries)
        columns += [f"{name}: mCE", f"{name}: relative mCE", f"{name}: largest part of mCE"]
    return Table(
        "mCE under each reference at hand",
        tuple(columns),
        rows,
        "With 19 equal parts each would be 5 %: a part far above that decides the mCE.",
    )


def _quantisation(entries: Sequence[Entry]) -> Table:
    rows: list[list[Cell]] = []
    for entry in entries:
        lost = entry.body["quantisation"]
        limits = lost["intervals"] or {}
        rows.append(
            [
                _name(entry, entries),
                lost["against"]["name"],
                _split(entry),
                100 * lost["clean_error"],
                _range(limits.get("clean_error"), 100, 2),
                100 * lost["error"],
                _range(limits.get("error"), 100, 2),
                lost["mce"],
                _range(limits.get("mce"), 1, 2),
                lost["relative_mce"],
                _range(limits.get("relative_mce"), 1, 2),
                lost["agreement"],
            ]
        )
    columns = (
        "model", "against", "split, part", "clean error, points", "95 % interval", "mean error, points",
        "95 % interval ", "mCE, points", "95 % interval  ", "relative mCE, points", "95 % interval   ",
        "same class on corrupted pictures",
    )  # fmt: skip
    note = "Model minus the one it is held against, on the same pictures: positive is robustness lost."
    return Table("Robustness lost to quantisation", columns, rows, note)


def _ranking(entry: Entry, published: Published, name: str) -> Table:
    """The study's Table 2: corruptions from mildest to worst by mean macro-F1, its own ranking beside ours."""
    ours = sorted(
        ((one, float(values["macro_f1"])) for one, values in entry.body["scores"]["corruptions"].items()),
        key=lambda pair: (-pair[1], pair[0]),
    )
    model = counterpart(published, str(_model(entry)["architecture"]))
    theirs = (
        []
        if model is None
        else sorted(published.macro_f1[model].items(), key=lambda pair: (-pair[1], pair[0]))
    )
    rank = {one: place for place, (one, _) in enumerate(theirs, 1)}
    rows: list[list[Cell]] = []
    for place, (one, value) in enumerate(ours, 1):
        row: list[Cell] = [place, one + ("*" if one in INCOMPARABLE else ""), value]
        if model is not None:
            row += [rank.get(one), published.macro_f1[model].get(one)]
        rows.append(row)
    columns = ["rank", "corruption", "mean macro-F1"]
    if model is not None:
        columns += [f"rank of {model}, published", f"mean macro-F1 of {model}, published"]
    return Table(
        f"Ranking of the corruptions for {name} (the study's Table 2)",
        tuple(columns),
        rows,
        f"{_split(entry)}. * not comparable to the point with the published value.",
    )


def _relative_tables(entries: Sequence[Entry], published: Published) -> list[Table]:
    """The study's Tables 3 (CE) and 4 (relative CE) with our models as further columns."""
    found: list[Table] = []
    pairs = [(entry, _published_reference(entry)) for entry in entries]
    usable = [(entry, reference) for entry, reference in pairs if reference is not None and reference["ce"]]
    if not usable:
        return []
    names = [name for name in CORRUPTIONS if any(name in reference["ce"] for _, reference in usable)]
    for title, key, mean, columns, means in (
        ("CE", "ce", "mce", published.ce, published.mce),
        ("Relative CE", "relative_ce", "relative_mce", published.relative_ce, published.relative_mce),
    ):
        rows: list[list[Cell]] = [
            [
                "clean error, %",
                *(100 * published.clean[model] for model in published.models),
                *(100 * entry.body["scores"]["clean"]["error"] for entry, _ in usable),
            ],
            [
                "m" + title if title == "CE" else "relative mCE",
                *(means[model] for model in published.models),
                *(reference[mean] for _, reference in usable),
            ],
        ]
        if title == "CE":
            rows.append(
                [
                    "mean error, %",
                    *(_published_mean(published, model) for model in published.models),
                    *(100 * entry.body["scores"]["mean"]["error"] for entry, _ in usable),
                ]
            )
        rows += [
            [
                name + ("*" if name in INCOMPARABLE else ""),
                *(columns[name][model] for model in published.models),
                *(reference[key].get(name) for _, reference in usable),
            ]
            for name in names
        ]
        found.append(
            Table(
                f"{title} of each corruption, % of {REFERENCE} (the study's Table {3 if title == 'CE' else 4})",
                (
                    "corruption",
                    *(f"{model}, published" for model in published.models),
                    *(f"{_name(entry, entries)}, {_split(entry)}" for entry, _ in usable),
                ),
                rows,
                "Published columns: the study's five models on the whole data set, training photographs included."
                " * not comparable to the point with the published values.",
            )
        )
    return found


def _severity_figure(entries: Sequence[Entry], published: Published) -> Figure:
    """The study's Figure 3: macro-F1 against severity, one panel for each corruption."""
    names = [
        name for name in CORRUPTIONS if any(name in entry.body["scores"]["subsets"] for entry in entries)
    ]
    columns = min(5, len(names))
    rows = -(-len(names) // columns)
    figure, axes = new_figure(2.1 * columns + 0.6, 1.8 * rows + 0.7, rows, columns)
    panels = list(axes.flat) if len(names) > 1 else [axes]
    buffer = io.StringIO()
    table = csv.writer(buffer, lineterminator="\n")
    table.writerow(
        [
            "model",
            "data",
            "corruption",
            "severity",
            "macro_f1",
            "error",
            "published_model",
            "published_mean_macro_f1",
        ]
    )
    drawn: set[tuple[str, str]] = set()
    for place, entry in enumerate(entries):
        model = counterpart(published, str(_model(entry)["architecture"]))
        colour, marker = PALETTE[place % len(PALETTE)], MARKERS[place % len(MARKERS)]
        clean = entry.body["scores"]["clean"]
        table.writerow(
            [_name(entry, entries), _split(entry), "clean", 0, clean["macro_f1"], clean["error"], "", ""]
        )
        for name, panel in zip(names, panels, strict=False):
            row = entry.body["scores"]["subsets"].get(name, {})
            levels = [0, *map(int, row)]
            values = [clean["macro_f1"], *(score["macro_f1"] for score in row.values())]
            panel.plot(
                levels,
                values,
                color=colour,
                marker=marker,
                markersize=3,
                linewidth=1.2,
                label=_label(entry, entries),
            )
            mean = None if model is None else published.macro_f1[model].get(name)
            if mean is not None and model is not None and (name, model) not in drawn:
                drawn.add((name, model))
                panel.axhline(
                    mean, color="#7A7A7A", linestyle="--", linewidth=1, label=f"{model}, published (mean)"
                )
            for level, score in row.items():
                table.writerow(
                    [_name(entry, entries), _split(entry), name, level, score["macro_f1"], score["error"], model or "",
                     "" if mean is None else mean]
                )  # fmt: skip
    for name, panel in zip(names, panels, strict=False):
        panel.set_title(name.replace("_", " ") + ("*" if name in INCOMPARABLE else ""), fontsize=9)
        panel.set_ylim(-0.02, 1.02)
        panel.set_xticks(range(6))
        panel.tick_params(labelsize=7)
    for panel in panels[len(names) :]:
        panel.set_visible(False)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=8)
    worst = min(
        ((name, score["macro_f1"]) for entry in entries for name, score in entry.body["scores"]["corruptions"].items()),
        key=lambda pair: pair[1],
    )  # fmt: skip
    return Figure(
        title="Macro-F1 against severity (0: clean), one panel a corruption (the study's Figure 3). Dashed: the"
        " published mean over severities 1 to 5. * not comparable to the point.",
        alternative=f"{len(entries)} models under {len(names)} corruptions of severity 1 to 5. The lowest mean macro-F1"
        f" is {worst[1]:.2f} under {worst[0].replace('_', ' ')}.",
        svg=to_svg(figure),
        csv=buffer.getvalue(),
    )


def _figure_4(entries: Sequence[Entry], published: Published) -> Figure | None:
    """The study's Figure 4: clean accuracy against mCE and relative mCE, of entries on the same photographs."""
    points: list[tuple[str, str, float, float, float | None, bool]] = []
    for entry in entries:
        found = _published_reference(entry)
        if found is None or found["mce"] is None or len(found["ce"]) < len(CORRUPTIONS):
            continue
        accuracy = 1 - float(entry.body["scores"]["clean"]["error"])
        points.append(
            (_name(entry, entries), _split(entry), accuracy, found["mce"], found["relative_mce"], False)
        )
    if not points:
        return None
    best = min(points, key=lambda point: point[3])
    points += [
        (model, "published, whole data set", 1 - published.clean[model], published.mce[model],
         published.relative_mce[model], True)
        for model in published.models
    ]  # fmt: skip
    figure, axes = new_figure(8.0, 3.8, 1, 2)
    buffer = io.StringIO()
    table = csv.writer(buffer, lineterminator="\n")
    table.writerow(["model", "data", "clean_accuracy", "mce", "relative_mce", "published"])
    for place, (name, data, accuracy, mce, relative, theirs) in enumerate(points):
        table.writerow(
            [name, data, accuracy, mce, "" if relative is None else relative, "yes" if theirs else "no"]
        )
        colour = "#7A7A7A" if theirs else PALETTE[place % len(PALETTE)]
        marker = "x" if theirs else MARKERS[place % len(MARKERS)]
        for panel, value in zip(axes, (mce, relative), strict=True):
            if value is None:
                continue
            panel.scatter([100 * accuracy], [value], color=colour, marker=marker, s=40)
            panel.annotate(
                name, (100 * accuracy, value), xytext=(4, 4), textcoords="offset points", fontsize=7
            )
    for panel, label in zip(axes, ("mCE", "relative mCE"), strict=True):
        panel.set_xlabel("clean accuracy, %")
        panel.set_ylabel(f"{label}, % of {REFERENCE}")
        panel.margins(x=0.18, y=0.12)
    return Figure(
        title=f"Clean accuracy against mCE and relative mCE, % of {REFERENCE} (the study's Figure 4), {best[1]}. Grey"
        " crosses: the published models, on other photographs.",
        alternative=f"{len(points)} models. The lowest mCE of ours is {best[3]:.1f} of {best[0]} ({best[1]}) at"
        f" {best[2]:.1%} clean accuracy.",
        svg=to_svg(figure),
        csv=buffer.getvalue(),
    )


def _changes(entries: Sequence[Entry]) -> Table:
    names = [
        name for name in CORRUPTIONS if any(name in entry.body["changes"]["corruptions"] for entry in entries)
    ]
    rows: list[list[Cell]] = [
        ["mean", *(float(entry.body["changes"]["mean"]) for entry in entries)],
        *([name, *(entry.body["changes"]["corruptions"].get(name) for entry in entries)] for name in names),
    ]
    return Table(
        "How often a corruption changes the answer",
        ("corruption", *(f"{_name(entry, entries)}, {_split(entry)}" for entry in entries)),
        rows,
        "Share of the corrupted pictures whose predicted class is not that of the clean picture; needs no labels.",
    )


def _published_reference(entry: Entry) -> Mapping[str, Any] | None:
    found: Mapping[str, Any] | None = next(
        (one for one in entry.body["references"] if one["name"].split(" (")[0] == _REFERENCE_NAME), None
    )
    return found


def _published_mean(published: Published, model: str) -> float:
    """Mean error in percent over all corruptions, solved from the tables."""
    means = published_reference(published, model).means
    return 100 * sum(means.values()) / len(means)


def _model(entry: Entry) -> Mapping[str, Any]:
    assert entry.model is not None
    return entry.model


def _name(entry: Entry, entries: Sequence[Entry]) -> str:
    """The model's name; with the start of its digest where another model has the same."""
    name = str(_model(entry)["name"])
    digests = {_model(other)["digest"] for other in entries if _model(other)["name"] == name}
    return name if len(digests) < 2 else f"{name} ({_model(entry)['digest'][:6]})"


def _selections(entries: Sequence[Entry]) -> list[list[Entry]]:
    """The entries, those on the same photographs together."""
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(str(entry.body["images"]["digest"]), []).append(entry)
    return list(groups.values())


def _label(entry: Entry, entries: Sequence[Entry]) -> str:
    """The model's name; with the photographs where the entries are on several selections of them."""
    name = _name(entry, entries)
    return name if len(_selections(entries)) < 2 else f"{name}, {_split(entry)}"


def _split(entry: Entry) -> str:
    data = entry.data or {}
    if data.get("split"):
        return f"{data['split']} split (seed {data.get('seed')}), {data.get('part')}"
    return {
        "all": "all photographs, training included",
        "fresh": "fresh photographs",
        "unlabelled": "no labels",
    }.get(str(entry.body["images"]["images"]), str(entry.body["images"]["choice"]))


def _range(bounds: Sequence[float] | None, scale: float, digits: int) -> str | None:
    return None if bounds is None else f"{scale * bounds[0]:.{digits}f} to {scale * bounds[1]:.{digits}f}"
