"""Watch mode: kernels are rebuilt when they are saved.

File-system events trigger a check, and the content of the files decides, so all ways in which an editor saves a file
(in place, a temporary file and a rename, a backup and a new file) are equivalent.  The stages are those of a build,
with its keys, its store and its artifacts, performed in this process, which keeps the compiler loaded.
"""

from __future__ import annotations

import functools
import os
import queue
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from tileiras import pipeline
from tileiras.build import discover, plan, remark_files, tuned
from tileiras.build.ledger.history import noted_inputs
from tileiras.build.ledger.leftovers import Evaluated, Leftovers, Removed
from tileiras.build.ledger.lock import turn
from tileiras.build.run import dispatch
from tileiras.build.run.execute import Session, perform_here
from tileiras.build.step import Report, Step
from tileiras.build.store.fingerprint import tree_state
from tileiras.build.watch.debounce import Events, saved_files
from tileiras.build.watch.events import POLL, folders_in, observed, outermost
from tileiras.build.watch.outputs import Consumers
from tileiras.build.watch.targets import Single, Tree
from tileiras.diagnostics import CompileError, plural
from tileiras.inputs import UNSEEN, Input, kinds
from tileiras.stages.units import Source
from tileiras.support.files import content_digest
from tileiras.support.named_tuple import NamedTuple

SWEEP = 2.0
"""Seconds after which files are checked without an event: some systems lose events, some file systems send none."""

TOGETHER = 4
"""Minimum number of changed kernels to build in worker processes; for fewer, starting the processes takes longer."""


class Restart(Exception):
    """A change that requires a restart of this process; the message names it."""


class Done(NamedTuple):
    """The result of building one kernel: the reports of the performed stages, in order."""

    reports: list[Report]
    cut: Step | None
    """The first stage of an unchanged tail, from which on no stage had to be performed."""


class Watch:
    """Keeps kernels up to date.  Paths of builds are relative to the working directory."""

    def __init__(
        self,
        watched: Sequence[Tree | Single],
        session: Session,
        scripts: Sequence[str] = (),
        jobs: int = 1,
        out: Callable[[str], None] | None = None,
        error: Callable[[str], None] | None = None,
        consumers: Consumers | None = None,
    ) -> None:
        """`scripts` are files whose change invalidates the whole configuration: see Restart.  `consumers` is triggered
        after each build of kernels."""
        self._watched = watched
        self._session = session
        self._jobs = jobs
        self._out = out or _writer(sys.stdout)
        self._error = error or _writer(sys.stderr)
        self._consumers = consumers
        self._files: dict[str, tuple[tuple[int, int, int], str]] = {}
        self._imports: dict[str, tuple[str, list[str]]] = {}
        self._kernels: dict[tuple[str, str], tuple[Single, tuple[str, ...]]] = {}
        """(stem, product) -> a kernel, with the digests of the files that it is read from and the changes of its other
        inputs since it was built."""
        self._readers: dict[str, list[tuple[str, str]]] = {}
        """Real path of a file -> the kernels that are read from it."""
        self._saved: dict[str, float] = {}
        """Real path of a source -> the time of its last save seen by this watch."""
        self._builds = {item.build for item in watched}
        self._leftovers = Leftovers(session) if session.history is not None else None
        self._plans: dict[tuple[str, str], tuple[str, plan.Plan, Sequence[str]]] = {}
        """The digest of the source, the steps and the entries."""
        self._scripts = {path: self._digest(path) for path in scripts}
        self._heard: set[str] = set()
        """Real paths of files besides sources whose events are handled."""
        self._script_files = self._find_scripts()
        self._package = os.path.join(session.code.root, "tileiras")
        self._code = tree_state(self._package)

    # ---- changes -----------------------------------------------------------------------------------------------------

    def scan(self) -> tuple[list[Single], list[Single]]:
        """Return the kernels that are new or changed since the last call, and the deleted ones; raises Restart."""
        for path, digest in self._scripts.items():
            if self._digest(path) != digest:
                raise Restart(f"{os.path.relpath(path)} changed")
        for path in sorted(self._script_files ^ self._find_scripts()):
            raise Restart(f"{os.path.relpath(path)} is {'new' if os.path.exists(path) else 'gone'}")
        if tree_state(self._package) != self._code:
            raise Restart("the compiler changed")
        before, self._kernels, self._readers = self._kernels, {}, {}
        changed = []
        for kernel in self._listed():
            key = (self._stem(kernel), kernel.emit)
            inputs = self._note(key, kernel)
            if key not in before or before[key][1] != inputs:
                changed.append(kernel)
        absent = [kernel for key, (kernel, _) in before.items() if key not in self._kernels]
        return changed, absent

    def look(self, paths: Collection[str] | None) -> tuple[list[Single], list[Single]]:
        """Like `scan`, if only files of these real paths may have changed; None: any file.

        Only changes of sources, or modules, from which kernels are read avoid the check of every file.
        """
        for path in paths or ():
            self._saved[path] = time.time()
        if paths is None or not all(path in self._readers and os.path.isfile(path) for path in paths):
            return self.scan()
        keys = dict.fromkeys(key for path in sorted(paths) for key in self._readers[path])
        if not all(_is_for(self._kernels[key][0]) for key in keys):
            return self.scan()
        changed = []
        for key in keys:
            kernel, before = self._kernels[key]
            if self._note(key, kernel) != before:
                changed.append(kernel)
        return changed, []

    def _note(self, key: tuple[str, str], kernel: Single) -> tuple[str, ...]:
        """Record a kernel and the files that it reads; return the digests of its inputs."""
        paths = self._inputs(kernel.path)
        reads = self._reads(kernel)
        base = os.path.dirname(_real(kernel.path))
        inputs = (*map(self._digest, paths), *kinds.changes(reads, base))
        self._kernels[key] = (kernel, inputs)
        further = kinds.files(reads, base)
        self._heard.update(map(_real, further))
        paths = [*paths, *further]
        for path in paths:
            readers = self._readers.setdefault(_real(path), [])
            if key not in readers:
                readers.append(key)
        return inputs

    def _reads(self, kernel: Single) -> list[Input]:
        """Return the comparable inputs that the modules of a kernel read when it was last built."""
        history = self._session.history
        if history is None or not kernel.path.endswith(".py"):
            return []
        entry = history.entry(self._stem(kernel), "export")
        return [row for row in noted_inputs(entry) if row.kind != UNSEEN] if entry is not None else []

    def _settle(self, kernel: Single) -> None:
        """Record that a kernel was built, and clear the changes of its other inputs: the build recorded the states."""
        key = (self._stem(kernel), kernel.emit)
        if key in self._kernels and kernel.path.endswith(".py"):
            count = len(self._inputs(kernel.path))
            self._kernels[key] = (kernel, self._kernels[key][1][:count])

    def _in_order(self, kernels: Sequence[Single]) -> list[Single]:
        """Sort kernels by the last save of their sources, and then by modification time, latest first."""

        def age(kernel: Single) -> tuple[float, float]:
            try:
                changed = os.stat(kernel.path).st_mtime
            except OSError:
                changed = 0.0
            return -self._saved.get(_real(kernel.path), 0.0), -changed

        return sorted(kernels, key=age) if len(kernels) > 1 else list(kernels)

    def _find_scripts(self) -> set[str]:
        """Find the SConscripts that a script may read: in its folder, its subfolders, and the folders of kernels."""
        if not self._scripts:
            return set()
        folders = {os.path.dirname(path) for path in self._scripts}
        for folder in list(folders):
            folders.update(folders_in(folder))
        for item in self._watched:
            if isinstance(item, Tree):
                below = [item.directory]
                while below:
                    folder = below.pop()
                    folders.add(folder)
                    below += folders_in(folder)
        return {path for folder in folders if os.path.isfile(path := os.path.join(folder, "SConscript"))}

    def _listed(self) -> Iterator[Single]:
        for item in self._watched:
            if isinstance(item, Single):
                if os.path.isfile(item.path):
                    yield item
                continue
            for name in _kernel_files(item.directory):
                if name.endswith(".py") and not discover.has_front_end():
                    continue
                path = os.path.join(item.directory, name)
                full = os.path.join(item.prefix, name).replace(os.sep, "/")
                for options, emit in item.variants:
                    kernel = Single(path, full, options, emit, item.build, item.entries)
                    if _is_for(kernel):
                        yield kernel

    def _inputs(self, path: str) -> list[str]:
        """Return the files that a kernel is read from, and the file of its options, which may be absent."""
        if not path.endswith(".py"):
            return [path, tuned.path_of(path)]
        row = self._imports.get(path)
        if row is not None and row[0] == "".join(map(self._digest, row[1])):
            return row[1]
        inputs = [path, tuned.path_of(path), *discover.imported_files(path)]
        self._imports[path] = ("".join(map(self._digest, inputs)), inputs)
        return inputs

    def _digest(self, path: str) -> str:
        """The digest of a file's content, read again when its times have changed; empty without the file."""
        try:
            status = os.stat(path)
            state = (status.st_size, status.st_mtime_ns, status.st_ino)
            row = self._files.get(path)
            # A file may change again within a tick of its clock: so young a one is always read.
            if row is not None and row[0] == state and status.st_mtime_ns < time.time_ns() - 50_000_000:
                return row[1]
            digest = content_digest(path)
        except OSError:
            return ""
        self._files[path] = (state, digest)
        return digest

    # ---- building ----------------------------------------------------------------------------------------------------

    def build(self, kernels: Sequence[Single], start: float | None = None) -> bool:
        """Build kernels and print a line for each, or one line for many; return whether all succeeded.

        `start` is when the change was noticed (`time.perf_counter`).
        """
        start = time.perf_counter() if start is None else start
        many = len(kernels) > TOGETHER
        reports: list[Report] = []
        failed = 0
        result: set[tuple[str, str]] = set()
        for kernel, outcome in self._all(self._in_order(kernels)):
            failed += any(report.code for report in outcome.reports)
            self._settle(kernel)
            reports += outcome.reports
            for report in outcome.reports:
                # A mistake recurs for targets and products.
                if report.text and (kernel.path, report.text) not in result:
                    self._error(report.text)
                result.add((kernel.path, report.text))
            text = "" if any(report.code for report in outcome.reports) else self._remarks(kernel)
            if text:
                self._error(text)
            if not many:
                self._out(_line(kernel, outcome, time.perf_counter() - start))
            if not any(report.code for report in outcome.reports):
                self._tell(self._removed_of(kernel, is_absent=False))
        if many:
            ran = sum(not report.cached for report in reports)
            words = [f"{ran} stages run", f"{len(reports) - ran} from the store"]
            words += [f"{failed} kernels failed"] if failed else []
            self._out(f"{len(kernels)} kernels: {', '.join(words)}  {_milliseconds(time.perf_counter() - start)}")
        if self._consumers is not None and not failed:
            self._consumers.ask()
        return not failed

    def _all(self, kernels: Sequence[Single]) -> Iterator[tuple[Single, Done]]:
        """Yield every kernel once it and those before it are built."""
        if len(kernels) < TOGETHER or self._jobs < 2:
            for kernel in kernels:
                with self._session.store.writing_later():
                    outcome = self._try(kernel, 1)
                    yield kernel, outcome
            return
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(self._jobs) as threads:
            yield from zip(kernels, threads.map(lambda kernel: self._try(kernel, self._jobs), kernels), strict=True)

    def _try(self, kernel: Single, jobs: int) -> Done:
        try:
            return self._build(kernel, jobs)
        except CompileError as error:
            failed = Report(self._stem(kernel), "read", None, False, error.code, error.render(), 0.0)
            return Done([failed], None)

    def _build(self, kernel: Single, jobs: int) -> Done:
        reports: list[Report] = []
        cut: Step | None = None
        broken: set[str] = set()
        for step in self._plan(kernel).steps:
            if step.input in broken:
                broken.update(step.outputs)
                continue
            staleness = self._session.staleness(step)
            if staleness.digests is not None:
                cut = cut or step
                continue
            if staleness.damaged is not None:
                self._out(f"{os.path.relpath(staleness.damaged)} differs from its stage's output: rebuilding it")
            cut = None
            # A single kernel is built sooner than a request reaches another process.
            result = perform_here(self._session, step) if jobs < 2 else dispatch.perform(self._session, step, jobs)
            reports.append(result)
            if result.code:
                broken.update(step.outputs)
        return Done(reports, cut)

    def _plan(self, kernel: Single) -> plan.Plan:
        stem = self._stem(kernel)
        digest = self._digest(kernel.path) + self._digest(tuned.path_of(kernel.path))
        # The names of kernels may be computed from the inputs of the modules.
        digest += "".join(row.state for row in kinds.now(self._reads(kernel), os.path.dirname(_real(kernel.path))))
        memo = self._plans.get((stem, kernel.emit))
        if memo is not None and memo[0] == digest:
            return memo[1]
        entries = kernel.entries
        if entries is None:
            try:
                entries = discover.entry_names(Source.read(kernel.path, kernel.name))
            except CompileError:
                entries = []  # its stages report the error
        result = plan.plan(kernel.path, kernel.name, kernel.path, stem, kernel.options, kernel.emit, entries)
        remark_files.remove_remarks(result.steps)
        self._plans[stem, kernel.emit] = (digest, result, entries)
        return result

    def _remarks(self, kernel: Single) -> str:
        """Return the remarks of a built kernel's stages, if requested."""
        return remark_files.remark_text(self._plan(kernel).steps) if kernel.options["emit-remarks"] else ""

    def _stem(self, kernel: Single) -> str:
        return plan.stem(plan.folder(kernel.build, kernel.options), kernel.path, kernel.name)

    # ---- the loop ----------------------------------------------------------------------------------------------------

    def run(self, poll: bool = False) -> None:
        """Build all kernels, then each changed one, until interrupted; raises Restart."""
        events: Events = queue.SimpleQueue()
        folders = [item.directory if isinstance(item, Tree) else os.path.dirname(item.path) for item in self._watched]
        folders = outermost([*folders, self._package])
        scripts = set(map(os.path.realpath, self._scripts))
        around = sorted({os.path.dirname(path) for path in scripts})
        self._heard |= scripts
        with observed(folders, around, events, self._error, poll, self._heard) as observing:
            with turn(self._builds, self._out):
                changed, _ = self.scan()
                self._expect_leftovers()
                whole = self.build(changed)
                if whole:
                    self._remove_from_trees()
            self._load()
            self._out(f"watching {len(self._kernels)} kernels" + ("" if whole else "; some failed"))
            while True:
                paths = saved_files(events, SWEEP if observing else POLL, self._readers)
                start = time.perf_counter()
                changed, absent = self.look(paths)
                if not changed and not absent:
                    continue
                with turn(self._builds, self._out):
                    for kernel in absent:
                        count = sum(len(removed.files) for removed in self._removed_of(kernel, is_absent=True))
                        self._out(f"{_name(kernel)}: deleted" + (f"  {plural(count, 'artifact')}" if count else ""))
                    if changed:
                        self.build(changed, start)
                    elif self._consumers is not None:
                        self._consumers.ask()

    # ---- artifacts of deleted kernels --------------------------------------------------------------------------------

    def _trees(self) -> Iterator[Evaluated]:
        """Every folder and variant with its kernels, as the last scan found them."""
        for item in self._watched:
            for options, emit in item.variants if isinstance(item, Tree) else ():
                folder = plan.folder(os.path.abspath(item.build), options)
                kernels = {}
                for kernel, _ in self._kernels.values():
                    if kernel.options is options and kernel.emit == emit and kernel.build == item.build:
                        kernels[kernel.path] = (os.path.abspath(self._stem(kernel)), self._entries(kernel))
                yield Evaluated(item.directory, folder, options, kernels)

    def _expect_leftovers(self) -> None:
        """Make the next SCons build search for leftovers, in case this watch ends before it removes them."""
        for evaluated in self._trees() if self._leftovers is not None else ():
            self._leftovers.may_come(evaluated)

    def _remove_from_trees(self) -> None:
        for evaluated in self._trees() if self._leftovers is not None else ():
            self._tell(self._leftovers.remove(evaluated))

    def _removed_of(self, kernel: Single, is_absent: bool) -> list[Removed]:
        """Remove the artifacts of a deleted kernel, or of entries that a kernel no longer has."""
        if self._leftovers is None:
            return []
        stem = os.path.abspath(self._stem(kernel))
        variant_folder = plan.folder(os.path.abspath(kernel.build), kernel.options)
        folder = os.path.dirname(kernel.path)
        kernels = {} if is_absent else {kernel.path: (stem, self._entries(kernel))}
        return self._leftovers.remove(Evaluated(folder, variant_folder, kernel.options, kernels, [stem]))

    def _tell(self, removed: Sequence[Removed]) -> None:
        for one in removed:
            self._out(f"removed {one}")

    def _entries(self, kernel: Single) -> Sequence[str] | None:
        """Return the entries of a kernel; None if only some are requested."""
        row = self._plans.get((self._stem(kernel), kernel.emit))
        return row[2] if row is not None and kernel.entries is None else None

    def close(self) -> None:
        """Stop the consumers."""
        if self._consumers is not None:
            self._consumers.close()

    def _load(self) -> None:
        """Load the modules of the stages, so that the first save need not wait for them."""
        import importlib

        emits = sorted({(kernel.emit, kernel.options["gpu-name"]) for kernel, _ in self._kernels.values()})
        lasts = [pipeline.emit_stage(*each)[0] for each in emits]
        for row in {row: None for last in lasts for row in pipeline.stages_between("read", last.name)}:
            for module in (row.module_name, *(f"tileiras.dialects.{name}" for name in row.dialects)):
                importlib.import_module(module)
        pipeline.start_ahead(*lasts)


def forever(watch: Watch, folder: str, command: Sequence[str], poll: bool = False) -> int:
    """Run a watch until it is interrupted.  On Restart, replace this process by `command`."""
    try:
        try:
            watch.run(poll)
        finally:
            watch.close()
    except KeyboardInterrupt:
        return 0
    except Restart as reason:
        sys.stdout.write(f"{reason}: starting again\n")
        sys.stdout.flush()
        os.chdir(folder)
        os.execv(command[0], list(command))
    return 0


@functools.lru_cache(1 << 16)
def _real(path: str) -> str:
    """Return a file's path as in events; folders of a watched tree are assumed not to be replaced by links."""
    return os.path.realpath(path)


def _is_for(kernel: Single) -> bool:
    return discover.is_for(kernel.path, kernel.options["gpu-name"])


def _name(kernel: Single) -> str:
    return f"{kernel.name} {kernel.options['gpu-name']}"


def _line(kernel: Single, outcome: Done, seconds: float) -> str:
    """`k.mlir sm_90: read, tileaa, cut off before tileas  12 ms, 9 ms in stages`."""
    words = [report.stage + (" (cached)" if report.cached else "") for report in outcome.reports]
    words = list(dict.fromkeys(words)) or ["nothing to do"]
    if outcome.reports and outcome.reports[-1].code:
        words[-1] += " failed"
    elif outcome.reports and outcome.cut is not None:
        words.append(f"cut off before {outcome.cut.stage.name}")
    stages = sum(report.seconds for report in outcome.reports if not report.cached)
    return f"{_name(kernel)}: {', '.join(words)}  {_milliseconds(seconds)}, {_milliseconds(stages)} in stages"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 10 else f"{seconds:.1f} s"


def _writer(file: Any) -> Callable[[str], None]:
    def write(text: str) -> None:
        file.write(text + "\n")
        file.flush()

    return write


def _kernel_files(directory: str) -> list[str]:
    try:
        return discover.kernel_files(directory)
    except OSError:
        return []  # the folder may be absent during a switch of branches
