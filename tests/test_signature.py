"""A model file is accepted with the right signature only, and every byte of it counts."""

from __future__ import annotations

import stat
import subprocess
import zipfile
from pathlib import Path

import pytest
from conftest import Command

pytest.importorskip("cryptography", reason="signatures need the package cryptography")

from convert.signing import make_keys, sign_model
from edge.classifier import DEFAULT_MODEL, Classifier
from edge.contract import read_model
from edge.errors import InputError
from edge.signature import is_signed, key_id, read_private_key, read_public_key, signed, verify


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("keys")
    make_keys(folder / "release.pem", folder / "release.pub.pem")
    return folder / "release.pem", folder / "release.pub.pem"


@pytest.fixture(scope="module")
def release(keys: tuple[Path, Path]) -> bytes:
    made = sign_model(DEFAULT_MODEL, keys[0], 3, keys[0].with_name("three.tflite"))
    return made.path.read_bytes()


def test_a_signed_file_is_genuine_and_still_a_model(
    keys: tuple[Path, Path], release: bytes, tmp_path: Path
) -> None:
    verify(release, read_public_key(keys[1]), "file")
    path = tmp_path / "release.tflite"
    path.write_bytes(release)
    contract = Classifier.open(path).contract
    assert contract.extra["release"] == 3
    assert contract.labels == read_model(DEFAULT_MODEL).contract.labels
    assert zipfile.is_zipfile(path)


def test_each_single_changed_byte_is_noticed(keys: tuple[Path, Path], release: bytes) -> None:
    key = read_public_key(keys[1])
    # Everywhere: flatbuffer, contract, golden outputs, zip directory, comment, and each byte of the signature.
    positions = [*range(0, len(release), 997), *range(len(release) - 160, len(release))]
    for position in positions:
        damaged = bytearray(release)
        damaged[position] ^= 1
        with pytest.raises(InputError):
            verify(bytes(damaged), key, "file")


def test_truncated_or_extended_files_are_refused(keys: tuple[Path, Path], release: bytes) -> None:
    key = read_public_key(keys[1])
    for data in (
        release[:-1],
        release[: len(release) // 2],
        release[:10],
        b"",
        release + b"\0",
        release + release,
    ):
        with pytest.raises(InputError):
            verify(data, key, "file")


def test_the_content_of_one_release_does_not_pass_with_the_signature_of_another(
    keys: tuple[Path, Path], release: bytes, tmp_path: Path
) -> None:
    other = sign_model(DEFAULT_MODEL, keys[0], 4, tmp_path / "four.tflite").path.read_bytes()
    with pytest.raises(InputError, match="does not match its signature"):
        verify(release[:-88] + other[-88:], read_public_key(keys[1]), "file")


def test_another_key_is_named(keys: tuple[Path, Path], release: bytes, tmp_path: Path) -> None:
    make_keys(tmp_path / "other.pem", tmp_path / "other.pub.pem")
    mine, other = (key_id(read_public_key(path)) for path in (keys[1], tmp_path / "other.pub.pem"))
    with pytest.raises(InputError, match=f"signed with key {mine}, not with {other}"):
        verify(release, read_public_key(tmp_path / "other.pub.pem"), "file")


def test_a_forger_who_writes_the_right_key_s_name_is_still_refused(
    keys: tuple[Path, Path], release: bytes, tmp_path: Path
) -> None:
    make_keys(tmp_path / "forger.pem", tmp_path / "forger.pub.pem")
    forged = signed(release, read_private_key(tmp_path / "forger.pem"))
    names = (key_id(read_public_key(path)).encode() for path in (tmp_path / "forger.pub.pem", keys[1]))
    with pytest.raises(InputError, match="does not match its signature"):
        verify(forged.replace(*names), read_public_key(keys[1]), "file")


def test_an_unsigned_file_is_refused(keys: tuple[Path, Path]) -> None:
    data = DEFAULT_MODEL.read_bytes()
    assert not is_signed(data)
    with pytest.raises(InputError, match="carries no signature"):
        verify(data, read_public_key(keys[1]), "file")


def test_signing_again_replaces_the_signature(keys: tuple[Path, Path], release: bytes) -> None:
    assert signed(release, read_private_key(keys[0])) == release  # Ed25519 draws nothing
    with pytest.raises(InputError, match="does not end like a model file"):
        signed(release[:-5], read_private_key(keys[0]))


def test_the_private_key_is_for_its_owner_alone_and_never_overwritten(tmp_path: Path) -> None:
    private, public = tmp_path / "k.pem", tmp_path / "k.pub.pem"
    make_keys(private, public)
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    before = private.read_bytes()
    with pytest.raises(InputError, match="exists already"):
        make_keys(private, public)
    public.unlink()
    with pytest.raises(InputError, match="exists already"):
        make_keys(private, public)
    assert private.read_bytes() == before


def test_keys_of_the_wrong_kind_get_a_sentence_each(keys: tuple[Path, Path], tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization as s
    from cryptography.hazmat.primitives.asymmetric import ec

    elliptic = ec.generate_private_key(ec.SECP256R1())
    (tmp_path / "ec.pem").write_bytes(
        elliptic.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption())
    )
    (tmp_path / "ec.pub.pem").write_bytes(
        elliptic.public_key().public_bytes(s.Encoding.PEM, s.PublicFormat.SubjectPublicKeyInfo)
    )
    locked = read_private_key(keys[0]).private_bytes(
        s.Encoding.PEM, s.PrivateFormat.PKCS8, s.BestAvailableEncryption(b"word")
    )
    (tmp_path / "locked.pem").write_bytes(locked)
    (tmp_path / "text.pem").write_text("not a key")
    (tmp_path / "huge.pem").write_bytes(b"-" * 20000)
    for read, name, words in (
        (read_public_key, "ec.pub.pem", "not an Ed25519 key"),
        (read_private_key, "ec.pem", "not an Ed25519 key"),
        (read_private_key, "locked.pem", "encrypted"),
        (read_public_key, "text.pem", "not a public key"),
        (read_private_key, "text.pem", "not a private key"),
        (read_public_key, "huge.pem", "more than the 16,384"),
        (read_public_key, "absent.pem", "no such key file"),
        (read_public_key, ".", "a folder, not a key file"),
        (read_public_key, keys[0], "this is a private key"),
        (read_private_key, keys[1], "this is the public key"),
    ):
        with pytest.raises(InputError, match=words) as caught:
            read(tmp_path / name)
        assert "\n" not in str(caught.value)


def test_release_numbers_go_up(keys: tuple[Path, Path], release: bytes, tmp_path: Path) -> None:
    path = tmp_path / "three.tflite"
    path.write_bytes(release)
    with pytest.raises(InputError, match="is release 3 already"):
        sign_model(path, keys[0], 2)
    for number in (0, -1):
        with pytest.raises(InputError, match="whole number"):
            sign_model(path, keys[0], number)
    assert path.read_bytes() == release


def test_openssl_agrees_about_the_keys(keys: tuple[Path, Path]) -> None:
    try:
        done = subprocess.run(
            ["openssl", "pkey", "-in", keys[0], "-pubout"], capture_output=True, check=False
        )
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    assert done.stdout == keys[1].read_bytes()


def test_the_commands_make_keys_and_sign(command: Command, tmp_path: Path) -> None:
    assert command("mango-convert", "keygen", tmp_path / "orchard").returncode == 0
    done = command(
        "mango-convert", "sign", DEFAULT_MODEL, "--key", tmp_path / "orchard.pem", "--release", 7,
        "--out", tmp_path / "seven.tflite",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "release 7" in done.stdout
    verify((tmp_path / "seven.tflite").read_bytes(), read_public_key(tmp_path / "orchard.pub.pem"), "file")
    done = command(
        "mango-convert", "sign", DEFAULT_MODEL, "--key", tmp_path / "orchard.pem", "--release", 7,
        "--out", "/dev/stdout",
    )  # fmt: skip
    assert (done.returncode, done.stderr.count("\n"), done.stdout) == (2, 1, "")
    assert "cannot hold a model" in done.stderr
    done = command("mango-convert", "sign", tmp_path, "--key", tmp_path / "orchard.pem", "--release", 8)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "a folder, not a model file" in done.stderr
