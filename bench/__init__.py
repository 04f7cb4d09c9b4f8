"""Corruptions, latency, robustness, the leakage audit, and the reports made from them."""
