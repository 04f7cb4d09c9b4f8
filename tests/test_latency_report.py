"""The latency section and the first screen, drawn from made-up results of several models and devices."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from conftest import Command
from planted_latency import planted_entry, planted_model, planted_soak

from bench.report.latency import section
from bench.report.overview import overview, summary_csv
from bench.report.page import render_html, sections, write_report
from bench.result import Entry, write_results
from bench.sample import end_to_end, percentile_interval
from bench.section import Section, Table


def times(mean: float, count: int = 300) -> list[float]:
    return list(np.random.default_rng(int(mean)).normal(mean, mean / 50, size=count))


BUSY = "busy: other programs used 0.80 cores while measuring"


@pytest.fixture(scope="module")
def entries() -> list[Entry]:
    """LCNN in two precisions on a Pi 4, one of them on two threads and on a slow and busy Pi 3 too; VGG untrained."""
    return [
        planted_entry(times(100), planted_model("lcnn", "float32")),
        planted_entry(times(60), planted_model("lcnn", "int8"), soak=planted_soak()),
        planted_entry(times(40), planted_model("lcnn", "int8"), threads=2),
        planted_entry(times(900, 20), planted_model("vgg16", "int8", None)),
        planted_entry(times(200), planted_model("lcnn", "int8"), board="Raspberry Pi 3", suspect=[BUSY]),
    ]


@pytest.fixture(scope="module")
def part(entries: list[Entry]) -> Section:
    return section(entries)


def table(part: Section, title: str) -> Table:
    return next(one for one in part.tables if one.title.startswith(title))


def test_the_first_screen_answers_the_four_questions(entries: list[Entry]) -> None:
    text = " ".join(overview(entries).paragraphs)
    assert "How fast on Raspberry Pi 4 Model B Rev 1.4: lcnn-int8 is the fastest" in text
    assert "2 threads" in text
    assert (
        "Which model on Raspberry Pi 4 Model B Rev 1.4: lcnn-float32 has the highest macro-F1, 0.710" in text
    )
    assert (
        "the capture time alone, without a picture, reaches 0.500: lcnn-float32 0.710, lcnn-int8 0.700."
        in text
    )
    assert "How fast on Raspberry Pi 3: lcnn-int8" in text


def test_the_gain_of_quantisation_is_told_for_equal_conditions() -> None:
    quick = [
        planted_entry([100.0] * 50, planted_model("lcnn", "float32")),
        planted_entry([60.0] * 50, planted_model("lcnn", "int8")),
        planted_entry([20.0] * 50, planted_model("lcnn", "int8"), threads=4),
        planted_entry([10.0] * 50, planted_model("lcnn", "int8", "other weights")),
    ]
    (answer,) = [line for line in overview(quick).paragraphs if line.startswith("Quantisation")]
    assert "lcnn 1.67 times as fast (p90 60.0 against 100.0 ms), 28% of the size, macro-F1 -0.0100." in answer


def test_times_on_other_pictures_are_neither_ranked_nor_taken_for_the_gain_of_quantisation() -> None:
    mixed = [
        planted_entry([100.0] * 50, planted_model("lcnn", "float32"), pictures="large"),
        planted_entry([20.0] * 50, planted_model("lcnn", "int8"), pictures="small"),
    ]
    first = overview(mixed)
    assert not any(line.startswith("Quantisation") for line in first.paragraphs)
    fast = [line for line in first.paragraphs if line.startswith("How fast")]
    assert [line.split(" is the fastest")[0] for line in fast] == [
        "How fast on Raspberry Pi 4 Model B Rev 1.4 with 3 photographs (large0): lcnn-float32",
        "How fast on Raspberry Pi 4 Model B Rev 1.4 with 3 photographs (small0): lcnn-int8",
    ]
    column = first.tables[0].columns.index("pictures")
    assert [row[column] for row in first.tables[0].rows] == [
        "3 photographs (large0)",
        "3 photographs (small0)",
    ]
    made = section(
        [*mixed, planted_entry([50.0] * 50, planted_model("lcnn", "int8"), "Pi 3", pictures="large")]
    )
    beside = table(made, "Devices side by side")
    assert [(row[0], row[-1]) for row in beside.rows] == [
        ("lcnn-float32", "3 photographs (large0)"),
        ("lcnn-int8", "3 photographs (small0)"),
        ("lcnn-int8", "3 photographs (large0)"),
    ]
    assert any("Not all runs went round the same pictures" in text for text in made.paragraphs)


def test_an_older_file_gets_the_interval_that_holds_as_often_as_promised() -> None:
    entry = planted_entry(times(60))
    whole = end_to_end(entry.body["samples"])
    old = percentile_interval(whole, 90, 0.95)
    stated = {**asdict(old), "width": old.width(entry.body["end_to_end"]["p90"])}
    older = replace(entry, body={**entry.body, "p90_interval": stated})
    shown = [table(section([one]), "Warm").rows[0][8] for one in (entry, older)]
    assert shown[0] == shown[1]


def test_no_model_is_recommended_when_none_was_trained() -> None:
    alone = [planted_entry(times(900, 50), planted_model("vgg16", "int8", None))]
    assert any("no trained model was timed" in line for line in overview(alone).paragraphs)


def test_a_first_screen_without_a_model_has_no_empty_table() -> None:
    first = overview([])
    assert first.tables == ()
    assert first.paragraphs == ("Nothing was timed and no robustness was measured in these results.",)


def test_suspect_runs_are_marked_everywhere(entries: list[Entry], part: Section) -> None:
    first = overview(entries)
    assert any("Raspberry Pi 3" in warning and "1 of 1 runs" in warning for warning in first.warnings)
    assert any(warning.startswith("Suspect times, busy") for warning in part.warnings)
    rows = list(csv.DictReader(io.StringIO(summary_csv(entries))))
    assert [row["machine"] for row in rows if row["board"] == "Raspberry Pi 3"] == ["suspect"]
    assert {row["machine"] for row in rows if row["board"] != "Raspberry Pi 3"} == {"clean"}
    assert [row[-1] for row in table(part, "Warm").rows] == ["clean"] * 4 + ["suspect"]
    assert BUSY in str(table(part, "State").rows[-1][-1])


def test_a_bound_that_was_hit_is_a_warning(part: Section) -> None:
    # Twenty queries bound no p90 from above.
    (warning,) = [text for text in part.warnings if text.startswith("Ended by the maximum time")]
    assert "vgg16-int8" in warning
    assert "unknown" in warning
    row = next(row for row in table(part, "Warm").rows if row[0] == "vgg16-int8")
    assert str(row[8]).endswith("to ?")


def test_devices_stand_side_by_side(part: Section) -> None:
    beside = table(part, "Devices side by side")
    assert beside.columns == ("model", "Raspberry Pi 4 Model B Rev 1.4", "Raspberry Pi 3", "pictures")
    by_name = {row[0]: row[1:3] for row in beside.rows}
    assert by_name["vgg16-int8"][1] is None
    four, three = by_name["lcnn-int8"]
    assert isinstance(four, float)
    assert isinstance(three, float)
    # The faster of one and two threads counts.
    assert four == pytest.approx(41, abs=1)
    assert three == pytest.approx(205, abs=3)


def test_figures_hold_what_was_measured(part: Section) -> None:
    titles = [figure.title for figure in part.figures]
    assert [title.split()[0] for title in titles] == ["Distribution", "Where", "Threads:", "Sustained"]
    soak = part.figures[3]
    assert "3 of 6 points throttled" in soak.title
    assert "1.50 times" in soak.alternative
    rows = list(csv.DictReader(io.StringIO(soak.csv)))
    assert [row["clock_mhz"] for row in rows] == ["1800.0"] * 3 + ["1200.0"] * 3
    assert {row["cooling_state"] for row in rows} == {""}
    stages = list(csv.DictReader(io.StringIO(part.figures[1].csv)))
    assert len(stages) == 5 * 6
    for figure in part.figures:
        assert figure.alternative
        assert figure.svg.startswith("<svg")


def test_cold_start_peer_and_missing_sensors_are_told(part: Section) -> None:
    cold = table(part, "Cold start")
    assert cold.rows[0][-2:] == [pytest.approx(373.1), pytest.approx(61.0)]
    peer = table(part, "The nearest public script")
    assert peer.rows[1][1:3] == [300, pytest.approx(0.9 * 60, abs=1)]
    image = next(row for row in table(part, "Machines").rows if row[0] == "image")
    assert image[1] == "– (not a Raspberry Pi OS image)"
    assert any("1.50 µs" in text for text in part.paragraphs)


def test_operators_are_summed_up_by_kind_and_delegation_is_told() -> None:
    profile = [
        ("CONV", "Delegate", 30.0),
        ("RELU", "Builtin", 50.0),
        ("CONV", "Delegate", 15.0),
        ("PAD", "Builtin", 5.0),
    ]
    made = section([planted_entry(times(100), operators=profile), planted_entry(times(90), threads=2)])
    (row,) = table(made, "Operators").rows
    assert row[1:4] == ["1 x RELU", 50.0, 0.5]
    assert row[4:7] == ["2 x CONV", 45.0, pytest.approx(0.45)]
    assert row[-2:] == [100.0, pytest.approx(0.55)]
    assert any(
        "No operators of some or all runs: the runtime offers none." in text for text in made.paragraphs
    )


def test_a_soak_without_sensors_says_so() -> None:
    soak = planted_soak()
    for name in ("temperature_c", "clock_mhz", "throttle_flags"):
        soak["series"][name] = [None] * 6
        soak["reasons"][name] = "no sensor"
    (figure,) = [
        f for f in section([planted_entry(times(60), soak=soak)]).figures if f.title.startswith("Sust")
    ]
    assert "throttling unknown" in figure.title
    assert "No °C: no sensor." in figure.title


def test_the_command_writes_page_text_and_tables(
    command: Command, entries: list[Entry], tmp_path: Path
) -> None:
    write_results(tmp_path / "a.json", entries[:3], ["test"])
    write_results(tmp_path / "b.json", entries[2:], ["test"])
    done = command(
        "mango-bench", "report", tmp_path / "a.json", tmp_path / "b.json", "--out", tmp_path / "out"
    )
    assert done.returncode == 0, done.stderr
    written = {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.*")}
    assert {
        "report.html",
        "report.md",
        "summary.csv",
        "figures/latency-1.svg",
        "figures/latency-4.csv",
    } <= written
    # The entry that stands in both files counts once.
    assert len((tmp_path / "out" / "summary.csv").read_text().splitlines()) == 1 + 5
    assert (tmp_path / "out" / "report.html").read_text() == render_html(sections(reordered(entries)))


def reordered(entries: list[Entry]) -> list[Entry]:
    return list({id(entry): entry for entry in [*entries[:3], *entries[2:]]}.values())


def test_the_same_results_give_the_same_files(entries: list[Entry], tmp_path: Path) -> None:
    first = {path.name: path.read_bytes() for path in write_report(entries[:1], tmp_path / "one")}
    second = {path.name: path.read_bytes() for path in write_report(entries[:1], tmp_path / "two")}
    assert first == second


@pytest.mark.parametrize(
    "content", ["", "[]", '{"format": "mango-leaf-result", "version": 9, "results": []}']
)
def test_files_that_are_no_results_are_named(command: Command, tmp_path: Path, content: str) -> None:
    (tmp_path / "odd.json").write_text(content)
    done = command("mango-bench", "report", tmp_path / "odd.json", "--out", tmp_path / "out")
    assert done.returncode == 2
    assert "odd.json" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()
