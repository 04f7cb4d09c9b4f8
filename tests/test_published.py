"""The published tables, and the reference errors that they imply."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.metric import relate
from bench.published import (
    REFERENCE,
    counterpart,
    estimates,
    mean_errors,
    published_errors,
    published_reference,
    read_published,
)
from edge.errors import InputError

SEVERITIES = (1, 2, 3, 4, 5)
PUBLISHED = read_published()


@pytest.mark.parametrize("corruption", list(PUBLISHED.ce))
def test_the_models_agree_on_the_reference_within_the_rounding_of_the_tables(corruption: str) -> None:
    found = estimates(PUBLISHED, corruption)
    agreed = mean_errors(PUBLISHED)[corruption]
    # Every model but the reference itself; LCNN's pixelate (CE 2, relative CE 2) leaves it open.
    assert len(found) == (3 if corruption == "pixelate" else 4)
    for model, estimate in found.items():
        assert estimate.low <= agreed <= estimate.high, model
    # Where the tables fix the error to a point, the models' own values lie within a point of each other.
    sharp = [estimate.value for estimate in found.values() if estimate.width < 0.02]
    assert max(sharp) - min(sharp) < 0.012


def test_the_fifth_model_is_the_reference_and_has_100_throughout() -> None:
    relative = relate(
        published_errors(PUBLISHED, REFERENCE),
        published_reference(PUBLISHED),
        tuple(PUBLISHED.ce),
        SEVERITIES,
    )
    assert list(relative.ce.values()) == pytest.approx([100.0] * 19)
    assert relative.relative_mce == pytest.approx(100.0)


@pytest.mark.parametrize(
    ("corruption", "percent"),
    [("gaussian_noise", 60.6), ("brightness", 36.9), ("zoom_blur", 46.3), ("contrast", 60.8)],
)
def test_known_reference_errors(corruption: str, percent: float) -> None:
    assert 100 * mean_errors(PUBLISHED)[corruption] == pytest.approx(percent, abs=0.3)


@pytest.mark.parametrize("model", PUBLISHED.models)
def test_the_printed_mce_of_every_column_is_reproduced(model: str) -> None:
    relative = relate(
        published_errors(PUBLISHED, model), published_reference(PUBLISHED), tuple(PUBLISHED.ce), SEVERITIES
    )
    assert relative.missing == ()
    assert relative.mce == pytest.approx(PUBLISHED.mce[model], abs=0.1)
    # Relative CE divides by increases as small as 5 points, so the rounding of CE counts several times.
    assert relative.relative_mce == pytest.approx(PUBLISHED.relative_mce[model], abs=0.4)


@pytest.mark.parametrize("model", PUBLISHED.models)
def test_the_printed_means_are_the_means_of_the_printed_columns(model: str) -> None:
    columns = [row[model] for row in PUBLISHED.ce.values()]
    relative = [row[model] for row in PUBLISHED.relative_ce.values()]
    assert sum(columns) / 19 == pytest.approx(PUBLISHED.mce[model], abs=0.05)
    assert sum(relative) / 19 == pytest.approx(PUBLISHED.relative_mce[model], abs=0.05)


def test_the_peer_group_is_read_with_every_severity() -> None:
    assert PUBLISHED.peer is not None
    assert set(PUBLISHED.peer.errors) == set(PUBLISHED.ce)
    assert PUBLISHED.peer.mean("pixelate", SEVERITIES) == pytest.approx(0.07345)
    assert PUBLISHED.peer.clean is None


def test_architectures_find_their_published_column() -> None:
    assert counterpart(PUBLISHED, "lcnn") == "LCNN"
    assert counterpart(PUBLISHED, "resnet101") == "ResNet-101"
    assert counterpart(PUBLISHED, "vgg16") == "VGG-16"
    assert counterpart(PUBLISHED, "mobilenet") is None


def test_the_shipped_tables_are_those_that_were_published() -> None:
    shared = Path(__file__).parent.parent.parent / "shared" / "published"
    if not shared.is_dir():
        pytest.skip("the published JSON files are not at hand beside this checkout")
    ours = json.loads((Path(__file__).parent.parent / "bench" / "published.json").read_text())
    theirs = json.loads((shared / "from_code_to_field.json").read_text())
    assert {name: ours[name] for name in theirs} == theirs
    assert ours["peer"]["error"] == json.loads((shared / "peer_lcnn_error.json").read_text())["error"]
    assert read_published(shared / "from_code_to_field.json").mce == PUBLISHED.mce


@pytest.mark.parametrize("content", ["[]", "{", '{"source": "x"}', '{"source": 1, "table3": 2, "table4": 3}'])
def test_other_files_are_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(InputError, match="published tables"):
        read_published(tmp_path / "x.json")
