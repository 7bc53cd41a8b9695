"""What a helper process and its owner talk over: pipes with messages, and descriptors out of the way of others."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

_LENGTH = 8


class TimedOut(Exception):
    """The helper was ended since a request took too long."""


# ---- descriptors -----------------------------------------------------------------------------------------------------


def beyond(lowest: int, descriptor: int) -> int:
    """The same under a number from `lowest` on.  At the least one that no standard stream has: where those are closed,
    theirs are the next free ones, and the helper's streams would take the place of its pipes."""
    if descriptor >= lowest:
        return descriptor
    import fcntl

    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, lowest)
    finally:
        os.close(descriptor)


def both_beyond(lowest: int, ends: tuple[int, int]) -> tuple[int, int]:
    return beyond(lowest, ends[0]), beyond(lowest, ends[1])


def connected() -> tuple[int, int]:
    """Two ends of a connection over which descriptors can be passed: the reader's, then the writer's."""
    import _socket

    reader, writer = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
    return reader.detach(), writer.detach()


def nameless_file(lowest: int) -> Any:
    if hasattr(os, "memfd_create"):
        return os.fdopen(beyond(lowest, os.memfd_create("stderr")), "w+b")
    import tempfile

    return tempfile.TemporaryFile()


# ---- messages --------------------------------------------------------------------------------------------------------


def wait(descriptor: int, timeout: float) -> None:
    """Returns when something can be read; raises TimedOut when `timeout` seconds have passed."""
    import select

    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    if not poll.poll(timeout * 1000):
        raise TimedOut


def send(descriptor: int, message: bytes) -> None:
    """Writes a message; raises BrokenPipeError when nobody reads any more."""
    view = memoryview(len(message).to_bytes(_LENGTH, "little") + message)
    with _no_sigpipe():
        while view:
            view = view[os.write(descriptor, view) :]


def pass_descriptor(connection: int, passed: int) -> None:
    """Writes a message with a descriptor beside it; raises OSError."""
    import _socket

    message = b"descriptor"
    over = _socket.socket(fileno=connection)
    try:
        beside = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, passed.to_bytes(4, sys.byteorder))]
        over.sendmsg([len(message).to_bytes(_LENGTH, "little") + message], beside)
    finally:
        over.detach()


@contextlib.contextmanager
def _no_sigpipe() -> Iterator[None]:
    """Keeps the signal of a pipe without reader from this thread: Python ignores it, a program that embeds Python need
    not, and would end."""
    import signal

    if signal.getsignal(signal.SIGPIPE) is signal.SIG_IGN:
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGPIPE])
    waiting = signal.SIGPIPE in signal.sigpending()
    try:
        yield
    finally:
        if not waiting and signal.SIGPIPE in signal.sigpending():
            signal.sigwait([signal.SIGPIPE])
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def read_message(descriptor: int) -> bytes | None:
    header = _read_exactly(descriptor, _LENGTH)
    return None if header is None else _read_exactly(descriptor, int.from_bytes(header, "little"))


def read_announcement(descriptor: int) -> bytes | None:
    """As `_read_message`; a message beside which a descriptor comes announces that."""
    import _socket

    from tileiras.codegen.lifeline import announced_sentinel

    connection = _socket.socket(fileno=descriptor)
    try:
        header, beside, _, _ = connection.recvmsg(_LENGTH, _socket.CMSG_SPACE(4), _socket.MSG_CMSG_CLOEXEC)
    finally:
        connection.detach()
    if not header:
        return None
    rest = _read_exactly(descriptor, _LENGTH - len(header))
    message = None if rest is None else _read_exactly(descriptor, int.from_bytes(header + rest, "little"))
    return announced_sentinel(int.from_bytes(beside[0][2][:4], sys.byteorder)) if beside else message


def _read_exactly(descriptor: int, size: int) -> bytes | None:
    chunks: list[bytes] = []
    while size:
        chunk = os.read(descriptor, min(size, 1 << 20))
        if not chunk:
            return None
        chunks.append(chunk)
        size -= len(chunk)
    return b"".join(chunks)
