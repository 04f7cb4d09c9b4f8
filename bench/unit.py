"""The unit of work of a robustness run: one corruption and severity of one chunk of photographs.

A unit is complete in itself: it can run in this process, in another, or on another machine that sees the same
files, and gives the same answers there. Its results are kept in shards, one for each model, whose names say
everything that the answers depend on; so a run that was killed takes over what fits and nothing else.
"""

from __future__ import annotations

import json
import threading
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bench.corruption import corrupt, corruption_generator, versions
from bench.encoding import Encoding
from convert.dataset import Photograph
from edge.classifier import Classifier
from edge.errors import InputError
from edge.files import sha256, write_atomic
from edge.preprocessing import InputSpec, Pixels, fit, read_photograph

CHUNK = 64
"""Photographs in a unit: their 224x224 pixels take 10 MB."""

CLEAN = ("clean", 0)
"""Stands for no corruption where a (corruption, severity) is expected; also the folder's name."""

Classes = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Network:
    """A model file to run, and how. `digest` is that of the whole file, `runtime` its name and version."""

    path: str
    digest: str
    runtime: str
    threads: int

    @property
    def runtime_name(self) -> str:
        """The runtime without its version."""
        return self.runtime.rsplit(" ", 1)[0]


@dataclass(frozen=True)
class Source:
    """Where corrupted pictures come from.

    Attributes:
        root: folder of the photographs, or of the corrupted set.
        stored: True for a corrupted set, whose files are read as they are.
        spec: the networks' input.
        encoding: the JPEG step.
        seed: of the corruptions' random numbers.
        versions: base and library versions of the corruptions (`bench.corruption.versions`).
    """

    root: str
    stored: bool
    spec: InputSpec
    encoding: Encoding
    seed: int
    versions: str


@dataclass(frozen=True)
class Unit:
    """What to do. `files` has, for a stored source, the path and digest of each picture of this subset."""

    networks: tuple[Network, ...]
    source: Source
    corruption: str
    severity: int
    photographs: tuple[Photograph, ...]
    files: tuple[tuple[str, str], ...] = ()

    def shard(self, network: Network) -> str:
        """Name of the shard: a digest of all that its answers depend on."""
        source = asdict(self.source)
        del source["root"], source["stored"]
        values = {
            "network": [network.digest, network.runtime, network.threads],
            "source": source,
            "subset": [self.corruption, self.severity],
            "photographs": [photograph.digest for photograph in self.photographs],
            # A stored set has the same pictures as those made on the fly, unless its files say otherwise.
            "files": [digest for _, digest in self.files],
        }
        return sha256(json.dumps(values, sort_keys=True).encode())


def predict_unit(unit: Unit) -> list[bytes]:
    """The predicted classes of the unit's photographs: for each network, uint16 little-endian bytes.

    Raises:
        InputError: a picture cannot be read, was changed since it was indexed, or this machine has other
            versions of the runtime or the corruptions than the one that planned the run.
    """
    if not unit.source.stored and unit.source.versions != _versions():
        raise InputError(
            f"this machine corrupts with {_versions()}, the run was started with {unit.source.versions}; install the"
            " same versions on all of them"
        )
    classifiers = [_classifier(network) for network in unit.networks]
    found = np.empty((len(classifiers), len(unit.photographs)), dtype="<u2")
    fitted = (
        None
        if unit.source.stored
        else fitted_chunk(Path(unit.source.root), unit.photographs, unit.source.spec)
    )
    for place, photograph in enumerate(unit.photographs):
        if fitted is None:
            image = _stored(unit, place)
        else:
            image = corrupted(
                fitted[place], photograph.digest, unit.corruption, unit.severity, unit.source.seed
            )
            image = unit.source.encoding.through(image)
        for row, classifier in enumerate(classifiers):
            found[row, place] = int(np.argmax(classifier.probabilities(image)))
    return [row.tobytes() for row in found]


def corrupted(image: Pixels, digest: str, corruption: str, severity: int, seed: int) -> Pixels:
    """One fitted picture under one corruption (`CLEAN` leaves it as it is), as every part of the kit makes it.

    Args:
        image: uint8 (height, width, 3), RGB, at the network's input size.
        digest: of the photograph's file; with corruption, severity and seed it fixes the random numbers.
        corruption, severity: of `bench.corruption`, or `CLEAN`.
        seed: of the set.
    """
    if (corruption, severity) == CLEAN:
        return image
    return corrupt(image, corruption, severity, corruption_generator(digest, corruption, severity, seed))


def fitted_chunk(root: Path, photographs: tuple[Photograph, ...], spec: InputSpec) -> list[Pixels]:
    """Photographs at the input's size. The last chunk is kept for this thread: its corruptions follow each other."""
    key = (root, spec, tuple(photograph.digest for photograph in photographs))
    if _local.__dict__.get("key") != key:
        _local.pictures, _local.key = [], None
        _local.pictures = [
            read_checked(root / photograph.path, photograph.digest, spec) for photograph in photographs
        ]
        _local.key = key
    pictures: list[Pixels] = _local.pictures
    return pictures


def read_checked(path: Path, digest: str, spec: InputSpec) -> Pixels:
    """A photograph, fitted; refused if its bytes are not those that were indexed."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}); mend or remove it") from None
    if sha256(data) != digest:
        raise InputError(f"{path}: changed since the run began; run it again")
    try:
        return fit(read_photograph(data, spec.exif), spec)
    except InputError as error:
        raise InputError(str(error).replace("picture:", f"{path}:", 1)) from None


def write_shard(folder: Path, name: str, classes: bytes) -> None:
    """Keep one network's answers to one unit."""
    write_atomic(folder / f"{name}.shard", classes)


def read_shard(folder: Path, name: str, photographs: int) -> Classes | None:
    """The kept answers; None where there are none, or of another length (damaged)."""
    try:
        data = (folder / f"{name}.shard").read_bytes()
    except OSError:
        return None
    if len(data) != 2 * photographs:
        return None
    return np.frombuffer(data, dtype="<u2").astype(np.intp)


_local = threading.local()
_versions = cache(versions)  # asks the package index of the installation, which takes milliseconds


def _classifier(network: Network) -> Classifier:
    """The opened network, kept for this thread: an interpreter must not be shared by threads."""
    opened: dict[Network, Classifier] = _local.__dict__.setdefault("opened", {})
    if network not in opened:
        classifier = Classifier.open(network.path, network.runtime_name, network.threads)
        if classifier.model.digest != network.digest:
            raise InputError(f"{network.path}: the model file changed since the run began; run it again")
        if str(classifier.runtime) != network.runtime:
            raise InputError(
                f"this machine has {classifier.runtime}, the run was started with {network.runtime}; install the same"
                " version on all of them"
            )
        opened[network] = classifier
    return opened[network]


def _stored(unit: Unit, place: int) -> Pixels:
    name, digest = unit.files[place]
    path = Path(unit.source.root) / name
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror or error}); make the set again with: mango-bench corrupt"
        ) from None
    if sha256(data) != digest:
        raise InputError(
            f"{path}: not the picture that the set's digests promise; delete it and run mango-bench corrupt"
        )
    image = read_photograph(data)
    spec = unit.source.spec
    if image.shape != (spec.height, spec.width, 3):
        raise InputError(
            f"{path}: {image.shape[1]}x{image.shape[0]} pixels, but the network takes {spec.width}x{spec.height}"
        )
    return image
