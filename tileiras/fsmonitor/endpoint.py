"""What a build and the monitor's process agree on.

A request is one message with one field of JSON, and so is the answer:

| kind | field | answer |
|---|---|---|
| ASK | `notes`, `identity` of it, `cookie`, `roots`, `since` | ANSWER |
| STATUS, STOP | an empty object | ANSWER |

`roots` are lists of path, device, inode and suffixes, `since` has a number for each epoch.  An ANSWER to ASK has the
`state` (`watching`, `starting`, `lost`, `retired`) and, when it is watching, the moment as `epoch` and `number`, and
`changed`: a number for each path, or null for all.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any

from tileiras import __version__, local_socket

VERSION = 1
"""Of this protocol; raise it with every change of a message."""

ASK, STATUS, STOP, ANSWER = b"A", b"S", b"Q", b"F"

WATCHING, STARTING, LOST, RETIRED = "watching", "starting", "lost", "retired"

COOKIE = "cookie-"
"""Beginning of the names of files that show the queue of events to be in order."""

IDLE = 600.0
"""Seconds without a request after which the process ends."""


def name() -> str:
    """The file name of the socket: of one installation, whatever Python runs it."""
    words = f"{VERSION} {__version__} {os.path.dirname(os.path.abspath(__file__))}".encode("utf-8", "surrogateescape")
    return f"fsmonitor-{local_socket.name_of(words)}"


def packed(kind: bytes, value: Mapping[str, Any]) -> bytes:
    """A message; raises ProtocolError where it is too long."""
    return local_socket.pack(kind, json.dumps(value).encode())


def received(receive: Callable[[int], bytes]) -> tuple[bytes, dict[str, Any]]:
    """The kind and object of one message; raises ProtocolError, and what `receive` does."""
    kind, body = local_socket.received(receive)
    try:
        (field,) = local_socket.unpack(body)
        value = json.loads(field)
    except ValueError as reason:
        raise local_socket.ProtocolError(str(reason)) from None
    if not isinstance(value, dict):
        raise local_socket.ProtocolError("no object")
    return kind, value
