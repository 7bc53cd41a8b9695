"""Floating-point arithmetic, element by element.

`flush_to_zero` turns subnormal inputs and results into zeros of their sign and exists for f32 only.
"""

from __future__ import annotations

from tileiras.ir import (
    AllTypesMatch,
    Commutative,
    Pure,
    SameOperandsAndResultShape,
    UnitAttr,
    attribute,
    bf16,
    f16,
    f32,
    f64,
    operand,
    result,
)

from .attributes import ComparisonOrderingAttr, ComparisonPredicateAttr, RoundingModeAttr
from .constraints import BaseFloatTile, I1Tile, TileOf
from .infer import ComparesOperands
from .operation import TileOp
from .verifiers import verify_divide_modifiers, verify_flush_to_zero, verify_ieee_rounding

FTZ = "subnormal inputs and results become zeros of their sign"
ROUNDING = "how the result is rounded"
_TAIL = "attr-dict `:` custom<CudaTileType>(type($result))"
_MODIFIERS = "custom<IEEERoundingMode>($rounding_mode) (`flush_to_zero` $flush_to_zero^)? " + _TAIL


class FloatUnary(TileOp):
    """Base of operations from one float tile to another of the same type."""

    group = "Floating Point"
    traits = (Pure, AllTypesMatch("source", "result"))
    source = operand(BaseFloatTile, "the input")
    result = result(BaseFloatTile, "one value per element")
    assembly_format = "$source " + _TAIL


class FloatBinary(TileOp):
    """Base of operations on two float tiles of one type."""

    group = "Floating Point"
    traits = (Pure, AllTypesMatch("lhs", "rhs", "result"))
    lhs = operand(BaseFloatTile, "left operand")
    rhs = operand(BaseFloatTile, "right operand")
    result = result(BaseFloatTile, "one value per element")
    assembly_format = "$lhs `,` $rhs " + _TAIL


class _RoundedBinary(FloatBinary):
    """Base of sums and products, which take an IEEE rounding mode."""

    rounding_mode = attribute(RoundingModeAttr, ROUNDING)
    flush_to_zero = attribute(UnitAttr, FTZ, optional=True)
    assembly_format = "$lhs `,` $rhs " + _MODIFIERS

    def verify_op(self) -> None:
        verify_ieee_rounding(self)
        verify_flush_to_zero(self)


class AbsFOp(FloatUnary, name="cuda_tile.absf", since="13.1", opcode=0x0, traits=(SameOperandsAndResultShape,)):
    """Floating-point absolute value."""


class NegFOp(FloatUnary, name="cuda_tile.negf", since="13.1", opcode=0x4F):
    """Floating-point negation: flips the sign, of NaN as well."""


class AddFOp(_RoundedBinary, name="cuda_tile.addf", since="13.1", opcode=0x2, traits=(Commutative,)):
    """Floating-point sum."""


class SubFOp(_RoundedBinary, name="cuda_tile.subf", since="13.1", opcode=0x67):
    """Floating-point difference."""


class MulFOp(_RoundedBinary, name="cuda_tile.mulf", since="13.1", opcode=0x4C, traits=(Commutative,)):
    """Floating-point product."""


class DivFOp(FloatBinary, name="cuda_tile.divf", since="13.1", opcode=0x14):
    """Floating-point quotient, rounded as IEEE says or (f32 only) approximated."""

    rounding_mode = attribute(RoundingModeAttr, ROUNDING + "; `approx` and `full` are within 2 ulp")
    flush_to_zero = attribute(UnitAttr, FTZ, optional=True)
    assembly_format = (
        "$lhs `,` $rhs custom<DivFOpRoundingMode>($rounding_mode) (`flush_to_zero` $flush_to_zero^)? " + _TAIL
    )

    def verify_op(self) -> None:
        verify_divide_modifiers(self, ("nearest_even", "zero", "negative_inf", "positive_inf", "approx", "full"))


class RemFOp(FloatBinary, name="cuda_tile.remf", since="13.1", opcode=0x59):
    """Remainder of the division rounded towards zero; it has the sign of the dividend."""


FmaTile = TileOf(f16, bf16, f32, f64)


class FmaOp(TileOp, name="cuda_tile.fma", since="13.1", opcode=0x28, group="Floating Point"):
    """`lhs * rhs + acc`, rounded once."""

    traits = (Pure, AllTypesMatch("lhs", "rhs", "acc", "result"))
    lhs = operand(FmaTile, "left factor")
    rhs = operand(FmaTile, "right factor")
    acc = operand(FmaTile, "the addend")
    rounding_mode = attribute(RoundingModeAttr, ROUNDING)
    flush_to_zero = attribute(UnitAttr, FTZ, optional=True)
    result = result(FmaTile, "one value per element")
    assembly_format = "$lhs `,` $rhs `,` $acc " + _MODIFIERS

    def verify_op(self) -> None:
        verify_ieee_rounding(self)
        verify_flush_to_zero(self)


class _Extremum(FloatBinary):
    """Base of minimum and maximum; without `propagate_nan` the operand that is no NaN wins."""

    propagate_nan = attribute(UnitAttr, "a NaN operand makes the result NaN", optional=True)
    flush_to_zero = attribute(UnitAttr, FTZ, optional=True)
    assembly_format = "$lhs `,` $rhs oilist(`flush_to_zero` $flush_to_zero | `propagate_nan` $propagate_nan) " + _TAIL

    def verify_op(self) -> None:
        verify_flush_to_zero(self)


class MaxFOp(_Extremum, name="cuda_tile.maxf", since="13.1", opcode=0x45):
    """Floating-point maximum; +0 is larger than -0."""


class MinFOp(_Extremum, name="cuda_tile.minf", since="13.1", opcode=0x47):
    """Floating-point minimum; -0 is smaller than +0."""


class CmpFOp(ComparesOperands, TileOp, name="cuda_tile.cmpf", since="13.1", opcode=0xE, group="Floating Point"):
    """Floating-point comparison."""

    traits = (Pure, AllTypesMatch("lhs", "rhs"))
    comparison_predicate = attribute(ComparisonPredicateAttr, "the relation that is tested")
    comparison_ordering = attribute(ComparisonOrderingAttr, "the result for a NaN operand")
    lhs = operand(BaseFloatTile, "left operand")
    rhs = operand(BaseFloatTile, "right operand")
    result = result(I1Tile, "whether the relation holds, per element")
    assembly_format = (
        "custom<ComparisonPredicate>($comparison_predicate) custom<ComparisonOrdering>($comparison_ordering)"
        " $lhs `,` $rhs attr-dict `:` custom<CudaTileType>(type($lhs)) `->` custom<CudaTileType>(type($result))"
    )
