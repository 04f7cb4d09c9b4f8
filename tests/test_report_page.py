"""The page: self-contained, escaped, readable with and without JavaScript, on a phone and on a desk."""

from __future__ import annotations

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from PIL import Image

from bench.plot import new_figure, to_svg
from bench.report.page import figure_name, format_cell, render_html, render_markdown, unique_ids
from bench.section import Figure, Section, Table

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


def test_ids_of_drawings_do_not_meet() -> None:
    svg = '<svg><defs><clipPath id="a"/></defs><g clip-path="url(#a)"/><use xlink:href="#a"/></svg>'
    expected = (
        '<svg><defs><clipPath id="f1-a"/></defs><g clip-path="url(#f1-a)"/><use xlink:href="#f1-a"/></svg>'
    )
    assert unique_ids(svg, "f1-") == expected


@pytest.mark.parametrize("width", [390, 1280])
def test_a_browser_shows_the_page_without_sideways_scrolling(
    parts: tuple[Section, ...], tmp_path: Path, width: int
) -> None:
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no Chromium here: install it to have the page looked at")
    page, picture = tmp_path / "report.html", tmp_path / "report.png"
    probe = (
        "<script>document.title = [document.documentElement.scrollWidth, innerWidth,"
        " document.querySelectorAll('th button').length].join(' ');</script></body>"
    )
    page.write_text(render_html(parts).replace("</body>", probe))
    # A window narrower than 500 pixels is not to be had headless: the page is put into a frame of that width.
    frame = tmp_path / "frame.html"
    frame.write_text(
        f'<body style="margin:0"><iframe src="report.html" style="border:0" width="{width}" height="900"></iframe>'
    )
    common = [
        browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
        "--disable-component-update", "--disable-sync", f"--user-data-dir={tmp_path / 'profile'}",
        "--allow-file-access-from-files",
    ]  # fmt: skip
    subprocess.run(
        [*common, f"--window-size={max(width, 500)},900", f"--screenshot={picture}", frame.as_uri()],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    shown = Image.open(picture).convert("L").crop((0, 0, width, 900))
    assert len(set(shown.getdata())) > 20
    read = frame.with_name("read.html")
    read.write_text(
        frame.read_text() + "<p id=out></p><script>document.querySelector('iframe').onload = e =>"
        " { document.getElementById('out').textContent = e.target.contentDocument.title; };</script>"
    )
    done = subprocess.run(
        [*common, f"--window-size={max(width, 500)},900", "--dump-dom", read.as_uri()],
        check=True, capture_output=True, timeout=120, text=True,
    )  # fmt: skip
    found = re.search(r'id="out">(\d+) (\d+) (\d+)<', done.stdout)
    assert found, done.stdout[-300:]
    content, window, buttons = map(int, found.groups())
    assert content <= window == width
    assert buttons == 2
