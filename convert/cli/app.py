"""The typer application that the commands of `mango-convert` register on."""

from edge.console import new_app

app = new_app(
    "mango-convert", "From photographs to a quantised model file: index, split, train, convert, check."
)
