"""The doctor looks at recorded trees of devices and says what is wrong with each."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from conftest import Command

from bench.drawing import draw_samples
from edge import doctor
from edge.clock import BUILT
from edge.doctor import FAIL, OK, UNKNOWN, WARN, Check, Device
from edge.errors import InputError

DAY = 86400.0


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


HEALTHY = {
    "proc/device-tree/model": "Raspberry Pi 4 Model B Rev 1.4\0",
    "proc/meminfo": "MemTotal: 3884136 kB\nMemAvailable: 3201232 kB\n",
    "proc/mounts": "/dev/mmcblk0p2 / ext4 rw,noatime 0 0\n",
    "sys/class/thermal/thermal_zone0/type": "cpu-thermal\n",
    "sys/class/thermal/thermal_zone0/temp": "51121\n",
    "sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids\n",
    "sys/class/video4linux/video0/name": "HD USB Camera: HD USB Camera\n",
    "sys/class/video4linux/video10/name": "bcm2835-codec-decode\n",
    "sys/class/video4linux/video13/name": "bcm2835-isp-output0\n",
    "sys/class/rtc/rtc0/name": "rtc-ds1307\n",
    "dev/video0": "",
    "dev/watchdog0": "",
    "etc/systemd/system.conf.d/mango-edge.conf": "[Manager]\nRuntimeWatchdogSec=14s\n",
    "run/systemd/timesync/synchronized": "",
    "var/lib/mango-edge/models/lock": "",
}


@pytest.fixture
def healthy(tmp_path: Path) -> Path:
    return tree(tmp_path / "device", HEALTHY)


def device(root: Path, answer: str | None = None, now: float = BUILT + DAY, **changed: object) -> Device:
    def command(arguments: Sequence[str]) -> str:
        assert list(arguments) == ["vcgencmd", "get_throttled"]
        if answer is None:
            raise FileNotFoundError(2, "vcgencmd is not installed")
        return answer

    return Device(root=root, command=command, now=lambda: now, **changed)  # type: ignore[arg-type]


def expect(check: Check, state: str, *words: str) -> None:
    assert check.state == state, check
    for word in words:
        assert word in f"{check.found} {check.advice}", check
    assert bool(check.advice) == (state in (WARN, FAIL)), check


def test_a_healthy_board_has_nothing_to_mend(healthy: Path) -> None:
    checks = doctor.examine(device(healthy, "throttled=0x0\n"))
    by_name = {check.name: check for check in checks}
    assert len(by_name) == len(checks) == 11
    expect(by_name["board"], OK, "Raspberry Pi 4 Model B Rev 1.4", "64 bit")
    expect(by_name["power"], OK)
    expect(by_name["temperature"], OK, "51.1 °C")
    expect(by_name["runtime"], OK)
    expect(by_name["camera"], OK, "/dev/video0 HD USB Camera")
    assert "codec" not in by_name["camera"].found
    assert "isp" not in by_name["camera"].found
    expect(by_name["permissions"], OK)
    expect(by_name["disk"], OK, "MB free", "ext4")
    expect(by_name["memory"], OK, "3,278 MB available")
    expect(by_name["clock"], OK, "from the network", "battery")
    expect(by_name["watchdog"], OK, "14s")


@pytest.mark.parametrize(
    ("flags", "state", "words"),
    [
        ("0x50005", FAIL, ("now: under-voltage, throttled", "power supply", "heat sink")),
        ("0x50000", WARN, ("since start: under-voltage, throttled", "power supply")),
        ("0x1", FAIL, ("under-voltage", "power supply")),
        ("0x20002", WARN, ("frequency capped", "heat sink")),
        ("0x80008", WARN, ("soft temperature limit", "heat sink")),
        ("0x0", OK, ()),
    ],
)
def test_throttle_flags_as_the_firmware_documents_them(
    healthy: Path, flags: str, state: str, words: tuple[str, ...]
) -> None:
    expect(doctor.power(device(healthy, f"throttled={flags}\n")), state, *words)
    tree(healthy, {"sys/devices/platform/soc/soc:firmware/get_throttled": f"{flags.removeprefix('0x')}\n"})
    expect(doctor.power(device(healthy)), state, *words)  # the same from sysfs, without vcgencmd


def test_under_voltage_is_found_without_the_firmware_s_flags(healthy: Path) -> None:
    expect(doctor.power(device(healthy)), UNKNOWN, "vcgencmd is not installed")
    expect(doctor.power(device(healthy, "error\n")), UNKNOWN, "nothing that is understood")
    alarm = {"sys/class/hwmon/hwmon1/name": "rpi_volt\n", "sys/class/hwmon/hwmon1/in0_lcrit_alarm": "1\n"}
    expect(doctor.power(device(tree(healthy, alarm))), FAIL, "under-voltage", "rpi_volt")


@pytest.mark.parametrize(
    ("milli", "state", "word"),
    [
        ("69900", OK, "69.9"),
        ("70000", WARN, "shade"),
        ("80100", FAIL, "slows down"),
        ("x", UNKNOWN, "no sensor"),
    ],
)
def test_temperature(healthy: Path, milli: str, state: str, word: str) -> None:
    tree(healthy, {"sys/class/thermal/thermal_zone0/temp": milli})
    expect(doctor.temperature(device(healthy)), state, word)


def test_a_32_bit_program_is_warned_about(healthy: Path) -> None:
    expect(doctor.board(device(healthy), pointer_bytes=4), WARN, "32 bit", "64-bit system")


def test_a_runtime_that_is_broken_or_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(name: str) -> object:
        if name == "ai-edge-litert":
            raise InputError("runtime ai-edge-litert cannot be imported: built for another numpy")
        if name in present:
            return f"{name} 2.14.0"
        raise InputError(f"runtime {name} is not installed")

    monkeypatch.setattr(doctor, "load_runtime", load)
    present = ["tflite-runtime"]
    expect(doctor.runtime(), WARN, "tflite-runtime 2.14.0", "another numpy")
    present.clear()
    expect(doctor.runtime(), FAIL, "another numpy", "pip install")


def test_a_camera_that_is_not_there_or_not_allowed(healthy: Path) -> None:
    expect(
        doctor.camera(device(healthy, source="v4l2:/dev/video2?size=640x480")),
        FAIL, "/dev/video2 is not there", "/dev/video0 HD USB Camera", "cable",
    )  # fmt: skip
    expect(doctor.camera(device(healthy, source="v4l2:/dev/video0")), UNKNOWN, "recorded tree")
    shutil.rmtree(healthy / "sys/class/video4linux")
    expect(doctor.camera(device(healthy)), WARN, "no V4L2 camera")


def test_a_source_must_give_a_frame(tmp_path: Path) -> None:
    here = Path("/")
    draw_samples(tmp_path / "leaves", 1)
    expect(doctor.camera(device(here, source=str(tmp_path / "leaves"))), OK, "a frame of")
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken.mp4").write_bytes(b"no video")
    for argument in ("empty", "broken.mp4", "absent"):
        expect(doctor.camera(device(here, source=str(tmp_path / argument))), FAIL, argument, "SOURCE")
    secret = doctor.camera(device(here, source="rtsp://user:secret@127.0.0.1:9/stream"))
    expect(secret, FAIL, "127.0.0.1")
    assert "secret" not in f"{secret.found}{secret.advice}"


def test_the_model_is_tried(healthy: Path, tmp_path: Path) -> None:
    pytest.importorskip("cryptography", reason="signed models need the package cryptography")
    from convert.signing import make_keys, sign_model
    from edge.classifier import DEFAULT_MODEL
    from edge.model_store import current_model, install, read_candidate

    expect(doctor.model(device(healthy)), OK, "the model that the package ships")
    make_keys(tmp_path / "k.pem", tmp_path / "k.pub.pem")
    sign_model(DEFAULT_MODEL, tmp_path / "k.pem", 1, tmp_path / "one.tflite")
    store = healthy / "var/lib/mango-edge/models"
    release, _ = install(store, read_candidate(tmp_path / "one.tflite", tmp_path / "k.pub.pem"))
    expect(doctor.model(device(healthy)), OK, "release 1", "4 golden outputs agree")
    current_model(store, test=lambda path: "passed")
    expect(doctor.model(device(healthy)), WARN, "on trial, started 1 of 3 times", "journalctl")
    release.path.write_bytes(release.path.read_bytes()[:-100])
    expect(doctor.model(device(healthy)), FAIL, "release 1", "its model file is damaged", "rollback")
    current_model(store)
    expect(doctor.model(device(healthy)), WARN, "release 1 was given up", "damaged")


def test_disk_space_and_what_is_only_in_memory(healthy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = {"/": "ext4 rw", "/var/lib/mango-edge": "ext4 ro,relatime"}

    def mount() -> Path:
        lines = "".join(f"/dev/x {point} {kind} 0 0\n" for point, kind in mounts.items())
        return tree(healthy, {"proc/mounts": lines})

    expect(doctor.disk(device(mount())), FAIL, "mounted read-only", "dmesg")
    mounts["/var/lib/mango-edge"] = "ext4 rw"
    mounts["/"] = "overlay rw"
    expect(doctor.disk(device(mount())), OK, "ext4")
    del mounts["/var/lib/mango-edge"]
    expect(doctor.disk(device(mount())), WARN, "in memory: gone at power-off", "partition")
    mounts["/"] = "ext4 rw"

    class Room:
        f_frsize = 4096
        f_bavail = 0

    monkeypatch.setattr(doctor.os, "statvfs", lambda path: Room)
    Room.f_bavail = 100 * 10**6 // 4096
    expect(doctor.disk(device(mount())), WARN, "100 MB free")
    Room.f_bavail = 10 * 10**6 // 4096
    expect(doctor.disk(device(mount())), FAIL, "10 MB free", "export")


def test_memory_and_limits(healthy: Path) -> None:
    tree(healthy, {"sys/fs/cgroup/cgroup.controllers": "cpuset cpu io pids\n"})
    expect(doctor.memory(device(healthy)), WARN, "MemoryMax has no effect", "cgroup_enable=memory")
    tree(healthy, {"proc/meminfo": "MemAvailable: 60000 kB\n"})
    expect(doctor.memory(device(healthy)), WARN, "61 MB", "desktop")
    tree(healthy, {"proc/meminfo": "MemTotal: 1 kB\n"})
    expect(doctor.memory(device(healthy)), UNKNOWN, "MemAvailable")


def test_a_clock_that_is_unset_or_will_be(healthy: Path) -> None:
    expect(doctor.clock(device(healthy, now=DAY)), FAIL, "not set (1970-01-02", "sudo date")
    (healthy / "run/systemd/timesync/synchronized").unlink()
    expect(doctor.clock(device(healthy)), OK, "battery-backed clock")
    shutil.rmtree(healthy / "sys/class/rtc")
    expect(doctor.clock(device(healthy)), WARN, "after a power cut")


def test_the_watchdog_must_be_fed(healthy: Path) -> None:
    conf = "etc/systemd/system.conf.d/mango-edge.conf"
    for text in ("[Manager]\n#RuntimeWatchdogSec=14s\n", "[Manager]\nRuntimeWatchdogSec=0\n"):
        expect(
            doctor.watchdog(device(tree(healthy, {conf: text}))), WARN, "does not feed it", "watchdog.conf"
        )
    (healthy / "dev/watchdog0").unlink()
    expect(doctor.watchdog(device(healthy)), WARN, "no hardware watchdog")


def test_an_empty_tree_is_no_reason_to_crash(tmp_path: Path) -> None:
    states = {check.name: check.state for check in doctor.examine(device(tmp_path))}
    assert states["power"] == states["temperature"] == states["memory"] == UNKNOWN


def test_the_command_s_status_says_whether_something_fails(command: Command, healthy: Path) -> None:
    done = command("mango-edge", "doctor", "--root", healthy)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok      temperature  51.1 °C" in done.stdout
    tree(healthy, {"sys/class/thermal/thermal_zone0/temp": "90000"})
    done = command("mango-edge", "doctor", "--root", healthy, "--json")
    assert done.returncode == 1
    failed = [check for check in json.loads(done.stdout) if check["state"] == "fail"]
    assert [check["name"] for check in failed] == ["temperature"]
    done = command("mango-edge", "doctor", "--root", healthy / "nowhere")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
