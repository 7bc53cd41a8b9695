"""What a command and the service agree on: where the socket is, who may use it, and the messages.

A message is `TILE`, one byte that says its kind, the length of what follows as four bytes, and fields: each four bytes
of length and its bytes, integers little-endian.  Nothing is unpickled or evaluated.  What a client sends:

| kind | fields | answer |
|---|---|---|
| RUN | identity, program, words, `sys.path[0]`, descriptors, environment | COMMIT, then EXIT; or RETIRED, REFUSED |
| STATUS | identity | FACTS |
| STOP | identity | FACTS, once no new request is taken |

The service speaks first: GREETING, one byte, from the process that will do the work.  A client that has it sends its
message; one that does not get it in `PATIENCE` seconds goes without the service, and nothing has been started.

Descriptors travel beside the first byte of a RUN (SCM_RIGHTS): the working directory, then those that the command has
inherited.  The connection stays open until the command ends; when the client's end closes, the request is ended.

This module is loaded by every command: it imports nothing but `os` and `sys`.
"""

from __future__ import annotations

import os
import stat
import sys

from tileiras import __version__

VERSION = 1
"""Of this protocol; raise it with every change of a message."""

RUN, STATUS, STOP = b"R", b"S", b"Q"
COMMIT, EXIT, RETIRED, REFUSED, FACTS = b"c", b"x", b"n", b"r", b"f"
"""COMMIT: from now on the command must not be started again: it writes to a stream, or has read one.  EXIT: its exit
code, and processor time in microseconds.  RETIRED: the service's code has changed on disk, it ends.  REFUSED: why this
request is the command's own, for those who look for the reason."""

GREETING = b"+"
MAGIC = b"TILE"
HEADER = len(MAGIC) + 1 + 4

MOST_BYTES = 4 << 20
"""Of one message: an environment and a command line may have 2 MB together on Linux (execve(2))."""

MOST_DESCRIPTORS = 64
"""Of one message; the system's limit is 253 (unix(7))."""

PATIENCE = 2.0
"""Seconds that a client waits for a process of the service to greet it."""

IDLE = 600.0
"""Seconds without a request after which the service ends."""

PROGRAMS = ("tileiras", "tileiras-opt", "tileiras-translate")
"""Commands that the service answers; `tileiras.cli` has a module of each name."""

_STARTUP_VARIABLES = ("PYTHON", "LC_", "LANG", "LD_", "DYLD_", "MALLOC_", "GLIBC_", "ASAN_")
"""Beginnings of the names of variables that Python or its libraries read when they start: another value is another
service."""


class ProtocolError(Exception):
    """What arrived is no message of this protocol."""


def identity() -> bytes:
    """Which services can answer for this process: the same code, run by the same Python in the same way."""
    start = [
        f"{name}={value}" for name, value in sorted(os.environ.items())
        if name.startswith(_STARTUP_VARIABLES)
    ]  # fmt: skip
    parts = (
        VERSION, __version__, os.path.dirname(os.path.abspath(__file__)), sys.executable, sys.version, sys.prefix,
        tuple(sys.flags), sys.warnoptions, sorted(sys._xoptions.items()), sys.path[1:], start,
    )  # fmt: skip
    return repr(parts).encode("utf-8", "surrogateescape")


def name_of(identity: bytes) -> str:
    """The file name of the socket for an identity.  Not a cryptographic digest, which takes a library to load: the
    service compares the identity itself."""
    return f"{int.from_bytes(identity, 'little') % (2**61 - 1):016x}"


def runtime_directory() -> str:
    """Where the sockets of this user are: in `XDG_RUNTIME_DIR`, else in the folder for temporary files."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    if base and os.path.isabs(base):
        return os.path.join(base, "tileiras")
    return os.path.join(os.environ.get("TMPDIR") or "/tmp", f"tileiras-{os.geteuid()}")


def open_directory(create: bool = False) -> int:
    """A descriptor of the private directory; raises OSError where there is none that only this user can use."""
    path = runtime_directory()
    if create:
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            pass
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    state = os.fstat(descriptor)
    if state.st_uid != os.geteuid() or stat.S_IMODE(state.st_mode) & 0o077:
        os.close(descriptor)
        raise PermissionError(f"{path} is not a directory of this user alone")
    return descriptor


def address(directory: int, name: str) -> str:
    """A socket in an open directory, however long that directory's path is (unix(7) has 108 bytes for it)."""
    return f"/proc/self/fd/{directory}/{name}"


def supported() -> bool:
    """Whether this system has what the service needs: credentials of peers and /proc.  Only Linux has both."""
    return sys.platform == "linux" and os.geteuid() == os.getuid() and os.getegid() == os.getgid()


def pack(kind: bytes, *fields: bytes) -> bytes:
    """One message; raises ProtocolError where it is too long."""
    body = b"".join(len(field).to_bytes(4, "little") + field for field in fields)
    if len(body) > MOST_BYTES:
        raise ProtocolError(f"a message of {len(body)} bytes")
    return MAGIC + kind + len(body).to_bytes(4, "little") + body


def unpack_header(header: bytes) -> tuple[bytes, int]:
    """The kind of a message, and the bytes that follow its header; raises ProtocolError."""
    size = int.from_bytes(header[5:HEADER], "little")
    if len(header) != HEADER or not header.startswith(MAGIC) or size > MOST_BYTES:
        raise ProtocolError(f"no message starts with {header[:HEADER]!r}")
    return header[4:5], size


def unpack(body: bytes) -> list[bytes]:
    """The fields of a message; raises ProtocolError."""
    fields = []
    position = 0
    while position < len(body):
        end = position + 4 + int.from_bytes(body[position : position + 4], "little")
        if position + 4 > len(body) or end > len(body):
            raise ProtocolError("a field ends behind its message")
        fields.append(body[position + 4 : end])
        position = end
    return fields


def pack_words(words: list[bytes]) -> bytes:
    """Words of a command line or an environment as one field: none of them can have a null character."""
    return b"".join(word + b"\0" for word in words)


def unpack_words(field: bytes) -> list[bytes]:
    """Inverse of `pack_words`."""
    return field.split(b"\0")[:-1]
