"""Dispatch of steps: to this process, a cluster, or under `-j` a worker process, which also runs their successors.

SCons sees every stage as a node of its own.  If a worker has already run the later steps of a chain, their artifacts
exist when SCons reaches their nodes, which then return the worker's reports, provided the key is still the same.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import tileiras
from tileiras.build.run.execute import Session, perform_here
from tileiras.build.step import Report, Step, lie_there, report

if TYPE_CHECKING:
    from tileiras.processes.workers import Pool

_pool: Pool | None = None
_lock = threading.Lock()
_ahead: dict[tuple[str, str], Report] = {}
"""Reports of steps that workers ran before SCons requested them, by stem and stage."""


def perform(session: Session, step: Step, jobs: int) -> Report:
    """Make the artifacts of a step; with more than one job, in a worker unless the store has them.

    A session's cluster, if configured, is preferred to the workers of this machine.
    """
    if jobs < 2 and session.cluster is None:
        return perform_here(session, step)
    ready = _ahead.pop((step.stem, step.stage.name), None)
    if ready is not None and ready.key == session.key(step) and (ready.code or lie_there(step, ready.digests)):
        return ready
    outcome = session.answer(step)
    if outcome is not None:
        return report(outcome, step)
    if session.cluster is not None:
        reports = session.cluster.perform(session, step)
        if reports is not None:
            return _first_of(reports)
        # `jobs` is the capacity of the cluster: limit it to this machine.
        jobs = min(jobs, os.cpu_count() or 1)
        if jobs < 2:
            return perform_here(session, step)
    store = session.store
    build = session.history.build if session.history is not None else os.getcwd()
    place = tileiras.build.run.worker.Place(store.directory, store.mode, store.limit, build)
    try:
        remote = store.remote
        failure, trip = (remote.failure, remote.round_trip) if remote is not None else (None, 0.0)
        reply = _workers(jobs).run(tileiras.build.run.worker.Request(place, os.getcwd(), step, failure, trip))
    except tileiras.processes.workers.WorkerDied as error:
        return report(session.fail(step, str(error)), step)
    if reply.remote_failure is not None and store.remote is not None:
        store.remote.turn_off(reply.remote_failure)
    for message in reply.warnings:
        store.warn_once(message)
    session.ran(own.stem + suffix for own in reply.reports if not own.cached for suffix in own.digests)
    return _first_of(reply.reports)


def _first_of(reports: list[Report]) -> Report:
    """The report of the requested step; the others are kept until their steps are requested."""
    first, *others = reports
    for other in others:
        _ahead[other.stem, other.stage] = other
    return first


def _workers(jobs: int) -> Pool:
    global _pool
    with _lock:
        if _pool is None:
            _pool = tileiras.build.run.worker.pool(jobs)
        return _pool
