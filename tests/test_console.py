"""What the command lines share: bars on a terminal, and only there."""

from __future__ import annotations

import io
import sys
import time

import pytest

from edge import console


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def draw() -> None:
    with console.progress("training", 2) as outer, console.progress("reading", 3) as inner:
        inner()
        outer(completed=1, description="epoch 1")
        time.sleep(0.3)  # drawn ten times a second
    with console.progress("checking", 1) as step:
        step()


def test_a_bar_within_another_is_a_line_below_it(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    draw()
    for words in ("epoch 1", "reading", "checking"):
        assert words in terminal.getvalue()


def test_no_bar_is_drawn_into_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    monkeypatch.setattr(sys, "stderr", file)
    draw()
    assert file.getvalue() == ""


def test_a_process_that_shares_its_terminal_draws_none(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(console, "_bars", console._Bars())
    console.without_bars()
    draw()
    assert terminal.getvalue() == ""
