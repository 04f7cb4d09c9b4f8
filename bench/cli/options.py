"""What several commands of `mango-bench` ask for in the same way."""

from __future__ import annotations

MAXIMUM_SEED = 2**32 - 1
"""The largest seed that all generators take: NumPy's, scikit-learn's and Keras's."""
