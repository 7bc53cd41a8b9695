"""A process that runs once per user, behind a socket: its start, its lock, and the framing of messages.

A message is `TILE`, a byte for its kind, four bytes for the length of the rest, and fields: each has four bytes for
its length, and its bytes.  Integers are little-endian.  Nothing is unpickled or evaluated.

Every command loads this module: it imports only `os`, `stat` and `sys`.
"""

from __future__ import annotations

import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable, Sequence

MAGIC = b"TILE"
HEADER = len(MAGIC) + 1 + 4

MOST_BYTES = 4 << 20
"""Limit of one message: on Linux an environment and a command line have up to 2 MB together (execve(2))."""

MOST_DESCRIPTORS = 64
"""Maximum number of descriptors with one message; the system's limit is 253 (unix(7))."""


class ProtocolError(Exception):
    """The received bytes are not a message."""


def runtime_directory() -> str:
    """The folder of this user's sockets: in `XDG_RUNTIME_DIR`, else in the folder for temporary files."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    if base and os.path.isabs(base):
        return os.path.join(base, "tileiras")
    return os.path.join(os.environ.get("TMPDIR") or "/tmp", f"tileiras-{os.geteuid()}")


def open_directory(create: bool = False) -> int:
    """A descriptor of the private directory; raises OSError if it is missing or not private to this user."""
    path = runtime_directory()
    if create:
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            pass
    return open_private_folder(path)


def open_private_folder(path: str) -> int:
    """A descriptor of a directory that only this user can access; raises OSError for any other."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    state = os.fstat(descriptor)
    if state.st_uid != os.geteuid() or stat.S_IMODE(state.st_mode) & 0o077:
        os.close(descriptor)
        raise PermissionError(f"{path} is not a directory of this user alone")
    return descriptor


def address(directory: int, name: str) -> str:
    """Address of a socket in an open directory; short for any directory (unix(7) limits addresses to 108 bytes)."""
    return f"/proc/self/fd/{directory}/{name}"


def connected(name: str, patience: float) -> socket:
    """Connect to this user's process of a name, with `patience` seconds for each step.

    Raises FileNotFoundError if no process listens, and OSError if it cannot be trusted or does not answer.
    """
    import _socket

    directory = open_directory()
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.settimeout(patience)
        connection.connect(address(directory, name))
        if peer(connection)[1] != os.geteuid():
            raise PermissionError(f"{name} is another user's")
        return connection
    except ConnectionRefusedError:
        connection.close()
        raise FileNotFoundError(f"the process of {name} is gone") from None
    except BaseException:
        connection.close()
        raise
    finally:
        os.close(directory)


def start(code: str, options: Sequence[str] = (), stderr: int | None = None, closed: Sequence[int] = ()) -> int:
    """Run Python code in a process of its own session, without this process's streams; return its process number.

    `stderr` becomes its standard error, and `closed` are inherited descriptors to be closed.  Raises OSError.
    """
    actions: list[tuple] = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1)]
    actions.append((os.POSIX_SPAWN_DUP2, 1 if stderr is None else stderr, 2))
    actions += [(os.POSIX_SPAWN_CLOSE, number) for number in closed if number > 2]
    return os.posix_spawn(
        sys.executable, [sys.executable, *options, "-c", code], os.environ, file_actions=actions,
        setsid=True, setsigmask=(), setsigdef=[number for number in range(1, 32) if number not in (9, 19)],
    )  # fmt: skip


def locked(directory: int, name: str) -> int | None:
    """Take the lock of the process `name` in an open directory; it is held until the process and its children end.

    Returns None if another process holds it.  Raises OSError.
    """
    import fcntl

    while True:
        lock = os.open(f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600, dir_fd=directory)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        if _is_lock(directory, name, lock):
            return lock
        os.close(lock)  # the file was removed: the process that held it has ended


def unlock(directory: int, name: str, lock: int) -> None:
    """Remove the file of a lock, unless another process has created a new one."""
    try:
        if _is_lock(directory, name, lock):
            os.unlink(f"{name}.lock", dir_fd=directory)
    except OSError:
        pass


def _is_lock(directory: int, name: str, lock: int) -> bool:
    try:
        return os.stat(f"{name}.lock", dir_fd=directory).st_ino == os.fstat(lock).st_ino
    except FileNotFoundError:
        return False


def name_of(identity: bytes) -> str:
    """The file name of a socket for an identity.

    It is not a cryptographic digest, which would load a library: a service compares the identity itself.
    """
    return f"{int.from_bytes(identity, 'little') % (2**61 - 1):016x}"


def peer(connection: socket) -> tuple[int, ...]:
    """The peer's process, user and group, as the kernel recorded them when it connected (unix(7), SO_PEERCRED)."""
    import _socket

    data = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    return tuple(int.from_bytes(data[at : at + 4], sys.byteorder) for at in (0, 4, 8))


def received(receive: Callable[[int], bytes]) -> tuple[bytes, bytes]:
    """The kind and body of one message of a stream; raises ProtocolError if the stream ends early, and the
    errors of `receive`."""
    kind, size = unpack_header(_exactly(receive, HEADER))
    return kind, _exactly(receive, size)


def _exactly(receive: Callable[[int], bytes], size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = receive(size - len(data))
        if not more:
            raise ProtocolError("the connection ends within a message")
        data += more
    return data


def supported() -> bool:
    """Whether this system has the requirements of the service: credentials of peers and /proc.  Only Linux has both."""
    return sys.platform == "linux" and os.geteuid() == os.getuid() and os.getegid() == os.getgid()


def pack(kind: bytes, *fields: bytes) -> bytes:
    """One message; raises ProtocolError if it is too long."""
    body = b"".join(len(field).to_bytes(4, "little") + field for field in fields)
    if len(body) > MOST_BYTES:
        raise ProtocolError(f"a message of {len(body)} bytes")
    return MAGIC + kind + len(body).to_bytes(4, "little") + body


def unpack_header(header: bytes) -> tuple[bytes, int]:
    """The kind of a message, and the number of bytes that follow its header; raises ProtocolError."""
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
    """Words of a command line or an environment as one field; they cannot contain null characters."""
    return b"".join(word + b"\0" for word in words)


def unpack_words(field: bytes) -> list[bytes]:
    """Inverse of `pack_words`."""
    return field.split(b"\0")[:-1]
