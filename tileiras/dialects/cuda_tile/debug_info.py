"""Debug information: which source a location belongs to, and that operations stay inside their function's scope."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from tileiras.ir import (
    Attribute,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    Location,
    NameLoc,
    OpaqueLoc,
    StringAttr,
    VerifyError,
    registry,
)
from tileiras.ir.location import ValueLocation

if TYPE_CHECKING:
    from tileiras.ir import Parser, Printer

    from .ops_module import EntryOp, ModuleOp
    from .testing import TestFuncOp


class _DebugAttr(Attribute):
    """Base of debug attributes; `struct` lists (parameter, spelling, kind); a parameter of kind "?int" may be
    absent."""

    struct: ClassVar[tuple[tuple[str, str, str], ...]] = ()

    def print_parameters(self, printer: Printer) -> None:
        parts = []
        for parameter, spelling, kind in self.struct:
            value = getattr(self, parameter)
            if kind == "?int" and not value:
                continue
            parts.append((spelling, kind, value))
        printer.write("<")
        for number, (spelling, kind, value) in enumerate(parts):
            printer.write(f"{', ' if number else ''}{spelling} = ")
            _write(printer, kind, value)
        printer.write(">")

    @classmethod
    def parse_parameters(cls, parser: Parser) -> Any:
        kinds = {spelling: (parameter, kind) for parameter, spelling, kind in cls.struct}
        parameters: dict[str, Any] = {}

        def entry() -> None:
            at = parser.offset
            key = parser.parse_optional_any_keyword()
            if key is None:
                parser.error(at, "expected a parameter name in struct")
            if key not in kinds:
                parser.error(at, "duplicate or unknown struct parameter name: " + key)
            parameter, kind = kinds[key]
            if parameter in parameters:
                parser.error(at, "duplicate or unknown struct parameter name: " + key)
            parser.parse_punctuation("=")
            parameters[parameter] = _read(parser, kind)

        parser.parse_punctuation("<")
        at = parser.offset
        parser.parse_comma_separated(entry)
        for parameter, spelling, kind in cls.struct:
            if parameter not in parameters:
                if kind != "?int":
                    parser.error(at, f"struct is missing required parameter: {spelling}")
                parameters[parameter] = 0
        parser.parse_punctuation(">")
        return cls(**parameters)


def _write(printer: Printer, kind: str, value: _DebugAttr | int | str) -> None:
    if kind == "string":
        printer.print_attribute(StringAttr(value))
    elif kind.endswith("int"):
        printer.write(str(value))
    else:
        printer.print_attribute(value)


def _read(parser: Parser, kind: str) -> Any:
    if kind == "string":
        return parser.parse_string()
    if kind.endswith("int"):
        at = parser.offset
        number = parser.parse_integer()
        if not 0 <= number < 1 << 32:
            parser.error(at, "integer value too large")
        return number
    at = parser.offset
    attribute = parser.parse_attribute()
    classes = {"file": DIFileAttr, "unit": DICompileUnitAttr, "scope": (DISubprogramAttr, DILexicalBlockAttr)}
    if not isinstance(attribute, classes[kind]):
        parser.error(at, f"invalid kind of attribute specified: expected a debug {kind}, got {attribute}")
    return attribute


class DIFileAttr(_DebugAttr, name="cuda_tile.di_file", since="13.1", parameters=("filename", "directory")):
    """A source file and the directory that its name is relative to."""

    asm_alias = "di_file"

    filename: str
    directory: str

    def print_parameters(self, printer: Printer) -> None:
        printer.write("<")
        _write(printer, "string", self.filename)
        printer.write(" in ")
        _write(printer, "string", self.directory)
        printer.write(">")

    @classmethod
    def parse_parameters(cls, parser: Parser) -> "DIFileAttr":
        parser.parse_punctuation("<")
        name = parser.parse_string()
        parser.parse_keyword("in")
        directory = parser.parse_string()
        parser.parse_punctuation(">")
        return cls(name, directory)  # type: ignore[return-value]


class DICompileUnitAttr(_DebugAttr, name="cuda_tile.di_compile_unit", since="13.1", parameters=("file",)):
    """A compilation unit: source that was compiled together."""

    asm_alias = "di_compile_unit"
    struct = (("file", "file", "file"),)

    file: DIFileAttr


class DISubprogramAttr(_DebugAttr, name="cuda_tile.di_subprogram", since="13.1"):
    """A function of the source; `linkage_name` is the kernel's name."""

    asm_alias = "di_subprogram"
    parameters = ("file", "line", "subprogram_name", "linkage_name", "compile_unit", "scope_line")
    struct = (
        ("file", "file", "file"),
        ("line", "line", "int"),
        ("subprogram_name", "name", "string"),
        ("linkage_name", "linkageName", "string"),
        ("compile_unit", "compileUnit", "unit"),
        ("scope_line", "scopeLine", "?int"),
    )

    file: DIFileAttr
    line: int
    subprogram_name: str
    linkage_name: str
    compile_unit: DICompileUnitAttr
    scope_line: int


class DILexicalBlockAttr(_DebugAttr, name="cuda_tile.di_lexical_block", since="13.1"):
    """A block inside a function of the source."""

    asm_alias = "di_lexical_block"
    parameters = ("scope", "file", "line", "column")
    struct = (
        ("scope", "scope", "scope"),
        ("file", "file", "file"),
        ("line", "line", "int"),
        ("column", "column", "?int"),
    )

    scope: Any
    file: DIFileAttr
    line: int
    column: int


class DILoc(ValueLocation):
    """A source position together with the function or block that it belongs to."""

    __slots__ = ("source", "scope")

    name = "cuda_tile.di_loc"
    since = "13.1"
    asm_alias = "di_loc"

    def __init__(self, source: FileLineColLoc, scope: DILexicalBlockAttr | DISubprogramAttr) -> None:
        self.source = source
        self.scope = scope

    def resolve(self) -> Any:
        position = self.source.resolve()
        # cuTile Python writes the columns of Python's ast, which count from 0; those shown to a user count from 1.
        if position is not None and position.filename.endswith(".py"):
            return position._replace(column=position.column + 1)
        return position

    def __str__(self) -> str:
        return repr(self)

    def __repr__(self) -> str:
        return f"#cuda_tile.di_loc<{self.source!r} in {self.scope}>"

    def print_parameters(self, printer: Printer) -> None:
        printer.write("<")
        printer.print_location(self.source)
        printer.write(" in ")
        printer.print_attribute(self.scope)
        printer.write(">")

    @classmethod
    def parse_parameters(cls, parser: Parser) -> "DILoc":
        parser.parse_punctuation("<")
        at = parser.offset
        source = parser.parse_location()
        if not isinstance(source, FileLineColLoc):
            parser.error(at, "expected a file, line and column location")
        parser.parse_keyword("in")
        scope = _read(parser, "scope")
        parser.parse_punctuation(">")
        return cls(source, scope)


registry.ATTRIBUTES[DILoc.name] = DILoc  # type: ignore[assignment]  # a location in attribute position


# ---- rules ---------------------------------------------------------------------------------------------------------


def debug_location(location: Location) -> DILoc | None:
    """The debug location that a location is or wraps."""
    if isinstance(location, DILoc):
        return location
    if isinstance(location, CallSiteLoc):
        return debug_location(location.caller)
    if isinstance(location, NameLoc):
        return debug_location(location.child)
    if isinstance(location, OpaqueLoc):
        return debug_location(location.fallback)
    if isinstance(location, FusedLoc):
        return next(filter(None, map(debug_location, location.locations)), None)
    return None


def with_metadata(location: FusedLoc) -> tuple[Location, ...]:
    """The locations that a fusion with metadata represents.

    A scope is that of the first position among the locations; a location is inlined at them, the first one innermost.
    Other metadata contains no places.
    """
    metadata = location.metadata
    if isinstance(metadata, (DISubprogramAttr, DILexicalBlockAttr)):
        first = next((x for x in location.locations if isinstance(x, FileLineColLoc)), None)
        return location.locations if first is None else (DILoc(first, metadata),)
    if isinstance(metadata, Location):
        chain: Location | None = None
        for child in reversed(location.locations):
            if debug_location(child) is not None:
                chain = child if chain is None else CallSiteLoc(child, chain)
        return (metadata if chain is None else CallSiteLoc(metadata, chain),)
    return location.locations


def supported_location(location: Location) -> DILoc | CallSiteLoc | None:
    """The part of a location that debug information keeps: one with a scope, or a call site of such; None is unknown.

    A fusion is replaced by the first of its locations that is kept, a name and an opaque location by the wrapped one.
    """
    if isinstance(location, DILoc):
        return location
    if isinstance(location, CallSiteLoc):
        callee, caller = supported_location(location.callee), supported_location(location.caller)
        if callee is location.callee and caller is location.caller:
            return location
        return None if callee is None or caller is None else CallSiteLoc(callee, caller)
    if isinstance(location, FusedLoc):
        return next(filter(None, map(supported_location, with_metadata(location))), None)
    if isinstance(location, NameLoc):
        return supported_location(location.child)
    if isinstance(location, OpaqueLoc):
        return supported_location(location.fallback)
    return None


def subprogram_of(location: Location) -> DISubprogramAttr | None:
    """The function of the source that a location belongs to."""
    result = debug_location(location)
    scope = result.scope if result is not None else None
    while isinstance(scope, DILexicalBlockAttr):
        scope = scope.scope
    return scope


def verify_function_scope(function: EntryOp | TestFuncOp) -> None:
    """A kernel's location names the function of the source that it was made from, by its linkage name."""
    if isinstance(function.location, CallSiteLoc):
        raise VerifyError(
            f"invalid function debug info location: {function.location!r}. Function location must not be a CallSiteLoc."
        )
    result = debug_location(function.location)
    if result is None:
        return
    if not isinstance(result.scope, DISubprogramAttr):
        raise VerifyError(
            f"invalid function debug info scope: {result.scope}. Function location must have cuda_tile.di_subprogram"
            " debug info scope."
        )
    if result.scope.linkage_name != function.sym_name.value:
        raise VerifyError(
            f'invalid function debug info scope: {result.scope}. Function name "{function.sym_name.value}" does not'
            f' match subprogram scope linkage name "{result.scope.linkage_name}".'
        )


def verify_operation_scopes(function: EntryOp | TestFuncOp) -> None:
    """Every operation inside a kernel belongs to the kernel's function of the source, or to none."""
    own = subprogram_of(function.location)
    for op in function.walk():
        scope = subprogram_of(op.location)
        if scope is None or scope is own:
            continue
        if own is None:
            raise VerifyError(
                f"'{op.name}' op invalid operation debug info scope: {scope}. Operation has debug info scope, but"
                " function debug info scope is undefined.",
                location=op.location,
                prefix=False,
            )
        raise VerifyError(
            f"invalid operation debug info scope: {scope}. Operation debug info scope does not match function debug"
            f" info scope: {own}.",
            location=op.location,
            prefix=False,
        )


def verify_module_scopes(module: ModuleOp) -> None:
    """Verify that only functions of a module have a scope."""
    for region in module.regions:
        for block in region.blocks:
            for op in block.operations:
                result = debug_location(op.location) if "function_type" not in op.attributes else None
                if result is not None:
                    raise VerifyError(
                        f"'{op.name}' op invalid operation debug info scope: {result!r}. Global variables must not have"
                        " scope.",
                        location=op.location,
                        prefix=False,
                    )
