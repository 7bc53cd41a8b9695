"""The protocol between a command and the service: messages in the frames of `processes.sockets`.  Messages of a client:

| kind | fields | answer |
|---|---|---|
| RUN | identity, program, words, `sys.path[0]`, descriptors, environment | COMMIT, then EXIT; or RETIRED, REFUSED |
| STATUS | identity | FACTS |
| STOP | identity | FACTS, once no new request is taken |

The service sends first: GREETING, one byte, from the process that will do the work.  The client then sends its message;
if GREETING does not arrive in `PATIENCE` seconds, the client does the work itself, and no work has been started.

Descriptors are sent with the first byte of a RUN (SCM_RIGHTS): the working directory, then those that the command has
inherited.  The connection stays open until the command ends; if the client closes its end, the request is killed.

Every command loads this module, so its imports must be small.
"""

from __future__ import annotations

import os
import sys

from tileiras import __version__

VERSION = 2
"""Version of this protocol; increment it with every change of a message."""

RUN, STATUS, STOP = b"R", b"S", b"Q"
COMMIT, EXIT, RETIRED, REFUSED, FACTS = b"c", b"x", b"n", b"r", b"f"
"""COMMIT: from now on the command must not be restarted: it writes to a stream, or has read one.  EXIT: the exit code,
and the processor time in microseconds of the child for it, with that of the processes it waited for.  RETIRED: the
service's code has changed on disk, and the service exits.  REFUSED: the reason for which the command must do the work
itself, for debugging."""

GREETING = b"+"

READY = b"y"
"""Between the zygote and its children only.  READY: a child that has answered
can take another request; carries its total processor time in microseconds.  RETIRED: the child must exit instead."""

PATIENCE = 2.0
"""Seconds for which a client waits for GREETING."""

IDLE = 600.0
"""Seconds without a request after which the service exits."""

PROGRAMS = ("tileiras", "tileiras-embed", "tileiras-opt", "tileiras-translate")
"""Commands that the service answers; `tileiras.cli` has a module of each name."""

_STARTUP_VARIABLES = ("PYTHON", "LC_", "LANG", "LD_", "DYLD_", "MALLOC_", "GLIBC_", "ASAN_")
"""Prefixes of variables that Python or its libraries read at startup: another value requires another service.  An empty
value counts as unset, as it does for them: cuTile Python starts commands with its own LD_LIBRARY_PATH, which may be
empty."""


def identity() -> bytes:
    """Identify the services that can answer for this process: the same code, run by the same Python in the same way."""
    start = [
        f"{name}={value}" for name, value in sorted(os.environ.items())
        if value and name.startswith(_STARTUP_VARIABLES)
    ]  # fmt: skip
    parts = (
        VERSION, __version__, os.path.dirname(os.path.abspath(__file__)), sys.executable, sys.version, sys.prefix,
        tuple(sys.flags), sys.warnoptions, sorted(sys._xoptions.items()), sys.path[1:], start,
    )  # fmt: skip
    return repr(parts).encode("utf-8", "surrogateescape")
