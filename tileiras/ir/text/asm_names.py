"""The names that printed text uses: of values, blocks, and aliases of attributes, types and locations.

Numbering is MLIR's.  An operation may suggest names: `asm_result_names(self)` and
`asm_block_argument_names(self, region)` return (value, name) pairs; an operation that declares several results and
no such method suggests the names of its result fields.  An attribute or type class with `asm_alias = "word"` is printed
as an alias.
"""

from __future__ import annotations

import re
from typing import Any, Iterable

from ..attributes import Attribute
from ..blocks import Block, Region
from ..location import CallSiteLoc, FileLineColLoc, FusedLoc, Location, NameLoc, OpaqueLoc, SourceLoc, UnknownLoc
from ..operation import Operation
from ..types import Type
from ..values import Value

_NOT_IN_NAMES = re.compile(r"[^\w$.\-]", re.ASCII)


class _Scope:
    """Names taken in a region and those around it."""

    __slots__ = ("taken", "outer")

    def __init__(self, outer: "_Scope | None") -> None:
        self.taken: set[str] = set()
        self.outer = outer

    def has(self, name: str) -> bool:
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.taken:
                return True
            scope = scope.outer
        return False


class ValueNames:
    """`%`-names of all values and `^`-names of all blocks of an operation."""

    __slots__ = ("values", "blocks", "groups", "_suggest", "_next_value", "_next_argument", "_next_conflict")

    def __init__(self, root: Operation, suggest: bool) -> None:
        self.values: dict[Value, str] = {}
        self.blocks: dict[Block, str] = {}
        # Operations whose results do not share one name -> the numbers of the results that start a group.
        self.groups: dict[Operation, list[int]] = {}
        self._suggest = suggest
        self._next_value = self._next_argument = self._next_conflict = 0
        top = _Scope(None)
        pending: list[tuple[Region, int, int, int, _Scope]] = [(region, 0, 0, 0, top) for region in root.regions]
        self._name_results(root, top)
        pending = [(r, self._next_value, 0, self._next_conflict, top) for r in root.regions]
        # Regions continue the numbers of the region around them, as of its end.
        while pending:
            region, self._next_value, self._next_argument, self._next_conflict, outer = pending.pop()
            scope = _Scope(outer)
            self._name_region(region, scope)
            for block in region.blocks:
                op = block.first
                while op is not None:
                    if op._regions:
                        pending += [
                            (r, self._next_value, self._next_argument, self._next_conflict, scope) for r in op._regions
                        ]
                    op = op.next

    def _name_region(self, region: Region, scope: _Scope) -> None:
        parent = region.parent
        values = self.values
        if self._suggest and parent is not None:
            names = getattr(parent, "asm_block_argument_names", None)
            if names is not None:
                for argument, name in names(region):
                    values[argument] = self._unique(name, scope)
        for number, block in enumerate(region.blocks):
            self.blocks[block] = f"^bb{number}"
            for argument in block.arguments:
                if argument in values:
                    continue
                if number == 0:
                    values[argument] = self._unique(f"arg{self._next_argument}", scope)
                    self._next_argument += 1
                else:
                    values[argument] = f"%{self._next_value}"
                    self._next_value += 1
            op = block.first
            while op is not None:
                if op._results:
                    self._name_results(op, scope)
                op = op.next

    def _name_results(self, op: Operation, scope: _Scope) -> None:
        results = op._results
        if not results:
            return
        values = self.values
        if self._suggest:
            suggested = _suggestions(op)
            if suggested:
                starts = [0]
                for value, name in suggested:
                    if value not in values:
                        values[value] = self._unique(name, scope)
                        if value.index:
                            starts.append(value.index)
                if len(starts) > 1:
                    self.groups[op] = sorted(starts)
        first = results[0]
        if first not in values:
            values[first] = f"%{self._next_value}"
            self._next_value += 1
        if len(results) > 1:
            starts = self.groups.get(op, [0])
            base, start = values[first], 0
            for number, value in enumerate(results):
                if number in starts:
                    base, start = values[value], number
                    following = next((s for s in starts if s > number), len(results))
                    if following == number + 1:
                        continue
                values[value] = f"{base}#{number - start}"

    def _unique(self, name: str, scope: _Scope) -> str:
        """`%name`, with a number after it when the name is taken in this scope."""
        name = _NOT_IN_NAMES.sub("_", name) or "_"
        if name[0].isdigit():
            name = f"_{name}"
        if scope.has(name):
            base = name
            while scope.has(name):
                name = f"{base}_{self._next_conflict}"
                self._next_conflict += 1
        scope.taken.add(name)
        return f"%{name}"


def _suggestions(op: Operation) -> Iterable[tuple[Any, str]]:
    names = getattr(op, "asm_result_names", None)
    if names is not None:
        return names()
    fields = op.result_fields
    if len(fields) < 2:
        return ()
    spans = op.result_spans()
    if spans is None:
        return ()
    return [(op._results[start], field.name) for field, (start, end) in zip(fields, spans) if end > start]


class _Entry:
    __slots__ = ("name", "depth", "deferred", "item", "is_type")

    def __init__(self, item: Location | Attribute, name: str | None, deferred: bool) -> None:
        self.item = item
        self.name = name
        self.depth = 0
        self.deferred = deferred
        self.is_type = False


class AliasNames:
    """Which attributes, types and locations get an alias, and in which order they are defined.

    Locations, and items that only locations use, are defined after the operation; all others before it.
    """

    __slots__ = ("names", "before", "after", "_entries", "_positions")

    def __init__(self) -> None:
        self._entries: dict[Any, _Entry] = {}
        # SourceLoc -> the position it stands for, so that equal places share an alias.
        self._positions: dict[Location, FileLineColLoc] = {}
        self.names: dict[Any, str] = {}
        self.before: list[Any] = []
        self.after: list[Any] = []

    def assign(self) -> None:
        """Name all visited items, in MLIR's order: by depth, types first, by name, in order of visit."""
        ordered = sorted(
            (e for e in self._entries.values() if e.name is not None), key=lambda e: (e.depth, not e.is_type, e.name)
        )
        counts: dict[str, int] = {}
        for entry in ordered:
            name = entry.name
            assert name is not None
            if name[-1].isdigit():
                name += "_"
            number = counts.get(name, 0)
            counts[name] = number + 1
            self.names[entry.item] = f"{'!' if entry.is_type else '#'}{name}{number or ''}"
        self.before = [e.item for e in ordered if not e.deferred]
        self.after = [e.item for e in ordered if e.deferred]

    def canonical(self, location: Location) -> Location:
        """The location as a value: positions in a text become file, line and column."""
        while isinstance(location, OpaqueLoc):
            location = location.fallback
        if isinstance(location, SourceLoc):
            result = self._positions.get(location)
            if result is None:
                result = self._positions[location] = location.file_line_col()
            return result
        return location

    def visit_operations(self, op: Operation) -> None:
        """Enter the attributes and result types of `op` and of all operations inside it, without locations."""
        entries = self._entries
        for inner in op.walk():
            for attribute in inner.attributes.values():
                if attribute not in entries:
                    self.visit(attribute, False)
            for result in inner._results:
                if result.type not in entries:
                    self.visit(result.type, False)
            for region in inner._regions:
                for block in region.blocks:
                    for argument in block.arguments:
                        self.visit(argument.type, False)

    @property
    def is_empty(self) -> bool:
        return all(entry.name is None for entry in self._entries.values())

    def visit(self, item: Location | Attribute, deferred: bool) -> int:
        """Enter `item` and its components; return the depth (1 + the deepest alias inside) for its user."""
        entry = self._entries.get(item)
        if entry is not None:
            if not deferred and entry.deferred:
                entry.deferred = False
                for child in self._children(item):
                    self.visit(child, False)
            return entry.depth + (entry.name is not None)
        item = self.canonical(item) if isinstance(item, Location) else item
        is_location = isinstance(item, Location)
        name = "loc" if is_location else item.asm_alias
        entry = self._entries[item] = _Entry(item, name, deferred)
        entry.is_type = isinstance(item, Type)
        entry.depth = max((self.visit(child, deferred) for child in self._children(item)), default=0)
        return entry.depth + (entry.name is not None)

    def _children(self, item: Location | Attribute) -> list:
        if isinstance(item, NameLoc):
            inner: list = [item.child]
        elif isinstance(item, CallSiteLoc):
            inner = [item.callee, item.caller]
        elif isinstance(item, FusedLoc):
            inner = [*([item.metadata] if item.metadata is not None else ()), *item.locations]
        elif isinstance(item, (FileLineColLoc, UnknownLoc)):
            inner = []
        elif isinstance(item, Attribute):
            inner = _parts(item.values)
        else:
            # A dialect's own location: its fields.
            inner = _parts(tuple(getattr(item, name) for name in type(item).__slots__))
        return [self.canonical(x) if isinstance(x, Location) else x for x in inner]


def _parts(values: tuple) -> list:
    parts: list = []
    for value in values:
        if isinstance(value, tuple):
            parts += _parts(value)
        elif isinstance(value, (Attribute, Location)):
            parts.append(value)
    return parts
