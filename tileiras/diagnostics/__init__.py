"""Located diagnostics: all messages to users about their programs.

A diagnostic is a severity, a location, a message and notes.  Only `render` renders it, as

    kernel.mlir:4:8: error: use of undeclared SSA value name
      %2 = addf %a, %b : tile<4xf32>
           ^

This module is at the bottom of the package and imports only `support` from it: a location is any object with
`resolve() -> FilePosition | None` and a readable `str()`.
"""

from __future__ import annotations

import _thread
import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from tileiras.support.lazy import lazy_names
from tileiras.support.named_tuple import NamedTuple

__getattr__ = lazy_names(__name__, globals())


class ExitCode(enum.IntEnum):
    """Exit codes of processes and `Program` calls; the numbers are the vendor driver's."""

    SUCCESS = 0
    USAGE = 1
    CONFIGURATION = 2
    INVALID_INPUT = 3
    HANDLE = 4
    COMPILE_FAILURE = 5

    @property
    def word(self) -> int:
        """The severity word with which the driver reports a failure of this code; 0 for success.

        The documentation gives 0x503 for rejections on one page and 2563 (0xA03) on another; only the former agrees
        with its description of the bits.
        """
        return _WORDS.get(self, 0)


class Severity(enum.Enum):
    ERROR = "error"
    WARNING = "warning"
    REMARK = "remark"
    NOTE = "note"

    @property
    def number(self) -> int:
        """The class of a severity word: 1 note, 2 warning, 3 error, 4 remark."""
        return _CLASSES[self]


_CLASSES = {Severity.NOTE: 1, Severity.WARNING: 2, Severity.ERROR: 3, Severity.REMARK: 4}

OPERATION_PREFIX = 0x100
"""Bit of a severity word: the diagnostic is about an operation, or the note of another one."""

CHILD = 0x200
"""Bit of a severity word: the diagnostic has a child with a trace."""

REJECTION = 0x400
"""Bit of a severity word: the request is rejected before a program exists, or without one."""

_WORDS = {
    ExitCode.USAGE: 0x103,
    ExitCode.CONFIGURATION: REJECTION | 0x103,
    ExitCode.INVALID_INPUT: 0x104,  # the class of a remark, as documented: the error itself was reported before
    ExitCode.HANDLE: REJECTION | 0x103,
    ExitCode.COMPILE_FAILURE: 0x103,
}

OPERATION_ERROR = 0x103
"""The severity word of an error about an operation (`emitOpError`)."""

TRACE_WORD = 0x104
"""The severity word of the child with a trace, as documented."""

TRACE = "diagnostic emitted with trace:\n"
"""Prefix of the child that gives the place in the compiler where a diagnostic was created."""


class FilePosition(NamedTuple):
    """A place in a file; `line` and `column` count from 1, 0 where unknown."""

    filename: str
    line: int
    column: int
    source_line: str | None = None


class Locatable(Protocol):
    def resolve(self) -> FilePosition | None: ...


class NamedOperation(Protocol):
    """An operation of any IR."""

    @property
    def name(self) -> str: ...

    @property
    def location(self) -> Any: ...


class KnownPlace:
    """A location that is already resolved: its position, or None, and its text."""

    __slots__ = ("_position", "_text")

    def __init__(self, position: FilePosition | None, text: str) -> None:
        self._position = position
        self._text = text

    def resolve(self) -> FilePosition | None:
        return self._position

    def __str__(self) -> str:
        return self._text


class Diagnostic:
    """One message to the user about one location."""

    __slots__ = ("severity", "location", "fragments", "notes", "_word")

    def __init__(
        self,
        severity: Severity,
        location: Locatable | None,
        message: str | Iterable[str | int],
        notes: Iterable["Diagnostic"] = (),
        word: int = 0,
    ) -> None:
        """`message` is the text, or the fragments that it consists of; `word` is the severity word of the site that
        emits it, by default the class of the severity alone."""
        self.severity = severity
        self.location = location
        self.fragments: Sequence[str | int] = [message] if isinstance(message, str) else list(message)
        self.notes = list(notes)
        self._word = word

    @classmethod
    def note(cls, location: Locatable | None, message: str) -> "Diagnostic":
        return cls(Severity.NOTE, location, message, word=OPERATION_PREFIX | 1)

    @classmethod
    def of_operation(
        cls, op: "NamedOperation", message: str, notes: Iterable["Diagnostic"] = (), location: Locatable | None = None
    ) -> "Diagnostic":
        """An error about an operation, whose text begins with `'dialect.operation' op `."""
        fragments = ("'", op.name, "' op ", message)
        return cls(Severity.ERROR, location or op.location, fragments, notes, OPERATION_ERROR)

    @property
    def message(self) -> str:
        return "".join(map(str, self.fragments))

    @property
    def position(self) -> FilePosition | None:
        return self.location.resolve() if self.location is not None else None

    @property
    def identity(self) -> tuple[str, ...]:
        """The key by which diagnostics are deduplicated, besides their notes."""
        return (self._headline(),)

    @property
    def word(self) -> int:
        """The severity word of 16 bits that the emitting site gave it: the class in the low byte, bit 8 for an error
        about an operation; bit 9 if a child has the trace."""
        traced = any(note.word == TRACE_WORD for note in self.notes)
        return (self._word or self.severity.number) | (CHILD if traced else 0)

    def relocate(self, location: Locatable | None, notes: Iterable["Diagnostic"]) -> "Diagnostic":
        """The same diagnostic with another location and other notes."""
        return Diagnostic(self.severity, location, self.fragments, notes, self._word)

    def fields(self) -> dict[str, Any]:
        """Plain values for structured output; file, line and column only if known."""
        result: dict[str, Any] = {"severity": self.severity.value, "message": self.message}
        position = self.position
        if position is not None:
            result.update(file=position.filename, line=position.line, column=position.column)
        elif self.location is not None and str(self.location) != "loc(unknown)":
            result["location"] = str(self.location)
        if self.notes:
            result["notes"] = [note.fields() for note in self.notes]
        return result

    def render(self, sources: Mapping[str, str] | None = None) -> str:
        """The text for a terminal; `sources` maps file names to contents, which are then not read from disk."""
        return render([self], sources)

    def _headline(self) -> str:
        text = f"{self.severity.value}: {self.message}"
        if self.location is None:
            return text
        position = self.position
        if position is None:
            described = str(self.location)
            return text if described == "loc(unknown)" else f"{described}: {text}"
        return f"{position.filename}:{position.line}:{position.column}: {text}"

    def __str__(self) -> str:
        return self._headline()

    def __repr__(self) -> str:
        return f"Diagnostic({self._headline()!r})"


def render(diagnostics: Iterable[Diagnostic], sources: Mapping[str, str] | None = None) -> str:
    """The text of several diagnostics for a terminal.

    Repeated diagnostics are shown once.  The source excerpt is omitted if the previous diagnostic points at the
    same place.
    """
    lines: list[str] = []
    last: FilePosition | None = None
    pending = unique(diagnostics)[::-1]
    while pending:
        diagnostic = pending.pop()
        pending += diagnostic.notes[::-1]
        lines.append(diagnostic._headline())
        position = diagnostic.position
        if position is not None and position.line > 0 and position[:3] != (last and last[:3]):
            lines += excerpt(position, sources)
        last = position
    return "\n".join(lines)


def unique(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """The diagnostics without repetitions: equal messages and notes at equal locations.

    A loop that was copied emits the diagnostics of its body twice.
    """

    def key(diagnostic: Diagnostic) -> tuple:
        return (*diagnostic.identity, *map(key, diagnostic.notes))

    result = list(diagnostics)
    return result if len(result) < 2 else list({key(diagnostic): diagnostic for diagnostic in result}.values())


def with_lines(diagnostics: Iterable[Diagnostic], name: str, text: str) -> list[Diagnostic]:
    """The same diagnostics; locations in the source `name` carry their line of `text`."""
    lines = text.split("\n")

    def quote(diagnostic: Diagnostic) -> Diagnostic:
        position = diagnostic.position
        location = diagnostic.location
        if position is not None and position.filename == name and 0 < position.line <= len(lines):
            location = KnownPlace(position._replace(source_line=lines[position.line - 1]), str(location))
        return diagnostic.relocate(location, list(map(quote, diagnostic.notes)))

    return list(map(quote, diagnostics))


def to_json(diagnostics: Iterable[Diagnostic]) -> str:
    """One line with a JSON object for each diagnostic, in order."""
    import json

    return "".join(json.dumps(d.fields(), ensure_ascii=False) + "\n" for d in unique(diagnostics))


def excerpt(position: FilePosition, sources: Mapping[str, str] | None = None) -> list[str]:
    """The source line and a caret under the column; empty if the line is not available."""
    line = position.source_line
    if line is None:
        text = sources.get(position.filename) if sources else None
        if text is not None:
            rows = text.split("\n")
            line = rows[position.line - 1] if position.line <= len(rows) else None
        else:
            import linecache

            try:
                line = linecache.getline(position.filename, position.line).rstrip("\n") or None
            except ValueError:  # an invalid name with a null character, from a damaged file
                line = None
    if line is None or not line.strip():
        return []
    # The padding keeps tabs, so that the caret is under its column in any terminal.
    padding = "".join(c if c == "\t" else " " for c in line[: max(position.column - 1, 0)])
    return [line, padding + "^"]


class CompileError(Exception):
    """A failed compilation: its diagnostics and exit code."""

    def __init__(self, diagnostics: Sequence[Diagnostic], code: int = ExitCode.COMPILE_FAILURE) -> None:
        self.diagnostics = list(diagnostics)
        self.code = int(code)
        super().__init__(self.diagnostics, self.code)

    def __str__(self) -> str:
        """The rendered diagnostics with source lines, for notebooks and tracebacks."""
        return self.render() or "failed to compile Tile IR program"

    def _render_traceback_(self) -> list[str]:
        """The text that IPython shows instead of a traceback, whose frames are those of the compiler."""
        return str(self).splitlines()

    @classmethod
    def at(
        cls,
        location: Locatable | None,
        message: str,
        code: int = ExitCode.COMPILE_FAILURE,
        notes: Iterable[Diagnostic] = (),
    ) -> "CompileError":
        return cls([Diagnostic(Severity.ERROR, location, message, notes, ExitCode(code).word)], code)

    @classmethod
    def at_operation(
        cls, op: "NamedOperation", message: str, code: int = ExitCode.COMPILE_FAILURE, notes: Iterable[Diagnostic] = ()
    ) -> "CompileError":
        """An error about an operation, whose text begins with `'dialect.operation' op `."""
        return cls([Diagnostic.of_operation(op, message, notes)], code)

    @property
    def word(self) -> int:
        """The severity word of the whole failure, from its code; `Diagnostic.word` is that of one diagnostic."""
        return ExitCode(self.code).word

    def render(self, sources: Mapping[str, str] | None = None) -> str:
        return render(self.diagnostics, sources)

    def attach_trace(self) -> None:
        """Add to each diagnostic without a trace a child with the place in the compiler where it was raised."""
        import traceback

        text = TRACE + "".join(traceback.format_tb(self.__traceback__)).rstrip()
        for diagnostic in self.diagnostics:
            if not any(note.message.startswith(TRACE) for note in diagnostic.notes):
                diagnostic.notes.append(Diagnostic(Severity.NOTE, None, text, word=TRACE_WORD))


Handler = Callable[[Diagnostic], Any]
"""Receives a diagnostic; returns True to accept it, so that it is not passed on."""


def offer(diagnostics: Iterable[Diagnostic], handlers: Iterable[Handler]) -> list[Diagnostic]:
    """The diagnostics that no handler accepts; handlers are called in order."""
    engine = DiagnosticEngine(handlers)
    for diagnostic in diagnostics:
        engine.emit(diagnostic)
    return engine.diagnostics


class InFlightDiagnostic:
    """A diagnostic under construction.  It is emitted once, by `report` or at the end of a `with`:

        with engine.emit_error(op.location, "no layout") as diagnostic:
            diagnostic.attach_note(use.location, "needed here")

    An exception in the block, or `abandon`, drops it.
    """

    __slots__ = ("_engine", "_diagnostic")

    def __init__(self, engine: "DiagnosticEngine", diagnostic: Diagnostic) -> None:
        self._engine: DiagnosticEngine | None = engine
        self._diagnostic = diagnostic

    def __enter__(self) -> "InFlightDiagnostic":
        return self

    def __exit__(self, kind: type[BaseException] | None, value: Any, trace: Any) -> None:
        if kind is None:
            self.report()
        else:
            self.abandon()

    def append(self, *fragments: str | int) -> "InFlightDiagnostic":
        self._diagnostic.fragments = [*self._diagnostic.fragments, *fragments]
        return self

    def attach_note(self, location: Locatable | None, message: str) -> Diagnostic:
        note = Diagnostic.note(location, message)
        self._diagnostic.notes.append(note)
        return note

    def report(self) -> Diagnostic:
        if self._engine is not None:
            engine, self._engine = self._engine, None
            engine.emit(self._diagnostic)
        return self._diagnostic

    def abandon(self) -> None:
        self._engine = None


class DiagnosticEngine:
    """Collects diagnostics in order and prints nothing.

    Handlers are called first, in the order of registration; a diagnostic that a handler accepts is not collected, but
    an accepted error still fails the compilation.  A handler must neither emit nor raise.

    Threads may share an engine: it handles one diagnostic at a time.  Changes of the handlers apply to the next one.
    """

    __slots__ = ("diagnostics", "remarks", "trace", "_handlers", "_lock", "_handling", "_accepted_errors",
                 "_accepted")  # fmt: skip

    def __init__(self, handlers: Iterable[Handler] = ()) -> None:
        self.diagnostics: list[Diagnostic] = []
        self.remarks = False
        """Whether remarks on choices are requested (`tileiras.diagnostics.remarks`)."""
        self.trace = False
        """Whether each diagnostic gets a child with the place in the compiler where it was created."""
        self._handlers = tuple(handlers)
        # Reentrant: a handler may register others, which receive diagnostics from the next one on.
        self._lock = _thread.RLock()
        self._handling: int | None = None
        """The thread whose diagnostic is being handled."""
        self._accepted_errors = False
        self._accepted: list[Diagnostic] = []

    def register_handler(self, handler: Handler) -> Handler:
        with self._lock:
            self._handlers = (*self._handlers, handler)
        return handler

    def erase_handler(self, handler: Handler) -> None:
        """Remove a handler; no other thread runs it on return.  Raises ValueError if it is not registered."""
        with self._lock:
            handlers = list(self._handlers)
            handlers.remove(handler)
            self._handlers = tuple(handlers)

    def emit(self, diagnostic: Diagnostic) -> Diagnostic:
        if self._handling == _thread.get_ident():
            raise RuntimeError(f"a diagnostic handler emits a diagnostic: {diagnostic.message}")
        if self.trace:
            import traceback

            stack = "".join(traceback.format_stack()[:-1]).rstrip()
            diagnostic.notes.append(Diagnostic(Severity.NOTE, None, TRACE + stack, word=TRACE_WORD))
        with self._lock:
            self._handling = _thread.get_ident()
            try:
                accepted = any(handler(diagnostic) is True for handler in self._handlers)
            finally:
                self._handling = None
            if not accepted:
                self.diagnostics.append(diagnostic)
            else:
                self._accepted.append(diagnostic)
                self._accepted_errors |= diagnostic.severity is Severity.ERROR
        return diagnostic

    def error(self, location: Locatable | None, message: str, notes: Iterable[Diagnostic] = ()) -> Diagnostic:
        return self.emit(Diagnostic(Severity.ERROR, location, message, notes))

    def warning(self, location: Locatable | None, message: str, notes: Iterable[Diagnostic] = ()) -> Diagnostic:
        return self.emit(Diagnostic(Severity.WARNING, location, message, notes))

    def op_error(self, op: "NamedOperation", message: str, notes: Iterable[Diagnostic] = ()) -> Diagnostic:
        """Emit an error about an operation, whose text begins with `'dialect.operation' op `."""
        return self.emit(Diagnostic.of_operation(op, message, notes))

    def emit_error(self, location: Locatable | None, message: str) -> InFlightDiagnostic:
        return InFlightDiagnostic(self, Diagnostic(Severity.ERROR, location, message))

    def has_emitted(self, diagnostic: Diagnostic) -> bool:
        """Whether a diagnostic was emitted; one that a handler has accepted counts."""
        return any(each is diagnostic for each in (*self.diagnostics, *self._accepted))

    @property
    def has_errors(self) -> bool:
        if not self.diagnostics:
            return self._accepted_errors
        return self._accepted_errors or any(d.severity is Severity.ERROR for d in self.diagnostics)

    def raise_if_errors(self, code: int = ExitCode.COMPILE_FAILURE) -> None:
        if self.has_errors:
            raise CompileError(self.diagnostics, code)


def plural(number: int, noun: str) -> str:
    """`1 warp`, `4 warps`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
