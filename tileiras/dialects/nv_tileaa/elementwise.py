"""Element-wise operations whose result depends on a rounding mode or on flushing subnormals, and high products.

All other element-wise arithmetic is in arith and math.
"""

from __future__ import annotations

from tileiras.dialects.arith import float_like, integer_like
from tileiras.ir import AllTypesMatch, Elementwise, Operation, Pure, UnitAttr, attribute, operand, result

from .attributes import RoundingModeAttr


class _Rounded(Operation):
    rounding_mode = attribute(RoundingModeAttr, "of the exact result", default=RoundingModeAttr("nearest_even"))
    flush_to_zero = attribute(UnitAttr, "treat subnormal inputs and results as zero (f32)", optional=True)


class _RoundedBinary(_Rounded):
    traits = (Pure, AllTypesMatch("lhs", "rhs", "result"))
    lhs = operand(float_like)
    rhs = operand(float_like)
    result = result(float_like)
    assembly_format = "$lhs `,` $rhs attr-dict `:` type($result)"


class AddFOp(_RoundedBinary, name="nv_tileaa.addf"): ...
class SubFOp(_RoundedBinary, name="nv_tileaa.subf"): ...
class MulFOp(_RoundedBinary, name="nv_tileaa.mulf"): ...
class DivFOp(_RoundedBinary, name="nv_tileaa.divf"): ...


class FmaOp(_Rounded, name="nv_tileaa.fma", traits=(Pure, AllTypesMatch("lhs", "rhs", "acc", "result"))):
    """`lhs * rhs + acc`, rounded once."""

    lhs = operand(float_like)
    rhs = operand(float_like)
    acc = operand(float_like)
    result = result(float_like)
    assembly_format = "$lhs `,` $rhs `,` $acc attr-dict `:` type($result)"


class SqrtOp(_Rounded, name="nv_tileaa.sqrt", traits=(Pure, AllTypesMatch("operand", "result"))):
    operand = operand(float_like)
    result = result(float_like)
    assembly_format = "$operand attr-dict `:` type($result)"


class FpToFpOp(Operation, name="nv_tileaa.fp_to_fp", traits=(Pure, Elementwise)):
    """Converts between floating-point types; narrowing rounds, widening is exact."""

    operand = operand(float_like)
    rounding_mode = attribute(RoundingModeAttr, default=RoundingModeAttr("nearest_even"))
    result = result(float_like)
    assembly_format = "$operand attr-dict `:` type($operand) `to` type($result)"


class _HighProduct(Operation):
    traits = (Pure, AllTypesMatch("lhs", "rhs", "result"))
    lhs = operand(integer_like)
    rhs = operand(integer_like)
    result = result(integer_like)
    assembly_format = "$lhs `,` $rhs attr-dict `:` type($result)"


class MulhUIOp(_HighProduct, name="nv_tileaa.mulhiui"):
    """The high half of the unsigned product."""


class MulhSIOp(_HighProduct, name="nv_tileaa.mulhisi"):
    """The high half of the signed product."""
