"""The TFLite runtime that is installed: ai-edge-litert, else tflite-runtime, else tensorflow.

All three run the same flatbuffer; their kernels differ in speed and, for int8, by a step or two in rare
outputs, so every result says which runtime and version made it.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from edge.errors import InputError

RUNTIMES = {
    "ai-edge-litert": "ai_edge_litert.interpreter",
    "tflite-runtime": "tflite_runtime.interpreter",
    "tensorflow": "tensorflow.lite.python.interpreter",
}
"""Distribution name of each runtime and the module that holds its `Interpreter`, in order of preference."""

INSTALL_HINT = (
    "install one, for example: pip install ai-edge-litert (32-bit boards: pip install tflite-runtime)"
)


@dataclass(frozen=True)
class Runtime:
    """An imported runtime: distribution name, version, and the module with `Interpreter`."""

    name: str
    version: str
    module: Any

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


def load_runtime(name: str) -> Runtime:
    """Import the runtime called `name` (a key of `RUNTIMES`).

    Raises:
        InputError: it is unknown, not installed, or fails while being imported; the cause is named.
    """
    if name not in RUNTIMES:
        raise InputError(f"runtime {name!r} is not known; choose auto, {', '.join(RUNTIMES)}")
    # The runtimes announce themselves on standard error, where this program prints one line per problem.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        with without_chatter():
            module = importlib.import_module(RUNTIMES[name])
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == RUNTIMES[name].split(".")[0]:
            raise InputError(f"runtime {name} is not installed; {INSTALL_HINT}") from None
        raise InputError(f"runtime {name} cannot be imported: it needs the module {error.name}") from None
    # A wheel built for another numpy or C library fails in its own ways.
    except Exception as error:
        raise InputError(f"runtime {name} cannot be imported: {_one_line(error)}") from None
    return Runtime(name, _version(name, module), module)


def installed_runtimes() -> tuple[str, ...]:
    """Names of the runtimes that can be imported here, in order of preference."""
    found = []
    for name in RUNTIMES:
        try:
            load_runtime(name)
        except InputError:
            continue
        found.append(name)
    return tuple(found)


def open_interpreter(
    flatbuffer: bytes,
    runtime: str = "auto",
    threads: int = 1,
    xnnpack: bool = True,
    where: str = "model",
    keep_tensors: bool = False,
) -> tuple[Any, Runtime]:
    """Open a TFLite flatbuffer and allocate its tensors.

    Args:
        flatbuffer: the model's bytes; they are kept alive by the interpreter.
        runtime: a key of `RUNTIMES`, or "auto" for the first that opens the model.
        threads: 1..64.
        xnnpack: False takes the plain kernels instead of the XNNPACK delegate.
        where: what to call the model in a message, usually its path.
        keep_tensors: let every layer's output be read after an inference (costs memory; with XNNPACK, layers
            inside the delegate stay hidden).

    Returns:
        The interpreter, ready to be fed, and the runtime it belongs to.

    Raises:
        InputError: no runtime opens the model; each that was tried is named with its cause.
    """
    if not 1 <= threads <= 64:
        raise InputError(f"{threads} threads: give a number from 1 to 64")
    causes: list[str] = []
    for name in RUNTIMES if runtime == "auto" else (runtime,):
        try:
            loaded = load_runtime(name)
        except InputError as error:
            if runtime != "auto":
                raise
            if "is not installed" not in str(error):
                causes.append(str(error))
            continue
        try:
            arguments: dict[str, Any] = {"model_content": flatbuffer, "num_threads": threads}
            if not xnnpack:
                resolvers = loaded.module.OpResolverType
                arguments["experimental_op_resolver_type"] = resolvers.BUILTIN_WITHOUT_DEFAULT_DELEGATES
            if keep_tensors:
                arguments["experimental_preserve_all_tensors"] = True
            with without_chatter():
                interpreter = loaded.module.Interpreter(**arguments)
                interpreter.allocate_tensors()
        # The bindings raise ValueError, RuntimeError, SystemError or ImportError, by runtime and version.
        except Exception as error:
            causes.append(f"{loaded}: {_one_line(error)}")
            continue
        return interpreter, loaded
    if not causes:
        raise InputError(f"{where}: no TFLite runtime is installed; {INSTALL_HINT}")
    raise InputError(f"{where}: no installed runtime opens this model ({'; '.join(causes)})")


@contextlib.contextmanager
def without_chatter() -> Iterator[None]:
    """Drop the INFO lines that native code writes to standard error; whatever else it writes goes through.

    The runtimes offer no switch for them, and standard error is where users look for problems.
    """
    try:
        sys.stderr.flush()
        saved = os.dup(2)
    except (OSError, ValueError, AttributeError):  # a service may run without standard error
        yield
        return
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 2)
        try:
            yield
        finally:
            with contextlib.suppress(ValueError):
                sys.stderr.flush()
            os.dup2(saved, 2)
            os.close(saved)
            log.seek(0)
            for line in log.read(2**20).splitlines(keepends=True):
                if not line.startswith(
                    (b"INFO:", b"WARNING: All log", b"I0000", b"W0000", b"E0000", b"fully_quantize:")
                ):
                    os.write(2, line)


def _version(name: str, module: Any) -> str:
    for distribution in (name, f"{name}-cpu") if name == "tensorflow" else (name,):
        try:
            return importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
    return str(getattr(module, "__version__", "unknown"))


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
