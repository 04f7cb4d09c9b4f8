"""Where a network's first weights come from: ImageNet by Keras's own download, a file, or chance."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py  # type: ignore[import-untyped]
import numpy as np

from convert.architecture import NETWORKS, application, body, choose_head, head
from convert.backend import keras, one_line, quiet
from edge.errors import InputError
from edge.files import sha256

NONE, IMAGENET = "none", "imagenet"
SUFFIXES = (".keras", ".h5")


@dataclass(frozen=True)
class Origin:
    """Where weights come from: `source` is "none", "imagenet" or a path; `digest` is the file's SHA-256."""

    source: str
    digest: str = ""

    @property
    def name(self) -> str:
        """What a training remembers: "none", "imagenet", or the file's digest (it may move)."""
        return self.digest or self.source


def choose(name: str, weights: str | None) -> Origin:
    """The origin meant by an option: "imagenet", "none", a file, or None for the network's default.

    ImageNet is the default of the networks of `keras.applications`, chance that of LCNN, as in the study.

    Raises:
        InputError: LCNN has no ImageNet weights; the file is missing or of an unknown kind.
    """
    choose_head(name, None)
    if weights is None:
        weights = NONE if NETWORKS[name].application is None else IMAGENET
    if weights == IMAGENET and NETWORKS[name].application is None:
        raise InputError(f"{name} has no ImageNet weights; give --weights none or a file")
    if weights in (NONE, IMAGENET):
        return Origin(weights)
    path = Path(weights)
    if path.suffix not in SUFFIXES:
        raise InputError(f"weights {weights!r}: give imagenet, none, or a file that ends in .h5 or .keras")
    try:
        return Origin(weights, sha256(path.read_bytes()))
    except OSError as error:
        raise InputError(f"{path}: the weights cannot be read ({error.strerror or error})") from None


def load(model: keras.Model, name: str, origin: Origin) -> None:
    """Put weights into a model that `convert.architecture.build` made; the new head keeps its own.

    A file may be one that Keras publishes for the network (.h5, with or without its top), or this network as
    `mango-convert train` or Keras saved it (.keras, .weights.h5). Files are read as data: nothing in them is
    executed.

    Raises:
        InputError: the download failed (the message says where to put the file), or the file belongs to
            another network.
    """
    if origin.source == NONE:
        return
    if origin.source == IMAGENET:
        _load_application(model, name, IMAGENET)
    elif origin.source.endswith(".keras"):
        from convert.foreign import load_keras

        _copy(load_keras(Path(origin.source)), model, origin.source)
    elif _is_published(Path(origin.source)):
        _load_application(model, name, origin.source)
    else:
        try:
            model.load_weights(origin.source)
        except Exception as error:  # h5py and Keras raise what the file led them into
            raise InputError(
                f"{origin.source}: not the weights of {model.name} ({one_line(error)})"
            ) from None


def fetch(name: str, origin: Origin) -> None:
    """Download ImageNet's weights where they are meant and not at hand, before other work is begun.

    Raises:
        InputError: they cannot be had; the message says where to put them.
    """
    if origin.source == IMAGENET:
        _published(name, IMAGENET, False, {})


def choose_each(names: Sequence[str], weights: str | None) -> dict[str, Origin]:
    """The origins of several networks' weights, by name.

    Args:
        names: networks.
        weights: as in `choose`, where "imagenet" means chance for a network without such weights; or
            "NAME=ORIGIN,NAME=ORIGIN", the networks not named having their defaults.

    Raises:
        InputError: as `choose`; a name that is not among `names`; one file for several networks.
    """
    if weights is not None and "=" in weights:
        pairs = [pair.partition("=") for pair in weights.split(",")]
        given = {name.strip(): origin.strip() for name, _, origin in pairs}
        for name in given:
            if name not in names:
                raise InputError(f"weights for {name!r}, which is not among the networks {', '.join(names)}")
        return {name: choose(name, given.get(name)) for name in names}
    if weights == IMAGENET:
        # The default is ImageNet wherever there is such a thing.
        return {name: choose(name, None) for name in names}
    if weights not in (None, NONE) and len(names) > 1:
        raise InputError(f"{weights}: a file fits one network; give --weights NAME=FILE,NAME=FILE")
    return {name: choose(name, weights) for name in names}


def cached(url: str) -> Path:
    """Where Keras looks for a file of `keras.applications` before it downloads it."""
    home = os.environ.get("KERAS_HOME") or Path.home() / ".keras"
    return Path(home) / "models" / url.rsplit("/", 1)[-1]


def _load_application(model: keras.Model, name: str, source: str) -> None:
    inner = body(model)
    if inner is None:
        raise InputError(f"{source}: weights of keras.applications do not fit {name}")
    dense = [layer for layer in head(model) if layer.name in ("fc1", "fc2")]
    # Only VGG-16's own dense layers are taken over from the published top.
    top = bool(dense) or (source != IMAGENET and _has_top(Path(source)))
    if dense and source != IMAGENET and not _has_top(Path(source)):
        raise InputError(
            f"{source}: has no dense layers for the head of {model.name}; give the file with top"
        )
    if dense and tuple(inner.input.shape[1:3]) != (224, 224):
        raise InputError(f"{model.name}: ImageNet's dense layers need 224x224 pixels; choose another head")
    arguments = {} if top else {"input_shape": tuple(inner.input.shape[1:])}
    published = _published(name, source, top, arguments)
    theirs = [layer for layer in published.layers if layer.weights]
    ours = [layer for layer in inner.layers if layer.weights] + dense
    # Layers stand in the same order in both; their names need not be the same (Keras numbers some).
    for target, given in zip(ours, theirs, strict=False):
        target.set_weights(given.get_weights())


def _published(name: str, source: str, top: bool, arguments: dict[str, Any]) -> keras.Model:
    try:
        with quiet():
            return application(name)(include_top=top, weights=source, **arguments)
    except Exception as error:  # a failed download is a bare Exception; a wrong file fails in many ways
        url = re.search(r"https?://\S+?\.h5", str(error))
        if url is not None:
            where = cached(url.group())
            raise InputError(
                f"the ImageNet weights of {name} cannot be downloaded; fetch {url.group()} on another machine"
                f" and put it at {where}, or give it with --weights FILE"
            ) from None
        raise InputError(f"{source}: not the weights of {name} ({one_line(error)})") from None


def _copy(given: keras.Model, model: keras.Model, where: str) -> None:
    theirs, ours = given.get_weights(), model.get_weights()
    if not getattr(given, "outputs", None):
        raise InputError(f"{where}: not the weights of {model.name} (its layers have no fixed sizes)")
    new_head = 2 if given.outputs[0].shape[-1] != model.outputs[0].shape[-1] else 0
    kept = len(ours) - new_head
    same = len(theirs) == len(ours) and all(
        np.shape(a) == np.shape(b) for a, b in zip(theirs[:kept], ours[:kept], strict=True)
    )
    if not same:
        raise InputError(f"{where}: not the weights of {model.name} (its layers have other sizes)")
    model.set_weights([*theirs[:kept], *ours[kept:]])


def _is_published(path: Path) -> bool:
    return "layer_names" in _attributes(path)


def _has_top(path: Path) -> bool:
    names = [
        str(name, "utf-8") if isinstance(name, bytes) else str(name)
        for name in _attributes(path)["layer_names"]
    ]
    return any(name in ("predictions", "fc1000", "probs") for name in names)


def _attributes(path: Path) -> dict[str, list[object]]:
    try:
        with h5py.File(path, "r") as file:
            source = file.get("model_weights", file)
            return {key: list(np.atleast_1d(source.attrs[key])) for key in source.attrs}
    except OSError as error:
        raise InputError(f"{path}: not an HDF5 file ({one_line(error)}); download it again") from None
