"""The process that stays: it has loaded everything, has no threads, and forks.

    zygote ── spare, spare, ...      wait for a connection; the one that takes it answers it and ends
           ├─ a request, ...         a spare that has taken one; another spare is forked in its place
           └─ the guard              ends what a request that was killed has left (`codegen.guard`)

The socket is listened on by the spares, so that a request finds a process that is there already.  The zygote follows
what became of them: a request whose client has gone is ended, one that ends without a word of its own is told of to its
client.  It does no request's work, so none can block or damage it.

One service of a name holds the lock `NAME.lock` beside its socket `NAME`; both go when it ends, by whatever process of
it is the last where it was killed.
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
from tileiras.codegen import guard
from tileiras.local_lock import locked, unlock
from tileiras.server import account, code_archive, forked_memory, loaded, messages, protocol, request, worker
from tileiras.server.child import DONE, SPARE, WORKING, Child
from tileiras.server.links import Links
from tileiras.server.protocol import EXIT, FACTS, MET, PREPARE, READY, RETIRED, RUN, STATUS, STOP

MOST_REQUESTS = 192
"""At once, with four descriptors each; who comes then does the work itself.  Requests do not wait for each other: one
may read what another writes."""

BACKLOG = 128
"""Connections that wait for a spare; the next client is turned away at once."""

MORE_SPARES = 2
"""Children that have answered and may wait beyond those that are forked ahead: so many end and begin requests at once
under load."""

QUIET_SECONDS = 0.01
"""Without a request after which spares are prepared for one: under load there is better use for the processors."""

SELDOM = 64
"""The zygote hears which pages a request meets from the first, second, fourth and so on, and each of so many: those
have nothing ahead, and looking takes 10 ms."""

END_SECONDS = 5.0
"""What the last requests have to end in when the service is told to."""


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
        self._memory = forked_memory.SharedPages()
        self._guard: tuple[int, socket.socket] | None = None
        """Its process number, and this end of its connection."""
        self._spares = min(4, len(os.sched_getaffinity(0)))
        self._ending = False
        self._requests = 0
        self._account = account.Account()
        self._forked = 0
        """Children, for requests."""
        self._began = time.time()
        self._last = time.monotonic()
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.signal(signal.SIGTERM, lambda number, frame: self._end())
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def rehearse(self, kernel: bytes) -> None:
        """Has the first request be answered as fast as later ones are, if it is much like compiling this bytecode."""
        request.rehearse(kernel, self._memory)

    # ---- the loop ----------------------------------------------------------------------------------------------------

    def serve(self) -> None:
        """Until it has been idle for long enough or is told to end, and the last request has ended."""
        until: float | None = None
        while not self._ending or self._children:
            now = time.monotonic()
            if self._ending and until is None:
                until = now + END_SECONDS
            if not self._ending:
                self._fill()
            left = until - now if until is not None else self._last + self._idle - now
            if left <= 0 and until is not None:
                for child in self._children.values():
                    child.end(signal.SIGKILL)
            elif left <= 0 and not self._busy():
                self._end()
                continue
            self._wait(min(max(0.05, min(left, 3600.0)), self._until_quiet()))
            self._reap()

    def _until_quiet(self) -> float:
        """Has the spares prepared where it is quiet; else the seconds until then, if one of them is not."""
        spares = [child for child in self._children.values() if child.state == SPARE and not child.is_prepared]
        known = self._memory.ranges
        if self._ending or not spares or not known or self._busy():
            return 3600.0
        left = self._last + QUIET_SECONDS - time.monotonic()
        if left > 0:
            return left
        count = self._requests
        looks = count > 0 and (count & (count - 1) == 0 or count % SELDOM == 0)
        for child in spares:
            child.is_prepared = True
            with contextlib.suppress(OSError):
                messages.send(child.control, PREPARE, b"" if looks else known)
        return 3600.0

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
                # A client says nothing more: whatever can be read is its end.
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
        """Forks until there are enough spares."""
        waiting = sum(child.state == SPARE for child in self._children.values())
        room = MOST_REQUESTS - len(self._children)
        for _ in range(min(self._spares - waiting, room)):
            try:
                self._fork_spare()
            except OSError:  # the system has no room
                if not self._children:
                    self._end()
                return

    def _fork_spare(self) -> None:
        """Raises OSError."""
        # Before there are ends of this child's connections: the guard would have them, too.
        with contextlib.suppress(OSError):
            self._start_guard()
        ours, theirs = socket.socketpair()
        lifeline, guarded = guard.connected()
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
        self._children[pid] = found = Child(pid, ours, guarded, announcements, SPARE)
        self._entrust([found])

    def _entrust(self, children: Iterable[Child]) -> None:
        """Tells the guard of these.  Without one, a request has a process of its own for that."""
        if self._guard is not None:
            with contextlib.suppress(OSError):
                for child in children:
                    guard.entrust(self._guard[1], child.pid, child.guarded, child.announcements)

    def _start_guard(self) -> None:
        """Starts the guard unless there is one; raises OSError."""
        if self._guard is None:
            ours, theirs = guard.connected()
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
        """The number of a child that runs `work`, and has not what is this process's, nor `ours`; raises OSError."""
        # A signal that ends the child must not come to it while it has this process's handlers.
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
        """`signals` are those that are to be blocked from then on when this process's handlers are gone."""
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
            # Whatever went wrong, no command has said how it ended.
            os.kill(os.getpid(), signal.SIGKILL)

    def _work(self, control: socket.socket, lifeline: socket.socket, announcements: int) -> None:
        links = Links(self._listener, control, lifeline, announcements, self._directory)
        worker.serve(links, self._identity, self._state, self._memory, self._forget)

    def _forget(self, directory: int) -> None:
        """Called by a child whose zygote is gone, with its own descriptor of the directory."""
        remove(directory, self._name, self._inode)

    # ---- what children say -------------------------------------------------------------------------------------------

    def _heard(self, child: Child) -> None:
        try:
            kind, fields, descriptors = messages.receive(child.control)
        except (EOFError, OSError, protocol.ProtocolError):
            child.is_heard = False  # it is ending, and will be reaped
            return
        self._last = time.monotonic()
        client = socket.socket(fileno=descriptors[0]) if descriptors else None
        for number in descriptors[1:]:
            os.close(number)
        if kind == RETIRED:
            self._end()
        elif kind == MET:
            self._memory.learn(fields[0])
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
        """What a child has said, several things perhaps: READY and RUN, or RUN and RETIRED before it has ended.

        Does not wait for the end of the connection, which what the child has started may hold open.
        """
        poll = select.poll()
        poll.register(child.control, select.POLLIN)
        while child.is_heard and poll.poll(0):
            self._heard(child)

    def _answer(self, kind: bytes, client: socket.socket) -> None:
        """What a client asks of the service itself; raises OSError where it does not wait for it."""
        before = account.own_seconds()
        client.settimeout(0)
        if kind == STOP:
            self._end()
        if kind in (STATUS, STOP):
            messages.send(client, FACTS, json.dumps(self.facts()).encode())
        self._account.set_aside(before)

    def _take_back(self, child: Child, taken: int) -> None:
        """One that has answered waits for the next request, unless enough do."""
        self._book(child, taken)
        child.state = SPARE
        child.is_prepared = True
        waiting = sum(child.state == SPARE for child in self._children.values())
        if self._ending or waiting > self._spares + MORE_SPARES:
            child.state = DONE
            with contextlib.suppress(OSError):
                messages.send(child.control, RETIRED)

    def _client_gone(self, child: Child, client: socket.socket) -> None:
        """Its command was ended, or has heard from the child itself, which then has said so here before."""
        self._hear_out(child)
        if child.client is client:
            if child.state == WORKING:
                child.end(signal.SIGKILL)
            child.leave_client()

    def _reap(self) -> None:
        gone: list[Child] = []
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
                gone.append(child)
                self._bury(child, status)
                self._book(child, round(1e6 * (usage.ru_utime + usage.ru_stime)))
        if self._guard is None and (gone or self._children):
            # Somebody has ended it.  What has ended meanwhile may have left something, too.
            with contextlib.suppress(OSError):
                self._start_guard()
            self._entrust([*gone, *self._children.values()])
        for child in gone:
            child.close()

    def _book(self, child: Child, taken: int) -> None:
        """What a child has taken is for the request that it has answered since it was asked before."""
        if child.process is not None:
            self._account.add(child.process, time.monotonic() - child.since, (taken - child.taken) / 1e6)
        child.process, child.taken = None, taken

    def _bury(self, child: Child, status: int) -> None:
        """Tells the client of a child that has ended without a word of its own."""
        self._hear_out(child)
        self._last = time.monotonic()
        if child.client is not None:
            # It has not said how its command ended: that has not come to its end, whatever ended the process.
            number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else signal.SIGKILL
            code = (-number).to_bytes(4, "little", signed=True)
            with child.client as client, contextlib.suppress(OSError):
                client.settimeout(0)
                messages.send(client, EXIT, code)

    def _end(self) -> None:
        """No new requests from here on; those that run have their time."""
        if self._ending:
            return
        self._ending = True
        remove(self._directory, self._name, self._inode)
        self._listener.close()
        for child in self._children.values():
            if child.state == SPARE:
                # A client that a spare has just taken sees it end before any work, and does that itself.
                child.end(signal.SIGTERM)

    def facts(self) -> dict[str, object]:
        """What `tileiras-server status` shows; times in seconds, memory in KiB."""
        states = [child.state for child in self._children.values()]
        return {
            "pid": os.getpid(),
            "version": __version__,
            "socket": os.path.join(protocol.runtime_directory(), self._name),
            "since": self._began,
            "idle_limit": self._idle,
            "requests": self._requests,
            "running": states.count(WORKING),
            "waiting": states.count(SPARE),
            "forked": self._forked,
            "ending": self._ending,
            "pages": len(self._memory),
            **self._account.facts(
                [(child.pid, child.taken) for child in self._children.values()]
                + ([] if self._guard is None else [(self._guard[0], 0)])
            ),
        }


def remove(directory: int, name: str, inode: int) -> None:
    """Removes a socket, if it is still that one, and its lock."""
    with contextlib.suppress(OSError):
        if os.stat(name, dir_fd=directory).st_ino == inode:
            os.unlink(name, dir_fd=directory)
            os.unlink(f"{name}.lock", dir_fd=directory)


# ---- start -----------------------------------------------------------------------------------------------------------


def main(name: str, idle: float = protocol.IDLE) -> int:
    """Becomes the service `name`, until it ends; the exit code.

    0 also where another process is that service or is becoming it; 1 with a line on standard error where it cannot be.
    """
    identity = protocol.identity()
    if protocol.name_of(identity) != name:
        print(f"the service of this Python is {protocol.name_of(identity)}, not {name}", file=sys.stderr)
        return 1
    try:
        directory = protocol.open_directory(create=True)
        lock = locked(directory, name)
    except OSError as error:
        print(error, file=sys.stderr)
        return 1
    if lock is None:
        return 0
    os.chdir("/")
    try:
        loaded.wait_until_settled()
        state = loaded.Snapshot()
        with code_archive.used("tileiras"):
            kernel = loaded.preload()
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
            listener.bind(protocol.address(directory, draft))
            listener.listen(BACKLOG)
            os.rename(draft, name, src_dir_fd=directory, dst_dir_fd=directory)
            gc.collect()
            # What is loaded stays: looking through it for garbage would copy it into every child.
            gc.freeze()
            gc.disable()
            forked_memory.collapse()
            zygote = Zygote(directory, name, listener, state, identity, idle)
            zygote.rehearse(kernel)
            _hand_back_streams()
            zygote.serve()
    except OSError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        unlock(directory, name, lock)
    return 0


def clear(directory: int, name: str) -> bool:
    """Removes what a service that was killed has left; False, and nothing removed, where one is there or loading."""
    lock = locked(directory, name)
    if lock is None:
        return False
    for left in (name, f"{name}.new"):
        with contextlib.suppress(OSError):
            os.unlink(left, dir_fd=directory)
    unlock(directory, name, lock)
    os.close(lock)
    return True


def _hand_back_streams() -> None:
    """Lets go of the standard error that whoever waits for the service to be ready reads."""
    sys.stderr.flush()
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    os.close(null)
