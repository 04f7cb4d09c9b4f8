"""Signing model files: a key pair, and a release with its golden outputs under one signature."""

from __future__ import annotations

import dataclasses
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from convert.golden import make_golden
from edge.classifier import Classifier
from edge.contract import read_model, write_model
from edge.errors import InputError
from edge.files import sha256, sync_folder, write_atomic
from edge.golden import Golden, to_members, without_golden
from edge.model_store import RELEASE, release_of
from edge.signature import key_id, read_private_key, signed, verify


@dataclass(frozen=True)
class Release:
    """A signed model file: where it is, its release number, digest, key and golden outputs."""

    path: Path
    release: int
    digest: str
    key_id: str
    golden: Golden


def make_keys(private: Path, public: Path) -> str:
    """Make an Ed25519 key pair in two PEM files; the private one is readable by its owner alone.

    Returns:
        The key's short name (`edge.signature.key_id`).

    Raises:
        InputError: one of the files is there already: a lost private key cannot be made again.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
    )

    if public.exists():
        raise InputError(f"{public}: exists already; choose another name or move the old pair away")
    key = Ed25519PrivateKey.generate()
    private.parent.mkdir(parents=True, exist_ok=True)
    try:
        # Private from its first moment on, and never in place of another key.
        handle = os.open(private, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise InputError(
            f"{private}: exists already; choose another name or move the old pair away"
        ) from None
    with os.fdopen(handle, "wb") as file:
        file.write(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        file.flush()
        os.fsync(file.fileno())
    sync_folder(private.parent)
    write_atomic(public, key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return key_id(key.public_key())


def sign_model(
    model: Path, key: Path, release: int, out: Path | None = None, runtime: str = "auto"
) -> Release:
    """Give a model file a release number, golden outputs and a signature.

    Args:
        model: the model file; one that was signed before is signed anew.
        key: private key, PEM.
        release: 1 or more; devices refuse a release that is not higher than the one they run.
        out: the file to write; the model file itself by default.
        runtime: gives the golden outputs.

    Raises:
        InputError: key, model or number cannot be used, the number is below the one the file carries, or
            `out` is no regular file.
    """
    if not 1 <= release < 2**53:
        raise InputError(
            f"release {release}: give a whole number from 1 on, higher than that of the last release"
        )
    if out is not None and out.exists() and not out.is_file():
        raise InputError(f"{out}: a folder, device or pipe cannot hold a model; name a file to write")
    private = read_private_key(key)
    classifier = Classifier.open(model, runtime)
    before = release_of(classifier.contract)
    if release < before:
        raise InputError(
            f"{model}: is release {before} already; release {release} would be refused by devices"
        )
    golden = make_golden(classifier)
    contract = dataclasses.replace(classifier.contract, extra={**classifier.contract.extra, RELEASE: release})
    members = {**without_golden(classifier.model.members), **to_members(golden)}
    with tempfile.TemporaryDirectory() as folder:
        unsigned = Path(folder) / "model.tflite"
        write_model(unsigned, classifier.model.flatbuffer, contract, members)
        data = signed(unsigned.read_bytes(), private)
    target = model if out is None else out
    write_atomic(target, data)
    # What was written is what a device will read.
    verify(target.read_bytes(), private.public_key(), str(target))
    if read_model(target).digest != sha256(data):
        raise InputError(f"{target}: was changed while it was being written; sign it again")
    return Release(target, release, sha256(data), key_id(private.public_key()), golden)
