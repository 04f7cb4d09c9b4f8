"""Decisions over MQTT, for Home Assistant and others; the journal is the store of this store-and-forward.

Below the topic (by default `mango-edge/<device>`):

| topic | retained | holds |
|---|---|---|
| `decision` | no | every row of the journal once (or, after a crash, again), in order, as JSON, QoS 1 |
| `state` | yes | the newest row, when nothing older waits: what Home Assistant shows |
| `availability` | yes | `online`, or `offline`, also by the broker when the device falls silent (last will) |

JSON keys are the columns of `edge.export`. Home Assistant finds the device by itself: discovery messages go to
`homeassistant/...`, retained.

A row counts as delivered when the broker acknowledged it. The number of the last such row is kept in
`mqtt.json` in the journal's folder, written every few seconds, so a row is delivered at least once whatever fails
in between. While the broker is away nothing piles up here: the rows are in the journal. Of more than
`MAXIMUM_BACKLOG` the oldest are passed over, and the log says how many.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import queue
import socket
import ssl
import sys
import threading
import time
import urllib.parse
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import edge
from edge.decision import Decision
from edge.errors import InputError
from edge.export import record
from edge.files import read_regular, write_atomic
from edge.journal import Row
from edge.journal_reader import JournalReader

PASSWORD_VARIABLE = "MANGO_MQTT_PASSWORD"
MAXIMUM_BACKLOG = 200_000
STATE_FILE = "mqtt.json"
DISCOVERY = "homeassistant"

_WINDOW = 50  # rows that are under way at once
_SAVE_S = 10.0
_LOOK_S = 2.0
_GATHER_S = 0.1  # new rows of this time go together
_GOODBYE_S = 0.5

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Broker:
    """Where to publish, and as whom. As text it shows no password.

    Attributes:
        host, port: the broker.
        tls: encrypted, the broker's certificate checked.
        user, password: credentials; "" for none.
        topic: what the topics begin with.
        authority: file with the certificates to check the broker's by; None for the system's.
    """

    host: str
    port: int
    tls: bool
    topic: str
    user: str = ""
    password: str = field(default="", repr=False)
    authority: Path | None = None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'mqtts' if self.tls else 'mqtt'}://{host}:{self.port}/{self.topic}"


def device_name() -> str:
    """Name of this device in topics: its host name, and some digits that no other device has."""
    host = "".join(letter if letter.isalnum() else "-" for letter in socket.gethostname().lower())
    try:
        machine = Path("/etc/machine-id").read_text("ascii").strip()
    except OSError:
        return host
    return f"{host}-{hashlib.sha256(f'mango-edge {machine}'.encode()).hexdigest()[:6]}"


def parse_broker(
    url: str,
    *,
    password_file: Path | None = None,
    authority: Path | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Broker:
    """A broker by its address: `mqtt://[user@]host[:1883][/topic]`, or `mqtts://` with TLS (port 8883).

    The password comes from the file, else from the environment (MANGO_MQTT_PASSWORD), else from the address,
    where every user of the machine can read it in the list of processes. There, letters such as @, /, ? and #
    are written with a percent sign.

    Raises:
        InputError: the address or the file is at fault. The sentence never repeats a password.
    """
    example = "write for example mqtt://user@192.168.0.2/orchard"
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port
    except ValueError:
        raise InputError(f"the MQTT address is malformed; {example}") from None
    if parts.scheme not in ("mqtt", "mqtts") or not parts.hostname or "?" in url or "#" in url:
        raise InputError(f"the MQTT address is not one; {example}")
    tls = parts.scheme == "mqtts"
    topic = urllib.parse.unquote(parts.path.strip("/")) or f"mango-edge/{device_name()}"
    if any(letter in topic for letter in "+#\0") or topic.startswith("$") or len(topic) > 200:
        raise InputError("the MQTT topic must not contain + or #, nor begin with $")
    user = urllib.parse.unquote(parts.username or "")
    password = environment.get(PASSWORD_VARIABLE) or urllib.parse.unquote(parts.password or "")
    if password_file is not None:
        try:
            password = read_regular(password_file, "a password file", 2**16).decode().rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{password_file}: the MQTT password cannot be read ({error})") from None
    if password and not user:
        raise InputError(f"an MQTT password needs a user; {example}")
    if authority is not None and not authority.is_file():
        raise InputError(f"{authority}: no such file; give the certificate that signed the broker's")
    if authority is not None and not tls:
        raise InputError("a certificate to check the broker by needs an address that begins with mqtts://")
    return Broker(parts.hostname, port or (8883 if tls else 1883), tls, topic, user, password, authority)


class Publisher:
    """Publishes the rows of a journal in a thread of its own; made by `start_publisher`."""

    def __init__(
        self,
        broker: Broker,
        reader: JournalReader,
        client: Any,
        device: str,
        problems: Callable[[], Sequence[str]],
    ) -> None:
        self.broker = broker
        self._reader = reader
        self._client = client
        self._device = device
        self._problems = problems
        self._wake = threading.Event()
        self._closing = False
        self._connected = False
        self._greet = False
        self._trouble = ""
        self._state_trouble = ""
        # Acknowledgements arrive in the client's thread under its locks; they are only noted there.
        self._acknowledged_messages: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._under_way: deque[tuple[int, int]] = deque()
        self._expected: set[int] = set()
        self._caught_up = False
        self._journal = ""
        self._sent = 0
        self._delivered = 0
        self._saved: tuple[str, int] = ("", 0)
        self._saved_at = time.monotonic()
        client.on_connect = self._on_connect
        client.on_connect_fail = self._on_connect_fail
        client.on_disconnect = self._on_disconnect
        client.on_publish = self._on_publish
        self._thread = threading.Thread(target=self._run, name="mqtt", daemon=True)
        self._thread.start()

    @property
    def connected(self) -> bool:
        """Whether the broker is there."""
        return self._connected

    @property
    def trouble(self) -> str:
        """ "" while all is well, else why nothing is delivered."""
        return self._trouble

    @property
    def delivered(self) -> int:
        """Number of the last row of which it and all before it were acknowledged by the broker."""
        return self._delivered

    def publish(self, row: int) -> None:
        """Say that the journal has a new row, as `Journal.record` returned it. Does not wait."""
        if row:
            self._wake.set()

    def wants_picture(self, decision: Decision) -> bool:
        """No: pictures are not published."""
        del decision
        return False

    def submit(self, decision: Decision, picture: bytes | None = None) -> None:
        """Say that the journal is about to have a new row; it is published from there."""
        del decision, picture
        self._wake.set()

    def close(self) -> None:
        """Say goodbye and end; rows that were not acknowledged are published at the next start."""
        self._closing = True
        self._wake.set()
        self._thread.join()

    # The publisher's thread.

    def _run(self) -> None:
        self._client.connect_async(self.broker.host, self.broker.port, keepalive=30)
        self._client.loop_start()
        while not self._closing:
            try:
                self._step()
            except InputError as error:  # the journal cannot be read just now
                self._complain(str(error))
            # One row or answer that upsets this must not end the publishing of all others.
            except Exception:
                _log.exception("publishing failed")
            self._wake.wait(_LOOK_S)
            if self._caught_up and not self._closing:
                time.sleep(_GATHER_S)
            self._wake.clear()
        self._end()

    def _step(self) -> None:
        self._note_acknowledged()
        self._save(_SAVE_S)
        if not self._connected:
            return
        if self._greet:
            self._greet = False
            self._say_hello()
        self._follow()
        room = _WINDOW - len(self._under_way)
        if room < _WINDOW // 2:  # the next acknowledgements will wake this thread
            return
        rows = list(self._reader.rows(after=self._sent, limit=room))
        for row in rows:
            self._send(row)
        self._caught_up = len(rows) < room
        if rows and self._caught_up:
            self._show(rows[-1])

    def _follow(self) -> None:
        """Take up where the last run ended, or at the beginning of a database that replaced another."""
        identity = self._reader.identity()
        if identity != self._journal:
            self._under_way.clear()
            self._expected.clear()
            self._journal = identity
            self._sent = self._delivered = self._read_state(identity)
        newest = self._reader.size()
        if newest - self._sent > MAXIMUM_BACKLOG:
            first = newest - MAXIMUM_BACKLOG
            _log.warning("%d rows are too far behind and are not published", first - self._sent)
            self._sent = first
            if not self._under_way:
                self._delivered = first

    def _send(self, row: Row) -> None:
        values = json.dumps(record(row), ensure_ascii=False)
        message = self._client.publish(f"{self.broker.topic}/decision", values, qos=1)
        self._under_way.append((message.mid, row.id))
        self._expected.add(message.mid)
        self._sent = row.id

    def _show(self, row: Row) -> None:
        decision = row.decision
        state = {
            **record(row),
            # An empty state reads as "unknown" in Home Assistant.
            "label": decision.label or "not used",
            "gate": decision.gate or "passed",
            "problem": "; ".join(self._problems()),
        }
        self._client.publish(f"{self.broker.topic}/state", json.dumps(state, ensure_ascii=False), 1, True)

    def _say_hello(self) -> None:
        for topic, values in discovery(self.broker.topic, self._device):
            self._client.publish(topic, json.dumps(values), qos=1, retain=True)
        self._client.publish(f"{self.broker.topic}/availability", "online", qos=1, retain=True)

    def _note_acknowledged(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                self._expected.discard(self._acknowledged_messages.get_nowait())
        while self._under_way and self._under_way[0][0] not in self._expected:
            self._delivered = self._under_way.popleft()[1]

    def _read_state(self, identity: str) -> int:
        path = self._reader.folder / STATE_FILE
        try:
            values = json.loads(path.read_text("utf-8"))
            if values["journal"] == identity and values["broker"] == str(self.broker):
                return int(values["delivered"])
        except FileNotFoundError:
            pass
        except (OSError, ValueError, TypeError, KeyError) as error:
            _log.warning("%s: unreadable (%s); rows are published from the first one on", path, error)
        return 0

    def _save(self, interval: float) -> None:
        if not self._journal or self._saved == (self._journal, self._delivered):
            return
        if time.monotonic() - self._saved_at < interval:
            return
        values = {"journal": self._journal, "broker": str(self.broker), "delivered": self._delivered}
        self._saved_at = time.monotonic()
        try:
            write_atomic(self._reader.folder / STATE_FILE, json.dumps(values).encode())
        except OSError as error:
            if not self._state_trouble:
                _log.warning("what was delivered cannot be noted (%s); rows may be published again", error)
            self._state_trouble = str(error)
            return
        self._state_trouble = ""
        self._saved = (self._journal, self._delivered)

    def _end(self) -> None:
        until = time.monotonic() + _GOODBYE_S
        if self._connected:
            farewell = self._client.publish(
                f"{self.broker.topic}/availability", "offline", qos=1, retain=True
            )
            with contextlib.suppress(ValueError, RuntimeError):
                farewell.wait_for_publish(max(until - time.monotonic(), 0))
        self._note_acknowledged()
        self._save(0.0)
        self._client.disconnect()
        # Its thread may be waiting for a broker that does not answer; it ends with the process.
        stop = threading.Thread(target=self._client.loop_stop, daemon=True)
        stop.start()
        stop.join(_GOODBYE_S / 2)

    # In the client's thread.

    def _on_connect(self, client: Any, userdata: Any, flags: Any, reason: Any, properties: Any) -> None:
        if reason.is_failure:
            self._complain(f"{self.broker}: the broker refuses the connection ({reason})")
            return
        _log.info("%s: connected", self.broker)
        self._trouble = ""
        self._greet = self._connected = True
        self._wake.set()

    def _on_connect_fail(self, client: Any, userdata: Any) -> None:
        # paho calls this while it handles the error, and tells it no other way.
        cause = sys.exc_info()[1]
        self._complain(f"{self.broker}: the broker cannot be reached ({cause}); rows wait in the journal")

    def _on_disconnect(self, client: Any, userdata: Any, flags: Any, reason: Any, properties: Any) -> None:
        was, self._connected = self._connected, False
        if was and not self._closing:
            self._complain(f"{self.broker}: the connection was lost ({reason}); rows wait in the journal")

    def _on_publish(self, client: Any, userdata: Any, mid: int, reason: Any, properties: Any) -> None:
        self._acknowledged_messages.put(mid)
        self._wake.set()

    def _complain(self, trouble: str) -> None:
        if trouble != self._trouble:
            _log.warning("%s", trouble)
            self._trouble = trouble


def start_publisher(
    broker: Broker,
    reader: JournalReader,
    *,
    device: str = "",
    problems: Callable[[], Sequence[str]] = tuple,
) -> Publisher:
    """Publish a journal's rows to a broker, those that wait and those that come.

    Args:
        broker: where; it need not be there yet.
        reader: the journal.
        device: name of this device; by default `device_name()`.
        problems: asked with every state that is shown; a sentence for each thing that is wrong.

    Raises:
        InputError: paho-mqtt 2 is missing, or the authority's certificate is none.
    """
    try:
        from paho.mqtt.client import Client
        from paho.mqtt.enums import CallbackAPIVersion
    except ImportError:
        raise InputError("MQTT needs paho-mqtt 2: pip install 'mango-leaf-kit[mqtt]'") from None
    name = device or device_name()
    client = Client(CallbackAPIVersion.VERSION2, client_id=f"mango-edge-{name}")
    client.reconnect_delay_set(1, 60)
    client.max_inflight_messages_set(_WINDOW)
    client.will_set(f"{broker.topic}/availability", "offline", qos=1, retain=True)
    if broker.user:
        client.username_pw_set(broker.user, broker.password or None)
    if broker.tls:
        try:
            client.tls_set(ca_certs=None if broker.authority is None else str(broker.authority))
        except (OSError, ssl.SSLError) as error:
            raise InputError(f"{broker.authority}: not a certificate that can be used ({error})") from None
    return Publisher(broker, reader, client, name, problems)


def discovery(topic: str, device: str) -> list[tuple[str, dict[str, Any]]]:
    """Home Assistant's discovery messages: (topic, configuration) of each entity.

    See https://www.home-assistant.io/integrations/mqtt/#mqtt-discovery.
    """
    identity = "".join(letter if letter.isalnum() else "_" for letter in device)
    common = {
        "state_topic": f"{topic}/state",
        "availability_topic": f"{topic}/availability",
        "device": {
            "identifiers": [f"mango_edge_{identity}"],
            "name": device,
            "manufacturer": "mango-leaf-kit",
            "model": "mango-edge",
            "sw_version": edge.__version__,
        },
        "origin": {"name": "mango-edge", "sw_version": edge.__version__},
    }
    diagnostic = {"entity_category": "diagnostic"}
    entities: list[tuple[str, str, dict[str, Any]]] = [
        ("sensor", "label", {"name": "Leaf", "icon": "mdi:leaf", "value_template": "{{ value_json.label }}"}),
        (
            "sensor",
            "probability",
            {
                "name": "Probability",
                "value_template": "{{ (value_json.probability * 100) | round(1) if value_json.probability is"
                " not none else none }}",
                "unit_of_measurement": "%",
                "state_class": "measurement",
            },
        ),
        ("sensor", "gate", {"name": "Frame", "value_template": "{{ value_json.gate }}", **diagnostic}),
        (
            "sensor",
            "temperature",
            {
                "name": "Processor temperature",
                "value_template": "{{ value_json.temperature_c }}",
                "device_class": "temperature",
                "unit_of_measurement": "°C",
                "state_class": "measurement",
                **diagnostic,
            },
        ),
        (
            "binary_sensor",
            "problem",
            {
                "name": "Problem",
                "value_template": "{{ 'ON' if value_json.problem else 'OFF' }}",
                "device_class": "problem",
                "json_attributes_topic": f"{topic}/state",
                "json_attributes_template": "{{ {'problem': value_json.problem} | tojson }}",
                **diagnostic,
            },
        ),
    ]
    return [
        (
            f"{DISCOVERY}/{component}/mango_edge_{identity}/{name}/config",
            {
                **common,
                "unique_id": f"mango_edge_{identity}_{name}",
                **values,
            },
        )
        for component, name, values in entities
    ]
