"""Worker processes that answer requests, for `scons -j`.

A worker is started for the first request, and answers one at a time.  A worker that dies during a request (out of
memory, killed) is replaced and the request repeated once; a second death is reported.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any


class WorkerDied(Exception):
    """A worker died twice on one request, or no worker can be started; the message gives the reason."""


class _Worker:
    __slots__ = ("process", "connection", "_patience")

    def __init__(self, serve: Callable[[Any], None], preload: Sequence[str], patience: float) -> None:
        context = _context(preload)
        self._patience = patience
        self.connection, theirs = context.Pipe()
        # Daemonic: it must not keep the build's process alive.
        self.process = context.Process(target=serve, args=(theirs,), daemon=True)
        with _without_main():
            self.process.start()
        theirs.close()

    def end(self) -> str:
        """Wait for the process; returns its exit status or signal as text."""
        self.connection.close()
        self.process.join(self._patience)
        code = self.process.exitcode
        if code is not None and code < 0:
            import signal

            return signal.Signals(-code).name
        return f"exit status {code}"


RESTART_SECONDS = (0.0, 0.05, 0.2, 1.0)
"""Delays after failed attempts to start a worker, in seconds."""


def start(serve: Callable[[Any], None], preload: Sequence[str], patience: float) -> _Worker:
    """Start a worker; raises WorkerDied after the last failed attempt.

    Workers are forked by multiprocessing's fork server, which multiprocessing restarts after it has ended.  If the
    server was killed a moment ago, its end may not be visible yet, or it was just forking this worker: retry.
    """
    for seconds in RESTART_SECONDS:
        try:
            return _Worker(serve, preload, patience)
        except (EOFError, OSError) as error:
            reason = error
            time.sleep(seconds)
    raise WorkerDied(f"no process that compiles can be started: {reason}")


class Pool:
    """At most `size` workers, started on demand and reused; they are ended before this process exits."""

    def __init__(
        self, size: int, serve: Callable[[Any], None], preload: Sequence[str] = (), patience: float = 2.0
    ) -> None:
        """`serve` answers the requests of a connection until it is closed, and may then take `patience` seconds;
        `preload` are the modules that workers share."""
        # Registers a function that terminates daemonic processes at exit.  Functions registered later run earlier: the
        # workers finish, with their uploads, before they would be terminated.
        import multiprocessing.util  # noqa: F401

        self.size = size
        self._how = serve, preload, patience
        self._idle: list[_Worker] = []
        self._free = threading.Semaphore(size)
        self._lock = threading.Lock()
        atexit.register(self.close)

    def run(self, request: Any) -> Any:
        """Execute a request on a worker, waiting for a free one.  Raises WorkerDied."""
        with self._free:
            ends = []
            for _ in range(2):
                with self._lock:
                    worker = self._idle.pop() if self._idle else None
                    if worker is None:
                        worker = start(*self._how)
                try:
                    worker.connection.send(request)
                    reply = worker.connection.recv()
                except (EOFError, OSError):
                    ends.append(worker.end())
                    continue
                with self._lock:
                    self._idle.append(worker)
                return reply
            raise WorkerDied(f"the process that compiled it ended twice: {', '.join(ends)}")

    def close(self) -> None:
        """End the idle workers, and wait for them."""
        with self._lock:
            for worker in self._idle:
                worker.connection.close()
            for worker in self._idle:
                worker.end()
            self._idle.clear()


START_METHOD = "forkserver" if sys.platform.startswith("linux") else "spawn"
"""Not a plain fork: with SCons' threads running, it may copy a lock that is held."""


def _context(preload: Sequence[str]) -> Any:
    import multiprocessing

    context = multiprocessing.get_context(START_METHOD)
    if START_METHOD != "forkserver":
        return context
    _shorten_address()
    context.set_forkserver_preload(["tileiras.processes.forking", *preload])
    return context


ADDRESS_BYTES = 107
"""Maximum length of a socket's path (unix(7))."""


def _shorten_address() -> None:
    """Put multiprocessing's sockets in /tmp if their paths in the folder of temporary files are too long."""
    import tempfile
    from multiprocessing import util

    longest = os.path.join(tempfile.gettempdir(), "pymp-xxxxxxxx", "listener-xxxxxxxx")
    if len(os.fsencode(longest)) <= ADDRESS_BYTES or not os.access("/tmp", os.W_OK):
        return
    usual, tempfile.tempdir = tempfile.tempdir, "/tmp"
    try:
        util.get_temp_dir()  # created once and cached by multiprocessing
    finally:
        tempfile.tempdir = usual


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
    """Prevent a new process from importing the main program, which is SCons and not needed there."""
    main = sys.modules["__main__"]
    result = {name: main.__dict__[name] for name in ("__file__", "__spec__") if name in main.__dict__}
    main.__dict__.update(dict.fromkeys(result))
    try:
        yield
    finally:
        main.__dict__.update(result)
