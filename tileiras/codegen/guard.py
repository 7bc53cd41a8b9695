"""One process that does for many what a helper's lifeline does for its owner (`lifeline`): when one of them is gone,
however that came about, it ends the programs that this one has started and removes its folders.

    whoever forks them ── control ── the guard      a process number, with the guard's end of its connection beside
    each of them ──── connection ─── the guard      when it has to end; the end of this is its end
    each of them ─── file in memory ─── the guard   what it has started and made

Children of the compile service have one: forking a helper for each would take longer than what most of them do.  The
files outlive the guard: whoever forks starts another one, which has all that the one before had.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import select
import signal
import socket
import struct
import threading
from typing import NoReturn

from tileiras.codegen import lifeline
from tileiras.codegen.lifeline import Owned

_MOST_BYTES = 64
"""Of one message."""

_NUMBERS = struct.Struct("2i")
"""Of the most descriptors beside a message."""

_LENGTH = struct.Struct("<Q")
"""What a file of announcements begins with: the length of what follows, a marshalled list."""

_FOLLOW, _LET_BE = b"+", b"-"
"""What a guarded process says: end this one when the descriptor beside can be read, and do not."""


def announcements() -> int:
    """The descriptor of a file for what a process has started and made; raises OSError."""
    return os.memfd_create("announcements")


def connected() -> tuple[socket.socket, socket.socket]:
    """Two ends of a connection that keeps messages apart."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


# ---- in a process that is guarded ------------------------------------------------------------------------------------


class Guard:
    """This process's connection to the one that guards it, and its file of `announcements`."""

    def __init__(self, connection: socket.socket, file: int) -> None:
        self._connection = connection
        self._file = file
        self.announced: dict[Owned, None] = {}
        """What is there, as this process has said."""

    def fileno(self) -> int:
        return self._connection.fileno()

    def is_there(self) -> bool:
        """Whether there is a guard, or somebody who starts another one."""
        try:
            return self._connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def announce(self, owned: Owned, *, is_there: bool) -> None:
        """As `isolation.Helper.announce`."""
        if is_there:
            self.announced[owned] = None
        else:
            self.announced.pop(owned, None)
        data = marshal.dumps(list(self.announced))
        # In one piece: this process may be killed at any moment.
        os.pwrite(self._file, _LENGTH.pack(len(data)) + data, 0)

    def end_with(self, sentinel: int) -> None:
        """Has this process end when a descriptor can be read."""
        with contextlib.suppress(OSError):
            socket.send_fds(self._connection, [_FOLLOW], [sentinel])

    def let_be(self) -> None:
        """Has it go on whatever descriptor can be read."""
        with contextlib.suppress(OSError):
            self._connection.send(_LET_BE)


def entrust(control: socket.socket, number: int, connection: socket.socket, file: int) -> None:
    """Has the guard at the other end of `control` know a process; raises OSError where there is none."""
    socket.send_fds(control, [marshal.dumps(number)], [connection.fileno(), file])


# ---- the guard -------------------------------------------------------------------------------------------------------


def _received(connection: socket.socket, flags: int = 0) -> tuple[bytes, list[int]]:
    """A message, and the descriptors beside it; empty where the connection has ended.  Raises OSError.

    `socket.recv_fds` leaves its flags out before Python 3.12.
    """
    data, beside, _, _ = connection.recvmsg(
        _MOST_BYTES, socket.CMSG_SPACE(_NUMBERS.size), flags | socket.MSG_CMSG_CLOEXEC
    )
    return data, [number for _, _, numbers in beside for (number,) in struct.iter_unpack("i", numbers)]


class _Guarded:
    """A process, as the guard knows it."""

    def __init__(self, number: int, connection: socket.socket, file: int) -> None:
        self._number = number
        self._connection = connection
        self._file = file
        self._sentinel: int | None = None

    def descriptors(self) -> list[int]:
        return [self._connection.fileno(), *([] if self._sentinel is None else [self._sentinel])]

    def hear(self) -> bool:
        """Takes what it has said; False where it is gone."""
        while True:
            try:
                data, passed = _received(self._connection, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if not data:
                return False
            self._follow(passed[0] if data == _FOLLOW else None)

    def _follow(self, sentinel: int | None) -> None:
        if self._sentinel is not None:
            os.close(self._sentinel)
        self._sentinel = sentinel

    def heed(self) -> None:
        """Ends it when its sentinel can be read.  It is there: all that it has said was heard, and no end of that."""
        if self._sentinel is not None:
            poll = select.poll()
            poll.register(self._sentinel, select.POLLIN | select.POLLRDHUP)
            if poll.poll(0):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._number, signal.SIGKILL)
                self._follow(None)

    def clear(self) -> threading.Thread | None:
        """Once it is gone: has what it left end."""
        self._connection.close()
        self._follow(None)
        with open(self._file, "rb") as file:
            file.seek(0)
            length = file.read(_LENGTH.size)
            owned = marshal.loads(file.read(*_LENGTH.unpack(length))) if length else []
        if not owned:
            return None
        thread = threading.Thread(target=lifeline.end, args=(owned,))
        thread.start()
        return thread


def serve(control: socket.socket) -> NoReturn:
    """Guards the processes that come over `control`, until that ends and they are gone."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    guarded: list[_Guarded] = []
    clearing: list[threading.Thread] = []
    is_open = True
    while is_open or guarded:
        poll = select.poll()
        if is_open:
            poll.register(control, select.POLLIN)
        for one in guarded:
            for descriptor in one.descriptors():
                poll.register(descriptor, select.POLLIN | select.POLLRDHUP)
        ready = {descriptor for descriptor, _ in poll.poll()}
        for one in [one for one in guarded if not ready.isdisjoint(one.descriptors())]:
            # What it has said comes before what others have done: it takes back that it is to end before its client
            # goes, which it has answered.
            if one.hear():
                one.heed()
                continue
            guarded.remove(one)
            if (thread := one.clear()) is not None:
                clearing.append(thread)
        if is_open and control.fileno() in ready:
            data, passed = _received(control)
            is_open = bool(data)
            if passed:
                connection, file = passed
                guarded.append(_Guarded(marshal.loads(data), socket.socket(fileno=connection), file))
    for thread in clearing:
        thread.join()
    os._exit(0)
