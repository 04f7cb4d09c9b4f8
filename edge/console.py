"""What the three command lines share: one line for each problem, exit codes, progress bars, the version."""

from __future__ import annotations

import contextlib
import errno
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

import edge
from edge.errors import InputError

if TYPE_CHECKING:
    from rich.progress import Progress

FAILED = 1
"""Exit status when something that was asked for could not be done for some of the inputs, or a check failed."""

MISUSED = 2
"""Exit status when nothing could be done: bad input, bad arguments, no disk, no permission."""

INTERRUPTED = 128 + signal.SIGINT
"""Exit status of a command that was ended by Ctrl-C, as shells give it."""


class Commands(TyperGroup):
    """The commands of a command line, as typer makes it and better in two places.

    An interrupted command says so, where typer would leave without a word; and the help gives the first sentence of
    each command whole, where it would be cut at the end of the line.
    """

    def invoke(self, ctx: Any) -> Any:
        """Run a command; called by typer."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            complain("interrupted")
            raise typer.Exit(INTERRUPTED) from None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands; called by typer."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [
            (name, command.get_short_help_str(1000))
            for name, command in found
            if command and not command.hidden
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def new_app(name: str, help_text: str) -> typer.Typer:
    """A typer application with `--version` and without tracebacks, whose helps are shown as they are written."""
    # Rich would read "[default: ...]" in a help as markup and swallow it, or fail on "[/TOPIC]".
    app = typer.Typer(
        name=name,
        cls=Commands,
        help=help_text,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )

    def show_version(wanted: bool) -> None:
        if wanted:
            typer.echo(f"{name} {edge.__version__}")
            raise typer.Exit()

    @app.callback()
    def root(
        version: bool = typer.Option(
            False, "--version", callback=show_version, is_eager=True, help="Print the version and leave."
        ),
    ) -> None:
        del version

    root.__doc__ = None
    app.info.help = help_text
    return app


def run(app: typer.Typer) -> None:
    """Run a command line; whatever goes wrong ends in one sentence on standard error and an exit status."""
    for stream in (sys.stdout, sys.stderr):
        # File names need not be valid text, and a terminal need not know every letter.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except InputError as error:
        fail(str(error))
    except OSError as error:
        if error.errno == errno.EPIPE:
            sys.exit(FAILED)
        where = f"{error.filename}: " if error.filename else ""
        hint = "; free some space and run it again" if error.errno == errno.ENOSPC else ""
        fail(f"{where}{error.strerror or error}{hint}")
    except MemoryError:
        fail("not enough memory; close other programs or give smaller input")
    except KeyboardInterrupt:
        complain("interrupted")
        sys.exit(INTERRUPTED)


def complain(message: str) -> None:
    """Print one line on standard error."""
    print(" ".join(message.split()), file=sys.stderr)


def fail(message: str) -> None:
    """Print one line on standard error and leave with `MISUSED`."""
    complain(f"error: {message}")
    sys.exit(MISUSED)


@contextlib.contextmanager
def progress(description: str, total: float) -> Iterator[Callable[..., None]]:
    """A progress bar on standard error; nothing at all where that is not a terminal, or after `without_bars`.

    Within another one it is a second line below it.

    Yields:
        A function: call it with nothing to go one step on, with `completed=` to set the position, with
        `description=` to change the text.
    """
    if not _bars.wanted or not sys.stderr.isatty():
        yield lambda **_: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    outer = _bars.shown
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    bar = outer or Progress(*columns, console=Console(stderr=True), transient=True)
    if outer is None:
        _bars.shown = bar
        bar.start()
    task = bar.add_task(description, total=total)

    def step(completed: float | None = None, description: str | None = None) -> None:
        if completed is None and description is None:
            bar.advance(task)
        else:
            bar.update(task, completed=completed, description=description)

    try:
        yield step
    finally:
        bar.remove_task(task)
        if outer is None:
            bar.stop()
            _bars.shown = None


def without_bars() -> None:
    """Draw no bars in this process: several that share a terminal would draw over one another."""
    _bars.wanted = False


@dataclass
class _Bars:
    wanted: bool = True
    shown: Progress | None = None  # a terminal takes one live display


_bars = _Bars()
