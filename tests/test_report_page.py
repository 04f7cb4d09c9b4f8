"""The page: self-contained, escaped, readable with and without JavaScript, on a phone and on a desk."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from planted_latency import planted_entry, planted_model, planted_soak

from bench.plot import new_figure, to_svg
from bench.report.page import (
    figure_name,
    format_cell,
    render_html,
    render_markdown,
    sections,
    text_table,
    unique_ids,
)
from bench.section import Figure, Section, Table

HEIGHT = 900

VOID = {"meta", "link", "br", "img", "input", "hr", "path", "rect", "use", "circle", "line"}


def drawing(values: list[float]) -> Figure:
    figure, axes = new_figure()
    axes.plot(values, marker="o")
    axes.set_xlabel("severity")
    return Figure("A line", "The line goes up.", to_svg(figure), "x,y\n0,1\n")


@pytest.fixture(scope="module")
def parts() -> tuple[Section, ...]:
    table = Table(
        "Speed",
        ("model", "p90, ms"),
        [["<b>lcnn</b>", 9.87654], ["vgg|16", None], ["big", 1234.5]],
        "A note.",
    )
    return (
        Section(
            "First", "first", ("A <script>alert(1)</script> paragraph.",), (table,), (drawing([1, 2, 3]),)
        ),
        Section("Second", "second", (), (), (drawing([3, 2, 1]),), ("The board was throttled.",)),
    )


class Page(HTMLParser):
    """Counts what a browser would see."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("href", "xlink:href", "src"):
                self.addresses.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_well_formed_and_needs_no_network(parts: tuple[Section, ...]) -> None:
    page = Page()
    html = render_html(parts)
    page.feed(html)
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    for address in page.addresses:
        assert address.startswith(("#", "data:")), address
    for target in (address[1:] for address in page.addresses if address.startswith("#")):
        assert target in page.ids


def test_text_is_escaped_everywhere(parts: tuple[Section, ...]) -> None:
    html = render_html(parts)
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert(1)" in html
    assert "<b>lcnn" not in html
    markdown = render_markdown(parts)
    assert "<script>" not in markdown
    assert "vgg\\|16" in markdown


def test_the_same_results_give_the_same_page(parts: tuple[Section, ...]) -> None:
    assert render_html(parts) == render_html(parts)
    assert drawing([1, 2]) == drawing([1, 2])


def test_every_drawing_is_described_and_its_values_can_be_saved(parts: tuple[Section, ...]) -> None:
    html = render_html(parts)
    assert html.count('role="img" aria-label="The line goes up."') == 2
    assert html.count("data:text/csv;base64,") == 2
    assert "![The line goes up.](figures/first-1.svg)" in render_markdown(parts)
    assert figure_name(parts[0], 1) == "first-1"


def test_warnings_stand_before_the_content(parts: tuple[Section, ...]) -> None:
    html = render_html(parts)
    assert html.index("The board was throttled.") < html.rindex("<figure>")
    assert "> **Warning:** The board was throttled." in render_markdown(parts)


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (None, "–"),
        (True, "yes"),
        (3334, "3,334"),
        (0.123456, "0.1235"),
        (1234.56, "1,234.6"),
        (0.0, "0"),
        ("a", "a"),
    ],
)
def test_cells_are_written_as_people_read_them(cell: object, text: str) -> None:
    assert format_cell(cell) == text  # type: ignore[arg-type]


def test_a_table_on_the_terminal_lines_up(parts: tuple[Section, ...]) -> None:
    assert text_table(parts[0].tables[0]).splitlines() == [
        "Speed",
        "model        p90, ms",
        "<b>lcnn</b>    9.877",
        "vgg|16             –",
        "big          1,234.5",
        "A note.",
    ]
    assert text_table(Table("Empty", ("a", "b"), [])).splitlines() == ["Empty", "a  b"]


def test_ids_of_drawings_do_not_meet() -> None:
    svg = '<svg><defs><clipPath id="a"/></defs><g clip-path="url(#a)"/><use xlink:href="#a"/></svg>'
    expected = (
        '<svg><defs><clipPath id="f1-a"/></defs><g clip-path="url(#f1-a)"/><use xlink:href="#f1-a"/></svg>'
    )
    assert unique_ids(svg, "f1-") == expected


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Headless Chromium: browser(page, width, *switches) returns what it prints."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no Chromium here: install it to have the page looked at")
    profile = tmp_path_factory.mktemp("profile")

    def run(page: Path, width: int, *switches: str) -> str:
        done = subprocess.run(
            [
                program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                "--disable-background-networking", "--disable-component-update", "--disable-sync",
                "--hide-scrollbars", "--allow-file-access-from-files", f"--user-data-dir={profile}",
                # A window narrower than 500 pixels is not to be had headless.
                f"--window-size={max(width, 500)},{HEIGHT}", *switches, page.as_uri(),
            ],
            check=True, capture_output=True, timeout=120, text=True,
        )  # fmt: skip
        return done.stdout

    return run


@pytest.fixture(scope="module")
def real_parts() -> tuple[Section, ...]:
    """A page as people get it: two networks on two boards, one of them suspect, with a sustained run."""
    steady = [60.0 + number % 7 / 10 for number in range(100)]
    return sections(
        [
            planted_entry(steady, planted_model("lcnn", "int8"), soak=planted_soak()),
            planted_entry(steady, planted_model("lcnn", "float32"), suspect=["busy: other programs"]),
            planted_entry(steady, planted_model("vgg16", "int8", None), board="Raspberry Pi 3", threads=4),
        ]
    )


def framed(folder: Path, html: str, width: int) -> Path:
    """The page in a frame of the wanted width; the frame's title tells what a script inside it measured."""
    probe = (
        "<script>const wide = [...document.querySelectorAll('main *')].filter((e) => !e.closest('.scroll, .drawing')"
        " && e.getBoundingClientRect().right > innerWidth + 1).length;"
        " document.title = [document.documentElement.scrollWidth, innerWidth, wide,"
        " document.querySelectorAll('th button').length].join(' ');</script></body>"
    )
    (folder / "report.html").write_text(html.replace("</body>", probe))
    frame = folder / "frame.html"
    frame.write_text(
        f'<body style="margin:0"><iframe src="report.html" style="border:0" width="{width}" height="{HEIGHT}">'
        "</iframe><p id=out></p><script>document.querySelector('iframe').onload = e =>"
        " { document.getElementById('out').textContent = e.target.contentDocument.title; };</script>"
    )
    return frame


@pytest.mark.parametrize("width", [390, 1280])
def test_a_browser_shows_the_page_without_sideways_scrolling(
    browser: Callable[..., str], real_parts: tuple[Section, ...], tmp_path: Path, width: int
) -> None:
    frame = framed(tmp_path, render_html(real_parts), width)
    printed = browser(frame, width, "--dump-dom")
    found = re.search(r'id="out">(\d+) (\d+) (\d+) (\d+)<', printed)
    assert found, printed[-300:]
    content, window, wide, buttons = map(int, found.groups())
    assert content <= window == width
    # Only tables and drawings may be wider, and they scroll in their own boxes.
    assert wide == 0
    assert buttons == sum(len(table.columns) for part in real_parts for table in part.tables)


@pytest.mark.parametrize(
    ("switches", "paper"), [((), (253, 253, 251)), (("--force-dark-mode",), (21, 25, 23))]
)
def test_a_browser_draws_the_page_light_and_dark(
    browser: Callable[..., str],
    real_parts: tuple[Section, ...],
    tmp_path: Path,
    switches: tuple[str, ...],
    paper: tuple[int, int, int],
) -> None:
    frame = framed(tmp_path, render_html(real_parts), 390)
    picture = tmp_path / "report.png"
    browser(frame, 390, *switches, f"--screenshot={picture}")
    shown = np.asarray(Image.open(picture).convert("RGB").crop((0, 0, 390, HEIGHT)))
    assert tuple(shown[2, 2]) == paper
    # Text and boxes on the paper, not an empty sheet and not a filled one.
    drawn = (np.abs(shown.astype(int) - paper) > 40).any(axis=2).mean()
    assert 0.02 < drawn < 0.7


def test_a_click_on_a_heading_sorts_by_value_with_gaps_last(
    browser: Callable[..., str], parts: tuple[Section, ...], tmp_path: Path
) -> None:
    click = (
        "<script>const heads = document.querySelectorAll('th button'); const first = () =>"
        " [...document.querySelectorAll('tbody tr')].map((row) => row.cells[0].textContent).join('/');"
        " heads[1].click(); const up = first(); document.body.dataset.found = up;</script></body>"
    )
    page = tmp_path / "page.html"
    page.write_text(render_html(parts).replace("</body>", click))
    found = re.search(r'data-found="([^"]*)"', browser(page, 1280, "--dump-dom"))
    assert found
    assert unescape(found[1]) == "<b>lcnn</b>/big/vgg|16"
