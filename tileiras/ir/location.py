"""Locations: where an operation came from.  Every operation has one; there is no None.

A position in a text is kept as (source, offset) and converted to line and column only on use, so that locations cost
nothing while compiling.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Sequence

from tileiras.diagnostics import FilePosition

if TYPE_CHECKING:
    from .attributes import Attribute


class Location:
    """Base of all locations.  Immutable."""

    __slots__ = ()

    def resolve(self) -> FilePosition | None:
        """The file position to show a user; None if absent."""
        return None


class UnknownLoc(Location):
    __slots__ = ()

    def __repr__(self) -> str:
        return "loc(unknown)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnknownLoc)

    def __hash__(self) -> int:
        return hash(UnknownLoc)


UNKNOWN_LOC = UnknownLoc()


class SourceText:
    """A named text; finds lines and columns on demand."""

    __slots__ = ("name", "text", "_line_starts")

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text
        self._line_starts: list[int] | None = None

    def position(self, offset: int) -> FilePosition:
        starts = self._line_starts
        if starts is None:
            starts = [0]
            find = self.text.find
            at = find("\n")
            while at >= 0:
                starts.append(at + 1)
                at = find("\n", at + 1)
            self._line_starts = starts
        line = bisect_right(starts, offset)
        start = starts[line - 1]
        end = self.text.find("\n", start)
        return FilePosition(self.name, line, offset - start + 1, self.text[start : end if end >= 0 else None])


class SourceLoc(Location):
    """An offset into a text that is being read."""

    __slots__ = ("source", "offset")

    def __init__(self, source: SourceText, offset: int) -> None:
        self.source = source
        self.offset = offset

    def resolve(self) -> FilePosition:
        return self.source.position(self.offset)

    def file_line_col(self) -> "FileLineColLoc":
        position = self.resolve()
        return FileLineColLoc(position.filename, position.line, position.column)

    def __repr__(self) -> str:
        return repr(self.file_line_col())


class ValueLocation(Location):
    """A location compared by its fields.

    It is hashed once: locations of inlined calls are nested as deep as the calls, and merging operations asks for the
    hashes of all of them again and again.
    """

    __slots__ = ("_hash",)

    def _key(self) -> tuple:
        return tuple(getattr(self, name) for name in self.__slots__)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return type(other) is type(self) and other._key() == self._key()  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            self._hash = hash((type(self), self._key()))
            return self._hash


class FileLineColLoc(ValueLocation):
    """`"file":line:column`, or the range `"file":line:column to end_line:end_column`."""

    __slots__ = ("filename", "line", "column", "end_line", "end_column")

    def __init__(self, filename: str, line: int, column: int, end_line: int = 0, end_column: int = 0) -> None:
        self.filename = filename
        self.line = line
        self.column = column
        self.end_line = end_line
        self.end_column = end_column

    def resolve(self) -> FilePosition:
        return FilePosition(self.filename, self.line, self.column)

    def __repr__(self) -> str:
        return f'loc("{self.filename}":{self.line}:{self.column})'


class NameLoc(ValueLocation):
    __slots__ = ("name", "child")

    def __init__(self, name: str, child: Location = UNKNOWN_LOC) -> None:
        self.name = name
        self.child = child

    def resolve(self) -> FilePosition | None:
        return self.child.resolve()

    def __repr__(self) -> str:
        return f'loc("{self.name}")'


class OpaqueLoc(ValueLocation):
    """A location in the representation of the program that builds the module.

    `handle` is any hashable object; it is printed and written as `fallback`, since no file can hold it.
    """

    __slots__ = ("handle", "fallback")

    def __init__(self, handle: object, fallback: Location = UNKNOWN_LOC) -> None:
        self.handle = handle
        self.fallback = fallback

    def resolve(self) -> FilePosition | None:
        return self.fallback.resolve()

    def __repr__(self) -> str:
        return repr(self.fallback)


class CallSiteLoc(ValueLocation):
    __slots__ = ("callee", "caller")

    def __init__(self, callee: Location, caller: Location) -> None:
        self.callee = callee
        self.caller = caller

    def resolve(self) -> FilePosition | None:
        return self.callee.resolve() or self.caller.resolve()

    def __repr__(self) -> str:
        return f"loc(callsite({self.callee!r} at {self.caller!r}))"


LIMIT = 16
"""How many locations a fusion keeps: a constant may have been merged a thousand times."""


class FusedLoc(ValueLocation):
    """Several locations that became one; `metadata` is an attribute or None."""

    __slots__ = ("locations", "metadata")

    def __init__(self, locations: Sequence[Location], metadata: "Attribute | None" = None) -> None:
        self.locations = tuple(locations)
        self.metadata = metadata

    @staticmethod
    def of(*locations: Location) -> Location:
        """The fusion of `locations`, without the unknown ones and without repetition, at most `LIMIT` of them.

        Fusions without metadata are taken apart.
        """
        locations_seen: dict[Location, None] = {}
        for location in locations:
            if type(location) is FusedLoc and location.metadata is None:
                locations_seen.update(dict.fromkeys(location.locations))
            elif not isinstance(location, UnknownLoc):
                locations_seen[location] = None
        if len(locations_seen) < 2:
            return next(iter(locations_seen), UNKNOWN_LOC)
        return FusedLoc(tuple(locations_seen)[:LIMIT])

    def resolve(self) -> FilePosition | None:
        for location in self.locations:
            position = location.resolve()
            if position is not None:
                return position
        return None

    def __repr__(self) -> str:
        return f"loc(fused[{', '.join(map(repr, self.locations))}])"


class BytecodeLoc(ValueLocation):
    """A byte offset in a bytecode file, with the section that it lies in ("" for the header)."""

    __slots__ = ("filename", "section", "offset")

    def __init__(self, filename: str, section: str, offset: int) -> None:
        self.filename = filename
        self.section = section
        self.offset = offset

    def __str__(self) -> str:
        where = f" in {self.section} section" if self.section else ""
        return f"{self.filename}: offset {self.offset}{where}"

    def __repr__(self) -> str:
        return f"loc({str(self)!r})"
