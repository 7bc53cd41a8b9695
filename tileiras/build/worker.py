"""Stages in processes of their own, for `scons -j`.

Threads do not help: Python's lock and llvmlite's let one of them work at a time.  A worker is started for the first
stage that has to run, keeps the compiler loaded, and is handed one chain of stages at a time.  A worker that ends while
it works (out of memory, killed) is replaced and its chain tried once more; the second time it is reported.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from tileiras.build.execute import Session
from tileiras.build.history import History
from tileiras.build.lock import working
from tileiras.build.remote import DRAIN_LIMIT
from tileiras.build.step import Report, Step, report
from tileiras.build.store import VERIFY, ArtifactStore
from tileiras.codegen import isolation
from tileiras.files import read_if_there
from tileiras.named_tuple import NamedTuple


class WorkerDied(Exception):
    """A worker ended twice over one request, or none can be started; the message says how."""


class Place(NamedTuple):
    """What a session is made from in another process."""

    directory: str
    mode: str
    limit: int
    build: str


class Request(NamedTuple):
    place: Place
    folder: str
    """The folder that paths of steps start from."""
    step: Step
    remote_failure: str | None = None
    """Why the build does without the team's server, if it does."""
    round_trip: float = 0.0
    """Seconds that the server takes to answer the build."""


class Reply(NamedTuple):
    reports: list[Report]
    """Of the step that was asked for, and of those of its successors that ran as well."""
    warnings: list[str]
    remote_failure: str | None = None
    """Why the team's server is off, for the build to say it once and tell the other workers."""


# ---- in the worker ---------------------------------------------------------------------------------------------------


def perform_chain(session: Session, step: Step, wanted: Callable[[], bool] = lambda: True) -> list[Report]:
    """Performs a step and then its successors as long as each makes something new and the chain is `wanted`.

    A step that the store answers for, that fails, or whose product is what lies there already is the last: what follows
    it is not known to be needed.
    """
    reports: list[Report] = []
    current: Step | None = step
    while current is not None and wanted():
        before = read_if_there(current.outputs[0])
        # The build has asked a team's server for the first one, to compare it with a run as well.
        outcome = session.perform(current, ask=bool(reports) or session.store.mode == VERIFY)
        reports.append(report(outcome, current))
        if outcome.error is not None or outcome.cached or read_if_there(current.outputs[0]) == before:
            break
        current = current.next
    return reports


def _say_nothing(message: str) -> None:
    pass


def serve(connection: Any) -> None:
    """A worker's life: requests until the other end is closed."""
    import multiprocessing
    import signal

    # Ctrl-C reaches the whole foreground group; the build decides what happens then.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        # A build that is killed says nothing, and ptxas may have minutes to go.
        isolation.end_with(parent.sentinel)
    sessions: dict[Place, Session] = {}
    warnings: list[str] = []
    while True:
        try:
            request = connection.recv()
        except (EOFError, OSError):
            for session in sessions.values():
                session.store.close()
            return
        os.chdir(request.folder)
        place = request.place
        session = sessions.get(place)
        if session is None:
            store = ArtifactStore(place.directory, warnings.append, place.mode, place.limit)
            session = sessions[place] = Session(store, history=History(place.build))
        remote = session.store.remote
        if remote is not None:
            # The build says it, for all of its processes.
            remote.warn = _say_nothing
            remote.round_trip = request.round_trip
            if request.remote_failure is not None:
                remote.turn_off(request.remote_failure)
        with working(place.build):
            # There is nothing to receive meanwhile but the end of a build that was killed.
            if connection.poll():
                continue
            reports = perform_chain(session, request.step, lambda: not connection.poll())
        failure = remote.failure if remote is not None else None
        try:
            connection.send(Reply(reports, list(warnings), failure))
        except OSError:
            return
        warnings.clear()


# ---- in the build ----------------------------------------------------------------------------------------------------


END_SECONDS = DRAIN_LIMIT + 2
"""How long the end of a process is waited for."""


class _Worker:
    __slots__ = ("process", "connection")

    def __init__(self) -> None:
        context = _context()
        self.connection, theirs = context.Pipe()
        # A daemon: it must not keep the build's process alive.
        self.process = context.Process(target=serve, args=(theirs,), daemon=True)
        with _without_main():
            self.process.start()
        theirs.close()

    def end(self) -> str:
        """Waits for the process and tells how it ended."""
        self.connection.close()
        self.process.join(END_SECONDS)
        code = self.process.exitcode
        if code is not None and code < 0:
            import signal

            return signal.Signals(-code).name
        return f"exit status {code}"


RESTART_SECONDS = (0.0, 0.05, 0.2, 1.0)
"""What is waited for after each failed attempt to start a worker."""


def _started() -> _Worker:
    """A new worker; raises WorkerDied where there can be none.

    Workers are forked by a process of multiprocessing's, in whose place that puts another one once it has ended.  Where
    somebody has killed it a moment ago, the system does not say so yet, or it was about to fork this very worker.
    """
    for seconds in RESTART_SECONDS:
        try:
            return _Worker()
        except (EOFError, OSError) as error:
            reason = error
            time.sleep(seconds)
    raise WorkerDied(f"no process that compiles can be started: {reason}")


class Pool:
    """At most `size` workers, started when they are needed and used again."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._idle: list[_Worker] = []
        self._free = threading.Semaphore(size)
        self._lock = threading.Lock()

    def run(self, request: Request) -> Reply:
        """Has a worker answer a request; waits for one to be free.  Raises WorkerDied."""
        with self._free:
            ends = []
            for _ in range(2):
                with self._lock:
                    worker = self._idle.pop() if self._idle else None
                    if worker is None:
                        worker = _started()
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
        """Ends the workers that are idle, once they have uploaded what they made."""
        with self._lock:
            for worker in self._idle:
                worker.connection.close()
            for worker in self._idle:
                worker.end()
            self._idle.clear()


START_METHOD = "forkserver" if sys.platform.startswith("linux") else "spawn"
"""With SCons' threads about, a plain fork may copy a lock that is held."""


def _context() -> Any:
    import multiprocessing

    context = multiprocessing.get_context(START_METHOD)
    if START_METHOD != "forkserver":
        return context
    _shorten_address()
    from tileiras.pipeline import STAGES

    modules = [f"tileiras.dialects.{name}" for row in STAGES for name in row.dialects]
    modules += [row.module_name for row in STAGES if not row.reads_files]
    context.set_forkserver_preload(["tileiras.build.forking", __name__, *dict.fromkeys(modules)])
    return context


ADDRESS_BYTES = 107
"""The longest path of a socket (unix(7))."""


def _shorten_address() -> None:
    """Has multiprocessing's sockets be in /tmp when their paths in the folder for temporary files are too long."""
    import tempfile
    from multiprocessing import util

    longest = os.path.join(tempfile.gettempdir(), "pymp-xxxxxxxx", "listener-xxxxxxxx")
    if len(os.fsencode(longest)) <= ADDRESS_BYTES or not os.access("/tmp", os.W_OK):
        return
    usual, tempfile.tempdir = tempfile.tempdir, "/tmp"
    try:
        util.get_temp_dir()  # made once, and kept for this process
    finally:
        tempfile.tempdir = usual


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
    """Keeps a new process from importing the main program, which is SCons and no part of the work."""
    main = sys.modules["__main__"]
    kept = {name: main.__dict__[name] for name in ("__file__", "__spec__") if name in main.__dict__}
    main.__dict__.update(dict.fromkeys(kept))
    try:
        yield
    finally:
        main.__dict__.update(kept)
