"""The machine's record, read from trees laid out as on a Pi Zero 2 W, 3, 4, 5, a PC, and a bare container."""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.machine import (
    Probe,
    board_name,
    describe,
    known,
    missing,
    notes,
    observe,
    other_load,
    record,
    suspicions,
)
from edge.thermal import parse_throttled

CPU = "sys/devices/system/cpu/cpu"


def plant(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def arm_cpuinfo(part: str, cores: int) -> str:
    block = (
        "processor\t: {}\nBogoMIPS\t: 108.00\nCPU implementer\t: 0x41\nCPU part\t: {}\nCPU revision\t: 3\n"
    )
    blocks = [block.format(number, part) for number in range(cores)]
    return "\n".join(blocks) + "\nRevision\t: a02082\nSerial\t\t: 0\nModel\t\t: Raspberry Pi\n"


def clocks(cores: int, lowest: int, highest: int, now: int, governor: str = "ondemand") -> dict[str, str]:
    files = {}
    for number in range(cores):
        folder = f"{CPU}{number}/cpufreq"
        files[f"{folder}/cpuinfo_min_freq"] = f"{lowest}\n"
        files[f"{folder}/cpuinfo_max_freq"] = f"{highest}\n"
        files[f"{folder}/scaling_cur_freq"] = f"{now}\n"
        files[f"{folder}/scaling_governor"] = f"{governor}\n"
    return files


COMMON = {
    "proc/loadavg": "0.08 0.03 0.01 1/120 981\n",
    "proc/stat": "cpu  1000 200 300 9000 400 0 50 0 0 0\ncpu0 1000 200 300 9000 400 0 50 0 0 0\n",
    "proc/self/stat": "981 (python (x) 3) R 1 981 1 0 -1 0 0 0 0 0 120 30 4 6 20 0 1 0 100 0 0\n",
    "proc/self/status": "Name:\tpython\nVmHWM:\t   61440 kB\nVmSwap:\t       0 kB\n",
    "proc/vmstat": "nr_free_pages 100\npswpin 3\npswpout 4\n",
    "proc/sys/kernel/osrelease": "6.6.51+rpt-rpi-v8\n",
    "etc/os-release": 'NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n',
    "etc/rpi-issue": "Raspberry Pi reference 2024-11-19\nGenerated using pi-gen\n",
}


def memory(total: int, swap: int = 524272) -> dict[str, str]:
    return {"proc/meminfo": f"MemTotal: {total} kB\nMemAvailable: {total // 2} kB\nSwapTotal: {swap} kB\n"}


def raspberry(
    model: str, compatible: str, part: str, kilobytes: int, highest: int, milli: int
) -> dict[str, str]:
    return {
        **COMMON,
        **memory(kilobytes),
        **clocks(4, 600000, highest, highest),
        "proc/device-tree/model": f"{model}\0",
        "proc/device-tree/compatible": compatible.replace("|", "\0") + "\0",
        "proc/cpuinfo": arm_cpuinfo(part, 4),
        "sys/class/thermal/thermal_zone0/type": "cpu-thermal\n",
        "sys/class/thermal/thermal_zone0/temp": f"{milli}\n",
        "sys/class/thermal/cooling_device0/type": "cpufreq-cpu0\n",
        "sys/class/thermal/cooling_device0/cur_state": "0\n",
    }


ZERO_2_W = raspberry(
    "Raspberry Pi Zero 2 W Rev 1.0",
    "raspberrypi,model-zero-2-w|brcm,bcm2837",
    "0xd03",
    436732,
    1000000,
    48312,
)
PI_3 = raspberry(
    "Raspberry Pi 3 Model B Plus Rev 1.3",
    "raspberrypi,3-model-b-plus|brcm,bcm2837",
    "0xd03",
    926704,
    1400000,
    55844,
)
PI_4 = raspberry(
    "Raspberry Pi 4 Model B Rev 1.4", "raspberrypi,4-model-b|brcm,bcm2711", "0xd08", 3884360, 1800000, 61348
)
PI_5 = {
    **raspberry(
        "Raspberry Pi 5 Model B Rev 1.0",
        "raspberrypi,5-model-b|brcm,bcm2712",
        "0xd0b",
        8255952,
        2400000,
        50150,
    ),
    "sys/class/thermal/cooling_device1/type": "pwm-fan\n",
    "sys/class/thermal/cooling_device1/cur_state": "2\n",
}
PC = {
    **COMMON,
    **memory(32768000, 0),
    **clocks(2, 800000, 4800000, 3412000, "powersave"),
    "proc/cpuinfo": "".join(
        f"processor\t: {n}\nmodel name\t: Intel(R) Core(TM) i7-1365U\ncpu MHz\t\t: 3412.0\n\n"
        for n in range(2)
    ),
    "sys/class/dmi/id/sys_vendor": "LENOVO\n",
    "sys/class/dmi/id/product_name": "21HMCTO1WW\n",
    "sys/class/thermal/thermal_zone0/type": "acpitz\n",
    "sys/class/thermal/thermal_zone0/temp": "20000\n",
    "sys/class/thermal/thermal_zone1/type": "x86_pkg_temp\n",
    "sys/class/thermal/thermal_zone1/temp": "47000\n",
    f"{CPU}0/thermal_throttle/core_throttle_count": "12\n",
    f"{CPU}1/thermal_throttle/core_throttle_count": "5\n",
}


def no_videocore(_: Sequence[str]) -> str:
    raise FileNotFoundError(errno.ENOENT, "vcgencmd is not installed")


@pytest.mark.parametrize(
    ("tree", "board", "soc", "processor", "kilobytes", "clock", "celsius"),
    [
        (ZERO_2_W, "Raspberry Pi Zero 2 W Rev 1.0", "brcm,bcm2837", "Cortex-A53", 436732, 1000, 48.312),
        (PI_3, "Raspberry Pi 3 Model B Plus Rev 1.3", "brcm,bcm2837", "Cortex-A53", 926704, 1400, 55.844),
        (PI_4, "Raspberry Pi 4 Model B Rev 1.4", "brcm,bcm2711", "Cortex-A72", 3884360, 1800, 61.348),
        (PI_5, "Raspberry Pi 5 Model B Rev 1.0", "brcm,bcm2712", "Cortex-A76", 8255952, 2400, 50.15),
    ],
)
def test_raspberry_boards(
    tmp_path: Path,
    tree: dict[str, str],
    board: str,
    soc: str,
    processor: str,
    kilobytes: int,
    clock: float,
    celsius: float,
) -> None:
    probe = Probe(plant(tmp_path, tree), lambda arguments: "throttled=0x0\n")
    found, seen = describe(probe), observe(probe)
    values = {name: found[name]["value"] for name in ("board", "soc", "processor", "cores", "memory_bytes")}
    assert values == {
        "board": board,
        "soc": soc,
        "processor": processor,
        "cores": 4,
        "memory_bytes": kilobytes * 1024,
    }
    assert found["image"]["value"] == "Raspberry Pi reference 2024-11-19"
    assert found["os"]["value"] == "Debian GNU/Linux 12 (bookworm)"
    assert found["clock_limits_mhz"]["value"] == [600, clock]
    assert seen["clock_mhz"]["value"] == [clock] * 4
    assert seen["governor"]["value"] == "ondemand"
    assert seen["temperature_c"]["value"] == celsius
    assert seen["throttle_flags"] == {"value": 0, "source": "vcgencmd get_throttled"}
    assert seen["cooling_state"]["value"] == 0
    assert seen["undervoltage"]["value"] is False
    assert board_name(found) == board


def test_a_pc(tmp_path: Path) -> None:
    probe = Probe(plant(tmp_path, PC), no_videocore)
    found, seen = describe(probe), observe(probe)
    assert found["board"]["value"] == "LENOVO 21HMCTO1WW"
    assert found["processor"]["value"] == "Intel(R) Core(TM) i7-1365U"
    assert found["cores"]["value"] == 2
    assert seen["temperature_c"]["value"] == 47.0
    assert seen["throttle_events"]["value"] == 17
    assert seen["throttle_flags"]["value"] is None
    assert "vcgencmd is not installed" in seen["throttle_flags"]["reason"]
    assert seen["undervoltage"]["value"] is None


def test_counters_and_memory(tmp_path: Path) -> None:
    seen = observe(Probe(plant(tmp_path, ZERO_2_W)))
    # user, nice, system, irq, softirq and steal; not idle and iowait. Hundredths of a second.
    assert seen["cpu_seconds"]["value"] == pytest.approx(15.5)
    # utime, stime, and those of children; the program's name holds a bracket and a space.
    assert seen["own_cpu_seconds"]["value"] == pytest.approx(1.6)
    assert seen["peak_memory_bytes"]["value"] == 61440 * 1024
    assert seen["own_swap_bytes"]["value"] == 0
    assert seen["swapped_pages"]["value"] == 7
    assert seen["load_1min"]["value"] == 0.08


def test_nothing_readable_gives_reasons_and_no_zeros(tmp_path: Path) -> None:
    probe = Probe(tmp_path, no_videocore)
    for name, reading in {**describe(probe), **observe(probe)}.items():
        if name == "python":
            continue
        assert reading["value"] is None, name
        assert len(reading["reason"]) > 10, name
    assert board_name(describe(probe)) == "unknown machine"
    seen = observe(probe)
    assert suspicions(seen, (), seen, other_load(seen, seen, 1.0)) == []
    remarks = " ".join(notes(seen, seen, other_load(seen, seen, 1.0)))
    for check in ("throttling", "swapping", "other load"):
        assert check in remarks


@pytest.mark.parametrize(
    "damage",
    [
        {"proc/stat": "cpu  0 0 0 0 0 0 0 0\n"},
        {"proc/stat": "cpu one two\n"},
        {"proc/stat": ""},
        {"proc/self/stat": "17 (x) R 1\n", "proc/stat": ""},
        {"proc/loadavg": "\n", "proc/stat": ""},
    ],
)
def test_damaged_proc_files_are_missing_values(tmp_path: Path, damage: dict[str, str]) -> None:
    seen = observe(Probe(plant(tmp_path, {**PI_4, **damage})))
    assert seen["cpu_seconds"]["value"] is None
    for name, file in (("own_cpu_seconds", "proc/self/stat"), ("load_1min", "proc/loadavg")):
        assert (seen[name]["value"] is None) == (file in damage)


def test_throttle_flags_come_from_vcgencmd_then_from_sysfs(tmp_path: Path) -> None:
    tree = {**PI_4, "sys/devices/platform/soc/soc:firmware/get_throttled": "50000\n"}
    root = plant(tmp_path, tree)
    first = observe(Probe(root, lambda arguments: "throttled=0x50005\n"))
    assert first["throttle_flags"]["value"] == 0x50005
    assert first["undervoltage"]["value"] is True
    second = observe(Probe(root, no_videocore))
    assert second["throttle_flags"]["value"] == 0x50000
    assert second["throttle_flags"]["source"] == "/sys/devices/platform/soc/soc:firmware/get_throttled"
    assert second["undervoltage"]["value"] is False


def test_undervoltage_from_hwmon_where_there_are_no_flags(tmp_path: Path) -> None:
    tree = {
        **PI_5,
        "sys/class/hwmon/hwmon2/name": "rpi_volt\n",
        "sys/class/hwmon/hwmon2/in0_lcrit_alarm": "1\n",
    }
    seen = observe(Probe(plant(tmp_path, tree), no_videocore))
    assert seen["undervoltage"] == {"value": True, "source": "/sys/class/hwmon/hwmon2/in0_lcrit_alarm"}


def test_flags_are_parsed_in_both_forms() -> None:
    assert parse_throttled("throttled=0x50005\n") == parse_throttled("50005\n") == 0x50005
    with pytest.raises(ValueError, match="invalid literal"):
        parse_throttled('error=1 error_msg="Command not registered"')


QUIET: dict[str, dict[str, Any]] = {
    "temperature_c": known(50.0, "t"),
    "clock_mhz": known([1800.0], "t"),
    "governor": known("performance", "t"),
    "throttle_flags": known(0, "t"),
    "throttle_events": missing("none"),
    "cooling_state": known(0, "t"),
    "undervoltage": known(False, "t"),
    "load_1min": known(0.1, "t"),
    "cpu_seconds": known(100.0, "t"),
    "own_cpu_seconds": known(10.0, "t"),
    "memory_available_bytes": known(10**9, "t"),
    "swapped_pages": known(7, "t"),
    "own_swap_bytes": known(0, "t"),
    "peak_memory_bytes": known(10**8, "t"),
}


def after(**changes: Any) -> dict[str, dict[str, Any]]:
    return {**QUIET, **{name: known(value, "t") for name, value in changes.items()}}


def test_a_quiet_machine_is_beyond_suspicion() -> None:
    end = after(cpu_seconds=110.5, own_cpu_seconds=20.0)
    made = record({"board": known("Pi", "t")}, QUIET, [QUIET], end, 10.0)
    assert made["suspect"] == []
    assert made["notes"] == []
    assert made["other_load_cores"]["value"] == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("during", "end", "word"),
    [
        ({"throttle_flags": 0x4}, {}, "throttled while measuring: throttled"),
        ({}, {"throttle_flags": 0x80008}, "soft temperature limit"),
        # Over again before the next look, but the sticky bit tells.
        ({}, {"throttle_flags": 0x20000}, "frequency capped"),
        ({"cooling_state": 2}, {}, "held the processor's clock down"),
        ({"undervoltage": True}, {}, "under-voltage"),
        ({}, {"swapped_pages": 8}, "swapping: 1 pages"),
        ({"own_swap_bytes": 4096}, {}, "lay in swap"),
        ({}, {"cpu_seconds": 112.0, "own_cpu_seconds": 20.0}, "busy: other programs used 0.20 cores"),
    ],
)
def test_what_makes_a_machine_suspect(during: dict[str, Any], end: dict[str, Any], word: str) -> None:
    made = record({}, QUIET, [after(**during)], after(**end), 10.0)
    assert len(made["suspect"]) == 1
    assert word in made["suspect"][0]


def test_thermal_events_count_only_while_measuring() -> None:
    before = {**QUIET, "throttle_events": known(17, "t")}
    assert suspicions(before, (), before, known(0.0, "t")) == []
    hot = {**QUIET, "throttle_events": known(19, "t")}
    assert suspicions(before, (), hot, known(0.0, "t")) == ["throttled while measuring: 2 thermal events"]


def test_what_happened_before_the_run_is_a_note_and_no_suspicion() -> None:
    sticky = after(throttle_flags=0x50000)
    made = record({}, sticky, [sticky], sticky, 10.0)
    assert made["suspect"] == []
    assert made["notes"] == ["since the board started and before this run: under-voltage, throttled"]


def test_without_counters_the_load_before_decides() -> None:
    unknown = {**after(load_1min=2.5), "cpu_seconds": missing("/proc/stat: none")}
    found = suspicions(unknown, (), unknown, other_load(unknown, unknown, 10.0))
    assert found == ["busy: the load was 2.50 before measuring"]


def test_this_machine_can_be_read() -> None:
    seen = observe(Probe.here())
    if seen["peak_memory_bytes"]["value"] is None:
        pytest.skip(f"no Linux /proc here: {seen['peak_memory_bytes']['reason']}")
    assert seen["peak_memory_bytes"]["value"] > 10**6
