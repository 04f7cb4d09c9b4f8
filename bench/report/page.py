"""Sections into one self-contained HTML page, a Markdown file, and figure files."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import edge
from bench.report.overview import overview, summary_csv
from bench.result import Entry
from bench.section import Cell, Figure, Section, Table
from edge.errors import InputError
from edge.files import write_atomic

KINDS = ("latency", "robustness", "audit", "transfer")
"""The kinds of result that have a section of their own, in the order of the page (`bench.report.<kind>`)."""

_TITLE = "Leaf-disease models on small devices"


def sections(entries: Sequence[Entry]) -> tuple[Section, ...]:
    """The page's sections: the overview, the models, then a section for each kind of result that is there.

    Raises:
        InputError: there is nothing to report.
    """
    if not entries:
        raise InputError("the result files hold no results; measure something with mango-bench first")
    models: Callable[[Sequence[Entry]], Section] = import_module("bench.report.models").section
    made = [overview(entries), models(entries)]
    for kind in KINDS:
        of_kind = [entry for entry in entries if entry.kind == kind]
        if of_kind:
            section: Callable[[Sequence[Entry]], Section] = import_module(f"bench.report.{kind}").section
            made.append(section(of_kind))
    return tuple(made)


def render_html(parts: Sequence[Section]) -> str:
    """One page without any outside resource, readable on a phone, on paper and in the dark."""
    number = 0
    figures: dict[int, Any] = {}
    markup = _markup()
    for part in parts:
        for figure in part.figures:
            number += 1
            figures[id(figure)] = {
                "svg": markup(unique_ids(figure.svg, f"f{number}-")),
                "csv": base64.b64encode(figure.csv.encode()).decode(),
                "file": f"{part.anchor}-{number}.csv",
            }
    return str(_template().render(title=_TITLE, parts=parts, figures=figures, version=edge.__version__))


def render_markdown(parts: Sequence[Section]) -> str:
    """The same content as Markdown; figures are linked as files in `figures/` and described in words."""
    lines = [f"# {_TITLE}", ""]
    for part in parts:
        lines += [f"## {part.title}", ""]
        lines += [f"> **Warning:** {_plain(warning)}\n" for warning in part.warnings]
        for paragraph in part.paragraphs:
            lines += [_plain(paragraph), ""]
        for number, figure in enumerate(part.figures, 1):
            lines += [f"![{_plain(figure.alternative)}](figures/{figure_name(part, number)}.svg)", ""]
            lines += [f"*{_plain(figure.title)}*", ""]
        for table in part.tables:
            lines += [*_markdown_table(table), ""]
    return "\n".join(lines)


def write_report(entries: Sequence[Entry], folder: Path) -> list[Path]:
    """Write report.html, report.md, summary.csv and figures/*.svg, *.csv into `folder`; returns their paths."""
    parts = sections(entries)
    files = {
        folder / "report.html": render_html(parts),
        folder / "report.md": render_markdown(parts),
        folder / "summary.csv": summary_csv(entries),
    }
    for part in parts:
        for number, figure in enumerate(part.figures, 1):
            files[folder / "figures" / f"{figure_name(part, number)}.svg"] = _drawing(figure)
            files[folder / "figures" / f"{figure_name(part, number)}.csv"] = figure.csv
    for path, text in files.items():
        write_atomic(path, text.encode())
    return list(files)


def figure_name(part: Section, number: int) -> str:
    """File name, without ending, of a section's figure (counted from 1)."""
    return f"{part.anchor}-{number}"


def unique_ids(svg: str, prefix: str) -> str:
    """Rename the ids of a drawing so that several can stand in one page."""
    svg = re.sub(r'\bid="', f'id="{prefix}', svg)
    return re.sub(r'(url\(#|href="#)', rf"\g<1>{prefix}", svg)


def format_cell(cell: Cell) -> str:
    """A table cell as text: a dash for None, about four significant digits for a float."""
    if cell is None:
        return "–"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}"
    if isinstance(cell, float):
        return f"{cell:,.1f}" if abs(cell) >= 100 else f"{cell:.4g}"
    return cell


def text_table(table: Table) -> str:
    """A table for the terminal: the title, then aligned columns, numbers to the right."""
    cells = [[format_cell(cell) for cell in row] for row in table.rows]
    widths = [max(map(len, column)) for column in zip(table.columns, *cells, strict=True)]
    numeric = [
        all(cell is None or isinstance(cell, int | float) for cell in column)
        for column in zip(*table.rows, strict=True)
    ] or [False] * len(widths)

    def line(row: Sequence[str]) -> str:
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ]
        return "  ".join(padded).rstrip()

    lines = [table.title, line(table.columns), *map(line, cells)]
    return "\n".join([*lines, table.note] if table.note else lines)


def _drawing(figure: Figure) -> str:
    return '<?xml version="1.0" encoding="utf-8"?>\n' + figure.svg


def _markdown_table(table: Table) -> list[str]:
    lines = [f"**{_plain(table.title)}**", ""]
    lines.append("| " + " | ".join(_cell(column) for column in table.columns) + " |")
    lines.append("|" + "---|" * len(table.columns))
    lines += ["| " + " | ".join(_cell(format_cell(cell)) for cell in row) + " |" for row in table.rows]
    if table.note:
        lines += ["", _plain(table.note)]
    return lines


def _cell(text: str) -> str:
    return _plain(text).replace("|", "\\|")


def _plain(text: str) -> str:
    return " ".join(text.split()).replace("<", "&lt;")


def _markup() -> Any:
    from markupsafe import Markup

    return Markup


@cache
def _template() -> Any:
    try:
        import jinja2
    except ModuleNotFoundError:
        raise InputError(
            "jinja2 is not installed; the report needs: pip install 'mango-leaf-kit[bench]'"
        ) from None
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["cell"] = format_cell
    environment.globals["is_number"] = lambda value: isinstance(value, int | float)
    environment.globals["figure_id"] = id
    return environment.get_template("page.html.j2")
