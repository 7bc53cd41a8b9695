"""Signatures of rows on a team's server: they authenticate the writer, independently of the server.

    TILEIRAS_CACHE_SIGNING_KEY=FILE     a writer's private key, which signs all uploads
    TILEIRAS_CACHE_PUBLIC_KEYS=FILE     the keys that a reader accepts, one per line; further files after `:`

A signature covers the name of a row, which is a digest of its key, and the digest and size of its bytes: a server, or
a writer without an accepted key, can neither forge a row nor substitute one for another.  Keys are Ed25519 in OpenSSH's
format (`ssh-ed25519 AAAA... comment`), made by `tileiras-cache keygen` or `ssh-keygen -t ed25519`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from tileiras.support import extras

SIGNING_KEY, PUBLIC_KEYS = "TILEIRAS_CACHE_SIGNING_KEY", "TILEIRAS_CACHE_PUBLIC_KEYS"

_KEY_SIZE, _SIGNATURE_SIZE = 32, 64
"""Bytes (RFC 8032)."""

_PURPOSE = b"tileiras row 1"
"""Domain separation: a signature cannot be reused for other data signed with the same key."""


def from_environment(environment: Mapping[str, str], writes: bool) -> Signing | None:
    """The keys that the environment names; raises ValueError for invalid ones."""
    own = environment.get(SIGNING_KEY) if writes else None
    accepted = environment.get(PUBLIC_KEYS)
    if not own and not accepted:
        return None
    return Signing(_private_key(own) if own else None, _public_keys(accepted) if accepted else None)


class Signing:
    """A writer's key, or None, and the keys that a reader accepts, by their bytes; None accepts every row."""

    def __init__(self, own: Any, accepted: Mapping[bytes, Any] | None) -> None:
        self._own = own
        self._accepted = accepted

    def sign(self, name: str, digest: str, size: int) -> bytes | None:
        """The signature of a row, appended to the public key; None without a private key."""
        if self._own is None:
            return None
        return _raw(self._own.public_key()) + self._own.sign(_signed(name, digest, size))

    def check(self, name: str, digest: str, size: int, signature: bytes | None) -> None:
        """Raise ValueError for a row without a valid signature by an accepted key."""
        if self._accepted is None:
            return
        if signature is None:
            raise ValueError("it is not signed")
        key = self._accepted.get(signature[:_KEY_SIZE]) if len(signature) == _KEY_SIZE + _SIGNATURE_SIZE else None
        if key is None:
            raise ValueError(f"it is signed by none of the keys of {PUBLIC_KEYS}")
        from cryptography.exceptions import InvalidSignature

        try:
            key.verify(signature[_KEY_SIZE:], _signed(name, digest, size))
        except InvalidSignature:
            raise ValueError("its signature is of something else") from None


def make_key(path: str, comment: str) -> str:
    """Write a new private key, readable only by its owner, and its public key (`.pub`); returns the latter's line.

    Raises OSError, FileExistsError for an existing file, and ValueError without the library `cryptography`.
    """
    _library()
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    line = f"{public.decode()} {comment}".rstrip()
    for name, content, mode in ((path, text, 0o600), (path + ".pub", line.encode() + b"\n", 0o644)):
        with os.fdopen(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(content)
    return line


def _signed(name: str, digest: str, size: int) -> bytes:
    return b"\n".join((_PURPOSE, name.encode(), digest.encode(), b"%d" % size))


def _raw(key: Any) -> bytes:
    from cryptography.hazmat.primitives import serialization

    return key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)


def _library() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise ValueError(f"signatures of rows need a library: {extras.install('cryptography')}") from None


def _private_key(path: str) -> Any:
    _library()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    data = _read(SIGNING_KEY, path)
    for load in (serialization.load_ssh_private_key, serialization.load_pem_private_key):
        try:
            key = load(data, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):  # another form, a password, another kind of key
            continue
        if isinstance(key, Ed25519PrivateKey):
            return key
    raise ValueError(f"{SIGNING_KEY}={path}: no private key of Ed25519 without a password is there")


def _public_keys(paths: str) -> dict[bytes, Any]:
    _library()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    public_keys: dict[bytes, Any] = {}
    for path in filter(None, paths.split(os.pathsep)):
        for number, line in enumerate(_read(PUBLIC_KEYS, path).splitlines(), 1):
            if not line.strip() or line.lstrip().startswith(b"#"):
                continue
            try:
                key = serialization.load_ssh_public_key(line.strip())
            except (ValueError, UnsupportedAlgorithm):
                key = None
            if not isinstance(key, Ed25519PublicKey):
                raise ValueError(f"{PUBLIC_KEYS}: {path}:{number}: accepted is `ssh-ed25519 KEY`")
            public_keys[_raw(key)] = key
    if not public_keys:
        raise ValueError(f"{PUBLIC_KEYS}={paths}: no key is there")
    return public_keys


def _read(variable: str, path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(1 << 20)
    except OSError as error:
        raise ValueError(f"{variable}={path}: {error.strerror}") from None
