"""One process that does for many what a helper's lifeline does for its owner (`lifeline`): when one of them is gone,
however that came about, it ends the programs that this one has started and removes its folders.

    whoever forks them ── control ── the guard          a process number, with the guard's end of its connection beside
    each of them ──── connection ─── the guard          what it starts and makes; the end of this is its end

Children of the compile service have one: forking a helper for each would take longer than what most of them do.
Messages are marshalled pairs, one a packet: (what, whether it is there) of a folder or program, (None, True) with a
descriptor beside it that says, once it can be read, when the process has to end, and (None, False) takes that back.
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

_MOST_BYTES = 1 << 14
"""Of one message: a path has at most 4,096."""

_NUMBER = struct.Struct("i")
"""Of a descriptor."""


def connected() -> tuple[socket.socket, socket.socket]:
    """Two ends of a connection that keeps messages apart."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


# ---- in a process that is guarded ------------------------------------------------------------------------------------


class Guard:
    """This process's connection to the one that guards it.

    Whatever is said to one that has ended is lost, without an error; see `is_there`.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.announced: dict[Owned, None] = {}
        """What is there, as this process has said."""

    def fileno(self) -> int:
        return self._connection.fileno()

    def is_there(self) -> bool:
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
        with contextlib.suppress(OSError):
            self._connection.send(lifeline.announcement(owned, is_there=is_there))

    def end_with(self, sentinel: int) -> None:
        """Has this process end when a descriptor can be read."""
        with contextlib.suppress(OSError):
            socket.send_fds(self._connection, [marshal.dumps((None, True))], [sentinel])

    def let_be(self) -> None:
        """Has it go on whatever descriptor can be read."""
        with contextlib.suppress(OSError):
            self._connection.send(marshal.dumps((None, False)))


def entrust(control: socket.socket, number: int, connection: socket.socket) -> None:
    """Has the guard at the other end of `control` know a process; raises OSError where there is none."""
    socket.send_fds(control, [marshal.dumps(number)], [connection.fileno()])


# ---- the guard -------------------------------------------------------------------------------------------------------


def _received(connection: socket.socket, flags: int = 0) -> tuple[bytes, int | None]:
    """A message, and the descriptor beside it; empty where the connection has ended.  Raises OSError.

    `socket.recv_fds` leaves its flags out before Python 3.12.
    """
    data, beside, _, _ = connection.recvmsg(
        _MOST_BYTES, socket.CMSG_SPACE(_NUMBER.size), flags | socket.MSG_CMSG_CLOEXEC
    )
    return data, _NUMBER.unpack_from(beside[0][2])[0] if beside else None


class _Guarded:
    """A process, as the guard knows it."""

    def __init__(self, number: int, connection: socket.socket) -> None:
        self._number = number
        self._connection = connection
        self._owned: dict[Owned, None] = {}
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
            owned, is_there = marshal.loads(data)
            if owned is None:
                self._follow(passed if is_there else None)
            elif is_there:
                self._owned[owned] = None
            else:
                self._owned.pop(owned, None)

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
        if not self._owned:
            return None
        thread = threading.Thread(target=lifeline.end, args=(list(self._owned),))
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
            if passed is not None:
                guarded.append(_Guarded(marshal.loads(data), socket.socket(fileno=passed)))
    for thread in clearing:
        thread.join()
    os._exit(0)
