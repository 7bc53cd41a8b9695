"""Reading locations: `loc(...)` in all its forms."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ..location import UNKNOWN_LOC, CallSiteLoc, FileLineColLoc, FusedLoc, Location, NameLoc, SourceText
from . import lexer
from .token_reader import TokenReader

if TYPE_CHECKING:
    from ..types import Type

_FILE_LOC = re.compile(rf'loc\("([^"\\\n]*)":(\d{{1,9}}):(\d{{1,9}})\){lexer.TRIVIA}', re.ASCII)
_ALIAS_LOC = re.compile(rf"loc\((#[\w$]+)\){lexer.TRIVIA}", re.ASCII)


class LocationParser(TokenReader):
    """Reads locations; the attributes inside them are the subclass's matter."""

    def __init__(self, source: SourceText) -> None:
        super().__init__(source)
        self._aliases: dict[str, Any] = {}
        self._locations_by_text: dict[str, Location] = {}

    def parse_attribute(self, type: Type | None = None) -> Any:
        raise AssertionError("a location parser reads attributes as part of an attribute parser")

    def _parse_hash_attribute(self) -> Any:
        return self.parse_attribute()

    def parse_optional_location(self) -> Location | None:
        """`loc(...)`, None when the next token is something else."""
        if not self.text.startswith("loc", self.pos):
            return None
        match = _FILE_LOC.match(self.text, self.pos)
        if match is not None:
            self.pos = match.end()
            key = match[0]
            optional_location = self._locations_by_text.get(key)
            if optional_location is None:
                optional_location = self._locations_by_text[key] = FileLineColLoc(
                    match[1], int(match[2]), int(match[3])
                )
            return optional_location
        match = _ALIAS_LOC.match(self.text, self.pos)
        if match is not None and match[1] in self._aliases:
            optional_location = self._aliases[match[1]]
            if isinstance(optional_location, Location):
                self.pos = match.end()
                return optional_location
        if not self.parse_optional_keyword("loc"):
            return None
        self.parse_punctuation("(")
        optional_location = self.parse_location_instance()
        self.parse_punctuation(")")
        return optional_location

    def parse_location(self) -> Location:
        """A location in attribute position: `loc(...)`, an alias or a dialect's location attribute."""
        optional_location = self.parse_optional_location()
        return optional_location if optional_location is not None else self.parse_location_instance()

    def parse_location_instance(self) -> Location:
        """Parse the text inside `loc(...)`."""
        self._enter()
        location = self._parse_location_instance()
        self._depth -= 1
        return location

    def _parse_location_instance(self) -> Location:
        start = self.pos
        first = self.text[start]
        if first == "#":
            attribute = self._parse_hash_attribute()
            if not isinstance(attribute, Location):
                self.fail(start, f"expected location, but found '{attribute}'")
            return attribute
        if first == '"':
            return self._parse_file_or_name_location()
        if self.parse_optional_keyword("unknown"):
            return UNKNOWN_LOC
        if self.parse_optional_keyword("callsite"):
            self.parse_punctuation("(")
            callee = self.parse_location_instance()
            self.parse_keyword("at")
            caller = self.parse_location_instance()
            self.parse_punctuation(")")
            return CallSiteLoc(callee, caller)
        if self.parse_optional_keyword("fused"):
            metadata = None
            if self.parse_optional_punctuation("<"):
                metadata = self.parse_attribute()
                self.parse_punctuation(">")
            return FusedLoc(self.parse_comma_separated(self.parse_location_instance, "[", "]"), metadata)
        nested = self.parse_optional_location()
        if nested is None:
            self.expected("location instance")
        return nested

    def _parse_file_or_name_location(self) -> Location:
        name = self.parse_string()
        if self.parse_optional_punctuation(":"):
            line = self._parse_position("line number in FileLineColLoc")
            if not self.parse_optional_punctuation(":"):
                return FileLineColLoc(name, line, 0)
            column = self._parse_position("column number in FileLineColLoc")
            if not self.parse_optional_keyword("to"):
                return FileLineColLoc(name, line, column)
            same_line = self.text[self.pos] == ":"
            end_line = line if same_line else self._parse_position("line number in FileLineColLoc")
            self.parse_punctuation(":")
            end_column = self._parse_position("column number in FileLineColLoc")
            return FileLineColLoc(name, line, column, end_line, end_column)
        if self.parse_optional_punctuation("("):
            child = self.parse_location_instance()
            self.parse_punctuation(")")
            return NameLoc(name, child)
        return NameLoc(name)

    def _parse_position(self, label: str) -> int:
        match = lexer.INTEGER.match(self.text, self.pos)
        value = self._integer(match[1], self.pos) if match is not None else -1
        if match is None or not 0 <= value < 1 << 32:
            self.expected(f"integer {label}")
        self.pos = match.end()
        return value
