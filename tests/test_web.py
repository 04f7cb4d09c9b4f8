"""The status page: what it shows, whom it lets in, what it does not put up with; and in a real browser."""

from __future__ import annotations

import csv
import dataclasses
import http.client
import io
import json
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from bench.drawing import LABELS, draw_leaf
from edge.clock import Clock
from edge.decision import Decision
from edge.errors import InputError
from edge.journal import open_journal
from edge.journal_reader import JournalReader
from edge.live_view import LiveView
from edge.status_page import Status, render
from edge.web import StatusServer, serve

NOON = 1_790_000_000.0 - 1_790_000_000.0 % 86400 + 43200
TOKEN = "correct-horse-battery"
MUCH = 0.93
PROBABILITIES = (MUCH, *((1 - MUCH) / 7,) * 7)
SEEN = Decision(
    source="rtsp://camera.local/<leaf>",
    label=LABELS[0],
    probabilities=PROBABILITIES,
    labels=tuple(LABELS),
    gate="",
    stage_ms={"invoke": 5.9},
    model_digest="cd" * 32,
    temperature_c=52.0,
)


def jpeg() -> bytes:
    file = io.BytesIO()
    Image.fromarray(draw_leaf(LABELS[0], np.random.default_rng(3))).save(file, "JPEG")
    return file.getvalue()


def clock(wall: float = NOON) -> Clock:
    return Clock(lambda: wall, lambda: 1000.0, "boot")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("web") / "journal"
    with open_journal(folder, keep="all", clock=clock()) as journal:
        for number in range(12):
            label = LABELS[number % 3] if number % 4 else "uncertain"
            journal.record(dataclasses.replace(SEEN, label=label, frame_number=number))
        journal.record(dataclasses.replace(SEEN, label="", probabilities=(), gate="dark", frame_number=12))
        journal.record(dataclasses.replace(SEEN, frame_number=13), jpeg())
    return folder


def health() -> dict[str, object]:
    return {"Camera": "12.5 frames a second", "Temperature": "52.0 °C", "Model": "lcnn int8 <cdcd>"}


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[..., StatusServer]]:
    servers: list[StatusServer] = []

    def begin(address: str = "127.0.0.1:0", token: str = "", **options: Any) -> StatusServer:
        reader = options.pop("reader", None) or JournalReader(folder)
        options.setdefault("clock", clock())
        servers.append(serve(address, reader, options.pop("health", health), token, **options))
        return servers[-1]

    yield begin
    for server in servers:
        server.close()


class Answer:
    """One request's answer."""

    def __init__(self, server: StatusServer, path: str, method: str = "GET", **headers: str) -> None:
        connection = http.client.HTTPConnection(
            "127.0.0.1", int(server.address.rpartition(":")[2]), timeout=30
        )
        connection.request(
            method, path, headers={name.replace("_", "-"): value for name, value in headers.items()}
        )
        response = connection.getresponse()
        self.status, self.headers = response.status, response.headers
        self.text = response.read().decode("utf-8")
        connection.close()


VOID = {"meta", "link", "img", "input"}


class Outline(HTMLParser):
    """Checks nesting and gathers text and references."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.references: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self.references += [value or "" for name, value in attrs if name in ("href", "src", "action")]
        assert tag != "script"
        assert "style" not in dict(attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_shows_frame_counts_and_health(start: Callable[..., StatusServer]) -> None:
    answer = Answer(start(), "/")
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    outline = Outline()
    outline.feed(answer.text)
    assert outline.open == []
    assert f"{LABELS[0]}, 93%" in outline.text
    assert "rtsp://camera.local/<leaf>, frame 13" in outline.text
    assert "12.5 frames a second" in outline.text
    assert "lcnn int8 <cdcd>" in outline.text  # escaped in the source, whole on the page
    assert [ref for ref in outline.references if ref.startswith("data:image/jpeg;base64,")]
    assert all(
        re.match(r"data:image/jpeg|/style.css|/icon.svg|decisions\.csv\?day=", ref)
        for ref in outline.references
    )
    # Frames 0, 4, 8 were uncertain; 3, 6, 9 and 13 the first class; 12 dark.
    counted = re.findall(
        r'<th scope="row">([^<]+)</th><td class="bar">.*?</td><td>([0-9]+)</td>', answer.text
    )
    assert dict(counted) == {LABELS[0]: "4", LABELS[1]: "3", LABELS[2]: "3", "uncertain": "3", "dark": "1"}


def test_a_live_frame_is_preferred_and_shown_with_its_own_decision(
    start: Callable[..., StatusServer],
) -> None:
    live = dataclasses.replace(SEEN, label="", probabilities=(), gate="blurred", frame_number=99)
    now = [50.0]
    view = LiveView(lambda: now[0])
    view.submit(live, jpeg())
    now[0] = 65.0
    later = Clock(lambda: NOON + 60, lambda: 1060.0, "boot")
    text = Answer(start(live=view, clock=later), "/").text
    assert "not used: blurred" in text
    assert "frame 99" in text
    assert time.strftime("%H:%M:%S", time.localtime(NOON + 60 - 15)) in text
    unset = Clock(lambda: 5.0, lambda: 1060.0, "boot")
    assert "15 s ago" in Answer(start(live=view, clock=unset), "/").text


def test_a_kept_picture_that_is_newer_than_the_live_frame_is_shown(
    start: Callable[..., StatusServer],
) -> None:
    now = [50.0]
    view = LiveView(lambda: now[0])
    view.submit(dataclasses.replace(SEEN, frame_number=99), jpeg())
    now[0] = 55.0
    # The journal's clock stands: its last picture is 0 s old, so only a live frame of this moment is as new.
    assert "frame 13" in Answer(start(live=view), "/").text
    view.submit(dataclasses.replace(SEEN, frame_number=100), jpeg())
    assert "frame 100" in Answer(start(live=view), "/").text
    later = Clock(lambda: NOON + 60, lambda: 1060.0, "boot")
    now[0] = 65.0
    assert "frame 100" in Answer(start(live=view, clock=later), "/").text


def test_a_live_view_asks_for_pictures_as_often_as_somebody_looks() -> None:
    now = [100.0]
    view = LiveView(lambda: now[0])
    assert LiveView()() is None
    assert view.wants_picture(SEEN)
    view.submit(SEEN, b"first")
    asked = []
    for second in range(1, 60):
        now[0] = 100.0 + second
        if second in (31, 35):
            view()
        if view.wants_picture(SEEN):
            asked.append(second)
            view.submit(SEEN, b"picture %d" % second)
        else:
            view.submit(dataclasses.replace(SEEN, frame_number=second))  # does not part picture and decision
            shown = view._held
            assert shown is not None
            assert shown[0] == SEEN
    assert asked == [10, 20, 30, *range(31, 60)]


def test_problems_come_first(start: Callable[..., StatusServer]) -> None:
    def ill() -> dict[str, object]:
        return {**health(), "problems": ["the disk is full: decisions wait in memory"]}

    server = start(health=ill)
    text = Answer(server, "/").text
    assert text.index("the disk is full") < text.index("Last frame")
    values = json.loads(Answer(server, "/health.json").text)
    assert values["status"] == "degraded"
    assert values["problems"] == ["the disk is full: decisions wait in memory"]
    assert values["health"]["Camera"] == "12.5 frames a second"
    assert values["last"]["frame_number"] == 13


def test_without_a_journal_the_page_says_so_and_stands(
    start: Callable[..., StatusServer], tmp_path: Path
) -> None:
    view = LiveView()
    none = JournalReader(tmp_path / "none", must_exist=False)
    assert "No frame yet." in Answer(start(reader=none, live=view), "/").text
    view.submit(SEEN, jpeg())
    answer = Answer(start(reader=none, live=view), "/")
    assert answer.status == 200
    assert "Needs attention" in answer.text
    assert "data:image/jpeg" in answer.text


def test_an_unset_clock_is_said_and_this_boot_is_counted(start: Callable[..., StatusServer]) -> None:
    text = Answer(start(clock=clock(5.0)), "/").text
    assert "The clock is not set." in text
    assert "Since the start of the device" in text
    assert f'<th scope="row">{LABELS[1]}</th>' in text


def test_the_days_table_is_downloaded(start: Callable[..., StatusServer]) -> None:
    server = start()
    day = time.strftime("%Y-%m-%d", time.localtime(NOON))
    for asked in (day, "all"):
        answer = Answer(server, f"/decisions.csv?day={asked}")
        assert answer.headers["Content-Disposition"] == f'attachment; filename="decisions-{asked}.csv"'
        rows = list(csv.DictReader(io.StringIO(answer.text)))
        assert [int(row["frame_number"]) for row in rows] == list(range(14))
        assert rows[12]["gate"] == "dark"
    assert len(list(csv.DictReader(io.StringIO(Answer(server, "/decisions.csv?day=2020-01-01").text)))) == 0
    for wrong in ("yesterday", "../secret", "2026-13-01", "9999-12-31"):
        answer = Answer(server, f"/decisions.csv?day={wrong}")
        assert answer.status == 400
        assert "is not a day" in answer.text


def test_nothing_is_written_and_nothing_else_is_there(start: Callable[..., StatusServer]) -> None:
    server = start()
    for path in ("/nothing", "/../etc/passwd", "//elsewhere", "/pictures/"):
        assert Answer(server, path).status == 404
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
        assert Answer(server, "/", method).status == 501
    head = Answer(server, "/", "HEAD")
    assert (head.status, head.text) == (200, "")
    assert int(head.headers["Content-Length"]) > 1000


def test_every_answer_carries_the_security_headers(start: Callable[..., StatusServer]) -> None:
    server = start(token=TOKEN)
    for path in ("/", "/style.css", "/nothing", f"/?token={TOKEN}"):
        headers = Answer(server, path).headers
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cache-Control"] == "no-store"
        assert "Access-Control-Allow-Origin" not in headers
        assert "Python" not in headers["Server"]


# Access.


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"])
def test_an_address_that_others_reach_needs_a_token(folder: Path, address: str) -> None:
    with pytest.raises(InputError, match="needs a token"):
        serve(address, JournalReader(folder), health)


@pytest.mark.parametrize("token", ["short", "x" * 15, "contains\nlines-of-text", "ünïcödé-ünïcödé-ünïcödé"])
def test_a_token_that_is_none_is_refused(folder: Path, token: str) -> None:
    with pytest.raises(InputError, match="16 or more"):
        serve("127.0.0.1:0", JournalReader(folder), health, token)


@pytest.mark.parametrize(
    "address", ["", "8080", "127.0.0.1", "example.org:80", "127.0.0.1:99999", "127.0.0.1:x"]
)
def test_an_address_that_is_none_is_refused(folder: Path, address: str) -> None:
    with pytest.raises(InputError, match="is not an address"):
        serve(address, JournalReader(folder), health)


def test_a_taken_port_gives_one_sentence(start: Callable[..., StatusServer]) -> None:
    with pytest.raises(InputError, match="cannot listen"):
        start(start().address)


def test_the_token_opens_by_header_and_by_cookie(start: Callable[..., StatusServer]) -> None:
    server = start("0.0.0.0:0", TOKEN)
    for path in ("/", "/health.json", "/decisions.csv?day=all", "/nothing"):
        closed = Answer(server, path)
        assert closed.status == 401
        assert closed.headers["WWW-Authenticate"].startswith("Bearer")
        assert LABELS[0] not in closed.text
    assert Answer(server, "/", Authorization=f"Bearer {TOKEN}").status == 200
    entered = Answer(server, f"/decisions.csv?day=all&token={TOKEN}")
    assert entered.status == 303
    assert entered.headers["Location"] == "/decisions.csv?day=all"  # the token leaves the address
    cookie = entered.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert TOKEN not in cookie
    assert Answer(server, "/", Cookie=cookie.split(";")[0]).status == 200
    assert Answer(server, f"//elsewhere.example/?token={TOKEN}").headers["Location"] == "/elsewhere.example/"


def test_wrong_tokens_stay_outside(start: Callable[..., StatusServer]) -> None:
    server = start(token=TOKEN)
    wrong: list[dict[str, str]] = [
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer \xfc"},
        {"Cookie": f"mango-edge={TOKEN}"},
        {"Cookie": "mango-edge="},
        {"Cookie": "=;=;;" + "x" * 100},
    ]
    for headers in wrong:
        assert Answer(server, "/", **headers).status == 401
    for path in ("/?token=", f"/?token={TOKEN[:-1]}", "/?token=%ff", f"/?TOKEN={TOKEN}"):
        assert Answer(server, path).status == 401
    other = start(token="another-token-altogether")
    cookie = Answer(other, "/?token=another-token-altogether").headers["Set-Cookie"].split(";")[0]
    assert Answer(server, "/", Cookie=cookie).status == 401


def test_only_the_devices_own_names_are_answered_to(start: Callable[..., StatusServer]) -> None:
    server = start(names=["orchard.example"])
    for host in (
        "127.0.0.1:8080",
        "localhost",
        "[::1]:80",
        "192.168.0.7",
        socket.gethostname(),
        "Orchard.example:1",
    ):
        assert Answer(server, "/", Host=host).status == 200, host
    for host in (
        "attacker.example",
        "127.0.0.1.attacker.example",
        "localhost.attacker.example:80",
        "",
        "[",
        "a@b",
    ):
        assert Answer(server, "/health.json", Host=host).status == 421, host


# Bounds.


def raw(server: StatusServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(server.address.rpartition(":")[2])), timeout=30)


def test_an_oversized_header_is_refused(start: Callable[..., StatusServer]) -> None:
    with raw(start()) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 9000)
        assert connection.recv(100).startswith(b"HTTP/1.1 431")


@pytest.mark.parametrize(
    "request_", [b"\r\n\r\n", b"\x16\x03\x01\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"]
)
def test_what_is_no_request_ends_the_connection_and_nothing_else(
    start: Callable[..., StatusServer], request_: bytes
) -> None:
    server = start()
    with raw(server) as connection:
        connection.sendall(request_)
        answer = b""
        while piece := connection.recv(4096):
            answer += piece
        assert answer == b"" or re.match(rb"HTTP/1.1 (400|505)", answer)
    assert Answer(server, "/").status == 200


def test_idle_connections_are_bounded_and_let_go(
    start: Callable[..., StatusServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edge.web._HEADER_S", 3.0)
    server = start()
    idle = [raw(server) for _ in range(16)]
    for connection in idle:
        connection.sendall(b"GET / HT")
    until = time.monotonic() + 30

    def status() -> int:
        assert time.monotonic() < until
        try:
            return Answer(server, "/").status
        except ConnectionError:  # closed while the request was still being sent
            return 0

    while status() != 503:  # until all sixteen hold a thread
        pass
    for connection in idle:
        assert connection.recv(100) == b""  # let go after the header's time
        connection.close()
    while status() != 200:
        pass


def test_ipv6(start: Callable[..., StatusServer]) -> None:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("no IPv6 on this machine")
    server = start("[::1]:0")
    assert server.address.startswith("[::1]:")
    with socket.create_connection(("::1", int(server.address.rpartition(":")[2])), timeout=30) as connection:
        connection.sendall(f"GET / HTTP/1.0\r\nHost: {server.address}\r\n\r\n".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 200")


def test_the_server_lets_go_of_its_port(start: Callable[..., StatusServer], folder: Path) -> None:
    server = start()
    address = server.address
    server.close()
    again = serve(address, JournalReader(folder), health, clock=clock())
    assert Answer(again, "/").status == 200
    again.close()


# A real browser.


class Browser:
    """Headless Chromium, spoken to over a pair of pipes in its DevTools protocol."""

    def __init__(self, program: str, profile: Path) -> None:
        command_read, self._commands = os.pipe()
        self._events, event_write = os.pipe()
        flags = (
            "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
            f" --disable-component-update --disable-sync --remote-debugging-pipe --user-data-dir={profile} about:blank"
        )
        # Chromium wants the pipes as its descriptors 3 and 4.
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec "$0" {flags} 3<&{command_read} 4>&{event_write}', program],
            pass_fds=(command_read, event_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(command_read)
        os.close(event_write)
        self._buffer = b""
        self._number = 0
        self.events: list[dict[str, Any]] = []
        self.session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Log", "Runtime", "Network", "Audits"):
            self.call(f"{domain}.enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        self._number += 1
        message: dict[str, object] = {"id": self._number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def open(self, url: str, width: int, dark: bool = False) -> None:
        metrics = {"width": width, "height": 800, "deviceScaleFactor": 2, "mobile": True}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        self.events.clear()
        loader = self.call("Page.navigate", url=url)["loaderId"]
        # Of this document: the page before may be reloading itself.
        while not any(
            event.get("method") == "Page.lifecycleEvent"
            and event["params"]["loaderId"] == loader
            and event["params"]["name"] == "load"
            for event in self.events
        ):
            self.events.append(self._read())

    def value(self, expression: str) -> Any:
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return result["result"].get("value")

    def screenshot(self) -> bytes:
        import base64

        return base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"])

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._commands)
        os.close(self._events)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            piece = os.read(self._events, 65536)
            assert piece, "the browser ended"
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no Chromium here: the status page is not tried in a browser")
    browser = Browser(program, tmp_path_factory.mktemp("chromium"))
    yield browser
    browser.close()


@pytest.mark.parametrize(("width", "dark"), [(320, False), (390, True), (1100, False)])
def test_a_browser_shows_the_page_without_complaint(
    start: Callable[..., StatusServer], browser: Browser, tmp_path: Path, width: int, dark: bool
) -> None:
    server = start()
    browser.open(f"http://{server.address}/", width, dark)
    complaints = [
        event for event in browser.events if event["method"] in ("Log.entryAdded", "Audits.issueAdded")
    ]
    assert complaints == []
    requested = [
        event["params"]["request"]["url"]
        for event in browser.events
        if event["method"] == "Network.requestWillBeSent"
    ]
    assert all(url.startswith((f"http://{server.address}/", "data:image/jpeg")) for url in requested)
    assert browser.value("document.compatMode") == "CSS1Compat"
    assert browser.value("document.documentElement.scrollWidth") <= width  # nothing to push sideways
    assert browser.value("document.images[0].naturalWidth") == 320
    assert browser.value("document.querySelector('.verdict').textContent") == f"{LABELS[0]}, 93%"
    paper = [
        int(part)
        for part in re.findall(r"\d+", browser.value("getComputedStyle(document.body).backgroundColor"))
    ]
    assert (sum(paper) < 3 * 60) == dark
    # What the browser made of the source is the source: no element was closed, moved or added for us.
    parsed = browser.value("document.documentElement.outerHTML")
    assert "<!DOCTYPE html>\n" + parsed == Answer(server, "/").text
    target = Path(os.environ.get("MANGO_SCREENSHOTS", tmp_path))
    (target / f"status-{width}{'-dark' if dark else ''}.png").write_bytes(browser.screenshot())


def test_a_browser_enters_with_the_token_and_stays(
    start: Callable[..., StatusServer], browser: Browser
) -> None:
    server = start(token=TOKEN)
    browser.open(f"http://{server.address}/", 390)
    assert browser.value("document.querySelector('label').textContent") == "Access token"
    browser.open(f"http://{server.address}/?token={TOKEN}", 390)
    assert browser.value("location.href") == f"http://{server.address}/"
    assert browser.value("document.querySelector('.verdict').textContent") == f"{LABELS[0]}, 93%"
    assert browser.value("document.cookie") == ""  # out of a script's reach
    browser.open(f"http://{server.address}/", 390)
    assert browser.value("document.querySelector('.verdict') !== null")


def test_a_page_without_anything_is_a_page() -> None:
    outline = Outline()
    outline.feed(render(Status(device="pi", now="never")))
    assert outline.open == []
    assert "No frame yet." in outline.text
