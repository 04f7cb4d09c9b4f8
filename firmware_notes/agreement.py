"""Do two machines give the same predictions? Compares two outputs of `mango-edge classify --json --top 100`.

python agreement.py ONE.json OTHER.json STEP: labels must be equal, the network's own probabilities (before
calibration) within STEP, one quantisation step of its output. Exit status 1 where they are not, 2 where the files
cannot be compared.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def compare(one: dict[str, Any], other: dict[str, Any], step: float) -> tuple[int, float, list[str]]:
    """Pictures compared, the largest difference of a probability, and a sentence for each picture that disagrees.

    Raises:
        ValueError: the two hold different pictures or labels, or none.
    """
    first, second = ({result["path"]: result for result in side["results"]} for side in (one, other))
    if not first or first.keys() != second.keys():
        raise ValueError(f"{len(first)} and {len(second)} pictures, which are not the same ones")
    largest, problems = 0.0, []
    for path, result in first.items():
        here, there = (
            {entry["label"]: entry["uncalibrated"] for entry in side["top"]}
            for side in (result, second[path])
        )
        if here.keys() != there.keys():
            raise ValueError(f"{path}: the labels are not the same ones")
        difference = max(abs(here[label] - there[label]) for label in here)
        largest = max(largest, difference)
        if result["label"] != second[path]["label"]:
            problems.append(f"{path}: {result['label']} here, {second[path]['label']} there")
        # The values were printed with six digits.
        elif difference > step + 2e-6:
            problems.append(f"{path}: a probability differs by {difference:.6f}")
    return len(first), largest, problems


def main() -> None:
    """Command line; see the module's docstring."""
    try:
        one, other, step = (
            json.loads(Path(sys.argv[1]).read_text()),
            json.loads(Path(sys.argv[2]).read_text()),
            float(sys.argv[3]),
        )
        count, largest, problems = compare(one, other, step)
    except (IndexError, OSError, ValueError, KeyError, TypeError) as error:
        print(f"error: the predictions cannot be compared ({error})", file=sys.stderr)
        sys.exit(2)
    for problem in problems:
        print(problem)
    print(
        f"{count} pictures, {one['runtime']} here and {other['runtime']} there: {len(problems)} disagree, largest"
        f" difference of a probability {largest:.6f} (allowed {step:.6f})"
    )
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
