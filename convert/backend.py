"""TensorFlow and Keras, imported in one place: without their start-up chatter, and missed in one sentence."""

from __future__ import annotations

import os

from edge.errors import InputError
from edge.runtime import without_chatter

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
try:
    with without_chatter():
        import keras
        import tensorflow as tf
except ModuleNotFoundError as error:
    raise InputError(
        f"the module {error.name} is not installed; this command runs on a workstation: pip install"
        " 'mango-leaf-kit[convert]'"
    ) from None

__all__ = ["keras", "tf"]
