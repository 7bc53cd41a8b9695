"""Instrumentation of passes: hooks before and after each, printers of the IR, times, traces.

Hooks before a pass are called in the order in which they were given, those after it in reverse.  They see the IR and
must leave it alone.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tileiras.diagnostics import CompileError, Diagnostic, DiagnosticEngine, ExitCode

from .operation import Operation
from .verifier import verify


class PassInstrumentation:
    """Called around every pass; `op` is the operation that the pipeline runs on."""

    spelled = ""
    """The textual pipeline of the pass that runs, with its options."""

    def before_pass(self, name: str, op: Operation) -> None: ...

    def after_pass(self, name: str, op: Operation) -> None: ...

    def after_failure(self, name: str, op: Operation) -> None:
        """Called while the error is handled."""

    def after_rejection(self, name: str, op: Operation) -> None:
        """Called if another instrumentation has rejected the pass's output; the error is being handled."""


class Step:
    """A pass that is running; if it replaces the operation, it stores the new one in `op`."""

    __slots__ = ("op",)

    def __init__(self, op: Operation) -> None:
        self.op = op


@contextlib.contextmanager
def instrumented(
    name: str, op: Operation, watchers: Sequence[PassInstrumentation], spelled: str = ""
) -> Iterator[Step]:
    """Run its block as the pass `name`."""
    step = Step(op)
    for watcher in watchers:
        watcher.spelled = spelled or f"builtin.module({name})"
        watcher.before_pass(name, op)
    try:
        yield step
    except Exception:
        for watcher in reversed(watchers):
            watcher.after_failure(name, step.op)
        raise
    try:
        for watcher in reversed(watchers):
            watcher.after_pass(name, step.op)
    except CompileError:
        for watcher in reversed(watchers):
            watcher.after_rejection(name, step.op)
        raise


class VerifyEach(PassInstrumentation):
    """Verifies the IR after every pass; raises CompileError (code 5) that names the pass.

    Given first it comes last, so that snapshots can be read when it fails.
    """

    def after_pass(self, name: str, op: Operation) -> None:
        engine = DiagnosticEngine()
        verify(op, engine)
        if engine.has_errors:
            engine.error(op.location, f"between-pass verifier rejected IR after '{name}'")
            raise CompileError(engine.diagnostics, ExitCode.COMPILE_FAILURE)


class IRPrinter(PassInstrumentation):
    """Snapshots of the IR below a banner with the pass's name, for `write`.

    `before` and `after` name passes, or are True for all; `changed_only` omits passes without changes.
    """

    def __init__(
        self,
        write: Callable[[str], Any],
        *,
        before: bool | frozenset[str] = False,
        after: bool | frozenset[str] = False,
        changed_only: bool = False,
        on_failure: bool = False,
        locations: bool = False,
    ) -> None:
        self._write = write
        self._before = before
        self._after = after
        self._changed_only = changed_only
        self._on_failure = on_failure
        self._locations = locations
        self._text = ""

    def _print(self, when: str, name: str, text: str) -> None:
        self._write(f"// *** IR Dump {when} {name} ***\n{text}\n")

    def _text_of(self, op: Operation) -> str:
        from .text.printer import print_op

        return print_op(op, locations=self._locations)

    def before_pass(self, name: str, op: Operation) -> None:
        is_listed = _names(self._before, name)
        if is_listed or self._changed_only:
            self._text = self._text_of(op)
        if is_listed:
            self._print("Before", name, self._text)

    def after_pass(self, name: str, op: Operation) -> None:
        if _names(self._after, name):
            text = self._text_of(op)
            if not self._changed_only or text != self._text:
                self._print("After", name, text)

    def after_failure(self, name: str, op: Operation) -> None:
        if self._on_failure:
            from .text.printer import print_op

            # The IR after a failed pass may be invalid; the generic form can represent it.
            self._print("After", f"{name} Failed", print_op(op, generic=True, locations=self._locations))

    after_rejection = after_failure


class CrashReproducer(PassInstrumentation):
    """Writes the input of a failed pass, below the command that runs this pass again; a note of the error gives the
    path.

    `write` takes the text, `path` is the file's name in the note.  If the file cannot be written, or for a later
    failure of the same run, there is a note as well: the error itself is reported in any case.
    """

    def __init__(self, path: str, write: Callable[[str], Any]) -> None:
        self._path = path
        self._write = write
        self._written = False
        self._text = ""

    def before_pass(self, name: str, op: Operation) -> None:
        from .text.printer import print_op

        self._text = print_op(op, locations=True)

    def _generate(self) -> str:
        """Write the file; return the text of the note."""
        if self._written:
            return f"no reproducer generated: `{self._path}` has that of an earlier failure"
        head = f"// tileiras-opt {self._path} --pass-pipeline='{self.spelled}'"
        try:
            self._write(f"{head}\n{self._text}\n")
        except CompileError as error:
            return "no reproducer generated: " + "; ".join(each.message for each in error.diagnostics)
        except OSError as error:
            return f"no reproducer generated: {self._path}: {error.strerror or error}"
        self._written = True
        return f"reproducer generated at `{self._path}`"

    def after_failure(self, name: str, op: Operation) -> None:
        import sys

        note = Diagnostic.note(None, self._generate())
        error = sys.exc_info()[1]
        if isinstance(error, CompileError) and error.diagnostics:
            error.diagnostics[-1].notes.append(note)
        else:
            print(note, file=sys.stderr)

    after_rejection = after_failure


def _names(selection: bool | frozenset[str], name: str) -> bool:
    return selection if isinstance(selection, bool) else name in selection


class PassTimer(PassInstrumentation):
    """Seconds of every pass, in the order in which they ran."""

    def __init__(self) -> None:
        self.seconds: list[tuple[str, float]] = []
        self._started = 0.0

    def before_pass(self, name: str, op: Operation) -> None:
        self._started = time.perf_counter()

    def after_pass(self, name: str, op: Operation) -> None:
        self.seconds.append((name, time.perf_counter() - self._started))

    after_failure = after_pass

    def report(self) -> str:
        """A table of wall times."""
        total = sum(seconds for _, seconds in self.seconds)
        rows = [*self.seconds, ("Total", total)]
        lines = ["   ---Wall Time---   ---Name---"]
        lines += [f"   {seconds:9.6f} s ({100 * seconds / (total or 1):3.0f} %)  {name}" for name, seconds in rows]
        return "\n".join(lines) + "\n"


class PassTrace(PassInstrumentation):
    """Events for a timeline viewer, one for every pass and one for each remark made meanwhile (Chrome's trace format).

    `follow` sets the source of remarks, `text` is the whole document.
    """

    def __init__(
        self, children: Mapping[str, Callable[[Operation, int], Iterable[dict[str, Any]]]] | None = None
    ) -> None:
        """`children`: name of a pass -> function that creates further events from its output, in processes behind those
        of the given number: each entry of a source is a module of its own."""
        self._children = children or {}
        self._remarks: Callable[[], Sequence[Any]] = tuple
        self._events: list[dict[str, Any]] = []
        self._origin = time.perf_counter()
        self._started = 0.0
        self._seen = 0

    def follow(self, remarks: Callable[[], Sequence[Any]]) -> None:
        """Set the source of remarks: `remarks` returns the diagnostics so far."""
        self._remarks = remarks
        self._seen = len(remarks())

    def _now(self) -> float:
        return round((time.perf_counter() - self._origin) * 1e6, 1)

    def before_pass(self, name: str, op: Operation) -> None:
        self._started = self._now()

    def after_pass(self, name: str, op: Operation) -> None:
        now = self._now()
        place = {"pid": 0, "tid": 0}
        duration = round(now - self._started, 1)
        self._events.append({"name": name, "ph": "X", "ts": self._started, "dur": duration, **place})
        remarks = self._remarks()
        for remark in remarks[self._seen :]:
            event = {"name": remark.message, "ph": "i", "ts": now, "s": "t", "args": remark.fields(), **place}
            self._events.append(event)
        self._seen = len(remarks)
        if name in self._children:
            self._events += self._children[name](op, max((event["pid"] for event in self._events), default=0))

    def after_failure(self, name: str, op: Operation) -> None:
        if name in self._children:
            self._children = {other: result for other, result in self._children.items() if other != name}
        self.after_pass(name, op)

    def text(self) -> str:
        import json

        return json.dumps({"traceEvents": self._events}, indent=1) + "\n"
