"""The sessions of a run of SCons, and its locks of build directories."""

from __future__ import annotations

import sys
from typing import Any

import SCons.Errors
import SCons.Script

import tileiras
from tileiras.build.ledger.history import History
from tileiras.build.ledger.lock import BuildLock, lock_of
from tileiras.build.run.execute import Session
from tileiras.build.scons.places import build_folder, from_top
from tileiras.build.scons.variables import scheduler_address
from tileiras.build.step import warn_on_stderr
from tileiras.build.store.fingerprint import CodeBase
from tileiras.build.store.local import OFF, READ_ONLY, ArtifactStore, default_mode, size_limit

_sessions: dict[tuple[str, str, str], Session] = {}


def session(env: Any) -> Session:
    """The session of an environment's store, build directory and executor."""
    words = env["TILE_CACHE"], env["TILE_BUILDDIR"], env["TILE_EXECUTOR"]
    if not any("$" in word for word in words if isinstance(word, str)) and words in _by_words:
        return _by_words[words]
    result = _by_words[words] = _session(env)
    return result


_by_words: dict[tuple[str, str, str], Session] = {}
"""Sessions by the construction variables."""


def _session(env: Any) -> Session:
    directory = env.subst("$TILE_CACHE")
    if directory.startswith("#"):
        directory = env.Dir(directory).abspath
    build = env.Dir(from_top(build_folder(env))).abspath
    executor = env.subst("$TILE_EXECUTOR")
    if executor:
        try:
            scheduler_address(executor)
        except ValueError as error:
            raise SCons.Errors.UserError(str(error)) from None
    result = _sessions.get((directory, build, executor))
    if result is None:
        try:
            store = ArtifactStore(directory, warn_on_stderr, _mode(), _limit())
        except ValueError as error:
            raise SCons.Errors.UserError(str(error)) from None
        idle = builds_nothing()
        code = CodeBase(memo=store.memo_path) if idle else None
        history = History(build, noting=not reads_only())
        result = _sessions[directory, build, executor] = Session(store, code, history)
        if executor and not idle:
            result.cluster = _cluster(executor)
    return result


def builds_nothing() -> bool:
    """Whether this run of SCons only reads or cleans, and so writes no artifacts."""
    return reads_only() or bool(SCons.Script.GetOption("clean"))


_READING = ("no_exec", "help", "question")
"""Options of runs that do not modify a build directory."""

locks: dict[str, BuildLock] = {}
"""The locks of the build directories in which this process writes."""


def reads_only() -> bool:
    return any(SCons.Script.GetOption(name) for name in _READING)


def take_turns(env: Any) -> None:
    """Lock an environment's build directory from now on, waiting for other processes that hold the lock.

    Must be called before any file is read there, including SCons' signatures, which SCons reads for the first target.
    """
    history = session(env).history
    assert history is not None
    build = history.build
    if build not in locks and not reads_only():
        locks[build] = lock_of(build, lambda line: print(line, file=sys.stderr))
        locks[build].acquire()


def _cluster(executor: str) -> Any:
    try:
        cluster = tileiras.build.run.cluster.Cluster(executor, warn_on_stderr)
    except (ValueError, ImportError) as error:
        raise SCons.Errors.UserError(str(error)) from None
    if SCons.Script.GetOption("num_jobs") == 1:
        SCons.Script.SetOption("num_jobs", tileiras.build.run.cluster.JOBS)
    return cluster


def _mode() -> str:
    """The store's mode: SCons' own --cache-disable and --cache-readonly, else the environment's."""
    if SCons.Script.GetOption("cache_disable"):
        return OFF
    if SCons.Script.GetOption("cache_readonly"):
        return READ_ONLY
    try:
        return default_mode()
    except ValueError as error:
        raise SCons.Errors.UserError(str(error)) from None


def _limit() -> int:
    try:
        return size_limit()
    except ValueError as error:
        raise SCons.Errors.UserError(f"TILEIRAS_CACHE_SIZE: {error}") from None
