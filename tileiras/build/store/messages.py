"""The subset of the Remote Execution API's ActionResult that a store needs, in Protocol Buffers' wire format.

    message ActionResult { repeated OutputFile output_files = 2; ... }
    message OutputFile { string path = 1; Digest digest = 2; bytes contents = 5; ... }
    message Digest { string hash = 1; int64 size_bytes = 2; }

of `build/bazel/remote/execution/v2/remote_execution.proto`, in which contents may be inlined in files.  The first file
is the row; a file named `signature` may follow it.
"""

from __future__ import annotations

from typing import Any

from tileiras.support.named_tuple import NamedTuple

OUTPUT_NAME = "record"
"""The path of the output file of a row's action."""

SIGNATURE_NAME = "signature"

MOST_FILES = 16
"""Maximum output files of a message that are read; tileiras writes at most two."""

_LONGEST_VARINT = 10
"""Bytes of a 64-bit varint, seven bits in each."""


class Damaged(Exception):
    """The content that a server returned does not match its name."""


class OutputFile(NamedTuple):
    """The first output file of an ActionResult."""

    digest: str
    """Its sha256, hexadecimal."""
    size: int
    contents: bytes | None
    """Its bytes, if inlined in the message; not checked against the digest."""
    signature: bytes | None = None
    """The bytes of the file `signature`; not checked."""


def action_result(digest: str, size: int, contents: bytes | None = None, signature: bytes | None = None) -> bytes:
    """An ActionResult with an output file of this sha256 (hexadecimal) and size, optionally with inlined contents."""
    message = _file(OUTPUT_NAME, digest, size, contents)
    if signature is not None:
        import hashlib

        message += _file(SIGNATURE_NAME, hashlib.sha256(signature).hexdigest(), len(signature), signature)
    return message


def _file(name: str, digest: str, size: int, contents: bytes | None) -> bytes:
    file = _field(1, name.encode()) + _field(2, _field(1, digest.encode()) + b"\x10" + _varint(size))
    if contents is not None:
        file += _field(5, contents)
    return _field(2, file)


def output_file(message: bytes) -> OutputFile:
    """An ActionResult's first output file; raises Damaged."""
    try:
        files = [_bytes(value) for value in _fields(message).get(2, ())[:MOST_FILES]]
        file = _fields(files[0])
        digest = _fields(_bytes(file[2][0]))
        name = _bytes(digest[1][0]).decode("ascii")
        size = digest.get(2, [0])[0]
        contents = _bytes(file[5][0]) if 5 in file else None
        signature = None
        for other in map(_fields, files[1:]):
            if 5 in other and _bytes(other[1][0]) == SIGNATURE_NAME.encode():
                signature = _bytes(other[5][0])
    except (KeyError, IndexError, UnicodeDecodeError) as error:
        raise Damaged(f"no ActionResult with an output file: {error}") from None
    if len(name) != 64 or set(name) - set("0123456789abcdef") or not isinstance(size, int):
        raise Damaged("an output file without a sha256")
    return OutputFile(name, size, contents, signature)


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise KeyError("a number where bytes are due")
    return value


def _field(number: int, value: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)


def _fields(message: bytes) -> dict[int, list[bytes | int]]:
    """The values of every field: bytes, or an int for a varint; raises IndexError for a truncated message, and
    KeyError for an unknown wire type."""
    fields: dict[int, list[bytes | int]] = {}
    at = 0

    def varint() -> int:
        nonlocal at
        value = 0
        for shift in range(0, 7 * _LONGEST_VARINT, 7):
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise IndexError("a number of more than 64 bits")

    while at < len(message):
        tag = varint()
        kind = tag & 7
        value: bytes | int
        if kind == 0:
            value = varint()
        else:
            size = {1: 8, 5: 4}[kind] if kind != 2 else varint()
            if at + size > len(message):
                raise IndexError("cut off")
            value = message[at : at + size]
            at += size
        fields.setdefault(tag >> 3, []).append(value)
    return fields
