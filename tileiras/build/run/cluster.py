"""Stages on other machines: `executor=dask://HOST:PORT` sends them to a scheduler of dask.distributed.

A worker receives and returns bytes; it needs this package and no file of the build.  Its results are accepted only if
its compiler and its tools are those in the key.  As under `-j`, one request also runs the later stages of a kernel, as
long as each produces a new result.  Stages that read files besides their input (a Python source's imports) run locally.

A lost worker costs time only: the scheduler passes its work to another.  Any other failure of the cluster turns it off
for this build with one warning, and the stages run locally.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from typing import Any

import tileiras
from tileiras import pipeline
from tileiras.build.run.execute import Session
from tileiras.build.run.produce import location_table, produce
from tileiras.build.scons.variables import scheduler_address
from tileiras.build.step import Report, Step, report
from tileiras.build.store.fingerprint import stage_roots, tree_state
from tileiras.build.store.local import OFF, ArtifactStore, Record
from tileiras.diagnostics import CompileError, ExitCode
from tileiras.stages import locations
from tileiras.support import extras
from tileiras.support.files import read_if_there
from tileiras.support.named_tuple import NamedTuple

MISSING_PACKAGE = f"needs Dask: {extras.install('distributed')}"

CONNECT_SECONDS = 3.0

LOOK_SECONDS = 2.0
"""Seconds between two checks that the cluster still has workers."""

ALONE_SECONDS = 10.0
"""Seconds to wait for a cluster without workers: a lost worker may be restarted meanwhile."""

JOBS = 32
"""Default number of concurrent stages without `-j`: threads that wait for a cluster use no processor here."""


class Link(NamedTuple):
    """One step of a chain."""

    step: Step
    signature: bytes
    """The required `Session.signature` on the worker."""
    before: str | None
    """The digest of the existing product: if the stage produces the same, the chain ends."""


class Work(NamedTuple):
    links: list[Link]
    files: dict[str, bytes | None]
    """The first step's input, location files and files beside the input, by path."""


class Made(NamedTuple):
    """The result of one link: a record, or the diagnostics and the code of an error."""

    record: bytes
    diagnostics: dict[str, Any]
    code: int


class OtherCompiler(Exception):
    """A worker has another compiler, or other tools, than the build."""


# ---- in the worker ---------------------------------------------------------------------------------------------------


class _Compiler:
    """The compiler of this process, as of its first use."""

    def __init__(self) -> None:
        import importlib

        self._session = Session(ArtifactStore(OFF, print, OFF))
        self._package = os.path.join(self._session.code.root, "tileiras")
        self._files = tree_state(self._package)
        self.store = tileiras.codegen.bitcode_library.MemoryStore()
        # Modules loaded later could be of another version.
        for row in (*pipeline.STAGES, *pipeline.CPU, *pipeline.BESIDE):
            if not row.reads_files:
                for module in self._session.code.closure(stage_roots(row))[0]:
                    importlib.import_module(module)

    def check(self, link: Link) -> None:
        """Raise OtherCompiler."""
        where = _host()
        if tree_state(self._package) != self._files:
            raise OtherCompiler(f"the compiler on {where} has changed since its worker was started")
        if self._session.signature(link.step.stage, link.step.options) != link.signature:
            raise OtherCompiler(f"{where} has another compiler, or other tools, for stage '{link.step.stage.name}'")


def _host() -> str:
    import socket

    return socket.gethostname()


_starting = threading.Lock()


@functools.cache
def _compiler() -> _Compiler:
    return _Compiler()


def perform_links(work: Work) -> list[Made]:
    """Run a chain; return the result of each stage, up to the first that fails or reproduces the existing product.

    Raises OtherCompiler.
    """
    with _starting:
        compiler = _compiler()
    files = dict(work.files)
    results: list[Made] = []
    for link in work.links:
        compiler.check(link)
        step = link.step
        data = files[step.input]
        assert data is not None
        table = location_table([files.get(path) for path in step.locations], step.source_name)
        beside = {suffix: content for suffix, path in step.beside.items() if (content := files.get(path)) is not None}
        try:
            record, _ = produce(step, data, table, beside, compiler.store)
        except CompileError as error:
            diagnostics = locations.encode_diagnostics(error.diagnostics, step.source_name)
            results.append(Made(b"", diagnostics, int(error.code)))
            break
        results.append(Made(record.to_bytes(), {}, 0))
        for suffix in step.suffixes:
            files[step.stem + suffix] = record.artifacts[suffix]
        if _digest(files[step.outputs[0]]) == link.before:
            break
    return results


def _digest(data: bytes | None) -> str | None:
    import xxhash

    return None if data is None else xxhash.xxh3_128_hexdigest(data)


# ---- in the build ----------------------------------------------------------------------------------------------------


class Cluster:
    """A scheduler's client, connected at the first use."""

    def __init__(self, executor: str, warn: Callable[[str], None]) -> None:
        """Raise ValueError for an invalid address, ImportError without the package."""
        import importlib.util

        self.name = executor
        self._address = scheduler_address(executor)
        if importlib.util.find_spec("distributed") is None:
            raise ImportError(f"executor={executor} {MISSING_PACKAGE}")
        self._warn = warn
        self._off = False
        self._lock = threading.Lock()
        self._client: Any = None

    def perform(self, session: Session, step: Step) -> list[Report] | None:
        """Perform a step and possibly its successors; return their reports, None if it must be performed locally."""
        if self._off or step.stage.reads_files:
            return None
        data = read_if_there(step.input)
        if data is None:
            return None
        links: list[Link] = []
        current: Step | None = step
        while current is not None:
            before = _digest(read_if_there(current.outputs[0]))
            links.append(Link(_alone(current), session.signature(current.stage, current.options), before))
            current = current.next
        files = {path: read_if_there(path) for path in (*step.locations, *step.beside.values())}
        answer = self._ask(Work(links, {**files, step.input: data}))
        # A file that could not be written is one of the other machine: the stage runs locally.
        if answer is not None and answer[-1].code == ExitCode.USAGE:
            answer.pop()
        if not answer:
            return None
        return self._take(session, step, data, answer)

    def _take(self, session: Session, step: Step, data: bytes, answer: list[Made]) -> list[Report]:
        reports: list[Report] = []
        current: Step | None = step
        for item in answer:
            assert current is not None
            result: Record | CompileError
            if item.code:
                table = location_table([read_if_there(path) for path in current.locations], current.source_name)
                diagnostics = locations.decode_diagnostics(item.diagnostics, current.source_name, table)
                result = CompileError(diagnostics, ExitCode(item.code))
            else:
                result = Record.from_bytes(item.record)
            outcome = session.take(current, data, result)
            reports.append(report(outcome, current))
            if outcome.error is not None or outcome.cached or isinstance(result, CompileError):
                break
            data = result.artifacts[current.suffixes[0]]
            current = current.next
        return reports

    def _ask(self, work: Work) -> list[Made] | None:
        """Run a chain on the cluster; None, after a warning, if the cluster fails."""
        from distributed import CancelledError, KilledWorker

        try:
            return self._result(self._connect().submit(perform_links, work, pure=False))
        except KilledWorker:
            return None  # several workers died while running it: the local run reports the cause
        # Clusters fail in many ways: unreachable, without this package, with another version of Python.
        except (Exception, CancelledError) as error:
            self._turn_off(error)
            return None

    def _result(self, future: Any) -> Any:
        """Wait for a result while the cluster has workers."""
        import time

        from distributed import TimeoutError

        alone_since = None
        while True:
            try:
                return future.result(timeout=LOOK_SECONDS)
            except TimeoutError:
                if future.done():
                    return future.result()
            if self._client.nthreads():
                alone_since = None
            elif alone_since is None:
                alone_since = time.monotonic()
            elif time.monotonic() - alone_since > ALONE_SECONDS:
                raise OSError("it has no workers")

    def _connect(self) -> Any:
        with self._lock:
            if self._off:
                raise OSError("it is turned off")
            if self._client is None:
                import atexit
                import logging

                import dask
                from distributed import Client

                # Failures of the cluster are reported here, once.
                logging.getLogger("distributed").setLevel(logging.CRITICAL)
                dask.config.set({"distributed.comm.timeouts.connect": CONNECT_SECONDS})
                self._client = Client(self._address, timeout=CONNECT_SECONDS, set_as_default=False)
                atexit.register(self.close)
            return self._client

    def close(self) -> None:
        with self._lock:
            if self._client is not None:
                self._client.close(timeout=1)
                self._client = None

    def _turn_off(self, error: BaseException) -> None:
        with self._lock:
            if self._off:
                return
            self._off = True
        lines = str(error).splitlines()
        self._warn(
            f"executor {self.name}: {lines[0] if lines else type(error).__name__}; stages run here for this build"
        )


def _alone(step: Step) -> Step:
    """Copy a step without its successors, which have their own links."""
    result = Step(
        step.stage, step.input, step.stem, step.suffixes, step.source_name, step.source_path, step.options, step.entry,
        step.locations,
    )  # fmt: skip
    result.override, result.overridden = step.override, step.overridden
    return result
