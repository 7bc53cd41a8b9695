"""Operations that tie variables to values; they compute nothing and have no results.

    debuginfo.value %v, #variable : f32
    debuginfo.value %v, #variable, #expression : !debuginfo.value<f32>
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileiras.ir import MemoryWrite, Operation, Type, VerifyError, attribute, operand

from .attributes import STACK_VALUE, DIExpressionAttr, DILocalVariableAttr

if TYPE_CHECKING:
    from tileiras.ir import Parser, Printer


class ValueType(Type, name="debuginfo.value", parameters=("type",)):
    """`!debuginfo.value<f32>`: the type of a watched value of this type.  Operations are written with it or with the
    type itself, which is that of their operand."""

    def print_parameters(self, printer: Printer) -> None:
        printer.write("<")
        printer.print_type(self.type)
        printer.write(">")

    @classmethod
    def parse_parameters(cls, parser: Parser) -> Any:
        parser.parse_punctuation("<")
        inner = parser.parse_type()
        parser.parse_punctuation(">")
        return cls(inner)


class _VariableOp(Operation):
    # The effect has no observer: it only keeps the operation alive, and in its place relative to its neighbours.
    traits = (MemoryWrite,)
    variable: DILocalVariableAttr
    expression: DIExpressionAttr | None

    def verify_op(self) -> None:
        if self.expression is None or isinstance(self, ValueOp):
            return
        if self.expression.fragment is not None and isinstance(self, DeclareOp):
            raise VerifyError("expects an expression of the whole variable")
        if any(name == STACK_VALUE for name, _ in self.expression.operations):
            raise VerifyError(f"expects an expression of an address, which {STACK_VALUE} does not leave")

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        printer.print_operand(self.operands[0])
        for item in (self.variable, self.expression):
            if item is not None:
                printer.write(", ")
                printer.print_attribute(item)
        printer.print_optional_attr_dict(self.attributes, ("variable", "expression"))
        printer.write(" : ")
        printer.print_type(self.operands[0].type)

    @classmethod
    def parse_custom(cls, parser: Parser) -> Any:
        watched = parser.parse_operand()
        attributes: dict[str, Any] = {}
        for name in ("variable", "expression"):
            if name == "variable" or parser.peek(","):
                parser.parse_punctuation(",")
                attributes[name] = parser.parse_attribute()
        attributes.update(parser.parse_optional_attr_dict())
        parser.parse_punctuation(":")
        type = parser.parse_type()
        value = parser.resolve_operand(watched, type.type if isinstance(type, ValueType) else type)
        return cls.create((value,), (), attributes, location=parser.location)


class ValueOp(_VariableOp, name="debuginfo.value"):
    """Binds the variable to this value from here on."""

    value = operand()
    variable = attribute(DILocalVariableAttr)
    expression = attribute(DIExpressionAttr, "operations to apply to the value", optional=True)


class AddrOp(_VariableOp, name="debuginfo.addr"):
    """Binds the variable to the value in memory at this address from here on."""

    address = operand()
    variable = attribute(DILocalVariableAttr)
    expression = attribute(DIExpressionAttr, "operations to apply to the address", optional=True)


class DeclareOp(_VariableOp, name="debuginfo.declare"):
    """The variable lives at this address, for the whole of its scope."""

    address = operand()
    variable = attribute(DILocalVariableAttr)
    expression = attribute(DIExpressionAttr, "operations to apply to the address", optional=True)
