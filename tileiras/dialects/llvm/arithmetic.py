"""Integer and float arithmetic, comparisons, selection and casts, on scalars and vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from tileiras.ir import (
    Attribute,
    Commutative,
    Pure,
    SameOperandsAndResultType,
    Type,
    UnitAttr,
    VerifyError,
    attribute,
    i1,
    operand,
    result,
)

from .attributes import FastmathFlagsAttr, FCmpPredicateAttr, ICmpPredicateAttr, IntegerOverflowFlagsAttr
from .base import LLVMOp, bool_like, float_like, integer_like, llvm_type, pointer_like
from .types import element_count, element_type, with_element_type


class _IntegerBinaryOp(LLVMOp):
    traits = (Pure, SameOperandsAndResultType)
    lhs = operand(integer_like)
    rhs = operand(integer_like)
    res = result(integer_like)
    assembly_format = "$lhs `,` $rhs attr-dict `:` type($res)"


class _OverflowBinaryOp(_IntegerBinaryOp):
    overflowFlags = attribute(IntegerOverflowFlagsAttr, "overflows that give poison", optional=True)
    assembly_format = "$lhs `,` $rhs `` custom<OverflowFlags>($overflowFlags) attr-dict `:` type($res)"


class _ExactBinaryOp(_IntegerBinaryOp):
    isExact = attribute(UnitAttr, "a remainder gives poison", optional=True)
    assembly_format = "(`exact` $isExact^)? $lhs `,` $rhs attr-dict `:` type($res)"


class AddOp(_OverflowBinaryOp, name="llvm.add", traits=(Commutative,)): ...
class SubOp(_OverflowBinaryOp, name="llvm.sub"): ...
class MulOp(_OverflowBinaryOp, name="llvm.mul", traits=(Commutative,)): ...


class ShlOp(_OverflowBinaryOp, name="llvm.shl"):
    """A shift by the width or more gives poison."""


class UDivOp(_ExactBinaryOp, name="llvm.udiv"): ...
class SDivOp(_ExactBinaryOp, name="llvm.sdiv"): ...
class LShrOp(_ExactBinaryOp, name="llvm.lshr"): ...
class AShrOp(_ExactBinaryOp, name="llvm.ashr"): ...
class URemOp(_IntegerBinaryOp, name="llvm.urem"): ...
class SRemOp(_IntegerBinaryOp, name="llvm.srem"): ...
class AndOp(_IntegerBinaryOp, name="llvm.and", traits=(Commutative,)): ...


class OrOp(_IntegerBinaryOp, name="llvm.or", traits=(Commutative,)):
    isDisjoint = attribute(UnitAttr, "no bit is set in both, or the result is poison", optional=True)
    assembly_format = "(`disjoint` $isDisjoint^)? $lhs `,` $rhs attr-dict `:` type($res)"


class XOrOp(_IntegerBinaryOp, name="llvm.xor", traits=(Commutative,)): ...


class _FloatBinaryOp(LLVMOp):
    traits = (Pure, SameOperandsAndResultType)
    lhs = operand(float_like)
    rhs = operand(float_like)
    fastmathFlags = attribute(FastmathFlagsAttr, "assumptions and relaxations that LLVM may use", optional=True)
    res = result(float_like)
    assembly_format = "$lhs `,` $rhs attr-dict `:` type($res)"


class FAddOp(_FloatBinaryOp, name="llvm.fadd"):
    """Rounds to nearest even; contracts with a multiplication only when both carry `contract`."""


class FSubOp(_FloatBinaryOp, name="llvm.fsub"): ...
class FMulOp(_FloatBinaryOp, name="llvm.fmul"): ...
class FDivOp(_FloatBinaryOp, name="llvm.fdiv"): ...


class FRemOp(_FloatBinaryOp, name="llvm.frem"):
    """LLVM's expansion is inexact for large quotients: prefer libdevice's fmod."""


class FNegOp(LLVMOp, name="llvm.fneg", traits=(Pure, SameOperandsAndResultType)):
    operand = operand(float_like)
    fastmathFlags = attribute(FastmathFlagsAttr, optional=True)
    res = result(float_like)
    assembly_format = "$operand attr-dict `:` type($operand)"


class ICmpOp(LLVMOp, name="llvm.icmp", traits=(Pure,)):
    """Compares integers or pointers."""

    lhs = operand(llvm_type)
    rhs = operand(llvm_type)
    predicate = attribute(ICmpPredicateAttr)
    res = result(bool_like)
    assembly_format = "`` custom<Predicate>($predicate) $lhs `,` $rhs attr-dict `:` type($lhs)"

    @classmethod
    def infer_result_types(cls, operands: Sequence[Any], attributes: dict[str, Attribute]) -> list[Any]:
        return [with_element_type(operands[0].type, i1)]

    def verify_op(self) -> None:
        _verify_comparison(self, integer_like.satisfied_by(self.lhs.type) or pointer_like.satisfied_by(self.lhs.type))


class FCmpOp(LLVMOp, name="llvm.fcmp", traits=(Pure,)):
    lhs = operand(float_like)
    rhs = operand(float_like)
    predicate = attribute(FCmpPredicateAttr)
    fastmathFlags = attribute(FastmathFlagsAttr, optional=True)
    res = result(bool_like)
    assembly_format = "`` custom<Predicate>($predicate) $lhs `,` $rhs attr-dict `:` type($lhs)"

    @classmethod
    def infer_result_types(cls, operands: Sequence[Any], attributes: dict[str, Attribute]) -> list[Any]:
        return [with_element_type(operands[0].type, i1)]

    def verify_op(self) -> None:
        _verify_comparison(self, True)


def _verify_comparison(op: FCmpOp | ICmpOp, comparable: bool) -> None:
    if not comparable:
        raise VerifyError(f"cannot compare values of type '{op.lhs.type}'")
    if op.lhs.type is not op.rhs.type:
        raise VerifyError("requires both operands to have one type")
    if op.res.type is not with_element_type(op.lhs.type, i1):
        raise VerifyError("result must be i1 or a vector of as many i1 as compared")


class SelectOp(LLVMOp, name="llvm.select", traits=(Pure,)):
    """An element-wise choice; a scalar condition chooses whole vectors."""

    condition = operand(bool_like)
    trueValue = operand(llvm_type)
    falseValue = operand(llvm_type)
    fastmathFlags = attribute(FastmathFlagsAttr, optional=True)
    res = result(llvm_type)
    assembly_format = "$condition `,` $trueValue `,` $falseValue attr-dict `:` type($condition) `,` type($res)"
    typed_as = 1

    @classmethod
    def infer_operand_types(cls, types: dict[str, Any]) -> dict[str, Any]:
        return {"trueValue": types["res"], "falseValue": types["res"]}

    def verify_op(self) -> None:
        if self.trueValue.type is not self.falseValue.type or self.trueValue.type is not self.res.type:
            raise VerifyError("requires values and result to have one type")
        condition = self.condition.type
        if condition is not i1 and condition is not with_element_type(self.res.type, i1):
            raise VerifyError("condition must be i1 or a vector of as many i1 as chosen")


class _CastOp(LLVMOp):
    traits = (Pure,)
    arg = operand(llvm_type)
    res = result(llvm_type)
    assembly_format = "$arg attr-dict `:` type($arg) `to` type($res)"
    wider: ClassVar[int] = 0
    """1 when the result must be wider than the operand, -1 when narrower, 0 when it does not matter."""
    kinds: ClassVar[tuple[Any, Any]] = (llvm_type, llvm_type)

    def verify_op(self) -> None:
        source, target = self.arg.type, self.res.type
        for kind, type, role in zip(self.kinds, (source, target), ("operand", "result")):
            if not kind.satisfied_by(type):
                raise VerifyError(f"{role} must be {kind.description}, but got '{type}'")
        if element_count(source) != element_count(target):
            raise VerifyError("operand and result must have as many elements")
        if self.wider:
            difference = element_type(target).width - element_type(source).width
            if difference * self.wider <= 0:
                raise VerifyError(f"'{target}' is not {'wider' if self.wider > 0 else 'narrower'} than '{source}'")


class TruncOp(_CastOp, name="llvm.trunc", kinds=(integer_like, integer_like), wider=-1): ...


class ZExtOp(_CastOp, name="llvm.zext"):
    kinds = (integer_like, integer_like)
    wider = 1
    nonNeg = attribute(UnitAttr, "a negative operand gives poison", optional=True)
    assembly_format = "(`nneg` $nonNeg^)? $arg attr-dict `:` type($arg) `to` type($res)"


class SExtOp(_CastOp, name="llvm.sext", kinds=(integer_like, integer_like), wider=1): ...


class FPTruncOp(_CastOp, name="llvm.fptrunc", kinds=(float_like, float_like), wider=-1):
    """Rounds to nearest even."""


class FPExtOp(_CastOp, name="llvm.fpext", kinds=(float_like, float_like), wider=1): ...


class FPToSIOp(_CastOp, name="llvm.fptosi", kinds=(float_like, integer_like)):
    """Rounds toward zero; poison outside the target's range."""


class FPToUIOp(_CastOp, name="llvm.fptoui", kinds=(float_like, integer_like)): ...
class SIToFPOp(_CastOp, name="llvm.sitofp", kinds=(integer_like, float_like)): ...
class UIToFPOp(_CastOp, name="llvm.uitofp", kinds=(integer_like, float_like)): ...
class PtrToIntOp(_CastOp, name="llvm.ptrtoint", kinds=(pointer_like, integer_like)): ...
class IntToPtrOp(_CastOp, name="llvm.inttoptr", kinds=(integer_like, pointer_like)): ...
class AddrSpaceCastOp(_CastOp, name="llvm.addrspacecast", kinds=(pointer_like, pointer_like)): ...


class BitcastOp(_CastOp, name="llvm.bitcast"):
    """Same bits, another type; between vectors the element counts may differ."""

    def verify_op(self) -> None:
        source, target = bit_width(self.arg.type), bit_width(self.res.type)
        if source != target or source == 0:
            raise VerifyError(f"cannot reinterpret '{self.arg.type}' as '{self.res.type}'")


def bit_width(type: Type) -> int:
    """Bits of a scalar or vector of integers or floats, 0 for other types."""
    element = element_type(type)
    return getattr(element, "width", 0) * element_count(type)
