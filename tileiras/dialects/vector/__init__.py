"""The vector dialect, as far as the pipeline uses it: elements of a thread's share of a tile.

The fields are those of the llvm operations that they become.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileiras.dialects.llvm.base import integer_like, llvm_type, vector_type
from tileiras.ir import (
    Attribute,
    DenseArrayAttr,
    Operation,
    Pure,
    VectorType,
    VerifyError,
    attribute,
    operand,
    result,
)


class ExtractOp(Operation, name="vector.extract", traits=(Pure,)):
    """One element of a vector."""

    vector = operand(vector_type)
    position = operand(integer_like)
    result = result(llvm_type)
    assembly_format = "$vector `[` $position `:` type($position) `]` attr-dict `:` type($vector)"
    verifies_locally = True

    @classmethod
    def infer_result_types(cls, operands: Sequence[Any], attributes: dict[str, Attribute]) -> list[Any]:
        return [operands[0].type.element_type]

    def verify_op(self) -> None:
        if self.results[0].type is not self.operands[0].type.element_type:
            raise VerifyError("result type must be the vector's element type")


class InsertOp(Operation, name="vector.insert", traits=(Pure,)):
    """The vector with another element at a position."""

    vector = operand(vector_type)
    value = operand(llvm_type)
    position = operand(integer_like)
    result = result(vector_type)
    assembly_format = "$value `,` $vector `[` $position `:` type($position) `]` attr-dict `:` type($vector)"
    typed_as = 0
    verifies_locally = True

    def verify_op(self) -> None:
        vector, value, _ = self.operands
        if self.results[0].type is not vector.type or value.type is not vector.type.element_type:
            raise VerifyError("vector, value and result types do not go together")


class ShuffleOp(Operation, name="vector.shuffle", traits=(Pure,)):
    """Elements of two vectors by constant positions in their concatenation; -1 is poison."""

    v1 = operand(vector_type)
    v2 = operand(vector_type)
    mask = attribute(DenseArrayAttr)
    result = result(vector_type)
    assembly_format = "$v1 `,` $v2 $mask attr-dict `:` type($v1)"
    verifies_locally = True

    @classmethod
    def infer_result_types(cls, operands: Sequence[Any], attributes: dict[str, Attribute]) -> list[Any]:
        return [VectorType((len(attributes["mask"]),), operands[0].type.element_type)]  # type: ignore[arg-type]

    def verify_op(self) -> None:
        if self.v1.type is not self.v2.type:
            raise VerifyError("expected both vectors to have one type")
        if not all(-1 <= position < 2 * self.v1.type.shape[0] for position in self.mask.elements):
            raise VerifyError("has a position outside of both vectors")


__all__ = ["ExtractOp", "InsertOp", "ShuffleOp"]
