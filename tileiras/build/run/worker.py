"""Stages in worker processes, for `scons -j`.

Threads do not help: the locks of Python and llvmlite let only one of them run at a time.  A worker keeps the compiler
loaded, and executes one chain of stages at a time.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from tileiras.build.ledger.history import History
from tileiras.build.ledger.lock import working
from tileiras.build.run.execute import Session
from tileiras.build.step import Report, Step, report, warn_on_stderr
from tileiras.build.store.local import VERIFY, ArtifactStore
from tileiras.build.store.remote import DRAIN_LIMIT
from tileiras.pipeline import STAGES
from tileiras.processes import helper
from tileiras.processes.workers import Pool
from tileiras.support.files import read_if_there
from tileiras.support.named_tuple import NamedTuple


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


def perform_chain(session: Session, step: Step, goes_on: Callable[[], bool] = lambda: True) -> list[Report]:
    """Perform a step and then its successors while each writes a new product and `goes_on()`.

    The chain ends at a step that hits the store, fails, or reproduces the existing product: the need for its
    successors is then not known.
    """
    reports: list[Report] = []
    current: Step | None = step
    while current is not None and goes_on():
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


def serve(connection: Any, owner: Any) -> None:
    """Main loop of a worker: answer requests until the other end is closed; `owner` is at its end when the build is."""
    import signal

    # Ctrl-C reaches the whole foreground process group; the build alone handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A killed build sends no message, and ptxas may run for minutes.
    helper.end_with(owner.fileno())
    sessions: dict[Place, Session] = {}
    warnings: list[str] = []
    while True:
        try:
            request = connection.recv()
        except (EOFError, OSError):
            for session in sessions.values():
                if session.store.remote is not None:
                    # The build takes no more replies.
                    session.store.remote.warn = warn_on_stderr
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


def pool(size: int) -> Pool:
    """At most `size` workers that share the modules of the stages; at their end they finish their uploads."""
    modules = [f"tileiras.dialects.{name}" for row in STAGES for name in row.dialects]
    modules += [row.module_name for row in STAGES if not row.reads_files]
    return Pool(size, serve, [__name__, *dict.fromkeys(modules)], DRAIN_LIMIT + 2)
