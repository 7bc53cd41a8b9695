"""Constants and the operations on vectors and structs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tileiras.ir import (
    Attribute,
    ConstantLike,
    DenseArrayAttr,
    DenseElementsAttr,
    FloatAttr,
    IntegerAttr,
    Location,
    Pure,
    Type,
    VectorType,
    VerifyError,
    attribute,
    i32,
    i64,
    operand,
    result,
)

from .base import LLVMOp, aggregate, integer_like, llvm_type, vector_type
from .types import LLVMArrayType, LLVMStructType

if TYPE_CHECKING:
    from tileiras.ir import Parser, Printer


class ConstantOp(LLVMOp, name="llvm.mlir.constant", traits=(Pure, ConstantLike)):
    """A constant: IntegerAttr, FloatAttr, or DenseElementsAttr for a vector."""

    value = attribute(doc="the constant")
    res = result(llvm_type, "its value")
    assembly_format = "`(` $value `)` attr-dict `:` type($res)"

    def __init__(self, value: Attribute, type: Type | None = None, location: Location | None = None) -> None:
        keywords = {} if location is None else {"location": location}
        super().__init__(value=value, res=value.type if type is None else type, **keywords)  # type: ignore[attr-defined]

    def verify_op(self) -> None:
        if not isinstance(self.value, (IntegerAttr, FloatAttr, DenseElementsAttr)):
            raise VerifyError("only supports integer, float and dense elements attributes")
        if self.value.type is not self.res.type:
            raise VerifyError(f"attribute type '{self.value.type}' does not match the result type '{self.res.type}'")


class PoisonOp(LLVMOp, name="llvm.mlir.poison", traits=(Pure,)):
    """An undefined value whose use may be anything."""

    res = result(llvm_type)
    assembly_format = "attr-dict `:` type($res)"


class UndefOp(LLVMOp, name="llvm.mlir.undef", traits=(Pure,)):
    res = result(llvm_type)
    assembly_format = "attr-dict `:` type($res)"


class ZeroOp(LLVMOp, name="llvm.mlir.zero", traits=(Pure,)):
    """All bits zero; the null pointer."""

    res = result(llvm_type)
    assembly_format = "attr-dict `:` type($res)"


class ExtractElementOp(LLVMOp, name="llvm.extractelement", traits=(Pure,)):
    """One element of a vector.  A position that is not constant sends the vector through local memory."""

    vector = operand(vector_type)
    position = operand(integer_like)
    res = result(llvm_type)
    assembly_format = "$vector `[` $position `:` type($position) `]` attr-dict `:` type($vector)"

    @classmethod
    def infer_result_types(cls, operands: Sequence[Any], attributes: dict[str, Attribute]) -> list[Any]:
        return [operands[0].type.element_type]

    def verify_op(self) -> None:
        if self.results[0].type is not self.operands[0].type.element_type:
            raise VerifyError("result type must be the vector's element type")


class InsertElementOp(LLVMOp, name="llvm.insertelement", traits=(Pure,)):
    vector = operand(vector_type)
    value = operand(llvm_type)
    position = operand(integer_like)
    res = result(vector_type)
    assembly_format = "$value `,` $vector `[` $position `:` type($position) `]` attr-dict `:` type($vector)"
    typed_as = 0

    def verify_op(self) -> None:
        vector, value, _ = self.operands
        if self.results[0].type is not vector.type or value.type is not vector.type.element_type:
            raise VerifyError("vector, value and result types do not go together")


class ShuffleVectorOp(LLVMOp, name="llvm.shufflevector", traits=(Pure,)):
    """Elements of two vectors by constant position; -1 is poison."""

    v1 = operand(vector_type)
    v2 = operand(vector_type)
    mask = attribute(DenseArrayAttr, "positions in the concatenation of v1 and v2")
    res = result(vector_type)
    assembly_format = "$v1 `,` $v2 $mask attr-dict `:` type($v1)"

    @classmethod
    def infer_result_types(cls, operands: Sequence[Any], attributes: dict[str, Attribute]) -> list[Any]:
        return [VectorType((len(attributes["mask"]),), operands[0].type.element_type)]  # type: ignore[arg-type]

    def verify_op(self) -> None:
        mask, (first, second) = self.mask, self.operands
        if mask.element_type is not i32:
            raise VerifyError("expected the mask's elements to be i32")
        if first.type is not second.type:
            raise VerifyError("expected both vectors to have one type")
        positions = mask.elements
        required = VectorType((len(positions),), first.type.element_type)
        if self.results[0].type is not required:
            raise VerifyError(f"expected result type '{required}'")
        limit = 2 * first.type.shape[0]
        if min(positions, default=0) < -1 or max(positions, default=0) >= limit:
            raise VerifyError(f"expected mask positions in -1..{limit - 1}")


def member_type(type: LLVMArrayType | LLVMStructType, position: Sequence[int]) -> Any:
    """The type inside a struct or array at a path of positions; raises VerifyError if absent."""
    for index in position:
        if isinstance(type, LLVMStructType) and 0 <= index < len(type.elements):
            type = type.elements[index]
        elif isinstance(type, LLVMArrayType) and 0 <= index < type.count:
            type = type.element_type
        else:
            raise VerifyError(f"position {index} is not in '{type}'")
    return type


class _MemberOp(LLVMOp):
    __slots__ = ()

    # A position is written `[0, 1]`.
    @classmethod
    def parse_Position(cls, parser: Parser) -> Any:
        return DenseArrayAttr(i64, parser.parse_comma_separated(parser.parse_integer, "[", "]"))

    def print_Position(self, printer: Printer, position: DenseArrayAttr) -> None:
        printer.write(f"[{', '.join(map(str, position))}]")


class ExtractValueOp(_MemberOp, name="llvm.extractvalue", traits=(Pure,)):
    """A member of a struct or array value."""

    container = operand(aggregate)
    position = attribute(DenseArrayAttr, "path of positions")
    res = result(llvm_type)
    assembly_format = "$container `` custom<Position>($position) attr-dict `:` type($container)"

    @classmethod
    def infer_result_types(cls, operands: Sequence[Any], attributes: dict[str, Attribute]) -> list[Any]:
        return [member_type(operands[0].type, tuple(attributes["position"]))]  # type: ignore[arg-type]

    def verify_op(self) -> None:
        if member_type(self.container.type, tuple(self.position)) is not self.res.type:
            raise VerifyError("result type is not the member's")


class InsertValueOp(_MemberOp, name="llvm.insertvalue", traits=(Pure,)):
    container = operand(aggregate)
    value = operand(llvm_type)
    position = attribute(DenseArrayAttr, "path of positions")
    res = result(aggregate)
    assembly_format = "$value `,` $container `` custom<Position>($position) attr-dict `:` type($container)"
    typed_as = 0

    def verify_op(self) -> None:
        if member_type(self.container.type, tuple(self.position)) is not self.value.type:
            raise VerifyError("value type is not the member's")
        if self.container.type is not self.res.type:
            raise VerifyError("result type must be the container's")
