"""The helps of all three command lines: each is shown, and says all that its source says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import bench.cli
import convert.cli
import edge.cli

APPS = {"mango-bench": bench.cli.app, "mango-convert": convert.cli.app, "mango-edge": edge.cli.app}


def below(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The command's own path, and those of all commands below it."""
    yield path
    for name, inner in getattr(command, "commands", {}).items():
        yield from below(inner, (*path, name))


def command_at(path: tuple[str, ...]) -> Any:
    found: Any = typer.main.get_command(APPS[path[0]])
    for name in path[1:]:
        found = found.commands[name]
    return found


PATHS = [path for name, app in APPS.items() for path in below(typer.main.get_command(app), (name,))]


def squeezed(text: str) -> str:
    """Without any white space: lines are broken where the terminal ends."""
    return "".join(text.split())


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_a_help_is_shown_with_every_word_of_its_source(path: tuple[str, ...]) -> None:
    done = CliRunner().invoke(APPS[path[0]], [*path[1:], "--help"])
    assert done.exit_code == 0, done.exception
    shown = squeezed(done.output)
    command = command_at(path)
    assert squeezed(command.help or "") in shown
    for parameter in command.params:
        assert squeezed(getattr(parameter, "help", None) or "") in shown, parameter.name
    for inner in getattr(command, "commands", {}).values():
        assert squeezed(inner.get_short_help_str(1000)) in shown


def test_a_default_that_is_told_in_words_and_brackets_of_an_address_are_shown() -> None:
    told = [
        (path, parameter.help)
        for path in PATHS
        for parameter in command_at(path).params
        if "[default:" in (getattr(parameter, "help", None) or "")
    ]
    assert len(told) > 20
    run = squeezed(CliRunner().invoke(APPS["mango-edge"], ["run", "--help"]).output)
    assert "[default:1forcamerasandstreams,else0]" in run
    assert "mqtt://[USER@]HOST[/TOPIC]" in run
