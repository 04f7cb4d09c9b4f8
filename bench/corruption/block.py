"""Working through a picture a few rows at a time.

A picture of 224x224 pixels in double precision takes 1.2 MB: every step on a whole one goes through memory, and most
of the time of the package's simple corruptions is spent on fetching fresh pages for such intermediate results. A few
rows stay in the second-level cache, and their memory is used again and again.
"""

from __future__ import annotations

from collections.abc import Iterator

VALUES = 12288
"""Values in a block: 96 KB in double precision."""


def blocks(length: int, each: int = 1, values: int = VALUES) -> Iterator[slice]:
    """Slices that cover 0..length in order.

    Args:
        length: rows, or values.
        each: values in a row.
        values: at most as many in a slice, but at least one row.
    """
    step = max(1, values // each)
    for start in range(0, length, step):
        yield slice(start, min(start + step, length))
