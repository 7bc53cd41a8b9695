"""Worker processes that run stages, for `scons -j`.

Threads do not help: the locks of Python and llvmlite let only one of them run at a time.  A worker is started for the
first stage that has to run, keeps the compiler loaded, and executes one chain of stages at a time.  A worker that dies
during a chain (out of memory, killed) is replaced and the chain retried once; a second death is reported.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from tileiras.build.ledger.history import History
from tileiras.build.ledger.lock import working
from tileiras.build.run.execute import Session
from tileiras.build.step import Report, Step, report
from tileiras.build.store.local import VERIFY, ArtifactStore
from tileiras.build.store.remote import DRAIN_LIMIT
from tileiras.pipeline import STAGES
from tileiras.processes import helper
from tileiras.support.files import read_if_there
from tileiras.support.named_tuple import NamedTuple


class WorkerDied(Exception):
    """A worker died twice on one request, or no worker can be started; the message gives the reason."""


class Place(NamedTuple):
    """The parameters from which another process creates the session."""

    directory: str
    mode: str
    limit: int
    build: str


class Request(NamedTuple):
    place: Place
    folder: str
    """The folder to which the paths of steps are relative."""
    step: Step
    remote_failure: str | None = None
    """Why the build has turned the team's server off, or None."""
    round_trip: float = 0.0
    """Seconds of a round trip to the server, measured by the build."""


class Reply(NamedTuple):
    reports: list[Report]
    """Reports of the requested step and of the successors that ran after it."""
    warnings: list[str]
    remote_failure: str | None = None
    """Why the team's server is off; the build reports it once and informs the other workers."""


# ---- in the worker ---------------------------------------------------------------------------------------------------


def perform_chain(session: Session, step: Step, wanted: Callable[[], bool] = lambda: True) -> list[Report]:
    """Perform a step and then its successors while each writes a new product and the chain is `wanted`.

    The chain ends at a step that hits the store, fails, or reproduces the existing product: the need for its
    successors is then not known.
    """
    reports: list[Report] = []
    current: Step | None = step
    while current is not None and wanted():
        before = read_if_there(current.outputs[0])
        # The build has already asked the team's server for the first step; VERIFY needs the row for comparison.
        outcome = session.perform(current, ask=bool(reports) or session.store.mode == VERIFY)
        reports.append(report(outcome, current))
        if outcome.error is not None or outcome.cached or read_if_there(current.outputs[0]) == before:
            break
        current = current.next
    return reports


def _say_nothing(message: str) -> None:
    pass


def serve(connection: Any) -> None:
    """Main loop of a worker: answer requests until the other end is closed."""
    import multiprocessing
    import signal

    # Ctrl-C reaches the whole foreground process group; the build alone handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        # A killed build sends no message, and ptxas may run for minutes: end it with the parent.
        helper.end_with(parent.sentinel)
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
            # The build prints the warning, once for all of its processes.
            remote.warn = _say_nothing
            remote.round_trip = request.round_trip
            if request.remote_failure is not None:
                remote.turn_off(request.remote_failure)
        with working(place.build):
            # Readable before the reply: only the end of the connection, after the build was killed.
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
"""Timeout of waiting for the end of a process, in seconds."""


class _Worker:
    __slots__ = ("process", "connection")

    def __init__(self) -> None:
        context = _context()
        self.connection, theirs = context.Pipe()
        # Daemonic: it must not keep the build's process alive.
        self.process = context.Process(target=serve, args=(theirs,), daemon=True)
        with _without_main():
            self.process.start()
        theirs.close()

    def end(self) -> str:
        """Wait for the process; returns its exit status or signal as text."""
        self.connection.close()
        self.process.join(END_SECONDS)
        code = self.process.exitcode
        if code is not None and code < 0:
            import signal

            return signal.Signals(-code).name
        return f"exit status {code}"


RESTART_SECONDS = (0.0, 0.05, 0.2, 1.0)
"""Delays after failed attempts to start a worker, in seconds."""


def _started() -> _Worker:
    """Start a worker; raises WorkerDied after the last failed attempt.

    Workers are forked by multiprocessing's fork server, which multiprocessing restarts after it has ended.  If the
    server was killed a moment ago, its end may not be visible yet, or it was just forking this worker: retry.
    """
    for seconds in RESTART_SECONDS:
        try:
            return _Worker()
        except (EOFError, OSError) as error:
            reason = error
            time.sleep(seconds)
    raise WorkerDied(f"no process that compiles can be started: {reason}")


class Pool:
    """At most `size` workers, started on demand and reused."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._idle: list[_Worker] = []
        self._free = threading.Semaphore(size)
        self._lock = threading.Lock()

    def run(self, request: Request) -> Reply:
        """Execute a request on a worker, waiting for a free one.  Raises WorkerDied."""
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
        """End the idle workers, after they have uploaded their artifacts."""
        with self._lock:
            for worker in self._idle:
                worker.connection.close()
            for worker in self._idle:
                worker.end()
            self._idle.clear()


START_METHOD = "forkserver" if sys.platform.startswith("linux") else "spawn"
"""Not a plain fork: with SCons' threads running, it may copy a lock that is held."""


def _context() -> Any:
    import multiprocessing

    context = multiprocessing.get_context(START_METHOD)
    if START_METHOD != "forkserver":
        return context
    _shorten_address()
    modules = [f"tileiras.dialects.{name}" for row in STAGES for name in row.dialects]
    modules += [row.module_name for row in STAGES if not row.reads_files]
    context.set_forkserver_preload(["tileiras.build.run.forking", __name__, *dict.fromkeys(modules)])
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
    kept = {name: main.__dict__[name] for name in ("__file__", "__spec__") if name in main.__dict__}
    main.__dict__.update(dict.fromkeys(kept))
    try:
        yield
    finally:
        main.__dict__.update(kept)
