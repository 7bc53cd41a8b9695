"""Types and variables of the source, as a debugger shows them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tileiras.ir import Attribute, EnumAttr, StringAttr, VerifyError

if TYPE_CHECKING:
    from tileiras.ir import Parser, Printer


def _check_number(label: str, value: int, bits: int) -> None:
    if not 0 <= value < 1 << bits:
        raise VerifyError(f"{label} must be between 0 and {(1 << bits) - 1}, got {value}", prefix=False)


class EncodingAttr(EnumAttr, name="debuginfo.encoding", cases={"boolean": 2, "float": 4, "signed": 5, "unsigned": 7}):
    """How the bits of a basic type are read: DWARF's base type encodings (DWARF 2, 7.8)."""


class DebugTypeAttr(Attribute, name="debuginfo.type"):
    """Base of types; `size` and `alignment` in bits."""

    size: int

    @property
    def alignment(self) -> int:
        """Its size, filled up to a power of two of at least a byte."""
        return 1 << max(3, (self.size - 1).bit_length())


class DIBasicTypeAttr(DebugTypeAttr, name="debuginfo.di_basic_type", parameters=("type_name", "size", "encoding")):
    """`<"f32", 32, float>`"""

    def verify(self) -> None:
        _check_number("size", self.size, 32)

    def print_parameters(self, printer: Printer) -> None:
        printer.write("<")
        printer.print_attribute(StringAttr(self.type_name))
        printer.write(f", {self.size}, {self.encoding.value}>")

    @classmethod
    def parse_parameters(cls, parser: Parser) -> Any:
        parser.parse_punctuation("<")
        name = parser.parse_string()
        parser.parse_punctuation(",")
        size = parser.parse_integer()
        parser.parse_punctuation(",")
        encoding = parser.parse_enum_keyword(EncodingAttr)
        parser.parse_punctuation(">")
        return cls(name, size, encoding)


class DIPointerTypeAttr(DebugTypeAttr, name="debuginfo.di_pointer_type", parameters=("pointee",)):
    """`<#debuginfo.di_basic_type<...>>`: an address of 64 bits."""

    size = 64

    def print_parameters(self, printer: Printer) -> None:
        printer.write("<")
        printer.print_attribute(self.pointee)
        printer.write(">")

    @classmethod
    def parse_parameters(cls, parser: Parser) -> Any:
        parser.parse_punctuation("<")
        pointee = _type(parser)
        parser.parse_punctuation(">")
        return cls(pointee)


class DIArrayTypeAttr(DebugTypeAttr, name="debuginfo.di_array_type", parameters=("element", "count")):
    """`<#debuginfo.di_basic_type<...>, 4>`: for instance the fragment of a tile that one thread holds."""

    def verify(self) -> None:
        _check_number("count", self.count, 32)

    @property
    def size(self) -> int:  # type: ignore[override]
        return self.element.size * self.count

    @property
    def alignment(self) -> int:
        return self.element.alignment

    def offset(self, number: int) -> int:
        """Where an element starts, in bits."""
        return self.element.size * number

    def print_parameters(self, printer: Printer) -> None:
        printer.write("<")
        printer.print_attribute(self.element)
        printer.write(f", {self.count}>")

    @classmethod
    def parse_parameters(cls, parser: Parser) -> Any:
        parser.parse_punctuation("<")
        element = _type(parser)
        parser.parse_punctuation(",")
        count = parser.parse_integer()
        parser.parse_punctuation(">")
        return cls(element, count)


class DIStructTypeAttr(DebugTypeAttr, name="debuginfo.di_struct_type", parameters=("members",)):
    """`<[#debuginfo.di_basic_type<...>, ...]>`: members of several types, each at its alignment.

    Values have no names for their members: debuggers get their numbers, `m0`, `m1`.
    """

    members: tuple[DebugTypeAttr, ...]

    def __new__(cls, members: Iterable[DebugTypeAttr]) -> DIStructTypeAttr:
        return cls.intern((tuple(members),))  # type: ignore[return-value]

    @property
    def size(self) -> int:  # type: ignore[override]
        return -(-self.offset(len(self.members)) // self.alignment) * self.alignment

    @property
    def alignment(self) -> int:
        return max((member.alignment for member in self.members), default=8)

    def offset(self, number: int) -> int:
        """Where a member starts, in bits; after the last one, where that ends."""
        end = 0
        for at, member in enumerate((*self.members, None)):
            start = -(-end // member.alignment) * member.alignment if member is not None else end
            if at == number:
                return start
            end = start + member.size  # type: ignore[union-attr]
        raise IndexError(number)

    def print_parameters(self, printer: Printer) -> None:
        printer.write("<[")
        for number, member in enumerate(self.members):
            printer.write(", " if number else "")
            printer.print_attribute(member)
        printer.write("]>")

    @classmethod
    def parse_parameters(cls, parser: Parser) -> Any:
        parser.parse_punctuation("<")
        members = parser.parse_comma_separated(lambda: _type(parser), "[", "]")
        parser.parse_punctuation(">")
        return cls(members)


class DIUnspecifiedTypeAttr(DebugTypeAttr, name="debuginfo.di_unspecified_type", parameters=("type_name",)):
    """`<"token">`: stands for a type that debuggers have no form for."""

    size = 0

    def print_parameters(self, printer: Printer) -> None:
        printer.write("<")
        printer.print_attribute(StringAttr(self.type_name))
        printer.write(">")

    @classmethod
    def parse_parameters(cls, parser: Parser) -> Any:
        parser.parse_punctuation("<")
        name = parser.parse_string()
        parser.parse_punctuation(">")
        return cls(name)


class DILocalVariableAttr(Attribute, name="debuginfo.di_local_variable"):
    """`<"x" in #scope, line = 6, arg = 1, type = #type>`.

    `arg` counts parameters from 1, 0 for a variable that is no parameter.  Without a type it is that of the value.
    """

    asm_alias = "di_local_variable"
    parameters = ("variable_name", "scope", "line", "arg", "type")

    def verify(self) -> None:
        if self.scope.name not in ("cuda_tile.di_subprogram", "cuda_tile.di_lexical_block"):
            raise VerifyError(f"expected a debug scope, got {self.scope}", prefix=False)
        # LLVM's parser takes 32 bits for a line and 16 for a parameter.
        _check_number("line", self.line, 32)
        _check_number("arg", self.arg, 16)

    def print_parameters(self, printer: Printer) -> None:
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
    def parse_parameters(cls, parser: Parser) -> Any:
        parser.parse_punctuation("<")
        name = parser.parse_string()
        parser.parse_keyword("in")
        at = parser.offset
        scope = parser.parse_attribute()
        fields = {"line": parser.parse_integer, "arg": parser.parse_integer, "type": lambda: _type(parser)}
        result = parser.parse_struct("#debuginfo.di_local_variable", fields, open="")
        if "line" not in result:
            parser.error(at, "missing required parameter: line")
        parser.parse_punctuation(">")
        try:
            return cls(name, scope, result["line"], result.get("arg", 0), result.get("type"))
        except VerifyError as error:
            parser.error(at, error.message)


def _type(parser: Parser) -> DebugTypeAttr:
    at = parser.offset
    attribute = parser.parse_attribute()
    if not isinstance(attribute, DebugTypeAttr):
        parser.error(at, f"expected a debug type, got {attribute}")
    return attribute


EXPRESSION_OPERATIONS = {
    "DW_OP_deref": 0, "DW_OP_plus_uconst": 1, "DW_OP_constu": 1, "DW_OP_plus": 0, "DW_OP_minus": 0, "DW_OP_mul": 0,
    "DW_OP_and": 0, "DW_OP_or": 0, "DW_OP_xor": 0, "DW_OP_shl": 0, "DW_OP_shr": 0, "DW_OP_stack_value": 0,
    "DW_OP_LLVM_fragment": 2,
}  # fmt: skip
"""Operation of an expression -> how many numbers it takes (DWARF 4, 2.5; LLVM language reference, DIExpression)."""

FRAGMENT, STACK_VALUE = "DW_OP_LLVM_fragment", "DW_OP_stack_value"


class DIExpressionAttr(Attribute, name="debuginfo.di_expression", parameters=("operations",)):
    """`<[DW_OP_plus_uconst(8), DW_OP_deref]>`: how the variable follows from the value, a stack machine's program.

    `DW_OP_LLVM_fragment(offset, size)`, last, says which bits of the variable that is.
    """

    operations: tuple[tuple[str, tuple[int, ...]], ...]

    def __new__(cls, operations: Iterable[tuple[str, Iterable[int]]] = ()) -> DIExpressionAttr:
        return cls.intern((tuple((name, tuple(numbers)) for name, numbers in operations),))  # type: ignore[return-value]

    @property
    def fragment(self) -> tuple[int, ...] | None:
        """(offset, size) in bits; None for all of the variable."""
        return self.operations[-1][1] if self.operations and self.operations[-1][0] == FRAGMENT else None

    @property
    def program(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """The operations without the fragment."""
        return self.operations[:-1] if self.fragment is not None else self.operations

    def verify(self) -> None:
        for number, (name, numbers) in enumerate(self.operations):
            operands = EXPRESSION_OPERATIONS.get(name)
            if operands is None:
                raise VerifyError(f"expressions have no operation '{name}'", prefix=False)
            if len(numbers) != operands:
                raise VerifyError(f"{name} takes {operands} numbers, got {len(numbers)}", prefix=False)
            for value in numbers:
                _check_number(name, value, 63)
            last = number + 1 == len(self.operations)
            if not last and (name == FRAGMENT or name == STACK_VALUE and self.fragment is None):
                raise VerifyError(f"{name} must be the last operation", prefix=False)

    def print_parameters(self, printer: Printer) -> None:
        words = (f"{name}({', '.join(map(str, numbers))})" if numbers else name for name, numbers in self.operations)
        printer.write(f"<[{', '.join(words)}]>")

    @classmethod
    def parse_parameters(cls, parser: Parser) -> Any:
        def operation() -> tuple[str, list[int]]:
            name = parser.parse_any_keyword()
            return name, parser.parse_comma_separated(parser.parse_integer, "(", ")") if parser.peek("(") else []

        parser.parse_punctuation("<")
        operations = parser.parse_comma_separated(operation, "[", "]")
        parser.parse_punctuation(">")
        return cls(operations)
