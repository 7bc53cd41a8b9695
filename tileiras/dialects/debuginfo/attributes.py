"""Types and variables of the source, as a debugger shows them."""

from __future__ import annotations

from typing import Any

from tileiras.ir import Attribute, EnumAttr, StringAttr, VerifyError


def _check_number(what: str, value: int, bits: int) -> None:
    if not 0 <= value < 1 << bits:
        raise VerifyError(f"{what} must be between 0 and {(1 << bits) - 1}, got {value}", prefix=False)


class EncodingAttr(EnumAttr):
    """How the bits of a basic type are read: DWARF's base type encodings (DWARF 2, 7.8)."""

    name = "debuginfo.encoding"
    cases = {"boolean": 2, "float": 4, "signed": 5, "unsigned": 7}


class DebugTypeAttr(Attribute):
    """Base of types; `size` in bits."""

    name = "debuginfo.type"
    size: int


class DIBasicTypeAttr(DebugTypeAttr):
    """`<"f32", 32, float>`"""

    name = "debuginfo.di_basic_type"
    parameters = ("type_name", "size", "encoding")

    def verify(self) -> None:
        _check_number("size", self.size, 32)

    def print_parameters(self, printer: Any) -> None:
        printer.write("<")
        printer.print_attribute(StringAttr(self.type_name))
        printer.write(f", {self.size}, {self.encoding.value}>")

    @classmethod
    def parse_parameters(cls, parser: Any) -> Any:
        parser.parse_punctuation("<")
        name = parser.parse_string()
        parser.parse_punctuation(",")
        size = parser.parse_integer()
        parser.parse_punctuation(",")
        encoding = parser.parse_enum_keyword(EncodingAttr)
        parser.parse_punctuation(">")
        return cls(name, size, encoding)


class DIPointerTypeAttr(DebugTypeAttr):
    """`<#debuginfo.di_basic_type<...>>`: an address of 64 bits."""

    name = "debuginfo.di_pointer_type"
    parameters = ("pointee",)
    size = 64

    def print_parameters(self, printer: Any) -> None:
        printer.write("<")
        printer.print_attribute(self.pointee)
        printer.write(">")

    @classmethod
    def parse_parameters(cls, parser: Any) -> Any:
        parser.parse_punctuation("<")
        pointee = _type(parser)
        parser.parse_punctuation(">")
        return cls(pointee)


class DIArrayTypeAttr(DebugTypeAttr):
    """`<#debuginfo.di_basic_type<...>, 4>`: what one thread holds of a tile, for instance."""

    name = "debuginfo.di_array_type"
    parameters = ("element", "count")

    def verify(self) -> None:
        _check_number("count", self.count, 32)

    @property
    def size(self) -> int:  # type: ignore[override]
        return self.element.size * self.count

    def print_parameters(self, printer: Any) -> None:
        printer.write("<")
        printer.print_attribute(self.element)
        printer.write(f", {self.count}>")

    @classmethod
    def parse_parameters(cls, parser: Any) -> Any:
        parser.parse_punctuation("<")
        element = _type(parser)
        parser.parse_punctuation(",")
        count = parser.parse_integer()
        parser.parse_punctuation(">")
        return cls(element, count)


class DIUnspecifiedTypeAttr(DebugTypeAttr):
    """`<"token">`: stands for a type that debuggers have no form for."""

    name = "debuginfo.di_unspecified_type"
    parameters = ("type_name",)
    size = 0

    def print_parameters(self, printer: Any) -> None:
        printer.write("<")
        printer.print_attribute(StringAttr(self.type_name))
        printer.write(">")

    @classmethod
    def parse_parameters(cls, parser: Any) -> Any:
        parser.parse_punctuation("<")
        name = parser.parse_string()
        parser.parse_punctuation(">")
        return cls(name)


class DILocalVariableAttr(Attribute):
    """`<"x" in #scope, line = 6, arg = 1, type = #type>`.

    `arg` counts parameters from 1, 0 for a variable that is none.  Without a type it is the value's.
    """

    name = "debuginfo.di_local_variable"
    asm_alias = "di_local_variable"
    parameters = ("variable_name", "scope", "line", "arg", "type")

    def verify(self) -> None:
        if self.scope.name not in ("cuda_tile.di_subprogram", "cuda_tile.di_lexical_block"):
            raise VerifyError(f"expected a debug scope, got {self.scope}", prefix=False)
        # LLVM's parser takes 32 bits for a line and 16 for a parameter.
        _check_number("line", self.line, 32)
        _check_number("arg", self.arg, 16)

    def print_parameters(self, printer: Any) -> None:
        printer.write("<")
        printer.print_attribute(StringAttr(self.variable_name))
        printer.write(" in ")
        printer.print_attribute(self.scope)
        printer.write(f", line = {self.line}")
        if self.arg:
            printer.write(f", arg = {self.arg}")
        if self.type is not None:
            printer.write(", type = ")
            printer.print_attribute(self.type)
        printer.write(">")

    @classmethod
    def parse_parameters(cls, parser: Any) -> Any:
        parser.parse_punctuation("<")
        name = parser.parse_string()
        parser.parse_keyword("in")
        at = parser.offset
        scope = parser.parse_attribute()
        fields = {"line": parser.parse_integer, "arg": parser.parse_integer, "type": lambda: _type(parser)}
        found = parser.parse_struct("#debuginfo.di_local_variable", fields, open="")
        if "line" not in found:
            parser.error(at, "missing required parameter: line")
        parser.parse_punctuation(">")
        try:
            return cls(name, scope, found["line"], found.get("arg", 0), found.get("type"))
        except VerifyError as error:
            parser.error(at, error.message)


def _type(parser: Any) -> DebugTypeAttr:
    at = parser.offset
    found = parser.parse_attribute()
    if not isinstance(found, DebugTypeAttr):
        parser.error(at, f"expected a debug type, got {found}")
    return found
