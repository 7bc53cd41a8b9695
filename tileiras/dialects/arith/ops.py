"""Operations of the arith dialect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tileiras.ir import (
    AllTypesMatch,
    Attribute,
    Commutative,
    ConstantLike,
    Constraint,
    DenseElementsAttr,
    Elementwise,
    EnumAttr,
    FloatAttr,
    FloatType,
    IndexType,
    IntegerAttr,
    IntegerType,
    Location,
    Operation,
    Pure,
    ShapedType,
    TensorType,
    Type,
    Value,
    VerifyError,
    attribute,
    element_type_of,
    i1,
    operand,
    result,
)

if TYPE_CHECKING:
    from tileiras.ir import Parser, Printer


def _elements(kinds: tuple[type, ...], description: str) -> Constraint:
    return Constraint(lambda type: isinstance(element_type_of(type), kinds), description)


integer_like = _elements((IntegerType, IndexType), "signless-integer-like")
float_like = _elements((FloatType,), "floating-point-like")
bool_like = Constraint(lambda type: element_type_of(type) is i1, "bool-like")


class IntegerOverflowFlagsAttr(EnumAttr, name="arith.overflow", cases={"none": 0, "nsw": 1, "nuw": 2, "nsw_nuw": 3}):
    """Which overflows make the result poison."""


class CmpIPredicateAttr(EnumAttr, name="arith.cmpi_predicate"):
    cases = {"eq": 0, "ne": 1, "slt": 2, "sle": 3, "sgt": 4, "sge": 5, "ult": 6, "ule": 7, "ugt": 8, "uge": 9}


MIRRORED = {"slt": "sgt", "sle": "sge", "sgt": "slt", "sge": "sle"}
"""Signed predicate -> that of the same comparison with its operands exchanged."""


class CmpFPredicateAttr(EnumAttr, name="arith.cmpf_predicate"):
    cases = {"false": 0, "oeq": 1, "ogt": 2, "oge": 3, "olt": 4, "ole": 5, "one": 6, "ord": 7,
             "ueq": 8, "ugt": 9, "uge": 10, "ult": 11, "ule": 12, "une": 13, "uno": 14, "true": 15}  # fmt: skip


class ConstantOp(Operation, name="arith.constant", traits=(Pure, ConstantLike)):
    """A constant: IntegerAttr, FloatAttr or DenseElementsAttr of the result's type."""

    value = attribute(doc="the constant")
    result = result(doc="the constant's value")

    def __init__(self, value: Attribute, type: Type | None = None, location: Location | None = None) -> None:
        keywords = {} if location is None else {"location": location}
        super().__init__(value=value, result=value.type if type is None else type, **keywords)  # type: ignore[attr-defined]

    @classmethod
    def materialize(cls, value: Attribute, type: Type, location: Location) -> "ConstantOp | None":
        if isinstance(value, (IntegerAttr, FloatAttr, DenseElementsAttr)):
            return cls(value, type, location)
        return None

    @classmethod
    def splat(cls, value: IntegerAttr | FloatAttr, type: Type, location: Location | None = None) -> "ConstantOp":
        """The constant with every element equal to `value`, for a scalar or tensor type."""
        if isinstance(type, ShapedType):
            return cls(splat_elements(value, type), type, location)
        return cls(value, type, location)

    verifies_locally = True

    def verify_op(self) -> None:
        type = getattr(self.value, "type", None)
        if type is None:
            raise VerifyError(f"expects a value with a type, got {self.value}")
        if isinstance(type, TensorType) and type.with_encoding(None) is self.result.type.with_encoding(None):
            return  # the constant's own type does not repeat the layout
        if type is not self.result.type:
            both = f"{type} vs {self.result.type}"
            raise VerifyError(f"failed to verify that result and attribute have the same type: {both}")

    def print_custom(self, printer: Printer) -> None:
        printer.print_optional_attr_dict(self.attributes, elided=("value",))
        printer.write(" ")
        printer.print_attribute(self.value)
        if isinstance(self.result.type, TensorType) and self.result.type is not self.value.type:
            printer.write(" as ")
            printer.print_type(self.result.type)

    @classmethod
    def parse_custom(cls, parser: Parser) -> "ConstantOp":
        attributes = parser.parse_optional_attr_dict()
        offset = parser.offset
        value = parser.parse_attribute()
        type = getattr(value, "type", None)
        if type is None:
            parser.error(offset, "invalid kind of attribute specified")
        if parser.parse_optional_keyword("as"):
            type = parser.parse_type()
        attributes["value"] = value
        return cls.create((), (type,), attributes, location=parser.location)


def constant_integer(value: Value) -> int | None:
    """The integer of a value that is a constant; else None."""
    op = value.defining_op
    return op.value.value if isinstance(op, ConstantOp) and isinstance(op.value, IntegerAttr) else None


def splat_elements(value: IntegerAttr | FloatAttr, type: TensorType) -> DenseElementsAttr:
    """A splat of `value` for a shaped type (its encoding is left out)."""
    plain = type.with_encoding(None) if isinstance(type, TensorType) else type
    bits = value.unsigned if isinstance(value, IntegerAttr) else value.bits
    size = max(1, plain.element_type.width // 8)
    return DenseElementsAttr(plain, bits.to_bytes(size, "little"), True)


class _IntegerBinary(Operation):
    traits = (Pure, AllTypesMatch("lhs", "rhs", "result"))
    lhs = operand(integer_like)
    rhs = operand(integer_like)
    result = result(integer_like)
    assembly_format = "$lhs `,` $rhs attr-dict `:` type($result)"


class _IntegerBinaryWithOverflow(_IntegerBinary):
    overflowFlags = attribute(IntegerOverflowFlagsAttr, default=IntegerOverflowFlagsAttr("none"))
    assembly_format = "$lhs `,` $rhs attr-dict `:` type($result)"


class _FloatBinary(Operation):
    traits = (Pure, AllTypesMatch("lhs", "rhs", "result"))
    lhs = operand(float_like)
    rhs = operand(float_like)
    result = result(float_like)
    assembly_format = "$lhs `,` $rhs attr-dict `:` type($result)"


class AddIOp(_IntegerBinaryWithOverflow, name="arith.addi", traits=(Commutative,)): ...
class SubIOp(_IntegerBinaryWithOverflow, name="arith.subi"): ...
class MulIOp(_IntegerBinaryWithOverflow, name="arith.muli", traits=(Commutative,)): ...
class ShLIOp(_IntegerBinaryWithOverflow, name="arith.shli"): ...
class DivSIOp(_IntegerBinary, name="arith.divsi"): ...
class DivUIOp(_IntegerBinary, name="arith.divui"): ...
class CeilDivSIOp(_IntegerBinary, name="arith.ceildivsi"): ...
class CeilDivUIOp(_IntegerBinary, name="arith.ceildivui"): ...
class FloorDivSIOp(_IntegerBinary, name="arith.floordivsi"): ...
class RemSIOp(_IntegerBinary, name="arith.remsi"): ...
class RemUIOp(_IntegerBinary, name="arith.remui"): ...
class ShRSIOp(_IntegerBinary, name="arith.shrsi"): ...
class ShRUIOp(_IntegerBinary, name="arith.shrui"): ...
class AndIOp(_IntegerBinary, name="arith.andi", traits=(Commutative,)): ...
class OrIOp(_IntegerBinary, name="arith.ori", traits=(Commutative,)): ...
class XOrIOp(_IntegerBinary, name="arith.xori", traits=(Commutative,)): ...
class MaxSIOp(_IntegerBinary, name="arith.maxsi", traits=(Commutative,)): ...
class MaxUIOp(_IntegerBinary, name="arith.maxui", traits=(Commutative,)): ...
class MinSIOp(_IntegerBinary, name="arith.minsi", traits=(Commutative,)): ...
class MinUIOp(_IntegerBinary, name="arith.minui", traits=(Commutative,)): ...
class AddFOp(_FloatBinary, name="arith.addf", traits=(Commutative,)): ...
class SubFOp(_FloatBinary, name="arith.subf"): ...
class MulFOp(_FloatBinary, name="arith.mulf", traits=(Commutative,)): ...
class DivFOp(_FloatBinary, name="arith.divf"): ...
class RemFOp(_FloatBinary, name="arith.remf"): ...


class _ExtendedProduct(Operation):
    traits = (Pure, AllTypesMatch("lhs", "rhs", "low", "high"))
    lhs = operand(integer_like)
    rhs = operand(integer_like)
    low = result(integer_like)
    high = result(integer_like)
    assembly_format = "$lhs `,` $rhs attr-dict `:` type($lhs)"


class MulSIExtendedOp(_ExtendedProduct, name="arith.mulsi_extended"):
    """The product of signed numbers in twice their width: its lower and its upper half."""


class MulUIExtendedOp(_ExtendedProduct, name="arith.mului_extended"):
    """Likewise of unsigned numbers."""


class MaximumFOp(_FloatBinary, name="arith.maximumf", traits=(Commutative,)):
    """The greater operand; NaN when either is NaN; -0 is less than +0."""


class MinimumFOp(_FloatBinary, name="arith.minimumf", traits=(Commutative,)):
    """The lesser operand; NaN when either is NaN; -0 is less than +0."""


class MaxNumFOp(_FloatBinary, name="arith.maxnumf", traits=(Commutative,)):
    """The greater operand; the other one when one is NaN."""


class MinNumFOp(_FloatBinary, name="arith.minnumf", traits=(Commutative,)):
    """The lesser operand; the other one when one is NaN."""


class NegFOp(Operation, name="arith.negf", traits=(Pure, AllTypesMatch("operand", "result"))):
    operand = operand(float_like)
    result = result(float_like)
    assembly_format = "$operand attr-dict `:` type($result)"


class CmpIOp(Operation, name="arith.cmpi", traits=(Pure, AllTypesMatch("lhs", "rhs"), Elementwise)):
    predicate = attribute(CmpIPredicateAttr)
    lhs = operand(integer_like)
    rhs = operand(integer_like)
    result = result(bool_like)
    assembly_format = "$predicate `,` $lhs `,` $rhs attr-dict `:` type($lhs)"

    @classmethod
    def infer_result_types(cls, operands: Sequence[Value], attributes: dict[str, Attribute]) -> list[Any]:
        return [_bool_of(operands[0].type)]


class CmpFOp(Operation, name="arith.cmpf", traits=(Pure, AllTypesMatch("lhs", "rhs"), Elementwise)):
    predicate = attribute(CmpFPredicateAttr)
    lhs = operand(float_like)
    rhs = operand(float_like)
    result = result(bool_like)
    assembly_format = "$predicate `,` $lhs `,` $rhs attr-dict `:` type($lhs)"

    @classmethod
    def infer_result_types(cls, operands: Sequence[Value], attributes: dict[str, Attribute]) -> list[Any]:
        return [_bool_of(operands[0].type)]


def _bool_of(type: Type) -> Any:
    return type.with_element_type(i1) if isinstance(type, TensorType) else i1


class SelectOp(Operation, name="arith.select"):
    """`condition ? true_value : false_value`, element by element; a scalar condition chooses whole values."""

    traits = (Pure, AllTypesMatch("true_value", "false_value", "result"), Elementwise)
    condition = operand(bool_like)
    true_value = operand()
    false_value = operand()
    result = result()
    assembly_format = "$condition `,` $true_value `,` $false_value attr-dict `:` type($condition) `,` type($result)"


class _Cast(Operation):
    traits = (Pure, Elementwise)
    operand = operand()
    result = result()
    assembly_format = "$operand attr-dict `:` type($operand) `to` type($result)"

    verifies_locally = True

    def verify_op(self) -> None:
        source, target = self.operand.type, self.result.type
        if not self._converts(element_type_of(source), element_type_of(target)):
            raise VerifyError(f"operand type '{source}' and result type '{target}' are cast incompatible")

    @staticmethod
    def _converts(source: Type, target: Type) -> bool:
        """Whether there is a conversion of elements of one type to the other."""
        return False


class _Extension(_Cast):
    @staticmethod
    def _converts(source: Type, target: Type) -> bool:
        return _integers(source, target) and source.width < target.width


class ExtSIOp(_Extension, name="arith.extsi"): ...
class ExtUIOp(_Extension, name="arith.extui"): ...


class TruncIOp(_Cast, name="arith.trunci"):
    @staticmethod
    def _converts(source: Type, target: Type) -> bool:
        return _integers(source, target) and source.width > target.width


class _FromInteger(_Cast):
    @staticmethod
    def _converts(source: Type, target: Type) -> bool:
        return isinstance(source, IntegerType) and isinstance(target, FloatType)


class SIToFPOp(_FromInteger, name="arith.sitofp"): ...
class UIToFPOp(_FromInteger, name="arith.uitofp"): ...


class _ToInteger(_Cast):
    @staticmethod
    def _converts(source: Type, target: Type) -> bool:
        return isinstance(source, FloatType) and isinstance(target, IntegerType)


class FPToSIOp(_ToInteger, name="arith.fptosi"):
    """Truncates towards zero; out of range and NaN as the target's conversion instruction does (saturating)."""


class FPToUIOp(_ToInteger, name="arith.fptoui"): ...


class BitcastOp(_Cast, name="arith.bitcast"):
    @staticmethod
    def _converts(source: Type, target: Type) -> bool:
        numbers = (IntegerType, FloatType)
        return isinstance(source, numbers) and isinstance(target, numbers) and source.width == target.width


def _integers(*types: Type) -> bool:
    return all(isinstance(type, IntegerType) for type in types)
