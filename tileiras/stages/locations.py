"""Location tables beside artifacts: `NAME.STAGE.loc` has the origin of every operation of an artifact.

Operations are numbered in the order of `Operation.walk` (the order of printing); the module is 0.  The table of the
stage `read` holds positions in the user's source; each later one holds numbers of operations of the previous artifact.
If lines of the source move, only the first table changes, and the others still lead to the right lines.

    tileiras-loc 2 1              format version, number of the unit's own operation (the entry)
    file kernels/other.mlir       named by `f1` below; `f0` is the user's source itself
    scope #cuda_tile.di_sub...    named by `/0` below: a function of the source, or a block in one
    -                             one line per operation: `-` unknown, `17` operation 17 of the previous artifact,
    f0:12:3                       file:line:column, `bFunc:184` section and byte offset of bytecode,
    f0:12:3/0                     a position in a scope,
    4,9                           fused, `4@9` callee at caller; a call site in a fusion is `(4@9),7`
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import tileiras
from tileiras import ir
from tileiras.diagnostics import CompileError, Diagnostic, FilePosition, Severity
from tileiras.diagnostics.remarks import Remark
from tileiras.ir import (
    UNKNOWN_LOC,
    BytecodeLoc,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    Location,
    NameLoc,
    OpaqueLoc,
)

if TYPE_CHECKING:
    from tileiras.ir import Attribute, Operation

FORMAT = 2
_MAGIC = "tileiras-loc"


class OpLoc(Location):
    """Operation `number` of the artifact that `table` describes; resolved through the tables up to the source."""

    __slots__ = ("table", "number")

    def __init__(self, table: LocationTable, number: int) -> None:
        self.table = table
        self.number = number

    def resolve(self) -> FilePosition | None:
        return self.origin().resolve()

    def origin(self) -> Location:
        """The location in the user's source."""
        return self.table.location(self.number)

    def __eq__(self, other: object) -> bool:
        return type(other) is OpLoc and other.number == self.number and other.table is self.table

    def __hash__(self) -> int:
        return hash(self.number)

    def __repr__(self) -> str:
        return repr(self.origin())

    def __str__(self) -> str:
        return str(self.origin())


class LocationTable:
    """The content of one `.loc` file, linked to the table of the previous artifact (`parent`)."""

    __slots__ = ("rows", "files", "scopes", "unit", "parent", "source_name")

    def __init__(
        self,
        rows: Sequence[str],
        files: Sequence[str] = (),
        unit: int = 0,
        parent: LocationTable | None = None,
        source_name: str = "<input>",
        scopes: Sequence[str] = (),
    ) -> None:
        self.rows = rows
        self.files = files
        self.scopes = scopes
        self.unit = unit
        self.parent = parent
        self.source_name = source_name

    def to_bytes(self) -> bytes:
        head = [f"{_MAGIC} {FORMAT} {self.unit}"]
        head += [f"file {name}" for name in self.files] + [f"scope {text}" for text in self.scopes]
        return ("\n".join((*head, *self.rows)) + "\n").encode("utf-8", "surrogateescape")

    @classmethod
    def from_bytes(
        cls, data: bytes, parent: LocationTable | None = None, source_name: str = "<input>"
    ) -> LocationTable:
        """Raise ValueError for data that is not of this format."""
        lines = data.decode("utf-8", "surrogateescape").split("\n")
        head = lines[0].split(" ")
        if len(head) != 3 or head[:2] != [_MAGIC, str(FORMAT)]:
            raise ValueError("not a location file of this version")
        names: dict[str, list[str]] = {"file": [], "scope": []}
        first = 1
        while first < len(lines) and (kind := lines[first].partition(" ")[0]) in names:
            names[kind].append(lines[first][len(kind) + 1 :])
            first += 1
        return cls(lines[first:-1], names["file"], int(head[2]), parent, source_name, names["scope"])

    def location(self, number: int) -> Location:
        """The location of operation `number` in the user's source; unknown if the row is invalid (a damaged file)."""
        if not 0 <= number < len(self.rows):
            return UNKNOWN_LOC
        try:
            return decode(self.rows[number], self.files, self.source_name, self.parent, self.scopes)
        except (ValueError, IndexError, AssertionError, RecursionError, CompileError):
            return UNKNOWN_LOC

    def attach(self, module: Operation) -> None:
        """Set the location of each operation of a newly read artifact to its row of this table."""
        for number, op in enumerate(module.walk()):
            op.location = OpLoc(self, number)

    @property
    def unit_location(self) -> Location:
        return OpLoc(self, self.unit)


class LocationEncoder:
    """Encodes locations as text; collects the files and scopes that occur.

    With `flatten`, source positions replace operation numbers.  Without `scoped`, a position in a scope is encoded as
    the position shown to users.
    """

    __slots__ = ("files", "scopes", "_indices", "_scopes", "flatten", "scoped")

    def __init__(self, source_name: str, flatten: bool = False, scoped: bool = True) -> None:
        self.files: list[str] = []
        self.scopes: list[str] = []
        self._indices = {source_name: 0}
        self._scopes: dict[Attribute, int] = {}
        self.flatten = flatten
        self.scoped = scoped

    def encode(self, location: object) -> str:
        if isinstance(location, OpLoc):
            return self.encode(location.origin()) if self.flatten else str(location.number)
        if isinstance(location, FusedLoc):
            parts = dict.fromkeys(self.encode(part) for part in _fused(location))
            parts.pop("-", None)
            if len(parts) == 1:
                return next(iter(parts))
            return ",".join(f"({part})" if "@" in part else part for part in parts) or "-"
        if isinstance(location, CallSiteLoc):
            callee, caller = self.encode(location.callee), self.encode(location.caller)
            return "-" if callee == caller == "-" else f"{callee}@{caller}"
        if isinstance(location, NameLoc):
            return self.encode(location.child)
        if isinstance(location, OpaqueLoc):
            return self.encode(location.fallback)
        if isinstance(location, BytecodeLoc):
            return f"b{location.section}:{location.offset}"
        scope = getattr(location, "scope", None)
        if scope is not None and self.scoped:
            # The position as written: the one shown to users may count columns differently.
            return f"{self.encode(location.source)}/{self._scope(scope)}"  # type: ignore[attr-defined]
        position = location.resolve() if isinstance(location, Location) else None
        if position is None:
            return "-"
        return f"f{self._file(position.filename)}:{position.line}:{position.column}"

    def _scope(self, scope: Attribute) -> int:
        index = self._scopes.get(scope)
        if index is None:
            index = self._scopes[scope] = len(self.scopes)
            self.scopes.append(str(scope))
        return index

    def _file(self, name: str) -> int:
        index = self._indices.get(name)
        if index is None:
            self.files.append(name)
            index = self._indices[name] = len(self.files)
        return index


def decode(
    text: str,
    files: Sequence[str],
    source_name: str = "<input>",
    parent: LocationTable | None = None,
    scopes: Sequence[str] = (),
) -> Location:
    """The location that a row encodes; operation numbers are looked up in `parent`."""
    if text == "-":
        return UNKNOWN_LOC
    for mark in "@,":
        parts = _split(text, mark) if mark in text else (text,)
        if len(parts) > 1:
            result = [decode(part, files, source_name, parent, scopes) for part in parts]
            # A caller may be a call site itself: `a@b@c` is a, called from b, called from c.
            return FusedLoc.of(*result) if mark == "," else functools.reduce(_call_site, reversed(result))
    if text[0] == "(":
        return decode(text[1:-1], files, source_name, parent, scopes)
    if "/" in text and text[0] == "f":
        at, _, scope = text.partition("/")
        position = decode(at, files, source_name)
        assert isinstance(position, FileLineColLoc)
        return tileiras.dialects.cuda_tile.DILoc(position, _scope(scopes[int(scope)]))
    if text[0] == "f":
        index, line, column = text[1:].split(":")
        name = files[int(index) - 1] if index != "0" else source_name
        return FileLineColLoc(name, int(line), int(column))
    if text[0] == "b":
        section, _, offset = text[1:].rpartition(":")
        return BytecodeLoc(source_name, section, int(offset))
    return parent.location(int(text)) if parent is not None else UNKNOWN_LOC


def _fused(location: FusedLoc) -> Sequence[Location]:
    if location.metadata is None:
        return location.locations
    return tileiras.dialects.cuda_tile.debug_info.with_metadata(location)


@functools.lru_cache
def _scope(text: str) -> Attribute:
    return ir.parse_attribute(text)


def _call_site(caller: Location, callee: Location) -> Location:
    return CallSiteLoc(callee, caller)


def _split(text: str, mark: str) -> list[str]:
    """Split `text` at marks outside of parentheses."""
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if letter == mark and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]]


def settle(module: Operation, source_name: str) -> None:
    """Replace each operation's location by the one in the user's source, in the form in which a table is read.

    Later stages then give the same results for a module in memory and for one read from an artifact and its table.
    """
    encoder = LocationEncoder(source_name, flatten=True)
    cache: dict[str, Location] = {}
    for op in module.walk():
        row = encoder.encode(op.location)
        result = cache.get(row)
        if result is None:
            result = cache[row] = decode(row, encoder.files, source_name, None, encoder.scopes)
        op.location = result


def table_of(
    module: Operation, source_name: str, parent: LocationTable | None = None, unit_name: str | None = None
) -> LocationTable:
    """The table of a module that a stage produced; `unit_name` is the symbol of the unit's operation."""
    encoder = LocationEncoder(source_name)
    rows: list[str] = []
    unit = 0
    for number, op in enumerate(module.walk()):
        rows.append(encoder.encode(op.location))
        if unit == 0 and unit_name is not None and number > 0:
            symbol = op.attributes.get("sym_name")
            if symbol is not None and getattr(symbol, "value", None) == unit_name:
                unit = number
    return LocationTable(rows, encoder.files, unit, parent, source_name, encoder.scopes)


def encode_diagnostics(diagnostics: Sequence[Diagnostic], source_name: str) -> dict:
    """Diagnostics as plain values with operation numbers as locations, to be stored with an artifact."""
    # Without scopes: they would load the printer, which a compilation to PTX or a cubin does not need otherwise.
    encoder = LocationEncoder(source_name, scoped=False)

    def plain(diagnostic: Diagnostic) -> list:
        return [
            diagnostic.severity.value,
            encoder.encode(diagnostic.location),
            # The text of a remark follows from its codes.
            "" if isinstance(diagnostic, Remark) else diagnostic.message,
            [plain(note) for note in diagnostic.notes],
            *([diagnostic.as_values()] if isinstance(diagnostic, Remark) else []),
        ]

    rows = [plain(diagnostic) for diagnostic in diagnostics]
    return {"files": encoder.files, "diagnostics": rows}


def decode_diagnostics(
    encoding: dict, source_name: str, parent: LocationTable | None = None
) -> list[Diagnostic]:
    """The inverse of `encode_diagnostics`; `parent` is the current table of the stage's input, for locations."""

    def lift(row: list) -> Diagnostic:
        location = decode(row[1], encoding["files"], source_name, parent)
        notes = [lift(note) for note in row[3]]
        if len(row) > 4:
            return Remark.restored(row[4], location, notes)
        return Diagnostic(Severity(row[0]), location, row[2], notes)

    return [lift(row) for row in encoding["diagnostics"]]
