"""Models that were made elsewhere: a `.keras` file or a SavedModel, checked before time is spent on them.

Files are untrusted. Keras's safe mode refuses Python code in a `.keras` file; `.h5` models, whose loader
has no such mode, are not read at all; a SavedModel that calls Python or touches files is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from convert.architecture import conform
from convert.backend import keras, quiet, tf
from edge.errors import InputError

SAVED_MODEL = "saved_model.pb"
MAXIMUM_BYTES = 2**31
_FORBIDDEN = {"PyFunc", "PyFuncStateless", "EagerPyFunc", "ReadFile", "WriteFile", "MatchingFiles"}


def read_labels(text: str) -> tuple[str, ...]:
    """Class names in the order of the output: from a file with one a line, or separated by commas.

    Raises:
        InputError: unreadable file, an empty or repeated name.
    """
    path = Path(text)
    try:
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else text.split(",")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: the labels cannot be read ({error}); give one name a line") from None
    labels = tuple(line.strip() for line in lines if line.strip())
    if len(labels) < 2 or len(set(labels)) != len(labels):
        raise InputError(
            f"labels {text!r}: give at least two different names, by commas or in a file with one a line"
        )
    return labels


def is_foreign(path: Path) -> bool:
    """Whether `path` is a model of the user's rather than a training folder of this kit."""
    return not path.is_dir() or (path / SAVED_MODEL).exists()


def load_keras(path: Path) -> keras.Model:
    """Load a `.keras` file without running code from it.

    Raises:
        InputError: missing, of another kind, damaged, or with layers that need code to load.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such model; give a .keras file or a SavedModel folder")
    if path.suffix != ".keras":
        raise InputError(
            f"{path}: only .keras files and SavedModel folders are read; save it again with"
            " model.save('NAME.keras')"
        )
    if path.stat().st_size > MAXIMUM_BYTES:
        raise InputError(f"{path}: larger than a model may be ({MAXIMUM_BYTES:,} bytes)")
    try:
        with quiet():
            model = keras.saving.load_model(path, compile=False, safe_mode=True)
    # Keras raises what a layer's constructor, the zip or HDF5 reader raises.
    except Exception as error:
        text = " ".join(str(error).split())
        if "ambda" in text or "unsafe" in text.lower():
            raise InputError(
                f"{path}: carries Python code (a Lambda layer), which is not run; replace it by a standard layer"
            ) from None
        unknown = re.search(r"Could not locate class '(\w+)'", text)
        if unknown is not None:
            raise InputError(
                f"{path}: has a layer of the unknown class {unknown.group(1)}; build the model of Keras's own"
                " layers, or give it as a SavedModel"
            ) from None
        raise InputError(f"{path}: not a Keras model that can be read ({text[:200]})") from None
    if any(isinstance(layer, keras.layers.Lambda) for layer in model.layers):
        raise InputError(f"{path}: has a Lambda layer; replace it by a standard layer")
    return model


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
        text = " ".join(str(error).split())[:200]
        raise InputError(f"{folder}: not a SavedModel that can be read ({text})") from None
    name = "serving_default" if "serving_default" in signatures else next(iter(signatures), None)
    if name is None:
        raise InputError(f"{folder}: has no signature to call; export it with model.export(FOLDER)")
    _, inputs = signatures[name].structured_input_signature
    outputs = signatures[name].structured_outputs
    if len(inputs) != 1 or len(outputs) != 1:
        raise InputError(_several(str(folder), len(inputs), len(outputs)))
    shape = next(iter(inputs.values())).shape
    _check_input(str(folder), shape.rank and tuple(shape))
    picture = keras.Input(tuple(shape)[1:], name="photograph")
    layer = keras.layers.TFSMLayer(str(folder), call_endpoint=name)
    result = layer(picture)
    if isinstance(result, dict):
        (result,) = result.values()
    return keras.Model(picture, result, name=_plain(folder.name))


def adopt(path: Path, labels: Sequence[str], convention: str) -> keras.Model:
    """Load a model of the user's and put it under this kit's input: RGB 0..255 in, probabilities out.

    Args:
        path: `.keras` file or SavedModel folder.
        labels: class names in the order of the output.
        convention: what the model takes, a key of `convert.architecture.CONVENTIONS`.

    Raises:
        InputError: it cannot be loaded, has dynamic shapes, several inputs or outputs, another number of
            outputs than labels, or does not give probabilities.
    """
    where = str(path)
    model = load_saved_model(path) if path.is_dir() else load_keras(path)
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
    height, width = model.inputs[0].shape[1:3]
    photograph = keras.Input((height, width, 3), name="photograph")
    whole = keras.Model(photograph, model(conform(photograph, convention)), name=_plain(path.stem))
    generator = np.random.default_rng(0)
    pictures = generator.integers(0, 256, (2, height, width, 3)).astype(np.float32)
    values = np.asarray(whole(pictures, training=False))
    if not np.isfinite(values).all() or values.min() < -1e-4 or np.abs(values.sum(axis=1) - 1).max() > 1e-2:
        raise InputError(
            f"{where}: its outputs are not probabilities (they do not sum to 1); end it with a softmax layer"
        )
    return whole


def _check_input(where: str, shape: tuple[int | None, ...] | None) -> None:
    if shape is None or len(shape) != 4 or shape[3] != 3 or shape[0] not in (None, 1):
        raise InputError(
            f"{where}: its input is {_shape(shape)}, not (batch, height, width, 3); only networks for colour"
            " pictures are converted"
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
