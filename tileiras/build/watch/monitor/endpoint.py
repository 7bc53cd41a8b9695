"""The protocol between a build and the monitor process.

A request and its answer are one message each, with one field of JSON:

| kind | field | answer |
|---|---|---|
| ASK | `notes`, `identity` of it, `cookie`, `roots`, `since` | ANSWER |
| STATUS, STOP | an empty object | ANSWER |

`roots` are lists of path, device, inode and suffixes; `since` maps epochs to numbers.  An ANSWER to ASK has the `state`
(`watching`, `starting`, `lost`, `retired`) and, if `watching`, the token (`epoch` and `number`) and `changed`: a number
for each path, or null for all files.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any

from tileiras import __version__
from tileiras.processes import sockets

VERSION = 1
"""Version of this protocol; increment it with every change of a message."""

ASK, STATUS, STOP, ANSWER = b"A", b"S", b"Q", b"F"

WATCHING, STARTING, LOST, RETIRED = "watching", "starting", "lost", "retired"

COOKIE = "cookie-"
"""Prefix of the names of cookie files: their events prove that all earlier events have been read."""

IDLE = 600.0
"""Seconds without a request after which the process exits."""


def name() -> str:
    """The file name of the socket: one per installation, independent of the Python interpreter."""
    words = f"{VERSION} {__version__} {os.path.dirname(os.path.abspath(__file__))}".encode("utf-8", "surrogateescape")
    return f"fsmonitor-{sockets.name_of(words)}"


def packed(kind: bytes, value: Mapping[str, Any]) -> bytes:
    """Encode a message; raises ProtocolError if it is too long."""
    return sockets.pack(kind, json.dumps(value).encode())


def received(receive: Callable[[int], bytes]) -> tuple[bytes, dict[str, Any]]:
    """Receive the kind and the object of one message; raises ProtocolError and the exceptions of `receive`."""
    kind, body = sockets.received(receive)
    try:
        (field,) = sockets.unpack(body)
        value = json.loads(field)
    except ValueError as reason:
        raise sockets.ProtocolError(str(reason)) from None
    if not isinstance(value, dict):
        raise sockets.ProtocolError("no object")
    return kind, value
