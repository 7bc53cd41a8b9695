"""The debug section: where operations come from in the user's program."""

from __future__ import annotations

import functools
from typing import Any

from tileiras.ir import UNKNOWN_LOC, Attribute, BytecodeLoc, CallSiteLoc, FileLineColLoc, Location, lookup_attribute

from .encoding import Cursor
from .sections import ByteTable, StringTable
from .versions import ENTRY_ATTRIBUTES, Version

# Tags of the entries.
COMPILE_UNIT, FILE, LEXICAL_BLOCK, LOC, SUBPROGRAM, CALL_SITE = range(1, 7)

MAX_NESTING = 200
"""Scopes and call sites inside each other."""


class DebugInfo:
    """Entries by index, read when an operation first refers to them.  Index 0 is the unknown location."""

    __slots__ = ("strings", "version", "op_starts", "op_indices", "table", "_cache", "_open", "by_index")

    def __init__(self, cursor: Cursor, strings: StringTable, version: Version) -> None:
        self.strings = strings
        self.version = version
        number = cursor.count("functions with debug info", 4)
        self.op_starts = cursor.offsets(number, 4, "debug info index offsets")
        number = cursor.count("debug info indices", 8)
        self.op_indices = cursor.offsets(number, 8, "debug info indices")
        # Offsets of the entries are aligned from the start of the section, so the table continues with the same cursor.
        self.table = ByteTable(cursor, 4, "debug info attributes")
        self._cache: dict[int, Any] = {}
        self._open: list[int] = []
        self.by_index: dict[int, Location] = {0: UNKNOWN_LOC}
        """Entries that are locations and have been read."""

    def locations(self, function: int, at: Cursor) -> "LocationSequence":
        """The locations of one function and its operations; `function` counts from 1."""
        if function > len(self.op_starts):
            at.fail(f"function location index {function} out of bounds (size={len(self.op_starts)})")
        return LocationSequence(self, self.op_starts[function - 1])

    def location(self, index: int, at: Cursor) -> Location:
        entry = self.entry(index, at)
        if not isinstance(entry, Location):
            at.fail(f"failed to read operation location: debug info attribute {index} is not a location")
        self.by_index[index] = entry
        return entry

    def entry(self, index: int, at: Cursor) -> Any:
        if index == 0:
            return UNKNOWN_LOC
        result = self._cache.get(index)
        if result is not None:
            return result
        if index > len(self.table):
            at.fail(f"debug info index {index} out of bounds (size={len(self.table)})")
        if index in self._open:
            at.fail(f"debug info attribute {index} contains itself")
        if len(self._open) == MAX_NESTING:
            at.fail(f"debug info attributes are nested more than {MAX_NESTING} deep")
        self._open.append(index)
        run = self.table.run(index - 1)
        result = self._parse(run)
        self._open.pop()
        self._cache[index] = result
        return result

    def _parse(self, run: Cursor) -> Any:
        tag = run.varint("debug info tag")
        if tag == FILE:
            name = self.strings.read(run, "file name attribute when parsing DIFileAttr")
            directory = self.strings.read(run, "directory attribute when parsing DIFileAttr")
            return _attribute("di_file")(name, directory)
        if tag == COMPILE_UNIT:
            return _attribute("di_compile_unit")(self._child(run, "file", "DICompileUnitAttr", _attribute("di_file")))
        if tag == SUBPROGRAM:
            owner = "DISubprogramAttr"
            file = self._child(run, "file", owner, _attribute("di_file"))
            line = _position(run, "line number when parsing DISubprogramAttr")
            name = self.strings.read(run, "name attribute when parsing DISubprogramAttr")
            linkage_name = self.strings.read(run, "linkage name attribute when parsing DISubprogramAttr")
            unit = self._child(run, "compile unit", owner, _attribute("di_compile_unit"))
            scope_line = _position(run, "scope line number when parsing DISubprogramAttr")
            if self.version >= ENTRY_ATTRIBUTES:
                run.varint("flags when parsing DISubprogramAttr")  # none is defined yet
            return _attribute("di_subprogram")(file, line, name, linkage_name, unit, scope_line)
        if tag == LEXICAL_BLOCK:
            owner = "DILexicalBlockAttr"
            scope = self._child(run, "scope", owner, _local_scopes())
            file = self._child(run, "file", owner, _attribute("di_file"))
            line = _position(run, "line number when parsing DILexicalBlockAttr")
            column = _position(run, "column number when parsing DILexicalBlockAttr")
            return _attribute("di_lexical_block")(scope, file, line, column)
        if tag == LOC:
            scope = self._child(run, "scope", "DILocAttr", _local_scopes())
            filename = self.strings.read(run, "file name attribute when parsing FileLineColLoc")
            line = _position(run, "line number when parsing FileLineColLoc")
            column = _position(run, "column number when parsing FileLineColLoc")
            return _attribute("di_loc")(FileLineColLoc(filename, line, column), scope)
        if tag == CALL_SITE:
            callee = self._child(run, "callee", "CallSiteLoc", Location)
            caller = self._child(run, "caller", "CallSiteLoc", Location)
            return CallSiteLoc(callee, caller)
        # Writers put an entry of tag 0 into an otherwise empty table; readers take every other tag for it.
        return UNKNOWN_LOC

    def _child(
        self, run: Cursor, label: str, owner: str, classes: type[Attribute] | tuple[type[Attribute], ...]
    ) -> Any:
        start = run.pos
        index = run.varint(f"{label} attribute when parsing {owner}")
        entry = self.entry(index, run)
        if not isinstance(entry, classes):
            run.fail(f"failed to read {label} attribute when parsing {owner}", start)
        return entry


class LocationSequence:
    """Locations of a function's operations in the order of the operations in the file."""

    __slots__ = ("info", "at")

    def __init__(self, info: DebugInfo, start: int) -> None:
        self.info = info
        self.at = start

    def next(self, cursor: Cursor, start: int) -> Location:
        """The location of the operation at `start`."""
        info = self.info
        at = self.at
        if at >= len(info.op_indices):
            cursor.fail("failed to read operation location.", start)
        self.at = at + 1
        index = info.op_indices[at]
        return info.by_index.get(index) or info.location(index, cursor)


class BytecodeOffsets:
    """For a function without debug information: the location of each operation is its offset in the file."""

    __slots__ = ()

    def next(self, cursor: Cursor, start: int) -> Location:
        return BytecodeLoc(cursor.filename, cursor.section, cursor.base + start)


def _position(run: Cursor, label: str) -> int:
    """A line or column: 32 bits wide, as the vendor's reader keeps them."""
    return run.varint(label) & 0xFFFFFFFF


@functools.cache
def _attribute(mnemonic: str) -> Any:
    return lookup_attribute(f"cuda_tile.{mnemonic}")


@functools.cache
def _local_scopes() -> tuple:
    return (_attribute("di_subprogram"), _attribute("di_lexical_block"))
