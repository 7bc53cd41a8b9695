"""Shared parts of the operations of the llvm dialect: constraints, and pieces of syntax."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileiras.ir import (
    Constraint,
    FloatType,
    IntegerAttr,
    IntegerType,
    Operation,
    StringAttr,
    VectorType,
    VerifyError,
    i1,
)

from .attributes import IntegerOverflowFlagsAttr
from .types import LLVMArrayType, LLVMPointerType, LLVMStructType, element_type, is_llvm_type

if TYPE_CHECKING:
    from tileiras.ir import Parser, Printer

    from .attributes import FCmpPredicateAttr, ICmpPredicateAttr

llvm_type = Constraint(is_llvm_type, "LLVM type")
integer_like = Constraint(lambda t: isinstance(element_type(t), IntegerType), "signless integer or vector of it")
float_like = Constraint(lambda t: isinstance(element_type(t), FloatType), "floating point or vector of it")
bool_like = Constraint(lambda t: element_type(t) is i1, "i1 or vector of it")
pointer = Constraint(lambda t: isinstance(t, LLVMPointerType), "LLVM pointer type")
pointer_like = Constraint(lambda t: isinstance(element_type(t), LLVMPointerType), "LLVM pointer type or vector of it")
vector_type = Constraint(lambda t: isinstance(t, VectorType) and len(t.shape) == 1, "LLVM vector")
aggregate = Constraint(lambda t: isinstance(t, (LLVMStructType, LLVMArrayType)), "LLVM struct or array")


class LLVMOp(Operation):
    """Base of the dialect's operations, with its custom directives.

    Without slots, as the operations of other dialects that become operations of this one: Python has the class of an
    object changed between layouts that are alike only.
    """

    verifies_locally = True

    @property
    def instruction(self) -> str:
        """LLVM's name of the instruction."""
        return self.name.removeprefix("llvm.")

    # `overflow<nsw, nuw>`, nothing without the attribute.
    @classmethod
    def parse_OverflowFlags(cls, parser: Parser) -> Any:
        if not parser.parse_optional_keyword("overflow"):
            return None
        return IntegerOverflowFlagsAttr.parse_parameters(parser)

    def print_OverflowFlags(self, printer: Printer, flags: IntegerOverflowFlagsAttr | None) -> None:
        if flags is not None:
            printer.write(" overflow")
            flags.print_parameters(printer)

    # A predicate or similar keyword written as a string.
    @classmethod
    def parse_Predicate(cls, parser: Parser) -> Any:
        field = next(f for f in cls.attribute_fields if f.name == "predicate")
        start = parser.offset
        word = parser.parse_string()
        if word not in field.constraint.cases:
            parser.error(start, f"unknown predicate '{word}'")
        return field.constraint(word)

    def print_Predicate(self, printer: Printer, predicate: FCmpPredicateAttr | ICmpPredicateAttr) -> None:
        printer.write(f' "{predicate.value}"')

    # `syncscope("device")`, nothing for the system scope.
    @classmethod
    def parse_SyncScope(cls, parser: Parser) -> Any:
        if not parser.parse_optional_keyword("syncscope"):
            return None
        parser.parse_punctuation("(")
        scope = parser.parse_string()
        parser.parse_punctuation(")")
        return StringAttr(scope)

    def print_SyncScope(self, printer: Printer, scope: StringAttr | None) -> None:
        if scope is not None:
            printer.write(f' syncscope("{scope.value}")')


def check_alignment(value: IntegerAttr | None) -> None:
    """Raise VerifyError unless the alignment, in bytes, is a power of two."""
    if value is not None and (value.value <= 0 or value.value & (value.value - 1)):
        raise VerifyError("expected the alignment to be a power of two")


def alignment_attribute(value: int | IntegerAttr | None) -> IntegerAttr | None:
    """An alignment in bytes as the attribute MLIR uses."""
    from tileiras.ir import i64

    return IntegerAttr(value, i64) if isinstance(value, int) else value
