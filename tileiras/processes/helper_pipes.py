"""Pipes with messages between a helper process and its owner, on descriptors above the standard streams."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

_LENGTH = 8


class TimedOut(Exception):
    """A request took too long, and the helper was killed."""


# ---- descriptors -----------------------------------------------------------------------------------------------------


def beyond_streams(ends: tuple[int, int]) -> tuple[int, int]:
    """Move the ends of a pipe to descriptors above 2: if standard streams are closed, a pipe gets their numbers, and
    the helper's streams would replace it."""
    return _beyond_streams(ends[0]), _beyond_streams(ends[1])


def _beyond_streams(descriptor: int) -> int:
    if descriptor > 2:
        return descriptor
    import fcntl

    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(descriptor)


def nameless_file() -> Any:
    if hasattr(os, "memfd_create"):
        return os.fdopen(_beyond_streams(os.memfd_create("stderr")), "w+b")
    import tempfile

    return tempfile.TemporaryFile()


# ---- messages --------------------------------------------------------------------------------------------------------


def wait(descriptor: int, timeout: float) -> None:
    """Return when data can be read; raise TimedOut after `timeout` seconds."""
    import select

    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    if not poll.poll(timeout * 1000):
        raise TimedOut


def send(descriptor: int, message: bytes) -> None:
    """Write a message.  Raises BrokenPipeError if the reader has closed it."""
    view = memoryview(len(message).to_bytes(_LENGTH, "little") + message)
    with _no_sigpipe():
        while view:
            view = view[os.write(descriptor, view) :]


@contextlib.contextmanager
def _no_sigpipe() -> Iterator[None]:
    """Block SIGPIPE in this thread: Python ignores it, but a program that embeds Python may not."""
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


def _read_exactly(descriptor: int, size: int) -> bytes | None:
    chunks: list[bytes] = []
    while size:
        chunk = os.read(descriptor, min(size, 1 << 20))
        if not chunk:
            return None
        chunks.append(chunk)
        size -= len(chunk)
    return b"".join(chunks)
