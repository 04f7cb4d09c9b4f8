"""Operator times: the summary's text is understood, and the runtime that is installed is profiled."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench.operator_profile import by_kind, operator_profile, parse_summary
from bench.pictures import draw_pictures
from edge.classifier import DEFAULT_MODEL
from edge.errors import InputError
from edge.runtime import load_runtime

SUMMARY = """
============== Run Order ===============
      [node type]    [start]    [first]   [avg ms]        [%]     [cdf%]   [mem KB] [times called]   [Name]
         QUANTIZE      0.000      0.318      0.500     5.000%     5.000%      0.000             20   [Builtin]:0
 Delegate/Convolution (NHWC, QC8) IGEMM      0.000      1.936      6.000    60.000%    65.000%      0.000             20   [Delegate]:0
 Delegate/Convolution (NHWC, QC8) IGEMM      0.000      9.474      3.500    35.000%   100.000%      0.000             20   [Delegate]:4

============== Top by Computation Time ===============
 Delegate/Convolution (NHWC, QC8) IGEMM      0.000      1.936      6.000    60.000%    65.000%      0.000             20   [Delegate]:0

Number of nodes executed: 3
"""  # noqa: E501


def test_the_run_order_table_is_read_and_no_other() -> None:
    operators = parse_summary(SUMMARY)
    assert [(one["operator"], one["part"], one["ms"]) for one in operators] == [
        ("QUANTIZE", "Builtin", 0.5),
        ("Delegate/Convolution (NHWC, QC8) IGEMM", "Delegate", 6.0),
        ("Delegate/Convolution (NHWC, QC8) IGEMM", "Delegate", 3.5),
    ]
    assert [one["share"] for one in operators] == pytest.approx([0.05, 0.6, 0.35])
    assert by_kind(operators) == [
        ("Delegate/Convolution (NHWC, QC8) IGEMM", 2, 9.5, pytest.approx(0.95)),
        ("QUANTIZE", 1, 0.5, pytest.approx(0.05)),
    ]


@pytest.mark.parametrize("text", ["", "no table", "== Run Order ==\nQUANTIZE 1 2 3\n"])
def test_a_text_of_another_form_gives_nothing(text: str) -> None:
    assert parse_summary(text) == []


def test_the_shipped_model_is_profiled_with_and_without_xnnpack(tmp_path: Path) -> None:
    try:
        version = load_runtime("ai-edge-litert").version
    except InputError as error:
        pytest.skip(f"no profiler to try: {error}")
    picture = draw_pictures(tmp_path, per_class=1).paths[0]
    for xnnpack, part in ((True, "Delegate"), (False, "Builtin")):
        found = operator_profile(DEFAULT_MODEL, picture, "ai-edge-litert", version, 1, xnnpack)
        if found["value"] is None and version != "2.3.0":
            pytest.skip(f"this release of the runtime is not profiled: {found['reason']}")
        assert found["value"] is not None, found
        convolutions = [one for one in found["value"] if "conv" in one["operator"].lower()]
        # LCNN has six convolutions, and they are where its time goes.
        assert len(convolutions) == 6
        assert {one["part"] for one in convolutions} == {part}
        assert sum(one["share"] for one in convolutions) > 0.5


def test_runtimes_without_a_profiler_say_so() -> None:
    found = operator_profile(DEFAULT_MODEL, Path("leaf.jpg"), "tflite-runtime", "2.14.0", 1, True)
    assert found == {"value": None, "reason": "tflite-runtime 2.14.0 offers Python no per-operator times"}


def test_a_profiler_that_crashes_ends_nothing_but_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.operator_profile._PROGRAM", "import os; os.abort()")
    found = operator_profile(DEFAULT_MODEL, Path(sys.executable), "ai-edge-litert", "9.9", 1, True)
    assert found["value"] is None
    assert "failed (status -6" in found["reason"]
