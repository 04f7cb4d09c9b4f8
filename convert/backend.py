"""TensorFlow and Keras, imported in one place: without their start-up chatter, and missed in one sentence."""

from __future__ import annotations

import contextlib
import io
import os
import re
import warnings
from collections.abc import Iterator

from edge.errors import InputError
from edge.runtime import without_chatter

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
try:
    with without_chatter():
        import keras
        import tensorflow as tf

        # Looks for accelerators, and says on standard error what it did not find: once, in here.
        tf.config.list_physical_devices()
except ModuleNotFoundError as error:
    raise InputError(
        f"the module {error.name} is not installed; this command runs on a workstation: pip install"
        " 'mango-leaf-kit[convert]'"
    ) from None

__all__ = ["keras", "one_line", "quiet", "tf"]


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep what Keras and the converter print to themselves: standard output is for results."""
    with without_chatter(), contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def one_line(error: BaseException) -> str:
    """What an exception says, on one line of 200 characters at most; its type where it says nothing."""
    # Keras sets part of its messages in bold, by control sequences of terminals.
    plain = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    return " ".join(plain.split())[:200] or type(error).__name__
