"""What a command and the service agree on: the messages, in the frames of `local_socket`.  What a client sends:

| kind | fields | answer |
|---|---|---|
| RUN | identity, program, words, `sys.path[0]`, descriptors, environment | COMMIT, then EXIT; or RETIRED, REFUSED |
| STATUS | identity | FACTS |
| STOP | identity | FACTS, once no new request is taken |

The service speaks first: GREETING, one byte, from the process that will do the work.  A client that has it sends its
message; one that does not get it in `PATIENCE` seconds goes without the service, and nothing has been started.

Descriptors travel beside the first byte of a RUN (SCM_RIGHTS): the working directory, then those that the command has
inherited.  The connection stays open until the command ends; when the client's end closes, the request is ended.

This module is loaded by every command: what it imports is small.
"""

from __future__ import annotations

import os
import sys

from tileiras import __version__
from tileiras.local_socket import (
    HEADER,
    MAGIC,
    MOST_BYTES,
    ProtocolError,
    address,
    name_of,
    open_directory,
    pack,
    pack_words,
    received,
    runtime_directory,
    supported,
    unpack,
    unpack_header,
    unpack_words,
    user_of,
)

__all__ = [
    "HEADER", "MAGIC", "MOST_BYTES", "ProtocolError", "address", "name_of", "open_directory", "pack",
    "pack_words", "received", "runtime_directory", "supported", "unpack", "unpack_header", "unpack_words", "user_of",
]  # fmt: skip

VERSION = 2
"""Of this protocol; raise it with every change of a message."""

RUN, STATUS, STOP = b"R", b"S", b"Q"
COMMIT, EXIT, RETIRED, REFUSED, FACTS = b"c", b"x", b"n", b"r", b"f"
"""COMMIT: from now on the command must not be started again: it writes to a stream, or has read one.  EXIT: its exit
code, and the processor time in microseconds that the child has taken for it, with what that has waited for.  RETIRED:
the service's code has changed on disk, it ends.  REFUSED: why this request is the command's own, for those who look for
the reason."""

GREETING = b"+"

PREPARE, MET, READY = b"p", b"w", b"y"
"""Between the zygote and its children alone.  PREPARE: pages that a child which waits is to meet ahead of a
request; without any it is to say MET.  MET: pages that the child of one has met.  READY: a child that has answered can
take another request, and has taken so many microseconds of processor time in all.  RETIRED: it is to end instead."""

MOST_DESCRIPTORS = 64
"""Of one message; the system's limit is 253 (unix(7))."""

PATIENCE = 2.0
"""Seconds that a client waits for a process of the service to greet it."""

IDLE = 600.0
"""Seconds without a request after which the service ends."""

PROGRAMS = ("tileiras", "tileiras-embed", "tileiras-opt", "tileiras-translate")
"""Commands that the service answers; `tileiras.cli` has a module of each name."""

_STARTUP_VARIABLES = ("PYTHON", "LC_", "LANG", "LD_", "DYLD_", "MALLOC_", "GLIBC_", "ASAN_")
"""Beginnings of the names of variables that Python or its libraries read when they start: another value is another
service.  An empty one is none, as it is for them: cuTile Python starts commands with an LD_LIBRARY_PATH of its own,
which may be empty."""


def identity() -> bytes:
    """Which services can answer for this process: the same code, run by the same Python in the same way."""
    start = [
        f"{name}={value}" for name, value in sorted(os.environ.items())
        if value and name.startswith(_STARTUP_VARIABLES)
    ]  # fmt: skip
    parts = (
        VERSION, __version__, os.path.dirname(os.path.abspath(__file__)), sys.executable, sys.version, sys.prefix,
        tuple(sys.flags), sys.warnoptions, sorted(sys._xoptions.items()), sys.path[1:], start,
    )  # fmt: skip
    return repr(parts).encode("utf-8", "surrogateescape")
