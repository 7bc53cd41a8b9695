"""Worker processes that answer requests, for `scons -j`.

A worker is started for the first request, and answers one at a time.  A worker that dies during a request (out of
memory, killed) is replaced and the request repeated once; a second death is reported.
"""

from __future__ import annotations

import atexit
import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tileiras.processes.forking import Forker, Serve

FORKS = sys.platform.startswith("linux")
"""Whether a process forks the workers.  Not the build: with SCons' threads running, a fork may copy a lock that is
held."""

RESTART_SECONDS = (0.0, 0.05, 0.2, 1.0)
"""Delays after failed attempts to start a worker, in seconds."""


class WorkerDied(Exception):
    """A worker died twice on one request, or no worker can be started; the message gives the reason."""


class _Worker:
    """A process, the connection over which it gets requests, and the function that ends it with its exit code."""

    __slots__ = ("pid", "connection", "_exit_code")

    def __init__(self, pid: int, connection: Any, exit_code: Callable[[], int | None]) -> None:
        self.pid = pid
        self.connection = connection
        self._exit_code = exit_code

    def end(self) -> str:
        """Wait for the process; returns its exit status or signal as text."""
        self.connection.close()
        code = self._exit_code()
        if code is not None and code < 0:
            import signal

            return signal.Signals(-code).name
        return f"exit status {'unknown' if code is None else code}"


class Pool:
    """At most `size` workers, started on demand and reused; they are ended before this process exits."""

    def __init__(self, size: int, serve: Serve, preload: Sequence[str] = (), patience: float = 2.0) -> None:
        """`serve` answers the requests of a connection until it is closed, and may then take `patience` seconds;
        `preload` are the modules that workers share."""
        # Registers a function that terminates daemonic processes at exit.  Functions registered later run earlier: the
        # workers finish, with their uploads, before they would be terminated.
        import multiprocessing.util

        self.size = size
        self._serve, self._preload, self._patience = serve, preload, patience
        self._context = multiprocessing.get_context("spawn")
        # No message is sent: the reader is at its end when this process has gone.
        self._owner, self._alive = self._context.Pipe(duplex=False)
        self._forker: Forker | None = None
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
                    worker = self._idle.pop() if self._idle else self.start()
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

    def start(self) -> _Worker:
        """Start a worker; raises WorkerDied after the last failed attempt."""
        for seconds in RESTART_SECONDS:
            connection, theirs = self._context.Pipe()
            try:
                return self._fork(connection, theirs) if FORKS else self._spawn(connection, theirs)
            except (EOFError, OSError) as error:
                reason = error
                connection.close()
                time.sleep(seconds)
            finally:
                theirs.close()
        raise WorkerDied(f"no process that compiles can be started: {reason}")

    def _fork(self, connection: Any, theirs: Any) -> _Worker:
        if self._forker is None or not self._forker.is_alive():
            self._forker = Forker(self._serve, self._preload, self._owner)
        forker = self._forker
        pid = forker.fork(theirs)
        return _Worker(pid, connection, lambda: forker.end(pid, self._patience))

    def _spawn(self, connection: Any, theirs: Any) -> _Worker:
        # Daemonic: it must not keep the build's process alive.
        process = self._context.Process(target=self._serve, args=(theirs, self._owner), daemon=True)
        with _without_main():
            process.start()

        def exit_code() -> int | None:
            process.join(self._patience)
            return process.exitcode

        return _Worker(process.pid or 0, connection, exit_code)

    def close(self) -> None:
        """End the idle workers, and wait for them."""
        with self._lock:
            for worker in self._idle:
                worker.connection.close()
            for worker in self._idle:
                worker.end()
            self._idle.clear()
            if self._forker is not None:
                self._forker.close()
                self._forker = None


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
    """Prevent a new process from importing the main program, which is SCons and not needed there."""
    main = sys.modules["__main__"]
    names = ("__file__", "__spec__")
    result: dict[str, Any] = {name: main.__dict__[name] for name in names if name in main.__dict__}
    main.__dict__.update(dict.fromkeys(result))
    try:
        yield
    finally:
        main.__dict__.update(result)
