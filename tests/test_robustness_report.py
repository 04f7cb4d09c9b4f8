"""The report's section on robustness: the study's tables and figures, its values beside ours."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from planted_latency import planted_entry

from bench.campaign import summary
from bench.corruption import CORRUPTIONS, SEVERITIES
from bench.encoding import Encoding
from bench.prediction import Predictions
from bench.published import read_published
from bench.reference import find_references
from bench.report.overview import overview
from bench.report.page import render_html, sections
from bench.report.robustness import section
from bench.result import Entry, describe_model, read_results, write_results
from bench.robustness import Measurement, measured_reference, robustness_entry
from bench.section import Section, Table
from bench.selection import Selection, Training
from convert.dataset import Dataset, Photograph
from convert.split import make_split
from edge.classifier import Classifier
from edge.errors import InputError
from edge.files import sha256


def answers(classifier: Classifier, rate: float, seed: int, corruptions: tuple[str, ...]) -> Predictions:
    """Made-up answers that err with a known rate; what is drawn from them does not depend on how they arose."""
    generator = np.random.default_rng(seed)
    truth = np.arange(48) % 8

    def some(share: float) -> Any:
        return np.where(generator.random(48) < share, (truth + 1) % 8, truth)

    return Predictions(
        labels=classifier.contract.labels,
        identities=tuple(f"{number:016x}" for number in range(48)),
        truth=truth,
        bursts=np.arange(48) // 4,
        clean=some(rate / 4),
        corrupted={
            name: {severity: some(min(1.0, rate * severity / 3)) for severity in SEVERITIES}
            for name in corruptions
        },
    )


def make(
    classifier: Classifier, corruptions: tuple[str, ...] = CORRUPTIONS, labelled: bool = True
) -> list[Entry]:
    labels = classifier.contract.labels
    photographs = tuple(
        Photograph(f"{labels[number % 8]}/{number}.jpg", labels[number % 8], sha256(bytes([number])), None)
        for number in range(48)
    )
    data = Dataset(Path("orchard"), labels, photographs, (), ())
    split = make_split("random", data)
    selection = Selection(
        data,
        photographs,
        tuple(range(48)),
        "held-out",
        split,
        None,
        0,
        "held-out test part of the random split",
    )
    if not labelled:
        selection = dataclasses.replace(selection, images="unlabelled", split=None)
    measurement = Measurement((classifier,), 1, selection, corruptions, SEVERITIES, Encoding(), 0)
    one, two = (answers(classifier, rate, seed, corruptions) for seed, rate in ((1, 0.5), (2, 0.4)))
    references = (
        *find_references(()),
        *([measured_reference(two, "two, measured", "x")] if corruptions else []),
    )
    if not labelled:
        one, references = dataclasses.replace(one, truth=None), ()
    baseline = {"accuracy": 0.9, "macro_f1": 0.8, "part": "test", "split": "random"}
    known = Training(0, "none of them was in the training or validation part")
    first = robustness_entry(
        measurement,
        classifier,
        one,
        references,
        known,
        (baseline, ""),
        (classifier, two) if labelled else None,
    )
    second = robustness_entry(
        measurement, classifier, two, references, Training(None, "it cannot be told"), (None, "unknown")
    )
    assert second.model is not None
    second = dataclasses.replace(second, model={**second.model, "digest": "f" * 64})
    return [first, second] if labelled else [first]


@pytest.fixture(scope="module")
def entries(classifier: Classifier) -> list[Entry]:
    return make(classifier)


@pytest.fixture(scope="module")
def part(entries: list[Entry]) -> Section:
    return section(entries)


def table(part: Section, title: str) -> Table:
    found = [one for one in part.tables if title in one.title]
    assert found, [one.title for one in part.tables]
    return found[0]


def column(found: Table, name: str) -> list[Any]:
    place = next(place for place, title in enumerate(found.columns) if name in title)
    return [row[place] for row in found.rows]


def test_tables_3_and_4_hold_the_published_columns_beside_ours(part: Section, entries: list[Entry]) -> None:
    published = read_published()
    for title, key, theirs, means in (
        ("Table 3", "ce", published.ce, published.mce),
        ("Table 4", "relative_ce", published.relative_ce, published.relative_mce),
    ):
        found = table(part, title)
        rows = {str(row[0]).rstrip("*"): row for row in found.rows}
        for name in CORRUPTIONS:
            assert list(rows[name][1:6]) == [theirs[name][model] for model in published.models]
            assert rows[name][6] == entries[0].body["references"][0][key][name]
        mean = rows["mCE" if key == "ce" else "relative mCE"]
        assert list(mean[1:6]) == [means[model] for model in published.models]
    assert {"frost*", "snow*", "spatter*", "elastic_transform*"} <= {
        str(row[0]) for row in table(part, "Table 3").rows
    }


def test_table_2_ranks_from_the_mildest_with_the_published_rank_beside(part: Section) -> None:
    found = table(part, "Table 2")
    values = column(found, "mean macro-F1")
    assert values == sorted(values, reverse=True)
    ranks = dict(
        zip(
            [str(name).rstrip("*") for name in column(found, "corruption")],
            column(found, "rank of LCNN"),
            strict=True,
        )
    )
    assert ranks["pixelate"] == 1
    assert ranks["contrast"] == 19


def test_every_mce_has_its_reference_and_the_raw_error_beside_it(part: Section, entries: list[Entry]) -> None:
    scores = table(part, "Scores")
    assert column(scores, "reference") == ["ResNet-101, published"] * 2
    assert column(scores, "mean error") == [entry.body["scores"]["mean"]["error"] for entry in entries]
    assert column(scores, "time baseline macro-F1") == [0.8, None]
    assert all(name.startswith("random split") for name in column(scores, "split"))
    under = table(part, "each reference")
    names = column(under, "reference")
    assert names[0] == "ResNet-101, published"
    assert {"LCNN, published", "LCNN of another group", "two, measured"} <= set(names)
    assert names[-1] == "none: raw mean error, %"
    assert under.rows[-1][1] == pytest.approx(100 * entries[0].body["scores"]["mean"]["error"])


def test_what_quantisation_costs_has_its_interval(part: Section, entries: list[Entry]) -> None:
    lost = table(part, "lost to quantisation")
    assert column(lost, "mCE, points") == [entries[0].body["quantisation"]["mce"]]
    low, high = map(float, str(lost.rows[0][8]).split(" to "))
    assert low < entries[0].body["quantisation"]["mce"] < high


def test_figure_3_has_a_panel_for_each_corruption_and_all_values_as_csv(
    part: Section, entries: list[Entry]
) -> None:
    figure = part.figures[0]
    rows = list(csv.DictReader(io.StringIO(figure.csv)))
    assert len(rows) == 2 * (1 + 95)
    one = next(row for row in rows if (row["corruption"], row["severity"]) == ("fog", "3"))
    assert float(one["macro_f1"]) == entries[0].body["scores"]["subsets"]["fog"]["3"]["macro_f1"]
    assert float(one["published_mean_macro_f1"]) == read_published().macro_f1["LCNN"]["fog"]
    assert figure.svg.count("jpeg compression") == 1
    ET.fromstring(figure.svg)


def test_figure_4_draws_the_published_models_too(part: Section) -> None:
    rows = list(csv.DictReader(io.StringIO(part.figures[1].csv)))
    assert [row["published"] for row in rows] == ["no", "no"] + ["yes"] * 5
    lcnn = next(row for row in rows if row["model"] == "LCNN")
    assert (float(lcnn["clean_accuracy"]), float(lcnn["mce"]), float(lcnn["relative_mce"])) == (
        0.995,
        48.9,
        134.7,
    )


@pytest.fixture(scope="module")
def other_photographs(entries: list[Entry]) -> Entry:
    """The first entry's model again, as if measured on all photographs relative to VGG-16, where it errs less."""
    body = entries[0].body
    scores = {**body["scores"], "mean": {"error": 0.01, "macro_f1": 0.99}}
    images = {**body["images"], "images": "all", "choice": "all photographs", "digest": "a" * 64}
    reference = {**body["references"][0], "name": "VGG-16, published", "mce": 3.0}
    return dataclasses.replace(
        entries[0],
        body={**body, "scores": scores, "images": images, "references": [reference]},
        data={**(entries[0].data or {}), "split": None, "part": None},
    )


def test_the_first_screen_ranks_robustness_on_the_same_photographs_and_reference_only(
    entries: list[Entry], other_photographs: Entry
) -> None:
    for mixed in ([*entries, other_photographs], [other_photographs, *entries]):
        first = overview(mixed)
        said = [line for line in first.paragraphs if line.startswith("How robust")]
        assert len(said) == 2
        held_out = next(line for line in said if "held-out test part" in line)
        assert "least affected of 2 models" in held_out
        assert f"{min(entry.body['scores']['mean']['error'] for entry in entries):.1%} mean error" in held_out
        assert "ResNet-101, published" in held_out
        other = next(line for line in said if "all photographs" in line)
        assert "least affected" not in other
        assert "mCE 3.0 % of VGG-16, published" in other
        # A line for each selection, each with its own reference.
        found = first.tables[0]
        assert sorted(zip(column(found, "mCE relative to"), column(found, "mCE, %"), strict=True)) == sorted(
            (entry.body["references"][0]["name"], entry.body["references"][0]["mce"]) for entry in mixed
        )
        assert len(set(column(found, "robustness on"))) == 2
        assert "= 100: compare only those with the same" in found.note


def test_each_selection_of_photographs_has_a_plot_of_its_own(
    entries: list[Entry], other_photographs: Entry, classifier: Classifier
) -> None:
    timed = [
        planted_entry([20.0 + number % 5 for number in range(60)], describe_model(classifier.model)),
        planted_entry([30.0] * 60, describe_model(classifier.model), pictures="large"),
    ]
    assert len(overview([*entries, timed[0]]).figures) == 1
    assert len(overview([*entries, *timed]).figures) == 2
    figures = overview([*entries, other_photographs, timed[0]]).figures
    assert len(figures) == 2
    for figure, entry in zip(figures, (entries[0], other_photographs), strict=True):
        assert entry.body["images"]["choice"] in figure.title
        [row] = csv.DictReader(io.StringIO(figure.csv))
        reference = entry.body["references"][0]
        assert float(row[f"mCE, % of {reference['name']}"]) == reference["mce"]
    # The study's Figure 4 likewise; VGG-16 is not what its axes are relative to.
    again = dataclasses.replace(
        other_photographs, body={**other_photographs.body, "references": entries[0].body["references"]}
    )
    made = section([*entries, again])
    assert sum("Figure 4" in figure.title for figure in made.figures) == 2


def test_warnings_name_the_model_they_are_about(part: Section) -> None:
    assert any("it cannot be told" in warning.lower() for warning in part.warnings)
    assert len({warning.split(":")[0] for warning in part.warnings}) == 2


def test_the_page_shows_it_and_the_file_keeps_it(entries: list[Entry], tmp_path: Path) -> None:
    write_results(tmp_path / "r.json", entries, ["mango-bench"])
    back = read_results(tmp_path / "r.json")
    assert list(back) == entries
    page = render_html(sections(back))
    assert "Robustness to corruptions" in page
    assert ">nan<" not in page.lower()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("model",), None),
        (("body", "scores"), None),
        (("body", "scores", "mean"), {}),
        (("body", "scores", "mean", "error"), 0.01),
        (("body", "scores", "clean", "error"), 0.01),
        (("body", "scores", "subsets", "fog", "3", "macro_f1"), 0.99),
        (("body", "scores", "subsets", "smoke"), {}),
        (("body", "changes"), None),
        (("body", "changes", "mean"), 0.001),
        (("body", "references", 0, "mce"), 50.0),
        (("body", "references", 0, "ce", "fog"), 50.0),
        (("body", "references", 0, "decisive"), {}),
        (("body", "time_baseline"), {"accuracy": {}, "macro_f1": 0.5}),
        (("body", "predictions", "truth"), None),
        (("body", "images", "number"), 47),
        (("body", "corruptions"), ["fog"]),
    ],
    ids=lambda value: "/".join(map(str, value)) if isinstance(value, tuple) else None,
)
def test_a_result_that_cannot_be_or_contradicts_its_predictions_is_refused(
    entries: list[Entry], tmp_path: Path, path: tuple[str | int, ...], value: Any
) -> None:
    write_results(tmp_path / "r.json", entries[:1], ["test"])
    values = json.loads((tmp_path / "r.json").read_text())
    inner = values["results"][0]
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    (tmp_path / "r.json").write_text(json.dumps(values))
    with pytest.raises(InputError, match=r"r\.json: "):
        read_results(tmp_path / "r.json")


def test_part_of_the_corruptions_makes_no_figure_4_and_says_how_many(classifier: Classifier) -> None:
    part = section(make(classifier, ("fog", "pixelate")))
    assert len(part.figures) == 1
    assert column(table(part, "Scores"), "reference")[0] == "ResNet-101, published (2 of 19 corruptions)"
    assert len(section(make(classifier, ("fog",))).figures) == 1


def test_clean_pictures_alone_and_pictures_without_labels_are_reported(classifier: Classifier) -> None:
    clean = section(make(classifier, ()))
    assert clean.figures == ()
    assert column(table(clean, "Scores"), "mean error") == [None, None]
    assert column(table(clean, "Scores"), "mCE") == [None, None]
    unlabelled = make(classifier, labelled=False)
    part = section(unlabelled)
    assert [one.title for one in part.tables] == [
        "What was measured",
        "How often a corruption changes the answer",
    ]
    assert "answer changed" in " ".join(summary(unlabelled[0]))
