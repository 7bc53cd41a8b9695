"""The part of the parser that knows attributes; see `type_parser` for types and aliases."""

from __future__ import annotations

from typing import Any, Callable

from .. import registry
from ..attributes import (
    ArrayAttr,
    DenseArrayAttr,
    DenseElementsAttr,
    DictAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
)
from ..types import (
    FloatType,
    IndexType,
    IntegerType,
    ShapedType,
    Type,
    f64,
    i1,
    i64,
)
from . import lexer
from .type_parser import TypeParser


class AttributeParser(TypeParser):
    """Reads attributes, types and locations from a text."""

    def parse_attribute(self, type: Type | None = None) -> Any:
        """An attribute, or a type or location in its place; with `type`, a number has it and no `: type` follows."""
        optional_attribute = self.parse_optional_attribute(type)
        if optional_attribute is None:
            self.expected("attribute value")
        return optional_attribute

    def parse_optional_attribute(self, type: Type | None = None) -> Any:
        text, start = self.text, self.pos
        first = text[start]
        if first == "#":
            return self._parse_hash_attribute()
        if first == '"':
            value = self.parse_string()
            if type is None and self.parse_optional_punctuation(":"):
                self.parse_type()  # typed strings do not occur in our dialects: the type says nothing more
            return StringAttr(value)
        if first == "@":
            return self.parse_symbol_reference()
        if first == "[":
            self._enter()
            array_attr = ArrayAttr(self.parse_comma_separated(self.parse_attribute, "[", "]"))
            self._depth -= 1
            return array_attr
        if first == "{":
            return DictAttr(self.parse_attribute_dictionary())
        if first.isdigit() or first == "-" and text[start + 1] != ">":
            return self._parse_number(type)
        match = lexer.KEYWORD.match(text, start)
        if match is not None:
            reader = self._KEYWORD_ATTRIBUTES.get(match[1])
            if reader is not None and (match[1] not in ("dense", "array", "loc") or text[match.end()] in "<("):
                if match[1] != "loc":
                    self.pos = match.end()
                return reader(self)
        return self.parse_optional_type()

    def _parse_true(self) -> IntegerAttr:
        return IntegerAttr(1, i1)

    def _parse_false(self) -> IntegerAttr:
        return IntegerAttr(0, i1)

    def _parse_unit(self) -> UnitAttr:
        return UnitAttr()

    def parse_symbol_reference(self) -> SymbolRefAttr:
        match = lexer.SYMBOL.match(self.text, self.pos)
        if match is None:
            self.expected("symbol reference")
        names = [self.parse_symbol_name()]
        while self.text.startswith("::@", self.pos):
            self._advance(2)
            names.append(self.parse_symbol_name())
        return SymbolRefAttr(names[0], names[1:])

    def _parse_hash_attribute(self) -> Any:
        start = self.pos
        match = lexer.HASH.match(self.text, start)
        if match is None:
            self.fail(start, "invalid attribute name")
        name = match[1][1:]
        self.pos = match.end()
        if "." in name:
            return self._parse_parameters(
                self._dialect_class(registry.lookup_attribute, name, start, "attribute"), start
            )
        if self.text[match.end(1)] == "<":  # #dialect<mnemonic ...>
            self.parse_punctuation("<")
            inner = f"{name}.{self.parse_any_keyword()}"
            cls = self._dialect_class(registry.lookup_attribute, inner, start, "attribute")
            hash_attribute = self._parse_parameters(cls, start)
            self.parse_punctuation(">")
            return hash_attribute
        hash_attribute = self._resolve_alias("#" + name, start)
        if hash_attribute is None:
            self.fail(start, f"undefined symbol alias id '{name}'")
        return hash_attribute

    def _parse_number(self, type: Type | None) -> Any:
        start = self.pos
        match = lexer.NUMBER.match(self.text, start)
        if match is None:
            self.expected("attribute value")
        literal = match[1]
        self.pos = match.end()
        if type is None:
            if self.parse_optional_punctuation(":"):
                type = self.parse_type()
            else:
                type = f64 if "." in literal else i64
        if isinstance(type, FloatType):
            if "." not in literal and "x" not in literal:
                self.fail(
                    start,
                    "unexpected decimal integer literal for a floating point value",
                    ((self.location_at(start), "add a trailing dot to make the literal a float"),),
                )
            return FloatAttr(self._float_bits(literal, type, start), type)
        if not isinstance(type, (IntegerType, IndexType)):
            self.fail(start, "integer literal not valid for specified type")
        if "." in literal:
            self.fail(start, "floating point value not valid for specified type")
        return IntegerAttr(self._integer_in_range(literal, type, start), type)

    def _integer_in_range(self, literal: str, type: IndexType | IntegerType, start: int) -> int:
        value = self._integer(literal, start)
        width = type.width
        if not -(1 << (width - 1)) <= value < 1 << width:
            self.fail(start, "integer constant out of range for attribute")
        return value

    def parse_attribute_dictionary(self) -> dict[str, Any]:
        """`{name = value, flag}`."""
        self._enter()
        result: dict[str, Any] = {}

        def entry() -> None:
            start = self.pos
            match = lexer.KEYWORD_OR_STRING.match(self.text, start)
            if match is None:
                self.expected("attribute name")
            self.pos = match.end()
            key = self._unquote(match[1], start) if match[1][0] == '"' else match[1]
            if not key:
                self.fail(start, "expected valid attribute name")
            if key in result:
                self.fail(start, f"duplicate key '{key}' in dictionary attribute")
            result[key] = self.parse_attribute() if self.parse_optional_punctuation("=") else UnitAttr()

        self.parse_comma_separated(entry, "{", "}")
        self._depth -= 1
        return result

    def parse_optional_attr_dict(self) -> dict[str, Any]:
        return self.parse_attribute_dictionary() if self.text[self.pos] == "{" else {}

    def _parse_dense_array(self) -> DenseArrayAttr:
        self.parse_punctuation("<")
        type = self.parse_type()
        if not isinstance(type, (IntegerType, FloatType)) or type.width not in (1, 8, 16, 32, 64):
            self.fail(self.pos, "expected integer or float type of at least one byte")
        values: list = []
        if self.parse_optional_punctuation(":"):
            values = self.parse_comma_separated(lambda: self._parse_array_element(type))
        self.parse_punctuation(">")
        return DenseArrayAttr(type, values)

    def _parse_array_element(self, type: FloatType | IntegerType) -> int | float:
        if isinstance(type, FloatType):
            return FloatAttr(self.parse_float_literal(type), type).value
        if type is i1 and self.parse_optional_keyword("true"):
            return 1
        if type is i1 and self.parse_optional_keyword("false"):
            return 0
        start = self.pos
        match = lexer.INTEGER.match(self.text, start)
        if match is None:
            self.expected("integer value")
        self.pos = match.end()
        return IntegerAttr(self._integer_in_range(match[1], type, start), type).value

    def parse_dense_array_elements(self, type: IntegerType) -> DenseArrayAttr:
        """`[1, 2, 3]` as an array attribute of element type `type`."""
        return DenseArrayAttr(type, self.parse_comma_separated(lambda: self._parse_array_element(type), "[", "]"))

    def _parse_dense(self) -> DenseElementsAttr:
        from .dense_format import parse_dense_literal

        start = self.pos
        self.parse_punctuation("<")
        literal = parse_dense_literal(self, empty_allowed=True)
        self.parse_punctuation(">")
        self.parse_punctuation(":")
        type = self.parse_type()
        if not isinstance(type, ShapedType):
            self.fail(start, "elements literal must be a shaped type")
        return literal.build(self, type, type.element_type)

    _KEYWORD_ATTRIBUTES: dict[str, Callable[["AttributeParser"], Any]] = {
        "true": _parse_true,
        "false": _parse_false,
        "unit": _parse_unit,
        "dense": _parse_dense,
        "array": _parse_dense_array,
        "loc": TypeParser.parse_optional_location,
    }
