"""Located diagnostics: the one way in which tileiras speaks to a user about their program.

A diagnostic is a severity, a location, a message and notes.  It is rendered once, by `render`, as

    kernel.mlir:4:8: error: use of undeclared SSA value name
      %2 = addf %a, %b : tile<4xf32>
           ^

This module sits below everything else and imports nothing of the package: a location is any object with
`resolve() -> FilePosition | None` and a readable `str()`.
"""

from __future__ import annotations

import enum
from typing import Iterable, Mapping, NamedTuple, Protocol, Sequence


class ExitCode(enum.IntEnum):
    """What a process or `Program` call returns; the numbers are the vendor driver's."""

    SUCCESS = 0
    USAGE = 1
    CONFIGURATION = 2
    INVALID_INPUT = 3
    HANDLE = 4
    COMPILE_FAILURE = 5


class Severity(enum.Enum):
    ERROR = "error"
    WARNING = "warning"
    REMARK = "remark"
    NOTE = "note"


class FilePosition(NamedTuple):
    """A place in a file; `line` and `column` count from 1, 0 where unknown."""

    filename: str
    line: int
    column: int
    source_line: str | None = None


class Locatable(Protocol):
    def resolve(self) -> FilePosition | None: ...


class Diagnostic:
    """One message to the user about one place."""

    __slots__ = ("severity", "location", "message", "notes")

    def __init__(
        self,
        severity: Severity,
        location: Locatable | None,
        message: str,
        notes: Iterable["Diagnostic"] = (),
    ) -> None:
        self.severity = severity
        self.location = location
        self.message = message
        self.notes = list(notes)

    @classmethod
    def note(cls, location: Locatable | None, message: str) -> "Diagnostic":
        return cls(Severity.NOTE, location, message)

    @property
    def position(self) -> FilePosition | None:
        return self.location.resolve() if self.location is not None else None

    def render(self, sources: Mapping[str, str] | None = None) -> str:
        """The text for a terminal; `sources` gives file contents that need not be read from disk again."""
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
    """Several diagnostics for a terminal.

    What a diagnostic points at is shown once: not again when the one before it, whose consequence it is, points at the
    same place.
    """
    lines: list[str] = []
    shown: FilePosition | None = None
    pending = list(diagnostics)[::-1]
    while pending:
        diagnostic = pending.pop()
        pending += diagnostic.notes[::-1]
        lines.append(diagnostic._headline())
        position = diagnostic.position
        if position is not None and position.line > 0 and position[:3] != (shown and shown[:3]):
            lines += _excerpt(position, sources)
        shown = position
    return "\n".join(lines)


def _excerpt(position: FilePosition, sources: Mapping[str, str] | None) -> list[str]:
    """The source line and a caret under the column, when the line can be had."""
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
            except ValueError:  # a name from a damaged file that no file can have, with a null character in it
                line = None
    if line is None:
        return []
    # Tabs are kept in the padding so that the caret stands under the same column in any terminal.
    padding = "".join(c if c == "\t" else " " for c in line[: max(position.column - 1, 0)])
    return [line, padding + "^"]


class CompileError(Exception):
    """A compilation that did not succeed: its diagnostics and the exit code they stand for."""

    def __init__(self, diagnostics: Sequence[Diagnostic], code: int = ExitCode.COMPILE_FAILURE) -> None:
        self.diagnostics = list(diagnostics)
        self.code = int(code)
        super().__init__("\n".join(str(d) for d in self.diagnostics) or "failed to compile Tile IR program")

    @classmethod
    def at(
        cls,
        location: Locatable | None,
        message: str,
        code: int = ExitCode.COMPILE_FAILURE,
        notes: Iterable[Diagnostic] = (),
    ) -> "CompileError":
        return cls([Diagnostic(Severity.ERROR, location, message, notes)], code)

    def render(self, sources: Mapping[str, str] | None = None) -> str:
        return render(self.diagnostics, sources)


class DiagnosticEngine:
    """Collects diagnostics in order; nothing is printed here."""

    __slots__ = ("diagnostics",)

    def __init__(self) -> None:
        self.diagnostics: list[Diagnostic] = []

    def emit(self, diagnostic: Diagnostic) -> Diagnostic:
        self.diagnostics.append(diagnostic)
        return diagnostic

    def error(self, location: Locatable | None, message: str, notes: Iterable[Diagnostic] = ()) -> Diagnostic:
        return self.emit(Diagnostic(Severity.ERROR, location, message, notes))

    def warning(self, location: Locatable | None, message: str, notes: Iterable[Diagnostic] = ()) -> Diagnostic:
        return self.emit(Diagnostic(Severity.WARNING, location, message, notes))

    def remark(self, location: Locatable | None, message: str, notes: Iterable[Diagnostic] = ()) -> Diagnostic:
        return self.emit(Diagnostic(Severity.REMARK, location, message, notes))

    @property
    def has_errors(self) -> bool:
        return any(d.severity is Severity.ERROR for d in self.diagnostics)

    def raise_if_errors(self, code: int = ExitCode.COMPILE_FAILURE) -> None:
        if self.has_errors:
            raise CompileError(self.diagnostics, code)
