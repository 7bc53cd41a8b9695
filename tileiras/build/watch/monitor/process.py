"""The monitor process: one per user and installation; it exits after a period without requests."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import time
from typing import Any

from tileiras.build.watch.monitor import endpoint
from tileiras.build.watch.monitor.monitor import Monitor, Root, Unwatchable
from tileiras.processes import sockets
from tileiras.processes.sockets import ProtocolError, locked, unlock

COOKIE_SECONDS = 0.2
"""Seconds for which the event of a new cookie file is awaited."""

AGAIN = 5.0
"""Seconds before folders that could not be watched are retried."""

SLICE = 0.02
"""Seconds of background work between two polls for requests."""

SETTLE = 0.2
"""Seconds without an event after which opened files are checked."""

AT_ONCE = 200
"""Maximum number of opened files checked at a time."""


class Checkout:
    """The monitor of one build directory."""

    def __init__(self, notes: str) -> None:
        self.notes = notes
        self.monitor: Monitor | None = None
        self.reason = ""
        """The reason for which the monitor is absent."""
        self.failed = 0.0
        """Time at which the monitor failed."""
        self.asked = time.monotonic()

    def watch(self, roots: list[Root]) -> None:
        """Watch at least these folders, and those of earlier requests that still exist."""
        self.asked = time.monotonic()
        monitor = self.monitor
        if monitor is not None:
            monitor.check(roots)
            if not monitor.lost and set(roots) <= set(monitor.roots):
                return
            paths = {root.path for root in roots}
            roots = [*roots, *(root for root in monitor.roots if root.path not in paths and _is_there(root))]
            monitor.close()
            self.monitor = None
        elif time.monotonic() < self.failed + AGAIN:
            return
        try:
            self.monitor = Monitor(roots, self.notes)
            self.reason = ""
        except (Unwatchable, OSError) as reason:
            self.lose(str(reason))

    def work(self) -> bool:
        """Add watches for `SLICE` seconds; return whether more remain to be added."""
        monitor = self.monitor
        if monitor is None:
            return False
        until = time.monotonic() + SLICE
        while monitor.epoch is None and not monitor.lost and time.monotonic() < until:
            monitor.advance()
        if monitor.epoch is None and monitor.lost:
            self.lose(monitor.lost)
            return False
        return monitor.epoch is None

    def lose(self, reason: str) -> None:
        self.reason, self.failed = reason, time.monotonic()
        if self.monitor is not None:
            self.monitor.close()
            self.monitor = None

    def facts(self) -> dict[str, Any]:
        monitor = self.monitor
        state = endpoint.LOST if monitor is None or monitor.lost else endpoint.WATCHING
        return {
            "notes": self.notes,
            "state": endpoint.STARTING if state == endpoint.WATCHING and monitor and not monitor.epoch else state,
            "reason": self.reason if monitor is None else monitor.lost,
            "folders": [root.path for root in monitor.roots] if monitor is not None else [],
            "files": monitor.files if monitor is not None else 0,
        }


def _is_there(root: Root) -> bool:
    try:
        state = os.lstat(root.path)
    except OSError:
        return False
    return (state.st_dev, state.st_ino) == root.identity


class Process:
    def __init__(self, listener: socket.socket, idle: float) -> None:
        self._listener = listener
        self._idle = idle
        self._checkouts: dict[str, Checkout] = {}
        self._last = time.monotonic()
        self._code = _code_state()
        self._ending = False
        signal.signal(signal.SIGTERM, lambda number, frame: self._end())
        # Sent when another process opens a file while this one holds its lease (fcntl(2)).
        signal.signal(signal.SIGIO, signal.SIG_IGN)

    def serve(self) -> None:
        """Serve until `idle` seconds pass without a request, or STOP or SIGTERM arrives."""
        while not self._ending:
            busy = any([checkout.work() for checkout in self._checkouts.values()])
            self._wait(0.0 if busy else SETTLE)
            now = time.monotonic()
            for notes, checkout in list(self._checkouts.items()):
                if now > checkout.asked + self._idle:
                    checkout.lose("no request has come")
                    del self._checkouts[notes]
            if now > self._last + self._idle:
                return

    def _wait(self, seconds: float) -> None:
        """Process events and answer requests; check opened files when idle."""
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        monitors = [checkout.monitor for checkout in self._checkouts.values() if checkout.monitor is not None]
        for monitor in monitors:
            poll.register(monitor, select.POLLIN)
        ready = dict(poll.poll(seconds * 1000))
        for monitor in monitors:
            if monitor.fileno() in ready:
                monitor.drain()
            elif not ready and monitor.epoch is not None and not monitor.lost:
                monitor.settle(AT_ONCE)
        if self._listener.fileno() in ready:
            with contextlib.suppress(OSError, ProtocolError):
                connection, _ = self._listener.accept()
                with connection:
                    self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        connection.settimeout(1.0)
        process, user, _ = sockets.peer(connection)
        if user != os.geteuid():
            return
        kind, request = endpoint.received(connection.recv)
        if kind == endpoint.ASK:
            self._last = time.monotonic()
            answer = self._changes(request, process)
        elif kind in (endpoint.STATUS, endpoint.STOP):
            answer = {"pid": os.getpid(), "checkouts": [checkout.facts() for checkout in self._checkouts.values()]}
        else:
            return
        if kind == endpoint.STOP:
            self._end()
        try:
            connection.sendall(endpoint.packed(endpoint.ANSWER, answer))
        except ProtocolError:
            connection.sendall(endpoint.packed(endpoint.ANSWER, {**answer, "changed": None}))

    def _changes(self, request: dict[str, Any], process: int) -> dict[str, Any]:
        if _code_state() != self._code:
            self._end()
            return {"state": endpoint.RETIRED}
        if not _sees_the_same_files(process):
            return {"state": endpoint.LOST, "reason": "another namespace"}
        try:
            roots = [
                Root(str(path), (int(device), int(inode)), tuple(map(str, suffixes)))
                for path, device, inode, suffixes in request["roots"]
            ]
            notes, cookie = str(request["notes"]), str(request["cookie"])
            since = {str(epoch): int(number) for epoch, number in request["since"].items()}
        except (KeyError, TypeError, ValueError, AttributeError):
            return {"state": endpoint.LOST, "reason": "no such request"}
        checkout = self._checkouts.setdefault(notes, Checkout(notes))
        checkout.watch(roots)
        monitor = checkout.monitor
        if monitor is None:
            return {"state": endpoint.LOST, "reason": checkout.reason}
        if monitor.epoch is None:
            return {"state": endpoint.STARTING}
        if not _wait_for(monitor, cookie):
            return {"state": endpoint.LOST, "reason": monitor.lost or "a file that was made is not told of"}
        now = monitor.now()
        if now is None:
            return {"state": endpoint.LOST, "reason": monitor.lost}
        changed = monitor.since(since)
        return {"state": endpoint.WATCHING, "epoch": now.epoch, "number": now.number, "changed": changed}

    def _end(self) -> None:
        self._ending = True


def _wait_for(monitor: Monitor, cookie: str) -> bool:
    """Process events until that of the client's cookie file; False if it does not arrive in `COOKIE_SECONDS`."""
    until = time.monotonic() + COOKIE_SECONDS
    poll = select.poll()
    poll.register(monitor, select.POLLIN)
    while not monitor.lost:
        monitor.drain()
        if monitor.saw(cookie):
            return True
        seconds = until - time.monotonic()
        if seconds <= 0 or not poll.poll(seconds * 1000):
            break
    return False


def _sees_the_same_files(process: int) -> bool:
    """Whether another process has the mount namespace and the root of this one."""
    try:
        root, here = os.stat(f"/proc/{process}/root"), os.stat("/")
        return (
            os.readlink(f"/proc/{process}/ns/mnt") == os.readlink("/proc/self/ns/mnt")
            and (root.st_dev, root.st_ino) == (here.st_dev, here.st_ino)
        )  # fmt: skip
    except OSError:
        return False


def _code_state() -> list[tuple[int, int, int]]:
    """The state of the source files that this process has loaded."""
    code_state = []
    for name in sorted(sys.modules):
        if name.partition(".")[0] == "tileiras":
            path = getattr(sys.modules[name], "__file__", None)
            try:
                state = os.stat(path or "")
            except OSError:
                continue
            code_state.append((state.st_size, state.st_mtime_ns, state.st_ino))
    return code_state


def main(idle: float = endpoint.IDLE) -> int:
    """Run the monitor; returns 0, also if another process is the monitor already, and 1 if it cannot start."""
    os.closerange(3, 1024)  # descriptors that the build inherited must not stay open here
    os.chdir("/")
    name = endpoint.name()
    try:
        directory = sockets.open_directory(create=True)
        lock = locked(directory, name)
    except OSError:
        return 1
    if lock is None:
        return 0
    try:
        os.nice(5)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=directory)
            listener.bind(sockets.address(directory, name))
            listener.listen(16)
            listener.setblocking(False)
            Process(listener, idle).serve()
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=directory)
    except OSError:
        return 1
    finally:
        unlock(directory, name, lock)
    return 0
