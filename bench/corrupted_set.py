"""MangoLeafDB-C as files: every chosen photograph under every corruption and severity, in the study's layout.

    OUT/<corruption>/<severity>/<class>/<file>     severity 1 to 5; the clean pictures stand in OUT/clean/0/
    OUT/manifest.json                              what the set was made from, and how
    OUT/digests/<corruption>-<severity>.sha256     SHA-256 of each file, as `sha256sum --check` reads it in OUT

Photographs are fitted to the network's input before they are corrupted, as the study does. The same seed and
package versions give the same files; a set that was interrupted, or has damaged files, is completed by the same
command.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any

from bench.corruption import CORRUPTIONS, SEVERITIES, versions
from bench.encoding import Encoding
from bench.execution import run_here, run_processes
from bench.selection import Selection
from bench.unit import CHUNK, CLEAN, corrupted, fitted_chunk, read_checked
from convert.dataset import Dataset, Photograph
from edge.errors import InputError
from edge.files import sha256, write_atomic
from edge.preprocessing import InputSpec

FORMAT = "mango-leaf-corrupted-set"
VERSION = 1
MANIFEST = "manifest.json"
SEED = 0
"""Default seed of the corruptions, here and in `mango-bench robustness`."""

_SAMPLES = 3  # photographs that the size is estimated from, under every corruption
_MARGIN = 1.1  # the estimate's own error
_BLOCK = 4096  # files take whole blocks


@dataclass(frozen=True)
class CorruptedSet:
    """A set of corrupted pictures, planned or read from its manifest.

    Attributes:
        root: its folder.
        dataset: the photographs it was made from, all of them, with their original paths.
        names: digest of each photograph in the set -> `<class>/<file>` below each severity.
        spec: the networks' input that the pictures were fitted to.
        encoding: how they are stored.
        seed: of the corruptions' random numbers.
        corruptions, severities: which there are.
        versions: of the corruption code and its libraries.
        choice: which photographs, in words.
    """

    root: Path
    dataset: Dataset
    names: Mapping[str, str]
    spec: InputSpec
    encoding: Encoding
    seed: int
    corruptions: tuple[str, ...]
    severities: tuple[int, ...]
    versions: str
    choice: str

    @property
    def subsets(self) -> list[tuple[str, int]]:
        """Clean first, then each corruption and severity."""
        return [CLEAN, *((name, severity) for name in self.corruptions for severity in self.severities)]

    @property
    def members(self) -> tuple[Photograph, ...]:
        """The photographs in the set, sorted by digest."""
        chosen = [photograph for photograph in self.dataset.photographs if photograph.digest in self.names]
        return tuple(sorted(chosen, key=lambda photograph: photograph.digest))


@dataclass(frozen=True)
class Estimate:
    """What a set will take: files, bytes on the disk (estimated from a few photographs), and what is free."""

    files: int
    bytes: int
    free_bytes: int
    free_files: int | None


@dataclass(frozen=True)
class _Task:
    """Some pictures of one subset to write; `known` holds their digests if they were written before."""

    root: str
    source: str
    subset: tuple[str, int]
    photographs: tuple[Photograph, ...]
    names: tuple[str, ...]
    known: tuple[str, ...] | None
    spec: InputSpec
    encoding: Encoding
    seed: int


def plan_set(
    root: Path,
    selection: Selection,
    spec: InputSpec,
    encoding: Encoding,
    seed: int = SEED,
    corruptions: Sequence[str] = CORRUPTIONS,
    severities: Sequence[int] = SEVERITIES,
) -> CorruptedSet:
    """A set to be made of the selected photographs."""
    return CorruptedSet(
        root=root,
        dataset=selection.dataset,
        names=_file_names(selection.photographs, encoding.suffix),
        spec=spec,
        encoding=encoding,
        seed=seed,
        corruptions=tuple(corruptions),
        severities=tuple(severities),
        versions=versions(),
        choice=selection.choice,
    )


def estimate(planned: CorruptedSet) -> Estimate:
    """What a planned set will still take, by making the pictures of a few photographs without writing them."""
    members = planned.members
    step = max(1, len(members) // _SAMPLES)
    sample = members[::step][:_SAMPLES]
    size = 0
    for photograph in sample:
        image = read_checked(planned.dataset.root / photograph.path, photograph.digest, planned.spec)
        for name, severity in planned.subsets:
            made = corrupted(image, photograph.digest, name, severity, planned.seed)
            size += -(-len(planned.encoding.encode(made)) // _BLOCK) * _BLOCK
    whole = int(_MARGIN * size / len(sample) * len(members))
    present = sum(
        -(-entry.stat().st_size // _BLOCK) * _BLOCK
        for name, severity in planned.subsets
        for entry in (planned.root / name / str(severity)).rglob(f"*{planned.encoding.suffix}")
    )
    there = _nearest(planned.root)
    status = os.statvfs(there)
    return Estimate(
        files=len(members) * len(planned.subsets),
        bytes=max(0, whole - present),
        free_bytes=shutil.disk_usage(there).free,
        free_files=status.f_favail if status.f_files else None,
    )


def check_space(planned: CorruptedSet, needed: Estimate) -> None:
    """Refuse a set that does not fit the disk.

    Raises:
        InputError: fewer bytes or files are free than it will take.
    """
    if needed.bytes > needed.free_bytes:
        raise InputError(
            f"{planned.root}: the set needs about {needed.bytes / 1e9:.2f} GB more, but"
            f" {needed.free_bytes / 1e9:.2f} GB are free; free some space, choose another disk, or"
            " fewer corruptions or photographs"
        )
    if needed.free_files is not None and needed.files > needed.free_files:
        raise InputError(
            f"{planned.root}: the set needs {needed.files:,} files, but the file system has room for"
            f" {needed.free_files:,} more; choose another disk, or fewer corruptions or photographs"
        )


def write_set(
    planned: CorruptedSet, jobs: int = 1, report: Callable[[int], None] | None = None
) -> dict[tuple[str, int], str]:
    """Make the set, or what is still missing or damaged of it.

    Args:
        planned: what to make.
        jobs: processes.
        report: called with the number of pictures done after each chunk.

    Returns:
        For each subset the SHA-256 of its digest file.

    Raises:
        InputError: the folder holds another set, or a photograph cannot be read.
    """
    _claim(planned)
    members = planned.members
    kept = {subset: read_digests(planned, subset) for subset in planned.subsets}
    found: dict[tuple[str, int], dict[str, str]] = {subset: {} for subset in planned.subsets}
    summary = {}

    def tasks() -> Iterable[_Task]:
        for start in range(0, len(members), CHUNK):
            chunk = members[start : start + CHUNK]
            for subset in planned.subsets:
                names = tuple(planned.names[photograph.digest] for photograph in chunk)
                before = kept[subset]
                known = (
                    tuple(before[name] for name in names) if all(name in before for name in names) else None
                )
                yield _Task(
                    str(planned.root), str(planned.dataset.root), subset, chunk, names, known, planned.spec,
                    planned.encoding, planned.seed,
                )  # fmt: skip

    results = run_here(_write, tasks()) if jobs == 1 else run_processes(_write, tasks(), jobs)
    for task, digests in results:
        found[task.subset].update(zip(task.names, digests, strict=True))
        # After each chunk, and with what an earlier run wrote: an interrupted set knows what it has.
        text = _digest_text(task.subset, {**kept[task.subset], **found[task.subset]})
        write_atomic(_digest_path(planned.root, task.subset), text.encode())
        summary[task.subset] = sha256(text.encode())
        if report is not None:
            report(len(task.names))
    return {subset: summary[subset] for subset in planned.subsets}


def open_set(root: Path) -> CorruptedSet:
    """Read a set's manifest.

    Raises:
        InputError: no such folder, no manifest, or one that this version cannot read.
    """
    path = root / MANIFEST
    try:
        if path.stat().st_size > 2**28:
            raise InputError(f"{path}: too large for a manifest")
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(
            f"{root}: not a corrupted set (no {MANIFEST}); make one with: mango-bench corrupt"
        ) from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None
    except (ValueError, RecursionError):
        raise InputError(
            f"{path}: damaged (not JSON); make the set again with: mango-bench corrupt"
        ) from None
    try:
        if values["format"] != FORMAT:
            raise InputError(f"{path}: not the manifest of a corrupted set")
        if values["version"] > VERSION:
            raise InputError(f"{path}: version {values['version']} is newer than this program; update it")
        data = values["data"]
        photographs = tuple(
            Photograph(
                str(name), str(label), str(digest), None if taken is None else datetime.fromisoformat(taken)
            )
            for name, label, digest, taken in data["photographs"]
        )
        found = CorruptedSet(
            root=root,
            dataset=Dataset(Path(data["name"]), tuple(map(str, data["labels"])), photographs, (), ()),
            names={str(digest): _safe(str(name)) for digest, name in values["names"].items()},
            spec=InputSpec(**values["spec"]),
            encoding=Encoding(values["quality"]),
            seed=int(values["seed"]),
            corruptions=tuple(map(str, values["corruptions"])),
            severities=tuple(map(int, values["severities"])),
            versions=str(values["versions"]),
            choice=str(values["choice"]),
        )
        if any(name not in CORRUPTIONS for name in found.corruptions):
            raise ValueError("unknown corruption")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"{path}: damaged ({error!r}); make the set again with: mango-bench corrupt"
        ) from None
    return found


def read_digests(stored: CorruptedSet, subset: tuple[str, int]) -> dict[str, str]:
    """`<class>/<file>` -> SHA-256 of one subset's files; empty where none were written.

    Raises:
        InputError: the digest file is damaged.
    """
    path = _digest_path(stored.root, subset)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None
    prefix = f"{subset[0]}/{subset[1]}/"
    found = {}
    for line in lines:
        digest, _, name = line.partition("  ")
        if len(digest) != 64 or not name.startswith(prefix):
            raise InputError(f"{path}: damaged; delete it and run mango-bench corrupt again")
        found[name.removeprefix(prefix)] = digest
    return found


def _claim(planned: CorruptedSet) -> None:
    """Write the manifest, or check that the one that is there says the same."""
    path = planned.root / MANIFEST
    text = json.dumps(_manifest(planned), indent=0, ensure_ascii=False) + "\n"
    if path.exists():
        present = open_set(planned.root)
        for name, old, new in (
            ("photographs", present.dataset.digest, planned.dataset.digest),
            ("choice of photographs", present.choice, planned.choice),
            ("file names", present.names, planned.names),
            ("input size", present.spec, planned.spec),
            ("encoding", present.encoding, planned.encoding),
            ("seed", present.seed, planned.seed),
            ("corruptions", present.corruptions, planned.corruptions),
            ("severities", present.severities, planned.severities),
            ("package versions", present.versions, planned.versions),
        ):
            if old != new:
                shown = "" if isinstance(old, Mapping) else f" ({old} there, {new} now)"
                raise InputError(
                    f"{planned.root}: holds a set with other {name}{shown}; choose another folder or delete it"
                )
        return
    if planned.root.exists() and (not planned.root.is_dir() or any(planned.root.iterdir())):
        raise InputError(f"{planned.root}: not empty and not a corrupted set; choose another folder")
    write_atomic(path, text.encode())


def _manifest(planned: CorruptedSet) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "data": {
            "name": planned.dataset.root.name,
            "digest": planned.dataset.digest,
            "labels": list(planned.dataset.labels),
            "photographs": [
                [
                    photograph.path,
                    photograph.label,
                    photograph.digest,
                    None if photograph.taken is None else photograph.taken.isoformat(),
                ]
                for photograph in planned.dataset.photographs
            ],
        },
        "choice": planned.choice,
        "spec": asdict(planned.spec),
        "quality": planned.encoding.quality,
        "seed": planned.seed,
        "corruptions": list(planned.corruptions),
        "severities": list(planned.severities),
        "versions": planned.versions,
        "names": dict(planned.names),
    }


def _write(task: _Task) -> list[str]:
    """Write the pictures of a task, or confirm those that are already there; returns their digests."""
    folder = Path(task.root) / task.subset[0] / str(task.subset[1])
    digests = []
    for place, (photograph, name) in enumerate(zip(task.photographs, task.names, strict=True)):
        path = folder / name
        if task.known is not None and _has(path, task.known[place]):
            digests.append(task.known[place])
            continue
        image = fitted_chunk(Path(task.source), task.photographs, task.spec)[place]
        made = corrupted(image, photograph.digest, *task.subset, task.seed)
        data = task.encoding.encode(made)
        path.parent.mkdir(parents=True, exist_ok=True)
        # Not synced one by one: digests tell a file that a power cut left empty, and the next run makes it anew.
        part = path.with_name(f".{path.name}.part")
        part.write_bytes(data)
        os.replace(part, path)
        digests.append(sha256(data))
    return digests


def _has(path: Path, digest: str) -> bool:
    try:
        return sha256(path.read_bytes()) == digest
    except OSError:
        return False


def _file_names(photographs: Sequence[Photograph], suffix: str) -> dict[str, str]:
    """Digest -> `<class>/<file>`: the original name with the encoding's ending, made unique by the digest."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for photograph in photographs:
        parts = PurePosixPath(photograph.path).parts
        inner = "_".join(parts[1:] or parts)
        name = f"{photograph.label}/{PurePosixPath(inner).stem}{suffix}"
        # Not all file systems tell letter cases apart.
        if name.casefold() in taken:
            name = f"{photograph.label}/{PurePosixPath(inner).stem}-{photograph.digest[:16]}{suffix}"
        taken.add(name.casefold())
        names[photograph.digest] = name
    return names


def _safe(name: str) -> str:
    """A name from a manifest; refused if it leads out of the folder."""
    parts = PurePosixPath(name).parts
    if (
        len(parts) != 2
        or ".." in parts
        or PurePosixPath(name).is_absolute()
        or "\\" in name
        or "\x00" in name
    ):
        raise ValueError(f"the file name {name!r}")
    return name


def _digest_path(root: Path, subset: tuple[str, int]) -> Path:
    return root / "digests" / f"{subset[0]}-{subset[1]}.sha256"


def _digest_text(subset: tuple[str, int], digests: Mapping[str, str]) -> str:
    return "".join(f"{digest}  {subset[0]}/{subset[1]}/{name}\n" for name, digest in sorted(digests.items()))


def _nearest(path: Path) -> Path:
    """The folder itself, or the nearest one above it that exists."""
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return path
