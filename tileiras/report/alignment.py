"""Source lines of each line of every level.

MLIR artifacts have location tables beside them; LLVM IR and PTX contain locations if they were compiled with line
information; machine code is mapped through the lines of the PTX that ptxas records.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence

from tileiras.diagnostics import FilePosition
from tileiras.ir import CallSiteLoc, FusedLoc, Location, NameLoc, OpaqueLoc, Operation
from tileiras.report.model import Place
from tileiras.sim.emulator.source import source_positions
from tileiras.stages.locations import LocationTable, OpLoc

Lines = tuple[tuple[int, ...], ...]


class Places:
    """The distinct lines of the source; files have the names that the report shows."""

    def __init__(self, source_name: str, source_path: str | None) -> None:
        self.found: list[Place] = []
        self._numbers: dict[Place, int] = {}
        self._source_name = source_name
        self._source_path = source_path
        self._names: dict[str, str] = {}
        self.paths: dict[str, str] = {}
        """File of a place -> its path."""

    def number(self, file: str, line: int) -> int:
        place = Place(self._name(file), line)
        result = self._numbers.get(place)
        if result is None:
            result = self._numbers[place] = len(self.found)
            self.found.append(place)
        return result

    def of(self, positions: Iterable[FilePosition]) -> tuple[int, ...]:
        numbers = [self.number(each.filename, each.line) for each in positions if each.line > 0]
        return tuple(dict.fromkeys(numbers))

    def _name(self, file: str) -> str:
        """Canonical name of a file across bytecode, tables and line information."""
        name = self._names.get(file)
        if name is None:
            path = self._path(file)
            same = self._source_path is not None and path is not None and os.path.exists(self._source_path) and (
                os.path.samefile(path, self._source_path)
            )  # fmt: skip
            name = self._names[file] = self._source_name if same else file
            if path is not None:
                self.paths.setdefault(name, path)
        return name

    def _path(self, file: str) -> str | None:
        """Path of a file: the source, or a file beside it; None if it cannot be read."""
        if self._source_path is None:
            return None
        beside = os.path.join(os.path.dirname(os.path.abspath(self._source_path)), file)
        candidates = [self._source_path] if file == self._source_name else []
        return next((path for path in (*candidates, beside) if os.path.isfile(path)), None)


def positions_of(location: Location) -> Iterator[FilePosition]:
    """The source positions of a location: for an inlined call its own, then its callers'."""
    if isinstance(location, OpLoc):
        yield from positions_of(location.origin())
    elif isinstance(location, CallSiteLoc):
        yield from positions_of(location.callee)
        yield from positions_of(location.caller)
    elif isinstance(location, FusedLoc):
        for part in location.locations:
            yield from positions_of(part)
    elif isinstance(location, NameLoc):
        yield from positions_of(location.child)
    elif isinstance(location, OpaqueLoc):
        yield from positions_of(location.fallback)
    else:
        position = location.resolve()
        if position is not None:
            yield position


def operation_lines(module: Operation) -> list[int]:
    """The line of the text on which each operation of a freshly parsed module begins, in the order of `walk`; 0 if
    unknown."""
    result = []
    for op in module.walk():
        position = op.location.resolve()
        result.append(position.line if position is not None else 0)
    return result


def of_module(text: str, lines: Sequence[int], table: LocationTable | None, places: Places) -> Lines:
    """The places of each line of an MLIR artifact, from the lines of its operations and its location table."""
    result: list[dict[int, None]] = [{} for _ in text.split("\n")]
    if table is not None:
        for number, line in enumerate(lines):
            if 0 < line <= len(result):
                result[line - 1].update(dict.fromkeys(places.of(positions_of(table.location(number)))))
    return tuple(tuple(each) for each in result)


# ---- LLVM IR -----------------------------------------------------------------------------------------------------

_METADATA = re.compile(r"^!(\d+) = (?:distinct )?!DI(\w+)\((.*)\)\s*$", re.MULTILINE)
_FIELD = re.compile(r'(\w+): (?:"((?:[^"\\]|\\.)*)"|([^,()]+))')
_ATTACHED = re.compile(r"!dbg !(\d+)")
_MOST_CALLS = 64
"""Most nested calls that are followed; a damaged file may contain a cycle."""


def of_llvm(text: str, places: Places) -> Lines:
    """The places of each line of LLVM IR, from `!dbg`."""
    nodes: dict[str, tuple[str, dict[str, str]]] = {}
    for number, kind, inner in _METADATA.findall(text):
        nodes[number] = kind, {name: quoted or plain.strip() for name, quoted, plain in _FIELD.findall(inner)}

    def file_of(number: str) -> str | None:
        for _ in range(_MOST_CALLS):
            kind, fields = nodes.get(number, ("", {}))
            if kind == "File":
                return fields.get("filename")
            number = (fields.get("file") or fields.get("scope") or "").lstrip("!")
        return None

    def place_of(number: str) -> tuple[int, ...]:
        items: list[int] = []
        for _ in range(_MOST_CALLS):
            kind, fields = nodes.get(number, ("", {}))
            file = file_of(fields.get("scope", "").lstrip("!")) if kind == "Location" else None
            if file is None or not fields.get("line", "").isdigit():
                break
            if int(fields["line"]):
                items.append(places.number(file, int(fields["line"])))
            number = fields.get("inlinedAt", "").removeprefix("distinct ").lstrip("!")
        return tuple(dict.fromkeys(items))

    places_by_number: dict[str, tuple[int, ...]] = {}
    rows: list[tuple[int, ...]] = []
    for line in text.split("\n"):
        match = _ATTACHED.search(line)
        if match is None:
            rows.append(())
            continue
        number = match.group(1)
        if number not in places_by_number:
            places_by_number[number] = place_of(number)
        rows.append(places_by_number[number])
    return tuple(rows)


# ---- PTX ---------------------------------------------------------------------------------------------------------

_LOC = re.compile(r"\s*\.loc\s")
_STATEMENT = re.compile(r"\s+[{@a-z]")
"""Instructions, and inline assembly, which LLVM puts into one line; not directives, labels and comments."""
_FUNCTION_END = re.compile(r"\}\s*$")
"""At the start of a line; braces of inline assembly are indented, or stand alone within a function."""


def of_ptx(text: str, places: Places) -> Lines:
    """The places of each line of PTX, from its `.loc` directives."""
    rows: list[tuple[int, ...]] = []
    current: tuple[int, ...] = ()
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if _LOC.match(line):
            result = source_positions(text, number)
            current = tuple(dict.fromkeys(places.number(file, row) for file, row, _ in result if row))
            rows.append(current)
        elif _FUNCTION_END.match(line):
            current = ()
            rows.append(())
        else:
            rows.append(current if _STATEMENT.match(line) else ())
    return tuple(rows)


def of_machine_code(ptx_lines: Sequence[int], ptx: Lines) -> Lines:
    """The places of each line of machine code: those of its PTX line."""
    return tuple(ptx[line - 1] if 0 < line <= len(ptx) else () for line in ptx_lines)
