"""The daemon of the service: it has loaded the compiler, has no threads, and forks.

    zygote ── spare, spare, ...      wait for a connection; the one that accepts it answers it
           ├─ a request, ...         a spare that has accepted a connection; another spare is forked in its place
           └─ the guard              ends the processes that a killed request has left (`processes.guard`)

The spares listen on the socket, so that a request finds an existing process.  The zygote supervises them: it kills a
request whose client has disconnected, and reports to the client a child that dies without an answer.  It does no
request's work, so no request can block or damage it.

The service of a name holds the lock `NAME.lock` beside its socket `NAME`.  Both are removed when it exits; if it was
killed, by the last of its processes.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable
from typing import NoReturn

from tileiras import __version__
from tileiras.processes import guard, messages, sockets
from tileiras.processes.service import account, code_archive, loaded, protocol, worker
from tileiras.processes.service.child import DONE, SPARE, WORKING, Child
from tileiras.processes.service.links import Links
from tileiras.processes.service.protocol import EXIT, FACTS, READY, RETIRED, RUN, STATUS, STOP

MOST_REQUESTS = 192
"""Maximum number of concurrent requests, with four descriptors each; further clients do the work themselves.  Requests
do not wait for each other: one may read the output of another."""

BACKLOG = 128
"""Connections that may wait for a spare; the next client is refused immediately."""

MORE_SPARES = 2
"""Children that have answered and may wait in addition to the spares forked ahead: under load, about as many finish and
start requests at a time."""

END_SECONDS = 5.0
"""Seconds that running requests have to finish when the service stops."""


_HANDLED = (signal.SIGCHLD, signal.SIGTERM)

class Zygote:
    """A service that listens on `listener`, at `name` in the private directory that is open as `directory`."""

    def __init__(
        self, directory: int, name: str, listener: socket.socket, state: loaded.Snapshot, identity: bytes, idle: float
    ) -> None:
        self._directory = directory
        self._name = name
        self._listener = listener
        self._state = state
        self._identity = identity
        self._idle = idle
        self._inode = os.stat(name, dir_fd=directory).st_ino
        self._children: dict[int, Child] = {}
        self._guard: tuple[int, socket.socket] | None = None
        """Its process number, and this end of its connection."""
        self._spares = min(4, len(os.sched_getaffinity(0)))
        self._ending = False
        self._requests = 0
        self._account = account.Account()
        self._forked = 0
        """Number of children forked for requests."""
        self._began = time.time()
        self._last = time.monotonic()
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.signal(signal.SIGTERM, lambda number, frame: self._end())
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    # ---- the loop ----------------------------------------------------------------------------------------------------

    def serve(self) -> None:
        """Serve until the service has been idle for `idle` seconds or is stopped, and the last request has ended."""
        until: float | None = None
        while not self._ending or self._children:
            now = time.monotonic()
            if self._ending and until is None:
                until = now + END_SECONDS
            if not self._ending:
                self._fill()
            timeout = until - now if until is not None else self._last + self._idle - now
            if timeout <= 0 and until is not None:
                for child in self._children.values():
                    child.end(signal.SIGKILL)
            elif timeout <= 0 and not self._busy():
                self._end()
                continue
            self._wait(max(0.05, min(timeout, 3600.0)))
            self._reap()

    def _wait(self, seconds: float) -> None:
        poll = select.poll()
        poll.register(self._wake_read, select.POLLIN)
        by_control: dict[int, Child] = {}
        by_client: dict[int, tuple[Child, socket.socket]] = {}
        for child in self._children.values():
            if child.is_heard:
                by_control[child.control.fileno()] = child
                poll.register(child.control, select.POLLIN)
            if child.client is not None:
                by_client[child.client.fileno()] = child, child.client
                # A client sends no further message: any readable event means that it has disconnected.
                poll.register(child.client, select.POLLIN | select.POLLRDHUP)
        for number, _ in poll.poll(seconds * 1000):
            if number == self._wake_read:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake_read, 4096)
            elif number in by_client:
                self._client_gone(*by_client[number])
            else:
                self._hear_out(by_control[number])

    def _busy(self) -> bool:
        return any(child.state == WORKING for child in self._children.values())

    def _fill(self) -> None:
        """Fork until enough spares wait."""
        waiting = sum(child.state == SPARE for child in self._children.values())
        room = MOST_REQUESTS - len(self._children)
        for _ in range(min(self._spares - waiting, room)):
            try:
                self._fork_spare()
            except OSError:  # no memory, or too many processes or descriptors
                if not self._children:
                    self._end()
                return

    def _fork_spare(self) -> None:
        """Raise OSError."""
        # Must precede the creation of this child's connections: the guard would inherit them.
        with contextlib.suppress(OSError):
            self._start_guard()
        ours, theirs = socket.socketpair()
        lifeline, guarded = socket.socketpair()
        announcements = -1
        with theirs, lifeline:
            try:
                announcements = guard.announcements()
                pid = self._fork(lambda: self._work(theirs, lifeline, announcements), (ours, guarded))
            except OSError:
                ours.close()
                guarded.close()
                if announcements >= 0:
                    os.close(announcements)
                raise
        ours.settimeout(protocol.PATIENCE)
        self._forked += 1
        self._children[pid] = child = Child(pid, ours, guarded, announcements, SPARE)
        self._entrust([child])

    def _entrust(self, children: Iterable[Child]) -> None:
        """Register children with the guard.  Without a guard, each request starts its own."""
        if self._guard is not None:
            with contextlib.suppress(OSError):
                for child in children:
                    guard.entrust(self._guard[1], child.pid, child.guarded, child.announcements)

    def _start_guard(self) -> None:
        """Start the guard unless it runs; raises OSError."""
        if self._guard is None:
            ours, theirs = socket.socketpair()
            with theirs:
                try:
                    self._guard = self._fork(lambda: self._serve_as_guard(theirs), (ours,)), ours
                except OSError:
                    ours.close()
                    raise

    def _serve_as_guard(self, control: socket.socket) -> None:
        self._listener.close()
        guard.serve(control)

    def _fork(self, work: Callable[[], None], ours: Iterable[socket.socket]) -> int:
        """Fork a child that runs `work` without this process's descriptors and `ours`; return its process number.
        Raises OSError."""
        # A terminating signal must not reach the child while it still has this process's handlers.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)
        try:
            pid = os.fork()
            if pid == 0:
                self._become_child(work, ours, before)
            return pid
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _become_child(
        self, work: Callable[[], None], ours: Iterable[socket.socket], signals: set[signal.Signals]
    ) -> NoReturn:
        """`signals` is the mask of blocked signals to restore once this process's handlers are removed."""
        try:
            signal.set_wakeup_fd(-1)
            for number in _HANDLED:
                signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.pthread_sigmask(signal.SIG_SETMASK, signals)
            for connection in (*ours, *([] if self._guard is None else [self._guard[1]])):
                connection.close()
            self._guard = None
            for number in (self._wake_read, self._wake_write):
                os.close(number)
            for child in self._children.values():
                child.close()
                child.leave_client()
            self._children = {}
            work()
        finally:
            # Reached only after a failure, in which no exit code was reported.
            os.kill(os.getpid(), signal.SIGKILL)

    def _work(self, control: socket.socket, lifeline: socket.socket, announcements: int) -> None:
        links = Links(self._listener, control, lifeline, announcements, self._directory)
        worker.serve(links, self._identity, self._state, self._forget)

    def _forget(self, directory: int) -> None:
        """Remove the socket; called by a child whose zygote is gone, with its own descriptor of the directory."""
        remove(directory, self._name, self._inode)

    # ---- messages of children ----------------------------------------------------------------------------------------

    def _heard(self, child: Child) -> None:
        try:
            kind, fields, descriptors = messages.receive(child.control)
        except (EOFError, OSError, sockets.ProtocolError):
            child.is_heard = False  # the child is exiting and will be reaped
            return
        self._last = time.monotonic()
        client = socket.socket(fileno=descriptors[0]) if descriptors else None
        for number in descriptors[1:]:
            os.close(number)
        if kind == RETIRED:
            self._end()
        elif kind == EXIT:
            child.state = DONE
            child.leave_client()
        elif kind == READY:
            self._take_back(child, int.from_bytes(fields[0], "little"))
        elif kind == RUN:
            self._requests += 1
            child.state, child.client = WORKING, client
            child.process, child.since = int(fields[0]), time.monotonic()
        elif client is not None:
            with client, contextlib.suppress(OSError):
                self._answer(kind, client)

    def _hear_out(self, child: Child) -> None:
        """Process all pending messages of a child: there may be several, as READY and RUN, or RUN and RETIRED before
        its exit.

        Does not wait for the end of the connection, which subprocesses of the child may hold open.
        """
        while child.is_heard and messages.is_pending(child.control):
            self._heard(child)

    def _answer(self, kind: bytes, client: socket.socket) -> None:
        """Answer STATUS and STOP; raises OSError if the client has gone or does not read."""
        before = account.own_seconds()
        client.settimeout(0)
        if kind == STOP:
            self._end()
        if kind in (STATUS, STOP):
            messages.send(client, FACTS, json.dumps(self.facts()).encode())
        self._account.set_aside(before)

    def _take_back(self, child: Child, cpu_us: int) -> None:
        """Make a child that has answered a spare, or retire it if enough spares wait."""
        self._book(child, cpu_us)
        child.state = SPARE
        waiting = sum(child.state == SPARE for child in self._children.values())
        if self._ending or waiting > self._spares + MORE_SPARES:
            child.state = DONE
            with contextlib.suppress(OSError):
                messages.send(child.control, RETIRED)

    def _client_gone(self, child: Child, client: socket.socket) -> None:
        """Handle the disconnection of a client: it was killed, or it has its answer, which the child has then already
        reported here."""
        self._hear_out(child)
        if child.client is client:
            if child.state == WORKING:
                child.end(signal.SIGKILL)
            child.leave_client()

    def _reap(self) -> None:
        ended: list[Child] = []
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if self._guard is not None and pid == self._guard[0]:
                self._guard[1].close()
                self._guard = None
            child = self._children.pop(pid, None)
            if child is not None:
                ended.append(child)
                self._bury(child, status)
                self._book(child, round(1e6 * (usage.ru_utime + usage.ru_stime)))
        if self._guard is None and (ended or self._children):
            # The guard was killed.  Children that ended meanwhile may also have left processes or files.
            with contextlib.suppress(OSError):
                self._start_guard()
            self._entrust([*ended, *self._children.values()])
        for child in ended:
            child.close()

    def _book(self, child: Child, cpu_us: int) -> None:
        """Charge the time that a child has taken since the last report to the request that it answered."""
        if child.process is not None:
            self._account.add(child.process, time.monotonic() - child.since, (cpu_us - child.cpu_us) / 1e6)
        child.process, child.cpu_us = None, cpu_us

    def _bury(self, child: Child, status: int) -> None:
        """Report the death of a child to its client if the child sent no answer."""
        self._hear_out(child)
        self._last = time.monotonic()
        if child.client is not None:
            # No exit code was reported, so the command is incomplete even if the process exited normally.
            number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else signal.SIGKILL
            code = (-number).to_bytes(4, "little", signed=True)
            with child.client as client, contextlib.suppress(OSError):
                client.settimeout(0)
                messages.send(client, EXIT, code)

    def _end(self) -> None:
        """Stop accepting requests; running ones have `END_SECONDS` to finish."""
        if self._ending:
            return
        self._ending = True
        remove(self._directory, self._name, self._inode)
        self._listener.close()
        for child in self._children.values():
            if child.state == SPARE:
                # A client just accepted by this spare sees it exit before any work, and does the work itself.
                child.end(signal.SIGTERM)

    def facts(self) -> dict[str, object]:
        """Return the data of `tileiras-server status`; times in seconds, memory in KiB."""
        states = [child.state for child in self._children.values()]
        return {
            "pid": os.getpid(),
            "version": __version__,
            "socket": os.path.join(sockets.runtime_directory(), self._name),
            "since": self._began,
            "idle_limit": self._idle,
            "requests": self._requests,
            "running": states.count(WORKING),
            "waiting": states.count(SPARE),
            "forked": self._forked,
            "ending": self._ending,
            **self._account.facts(
                [(child.pid, child.cpu_us) for child in self._children.values()]
                + ([] if self._guard is None else [(self._guard[0], 0)])
            ),
        }


def remove(directory: int, name: str, inode: int) -> None:
    """Remove a socket and its lock, if the socket still has this inode."""
    with contextlib.suppress(OSError):
        if os.stat(name, dir_fd=directory).st_ino == inode:
            os.unlink(name, dir_fd=directory)
            os.unlink(f"{name}.lock", dir_fd=directory)


# ---- start -----------------------------------------------------------------------------------------------------------


def main(name: str, idle: float = protocol.IDLE) -> int:
    """Run the service `name`; returns the exit code.

    0 also if another process is that service or is starting as it; 1, with a line on standard error, if it cannot run.
    """
    identity = protocol.identity()
    if sockets.name_of(identity) != name:
        print(f"the service of this Python is {sockets.name_of(identity)}, not {name}", file=sys.stderr)
        return 1
    try:
        directory = sockets.open_directory(create=True)
        lock = sockets.locked(directory, name)
    except OSError as error:
        print(error, file=sys.stderr)
        return 1
    if lock is None:
        return 0
    os.chdir("/")
    try:
        loaded.wait_until_settled()
        state = loaded.Snapshot()
        with code_archive.in_use("tileiras"):
            loaded.preload()
        if not state.is_current():
            return 0  # edited meanwhile: the next command starts another
        if loaded.threads() != 1:
            print("a library has started a thread: this process cannot fork safely", file=sys.stderr)
            return 1
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.setblocking(False)
            draft = f"{name}.new"
            with contextlib.suppress(FileNotFoundError):
                os.unlink(draft, dir_fd=directory)
            listener.bind(sockets.address(directory, draft))
            listener.listen(BACKLOG)
            os.rename(draft, name, src_dir_fd=directory, dst_dir_fd=directory)
            gc.collect()
            # Loaded objects are permanent: a garbage collection would write to their pages, and copy them into each
            # child.
            gc.freeze()
            gc.disable()
            zygote = Zygote(directory, name, listener, state, identity, idle)
            _hand_back_streams()
            zygote.serve()
    except OSError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        sockets.unlock(directory, name, lock)
    return 0


def clear(directory: int, name: str) -> bool:
    """Remove the files of a killed service; return False, and remove nothing, if a service runs or is loading."""
    lock = sockets.locked(directory, name)
    if lock is None:
        return False
    for file in (name, f"{name}.new"):
        with contextlib.suppress(OSError):
            os.unlink(file, dir_fd=directory)
    sockets.unlock(directory, name, lock)
    os.close(lock)
    return True


def _hand_back_streams() -> None:
    """Close standard error, whose end signals the process that started the service that it is ready."""
    sys.stderr.flush()
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    os.close(null)
