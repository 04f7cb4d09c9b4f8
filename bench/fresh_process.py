"""A Python process of its own for what must not share one: cold starts, and native code that may crash."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class ProcessError(Exception):
    """The process gave no answer; says why in a few words."""


def ask(program: str, request: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Run `program` (Python source) with `request` as JSON in sys.argv[1]; its last printed line is the answer.

    Raises:
        ProcessError: it ended with another status than 0 (a signal counts as negative), or not within `seconds`.
    """
    import bench

    # The kit may be on PYTHONPATH alone; the process must find the same one.
    root = str(Path(str(bench.__file__)).resolve().parent.parent)
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    try:
        done = subprocess.run(
            [sys.executable, "-c", program, json.dumps(request)],
            capture_output=True, text=True, timeout=seconds, check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise ProcessError(f"no answer within {seconds:g} s") from None
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1][:200]
        raise ProcessError(f"status {done.returncode}: {last}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer
