"""From the bytes of a file to a `cuda_tile.module`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Container

from tileiras.ir import (
    ArrayAttr,
    Block,
    BytecodeLoc,
    DenseElementsAttr,
    DictAttr,
    FunctionType,
    IntegerAttr,
    Location,
    Operation,
    Region,
    StringAttr,
    UnitAttr,
    i64,
    lookup_attribute,
    registry,
)

from .attributes import Tables, read_tagged
from .debug_info import BytecodeOffsets, DebugInfo
from .encoding import Cursor
from .operations import FunctionReader
from .sections import (
    CONSTANT,
    DEBUG,
    FUNCTION,
    GLOBAL,
    PRODUCER,
    STRING,
    TYPE,
    ByteTable,
    StringTable,
    read_header,
    read_sections,
)
from .types import TypeTable
from .versions import ENTRY_ATTRIBUTES, TEST_FUNCTION, Version

if TYPE_CHECKING:
    from tileiras.dialects import cuda_tile

# Bits of a function's flags byte.
PRIVATE, KERNEL, HAS_HINTS = 1, 2, 4

GLOBAL_FLAGS_SINCE = Version(13, 3)
"""Globals carry visibility and constancy from this version on."""

REFERENCE_PADDING = b"\xcb"

MODULE_NAME = "kernels"
"""The name that readers give a module, since the format does not store it."""


class _Function:
    """A row of the function table; the body is not read yet."""

    __slots__ = ("name", "signature", "is_entry", "location", "hints", "arguments", "body", "offset")

    def __init__(
        self,
        name: str,
        signature: Cursor,
        is_entry: bool,
        location: int,
        hints: cuda_tile.OptimizationHintsAttr | None,
        arguments: ArrayAttr | None,
        body: Cursor,
        offset: int,
    ) -> None:
        self.name = name
        self.signature = signature
        self.is_entry = is_entry
        self.location = location
        self.hints = hints
        self.arguments = arguments
        self.body = body
        self.offset = offset


class BytecodeFile:
    """An opened file: tables and function headers are read, bodies on demand."""

    __slots__ = ("filename", "version", "tables", "functions", "debug", "sections")

    def __init__(self, data: bytes, filename: str) -> None:
        data = bytes(data)
        cursor, self.version, previews = read_header(data, filename)
        self.filename = filename
        sections = self.sections = read_sections(cursor)
        if STRING not in sections:
            cursor.fail("string section is mandatory")
        if FUNCTION not in sections:
            cursor.fail("function section is mandatory")
        strings = StringTable(sections[STRING])
        types = TypeTable(sections.get(TYPE), self.version)
        constants = ByteTable(sections[CONSTANT], 8, "constants") if CONSTANT in sections else None
        self.tables = Tables(self.version, previews, strings, types, constants)
        self.debug: DebugInfo | None = None
        self.functions = self._read_functions(sections[FUNCTION])

    def _read_functions(self, cursor: Cursor) -> list[_Function]:
        tables = self.tables
        functions: list[_Function] = []
        attributed = self.version >= ENTRY_ATTRIBUTES
        for _ in range(cursor.count("functions", 5)):
            start = cursor.pos
            name = tables.strings.read(cursor, "function name")
            if not name:
                cursor.fail("function name is empty", start)
            signature = cursor.sub(cursor.pos, cursor.pos + 10)
            cursor.varint(f"signature of function '{name}'")
            at = cursor.pos
            flags = cursor.byte(f"flags of function '{name}'")
            if flags > (PRIVATE | KERNEL | (0 if attributed else HAS_HINTS)):
                cursor.fail(f"unknown flags {flags:#x} for function '{name}'", at)
            location = cursor.varint(f"location index of function '{name}'")
            at = cursor.pos
            has_hints = flags & KERNEL and (flags & HAS_HINTS or attributed)
            hints = read_tagged(tables, cursor, "optimization hints") if has_hints else None
            if hints is not None and not isinstance(hints, lookup_attribute("cuda_tile.optimization_hints")):
                cursor.fail(f"invalid optimization hints attribute for function '{name}'", at)
            if attributed and hints is not None and not hints.value.items:
                hints = None  # This form of a function always has hints: empty ones stand for none.
            arguments = self._argument_attributes(cursor, name) if attributed else None
            at = cursor.pos
            length = cursor.varint(f"length of function '{name}'")
            if length > cursor.remaining:
                cursor.fail(
                    f"function body length {length} exceeds remaining bytecode data ({cursor.remaining} bytes)", at
                )
            body = cursor.sub(cursor.pos, cursor.pos + length)
            cursor.pos += length
            is_entry = bool(flags & KERNEL)
            offset = cursor.base + start
            functions.append(_Function(name, signature, is_entry, location, hints, arguments, body, offset))
        # The reference writer pads the section's end to a multiple of 8.
        rest = cursor.data[cursor.pos :]
        if rest and (len(cursor.data) % 8 or len(rest) > 7 or rest.strip(REFERENCE_PADDING)):
            cursor.fail(f"{len(rest)} bytes are left over after the last function")
        return functions

    def _argument_attributes(self, cursor: Cursor, name: str) -> ArrayAttr | None:
        """The dictionaries of a function's arguments; None for an empty list, which stands for none."""
        at = cursor.pos
        result = read_tagged(self.tables, cursor, f"argument attributes of function '{name}'", of=DictAttr)
        if not isinstance(result, ArrayAttr):
            cursor.fail(f"argument attributes of function '{name}' are not an array", at)
        return result if len(result) else None

    # ---- operations --------------------------------------------------------------------------------------------------

    def module(self, entries: Container[str] | None = None) -> Operation:
        """The module with its globals and the entries named in `entries` (all by default)."""
        block = Block()
        for op in self._globals():
            block.append(op)
        debug = self.sections.get(DEBUG)
        if debug is not None and self.debug is None:
            self.debug = DebugInfo(debug, self.tables.strings, self.version)
        for function in self.functions:
            if entries is None or function.name in entries:
                block.append(self._entry(function))
        attributes: dict[str, Any] = {"sym_name": StringAttr(MODULE_NAME)}
        producer = self.producer()
        if producer:
            attributes["producer"] = StringAttr(producer)
        return _operation("cuda_tile.module").create((), (), attributes, [Region([block])])

    def producer(self) -> str:
        cursor = self.sections.get(PRODUCER)
        if cursor is None:
            return ""
        cursor.pos = 0
        return self.tables.strings.read(cursor, "producer string")

    def _entry(self, function: _Function) -> Operation:
        body = function.body
        type = self._signature(function)
        op_class = registry.OPERATIONS.get(TEST_FUNCTION) if not function.is_entry else _operation("cuda_tile.entry")
        if op_class is None:
            function.signature.fail(f"un-expected non-entry function '{function.name}'", 0)
        locations: Any = BytecodeOffsets()
        location: Location = BytecodeLoc(self.filename, body.section, function.offset)
        if function.location:
            if self.debug is None:
                function.signature.fail(f"failed to read function location for '{function.name}'", 0)
            locations = self.debug.locations(function.location, body)
            location = locations.next(body, 0)
        block = Block(type.inputs, [location] * len(type.inputs))
        FunctionReader(self.tables, body, locations).read_body(block)
        attributes: dict[str, Any] = {"sym_name": StringAttr(function.name), "function_type": type}
        if function.hints is not None:
            attributes["optimization_hints"] = function.hints
        if function.arguments is not None:
            attributes["arg_attrs"] = function.arguments
        return op_class.create((), (), attributes, [Region([block])], (), location)

    def _signature(self, function: _Function) -> FunctionType:
        """The type of a function.

        Entries may take tokens and views, as in text: the public dialect's reader accepts them, and its tests have
        some.  The vendor's newest tools refuse them when reading; here a kernel is refused when it is compiled.
        """
        at = function.signature
        at.pos = 0
        type = self.tables.types.read(at, f"signature of function '{function.name}'")
        if not isinstance(type, FunctionType):
            wrong = f"does not refer to a function type for function '{function.name}', got type: {type}"
            at.fail(f"function signature index {wrong}", 0)
        return type

    def _globals(self) -> list[Operation]:
        cursor = self.sections.get(GLOBAL)
        if cursor is None:
            return []
        cursor.pos = 0
        tables = self.tables
        with_flags = self.version >= GLOBAL_FLAGS_SINCE
        operations: list[Operation] = []
        for _ in range(cursor.count("globals", 6 if with_flags else 4)):
            start = cursor.pos
            location = BytecodeLoc(self.filename, cursor.section, cursor.base + start)
            name = tables.strings.read(cursor, "global symbol name")
            if not name:
                cursor.fail("global symbol name is empty", start)
            type = tables.types.read(cursor, f"type of global '{name}'")
            value: DenseElementsAttr = tables.dense(cursor, type, f"global '{name}'")
            alignment = cursor.varint(f"alignment of global '{name}'")
            attributes: dict[str, Any] = {"sym_name": StringAttr(name), "value": value}
            if alignment:
                attributes["alignment"] = IntegerAttr(alignment, i64)
            if with_flags:
                at = cursor.pos
                number = cursor.varint(f"symbol visibility of global '{name}'")
                visibility = lookup_attribute("cuda_tile.symbol_visibility").from_number(number)  # type: ignore
                if visibility is None:
                    cursor.fail(f"invalid symbol visibility value: {number}", at)
                if number:
                    attributes["symbol_visibility"] = visibility
                if cursor.varint(f"constant flag of global '{name}'"):
                    attributes["constant"] = UnitAttr()
            operations.append(_operation("cuda_tile.global").create((), (), attributes, (), (), location))
        if cursor.remaining:
            cursor.fail(f"{cursor.remaining} bytes are left over after the last global")
        return operations


def _operation(name: str) -> type[Operation]:
    cls = registry.lookup_operation(name)
    assert cls is not None
    return cls


def read_module(data: bytes, filename: str = "<bytecode>", *, entries: Container[str] | None = None) -> Operation:
    """The `cuda_tile.module` in `data`, not verified; only the entries named in `entries` when that is given.

    Operations carry the location that the debug section gives them, or else their offset in the file (BytecodeLoc).
    Raises BytecodeError (a CompileError, exit code 3) naming the section and byte offset of the error.
    """
    return BytecodeFile(data, filename).module(entries)


def entry_names(data: bytes, filename: str = "<bytecode>") -> list[str]:
    """Names of the entries in file order.  Reads tables and function headers, no bodies."""
    return [function.name for function in BytecodeFile(data, filename).functions if function.is_entry]
