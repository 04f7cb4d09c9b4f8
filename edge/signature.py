"""Signatures of model files: Ed25519 over the whole file, kept in the file itself.

A model file ends with a zip (see `edge.contract`), and a zip ends with a comment. The comment of a signed file
names the format and the key and closes with the signature. What is signed is every byte in front of it:
flatbuffer, contract with its release number, golden outputs, zip directory, and the comment's own beginning.
So nothing of an untrusted file has to be parsed before it is known to be genuine, one file is all that must be
carried to the orchard, and there is no part of it that a signature does not cover.

Ed25519 is RFC 8032, by the package `cryptography`; keys are PEM files as `openssl genpkey -algorithm ed25519`
writes them.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

from edge.errors import InputError
from edge.files import read_regular

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

PURPOSE = b"mango-leaf-kit model file, signature format 1\0"
"""Put in front of the digest, so that a signature made for something else can never pass for a model's."""

_ZIP_END = b"PK\x05\x06"
_ZIP_END_BYTES = 22
_SIGNATURE_TEXT = 88  # 64 bytes in base64
_COMMENT = re.compile(rb"mango-signature-1 ed25519 ([0-9a-f]{16}) ([A-Za-z0-9+/]{86}==)")
_COMMENT_BYTES = len(b"mango-signature-1 ed25519 ") + 16 + 1 + _SIGNATURE_TEXT
_MAXIMUM_KEY_BYTES = 2**14
_SIGN_IT = "sign it with: mango-convert sign"

_OTHER_KIND = "not an Ed25519 key; make a pair with: mango-convert keygen"


def key_id(key: Ed25519PublicKey) -> str:
    """A short name of a public key: the first 16 hexadecimal digits of its SHA-256."""
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()[:16]


def read_public_key(path: Path | str) -> Ed25519PublicKey:
    """Read a public key from a PEM file.

    Raises:
        InputError: no such file, not a public key, or of another kind than Ed25519.
    """
    _need_cryptography()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    data = _key_file(path)
    if b"PRIVATE KEY" in data:
        raise InputError(
            f"{path}: this is a private key; it stays with the signer, a device gets the public one (.pub.pem)"
        )
    try:
        key = load_pem_public_key(data)
    # cryptography raises ValueError, UnsupportedAlgorithm or TypeError, by kind of damage.
    except Exception:
        raise InputError(
            f"{path}: not a public key in PEM form; make one with: mango-convert keygen"
        ) from None
    if not isinstance(key, Ed25519PublicKey):
        raise InputError(f"{path}: {_OTHER_KIND}")
    return key


def read_private_key(path: Path | str) -> Ed25519PrivateKey:
    """Read a private key from an unencrypted PEM file.

    Raises:
        InputError: no such file, not a private key, encrypted, or of another kind than Ed25519.
    """
    _need_cryptography()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    data = _key_file(path)
    if b"PUBLIC KEY" in data:
        raise InputError(f"{path}: this is the public key; sign with the private one that was made with it")
    try:
        key = load_pem_private_key(data, password=None)
    except TypeError:
        raise InputError(
            f"{path}: the key is encrypted; decrypt it for signing with: openssl pkey -in {path} -out KEY"
        ) from None
    except Exception:
        raise InputError(
            f"{path}: not a private key in PEM form; make one with: mango-convert keygen"
        ) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(f"{path}: {_OTHER_KIND}")
    return key


def signed(data: bytes, key: Ed25519PrivateKey) -> bytes:
    """A model file's bytes with a signature; one that was there before is replaced.

    Raises:
        InputError: the bytes do not end with a zip, or its comment holds something else.
    """
    end = len(data) - _ZIP_END_BYTES
    if data[end : end + 4] != _ZIP_END:
        end -= _COMMENT_BYTES
        if data[max(0, end) : end + 4] != _ZIP_END or not _COMMENT.fullmatch(data[-_COMMENT_BYTES:]):
            raise InputError(
                "the file does not end like a model file (truncated?); make it again with: mango-convert tflite"
            )
    head = (
        data[: end + _ZIP_END_BYTES - 2]
        + _COMMENT_BYTES.to_bytes(2, "little")
        + f"mango-signature-1 ed25519 {key_id(key.public_key())} ".encode()
    )
    return head + base64.b64encode(key.sign(_message(head)))


def verify(data: bytes, key: Ed25519PublicKey, where: str) -> None:
    """Check the signature of a model file's bytes.

    Args:
        data: the whole file.
        key: the public key that it must be signed with.
        where: what to call the file in a message.

    Raises:
        InputError: it carries no signature, one by another key, or one that does not fit its content.
    """
    from cryptography.exceptions import InvalidSignature

    found = _COMMENT.fullmatch(data[-_COMMENT_BYTES:])
    end = len(data) - _COMMENT_BYTES - _ZIP_END_BYTES
    if found is None or data[max(0, end) : end + 4] != _ZIP_END:
        raise InputError(f"{where}: carries no signature (or was cut off); {_SIGN_IT}")
    named = found.group(1).decode()
    if named != key_id(key):
        raise InputError(
            f"{where}: signed with key {named}, not with {key_id(key)} that was given; get the file or the key"
            " from who made the other"
        )
    try:
        key.verify(base64.b64decode(found.group(2), validate=True), _message(data[:-_SIGNATURE_TEXT]))
    except (InvalidSignature, binascii.Error):
        raise InputError(
            f"{where}: its content does not match its signature (tampered with or damaged); copy the original again"
        ) from None


def is_signed(data: bytes) -> bool:
    """Whether a model file's bytes end with a signature, genuine or not."""
    return _COMMENT.fullmatch(data[-_COMMENT_BYTES:]) is not None


def _message(head: bytes) -> bytes:
    return PURPOSE + hashlib.sha256(head).digest()


def _key_file(path: Path | str) -> bytes:
    try:
        return read_regular(Path(path), "a key file", _MAXIMUM_KEY_BYTES)
    except FileNotFoundError:
        raise InputError(f"{path}: no such key file; make a pair with: mango-convert keygen") from None
    except OSError as error:
        raise InputError(f"{path}: the key cannot be read ({error.strerror or error})") from None


def _need_cryptography() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise InputError(
            "signatures need the package cryptography; install it with: pip install cryptography"
        ) from None
