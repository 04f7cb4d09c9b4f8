"""Is this device fit to work unattended? Each check says what it found and, where that is not well, what to do.

Files of the system are read below a root folder, which tests replace by recorded trees. Four states: "ok"; "warn":
it works, but not for months; "fail": it does not work; "unknown": it could not be looked at here, and why.
"""

from __future__ import annotations

import os
import shutil
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from edge.classifier import DEFAULT_MODEL, Classifier
from edge.clock import is_set
from edge.contract import read_model
from edge.errors import InputError
from edge.golden import MEMBER, run_apart
from edge.model_store import ATTEMPTS, damage, read_status
from edge.runtime import INSTALL_HINT, RUNTIMES, load_runtime
from edge.source import open_source, public_name
from edge.source.frame import SourceLostError
from edge.thermal import THROTTLE_BITS, parse_throttled, read_temperature

OK, WARN, FAIL, UNKNOWN = "ok", "warn", "fail", "unknown"

MEGABYTE = 10**6
DISK_FAIL, DISK_WARN = 50 * MEGABYTE, 500 * MEGABYTE
"""Free bytes below which the journal cannot be kept, or not for long."""

MEMORY_WARN = 120 * MEGABYTE
"""Available memory that the runner should find: its own 150 MB less what it holds already when it runs."""

HOT, TOO_HOT = 70.0, 80.0
"""Degrees Celsius. A Raspberry Pi lowers its clock from 80 on (a 3B+ from 60), and ages faster above 70."""

FRAME_S = 15.0
"""Time that the source has for its first frame."""


Command = Callable[[Sequence[str]], str]
"""Runs a program and returns what it printed; raises OSError where it is missing or fails."""


@dataclass(frozen=True)
class Check:
    """One check: its name, its state, what was found, and what to do ("" where nothing is)."""

    name: str
    state: str
    found: str
    advice: str = ""


@dataclass(frozen=True)
class Device:
    """What is examined.

    Attributes:
        source: where frames come from, as `mango-edge run --source` takes it; "" for none yet.
        store: the folder of installed models.
        journal: the folder of the journal.
        root: folder that holds proc, sys, dev, etc and run.
        command: runs `vcgencmd`; None where no program of the device can be run.
        now: wall clock, Unix seconds.
    """

    source: str = ""
    store: Path = Path("/var/lib/mango-edge/models")
    journal: Path = Path("/var/lib/mango-edge/journal")
    root: Path = Path("/")
    command: Command | None = None
    now: Callable[[], float] = time.time

    def at(self, path: Path | str) -> Path:
        """Where a path of the device is found from here."""
        return self.root / str(path).lstrip("/")

    def text(self, path: str) -> str:
        """A file's text, stripped; raises OSError."""
        return self.at(path).read_bytes().decode(errors="replace").replace("\0", " ").strip()


def run_command(arguments: Sequence[str]) -> str:
    """Run a program of this machine for at most 5 s; raises OSError where it is missing or fails."""
    program = shutil.which(arguments[0])
    if program is None:
        raise FileNotFoundError(2, f"{arguments[0]} is not installed")
    try:
        done = subprocess.run(
            [program, *arguments[1:]],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=5,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TimeoutError(110, f"{arguments[0]} does not answer") from None
    if done.returncode:
        raise OSError(5, f"{arguments[0]} failed: {' '.join((done.stderr or done.stdout).split())[:200]}")
    return done.stdout


def examine(device: Device) -> list[Check]:
    """All checks, in the order in which they are worth mending."""
    return [
        board(device),
        power(device),
        temperature(device),
        runtime(),
        model(device),
        camera(device),
        permissions(device),
        disk(device),
        memory(device),
        clock(device),
        watchdog(device),
    ]


def board(device: Device, pointer_bytes: int = struct.calcsize("P")) -> Check:
    """Which board and system, and whether the program is a 64-bit one."""
    try:
        name = device.text("proc/device-tree/model")
    except OSError:
        name = "no Raspberry Pi or other board with a device tree"
    python = f"Python {sys.version_info[0]}.{sys.version_info[1]}, {8 * pointer_bytes} bit"
    if pointer_bytes < 8:
        return Check(
            "board",
            WARN,
            f"{name}; {python}",
            "take the 64-bit system: 32 bit has tflite-runtime alone, no OpenCV",
        )
    return Check("board", OK, f"{name}; {python}")


def power(device: Device) -> Check:
    """Under-voltage and throttling, now and since the board started."""
    name = "power"
    try:
        flags, source = _throttle_flags(device)
    except OSError as error:
        alarm = _undervoltage_alarm(device)
        if alarm is None:
            return Check(
                name, UNKNOWN, f"throttling and voltage are not shown here ({error.strerror or error})"
            )
        flags, source = int(alarm), "hwmon rpi_volt"
    now = [text for bit, text in THROTTLE_BITS.items() if flags >> bit & 1]
    since = [text for bit, text in THROTTLE_BITS.items() if flags >> bit + 16 & 1 and text not in now]
    found = "; ".join(
        ([f"now: {', '.join(now)}"] if now else []) + ([f"since start: {', '.join(since)}"] if since else [])
    )
    supply = "use the board's own power supply and a short cable, and take USB devices off its ports"
    cool = "give the board a heat sink, shade and air"
    advice = "; ".join(
        text
        for text, bits in ((supply, ("under-voltage",)), (cool, tuple(THROTTLE_BITS.values())[1:]))
        if any(bit in (*now, *since) for bit in bits)
    )
    if "under-voltage" in now or "throttled" in now:
        return Check(name, FAIL, f"{found} ({source})", advice)
    if found:
        return Check(name, WARN, f"{found} ({source})", advice)
    return Check(name, OK, f"no under-voltage, no throttling since the board started ({source})")


def temperature(device: Device) -> Check:
    """The processor's temperature."""
    celsius = read_temperature(device.at("sys/class/thermal"))
    if celsius is None:
        return Check("temperature", UNKNOWN, "no sensor of the processor is shown here")
    found = f"{celsius:.1f} °C"
    if celsius >= TOO_HOT:
        return Check(
            "temperature", FAIL, found, "cool the board: it slows down now; shade, heat sink, air, --interval"
        )
    if celsius >= HOT:
        return Check(
            "temperature", WARN, found, "give it shade and a heat sink, or a longer --interval, before summer"
        )
    return Check("temperature", OK, found)


def runtime() -> Check:
    """The TFLite runtime that is taken: the first that can be imported, and what is wrong with those before it."""
    broken = []
    for name in RUNTIMES:
        try:
            loaded = load_runtime(name)
        except InputError as error:
            if "is not installed" not in str(error):
                broken.append(str(error))
            continue
        if broken:
            return Check("runtime", WARN, f"{loaded}, as {'; '.join(broken)}", "mend it, or uninstall it")
        return Check("runtime", OK, str(loaded))
    return Check("runtime", FAIL, "; ".join(broken) or "no TFLite runtime is installed", INSTALL_HINT)


def model(device: Device) -> Check:
    """The model that runs: whole, opened by the runtime here, self-test passed, not on its last trial."""
    status = read_status(device.at(device.store))
    current = status.current
    path = DEFAULT_MODEL if current is None else current.path
    what = "the model that the package ships" if current is None else str(current)
    if not path.exists():
        return Check(
            "model",
            FAIL,
            f"{what}: {path} is not there",
            "install one: mango-edge model install FILE --key KEY",
        )
    problem = None if current is None else damage(current)
    if problem is not None:
        return Check(
            "model",
            FAIL,
            f"{what}: {problem}",
            "check the card (dmesg); the service takes the last good release when it starts, or: sudo mango-edge model"
            " rollback",
        )
    try:
        opened = read_model(path)
        if MEMBER in opened.members:
            # A runtime may crash on a model it opens; the doctor must not.
            found = run_apart(path)
        else:
            found = f"opens in {Classifier.open(path).runtime}; carries no self-test"
    except InputError as error:
        back = (
            "go back: sudo mango-edge model rollback"
            if current
            else "install one: sudo mango-edge model install"
        )
        return Check("model", FAIL, str(error), back)
    found = f"{what}: {opened.contract.architecture} {opened.contract.precision}, {found}"
    if status.rolled_back is not None:
        given_up, why = status.rolled_back.get("release"), status.rolled_back.get("why")
        return Check(
            "model",
            WARN,
            f"{found}; release {given_up} was given up: {why}",
            "install a release that is mended",
        )
    if current is not None and current.starts:
        return Check(
            "model",
            WARN,
            f"{found}; on trial, started {current.starts} of {ATTEMPTS} times and not yet confirmed",
            "see what the runner says: journalctl -u mango-edge",
        )
    return Check("model", OK, found)


def camera(device: Device) -> Check:
    """Whether the source gives a frame that can be decoded; without a source, which cameras there are."""
    cameras = _cameras(device)
    listed = "; ".join(cameras) or "none"
    if not device.source:
        if cameras:
            return Check("camera", OK, f"V4L2: {listed} (give --source to take a frame)")
        return Check(
            "camera",
            WARN,
            "no V4L2 camera, and no --source given",
            "plug one in, or see rpicam-hello --list-cameras, then: mango-edge doctor --source SOURCE",
        )
    name = public_name(device.source)
    node = device.source.partition(":")[2].partition("?")[0] if device.source.startswith("v4l2:") else ""
    if node and not device.at(node).exists():
        return Check(
            "camera",
            FAIL,
            f"{node} is not there; V4L2 cameras: {listed}",
            "check plug and cable: lsusb, dmesg",
        )
    if device.root != Path("/"):
        return Check("camera", UNKNOWN, f"{name}: no frame can be taken from a recorded tree")
    if node and not os.access(node, os.R_OK | os.W_OK):
        return Check("camera", FAIL, f"{node}: {_me()} may not open it", f"sudo usermod -aG video {_me()}")
    try:
        pixels, fault = _first_frame(device.source)
    except (InputError, SourceLostError) as error:
        busy = (
            "; if mango-edge.service runs, it holds the camera: sudo systemctl stop mango-edge"
            if node
            else ""
        )
        return Check("camera", FAIL, f"{name}: {error}", f"check cable, address and SOURCE{busy}")
    if fault:
        return Check(
            "camera", FAIL, f"{name}: the frame is {fault}", "check cable and lens, then run this again"
        )
    return Check("camera", OK, f"{name}: a frame of {pixels[1]}x{pixels[0]}")


def permissions(device: Device) -> Check:
    """Whether this user may write journal and models and open the cameras."""
    if os.geteuid() == 0 and device.root == Path("/"):
        return Check(
            "permissions",
            UNKNOWN,
            "root may do anything",
            "check as the service's user: sudo -u mango-edge mango-edge doctor",
        )
    refused = []
    for folder in (device.journal, device.store):
        place = _existing(device.at(folder))
        if not os.access(place, os.W_OK | os.X_OK):
            refused.append(f"write {folder}")
    for node in sorted(device.at("dev").glob("video*")):
        mode = node.stat().st_mode
        if (stat.S_ISCHR(mode) or device.root != Path("/")) and not os.access(node, os.R_OK | os.W_OK):
            refused.append("open /dev/video*")
            break
    if refused:
        return Check(
            "permissions",
            FAIL,
            f"{_me()} may not {' nor '.join(refused)}",
            f"sudo chown -R mango-edge: /var/lib/mango-edge; sudo usermod -aG video {_me()}",
        )
    return Check("permissions", OK, f"{_me()} may write the journal and the models and open cameras")


def disk(device: Device) -> Check:
    """Space for the journal, and whether what is written there stays."""
    place = _existing(device.at(device.journal))
    kind, options = _mount(device, device.journal)
    where = f"{device.journal} on {kind}" if kind else str(device.journal)
    if "ro" in options:
        return Check(
            "disk",
            FAIL,
            f"{where}: mounted read-only",
            "after a fault the kernel does this: check the card (dmesg, fsck); else give the journal a writable mount",
        )
    room = os.statvfs(place)
    free = room.f_bavail * room.f_frsize
    found = f"{where}: {free / MEGABYTE:,.0f} MB free"
    if free < DISK_FAIL:
        return Check("disk", FAIL, found, "export and delete old journals, or take a larger card")
    if kind in ("overlay", "tmpfs", "ramfs"):
        return Check(
            "disk",
            WARN,
            f"{found}, in memory: gone at power-off",
            "put the journal on a partition of its own (README.md)",
        )
    if free < DISK_WARN:
        return Check("disk", WARN, found, "free some space: the oldest pictures are given up when it is full")
    return Check("disk", OK, found)


def memory(device: Device) -> Check:
    """Available memory, and whether the service's memory limits work."""
    try:
        fields = dict(line.split(":", 1) for line in device.text("proc/meminfo").splitlines() if ":" in line)
        available = int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError, IndexError):
        return Check("memory", UNKNOWN, "/proc/meminfo shows no MemAvailable")
    found = f"{available / MEGABYTE:,.0f} MB available"
    if available < MEMORY_WARN:
        return Check(
            "memory", WARN, found, "end other programs; a desktop does not belong on an unattended board"
        )
    try:
        limited = "memory" in device.text("sys/fs/cgroup/cgroup.controllers").split()
    except OSError:
        return Check("memory", OK, found)
    if not limited:
        return Check(
            "memory",
            WARN,
            f"{found}; the kernel counts no memory per service, so MemoryMax has no effect",
            "add cgroup_enable=memory to the line in /boot/firmware/cmdline.txt and restart",
        )
    return Check("memory", OK, found)


def clock(device: Device) -> Check:
    """Whether the time can be right, and what keeps it right."""
    now = device.now()
    found = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(now))
    synchronised = device.at("run/systemd/timesync/synchronized").exists()
    rtc = any(device.at("sys/class/rtc").glob("rtc*"))
    if not is_set(now):
        return Check(
            "clock",
            FAIL,
            f"not set ({found})",
            "connect it once to a network or set it: sudo date -u -s '2026-12-31 12:00'; the journal repairs its rows",
        )
    kept = [
        text
        for text, there in (("set from the network", synchronised), ("battery-backed clock", rtc))
        if there
    ]
    if kept:
        return Check("clock", OK, f"{found}, {' and '.join(kept)}")
    return Check(
        "clock",
        WARN,
        f"{found}, but neither the network nor a battery-backed clock keeps it",
        "after a power cut it will be wrong until set; a DS3231 module or a Pi 5 with battery keeps it",
    )


def watchdog(device: Device) -> Check:
    """Whether the board restarts when the kernel hangs."""
    if not any(device.at("dev").glob("watchdog*")):
        return Check(
            "watchdog", WARN, "no hardware watchdog", "add dtparam=watchdog=on to /boot/firmware/config.txt"
        )
    for file in [
        *sorted(device.at("etc/systemd/system.conf.d").glob("*.conf")),
        device.at("etc/systemd/system.conf"),
    ]:
        try:
            lines = file.read_text("utf-8", errors="replace").splitlines()
        except OSError:
            continue
        for line in lines:
            key, _, value = line.strip().partition("=")
            if key == "RuntimeWatchdogSec" and value.strip() not in ("", "0", "off", "infinity"):
                return Check(
                    "watchdog", OK, f"hardware watchdog, fed by systemd (RuntimeWatchdogSec={value.strip()})"
                )
    return Check(
        "watchdog",
        WARN,
        "there is a hardware watchdog, and systemd does not feed it: a board that hangs stays so",
        "copy firmware_notes/watchdog.conf to /etc/systemd/system.conf.d/, then: sudo systemctl daemon-reexec",
    )


def _throttle_flags(device: Device) -> tuple[int, str]:
    problem = OSError(2, "no vcgencmd, no firmware/get_throttled in sysfs")
    if device.command is not None:
        try:
            answer = device.command(["vcgencmd", "get_throttled"])
            return parse_throttled(answer), "vcgencmd get_throttled"
        except OSError as error:
            problem = error
        except ValueError:
            problem = OSError(5, "vcgencmd get_throttled says nothing that is understood")
    for path in device.root.glob("sys/devices/platform/soc*/soc*:firmware/get_throttled"):
        try:
            return parse_throttled(path.read_text()), "sysfs get_throttled"
        except (OSError, ValueError):
            continue
    raise problem


def _undervoltage_alarm(device: Device) -> bool | None:
    for sensor in device.root.glob("sys/class/hwmon/hwmon*"):
        try:
            if (sensor / "name").read_text().strip() == "rpi_volt":
                return (sensor / "in0_lcrit_alarm").read_text().strip() == "1"
        except OSError:
            continue
    return None


def _cameras(device: Device) -> list[str]:
    """V4L2 devices that are cameras; a Raspberry Pi has a dozen more for its codecs and image processor."""
    found = []
    for entry in sorted(device.at("sys/class/video4linux").glob("video*")):
        try:
            name = (entry / "name").read_text().strip()
        except OSError:
            continue
        if not any(word in name for word in ("codec", "isp", "hevc", "rpi-", "pispbe")):
            found.append(f"/dev/{entry.name} {name}")
    return found


def _first_frame(argument: str) -> tuple[tuple[int, ...], str]:
    source = open_source(argument)
    fault = "no picture"
    try:
        source.open()
        end = time.monotonic() + FRAME_S
        while fault and time.monotonic() < end:
            frame = source.read()
            if frame is None:
                raise SourceLostError("it ended without a frame")
            shape, fault = frame.pixels.shape, frame.fault
        return shape, fault
    finally:
        source.close()


def _mount(device: Device, path: Path) -> tuple[str, list[str]]:
    """File system type and options of the mount that holds a path; "" where that is not shown."""
    best, kind, options = "", "", []
    try:
        lines = device.text("proc/mounts").splitlines()
    except OSError:
        return "", []
    for line in lines:
        words = line.split()
        if len(words) < 4:
            continue
        point = words[1].replace("\\040", " ")
        # Later lines cover earlier ones at the same point.
        if (Path(point) == path or Path(point) in path.parents) and len(point) >= len(best):
            best, kind, options = point, words[2], words[3].split(",")
    return kind, options


def _existing(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path


def _me() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"user {os.geteuid()}"
