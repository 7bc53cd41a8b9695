"""One stage as a step of a build: files, a key, the artifact store, and location files.

A step reads its input file, looks up its key, runs the stage on a miss, and writes every artifact atomically.  This
module is independent of SCons.

The code that runs stages and reads locations (`produce`) is loaded on demand: a hit of the store needs neither.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import tileiras
from tileiras import build, inputs
from tileiras.build import NOTES
from tileiras.build.ledger import staleness
from tileiras.build.ledger.history import History
from tileiras.build.ledger.staleness import FAILED, Staleness
from tileiras.build.step import Outcome, Report, Step, read_beside, report
from tileiras.build.store.fingerprint import CodeBase
from tileiras.build.store.key import Keys, inputs_key, key_of
from tileiras.build.store.local import VERIFY, ArtifactStore, Record
from tileiras.build.store.schema import OWN_INPUTS
from tileiras.diagnostics import CompileError, Diagnostic, ExitCode
from tileiras.inputs import UNSEEN
from tileiras.support.files import read_if_there, remove_left_over, write_atomically
from tileiras.support.named_tuple import NamedTuple

if TYPE_CHECKING:
    from tileiras.build.run.cluster import Cluster
    from tileiras.stages.locations import LocationTable

NEAR_SECONDS = 0.02
"""Maximum round trip for which a server is queried although the previous stage had to run."""

CODE = os.path.join(NOTES, "code.log")
"""Log in a build directory with the compiler's fingerprints as of the last build."""

TEMPORARY = os.path.join(NOTES, "tmp")
"""Folder in a build directory for artifacts that are being written."""


class _Accepted(NamedTuple):
    """A run of a stage whose artifacts are to be written."""

    key: str
    digests: dict[str, str]
    """The digests of the artifacts by suffix."""


class _Lookup(NamedTuple):
    """The result of a look-up before the stage runs; `record` is the store's record, if any."""

    data: bytes
    beside: dict[str, bytes]
    parts: dict[str, Any]
    key: str
    full_key: str | None
    record: Record | None


class Session(Keys):
    """State shared by the steps of one process."""

    def __init__(self, store: ArtifactStore, code: CodeBase | None = None, history: History | None = None) -> None:
        self.history = history
        if code is None:
            log_path = os.path.join(history.build, CODE) if history is not None else None
            code = CodeBase(memo=store.memo_path, log_path=log_path)
        super().__init__(store, code)
        self._cleaned = False
        self.cluster: Cluster | None = None
        """Other machines that run stages, if the user named any."""
        self.digests: dict[str, str] = {}
        """Digests, by absolute path, of artifacts that this run made or verified against the last run of their step."""
        self._ran: set[str] = set()
        """Artifacts that a stage made in this run, by path."""

    # ---- steps -------------------------------------------------------------------------------------------------------

    def perform(self, step: Step, ask: bool = True) -> Outcome:
        """Make the artifacts of a step.  Errors of the input are not raised: see `Outcome.error`.

        `ask` is whether to query the team's server; False after a miss of `answer`, which has queried it.
        """
        result = self._look_up(step, ask)
        return result if isinstance(result, Outcome) else self._make(step, result)

    def answer(self, step: Step) -> Outcome | None:
        """Make the artifacts of a step from the store; None if its stage must run."""
        result = self._look_up(step)
        return result if isinstance(result, Outcome) else None

    def obtain(self, step: Step, data: bytes) -> tuple[Record, list[Diagnostic]]:
        """Return the record and the diagnostics of a step for the input `data`, from the store or by running the stage.

        Writes no artifact.  Raises CompileError.
        """
        result = self._find(step, data)
        if result.record is not None and self._serves(result):
            return result.record, self._diagnostics(step, result.record)
        return self._run_and_store(step, result)[:2]

    def key(self, step: Step) -> str | None:
        """Return the key of a step, or without a record of its further inputs the part known before the stage runs."""
        data = read_if_there(step.input)
        if data is None:
            return None
        parts = self.parts(step, data, read_beside(step))
        key = key_of(step.stage.name, parts)
        return self.with_inputs(step, key, parts) or key

    def ran(self, paths: Iterable[str]) -> None:
        """Record artifacts that a stage has made in this run, here or in another process."""
        self._ran.update(paths)

    def _asks(self, step: Step) -> bool:
        """Whether to query the team's server for a step.

        If the previous stage had to run, the server rarely has a record of this one, and a query takes as long as the
        stage unless the server is near (`docs/reports/scale.md`).
        """
        remote = self.store.remote
        return remote is not None and (step.input not in self._ran or remote.round_trip <= NEAR_SECONDS)

    def _look_up(self, step: Step, ask: bool = True) -> Outcome | _Lookup:
        try:
            with open(step.input, "rb") as file:
                data = file.read()
        except OSError as error:
            message = f"unable to read '{step.input}': {error.strerror}"
            return self._failed(step, CompileError.at(None, message, ExitCode.USAGE), [])
        result = self._find(step, data, ask)
        return self._serve(step, result) if self._serves(result) else result

    def _serves(self, lookup: _Lookup) -> bool:
        """Whether the build uses the store's record."""
        return lookup.record is not None and self.store.mode != VERIFY

    def _serve(self, step: Step, lookup: _Lookup) -> Outcome:
        assert lookup.record is not None
        digests = self._remember(step, lookup.parts, "served from the store", lookup.record)
        diagnostics = self._diagnostics(step, lookup.record)
        return self._finish(step, lookup.record, digests, diagnostics, lookup.full_key, cached=True)

    def _find(self, step: Step, data: bytes, ask: bool = True) -> _Lookup:
        beside = read_beside(step)
        parts = self.parts(step, data, beside)
        key = key_of(step.stage.name, parts)
        ask = ask and self._asks(step)
        full_key = self.with_inputs(step, key, parts, ask=ask)
        record = self.store.get_record(full_key, ask) if full_key is not None else None
        if record is not None and any(suffix not in record.artifacts for suffix in step.suffixes):
            record = None
        return _Lookup(data, beside, parts, key, full_key, record)

    def _diagnostics(self, step: Step, record: Record) -> list[Diagnostic]:
        if not record.diagnostics["diagnostics"]:
            return []
        rows = dict(record.diagnostics)
        return tileiras.stages.locations.decode_diagnostics(rows, step.source_name, self._table(step))

    def _make(self, step: Step, lookup: _Lookup) -> Outcome:
        try:
            record, result, accepted = self._run_and_store(step, lookup)
        except CompileError as error:
            return self._failed(step, error, [])
        return self._finish(step, record, accepted.digests, result, accepted.key, cached=False)

    def _run_and_store(self, step: Step, lookup: _Lookup) -> tuple[Record, list[Diagnostic], _Accepted]:
        """Run the stage; return its record, diagnostics and key.  Raises CompileError with all its diagnostics."""
        try:
            record, result = build.run.produce.produce(step, lookup.data, self._table(step), lookup.beside, self.store)
        except CompileError as error:
            if isinstance(error, build.run.produce.Failed):
                lookup.parts["inputs"] = inputs.states(error.inputs)
            self._remember(step, lookup.parts, FAILED)
            raise
        return record, result, self._accept(step, lookup, record, result)

    def take(self, step: Step, data: bytes, answer: Record | CompileError) -> Outcome:
        """Like `perform` on an input of `data`, with the result of another machine."""
        result = self._find(step, data)
        if self._serves(result):
            return self._serve(step, result)
        try:
            if isinstance(answer, CompileError):
                self._remember(step, result.parts, FAILED)
                raise answer
            entry = self._diagnostics(step, answer)
            accepted = self._accept(step, result, answer, entry)
            return self._finish(step, answer, accepted.digests, entry, accepted.key, cached=False)
        except CompileError as error:
            return self._failed(step, error, [])

    def _accept(self, step: Step, lookup: _Lookup, record: Record, diagnostics: list[Diagnostic]) -> _Accepted:
        """Store the record of a stage run.  Raises CompileError in mode `verify` if the store's record differs."""
        full_key = lookup.full_key
        if step.stage.reads_files:
            full_key = self.with_inputs(step, lookup.key, lookup.parts, record.inputs)
            if full_key is not None:
                rows = inputs.write(record.inputs)
                self.store.put(lookup.key + OWN_INPUTS, rows)
                self.store.publish(inputs_key(lookup.key), rows)
        step_record = self._remember(step, lookup.parts, "ran", record)
        self._ran.update(step.outputs)
        if lookup.record is not None:
            artifacts = lookup.record.artifacts
            differing = [suffix for suffix in step.suffixes if artifacts[suffix] != record.artifacts[suffix]]
            if differing:
                listed = ", ".join(differing)
                message = f"stage '{step.stage.name}' made another {listed} than the store has for its key"
                raise build.run.produce.after(
                    diagnostics, CompileError.at(build.run.produce.unit_location(self._table(step)), message)
                )
        if full_key is not None and not any(row.kind == UNSEEN for row in record.inputs):
            self.store.put_record(full_key, record)
        return _Accepted(full_key or lookup.key, step_record)

    def fail(self, step: Step, message: str) -> Outcome:
        """Return the outcome of a step that failed for a reason outside its stage."""
        return self._failed(step, CompileError.at(None, f"{step.source_name}: {message}"), [])

    def _remember(
        self, step: Step, parts: dict[str, Any], outcome: str, record: Record | None = None
    ) -> dict[str, str]:
        """Record a run of a step before its artifacts are written; return their digests by suffix."""
        import xxhash

        result: dict[str, str] = {}
        if record is not None:
            result = {suffix: xxhash.xxh3_128_hexdigest(record.artifacts[suffix]) for suffix in step.suffixes}
            outcome = FAILED if _fails(step, record) else outcome
        if self.history is None:
            return result
        self.history.add(
            step.stem, step.stage.name, step.source_name, step.source_path, self.variant(step.stage, step.options),
            outcome, parts, result, record.seconds if record is not None else None,
        )  # fmt: skip
        if not self.history.knows_code(parts["code"]):
            self.history.add_code(parts["code"], self.code.digests(step.stage))
        return result

    def _finish(
        self,
        step: Step,
        record: Record,
        digests: dict[str, str],
        diagnostics: list[Diagnostic],
        key: str | None,
        cached: bool,
    ) -> Outcome:
        try:
            for suffix in step.suffixes:
                path = step.stem + suffix
                if read_if_there(path) == record.artifacts[suffix]:
                    continue  # an artifact with the right content keeps its times
                write_atomically(path, record.artifacts[suffix], self._temporary(path), checked=True)
        except OSError as error:
            message = f"unable to write '{error.filename or path}': {error.strerror}"
            return self._failed(step, CompileError.at(None, message, ExitCode.USAGE), diagnostics)
        failure = CompileError(diagnostics, step.stage.error_code) if _fails(step, record) else None
        outcome = Outcome(cached, diagnostics, failure, record.seconds)
        outcome.key = key
        outcome.digests = digests
        return outcome

    def _temporary(self, path: str) -> str | None:
        """Return the build directory's folder for temporaries, for files below the build directory."""
        if self.history is None or not os.path.abspath(path).startswith(self.history.build + os.sep):
            return None
        folder = os.path.join(self.history.build, TEMPORARY)
        if not self._cleaned:
            os.makedirs(folder, exist_ok=True)
            self._cleaned = True  # only now: another thread may be about to write its first artifact
            remove_left_over(folder)
        return folder

    def _failed(self, step: Step, error: CompileError, diagnostics: list[Diagnostic]) -> Outcome:
        """Remove artifacts of earlier runs, which could be mistaken for those of this input; return the failure."""
        for path in step.outputs:
            try:
                os.unlink(path)
            except OSError:
                pass  # was not there
        whole = build.run.produce.after(diagnostics, error)
        return Outcome(False, whole.diagnostics, whole)

    # ---- existing artifacts ------------------------------------------------------------------------------------------

    def staleness(self, step: Step) -> Staleness:
        """As `build.ledger.staleness`."""
        return staleness.staleness(self, self.history, step)

    def may_be_kept(self, step: Step) -> bool:
        """As `build.ledger.staleness`."""
        return staleness.may_be_kept(self, self.history, step)

    def know(self, step: Step, digests: Mapping[str, str]) -> None:
        """Record the digests of a step's artifacts."""
        self.digests.update((os.path.abspath(step.stem + suffix), digest) for suffix, digest in digests.items())

    def _table(self, step: Step) -> LocationTable | None:
        """Return the location table of the step's input, referring to the current source; None if unreadable."""
        return build.run.produce.location_table([read_if_there(path) for path in step.locations], step.source_name)


def _fails(step: Step, record: Record) -> bool:
    """Whether a record has errors that fail its stage; only stages with an error code make such records in builds."""
    return step.stage.error_code != 0 and record.has_errors


def perform_here(session: Session, step: Step) -> Report:
    """Make the artifacts of a step in this process."""
    return report(session.perform(step), step)
