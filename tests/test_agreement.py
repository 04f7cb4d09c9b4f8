"""Two machines' predictions agree when labels are equal and probabilities lie within a step."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

SCRIPT = ROOT / "firmware_notes" / "agreement.py"


def predictions(*pictures: tuple[str, str, dict[str, float]]) -> dict[str, Any]:
    return {
        "runtime": "ai-edge-litert 2.3.0",
        "results": [
            {
                "path": path,
                "label": label,
                "top": [{"label": n, "uncalibrated": p} for n, p in values.items()],
            }
            for path, label, values in pictures
        ],
    }


def run(folder: Path, one: object, other: object) -> subprocess.CompletedProcess[str]:
    for name, value in (("one", one), ("other", other)):
        (folder / name).write_text(json.dumps(value))
    return subprocess.run(
        [sys.executable, SCRIPT, folder / "one", folder / "other", "0.00390625"],
        capture_output=True,
        text=True,
        check=False,
    )


HERE = predictions(("a.jpg", "Healthy", {"Healthy": 0.75, "Die Back": 0.25}))


@pytest.mark.parametrize(
    ("there", "status", "words"),
    [
        (HERE, 0, "1 pictures"),
        (predictions(("a.jpg", "Healthy", {"Die Back": 0.253906, "Healthy": 0.746094})), 0, "0.003906"),
        (predictions(("a.jpg", "Healthy", {"Healthy": 0.7422, "Die Back": 0.2578})), 1, "differs by 0.0078"),
        (
            predictions(("a.jpg", "Die Back", {"Healthy": 0.75, "Die Back": 0.25})),
            1,
            "Healthy here, Die Back there",
        ),
        (predictions(("b.jpg", "Healthy", {"Healthy": 0.75, "Die Back": 0.25})), 2, "not the same ones"),
        (predictions(("a.jpg", "Healthy", {"Healthy": 0.75, "Rust": 0.25})), 2, "labels are not the same"),
        (predictions(), 2, "not the same ones"),
        ([], 2, "cannot be compared"),
    ],
)
def test_agreement(tmp_path: Path, there: object, status: int, words: str) -> None:
    done = run(tmp_path, HERE, there)
    assert done.returncode == status, done.stdout + done.stderr
    assert words in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_nothing_compared_is_no_agreement(tmp_path: Path) -> None:
    assert run(tmp_path, predictions(), predictions()).returncode == 2
