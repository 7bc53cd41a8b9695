"""A process that cleans up after many others, as a helper's lifeline does for its owner (`lifetime`): when a guarded
process exits for any reason, the guard ends the programs that it has started and removes its folders.

    parent of the processes ── control ── the guard   a process number, with the guard's end of its connection
    each process ──── connection ──── the guard       requests to end it; closing this socket means it has exited
    each process ──── file in memory ──── the guard   the programs and folders that it has announced

Children of the compile service have a guard: forking a helper for each would take longer than the work of most.  The
files outlive the guard: if it dies, the parent starts another one with the same files.
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

from tileiras.processes import lifetime, messages
from tileiras.processes.lifetime import Owned
from tileiras.processes.sockets import ProtocolError

_LENGTH = struct.Struct("<Q")
"""Header of a file of announcements: the length of the marshalled list that follows."""

_ENTRUST, _FOLLOW, _LET_BE = b"g", b"e", b"l"
"""Messages: guard a process, with its connection and its file; of a guarded process: end it when the accompanying
descriptor is readable; cancel that."""


def announcements() -> int:
    """The descriptor of a file in memory for the announcements of a process; raises OSError."""
    return os.memfd_create("announcements")


# ---- in a process that is guarded ------------------------------------------------------------------------------------


class Guard:
    """This process's connection to the one that guards it, and its file of `announcements`."""

    def __init__(self, connection: socket.socket, file: int) -> None:
        self._connection = connection
        self._file = file
        self.announced: dict[Owned, None] = {}
        """The announced programs and folders that still exist."""

    def fileno(self) -> int:
        return self._connection.fileno()

    def is_there(self) -> bool:
        """Whether a guard runs, or a process that would start another one."""
        try:
            return self._connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def announce(self, owned: Owned, *, is_there: bool) -> None:
        """As `helper.Helper.announce`."""
        if is_there:
            self.announced[owned] = None
        else:
            self.announced.pop(owned, None)
        data = marshal.dumps(list(self.announced))
        # In one piece: this process may be killed at any moment.
        os.pwrite(self._file, _LENGTH.pack(len(data)) + data, 0)

    def end_with(self, sentinel: int) -> None:
        """Let the guard end this process when a descriptor is readable."""
        with contextlib.suppress(OSError):
            messages.send(self._connection, _FOLLOW, descriptors=(sentinel,))

    def let_be(self) -> None:
        """Cancel `end_with`."""
        with contextlib.suppress(OSError):
            messages.send(self._connection, _LET_BE)


def entrust(control: socket.socket, number: int, connection: socket.socket, file: int) -> None:
    """Register a process with the guard at the other end of `control`; raises OSError if no guard is there."""
    messages.send(control, _ENTRUST, str(number).encode(), descriptors=(connection.fileno(), file))


# ---- the guard -------------------------------------------------------------------------------------------------------


class _Guarded:
    """The guard's record of a process."""

    def __init__(self, number: int, connection: socket.socket, file: int) -> None:
        self._number = number
        self._connection = connection
        self._file = file
        self._sentinel: int | None = None

    def descriptors(self) -> list[int]:
        return [self._connection.fileno(), *([] if self._sentinel is None else [self._sentinel])]

    def hear(self) -> bool:
        """Process its pending messages; False if it has exited."""
        try:
            while messages.is_pending(self._connection):
                kind, _, descriptors = messages.receive(self._connection)
                self._follow(descriptors[0] if kind == _FOLLOW else None)
            return True
        except (EOFError, OSError, ProtocolError):
            return False

    def _follow(self, sentinel: int | None) -> None:
        if self._sentinel is not None:
            os.close(self._sentinel)
        self._sentinel = sentinel

    def heed(self) -> None:
        """Kill it if its sentinel is readable.  Call only after `hear` returned True: the process then still runs."""
        if self._sentinel is not None:
            poll = select.poll()
            poll.register(self._sentinel, select.POLLIN | select.POLLRDHUP)
            if poll.poll(0):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._number, signal.SIGKILL)
                self._follow(None)

    def clear(self) -> threading.Thread | None:
        """After it has exited: end its programs and remove its folders, in the thread that is returned."""
        self._connection.close()
        self._follow(None)
        with open(self._file, "rb") as file:
            file.seek(0)
            length = file.read(_LENGTH.size)
            owned = marshal.loads(file.read(*_LENGTH.unpack(length))) if length else []
        if not owned:
            return None
        thread = threading.Thread(target=lifetime.end, args=(owned,))
        thread.start()
        return thread


def serve(control: socket.socket) -> NoReturn:
    """Guard the processes registered over `control`, until it is closed and all of them have exited."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
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
            # Read its messages before its sentinel: a process that has answered its client cancels its end before
            # the client disconnects.
            if one.hear():
                one.heed()
                continue
            guarded.remove(one)
            if (thread := one.clear()) is not None:
                clearing.append(thread)
        if is_open and control.fileno() in ready:
            try:
                _, (number,), (connection, file) = messages.receive(control)
            except EOFError:
                is_open = False
            else:
                guarded.append(_Guarded(int(number), socket.socket(fileno=connection), file))
    for thread in clearing:
        thread.join()
    os._exit(0)
