"""Signed bundles: that a model comes from whoever has a private key (:func:`sign_bundle`, :func:`verify_bundle`).

Checksums find damage. A signature finds forgery, for those who got the public key another way than the bundle. It is
made with Ed25519 over the names and SHA-256 of all other files of the bundle, and stands in ``signature.json``.
Needs the extra ``sign``. Light to import: no torch, no numpy, and ``cryptography`` only when it is used.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pointset.errors import FileFormatError, MissingDataError, MissingExtraError, SignatureError
from pointset.files import check_regular, open_binary
from pointset.training.bundle_files import DESCRIPTION, BundleFiles

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

SIGNATURE = "signature.json"
_FORMAT, _VERSION = "pointset signature", 1
_FIELDS = ("format", "version", "key", "files", "signature")
_FIRST_LINE = "pointset bundle signature, version 1\n"  # so that a signature of anything else is none of a bundle
_SHA256 = re.compile("[0-9a-f]{64}")
_MOST_BYTES = 2**16  # of a key file
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_PRIVATE, _PUBLIC = b"PRIVATE KEY-----", b"PUBLIC KEY-----"


class Signed(NamedTuple):
    """A bundle whose signature is good."""

    path: Path
    files: tuple[str, ...]  # which the signature covers
    key: str  # the fingerprint of the public key


# --- keys


def new_key(path: str | Path) -> str:
    """Make a key pair: the private key at ``path``, for its owner alone, and the public one beside it, ``path.pub``.

    Returns:
        the fingerprint of the public key.

    Raises:
        FileFormatError: one of the files exists; none is ever overwritten.
        MissingExtraError: cryptography is not installed.
    """
    _check_installed()
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private, public = Path(path), public_beside(path)
    for file in (private, public):
        if file.exists() or file.is_symlink():
            raise FileFormatError(
                f"{file} exists already, and a key is never overwritten, as it would be lost. Choose another name, or "
                "sign with the key that is there"
            )
    key = Ed25519PrivateKey.generate()
    pem = serialization.Encoding.PEM
    text = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    _write_new(private, text, 0o600)
    try:
        _write_new(public, key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo), 0o644)
    except BaseException:
        private.unlink()  # nobody has its public key
        raise
    return _fingerprint(key.public_key())


def public_beside(path: str | Path) -> Path:
    """Where the public key of a private key is written: ``lab.key.pub``."""
    return Path(path).with_name(f"{Path(path).name}.pub")


def _write_new(path: Path, content: bytes, mode: int) -> None:
    """Write a file that does not exist, which is never readable by more than ``mode`` says."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _private_key(path: Path) -> Ed25519PrivateKey:
    """The key in a file that others cannot read, as ssh wants it."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    text = _key_text(path, private=True)
    if _PRIVATE not in text:
        what = "a public key" if _PUBLIC in text else "not a key file"
        raise FileFormatError(
            f"{path} is {what}; expected the private key that `pointset bundle keygen KEYFILE` has written to KEYFILE"
        )
    try:
        key = load_pem_private_key(text, None)
    except TypeError:
        raise FileFormatError(f"{path} is protected by a password; expected a private key without one") from None
    except (ValueError, UnsupportedAlgorithm):
        raise FileFormatError(f"{path} is a damaged key file; expected a private key in PEM") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise FileFormatError(f"{path} is a key of another kind; expected Ed25519, as `pointset bundle keygen` makes")
    return key


def _public_key(path: Path) -> Ed25519PublicKey:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    text = _key_text(path, private=False)
    if _PRIVATE in text:
        raise FileFormatError(
            f"{path} is a private key; expected the public one, which stands beside it in {public_beside(path)}. A "
            "private key never leaves the machine of whoever signs"
        )
    try:
        key = load_pem_public_key(text)
    except (ValueError, UnsupportedAlgorithm):
        raise FileFormatError(
            f"{path} is not a key file; expected a public key, which `pointset bundle keygen KEYFILE` writes to "
            "KEYFILE.pub"
        ) from None
    if not isinstance(key, Ed25519PublicKey):
        raise FileFormatError(f"{path} is a key of another kind; expected Ed25519, as `pointset bundle keygen` makes")
    return key


def _key_text(path: Path, *, private: bool) -> bytes:
    kind = "private" if private else "public"
    check_regular(path)
    if not path.is_file():
        raise MissingDataError(f"there is no file {path}; expected a {kind} key. `pointset bundle keygen` makes a pair")
    with open_binary(path) as file:
        if private:
            _check_secret(path, os.fstat(file.fileno()))
        return file.read(_MOST_BYTES)


def _check_secret(path: Path, status: os.stat_result) -> None:
    """As ssh does: of a file of another owner, who may read it is not this user's choice."""
    if os.name == "posix" and status.st_uid == os.getuid() and status.st_mode & _OTHERS:
        raise FileFormatError(
            f"{path} can be read by others (its mode is {stat.S_IMODE(status.st_mode):o}), and a private key must not "
            f"be; expected 600. If nobody has read it: chmod 600 {path}"
        )


def _fingerprint(key: Ed25519PublicKey) -> str:
    digest = hashlib.sha256(key.public_bytes_raw()).digest()
    return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"


# --- signing


def sign_bundle(path: str | Path, key: str | Path) -> Signed:
    """Sign a bundle, its folder or ``.zip`` or the folder of its run, with a private key; an older signature goes.

    What cannot be loaded is not signed.

    Raises:
        MissingDataError: there is no bundle at this path, or no key.
        FileFormatError: it is damaged, or the key is not a private key that others cannot read.
        MissingExtraError: cryptography is not installed.
    """
    from pointset.training.bundle import bundle_of  # which loads torch

    _check_installed()
    private = _private_key(Path(key))
    if not Path(path).exists():  # names of shipped models are not taken: they belong to the package
        raise MissingDataError(f"there is no {path}; expected the folder of a run, or a bundle (a folder or .zip)")
    files = BundleFiles(path)
    digests = _digests(files.hold())
    bundle_of(files)
    fingerprint = _fingerprint(private.public_key())
    stated = {
        "format": _FORMAT,
        "version": _VERSION,
        "key": fingerprint,
        "files": digests,
        "signature": base64.b64encode(private.sign(_statement(digests))).decode(),
    }
    files.write(SIGNATURE, (json.dumps(stated, indent=1) + "\n").encode())
    return Signed(files.path, tuple(digests), fingerprint)


def _digests(files: Mapping[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(files[name]).hexdigest() for name in sorted(files) if name != SIGNATURE}


def _statement(digests: Mapping[str, str]) -> bytes:
    """What is signed: a first line, then each file's SHA-256 and name, in the order of the names."""
    return (_FIRST_LINE + "".join(f"{digests[name]} {name}\n" for name in sorted(digests))).encode()


# --- verifying


def verify_bundle(path: str | Path, public_key: str | Path) -> Signed:
    """Check that a bundle is what the owner of a key has signed; nothing of it is loaded.

    Raises:
        SignatureError: it is not signed, not with this key, or was changed since; the message names the file.
        MissingDataError: there is no bundle at this path, or no key.
        FileFormatError: it is not a bundle, or the key is not a public key.
        MissingExtraError: cryptography is not installed.
    """
    return verify(BundleFiles(path), public_key)


def verify(files: BundleFiles, public_key: str | Path) -> Signed:
    """The same for files that are then loaded: from here on they are held in memory, as they were verified."""
    _check_installed()
    from cryptography.exceptions import InvalidSignature

    key = _public_key(Path(public_key))
    held = files.hold()
    if SIGNATURE not in held:
        raise SignatureError(
            f"{files.path} is not signed: it holds no {SIGNATURE}; expected a signature by the owner of {public_key}. "
            "Whoever made it signs it with `pointset bundle sign`"
        )
    stated = _stated(held[SIGNATURE], files.path)
    if stated.key != _fingerprint(key):
        raise SignatureError(
            f"{files.path} is signed with another key, {stated.key:.60}; expected {_fingerprint(key)} of {public_key}"
        )
    try:
        key.verify(stated.signature, _statement(stated.files))
    except InvalidSignature:
        raise SignatureError(
            f"{files.path}: {SIGNATURE} was changed, or was not made with the key {public_key}. Get the bundle again "
            "from whoever made it"
        ) from None
    found = _digests(held)
    for name in sorted({*found, *stated.files}, key=lambda one: (one != DESCRIPTION, one)):
        if found.get(name) != stated.files.get(name):
            what = "is missing" if name not in found else "was added" if name not in stated.files else "was changed"
            raise SignatureError(
                f"{files.path}: {name} {what} after the bundle was signed. Get it again from whoever made it"
            )
    return Signed(files.path, tuple(found), stated.key)


class _Stated(NamedTuple):
    """The content of ``signature.json``."""

    key: str
    files: dict[str, str]
    signature: bytes


def _stated(text: bytes, path: Path) -> _Stated:
    """Read without trust: what the signature does not cover (other fields) is refused."""
    try:
        content: Any = json.loads(text)
        if not isinstance(content, dict) or (content.get("format"), content.get("version")) != (_FORMAT, _VERSION):
            raise ValueError(f"it is not of the format {_FORMAT!r}, version {_VERSION}")
        if set(content) != set(_FIELDS):
            strange = sorted(set(content) ^ set(_FIELDS))
            raise ValueError(f"expected the fields {', '.join(_FIELDS)} and no others: {strange[0]:.40}")
        digests, key = content["files"], content["key"]
        if not isinstance(key, str) or not isinstance(digests, dict):
            raise ValueError("expected text as key, and an object as files")
        for name, digest in digests.items():
            if not (name.isprintable() and isinstance(digest, str) and _SHA256.fullmatch(digest)):
                raise ValueError(f"expected the SHA-256 of {name[:40]!r}")
        return _Stated(key, digests, base64.b64decode(content["signature"], validate=True))
    except (ValueError, TypeError, RecursionError, binascii.Error) as error:
        raise SignatureError(f"{path}: {SIGNATURE} is damaged, or someone changed it ({error})") from None


def _check_installed() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise MissingExtraError(
            "signatures need cryptography, which is not installed. Install it with: pip install 'pointset[sign]'"
        ) from None
