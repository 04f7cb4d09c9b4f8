"""The typer application that the commands of `mango-bench` register on."""

from edge.console import new_app

app = new_app(
    "mango-bench", "Measure models: latency, robustness to corruptions, leakage, and reports of all of them."
)
