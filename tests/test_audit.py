"""The audit on data whose answer is known beforehand."""

from __future__ import annotations

import csv
import json
import resource
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Command
from PIL import Image

from bench.audit import audit
from bench.baseline import Settings
from bench.cli.audit import _lines
from bench.embedding import Embeddings
from bench.fold import stratified
from bench.fusion import match, score_fusion
from bench.reading import Readings, Variable, read_readings
from bench.report.audit import section
from bench.report.page import render_html, sections
from bench.result import Entry, read_results, write_results
from bench.session import grouping
from edge.classifier import DEFAULT_MODEL
from edge.errors import InputError
from edge.files import sha256

QUICK = Settings(seeds=3, trees=10)
START = datetime(2021, 11, 6, 8, 0, 0)
CLASSES = ("blight", "healthy", "rust")


def made(
    sessions: int = 30,
    pictures: int = 12,
    label: Callable[[int, int], int] = lambda session, picture: session % 3,
    sensor: Callable[[np.random.Generator, int, int], float] | None = None,
    seed: int = 0,
) -> Readings:
    """Sessions some hours apart in shuffled order, pictures ten seconds apart; classes and a sensor by rule."""
    generator = np.random.default_rng(seed)
    place = generator.permutation(sessions)
    labels, times, groups, values = [], [], [], []
    for session in range(sessions):
        for picture in range(pictures):
            labels.append(label(session, picture))
            times.append(START + timedelta(hours=5 * int(place[session]), seconds=10 * picture))
            groups.append(f"s{session:03d}")
            values.append(0.0 if sensor is None else sensor(generator, session, labels[-1]))
    count = len(labels)
    return Readings(
        path=Path("made.csv"),
        source="table",
        digest="0" * 64,
        classes=CLASSES[: max(labels) + 1],
        labels=np.array(labels, dtype=np.int64),
        times=tuple(times),
        groups=tuple(groups),
        crops=("",),
        crop=np.zeros(count, dtype=np.int64),
        variables=() if sensor is None else (Variable("humidity", "sensor", np.array(values)),),
        names=tuple(f"{row}.jpg" for row in range(count)),
        files=(None,) * count,
        columns={"label": "label"},
    )


def permuted(readings: Readings, seed: int = 1) -> Readings:
    return replace(readings, labels=np.random.default_rng(seed).permutation(readings.labels))


def of_session(generator: np.random.Generator, session: int, label: int) -> float:
    """A logger that wrote one value a session, which has nothing to do with the class."""
    return float(np.random.default_rng(1000 + session).normal())


def of_class(generator: np.random.Generator, session: int, label: int) -> float:
    """A sensor that measures something of the disease, with noise of its own."""
    return float(label + generator.normal(0, 0.25))


def seen_by_picture(readings: Readings, right: float = 0.6, seed: int = 2) -> Embeddings:
    """An image model that names the class of a picture with probability `right`, whatever the session."""
    generator = np.random.default_rng(seed)
    classes = len(readings.classes)
    said = np.where(
        generator.random(len(readings)) < right,
        readings.labels,
        generator.integers(0, classes, len(readings)),
    )
    probabilities = np.full((len(readings), classes), 0.2, np.float32)
    probabilities[np.arange(len(readings)), said] = 0.6
    blank = ("",) * len(readings)
    return Embeddings("", readings.classes, readings.names, blank, blank, probabilities, None)


def f1(entry: Entry, protocol: str, baseline: str) -> float:
    return float(entry.body["average"]["scores"][protocol][baseline]["macro_f1"]["mean"])


def run(readings: Readings, **options: Any) -> Entry:
    options.setdefault("settings", QUICK)
    return audit(readings, permutations=20, **options)


def test_permuted_labels_score_like_chance_and_no_leak_is_found() -> None:
    entry = run(permuted(made(sensor=of_session)))
    for protocol in ("cv", "disjoint"):
        for baseline in ("time", "sensors", "time + sensors"):
            assert f1(entry, protocol, baseline) == pytest.approx(1 / 3, abs=0.08)
    verdict = entry.body["verdict"]
    assert (verdict["finding"], verdict["leaks"]) == ("none", [])
    assert "Nothing beside the picture gives the class away" in verdict["paragraph"]


def test_a_planted_session_leak_is_found_and_the_clock_does_as_well_as_the_sensor() -> None:
    entry = run(made(sensor=of_session))
    assert f1(entry, "cv", "time") > 0.95
    assert f1(entry, "cv", "sensors") > 0.9
    assert f1(entry, "disjoint", "sensors") < 0.55
    assert f1(entry, "disjoint", "time") < 0.65
    verdict = entry.body["verdict"]
    assert verdict["finding"] == "leak"
    assert {"time", "sensors"} <= set(verdict["leaks"])
    crop = entry.body["crops"][0]
    [humidity] = [one for one in crop["sharing"] if one["name"] == "humidity"]
    assert humidity["leak"]["random"] == 1.0
    assert humidity["leak"]["disjoint"] == 0.0
    assert (humidity["shared"], humidity["most"], humidity["sessions"]) == (1.0, 12, 1.0)
    [variance] = [one for one in crop["explained"] if one["name"] == "humidity"]
    assert variance["eta_squared"] > 0.999
    drops = {drop["first"]: drop["verdict"] for drop in entry.body["average"]["drops"]}
    assert drops["sensors"] == drops["time"] == "superior"
    beside = [
        one
        for one in entry.body["average"]["differences"]
        if (one["protocol"], one["first"], one["second"], one["metric"])
        == ("cv", "time", "sensors", "macro_f1")
    ]
    assert beside[0]["verdict"] in ("superior", "comparable", "undecided")
    assert beside[0]["interval"]["mean"] > -0.02


def test_a_gain_that_is_memory_of_sessions_does_not_survive() -> None:
    readings = made(sensor=of_session)
    entry = run(readings, embeddings=seen_by_picture(readings))
    gains = {gain["addition"]: gain for gain in entry.body["crops"][0]["fusion"]["gains"]}
    assert gains["sensors"]["gains"]["in distribution"]["mean"] > 0.15
    assert gains["sensors"]["survives"] == gains["time"]["survives"] == "no"
    assert gains["sensors"]["reduction"]["low"] > 0.1
    assert "does not survive" in entry.body["verdict"]["paragraph"]


def test_a_clock_that_tells_classes_of_unseen_sessions_is_not_said_to_know_the_disease() -> None:
    readings = made()
    hours = np.array([(time - START).total_seconds() / 3600 for time in readings.times if time is not None])
    # Each class has a season of its own, so a session that is held out lies between others of its class.
    readings = replace(readings, labels=(3 * hours / (hours.max() + 1)).astype(np.int64))
    entry = run(readings, embeddings=seen_by_picture(readings))
    [gain] = entry.body["crops"][0]["fusion"]["gains"]
    assert (gain["addition"], gain["survives"]) == ("time", "yes")
    assert "something wider than these sessions" in entry.body["verdict"]["paragraph"]
    assert "so it is real" not in entry.body["verdict"]["paragraph"]


def test_sensors_that_help_across_sessions_are_said_to_help() -> None:
    readings = made(label=lambda session, picture: picture % 3, sensor=of_class)
    entry = run(readings, embeddings=seen_by_picture(readings))
    assert f1(entry, "disjoint", "sensors") > 0.8
    assert f1(entry, "cv", "time") < 0.5
    verdict = entry.body["verdict"]
    assert (verdict["finding"], verdict["leaks"]) == ("none", [])
    gains = {gain["addition"]: gain for gain in entry.body["crops"][0]["fusion"]["gains"]}
    assert gains["sensors"]["verdicts"]["disjoint"] == "superior"
    assert gains["sensors"]["survives"] == "yes"
    assert gains["time"]["survives"] in ("none", "undecided")
    assert "the gain survives on sessions that were never seen" in verdict["paragraph"]
    assert "knowledge about the disease" in verdict["paragraph"]
    assert "Nothing beside the picture gives the class away" not in verdict["paragraph"]


def test_a_leaking_clock_does_not_hide_that_the_sensors_gain_survives() -> None:
    readings = made(sensor=of_class)
    entry = run(readings, embeddings=seen_by_picture(readings))
    assert entry.body["verdict"]["leaks"] == ["time"]
    gains = {gain["addition"]: gain["survives"] for gain in entry.body["crops"][0]["fusion"]["gains"]}
    assert gains == {"sensors": "yes", "time": "no"}


def test_constant_and_missing_readings_are_borne() -> None:
    readings = made()
    values = np.full(len(readings), np.nan)
    values[::7] = 3.0
    constant = Variable("constant", "sensor", np.full(len(readings), 5.0))
    entry = run(
        replace(readings, variables=(constant, Variable("sparse", "sensor", values))),
    )
    assert f1(entry, "cv", "sensors") < 0.45
    assert "sensors" not in entry.body["verdict"]["leaks"]
    assert [one["name"] for one in entry.body["crops"][0]["explained"]] == ["time"]
    [sparse] = [one for one in entry.body["crops"][0]["sharing"] if one["name"] == "sparse"]
    assert sparse["pictures"] == len(range(0, len(readings), 7))


def test_being_missing_can_itself_leak_and_is_found() -> None:
    readings = made()
    values = np.where(readings.labels == 1, np.nan, 3.0)
    entry = run(replace(readings, variables=(Variable("logger", "sensor", values),)))
    assert f1(entry, "disjoint", "sensors") > 0.5


def test_one_group_leaves_the_question_open() -> None:
    readings = permuted(made())
    entry = run(replace(readings, groups=("farm",) * len(readings)))
    assert "disjoint" not in entry.body["average"]["scores"]
    assert entry.body["verdict"]["finding"] == "open"
    assert any("none can be held out" in note for note in entry.body["notes"])
    steps = " ".join(entry.body["verdict"]["next_steps"])
    assert "all belong to one group" in steps
    assert "Record when" not in steps
    assert "Nothing has to change" not in steps


def test_groups_without_any_reading_leave_the_question_open_and_say_why() -> None:
    readings = made(9, 6)
    entry = run(replace(readings, times=(None,) * len(readings)))
    verdict = entry.body["verdict"]
    assert verdict["finding"] == "open"
    assert "could not be asked" in verdict["paragraph"]
    assert "no session could be held out" not in verdict["paragraph"]
    assert [step for step in verdict["next_steps"] if "what was recorded with it" in step]


def test_held_out_readings_leak_over_as_many_folds_as_random_ones() -> None:
    # Two sessions share each reading: one is tested, the other is in training in about six of seven folds.
    def shared(generator: np.random.Generator, session: int, label: int) -> float:
        return float(session // 2)

    entry = run(made(28, 6, label=lambda session, picture: picture % 3, sensor=shared))
    [humidity] = [one for one in entry.body["crops"][0]["sharing"] if one["name"] == "humidity"]
    assert humidity["leak"]["random"] == 1.0
    assert humidity["leak"]["disjoint"] > 0.7


def test_neither_time_nor_group_is_said_and_leaves_the_question_open() -> None:
    readings = permuted(made(sensor=of_class))
    entry = run(replace(readings, groups=None, times=(None,) * len(readings)))
    assert entry.body["groups"] is None
    assert entry.body["verdict"]["finding"] == "open"
    assert any("Record when" in step for step in entry.body["verdict"]["next_steps"])


def test_one_class_is_refused() -> None:
    with pytest.raises(InputError, match="all 60 pictures are of the class blight"):
        run(made(sessions=5, label=lambda session, picture: 0))


def test_classes_of_a_single_group_are_named_and_not_tested_disjointly() -> None:
    def label(session: int, picture: int) -> int:
        return 2 if session == 0 else session % 2

    entry = run(made(label=label))
    assert entry.body["crops"][0]["baselines"]["covered"] == ["blight", "healthy"]
    scores = entry.body["average"]["scores"]
    assert {"disjoint", "cv covered"} <= set(scores)
    assert any("rust" in step and "single group" in step for step in entry.body["verdict"]["next_steps"])
    few = run(made(sessions=7, pictures=9, label=label))
    short = few.body["crops"][0]["baselines"]["shortfalls"]
    assert {one["label"] for one in short} == {"blight", "healthy"}
    assert all(one["held_out_groups"] == 1 for one in short)
    assert "coverage of the held-out folds" in " ".join(section([few]).warnings)


def crops_of(*parts: Readings) -> Readings:
    """One table of several crops, "crop0", "crop1", ...; each with groups of its own."""

    def together(name: str) -> tuple[Any, ...]:
        return tuple(value for part in parts for value in getattr(part, name))

    return replace(
        parts[0],
        labels=np.concatenate([part.labels for part in parts]),
        times=together("times"),
        groups=tuple(f"{number} {group}" for number, part in enumerate(parts) for group in part.groups or ()),
        crops=tuple(f"crop{number}" for number in range(len(parts))),
        crop=np.repeat(np.arange(len(parts)), [len(part) for part in parts]),
        names=together("names"),
        files=together("files"),
        variables=tuple(
            replace(variable, values=np.concatenate([part.variables[column].values for part in parts]))
            for column, variable in enumerate(parts[0].variables)
        ),
    )


def test_crops_are_audited_apart_and_one_that_leaks_is_found_among_clean_ones() -> None:
    clean = [permuted(made(12, 9, sensor=of_session, seed=seed), seed) for seed in (4, 5, 6)]
    entry = run(crops_of(clean[0], made(12, 9, sensor=of_session), *clean[1:]))
    single = [crop["baselines"]["scores"]["cv"]["time"]["macro_f1"]["values"] for crop in entry.body["crops"]]
    mean = entry.body["average"]["scores"]["cv"]["time"]["macro_f1"]["values"]
    assert mean == pytest.approx(np.mean(single, axis=0))
    assert single[1][0] > 0.9 > 0.6 > single[0][0]
    verdict = entry.body["verdict"]
    assert verdict["finding"] == "leak"
    assert verdict["crops"] == {"crop0": "none", "crop1": "leak", "crop2": "none", "crop3": "none"}
    assert "In crop1 (108 pictures), without looking at any picture, the capture time" in verdict["paragraph"]
    assert "on crop1 a good score on a random split" in verdict["paragraph"]
    found = section([entry])
    assert "crop1: the class can be told without the picture" in found.warnings[0]
    assert [figure.title.split(":")[0] for figure in found.figures[:2]] == ["made.csv (crop1)"] * 2
    [by_crop] = [table for table in found.tables if table.title == "made.csv: crop by crop"]
    assert [row[:3] for row in by_crop.rows] == [
        [f"crop{number}", 108, "leak" if number == 1 else "none"] for number in range(4)
    ]
    variance = [table for table in found.tables if "is explained by" in table.title]
    assert [table.title.split(":")[0] for table in variance] == [f"made.csv, crop{n}" for n in range(4)]
    assert all({row[0] for row in table.rows} == {"time", "humidity"} for table in variance)


def test_a_crop_of_one_group_leaves_the_question_open_for_it() -> None:
    clean, alone = permuted(made(12, 9, seed=4), 4), permuted(made(12, 9, seed=5), 5)
    entry = run(crops_of(clean, replace(alone, groups=("farm",) * len(alone))))
    verdict = entry.body["verdict"]
    assert (verdict["finding"], verdict["crops"]) == ("open", {"crop0": "none", "crop1": "open"})
    assert "in crop1 no session could be held out" in verdict["paragraph"]
    assert any("Take pictures of crop1 in further sessions" in step for step in verdict["next_steps"])
    assert [note for note in entry.body["notes"] if "crop1 (1 of 2)" in note]


def test_a_difference_is_averaged_over_the_crops_that_have_both_sides() -> None:
    timed, untimed = made(9, 9, sensor=of_session), made(9, 9, sensor=of_session, seed=1)
    entry = run(crops_of(timed, replace(untimed, times=(None,) * len(untimed))), by="group")

    def difference(body: Any) -> Any:
        [found] = [
            one["interval"]["values"]
            for one in body["differences"]
            if (one["protocol"], one["first"], one["second"], one["metric"])
            == ("cv", "time", "shuffled", "macro_f1")
        ]
        return found

    assert difference(entry.body["average"]) == difference(entry.body["crops"][0]["baselines"])


def test_more_crops_than_can_be_audited_are_refused_at_once_and_none_is_a_choice(
    tmp_path: Path, command: Command
) -> None:
    table = tmp_path / "t.csv"
    rows = [f"{CLASSES[row // 20 % 2]},p{row // 2},s{row // 20},{row % 7}" for row in range(400)]
    table.write_text("label,plant,session,humidity\n" + "\n".join(rows) + "\n")
    with pytest.raises(InputError, match=r"'plant' tells 200 crops apart.*--crop none"):
        run(read_readings(table))
    whole = read_readings(table, {"crop": "none"})
    assert (whole.crops, [variable.name for variable in whole.variables]) == (("",), ["humidity"])


def few_of_a_class() -> Readings:
    """As many sessions of the third class as folds, two of them tiny."""
    sizes = [20] * 14 + [54, 3, 3]
    session = np.repeat(np.arange(len(sizes)), sizes)
    readings = made(1, len(session))
    return replace(
        readings,
        classes=CLASSES,
        labels=np.where(session < 14, session % 2, 2).astype(np.int64),
        groups=tuple(f"s{number}" for number in session),
        variables=(Variable("humidity", "sensor", np.random.default_rng(0).random(len(session))),),
        part=tuple("test" if row % 170 == 3 else "training" for row in range(len(session))),
    )


def test_above_the_row_cap_every_seed_scores_every_protocol_and_coverage_is_judged_on_all() -> None:
    readings = few_of_a_class()
    settings = Settings(seeds=5, trees=2, rows=100)
    capped = run(readings, settings=settings).body
    whole = run(readings, settings=replace(settings, rows=10_000)).body
    for protocol, by_baseline in capped["average"]["scores"].items():
        for baseline, by_metric in by_baseline.items():
            assert len(by_metric["macro_f1"]["values"]) == 5, (protocol, baseline)
    assert set(capped["average"]["scores"]) == set(whole["average"]["scores"]) >= {"given", "disjoint"}
    few, all_rows = capped["crops"][0]["baselines"], whole["crops"][0]["baselines"]
    assert few["shortfalls"] == all_rows["shortfalls"]
    assert [one["label"] for one in few["shortfalls"]] == ["rust"]
    assert (few["rows"], all_rows["rows"]) == (100, 340)
    assert all_rows["thinned"] == []
    assert set(few["thinned"]) <= {"blight", "healthy"}
    assert bool(few["thinned"]) == any("Raise --rows" in step for step in capped["verdict"]["next_steps"])


def test_fewer_rows_than_classes_and_folds_are_refused() -> None:
    with pytest.raises(InputError, match=r"--rows 5 is too few .* give at least \d+"):
        run(few_of_a_class(), settings=Settings(seeds=3, trees=2, rows=5))


def test_a_crop_of_a_picture_a_class_is_borne() -> None:
    entry = run(made(2, 1, label=lambda session, picture: session), settings=Settings(seeds=3, trees=2))
    assert entry.body["verdict"]["finding"] == "open"


def test_a_given_split_is_scored_and_its_leak_rate_told() -> None:
    readings = made(sensor=of_session)
    part = ["test" if int(group[1:]) < 6 else "training" for group in readings.groups or ()]
    apart = run(replace(readings, part=tuple(part), part_name="split"))
    mixed = run(replace(readings, part=tuple(("training", "test")[row % 2] for row in range(len(readings)))))

    def leak(entry: Entry) -> float:
        [humidity] = [one for one in entry.body["crops"][0]["sharing"] if one["name"] == "humidity"]
        return float(humidity["leak"]["given"])

    assert (leak(apart), leak(mixed)) == (0.0, 1.0)
    assert f1(mixed, "given", "time") > 0.95
    assert f1(apart, "given", "time") < f1(mixed, "given", "time") - 0.2
    assert "time 0 %, humidity 100 %" in mixed.body["verdict"]["paragraph"]
    assert "a training picture of their class within 5 s" in mixed.body["verdict"]["paragraph"]


def test_the_same_data_and_seeds_give_the_same_result() -> None:
    readings = made(sessions=9, sensor=of_session)
    assert run(readings) == run(readings)


def test_a_fusion_with_other_pictures_or_unknown_history_is_refused() -> None:
    readings = made(sensor=of_class)
    found = seen_by_picture(readings)
    with pytest.raises(InputError, match="none of these pictures"):
        run(readings, embeddings=replace(found, paths=tuple(f"other/{name}" for name in found.paths)))
    with pytest.raises(InputError, match="which pictures the image model has seen is not known"):
        run(readings, embeddings=found, unseen=True)
    with pytest.raises(
        InputError, match="--unseen chooses among the pictures of an image model's --embeddings"
    ):
        run(readings, unseen=True)
    with pytest.raises(InputError, match="know no class 'healthy'"):
        run(readings, embeddings=replace(found, labels=("blight", "x", "rust")))


def test_only_unseen_pictures_are_fused_when_asked() -> None:
    readings = made(sensor=of_class, label=lambda session, picture: picture % 3)
    found = seen_by_picture(readings)
    part = tuple("test" if row % 2 else "training" for row in range(len(readings)))
    entry = run(readings, embeddings=replace(found, part=part), unseen=True)
    assert entry.body["crops"][0]["fusion"]["pictures"] == len(readings) // 2
    whole = run(readings, embeddings=replace(found, part=part))
    assert whole.body["crops"][0]["fusion"]["seen"] == len(readings) // 2
    assert "flattered" in " ".join(section([whole]).warnings)


def test_nothing_but_seen_pictures_is_refused_with_the_reason() -> None:
    readings = made(sessions=9, sensor=of_class)
    found = replace(seen_by_picture(readings), part=("training",) * len(readings))
    with pytest.raises(InputError, match="trained or tuned on all of these pictures"):
        run(readings, embeddings=found, unseen=True)


def test_another_picture_under_the_same_path_is_not_fused() -> None:
    readings = made(sessions=9, sensor=of_class)
    names = tuple(f"{row:016x}" for row in range(len(readings)))
    found = replace(seen_by_picture(readings), identities=names)
    assert list(match(replace(readings, identities=names[::-1]), found)) == list(range(len(readings)))[::-1]
    others = replace(readings, identities=tuple(f"f{name[1:]}" for name in names))
    with pytest.raises(InputError, match="none of these pictures"):
        run(others, embeddings=found)
    # Where one side does not know the content, the path is all there is.
    assert list(match(others, replace(found, identities=("",) * len(readings)))) == list(range(len(readings)))


def test_a_table_is_matched_by_the_content_of_its_pictures(tmp_path: Path) -> None:
    readings = made(sessions=2, pictures=2)
    files = tuple(tmp_path / name for name in readings.names)
    for file in files:
        file.write_bytes(file.name.encode())
    names = tuple(sha256(file.read_bytes())[:16] for file in files)
    moved = replace(seen_by_picture(readings), identities=names, paths=tuple(f"x/{name}" for name in names))
    assert list(match(replace(readings, files=files), moved)) == [0, 1, 2, 3]


def two_crops() -> Readings:
    first, second = made(seed=3, sensor=of_class), made(seed=4, sensor=of_class)
    return replace(
        first,
        labels=np.concatenate([first.labels, second.labels]),
        times=first.times + second.times,
        groups=(first.groups or ()) + tuple(f"c{group}" for group in second.groups or ()),
        crops=("maize", "rice"),
        crop=np.repeat([0, 1], len(first)),
        variables=(replace(first.variables[0], values=np.tile(first.variables[0].values, 2)),),
        names=first.names + tuple(f"r{name}" for name in second.names),
        files=first.files + second.files,
    )


def test_a_crop_without_predictions_is_named_and_the_others_are_fused() -> None:
    readings = two_crops()
    found = seen_by_picture(readings.take(np.flatnonzero(readings.crop == 0)))
    for unseen in (False, True):
        part = ("test",) * len(found.paths) if unseen else found.part
        entry = run(readings, embeddings=replace(found, part=part), unseen=unseen)
        maize, rice = entry.body["crops"]
        assert maize["fusion"]["pictures"] == len(found.paths)
        assert rice["fusion"] is None
        assert any("rice: no gain of fusion: the predictions" in note for note in entry.body["notes"])
        assert entry.body["average"]["fusion"]["scores"] == maize["fusion"]["scores"]
        section([entry])


def test_what_makes_fusion_doubtful_is_said_aloud() -> None:
    readings = made(sensor=of_class)
    found = seen_by_picture(readings)
    rows = list(range(0, len(readings), 4))
    few = replace(
        found,
        paths=tuple(found.paths[row] for row in rows),
        identities=("",) * len(rows),
        part=("training", "test") * (len(rows) // 2),
        probabilities=found.probabilities[rows],
    )
    entry = run(readings, embeddings=few, settings=replace(QUICK, floor_pictures=15))
    fusion = entry.body["crops"][0]["fusion"]
    assert not entry.body["crops"][0]["baselines"]["shortfalls"]
    assert {one["label"] for one in fusion["shortfalls"]} == set(CLASSES)
    assert all((one["of"], one["groups"]) == (9, 10) for one in fusion["shortfalls"])
    text = "\n".join(_lines(entry.body))
    assert text.count("coverage of fusion: ") == 3
    for words in (
        "test blight, healthy, rust with fewer than 15 pictures",
        "trained or tuned on 45 of the 90 pictures",
        "270 pictures have no prediction",
    ):
        assert words in entry.body["verdict"]["paragraph"]
        assert words in text
    unknown = run(readings, embeddings=found)
    assert "is not known" in unknown.body["verdict"]["paragraph"]


def test_a_row_cap_leaves_every_seed_the_same_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = set()

    def spy(labels: Any, count: int, seed: int) -> Any:
        counts.add(count)
        return stratified(labels, count, seed)

    monkeypatch.setattr("bench.fusion.stratified", spy)
    readings = made(
        sessions=12, pictures=20, sensor=of_class, label=lambda session, _: max(session % 2, session // 5)
    )
    # The last class is left two pictures in each of two sessions: most draws miss one of the two.
    rare = np.flatnonzero(readings.labels == 2)
    kept = np.setdiff1d(np.arange(len(readings)), np.setdiff1d(rare, rare[[0, 1, -2, -1]]))
    readings = readings.take(kept)
    settings = Settings(seeds=5, trees=5, rows=80)
    found = score_fusion(readings, grouping(readings, "group"), seen_by_picture(readings), settings)
    for by_name in found.scores.values():
        assert {len(interval.values) for interval in by_name.values()} == {5}
    assert set(found.scores) == {"in distribution", "disjoint"}
    # As many folds on mixed sessions as on held-out ones.
    assert counts == {2}
    [short] = [one for one in found.shortfalls if one.label == "rust"]
    assert (short.groups, short.of) == (2, 10)


def test_scores_of_a_model_are_said_to_be_of_its_own_data() -> None:
    entry = run(made(sessions=9), models=[str(DEFAULT_MODEL)])
    text = "\n".join(_lines(entry.body))
    assert "of the model's own data, which are not known to be these: macro-F1" in text
    assert "not known to be these" in str(section([entry]).tables[0].rows)
    own = json.loads(json.dumps(entry.body))
    own["models"][0]["same_data"] = True
    assert "not known to be these" not in "\n".join(_lines(own))


def test_the_result_file_and_the_page_hold_the_four_figures(tmp_path: Path) -> None:
    readings = made(sensor=of_session)
    entry = run(readings, embeddings=seen_by_picture(readings))
    write_results(tmp_path / "audit.json", [entry], ["mango-bench", "audit"])
    [read] = read_results(tmp_path / "audit.json")
    assert json.dumps(read.body) == json.dumps(entry.body)
    found = section([read])
    assert len(found.figures) == 4
    titles = " ".join(figure.title for figure in found.figures)
    for words in ("share one exact reading", "is explained by", "comparable band", "held-out sessions"):
        assert words in titles
    for figure in found.figures:
        rows = list(csv.reader(figure.csv.splitlines()))
        assert len(rows) > 1
        assert len({len(row) for row in rows}) == 1
    html = render_html(sections([read]))
    assert "Does the picture decide, or the session?" in html


def test_damaged_audits_are_refused(tmp_path: Path) -> None:
    entry = run(made(sessions=9))
    body = json.loads(json.dumps(entry.body))
    body["verdict"]["finding"] = "fine"
    with pytest.raises(InputError, match="verdict/finding"):
        write_results(tmp_path / "x.json", [replace(entry, body=body)], [])


def save(readings: Readings, path: Path, utc_every: int = 0) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["picture", "label", "time", "session", *(v.name for v in readings.variables)])
        for row, time in enumerate(readings.times):
            assert time is not None
            shown = time.isoformat()
            if utc_every and row % utc_every == 0:
                shown = (time - timedelta(hours=6)).isoformat() + "Z"
            writer.writerow(
                [
                    readings.names[row],
                    readings.classes[readings.labels[row]],
                    shown,
                    (readings.groups or ())[row],
                    *(variable.values[row] for variable in readings.variables),
                ]
            )
    return path


@pytest.mark.parametrize(("leaking", "status"), [(True, 1), (False, 0)])
def test_ci_fails_on_a_leak_and_only_then(
    tmp_path: Path, command: Command, leaking: bool, status: int
) -> None:
    readings = made(sessions=12, sensor=of_session)
    table = save(readings if leaking else permuted(readings), tmp_path / "t.csv")
    done = command(
        "mango-bench",
        "audit",
        table,
        "--seeds",
        4,
        "--trees",
        5,
        "--fail-on",
        "leak",
        "--out",
        tmp_path / "a.json",
    )
    assert done.returncode == status, done.stderr
    assert f"Finding: {'leak' if leaking else 'none'}" in done.stdout
    assert ("failed: a leak was found" in done.stderr) == leaking
    assert read_results(tmp_path / "a.json")[0].kind == "audit"


def test_an_undecidable_question_does_not_pass_in_ci(tmp_path: Path, command: Command) -> None:
    readings = permuted(made(sessions=4))
    table = save(replace(readings, groups=("farm",) * len(readings)), tmp_path / "t.csv")
    done = command("mango-bench", "audit", table, "--seeds", 3, "--trees", 5, "--fail-on", "leak")
    assert done.returncode == 1
    assert "cannot be ruled out" in done.stderr


def test_bad_arguments_end_in_one_sentence(tmp_path: Path, command: Command) -> None:
    single = save(made(sessions=3, label=lambda session, picture: 0), tmp_path / "one.csv")
    for arguments, words in (
        ((single,), "at least two classes"),
        ((single, "--fail-on", "rain"), "--fail-on rain is not known"),
        ((tmp_path / "none",), "no such file or folder"),
        ((single, "--by", "moon"), "two classes"),
        ((single, "--utc-offset", "nan"), "--utc-offset nan is no time zone"),
        ((single, "--split", "a.json", "--split-column", "label"), "both give a split"),
    ):
        done = command("mango-bench", "audit", *arguments)
        assert done.returncode == 2
        assert words in done.stderr
        assert "Traceback" not in done.stderr


def test_mixed_clocks_are_said_and_an_offset_restores_the_sessions(tmp_path: Path) -> None:
    readings = made(sessions=12)
    table = save(readings, tmp_path / "t.csv", utc_every=3)
    torn = read_readings(table)
    assert any("local time and UTC are mixed" in note for note in torn.notes)
    mended = read_readings(table, utc_offset=6.0)
    shift = {
        (mine - theirs).total_seconds()
        for mine, theirs in zip(readings.times, mended.times, strict=True)
        if mine is not None and theirs is not None
    }
    assert shift == {6 * 3600.0}


def test_a_damaged_picture_is_named_and_the_rest_audited(tmp_path: Path, command: Command) -> None:
    pytest.importorskip("imagehash", reason="near-duplicates need the extra 'bench'")
    for number in range(24):
        taken = START + timedelta(hours=number // 4, seconds=number)
        path = tmp_path / "data" / CLASSES[number % 2] / f"IMG_{taken:%Y%m%d_%H%M%S}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.random.default_rng(number).integers(0, 255, (24, 24, 3), dtype=np.uint8)).save(
            path
        )
    path.write_bytes(path.read_bytes()[:300])
    done = command("mango-bench", "audit", tmp_path / "data", "--seeds", 3, "--trees", 2)
    assert done.returncode == 1
    assert path.name in done.stderr
    assert "1 of 24 pictures cannot be read" in done.stdout
    assert "Finding:" in done.stdout
    splits = command("mango-bench", "split", tmp_path / "data", "--folds", 2, "--out", tmp_path / "splits")
    assert splits.returncode == 1
    assert path.name in splits.stderr
    assert (tmp_path / "splits" / "burst-fold1of2-7.json").is_file()


def test_two_hundred_thousand_rows_fit_in_bounded_memory(tmp_path: Path, command: Command) -> None:
    path = tmp_path / "large.csv"
    with path.open("w", newline="") as file:
        file.write("label,time,farm,humidity\n")
        for row in range(200_000):
            time = START + timedelta(seconds=30 * row)
            file.write(f"{CLASSES[row // 400 % 3]},{time.isoformat()},f{row // 400},{row * 7919 % 1000}\n")

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (4 * 2**30, 4 * 2**30))

    done = command(
        "mango-bench",
        "audit",
        path,
        "--rows",
        300,
        "--seeds",
        3,
        "--trees",
        5,
        "--out",
        tmp_path / "a.json",
        preexec_fn=limit,
    )
    assert done.returncode == 0, done.stderr
    [entry] = read_results(tmp_path / "a.json")
    assert entry.data is not None
    assert entry.data["images"] == 200_000
    assert entry.body["crops"][0]["baselines"]["rows"] == 300
    assert entry.body["groups"]["number"] == 500
