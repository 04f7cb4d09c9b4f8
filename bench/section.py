"""The parts that reports are made of: figures, tables, sections. Rendering is `bench.report`'s affair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Cell = str | int | float | None


@dataclass(frozen=True)
class Figure:
    """A drawing.

    Attributes:
        title: caption.
        alternative: what the drawing shows, in words, for those who cannot see it.
        svg: the drawing as an SVG element.
        csv: the drawn values as CSV text with a header line.
    """

    title: str
    alternative: str
    svg: str
    csv: str


@dataclass(frozen=True)
class Table:
    """A table; a cell that is None is shown as a dash. `rows` hold one cell for each column."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Cell]]
    note: str = ""


@dataclass(frozen=True)
class Section:
    """A headed part of the report; plain text throughout (markup is escaped when it is rendered)."""

    title: str
    anchor: str
    paragraphs: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    warnings: tuple[str, ...] = ()
