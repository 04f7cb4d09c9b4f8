"""Models that were made elsewhere: a `.keras` file or a SavedModel, checked before time is spent on them.

Files are untrusted. Python code in a `.keras` file is refused, by `convert.given` and by Keras's safe mode; `.h5`
models, whose loader has no such mode, are not read at all; a SavedModel that calls Python or touches files is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from convert.architecture import conform
from convert.backend import keras, one_line, quiet, tf
from convert.given import SAVED_MODEL, check_keras_file, files_digest
from edge.errors import InputError

_FORBIDDEN = {"PyFunc", "PyFuncStateless", "EagerPyFunc", "ReadFile", "WriteFile", "MatchingFiles"}


@dataclass(frozen=True)
class Foreign:
    """A model of the user's that can be converted.

    Attributes:
        model: float32 (n, height, width, 3), RGB 0..255 -> probabilities (n, labels); n is open or 1.
        labels: class names in the order of the output.
        digest: `convert.given.files_digest` of what it was read from.
    """

    model: keras.Model
    labels: tuple[str, ...]
    digest: str


def load_keras(path: Path) -> keras.Model:
    """Load a `.keras` file without running code from it.

    Raises:
        InputError: missing, of another kind, damaged, or with layers that need code to load.
    """
    check_keras_file(path)
    try:
        with quiet():
            return keras.saving.load_model(path, compile=False, safe_mode=True)
    # Keras raises what a layer's constructor, the zip or HDF5 reader raises.
    except Exception as error:
        text = one_line(error)
        unknown = re.search(r"Could not (?:locate class|deserialize) '(?:\w+\.)*(\w+)'", text)
        if unknown is not None:
            raise InputError(
                f"{path}: has a layer of the unknown class {unknown.group(1)}; build the model of Keras's own"
                " layers, or give it as a SavedModel"
            ) from None
        raise InputError(f"{path}: not a Keras model that can be read ({text})") from None


def load_saved_model(folder: Path) -> keras.Model:
    """Load a TensorFlow SavedModel's serving signature as a Keras model.

    Raises:
        InputError: damaged, several signatures, inputs or outputs, or operations that reach outside the graph.
    """
    from tensorflow.core.protobuf import saved_model_pb2

    try:
        description = saved_model_pb2.SavedModel.FromString((folder / SAVED_MODEL).read_bytes())
    except Exception as error:
        raise InputError(f"{folder}: damaged SavedModel ({type(error).__name__}); export it again") from None
    graphs = [meta.graph_def for meta in description.meta_graphs]
    used = {node.op for graph in graphs for node in graph.node} | {
        node.op for graph in graphs for function in graph.library.function for node in function.node_def
    }
    if used & _FORBIDDEN:
        raise InputError(
            f"{folder}: calls {', '.join(sorted(used & _FORBIDDEN))}, which reaches outside the network; not loaded"
        )
    try:
        with quiet():
            loaded = tf.saved_model.load(str(folder))
            signatures = dict(loaded.signatures)
    except Exception as error:
        raise InputError(f"{folder}: not a SavedModel that can be read ({one_line(error)})") from None
    name = "serving_default" if "serving_default" in signatures else next(iter(signatures), None)
    if name is None:
        raise InputError(f"{folder}: has no signature to call; export it with model.export(FOLDER)")
    _, inputs = signatures[name].structured_input_signature
    outputs = signatures[name].structured_outputs
    if len(inputs) != 1 or len(outputs) != 1:
        raise InputError(_several(str(folder), len(inputs), len(outputs)))
    taken = next(iter(inputs.values()))
    shape = None if taken.shape.rank is None else tuple(taken.shape)
    _check_input(str(folder), shape)
    if taken.dtype != tf.float32:
        raise InputError(
            f"{folder}: takes {taken.dtype.name} values, and only float32 is converted; export it again with a float32"
            " input, a cast inside if it needs one"
        )
    picture = keras.Input(batch_shape=shape, name="photograph")
    try:
        with quiet():
            layer = keras.layers.TFSMLayer(str(folder), call_endpoint=name)
            (result,) = keras.tree.flatten(layer(picture))
            return keras.Model(picture, result, name=_plain(folder.name))
    except Exception as error:
        raise InputError(f"{folder}: its signature {name} cannot be called ({one_line(error)})") from None


def adopt(path: Path, labels: Sequence[str], convention: str) -> Foreign:
    """Load a model of the user's and put it under this kit's input: RGB 0..255 in, probabilities out.

    Args:
        path: `.keras` file or SavedModel folder.
        labels: class names in the order of the output.
        convention: what the model takes, a key of `convert.architecture.CONVENTIONS`.

    Raises:
        InputError: it cannot be loaded or run, has dynamic shapes, a fixed batch, several inputs or outputs,
            another number of outputs than labels, or does not give probabilities.
    """
    where, folder = str(path), path.is_dir()
    if not folder:
        check_keras_file(path)
    # Taken before the model is read: if the files change in between, the next conversion is made anew.
    digest = files_digest(path)
    model = load_saved_model(path) if folder else load_keras(path)
    if not getattr(model, "built", False) or not getattr(model, "inputs", None):
        raise InputError(
            f"{where}: has no fixed input; build it with keras.Input((height, width, 3)) and save it"
        )
    if len(model.inputs) != 1 or len(model.outputs) != 1:
        raise InputError(_several(where, len(model.inputs), len(model.outputs)))
    _check_input(where, model.inputs[0].shape)
    shape = tuple(model.outputs[0].shape)
    if len(shape) != 2 or shape[1] != len(labels):
        raise InputError(
            f"{where}: its output is {_shape(shape)}, but there are {len(labels)} labels; give as many labels as the"
            " last layer has units"
        )
    batch, height, width = model.inputs[0].shape[:3]
    photograph = keras.Input((height, width, 3), batch_size=batch, name="photograph")
    pictures = np.random.default_rng(0).integers(0, 256, (2, height, width, 3)).astype(np.float32)
    try:
        with quiet():
            # One input or output may come in a list or a dict.
            structure = 0 if isinstance(model, keras.Sequential) else model.input
            called = keras.tree.pack_sequence_as(structure, [conform(photograph, convention)])
            (result,) = keras.tree.flatten(model(called))
            whole = keras.Model(photograph, result, name=_plain(path.stem))
            values = np.concatenate(
                [np.asarray(whole(picture[np.newaxis], training=False)) for picture in pictures]
            )
    # A layer may raise anything when it is called.
    except Exception as error:
        raise InputError(f"{where}: cannot be run on a picture ({one_line(error)}); save it again") from None
    if not np.isfinite(values).all() or values.min() < -1e-4 or np.abs(values.sum(axis=1) - 1).max() > 1e-2:
        raise InputError(
            f"{where}: its outputs are not probabilities (they do not sum to 1); end it with a softmax layer"
        )
    return Foreign(whole, tuple(labels), digest)


def _check_input(where: str, shape: tuple[int | None, ...] | None) -> None:
    if shape is None or len(shape) != 4 or shape[3] != 3:
        raise InputError(
            f"{where}: its input is {_shape(shape)}, not (batch, height, width, 3); only networks for colour"
            " pictures are converted"
        )
    if shape[0] not in (None, 1):
        raise InputError(
            f"{where}: its batch is fixed at {shape[0]}, and a device gives one picture at a time; build it with"
            " keras.Input((height, width, 3)), which leaves the batch open, and save it again"
        )
    if None in shape[1:3]:
        raise InputError(
            f"{where}: its input size is not fixed ({_shape(shape)}); build it with keras.Input((height, width, 3))"
            " and save it again"
        )


def _several(where: str, inputs: int, outputs: int) -> str:
    return f"{where}: has {inputs} inputs and {outputs} outputs; only one of each can be converted"


def _shape(shape: Sequence[int | None] | None) -> str:
    if shape is None:
        return "of unknown shape"
    return "(" + ", ".join("any" if size is None else str(size) for size in shape) + ")"


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-") or "model"
