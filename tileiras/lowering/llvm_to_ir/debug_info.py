"""Locations to LLVM's debug metadata: compile units, files, subprograms, lexical blocks and `!dbg` of instructions.

| location | metadata |
|---|---|
| `di_loc` | DILocation in the scope; in a DILexicalBlockFile where the position lies in another file than the scope |
| call site | the callee's DILocation, inlined at the caller's |
| fused | its metadata's location inlined at its parts; without metadata the first part that has one |
| name, opaque | the location that they wrap |
| file and line without a scope, unknown | none |

A location whose outermost scope is not the function's is left out: LLVM refuses such functions.

LLVM 22 prints the position of inlined code but not where it was inlined.  `inlined` records that, keyed by the printed
position; where one position was inlined at several places, all but the first get columns that occur in no source.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tileiras import dialects
from tileiras.dialects import llvm
from tileiras.dialects.cuda_tile import DILexicalBlockAttr, DILoc, DISubprogramAttr
from tileiras.dialects.cuda_tile.debug_info import subprogram_of, supported_location
from tileiras.ir import CallSiteLoc, Location, VerifyError
from tileiras.support.named_tuple import NamedTuple

from .literals import escape

if TYPE_CHECKING:
    from tileiras.dialects import cuda_tile, debuginfo

PRODUCER = "tileiras"

DIRECTIVES_ONLY = "DebugDirectivesOnly"
"""`.file` and `.loc`, no sections.  LLVM's LineTablesOnly puts `debug` into `.target`, and ptxas does not optimise
such modules."""

FULL = "FullDebug"


class DebugLevel(NamedTuple):
    """How much debug information a module gets.  `optimized` tells debuggers to trust it less."""

    emission_kind: str
    optimized: bool

    @property
    def values(self) -> bool:
        """Whether values of variables are described."""
        return self.emission_kind == FULL


COLUMNS = 1 << 16
"""LLVM has 16 bits for a column."""


class _Position(NamedTuple):
    """A position as LLVM prints it, with its node."""

    node: str
    path: str
    line: int
    column: int


class DebugMetadata:
    """The debug metadata of one module; `node` numbers a metadata node given as text."""

    __slots__ = ("level", "unit", "inlined", "_columns", "_node", "_scopes", "_locations", "_parameters", "_subprogram")

    def __init__(self, level: DebugLevel, node: Callable[[str], str]) -> None:
        self.level = level
        self.unit: str | None = None
        """The node of the one compile unit, that of the first function.  ptxas (13.5) ends with an internal error on
        references from one unit's section to another's, which functions inlined from another unit would be."""
        self.inlined: dict[str, None] = {}
        """The content of the nodes of `!tileiras.inlined`."""
        self._columns: dict[tuple, int] = {}
        self._node = node
        self._scopes: dict[Any, str] = {}
        self._locations: dict[Location, str | None] = {}
        self._subprogram: Any = None
        self._parameters: dict[int, Any] = {}
        """The variables of the function that are parameters, by `arg`."""

    def enter(self, function: Location) -> str | None:
        """The subprogram of a function at this location, whose instructions follow; None if absent."""
        self._subprogram = subprogram_of(function)
        self._locations.clear()
        self._parameters.clear()
        return self.scope(self._subprogram) if self._subprogram is not None else None

    def location(self, location: Location) -> str | None:
        """The DILocation of an instruction of the function entered last."""
        if self._subprogram is None:
            return None
        try:
            return self._locations[location]
        except KeyError:
            pass
        result = supported_location(location)
        if result is not None and subprogram_of(result) is not self._subprogram:
            result = None
        node = self._locations[location] = self._position(result).node if result is not None else None
        return node

    def _position(self, location: DILoc | CallSiteLoc, call: _Position | None = None) -> _Position:
        """Where a location is, inlined at `call`."""
        if isinstance(location, CallSiteLoc):
            return self._position(location.callee, self._position(location.caller, call))  # type: ignore[arg-type]
        at = location.source
        scope, own = self.scope(location.scope), location.scope.file
        path = _path(own)
        if at.filename not in (own.filename, path):
            path = at.filename
            scope = self._node(f"!DILexicalBlockFile(scope: {scope}, file: {self._file(path, '')}, discriminator: 0)")
        column = _column(at.column)
        printed = self._printed_column(path, at.line, column, call)
        if call is not None or printed != column:
            self.inlined[self._row(location, path, column, printed, call)] = None
        inlined = f", inlinedAt: {call.node}" if call is not None else ""
        node = self._node(f"!DILocation(line: {at.line}, column: {printed}, scope: {scope}{inlined})")
        return _Position(node, path, at.line, printed)

    def _printed_column(self, path: str, line: int, column: int, call: _Position | None) -> int:
        """The column for one way of getting to a position."""
        printed_column = self._columns.get((path, line, column, call))
        if printed_column is None:
            first = (path, line, column)
            calls = self._columns.setdefault(first, 0)
            self._columns[first] = calls + 1
            # From the last column that LLVM has room for downwards.
            printed_column = self._columns[(*first, call)] = column if calls == 0 else COLUMNS - calls
        return printed_column

    @staticmethod
    def _row(location: DILoc, path: str, column: int, printed: int, call: _Position | None) -> str:
        row = f'!"{escape(path)}", i32 {location.source.line}, i32 {printed}, i32 {column}'
        function = subprogram_of(location)
        if call is None or function is None:
            return row
        name = escape(function.subprogram_name)
        return f'{row}, !"{name}", !"{escape(call.path)}", i32 {call.line}, i32 {call.column}'

    def record(self, op: llvm.DbgDeclareOp | llvm.DbgValueOp, operand: str) -> str | None:
        """The record of an `llvm.intr.dbg.*` operation; None where values are not described.

        Raises VerifyError for a second variable with the `arg` of another: LLVM would drop all debug information.
        """
        if not self.level.values:
            return None
        variable = op.var_info
        if variable.arg:
            other = self._parameters.setdefault(variable.arg, variable)
            if other is not variable:
                raise VerifyError(_twice(variable, other), location=op.location, prefix=False)
        place = self.location(op.location)
        if place is None:
            # LLVM requires a location in the variable's function; unlike an instruction's, no debugger steps to it.
            place = self._node(f"!DILocation(line: {variable.line}, column: 0, scope: {self.scope(variable.scope)})")
        words: list[Any] = []
        for name, numbers in op.expression.operations if op.expression is not None else ():
            words += (name, *numbers)
        if isinstance(op, llvm.DbgValueOp):
            if op.deref is not None:
                words.append("DW_OP_deref")
            if op.fragment is not None:
                words += ("DW_OP_LLVM_fragment", *op.fragment)
        kind = "value" if isinstance(op, llvm.DbgValueOp) else "declare"
        expression = f"!DIExpression({', '.join(map(str, words))})"
        return f"#dbg_{kind}({operand}, {self._variable(variable)}, {expression}, {place})"

    def _variable(self, variable: debuginfo.DILocalVariableAttr) -> str:
        file = variable.scope.file
        argument = f"arg: {variable.arg}, " if variable.arg else ""
        return self._node(
            f'!DILocalVariable(name: "{escape(variable.variable_name)}", {argument}scope: '
            f"{self.scope(variable.scope)}, file: {self._file(file.filename, file.directory)}, "
            f"line: {variable.line}, type: {self._type(variable.type)})"
        )

    def _type(self, type: debuginfo.DebugTypeAttr) -> str:
        if isinstance(type, dialects.debuginfo.DIPointerTypeAttr):
            pointee = self._type(type.pointee)
            return self._node(f"!DIDerivedType(tag: DW_TAG_pointer_type, baseType: {pointee}, size: {type.size})")
        if isinstance(type, dialects.debuginfo.DIArrayTypeAttr):
            element = self._type(type.element)
            elements = self._node("!{" + self._node(f"!DISubrange(count: {type.count})") + "}")
            shape = f"size: {type.size}, elements: {elements}"
            return self._node(f"!DICompositeType(tag: DW_TAG_array_type, baseType: {element}, {shape})")
        if isinstance(type, dialects.debuginfo.DIStructTypeAttr):
            members = ", ".join(self._member(type, number) for number in range(len(type.members)))
            elements = self._node("!{" + members + "}")
            return self._node(f"!DICompositeType(tag: DW_TAG_structure_type, size: {type.size}, elements: {elements})")
        name = escape(type.type_name)
        if isinstance(type, dialects.debuginfo.DIUnspecifiedTypeAttr):
            return self._node(f'!DIBasicType(tag: DW_TAG_unspecified_type, name: "{name}")')
        return self._node(f'!DIBasicType(name: "{name}", size: {type.size}, encoding: DW_ATE_{type.encoding.value})')

    def _member(self, struct: debuginfo.DIStructTypeAttr, number: int) -> str:
        member = struct.members[number]
        place = f"baseType: {self._type(member)}, size: {member.size}, offset: {struct.offset(number)}"
        return self._node(f'!DIDerivedType(tag: DW_TAG_member, name: "m{number}", {place})')

    def scope(self, scope: DILexicalBlockAttr | DISubprogramAttr) -> str:
        """The node of a subprogram or lexical block."""
        result = self._scopes.get(scope)
        if result is None:
            result = self._scopes[scope] = self._subprogram_node(scope) or self._block(scope)
        return result

    def _block(self, block: DILexicalBlockAttr) -> str:
        parent, file = self.scope(block.scope), self._file(block.file.filename, block.file.directory)
        place = f"line: {block.line}, column: {_column(block.column)}"
        return self._node(f"distinct !DILexicalBlock(scope: {parent}, file: {file}, {place})")

    def _subprogram_node(self, scope: DILexicalBlockAttr | DISubprogramAttr) -> str | None:
        if not isinstance(scope, DISubprogramAttr):
            return None
        file = self._file(scope.file.filename, scope.file.directory)
        unit = self._unit(scope.compile_unit)
        nothing = self._node("!{}")
        kind = self._node(f"!DISubroutineType(types: {nothing})")
        flags = "DISPFlagDefinition" + (" | DISPFlagOptimized" if self.level.optimized else "")
        return self._node(
            f'distinct !DISubprogram(name: "{escape(scope.subprogram_name)}", '
            f'linkageName: "{escape(scope.linkage_name)}", scope: {file}, file: {file}, line: {scope.line}, '
            f"type: {kind}, scopeLine: {scope.scope_line or scope.line}, spFlags: {flags}, unit: {unit})"
        )

    def _unit(self, unit: cuda_tile.DICompileUnitAttr) -> str:
        if self.unit is None:
            # Debuggers resolve file names against the unit's directory, but names here are complete already: the
            # directory is omitted where resolution would not give the same name again.
            name, directory = unit.file.filename, unit.file.directory
            absolute = posixpath.isabs(directory) or directory[1:2] == ":"
            file = self._file(name, directory) if absolute else self._file(_path(unit.file), "")
            # Debuggers know no language whose expressions are those of Tile IR; C's are the plainest.
            self.unit = self._node(
                f'distinct !DICompileUnit(language: DW_LANG_C, file: {file}, producer: "{PRODUCER}", '
                f"isOptimized: {str(self.level.optimized).lower()}, runtimeVersion: 0, "
                f"emissionKind: {self.level.emission_kind})"
            )
        return self.unit

    def _file(self, name: str, directory: str) -> str:
        directory = "" if directory == "." else directory
        return self._node(f'!DIFile(filename: "{escape(name)}", directory: "{escape(directory)}")')


def _twice(variable: debuginfo.DILocalVariableAttr, other: debuginfo.DILocalVariableAttr) -> str:
    name, other_name = variable.variable_name, other.variable_name
    if name == other_name:
        return f"two variables '{name}' with arg = {variable.arg}, which differ in scope, line or type"
    return f"'{name}' has arg = {variable.arg}, which is '{other_name}' already"


def _path(file: cuda_tile.DIFileAttr) -> str:
    """The name that LLVM prints."""
    return file.filename if file.directory == "." else posixpath.join(file.directory, file.filename)


def _column(column: int) -> int:
    """The column as LLVM prints it; 0, which means none, if LLVM has no room for it."""
    return column if column < COLUMNS - 256 else 0
