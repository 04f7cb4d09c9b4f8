"""The typer application that the commands of `mango-edge` register on."""

from edge.console import new_app

app = new_app(
    "mango-edge",
    "Leaf-disease classification on a small device: classify pictures, inspect models, run in the field.",
)
