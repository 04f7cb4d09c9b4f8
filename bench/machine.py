"""The machine that measured: what it is, and the state it was in before, during and after.

Everything is read from /proc and /sys (and `vcgencmd` on a Raspberry Pi) below a root that tests replace by
recorded trees. A sensor that is missing gives no number: its value is None and a reason stands beside it.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edge.thermal import THROTTLE_BITS, parse_throttled

Reading = dict[str, Any]
"""{"value": ..., "source": where it was read} or {"value": None, "reason": why there is none}."""

VideoCore = Callable[[Sequence[str]], str]
"""Runs `vcgencmd` with arguments and returns its output; raises OSError where it cannot."""

BUSY = 0.1
"""Cores that other programs may use while a measurement runs before the machine counts as busy."""

_CORES = {
    "0xb76": "ARM1176",
    "0xc07": "Cortex-A7",
    "0xd03": "Cortex-A53",
    "0xd04": "Cortex-A35",
    "0xd05": "Cortex-A55",
    "0xd07": "Cortex-A57",
    "0xd08": "Cortex-A72",
    "0xd09": "Cortex-A73",
    "0xd0a": "Cortex-A75",
    "0xd0b": "Cortex-A76",
}
"""Part numbers that /proc/cpuinfo gives for Arm's cores (Linux, arch/arm64/include/asm/cputype.h)."""

_ZONES = ("cpu-thermal", "cpu_thermal", "x86_pkg_temp", "soc-thermal", "soc_thermal", "cpu", "soc")
"""Types of the thermal zones that show the processor, in order of preference."""


@dataclass(frozen=True)
class Probe:
    """Where to look: a root folder that holds proc, sys and etc, and how to run vcgencmd there."""

    root: Path = Path("/")
    videocore: VideoCore | None = None

    @classmethod
    def here(cls) -> Probe:
        """This machine."""
        return cls(Path("/"), run_vcgencmd)

    def text(self, path: str) -> str:
        """The file's text without NULs and surrounding space; raises OSError where it cannot be read."""
        data = (self.root / path).read_bytes()
        return data.decode(errors="replace").replace("\0", "\n").strip()

    def glob(self, pattern: str) -> list[Path]:
        """Paths that match, in order; an unreadable folder matches nothing."""
        try:
            return sorted(self.root.glob(pattern), key=lambda path: (len(str(path)), str(path)))
        except OSError:
            return []

    def where(self, path: Path) -> str:
        """A path as it would read on the machine itself."""
        return "/" + str(path.relative_to(self.root))


def run_vcgencmd(arguments: Sequence[str]) -> str:
    """Run the Raspberry Pi's `vcgencmd`; raises OSError where it is missing or fails."""
    program = shutil.which("vcgencmd")
    if program is None:
        raise FileNotFoundError("vcgencmd is not installed")
    try:
        done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=5, check=False)
    except subprocess.TimeoutExpired:
        raise OSError("vcgencmd did not answer") from None
    if done.returncode != 0 or "=" not in done.stdout:
        raise OSError(f"vcgencmd failed: {' '.join((done.stderr or done.stdout).split())[:100]}")
    return done.stdout


def known(value: Any, source: str) -> Reading:
    """A reading that was taken."""
    return {"value": value, "source": source}


def missing(reason: str) -> Reading:
    """A reading that could not be taken."""
    return {"value": None, "reason": reason}


def describe(probe: Probe) -> dict[str, Reading]:
    """What does not change while something is measured: board, processor, memory, system."""
    return {
        "board": _board(probe),
        "soc": _soc(probe),
        "processor": _processor(probe),
        "cores": _cores(probe),
        "memory_bytes": _meminfo(probe, "MemTotal"),
        "swap_bytes": _meminfo(probe, "SwapTotal"),
        "kernel": _file(probe, "proc/sys/kernel/osrelease"),
        "os": _os_release(probe),
        "image": _image(probe),
        "clock_limits_mhz": _clock_limits(probe),
        "python": known(
            f"{platform.python_implementation()} {platform.python_version()}, {platform.machine()}",
            "the running interpreter",
        ),
    }


def observe(probe: Probe) -> dict[str, Reading]:
    """What changes: temperature, clocks, throttling, power, load, memory, swap.

    `cpu_seconds` and `own_cpu_seconds` count up; two observations tell how busy other programs were.
    """
    flags = _throttle_flags(probe)
    return {
        "temperature_c": _temperature(probe),
        "clock_mhz": _clock(probe),
        "governor": _governor(probe),
        "throttle_flags": flags,
        "throttle_events": _throttle_events(probe),
        "cooling_state": _cooling(probe),
        "undervoltage": _undervoltage(probe, flags),
        "load_1min": _load(probe),
        "cpu_seconds": _cpu_seconds(probe),
        "own_cpu_seconds": _own_cpu_seconds(probe),
        "memory_available_bytes": _meminfo(probe, "MemAvailable"),
        "swapped_pages": _swapped_pages(probe),
        "own_swap_bytes": _status(probe, "VmSwap"),
        "peak_memory_bytes": _status(probe, "VmHWM"),
    }


def record(
    description: Mapping[str, Reading],
    before: Mapping[str, Reading],
    during: Sequence[Mapping[str, Reading]],
    after: Mapping[str, Reading],
    seconds: float,
) -> dict[str, Any]:
    """The machine's record of one measurement that took `seconds` from `before` to `after`.

    `suspect` lists why the times may not be the machine's own; it is empty for a machine that was cool, quiet
    and did not swap. `notes` says what else a reader should know, and which of these could not be checked.
    """
    others = other_load(before, after, seconds)
    return {
        **description,
        "seconds": seconds,
        "other_load_cores": others,
        "before": dict(before),
        "during": [dict(observation) for observation in during],
        "after": dict(after),
        "suspect": suspicions(before, during, after, others),
        "notes": notes(before, after, others),
    }


def other_load(before: Mapping[str, Reading], after: Mapping[str, Reading], seconds: float) -> Reading:
    """Cores that all other programs (and a hypervisor's other guests) used between two observations."""
    for name in ("cpu_seconds", "own_cpu_seconds"):
        if before[name]["value"] is None or after[name]["value"] is None:
            return missing(str(after[name].get("reason") or before[name].get("reason")))
    if seconds <= 0:
        return missing("no time passed between the observations")
    everything = after["cpu_seconds"]["value"] - before["cpu_seconds"]["value"]
    own = after["own_cpu_seconds"]["value"] - before["own_cpu_seconds"]["value"]
    # Both count in hundredths of a second and are read one after the other: a little below zero means none.
    return known(round(max(0.0, (everything - own) / seconds), 3), "/proc/stat less /proc/self/stat")


def suspicions(
    before: Mapping[str, Reading],
    during: Sequence[Mapping[str, Reading]],
    after: Mapping[str, Reading],
    others: Reading,
) -> list[str]:
    """Why times measured between these observations may not be the machine's own; empty if nothing was seen."""
    everywhere = (before, *during, after)
    found: list[str] = []
    flags = [seen["throttle_flags"]["value"] for seen in everywhere]
    now = _names(_union(value & 0xF for value in flags if value is not None))
    first = next((value for value in flags if value is not None), 0)
    since = _union(value >> 16 & 0xF for value in flags if value is not None) & ~(first >> 16 & 0xF)
    happened = [name for name in _names(since) if name not in now]
    if now or happened:
        found.append(f"throttled while measuring: {', '.join([*now, *happened])} (get_throttled)")
    events = [seen["throttle_events"]["value"] for seen in everywhere]
    if events[0] is not None and events[-1] is not None and events[-1] > events[0]:
        found.append(f"throttled while measuring: {events[-1] - events[0]} thermal events")
    if any(seen["cooling_state"]["value"] for seen in everywhere):
        found.append("throttled while measuring: the kernel held the processor's clock down to cool it")
    if any(seen["undervoltage"]["value"] for seen in everywhere) and "under-voltage" not in [*now, *happened]:
        found.append("under-voltage: the power supply or its cable is too weak")
    pages = [seen["swapped_pages"]["value"] for seen in everywhere]
    if pages[0] is not None and pages[-1] is not None and pages[-1] > pages[0]:
        found.append(f"swapping: {pages[-1] - pages[0]:,} pages went to or came from swap while measuring")
    if any(seen["own_swap_bytes"]["value"] for seen in everywhere):
        found.append("swapping: a part of the measuring program lay in swap")
    load, cores = before["load_1min"]["value"], others["value"]
    if cores is not None and cores > BUSY:
        found.append(f"busy: other programs used {cores:.2f} cores while measuring")
    elif cores is None and load is not None and load > 0.5:
        found.append(f"busy: the load was {load:.2f} before measuring")
    return found


def notes(before: Mapping[str, Reading], after: Mapping[str, Reading], others: Reading) -> list[str]:
    """What is no fault of this measurement but worth knowing, and which checks could not be made."""
    found: list[str] = []
    flags = before["throttle_flags"]["value"]
    if flags is not None and flags >> 16 & 0xF:
        found.append(f"since the board started and before this run: {', '.join(_names(flags >> 16 & 0xF))}")
    if after["governor"]["value"] not in (None, "performance"):
        found.append(f"the clock governor is {after['governor']['value']}, not performance")
    throttling = [after[name] for name in ("throttle_flags", "throttle_events", "cooling_state")]
    if all(reading["value"] is None for reading in throttling):
        found.append("throttling could not be checked: " + "; ".join(str(r["reason"]) for r in throttling))
    if after["swapped_pages"]["value"] is None:
        found.append(f"swapping could not be checked: {after['swapped_pages']['reason']}")
    if others["value"] is None:
        found.append(f"other load could not be measured: {others['reason']}")
    return found


def board_name(machine: Mapping[str, Any]) -> str:
    """What to call the machine of a record in a table: its board, else its processor."""
    for name in ("board", "soc", "processor"):
        value = machine.get(name, {}).get("value")
        if value:
            return str(value)
    return "unknown machine"


def _names(bits: int) -> list[str]:
    return [name for bit, name in THROTTLE_BITS.items() if bits >> bit & 1]


def _union(values: Any) -> int:
    bits = 0
    for value in values:
        bits |= value
    return bits


def _file(probe: Probe, path: str) -> Reading:
    try:
        text = probe.text(path)
    except OSError as error:
        return missing(f"/{path}: {error.strerror or error}")
    return known(text, f"/{path}") if text else missing(f"/{path} is empty")


def _board(probe: Probe) -> Reading:
    for path in ("proc/device-tree/model", "sys/firmware/devicetree/base/model"):
        found = _file(probe, path)
        if found["value"]:
            return found
    names = []
    for path in ("sys/class/dmi/id/sys_vendor", "sys/class/dmi/id/product_name"):
        part = _file(probe, path)["value"]
        if part:
            names.append(part)
    if names:
        return known(" ".join(names), "/sys/class/dmi/id")
    return missing("neither a device tree nor DMI names the board (a virtual machine or a container)")


def _soc(probe: Probe) -> Reading:
    for path in ("proc/device-tree/compatible", "sys/firmware/devicetree/base/compatible"):
        found = _file(probe, path)
        if found["value"]:
            # The list goes from the board to the chip: "raspberrypi,4-model-b", "brcm,bcm2711".
            return known(found["value"].splitlines()[-1], found["source"])
    return missing("no device tree names the chip")


def _cpuinfo(probe: Probe) -> list[dict[str, str]]:
    blocks: list[dict[str, str]] = []
    for block in probe.text("proc/cpuinfo").split("\n\n"):
        pairs = (line.split(":", 1) for line in block.splitlines() if ":" in line)
        blocks.append({name.strip(): value.strip() for name, value in pairs})
    return blocks


def _processor(probe: Probe) -> Reading:
    try:
        blocks = _cpuinfo(probe)
    except OSError as error:
        return missing(f"/proc/cpuinfo: {error.strerror or error}")
    names: dict[str, None] = {}
    for block in blocks:
        part = block.get("CPU part")
        if part is not None:
            names[_CORES.get(part.lower(), f"Arm part {part}")] = None
        elif "processor" in block and "model name" in block:
            names[block["model name"]] = None
    if not names:
        return missing("/proc/cpuinfo names no processor")
    return known(" + ".join(names), "/proc/cpuinfo")


def _cores(probe: Probe) -> Reading:
    try:
        count = sum("processor" in block for block in _cpuinfo(probe))
    except OSError as error:
        return missing(f"/proc/cpuinfo: {error.strerror or error}")
    return known(count, "/proc/cpuinfo") if count else missing("/proc/cpuinfo lists no processor")


def _fields(probe: Probe, path: str) -> dict[str, list[str]]:
    fields = {}
    for line in probe.text(path).splitlines():
        name, _, rest = line.replace(":", " ", 1).partition(" ")
        fields[name] = rest.split()
    return fields


def _bytes_of(probe: Probe, path: str, name: str) -> Reading:
    try:
        words = _fields(probe, path)[name]
        return known(int(words[0]) * 1024, f"/{path}")
    except OSError as error:
        return missing(f"/{path}: {error.strerror or error}")
    except (KeyError, ValueError, IndexError):
        return missing(f"/{path} holds no {name}")


def _meminfo(probe: Probe, name: str) -> Reading:
    return _bytes_of(probe, "proc/meminfo", name)


def _status(probe: Probe, name: str) -> Reading:
    return _bytes_of(probe, "proc/self/status", name)


def _os_release(probe: Probe) -> Reading:
    found = _file(probe, "etc/os-release")
    for line in (found["value"] or "").splitlines():
        if line.startswith("PRETTY_NAME="):
            return known(line.partition("=")[2].strip("\"'"), "/etc/os-release")
    return missing(found.get("reason", "/etc/os-release holds no PRETTY_NAME"))


def _image(probe: Probe) -> Reading:
    found = _file(probe, "etc/rpi-issue")
    if found["value"]:
        return known(found["value"].splitlines()[0], found["source"])
    return missing(f"not a Raspberry Pi OS image ({found['reason']})")


def _policies(probe: Probe) -> list[Path]:
    return probe.glob("sys/devices/system/cpu/cpu[0-9]*/cpufreq")


def _each(probe: Probe, folders: Sequence[Path], name: str) -> list[str]:
    found = []
    for folder in folders:
        try:
            found.append(probe.text(str((folder / name).relative_to(probe.root))))
        except OSError:
            continue
    return found


def _numbers(texts: Sequence[str]) -> list[int]:
    return [int(text) for text in texts if text.lstrip("-").isdigit()]


def _clock_limits(probe: Probe) -> Reading:
    folders = _policies(probe)
    lowest = _numbers(_each(probe, folders, "cpuinfo_min_freq"))
    highest = _numbers(_each(probe, folders, "cpuinfo_max_freq"))
    if not lowest or not highest:
        return missing("no cpufreq: the kernel does not show the processor's clock limits")
    return known([min(lowest) / 1000, max(highest) / 1000], "cpufreq/cpuinfo_{min,max}_freq")


def _clock(probe: Probe) -> Reading:
    found = _numbers(_each(probe, _policies(probe), "scaling_cur_freq"))
    if found:
        return known([value / 1000 for value in found], "cpufreq/scaling_cur_freq")
    try:
        listed = [float(block["cpu MHz"]) for block in _cpuinfo(probe) if "cpu MHz" in block]
    except (OSError, ValueError):
        listed = []
    if listed:
        return known(listed, "/proc/cpuinfo, cpu MHz")
    return missing("neither cpufreq nor /proc/cpuinfo shows the clock")


def _governor(probe: Probe) -> Reading:
    found = list(dict.fromkeys(_each(probe, _policies(probe), "scaling_governor")))
    if found:
        return known(" + ".join(found), "cpufreq/scaling_governor")
    return missing("no cpufreq: the kernel does not govern the processor's clock")


def _temperature(probe: Probe) -> Reading:
    zones: dict[str, tuple[float, str]] = {}
    for zone in probe.glob("sys/class/thermal/thermal_zone*"):
        kinds, value = _each(probe, [zone], "type"), _numbers(_each(probe, [zone], "temp"))
        if kinds and value:
            zones.setdefault(kinds[0], (value[0] / 1000, probe.where(zone / "temp")))
    for kind in (*_ZONES, *zones):
        if kind in zones:
            return known(*zones[kind])
    for sensor in probe.glob("sys/class/hwmon/hwmon*"):
        name, value = _each(probe, [sensor], "name"), _numbers(_each(probe, [sensor], "temp1_input"))
        if name and value and name[0] in ("coretemp", "k10temp", "zenpower", "cpu_thermal"):
            return known(value[0] / 1000, probe.where(sensor / "temp1_input"))
    return missing("neither a thermal zone nor a hwmon sensor of the processor")


def _throttle_flags(probe: Probe) -> Reading:
    reasons = []
    if probe.videocore is not None:
        try:
            return known(parse_throttled(probe.videocore(["get_throttled"])), "vcgencmd get_throttled")
        except (OSError, ValueError) as error:
            reasons.append(str(error.strerror if isinstance(error, OSError) and error.strerror else error))
    for path in probe.glob("sys/devices/platform/soc*/soc*:firmware/get_throttled"):
        try:
            return known(parse_throttled(probe.text(str(path.relative_to(probe.root)))), probe.where(path))
        except (OSError, ValueError) as error:
            reasons.append(f"{probe.where(path)}: {error}")
    return missing("; ".join([*reasons, "no firmware/get_throttled in sysfs"]))


def _throttle_events(probe: Probe) -> Reading:
    folders = probe.glob("sys/devices/system/cpu/cpu[0-9]*/thermal_throttle")
    counts = _numbers(_each(probe, folders, "core_throttle_count"))
    if not counts:
        return missing("the kernel counts no thermal events of this processor")
    return known(sum(counts), "cpu*/thermal_throttle/core_throttle_count")


def _cooling(probe: Probe) -> Reading:
    states = []
    for device in probe.glob("sys/class/thermal/cooling_device*"):
        kind = _each(probe, [device], "type")
        # A fan is no slower processor; cpufreq devices are.
        if kind and (kind[0].startswith(("cpufreq", "thermal-cpufreq")) or kind[0] == "Processor"):
            states += _numbers(_each(probe, [device], "cur_state"))
    if not states:
        return missing("no cooling device of the processor's clock")
    return known(max(states), "/sys/class/thermal/cooling_device*/cur_state")


def _undervoltage(probe: Probe, flags: Reading) -> Reading:
    if flags["value"] is not None:
        return known(bool(flags["value"] & 1), flags["source"])
    for sensor in probe.glob("sys/class/hwmon/hwmon*"):
        alarm = _numbers(_each(probe, [sensor], "in0_lcrit_alarm"))
        if _each(probe, [sensor], "name") == ["rpi_volt"] and alarm:
            return known(bool(alarm[0]), probe.where(sensor / "in0_lcrit_alarm"))
    return missing("no sensor of the supply voltage (vcgencmd, or hwmon rpi_volt)")


def _load(probe: Probe) -> Reading:
    found = _file(probe, "proc/loadavg")
    try:
        return known(float(found["value"].split()[0]), found["source"])
    except (AttributeError, ValueError, IndexError):
        return missing(found.get("reason", "/proc/loadavg is not understood"))


def _cpu_seconds(probe: Probe) -> Reading:
    try:
        words = _fields(probe, "proc/stat")["cpu"]
        # user nice system idle iowait irq softirq steal; steal is time that other guests took.
        counts = [int(word) for word in words[:8]]
    except OSError as error:
        return missing(f"/proc/stat: {error.strerror or error}")
    except (KeyError, ValueError):
        return missing("/proc/stat is not understood")
    if len(counts) < 4 or not any(counts):
        return missing("/proc/stat shows no time at all (a container's)")
    return known((sum(counts) - sum(counts[3:5])) / _ticks_per_second(), "/proc/stat")


def _own_cpu_seconds(probe: Probe) -> Reading:
    found = _file(probe, "proc/self/stat")
    try:
        # The second field is the program's name in brackets and may hold spaces. utime, stime, and those of
        # children that have ended (vcgencmd).
        words = found["value"].rpartition(")")[2].split()
        return known(sum(int(words[field]) for field in range(11, 15)) / _ticks_per_second(), found["source"])
    except (AttributeError, ValueError, IndexError):
        return missing(found.get("reason", "/proc/self/stat is not understood"))


def _ticks_per_second() -> int:
    return os.sysconf("SC_CLK_TCK")


def _swapped_pages(probe: Probe) -> Reading:
    try:
        fields = _fields(probe, "proc/vmstat")
        return known(int(fields["pswpin"][0]) + int(fields["pswpout"][0]), "/proc/vmstat")
    except OSError as error:
        return missing(f"/proc/vmstat: {error.strerror or error}")
    except (KeyError, ValueError, IndexError):
        return missing("/proc/vmstat holds no pswpin and pswpout")
