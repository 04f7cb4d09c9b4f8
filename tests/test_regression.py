"""Is it slower? Decided by intervals, on times whose answer is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conftest import Command
from planted_latency import planted_entry, planted_model

from bench.prediction import Predictions, predictions_to_json
from bench.regression import compare_latency, compare_robustness, comparison_table, judge, unlike_table
from bench.report.page import text_table
from bench.result import Entry, write_results
from bench.sample import Interval


def interval(lower: float | None, upper: float | None) -> Interval:
    return Interval(lower, upper, 0.98)


@pytest.mark.parametrize(
    ("old", "new", "bounds", "verdict"),
    [
        # 10.6 / 10.1 and 10.8 / 9.9.
        (interval(9.9, 10.1), interval(10.6, 10.8), (1.0495, 1.0909), "undecided"),
        (interval(9.9, 10.1), interval(10.7, 10.9), (1.0594, 1.1010), "slower"),
        (interval(9.9, 10.1), interval(10.0, 10.3), (0.9901, 1.0404), "not slower"),
        (interval(9.9, 10.1), interval(5.0, 5.1), (0.4950, 0.5152), "not slower"),
        # Too few samples bound one side or none.
        (interval(9.9, None), interval(20.0, 21.0), (None, 2.1212), "undecided"),
        (interval(None, 10.0), interval(20.0, None), (2.0, None), "slower"),
        (interval(None, None), interval(None, None), (None, None), "undecided"),
    ],
)
def test_a_pair_is_slower_only_when_the_interval_excludes_what_is_allowed(
    old: Interval, new: Interval, bounds: tuple[float | None, float | None], verdict: str
) -> None:
    lower, upper, found = judge(old, new, 0.05)
    assert found == verdict
    for value, expected in zip((lower, upper), bounds, strict=True):
        assert value == (None if expected is None else pytest.approx(expected, abs=1e-4))


def steady(mean: float, count: int = 400, seed: int = 0) -> list[float]:
    return list(np.random.default_rng(seed).normal(mean, mean / 100, size=count))


def test_pairs_are_matched_by_model_board_runtime_and_threads() -> None:
    old = [
        planted_entry(steady(100)),
        planted_entry(steady(60), threads=2),
        planted_entry(steady(80), board="Pi 3"),
    ]
    new = [
        planted_entry(steady(120, seed=1)),
        planted_entry(steady(60, seed=1), threads=2),
        planted_entry(steady(90), planted_model("vgg16")),
    ]
    found = compare_latency(old, new, 0.05)
    assert [(change.key[0], change.key[4], change.verdict) for change in found.changes] == [
        ("lcnn-int8", 1, "slower"),
        ("lcnn-int8", 2, "not slower"),
    ]
    assert found.slower[0].ratio == pytest.approx(1.2, abs=0.01)
    assert [key[2] for key in found.only_old] == ["Pi 3"]
    assert [key[0] for key in found.only_new] == ["vgg16-int8"]
    table = comparison_table(found, 0.05)
    assert [row[-1] for row in table.rows] == ["slower", "not slower"]
    assert "slower" in text_table(table)


def test_the_same_times_are_never_slower() -> None:
    entry = planted_entry(steady(100))
    assert compare_latency([entry], [entry], 0.05).changes[0].verdict == "not slower"


def test_times_on_other_pictures_are_not_judged() -> None:
    old = [planted_entry(steady(60), pictures="drawn")]
    for mean in (120, 30):
        found = compare_latency(old, [planted_entry(steady(mean), pictures="photo")], 0.05)
        assert found.changes == ()
        assert (found.only_old, found.only_new) == ((), ())
        [pair] = found.unlike
        assert pair.old_pictures == "3 photographs (drawn0)"
        assert pair.new_pictures == "3 photographs (photo0)"
        # Nine tenths of the time is the network's; it is shown.
        assert pair.new_invoke / pair.old_invoke == pytest.approx(mean / 60, rel=0.01)
        assert pair.lower is not None
        assert pair.upper is not None
        assert pair.lower < mean / 60 < pair.upper
        assert "other pictures" in unlike_table(found).title
    # Pictures that nobody knows are not known to be the same.
    unknown = planted_entry(steady(60), pictures=None)
    assert compare_latency([unknown], [unknown], 0.05).changes == ()


def test_of_several_sets_of_pictures_the_same_ones_are_compared() -> None:
    old = [planted_entry(steady(60), pictures="a"), planted_entry(steady(100), pictures="b")]
    new = [planted_entry(steady(120), pictures="b"), planted_entry(steady(60), pictures="c")]
    found = compare_latency(old, new, 0.05)
    assert [change.verdict for change in found.changes] == ["slower"]
    assert found.changes[0].ratio == pytest.approx(1.2, abs=0.01)
    [pair] = found.unlike
    assert (pair.old_pictures[-7:], pair.new_pictures[-7:]) == ("a00000)", "c00000)")


def answers(wrong: int, photographs: int = 40) -> Entry:
    """A robustness entry of a model that errs on the first `wrong` photographs, clean and in fog."""
    truth = np.arange(photographs) % 2
    found = np.where(np.arange(photographs) < wrong, 1 - truth, truth)
    predictions = Predictions(
        labels=("a", "b"),
        identities=tuple(f"{number:016x}" for number in range(photographs)),
        truth=truth,
        bursts=np.arange(photographs) // 4,
        clean=found,
        corrupted={"fog": {1: found}},
    )
    body = {
        "predictions": predictions_to_json(predictions),
        "encoding": {"quality": 85, "text": "JPEG quality 85"},
        "corruption": {"seed": 0, "base": "package", "versions": "numpy 2"},
        "images": {"choice": "held-out"},
    }
    return Entry("robustness", body, None, {"name": f"errs-{wrong}"}, None)


def test_robustness_is_compared_by_the_paired_tests_where_photographs_are_the_same() -> None:
    tables, reasons = compare_robustness([answers(10)], [answers(2), answers(2, photographs=30)])
    assert len(tables) == 1
    assert len(reasons) == 1
    row = tables[0].rows[0]
    # Eight photographs only the first gets wrong, none only the second: exact McNemar is 2 / 2^8.
    assert 8 in row
    assert any(isinstance(cell, float) and cell == pytest.approx(2 / 2**8) for cell in row)
    assert compare_robustness([planted_entry([1.0] * 40)], [answers(2)]) == ([], [])


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name, mean in (("old", 100.0), ("same", 100.5), ("slow", 115.0)):
        write_results(tmp_path / f"{name}.json", [planted_entry(steady(mean, seed=len(name)))], ["test"])
    for name, mean in (("drawn", 50.0), ("photographs", 200.0)):
        write_results(tmp_path / f"{name}.json", [planted_entry(steady(mean), pictures=name)], ["test"])
    write_results(tmp_path / "other.json", [planted_entry(steady(9), planted_model("xception"))], ["test"])
    return tmp_path


@pytest.mark.parametrize(
    ("new", "allowed", "status"),
    [("same", "5%", 0), ("slow", "5%", 1), ("slow", "25%", 0), ("slow", "0.05", 1)],
)
def test_the_exit_status_tells(command: Command, files: Path, new: str, allowed: str, status: int) -> None:
    done = command(
        "mango-bench", "compare", files / "old.json", files / f"{new}.json", "--max-slowdown", allowed
    )
    assert done.returncode == status, done.stderr
    assert ("slower: lcnn-int8" in done.stderr) == (status == 1)
    assert "old p90, ms" in done.stdout


@pytest.mark.parametrize(
    ("new", "allowed", "word"),
    [
        ("other", "5%", "nothing in common"),
        ("photographs", "5%", "not comparable: they were timed on other pictures"),
        ("drawn", "5%", "not comparable: they were timed on other pictures"),
        ("absent", "5%", "absent.json"),
        ("same", "lots", "--max-slowdown"),
    ],
)
def test_what_cannot_be_compared_is_said(
    command: Command, files: Path, new: str, allowed: str, word: str
) -> None:
    done = command(
        "mango-bench", "compare", files / "old.json", files / f"{new}.json", "--max-slowdown", allowed
    )
    assert done.returncode == 2
    assert word in done.stderr
    assert "Traceback" not in done.stderr
