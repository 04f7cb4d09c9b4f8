"""What the field runner costs: its share of a processor, its memory, and its rate beside the bare network.

Each figure is taken from `mango-edge run` in a process of its own, journal and all, as it runs on a device; the
numbers come from /proc, so Linux is needed.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from edge.classifier import Classifier
from edge.errors import InputError
from edge.preprocessing import Pixels, fit, read_photograph

_SAMPLE_S = 0.5
_WARM_UPS = 10
_START_S = 8.0  # of a run at one frame a second that do not count: imports and opening

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Rate:
    """Sustained rate on picture files, journal written, beside the rate of `invoke` alone.

    Attributes:
        runner, bare: decisions and invocations a second of each round; the rounds alternate.
        runner_ms, bare_ms: processor time of all threads for each decision and invocation, milliseconds; unlike
            the rates they hardly depend on what else the machine does.
        ratio: of the medians.
    """

    runner: tuple[float, ...]
    bare: tuple[float, ...]
    runner_ms: tuple[float, ...]
    bare_ms: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Median rate of the runner as a share of the median bare rate."""
        return statistics.median(self.runner) / statistics.median(self.bare)


@dataclass(frozen=True)
class Memory:
    """Resident memory over a run on a video through OpenCV, journal written.

    Attributes:
        frames: decisions of the run.
        early, late: median over the tenth of the run that follows its first tenth, and over its last tenth, bytes.
        peak: the most at any time (VmHWM), bytes.
        seconds: that it took.
    """

    frames: int
    early: float
    late: float
    peak: int
    seconds: float

    @property
    def growth(self) -> float:
        """Bytes from early to late."""
        return self.late - self.early


@dataclass(frozen=True)
class Share:
    """Processor time at one frame a second from a video at its own pace (25 frames a second) through OpenCV.

    `share` is of one core, 0..1 and more; `seconds` is how long it was watched.
    """

    share: float
    seconds: float


def measure_rate(
    model: Path, pictures: Sequence[Path], count: int, rounds: int, folder: Path, say: Progress
) -> Rate:
    """Let the runner decide on `count` picture files, and `invoke` run as often, `rounds` times in turn.

    Args:
        model: model file.
        pictures: files; they are linked into a folder again and again until there are `count`.
        count, rounds: see above.
        folder: scratch.
        say: told what is being done.
    """
    many = folder / "pictures"
    many.mkdir()
    for number in range(count):
        source = pictures[number % len(pictures)]
        (many / f"{number:06d}{source.suffix}").symlink_to(source.resolve())
    rounds_of: dict[str, list[float]] = {"runner": [], "bare": [], "runner_ms": [], "bare_ms": []}
    for number in range(rounds):
        say(f"rate, round {number + 1} of {rounds}")
        rate, milliseconds = _bare_rate(model, pictures[0], count)
        rounds_of["bare"].append(rate)
        rounds_of["bare_ms"].append(milliseconds)
        journal = folder / f"journal-{number}"
        process = _start(model, many, journal, "--keep", "none")
        stopped = _finish(process, count)
        rounds_of["runner"].append(float(stopped["rate"]))
        rounds_of["runner_ms"].append(float(stopped["processor_ms"]))
    return Rate(**{name: tuple(values) for name, values in rounds_of.items()})


def measure_memory(model: Path, video: Path, frames: int, folder: Path, say: Progress) -> Memory:
    """Watch the memory of a run over every frame of a video of `frames` frames."""
    say(f"memory over {frames:,} frames")
    process = _start(model, video, folder / "journal-memory", "--every-frame", "--keep", "none")
    samples: list[int] = []
    peak = 0
    begun = time.monotonic()
    while process.poll() is None:
        try:
            status = Path(f"/proc/{process.pid}/status").read_text()
        except OSError:
            break
        values = {
            line.split(":")[0]: line.split()[1] for line in status.splitlines() if line.startswith("Vm")
        }
        if "VmRSS" in values:
            samples.append(1024 * int(values["VmRSS"]))
            peak = max(peak, 1024 * int(values["VmHWM"]))
        time.sleep(_SAMPLE_S)
    seconds = time.monotonic() - begun
    stopped = _finish(process, frames)
    tenth = len(samples) // 10
    if tenth < 2:
        raise InputError(f"{frames} frames are over too soon to watch the memory; give more")
    return Memory(
        int(stopped["frames"]),
        statistics.median(samples[tenth : 2 * tenth]),
        statistics.median(samples[-tenth:]),
        peak,
        seconds,
    )


def measure_share(model: Path, video: Path, seconds: float, folder: Path, say: Progress) -> Share:
    """Watch a run at one frame a second for `seconds`."""
    say(f"processor time at one frame a second, {seconds:.0f} s")
    process = _start(model, video, folder / "journal-share", "--interval", "1")
    try:
        time.sleep(_START_S)
        before, begun = _processor_seconds(process.pid), time.monotonic()
        time.sleep(seconds)
        used, watched = _processor_seconds(process.pid) - before, time.monotonic() - begun
    finally:
        process.terminate()
    _finish(process, 1)
    return Share(used / watched, watched)


def pictures_of_size(
    paths: Sequence[Path], width: int, height: int, limit: int
) -> tuple[list[Path], list[Pixels]]:
    """The first `limit` pictures that have this size (not turned by EXIF), with their pixels.

    Raises:
        InputError: there are none.
    """
    found: list[Path] = []
    pixels: list[Pixels] = []
    for path in paths:
        try:
            picture = read_photograph(path)
        except InputError:
            continue
        if picture.shape[:2] == (height, width):
            found.append(path)
            pixels.append(picture)
        if len(found) == limit:
            break
    if not found:
        raise InputError(
            f"no picture of {width}x{height} pixels among {len(paths)} files; give another folder"
        )
    return found, pixels


def scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder for the run, on a disk: many systems keep /tmp in memory, and the journal syncs."""
    base = Path("/var/tmp")
    return tempfile.TemporaryDirectory(prefix="mango-bench-", dir=base if base.is_dir() else None)


def _bare_rate(model: Path, picture: Path, count: int) -> tuple[float, float]:
    """`invoke_alone` in a process of its own."""
    program = (
        "import sys; from pathlib import Path; from bench.field import invoke_alone;"
        " print(*invoke_alone(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(model), str(picture), str(count)],
        capture_output=True,
        text=True,
        env=_environment(),
    )
    if done.returncode:
        raise InputError(f"{model}: the bare rate cannot be measured ({done.stderr.strip()[-300:]})")
    rate, milliseconds = done.stdout.split()
    return float(rate), float(milliseconds)


def invoke_alone(model: Path, picture: Path, count: int) -> tuple[float, float]:
    """Invocations a second and milliseconds of processor time each: 10 warm-ups, then `count` times, one thread."""
    classifier = Classifier.open(model)
    tensor = classifier.quantise(fit(read_photograph(picture), classifier.contract.input))
    for _ in range(_WARM_UPS):
        classifier.invoke(tensor)
    begun, used = time.perf_counter(), time.process_time()
    for _ in range(count):
        classifier.invoke(tensor)
    return count / (time.perf_counter() - begun), 1e3 * (time.process_time() - used) / count


def _start(model: Path, source: Path, journal: Path, *options: str) -> subprocess.Popen[str]:
    program = "import sys; sys.argv[0] = 'mango-edge'; from edge.cli import main; main()"
    arguments = ["run", "--source", str(source), "--model", str(model), "--journal", str(journal)]
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments, "--log-format", "json", *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=_environment(),
    )


def _finish(process: subprocess.Popen[str], least: int) -> dict[str, float]:
    """Wait for a runner's end; the values of its last log line."""
    _, log = process.communicate()
    lines = log.splitlines()
    try:
        last: dict[str, float] = json.loads(lines[-1])
    except (IndexError, ValueError):
        last = {}
    if process.returncode or last.get("frames", 0) < least:
        raise InputError(f"mango-edge run failed while it was measured: {' '.join(lines[-2:])[-400:]}")
    return last


def _processor_seconds(pid: int) -> float:
    """User and system time of a process, seconds.

    Raises:
        InputError: it is gone, or this is not Linux.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        raise InputError("the runner ended while it was watched, or this is not Linux") from None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _environment() -> dict[str, str]:
    # The kit may be a checkout that is not installed: children find it where this process did.
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
