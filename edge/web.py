"""The status page's server: local by default, behind a token anywhere else, bounded in everything.

Paths: `/` (the page), `/health.json`, `/decisions.csv?day=2026-11-30` (or `day=all`), `/style.css`, `/icon.svg`.
Only GET and HEAD: nothing on the device can be changed through it.

Access. On a loopback address anyone on the device may look. On any other address a token is needed, in the
header `Authorization: Bearer TOKEN`, or once in the address (`/?token=TOKEN`): the answer sets a cookie derived
from the token and leads to the address without it, so that the token stays out of the history. The connection
is not encrypted; on a network that is not trusted, put a tunnel or a TLS proxy in front.

A page of another site must not read this one through a visitor's browser: the `Host` of a request must be an IP
address, `localhost`, this machine's name, or one that was allowed (DNS rebinding needs a name of its own), and no
answer grants cross-origin reading.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import hmac
import http.cookies
import http.server
import io
import ipaddress
import json
import logging
import math
import socket
import socketserver
import threading
import time
import urllib.parse
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, cast

from edge.clock import Clock, is_set, system_clock
from edge.errors import InputError
from edge.export import columns, csv_lines, record
from edge.journal import Row
from edge.journal_reader import JournalReader, day_of
from edge.live_view import Shown
from edge.status_page import ICON, STYLE, Status, render, render_message

Health = Callable[[], Mapping[str, object]]
"""Name -> value, shown in this order; "problems", a list of sentences, is shown on top of the page."""

Live = Callable[[], "Shown | None"]
"""The newest frame with its decision: an `edge.live_view.LiveView`."""

MINIMUM_TOKEN = 16
"""Characters; a shorter token could be guessed over the network."""

_CONNECTIONS = 16
_HEADER_BYTES = 8192
_HEADER_S = 5.0
_SEND_S = 15.0
_ANSWER_S = 600.0
_DAYS = 7
_COOKIE = "mango-edge"
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'; base-uri 'none';"
        " frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}

_log = logging.getLogger(__name__)


class StatusServer:
    """A running server; made by `serve`."""

    def __init__(self, server: _Server) -> None:
        self._server = server
        self._thread = threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.2}, name="web", daemon=True
        )
        self._thread.start()

    @property
    def address(self) -> str:
        """Where it listens, host:port, with the port that was taken."""
        host, port = self._server.server_address[:2]
        name = host.decode() if isinstance(host, bytes) else str(host)
        return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"

    def close(self) -> None:
        """Stop listening and let go of the port; answers that are under way are cut."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def serve(
    address: str,
    reader: JournalReader,
    health: Health,
    token: str = "",
    *,
    live: Live | None = None,
    names: Collection[str] = (),
    clock: Clock | None = None,
) -> StatusServer:
    """Serve the status page in threads of its own.

    Args:
        address: host:port; the host an IP address or `localhost`; port 0 takes a free one.
        reader: the journal.
        health: called for every page.
        token: needed on every address that is not loopback; at least `MINIMUM_TOKEN` characters.
        live: a `LiveView` that gets the decisions; its frame is shown instead of the newest kept picture.
        names: host names to answer to beside IP addresses, `localhost` and this machine's name.
        clock: where the time comes from; by default this machine's clocks.

    Raises:
        InputError: the address is malformed or taken, or the token is missing or too short.
    """
    host, port = _parse(address)
    if not token and not _is_loopback(host):
        raise InputError(
            f"{address}: on an address that others can reach the status page needs a token; give one, or serve it"
            " on 127.0.0.1"
        )
    if token and (len(token) < MINIMUM_TOKEN or not token.isascii() or not token.isprintable()):
        raise InputError(f"the status page's token must have {MINIMUM_TOKEN} or more plain characters")
    own = socket.gethostname().lower()
    allowed = {"localhost", own, f"{own}.local", *(name.lower() for name in names)}
    site = _Site(reader, health, live, token.encode(), frozenset(allowed), clock or system_clock())
    try:
        return StatusServer(_Server(host, port, site))
    except OSError as error:
        raise InputError(
            f"{address}: the status page cannot listen there ({error.strerror or error})"
        ) from None


def _parse(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if host == "localhost":
        host = "127.0.0.1"
    with contextlib.suppress(ValueError):
        host = str(ipaddress.ip_address(host))
        if port.isascii() and port.isdigit() and int(port) < 65536:
            return host, int(port)
    raise InputError(f"{address!r} is not an address for the status page; write for example 127.0.0.1:8080")


def _is_loopback(host: str) -> bool:
    return ipaddress.ip_address(host).is_loopback


class _Site:
    """What the server answers with; holds nothing that changes."""

    def __init__(
        self,
        reader: JournalReader,
        health: Health,
        live: Live | None,
        token: bytes,
        names: frozenset[str],
        clock: Clock,
    ) -> None:
        self.reader = reader
        self.health = health
        self.live = live
        self.token = token
        self.names = names
        self.clock = clock
        # Not the token itself: a cookie is stored where others may look.
        self.cookie = hmac.new(token, b"mango-edge status page", hashlib.sha256).hexdigest()

    def is_own_name(self, host: str) -> bool:
        """Whether the value of a Host header cannot be another site's name."""
        try:
            name = (urllib.parse.urlsplit(f"//{host}").hostname or "").rstrip(".")
        except ValueError:
            return False
        with contextlib.suppress(ValueError):
            ipaddress.ip_address(name)
            return True
        return name in self.names

    def page(self) -> str:
        wall = self.clock.wall()
        problems: list[str] = []
        health = self._health(problems)
        values: dict[str, Any] = {"decision": None, "when": "", "picture": None}
        by_label: dict[str, int] = {}
        by_gate: dict[str, int] = {}
        dated = is_set(wall)
        try:
            values = self._last()
            by_label, by_gate = (
                self.reader.count(*day_of(wall)) if dated else self.reader.count_boot(self.clock.boot_id)
            )
        except InputError as error:
            problems.append(str(error))
        days = _last_days(wall) if dated else []
        return render(
            Status(
                device=socket.gethostname(),
                now=_local(wall) if dated else "The clock is not set.",
                problems=problems,
                span=f"Today, {days[0]}" if dated else "Since the start of the device",
                by_label=by_label,
                by_gate=by_gate,
                health=health,
                days=days,
                **values,
            )
        )

    def health_json(self) -> str:
        problems: list[str] = []
        health = self._health(problems)
        last = None
        try:
            row = self.reader.last()
            last = None if row is None else record(row)
        except InputError as error:
            problems.append(str(error))
        state = {"status": "degraded" if problems else "ok", "problems": problems, "health": health}
        return json.dumps({**state, "last": last}, ensure_ascii=False, default=str, indent=1)

    def csv(self, day: str) -> Iterator[str]:
        """Lines of a day's table.

        Raises:
            InputError: there is no such day, or the journal cannot be read; at the latest with the first line.
        """
        since = until = None
        if day != "all":
            try:
                noon = datetime.datetime.combine(datetime.date.fromisoformat(day), datetime.time(12))
                since, until = day_of(noon.timestamp())
            except (ValueError, OverflowError, OSError):
                raise InputError(
                    f"{day!r} is not a day; write for example day=2026-11-30, or day=all"
                ) from None
        return csv_lines(columns(self.reader), self.reader.rows(since=since, until=until))

    def _health(self, problems: list[str]) -> dict[str, object]:
        health = dict(self.health())
        listed = health.pop("problems", ())
        problems += [str(problem) for problem in cast("Sequence[object]", listed)]
        return health

    def _last(self) -> dict[str, Any]:
        """The newer of the live frame and the newest kept picture, each with the decision that belongs to it."""
        live = self.live() if self.live is not None else None
        try:
            kept = self.reader.last_picture()
        except InputError:
            if live is None:
                raise
            kept = None
        if live is not None and (kept is None or self._age(kept[0]) >= live.age_s):
            taken = self.clock.wall() - live.age_s
            when = _local(taken) if is_set(taken) else f"{live.age_s:.0f} s ago"
            return {"decision": live.decision, "when": when, "picture": _jpeg(live.picture)}
        row = self.reader.last() if kept is None else kept[0]
        if row is None:
            return {"decision": None, "when": "", "picture": None}
        when = "without a time" if row.time is None else _local(row.time)
        return {"decision": row.decision, "when": when, "picture": _jpeg(kept[1] if kept else None)}

    def _age(self, row: Row) -> float:
        return self.clock.monotonic() - row.monotonic if row.boot_id == self.clock.boot_id else math.inf


def _last_days(wall: float) -> list[str]:
    today = datetime.datetime.fromtimestamp(wall).date()
    return [(today - datetime.timedelta(days=back)).isoformat() for back in range(_DAYS)]


def _jpeg(picture: bytes | None) -> bytes | None:
    return picture if picture is not None and picture.startswith(b"\xff\xd8") else None


def _local(moment: float) -> str:
    return datetime.datetime.fromtimestamp(moment).astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")


class _Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 16

    def __init__(self, host: str, port: int, site: _Site) -> None:
        self.site = site
        self.slots = threading.BoundedSemaphore(_CONNECTIONS)
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        # The base class asks the name service for its own name, which takes long where there is none.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self.slots.acquire(blocking=False):
            with contextlib.suppress(OSError):
                request.sendall(
                    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
                )
            _drain(request)
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started
            self.slots.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        _log.debug("a connection to the status page ended early", exc_info=True)


class _Handler(http.server.BaseHTTPRequestHandler):
    server_version = "mango-edge"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    server: _Server

    def setup(self) -> None:
        super().setup()
        # The whole header within a bound of bytes and of time, then one answer: nobody can hold a thread by
        # sending slowly. What follows a header (a body, another request) is never read.
        deadline = time.monotonic() + _HEADER_S
        data = b""
        while b"\r\n\r\n" not in data and b"\n\n" not in data and len(data) < _HEADER_BYTES:
            self.connection.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                received = self.connection.recv(_HEADER_BYTES - len(data))
            except OSError:
                received = b""
            if not received:
                data = b""
                break
            data += received
        self.rfile = io.BytesIO(data)
        self.connection.settimeout(_SEND_S)
        self.too_long = len(data) >= _HEADER_BYTES and b"\r\n\r\n" not in data

    def handle(self) -> None:
        if self.too_long:
            self.requestline, self.request_version, self.command = "", "HTTP/1.1", "GET"
            self.send_error(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            _drain(self.connection)
            return
        self.close_connection = True
        self.handle_one_request()

    def do_GET(self) -> None:
        self.close_connection = True
        site = self.server.site
        if not site.is_own_name(self.headers.get("Host", "")):
            self._message(HTTPStatus.MISDIRECTED_REQUEST, "This device does not answer to that name.")
            return
        parts = urllib.parse.urlsplit(self.path)
        query = urllib.parse.parse_qs(parts.query, max_num_fields=8)
        if site.token and not self._may_enter(parts.path, query):
            return
        if parts.path == "/":
            self._text(site.page(), "text/html")
        elif parts.path == "/health.json":
            self._text(site.health_json(), "application/json")
        elif parts.path == "/decisions.csv":
            self._csv(query.get("day", ["all"])[0])
        elif parts.path == "/style.css":
            self._text(STYLE, "text/css")
        elif parts.path == "/icon.svg":
            self._text(ICON, "image/svg+xml")
        else:
            self._message(HTTPStatus.NOT_FOUND, "There is nothing at this address.")

    def do_HEAD(self) -> None:
        self.do_GET()

    def _may_enter(self, path: str, query: Mapping[str, list[str]]) -> bool:
        site = self.server.site
        if path in ("/style.css", "/icon.svg"):  # the same on every device, and the page that asks needs them
            return True
        given = query.get("token", [""])[0]
        if given and hmac.compare_digest(given.encode(), site.token):
            rest = urllib.parse.urlencode({key: values[0] for key, values in query.items() if key != "token"})
            self._begin(HTTPStatus.SEE_OTHER)
            # A path of one's own only: "//elsewhere" would lead to another site.
            self.send_header("Location", "/" + path.lstrip("/") + (f"?{rest}" if rest else ""))
            self.send_header(
                "Set-Cookie", f"{_COOKIE}={site.cookie}; HttpOnly; SameSite=Lax; Path=/; Max-Age=31536000"
            )
            self.send_header("Content-Length", "0")
            self.end_headers()
            return False
        scheme, _, value = self.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and hmac.compare_digest(value.strip().encode(), site.token):
            return True
        cookies: http.cookies.SimpleCookie = http.cookies.SimpleCookie()
        with contextlib.suppress(http.cookies.CookieError):
            cookies.load(self.headers.get("Cookie", ""))
        if _COOKIE in cookies and hmac.compare_digest(cookies[_COOKIE].value.encode(), site.cookie.encode()):
            return True
        sentence = "That is not the token." if given else "This page needs its access token."
        self._message(HTTPStatus.UNAUTHORIZED, sentence, ask_token=True)
        return False

    def _csv(self, day: str) -> None:
        try:
            lines = self.server.site.csv(day)
            first = next(lines)
        except InputError as error:
            self._message(HTTPStatus.BAD_REQUEST, str(error))
            return
        self._begin(HTTPStatus.OK, "text/csv")
        self.send_header("Content-Disposition", f'attachment; filename="decisions-{day}.csv"')
        chunked = self.request_version == "HTTP/1.1"
        if chunked:
            # So that a download that was cut short is noticed as one.
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if self.command == "HEAD":
            return
        deadline = time.monotonic() + _ANSWER_S
        for piece in _pieces(first, lines):
            if time.monotonic() > deadline:
                return
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
        if chunked:
            self.wfile.write(b"0\r\n\r\n")

    def _text(self, text: str, kind: str, status: HTTPStatus = HTTPStatus.OK) -> None:
        data = text.encode("utf-8")
        self._begin(status, kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _message(self, status: HTTPStatus, sentence: str, ask_token: bool = False) -> None:
        self._text(render_message(socket.gethostname(), sentence, ask_token), "text/html", status)

    def _begin(self, status: HTTPStatus, kind: str = "") -> None:
        self.send_response(status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        if status == HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", 'Bearer realm="mango-edge"')
        if kind:
            charset = "" if kind == "application/json" else "; charset=utf-8"
            self.send_header("Content-Type", kind + charset)
        self.send_header("Connection", "close")

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the base class finds wrong with a request, said as this server says things."""
        del message, explain
        status = HTTPStatus(code)
        self.request_version = "HTTP/1.1"  # before it is known, the base class answers without headers
        self.close_connection = True
        self._message(status, f"{status.phrase}.")

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not logged: weeks of a phone's reloads would wear the card, and tokens stand in them."""


def _drain(connection: socket.socket) -> None:
    """Take what has arrived: closing over unread bytes would discard the answer that was just sent."""
    with contextlib.suppress(OSError):
        connection.setblocking(False)
        connection.recv(65536)


def _pieces(first: str, lines: Iterable[str]) -> Iterator[bytes]:
    held, size = [first], 0
    for line in lines:
        held.append(line)
        size += len(line)
        if size > 32_000:
            yield "".join(held).encode("utf-8")
            held, size = [], 0
    if held:
        yield "".join(held).encode("utf-8")
