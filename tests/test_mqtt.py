"""MQTT against a real broker: every row arrives at least once, whatever is away or killed meanwhile."""

from __future__ import annotations

import dataclasses
import datetime
import ipaddress
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

from edge.decision import Decision
from edge.errors import InputError
from edge.journal import DATABASE, open_journal
from edge.journal_reader import JournalReader
from edge.mqtt import Broker, Publisher, discovery, parse_broker, start_publisher

SURE = Decision(
    "camera", "Healthy", (0.25, 0.75), ("Anthracnose", "Healthy"), "", {"invoke": 5.0}, "ab" * 32, 51.5
)
DARK = dataclasses.replace(SURE, label="", probabilities=(), gate="dark", temperature_c=None)


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


class Mosquitto:
    """Mosquitto on a port of its own, to be stopped and started again."""

    def __init__(self, program: str, folder: Path, *settings: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self._program = program
        self._configuration = folder / "mosquitto.conf"
        lines = (f"listener {self.port} 127.0.0.1", "user root", *(settings or ("allow_anonymous true",)))
        self._configuration.write_text("\n".join(lines) + "\n")
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(
            [self._program, "-c", str(self._configuration)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for(self._listens, "mosquitto does not start")

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


@pytest.fixture
def start_mosquitto(tmp_path: Path) -> Iterator[Callable[..., Mosquitto]]:
    pytest.importorskip("paho.mqtt", reason="no paho-mqtt here: MQTT is not tested")
    program = shutil.which("mosquitto", path=os.environ.get("PATH", "") + ":/usr/sbin")
    if program is None:
        pytest.skip("no mosquitto here: MQTT is not tested (apt install mosquitto)")
    brokers: list[Mosquitto] = []

    def start(*settings: str) -> Mosquitto:
        brokers.append(Mosquitto(program, tmp_path, *settings))
        return brokers[-1]

    yield start
    for broker in brokers:
        broker.stop()


class Subscriber:
    """Notes everything that is published."""

    def __init__(self, port: int) -> None:
        from paho.mqtt.client import Client
        from paho.mqtt.enums import CallbackAPIVersion

        self.messages: list[tuple[str, str, bool]] = []
        self.ready = threading.Event()
        self._client = Client(CallbackAPIVersion.VERSION2)
        self._client.reconnect_delay_set(1, 1)
        self._client.on_connect = lambda client, *_: client.subscribe("#", qos=1)
        self._client.on_subscribe = lambda *_: self.ready.set()
        self._client.on_message = self._note
        self._client.connect_async("127.0.0.1", port)
        self._client.loop_start()
        assert self.ready.wait(30)

    def _note(self, client: Any, userdata: Any, message: Any) -> None:
        self.messages.append((message.topic, message.payload.decode(), message.retain))

    def rows(self) -> list[int]:
        return [
            json.loads(text)["id"] for topic, text, _ in list(self.messages) if topic.endswith("/decision")
        ]

    def last(self, topic: str) -> str:
        return next((text for name, text, _ in reversed(list(self.messages)) if name == topic), "")

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


@pytest.fixture
def subscribe() -> Iterator[Callable[[Mosquitto], Subscriber]]:
    subscribers: list[Subscriber] = []

    def start(broker: Mosquitto) -> Subscriber:
        subscribers.append(Subscriber(broker.port))
        return subscribers[-1]

    yield start
    for subscriber in subscribers:
        subscriber.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def publisher(broker: Mosquitto, folder: Path, **options: Any) -> Publisher:
    return start_publisher(
        Broker("127.0.0.1", broker.port, False, "orchard"), JournalReader(folder), device="pi", **options
    )


def test_rows_arrive_in_order_with_state_availability_and_discovery(
    start_mosquitto: Callable[..., Mosquitto], subscribe: Callable[[Mosquitto], Subscriber], folder: Path
) -> None:
    broker = start_mosquitto()
    subscriber = subscribe(broker)
    with open_journal(folder) as journal:
        journal.record(SURE)  # waits before the publisher is there
        sender = publisher(broker, folder, problems=lambda: ["the camera is gone"])
        for number in range(1, 120):  # more than go at once
            sender.publish(journal.record(dataclasses.replace(SURE, frame_number=number)))
        sender.publish(journal.record(DARK))
        wait_for(lambda: sender.delivered == 121, "the rows are not acknowledged")
        wait_for(lambda: '"id": 121' in subscriber.last("orchard/state"), "no state")
        assert subscriber.last("orchard/availability") == "online"
        sender.close()
    wait_for(lambda: subscriber.last("orchard/availability") == "offline", "no farewell")
    assert subscriber.rows() == list(range(1, 122))
    first = json.loads(next(text for topic, text, _ in subscriber.messages if topic == "orchard/decision"))
    assert (first["label"], first["probability"], first["ms_invoke"]) == ("Healthy", 0.75, 5.0)
    state = json.loads(subscriber.last("orchard/state"))
    assert (state["label"], state["gate"], state["probability"]) == ("not used", "dark", None)
    assert state["problem"] == "the camera is gone"
    late = subscribe(broker)  # as Home Assistant after its own restart
    wait_for(lambda: len(late.messages) >= 7, "what should be retained is not")
    retained = {
        topic: json.loads(text) for topic, text, _ in late.messages if topic.startswith("homeassistant/")
    }
    assert retained == dict(discovery("orchard", "pi"))
    assert late.last("orchard/availability") == "offline"
    assert late.rows() == []


def test_discovery_names_every_entity_once_and_points_at_the_state() -> None:
    messages = discovery("orchard/tree", "Pi zero.2")
    identities = [values["unique_id"] for _, values in messages]
    assert len(set(identities)) == len(messages) == 5
    for topic, values in messages:
        parts = topic.split("/")
        assert parts[0] == "homeassistant"
        assert parts[1] in ("sensor", "binary_sensor")
        assert parts[-1] == "config"
        assert len(parts) == 5
        assert parts[2].replace("_", "").isalnum()
        assert values["state_topic"] == "orchard/tree/state"
        assert values["availability_topic"] == "orchard/tree/availability"
        assert values["device"]["identifiers"] == ["mango_edge_Pi_zero_2"]


def test_rows_wait_while_the_broker_is_away(
    start_mosquitto: Callable[..., Mosquitto],
    subscribe: Callable[[Mosquitto], Subscriber],
    folder: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = start_mosquitto()
    subscriber = subscribe(broker)
    with open_journal(folder) as journal:
        sender = publisher(broker, folder)
        sender.publish(journal.record(SURE))
        wait_for(lambda: sender.delivered == 1, "the first row is not acknowledged")
        broker.stop()
        wait_for(lambda: not sender.connected, "the loss is not noticed")
        for _ in range(200):
            sender.publish(journal.record(SURE))
        assert "rows wait in the journal" in sender.trouble
        assert sender.delivered == 1
        subscriber.ready.clear()
        broker.start()
        assert subscriber.ready.wait(30)
        wait_for(lambda: sender.delivered == 201, "the waiting rows are not delivered")
        assert sender.trouble == ""
        sender.close()
    # The subscriber may have come back later than the publisher; the broker acknowledged either way.
    assert len(subscriber.rows()) == len(set(subscriber.rows()))
    assert sum("was lost" in record.message for record in caplog.records) == 1


def test_after_a_restart_only_what_was_not_delivered_is_published(
    start_mosquitto: Callable[..., Mosquitto], subscribe: Callable[[Mosquitto], Subscriber], folder: Path
) -> None:
    broker = start_mosquitto()
    subscriber = subscribe(broker)
    with open_journal(folder) as journal:
        for last in (10, 20):
            while journal.record(SURE) < last:
                pass
            sender = publisher(broker, folder)
            wait_for(lambda sender=sender, last=last: sender.delivered == last, "not delivered")
            sender.close()
        wait_for(lambda: len(subscriber.rows()) == 20, "not received")
    assert subscriber.rows() == list(range(1, 21))


def test_rows_of_a_database_that_replaced_another_are_published(
    start_mosquitto: Callable[..., Mosquitto], subscribe: Callable[[Mosquitto], Subscriber], folder: Path
) -> None:
    broker = start_mosquitto()
    subscriber = subscribe(broker)
    for _ in range(2):
        with open_journal(folder) as journal:
            for _ in range(5):
                journal.record(SURE)
            sender = publisher(broker, folder)
            wait_for(lambda sender=sender: sender.delivered == 5, "not delivered")
            sender.close()
        (folder / DATABASE).unlink()
    wait_for(lambda: len(subscriber.rows()) == 10, "not received")
    assert subscriber.rows() == [1, 2, 3, 4, 5] * 2


SENDER = """
import pathlib, sys, time
import edge.mqtt
from edge.journal_reader import JournalReader
from edge.mqtt import Broker, start_publisher
edge.mqtt._WINDOW = 2  # slow enough to be killed in the middle
start_publisher(Broker("127.0.0.1", int(sys.argv[2]), False, "orchard"), JournalReader(pathlib.Path(sys.argv[1])))
time.sleep(600)
"""


def test_a_killed_publisher_leaves_no_row_undelivered(
    start_mosquitto: Callable[..., Mosquitto],
    subscribe: Callable[[Mosquitto], Subscriber],
    folder: Path,
) -> None:
    broker = start_mosquitto()
    subscriber = subscribe(broker)
    with open_journal(folder) as journal:
        rows = [journal.submit(SURE) for _ in range(5000)]
        assert rows[-1].result() == 5000
    for _ in range(2):
        before = len(subscriber.rows())
        sender = subprocess.Popen(
            [sys.executable, "-c", SENDER, str(folder), str(broker.port)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        wait_for(lambda before=before: len(subscriber.rows()) > before + 60, "nothing is published")
        sender.send_signal(signal.SIGKILL)
        assert sender.wait() == -signal.SIGKILL
        assert subscriber.rows()[-1] < 5000  # it was in the middle
    wait_for(lambda: subscriber.last("orchard/availability") == "offline", "no last will")
    last = publisher(broker, folder)
    wait_for(lambda: last.delivered == 5000, "not delivered")
    last.close()
    wait_for(lambda: 5000 in subscriber.rows(), "not received")
    assert set(subscriber.rows()) == set(range(1, 5001))


def test_of_a_backlog_that_is_too_long_the_oldest_are_passed_over_and_counted(
    start_mosquitto: Callable[..., Mosquitto],
    subscribe: Callable[[Mosquitto], Subscriber],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("edge.mqtt.MAXIMUM_BACKLOG", 100)
    broker = start_mosquitto()
    subscriber = subscribe(broker)
    with open_journal(folder) as journal:
        [journal.submit(SURE) for _ in range(250)][-1].result()
    sender = publisher(broker, folder)
    wait_for(lambda: sender.delivered == 250, "not delivered")
    sender.close()
    wait_for(lambda: len(subscriber.rows()) == 100, "not received")
    assert subscriber.rows() == list(range(151, 251))
    assert "150 rows are too far behind" in caplog.text


# Credentials and encryption.


def test_credentials_open_the_broker_and_never_reach_the_log(
    start_mosquitto: Callable[..., Mosquitto], folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    passwords = tmp_path / "passwords"
    subprocess.run(["mosquitto_passwd", "-b", "-c", passwords, "orchard", "s3cret-word"], check=True)
    passwords.chmod(0o600)
    broker = start_mosquitto("allow_anonymous false", f"password_file {passwords}")
    with open_journal(folder) as journal:
        journal.record(SURE)
    url = f"mqtt://orchard@127.0.0.1:{broker.port}/orchard"
    refused = start_publisher(parse_broker(url, environment={}), JournalReader(folder))
    wait_for(lambda: "refuses" in refused.trouble, "the refusal is not noticed")
    refused.close()
    right = tmp_path / "password"
    right.write_text("s3cret-word\n")
    sources: tuple[dict[str, Any], ...] = (
        {"password_file": right, "environment": {}},
        {"environment": {"MANGO_MQTT_PASSWORD": "s3cret-word"}},
    )
    for source in sources:
        (folder / "mqtt.json").unlink(missing_ok=True)
        parsed = parse_broker(url, **source)
        sender = start_publisher(parsed, JournalReader(folder))
        wait_for(lambda sender=sender: sender.delivered == 1, "not delivered")
        sender.close()
        assert "s3cret" not in f"{parsed} {parsed!r} {(folder / 'mqtt.json').read_text()}"
    assert "s3cret" not in caplog.text


def certificates(folder: Path) -> None:
    """An authority and a certificate of 127.0.0.1, valid for an hour."""
    pytest.importorskip("cryptography", reason="no cryptography here: MQTT over TLS is not tested")
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    now = datetime.datetime.now(datetime.timezone.utc)
    keys = {name: ec.generate_private_key(ec.SECP256R1()) for name in ("authority", "broker")}
    issuer = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "authority")])
    for name, key in keys.items():
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=name == "authority", path_length=None), critical=True)
        )
        if name == "broker":
            names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(keys["authority"], hashes.SHA256())
        (folder / f"{name}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        (folder / f"{name}.key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )


def test_tls_checks_the_brokers_certificate(
    start_mosquitto: Callable[..., Mosquitto], folder: Path, tmp_path: Path
) -> None:
    certificates(tmp_path)
    broker = start_mosquitto(
        "allow_anonymous true", f"certfile {tmp_path}/broker.pem", f"keyfile {tmp_path}/broker.key"
    )
    with open_journal(folder) as journal:
        journal.record(SURE)
    url = f"mqtts://127.0.0.1:{broker.port}/orchard"
    trusting = start_publisher(parse_broker(url, authority=tmp_path / "authority.pem"), JournalReader(folder))
    wait_for(lambda: trusting.delivered == 1, "not delivered over TLS")
    trusting.close()
    stranger = start_publisher(parse_broker(url), JournalReader(folder))  # the system knows no such authority
    wait_for(lambda: "certificate" in stranger.trouble, "the wrong certificate is not said")
    assert not stranger.connected
    stranger.close()


def test_a_broker_that_does_not_answer_holds_nothing_up(folder: Path) -> None:
    pytest.importorskip("paho.mqtt", reason="no paho-mqtt here: MQTT is not tested")
    with open_journal(folder) as journal:
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen()  # takes the connection and says nothing
            broker = Broker("127.0.0.1", silent.getsockname()[1], False, "orchard")
            sender = start_publisher(broker, JournalReader(folder))
            sender.publish(journal.record(SURE))
            sender.close()
        assert sender.delivered == 0


# Addresses.


def test_an_address_is_read() -> None:
    assert parse_broker("mqtt://broker.lan/orchard/", environment={}) == Broker(
        "broker.lan", 1883, False, "orchard"
    )
    parsed = parse_broker("mqtts://me:p%40ss@[::1]:99/a/b", environment={})
    assert parsed == Broker("::1", 99, True, "a/b", "me", "p@ss")
    assert str(parsed) == "mqtts://[::1]:99/a/b"
    assert "p@ss" not in repr(parsed)
    assert parse_broker("mqtt://broker", environment={}).topic.startswith("mango-edge/")
    told = parse_broker("mqtt://me:old@broker", environment={"MANGO_MQTT_PASSWORD": "new"})
    assert told.password == "new"


@pytest.mark.parametrize(
    "url",
    ["", "broker", "http://broker", "mqtt://", "mqtt://broker:port", "mqtt://b/#", "mqtt://b/a+", "mqtt://b/$SYS",
     "mqtt://:hidden@broker", "mqtt://me:hidden@broker:x", "mqtt://me:hidden@broker?x=1"],
)  # fmt: skip
def test_an_address_that_is_none_is_refused_without_repeating_its_password(url: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_broker(url, environment={})
    assert "hidden" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_files_that_are_missing_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        parse_broker("mqtt://me@broker", password_file=tmp_path / "none")
    with pytest.raises(InputError, match="no such file"):
        parse_broker("mqtts://broker", authority=tmp_path / "none")
    (tmp_path / "some").write_text("x")
    with pytest.raises(InputError, match="mqtts"):
        parse_broker("mqtt://broker", authority=tmp_path / "some")
    pytest.importorskip("paho.mqtt", reason="no paho-mqtt here: MQTT is not tested")
    with pytest.raises(InputError, match="not a certificate"):
        start_publisher(
            parse_broker("mqtts://broker", authority=tmp_path / "some"),
            JournalReader(tmp_path, must_exist=False),
        )
