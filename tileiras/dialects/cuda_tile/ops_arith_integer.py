"""Integer arithmetic, element by element.  Integers have no sign of their own: operations that care say which.

Without an `overflow` promise sums, differences and products wrap around.
"""

from __future__ import annotations

from tileiras.ir import (
    AllShapesMatch,
    AllTypesMatch,
    Commutative,
    NoMemoryEffect,
    Pure,
    SameOperandsAndResultShape,
    VerifyError,
    attribute,
    operand,
    result,
)

from .attributes import ComparisonPredicateAttr, IntegerOverflowAttr, RoundingModeAttr, SignednessAttr
from .constraints import I1Tile, IntTile
from .infer import ComparesOperands
from .operation import TileOp

SIGNEDNESS = "whether the operands are read as signed or unsigned"
OVERFLOW = "the assumption about wrap-around"
_TAIL = "attr-dict `:` custom<CudaTileType>(type($result))"
_NO_PROMISE = IntegerOverflowAttr("none")


class IntUnary(TileOp):
    """Base of operations from one integer tile to another of the same type."""

    group = "Integer"
    traits = (Pure, AllTypesMatch("source", "result"))
    source = operand(IntTile, "the input")
    result = result(IntTile, "one value per element")
    assembly_format = "$source " + _TAIL


class IntBinary(TileOp):
    """Base of operations on two integer tiles of one type."""

    group = "Integer"
    traits = (Pure, AllTypesMatch("lhs", "rhs", "result"))
    lhs = operand(IntTile, "left operand")
    rhs = operand(IntTile, "right operand")
    result = result(IntTile, "one value per element")
    assembly_format = "$lhs `,` $rhs " + _TAIL


class _WithOverflow(IntBinary):
    overflow = attribute(IntegerOverflowAttr, OVERFLOW, default=_NO_PROMISE)
    assembly_format = "$lhs `,` $rhs (`overflow` `` $overflow^)? " + _TAIL


class _WithSignedness(IntBinary):
    signedness = attribute(SignednessAttr, SIGNEDNESS)
    assembly_format = "$lhs `,` $rhs custom<Signedness>($signedness) " + _TAIL


class AbsIOp(IntUnary, name="cuda_tile.absi", since="13.1", opcode=0x1, traits=(SameOperandsAndResultShape,)):
    """Absolute value of signed integers, as an unsigned one."""


class NegIOp(IntUnary, name="cuda_tile.negi", since="13.1", opcode=0x50):
    """Negation of signed integers."""

    overflow = attribute(IntegerOverflowAttr, OVERFLOW, default=_NO_PROMISE, since="13.2")
    assembly_format = "$source (`overflow` `` $overflow^)? " + _TAIL

    verifies_locally = True

    def verify_op(self) -> None:
        # The operand is signed, so that a promise about unsigned wrap-around says nothing.
        if self.overflow.value == "no_unsigned_wrap":
            raise VerifyError("'no_unsigned_wrap' overflow flag is not supported")


class AddIOp(_WithOverflow, name="cuda_tile.addi", since="13.1", opcode=0x3, traits=(Commutative,)):
    """Integer sum."""


class SubIOp(_WithOverflow, name="cuda_tile.subi", since="13.1", opcode=0x68):
    """Integer difference."""


class MulIOp(_WithOverflow, name="cuda_tile.muli", since="13.1", opcode=0x4E, traits=(Commutative,)):
    """Low half of the product."""


class MulhiIOp(TileOp, name="cuda_tile.mulhii", since="13.1", opcode=0x4D, group="Integer"):
    """High half of the product of unsigned integers."""

    traits = (Pure, AllTypesMatch("x", "y", "result"))
    x = operand(IntTile, "left factor")
    y = operand(IntTile, "right factor")
    result = result(IntTile, "the high half of each product")
    assembly_format = "$x `,` $y " + _TAIL


class DivIOp(TileOp, name="cuda_tile.divi", since="13.1", opcode=0x15, group="Integer"):
    """Integer quotient, rounded towards zero by default.

    Dividing by zero, and the smallest signed number by -1, is undefined.
    """

    # A division by zero is undefined, so that the operation must not be speculated: it is not Pure.
    traits = (NoMemoryEffect, AllTypesMatch("lhs", "rhs", "result"))
    lhs = operand(IntTile, "dividend")
    rhs = operand(IntTile, "divisor")
    signedness = attribute(SignednessAttr, SIGNEDNESS)
    rounding = attribute(RoundingModeAttr, "`zero`, `negative_inf` or `positive_inf`", default=RoundingModeAttr("zero"))
    result = result(IntTile, "the quotients")
    assembly_format = "$lhs `,` $rhs custom<Signedness>($signedness) (`rounding` `` $rounding^)? " + _TAIL

    verifies_locally = True

    def verify_op(self) -> None:
        mode = self.rounding.value
        if mode not in ("zero", "negative_inf", "positive_inf"):
            raise VerifyError("invalid rounding mode specified, expect one of [zero, negative_inf, positive_inf]")
        if mode == "negative_inf" and self.signedness.value == "unsigned":
            raise VerifyError("rounding mode 'negative_inf' is not allowed with 'unsigned' flag")


class RemIOp(_WithSignedness, name="cuda_tile.remi", since="13.1", opcode=0x5A):
    """Remainder of the division rounded towards zero; it has the sign of the dividend."""

    traits = (AllShapesMatch("result", "lhs", "rhs"),)


class MaxIOp(_WithSignedness, name="cuda_tile.maxi", since="13.1", opcode=0x46):
    """Integer maximum."""


class MinIOp(_WithSignedness, name="cuda_tile.mini", since="13.1", opcode=0x48):
    """Integer minimum."""


class ShLIOp(_WithOverflow, name="cuda_tile.shli", since="13.1", opcode=0x60):
    """Shift to the left by an unsigned amount; a zero comes in."""


class ShRIOp(_WithSignedness, name="cuda_tile.shri", since="13.1", opcode=0x61):
    """Shift to the right by an unsigned amount; signed operands keep their sign."""


class CmpIOp(ComparesOperands, TileOp, name="cuda_tile.cmpi", since="13.1", opcode=0xF, group="Integer"):
    """Integer comparison."""

    traits = (Pure, AllTypesMatch("lhs", "rhs"))
    comparison_predicate = attribute(ComparisonPredicateAttr, "the relation that is tested")
    lhs = operand(IntTile, "left operand")
    rhs = operand(IntTile, "right operand")
    signedness = attribute(SignednessAttr, SIGNEDNESS)
    result = result(I1Tile, "whether the relation holds, per element")
    assembly_format = (
        "custom<ComparisonPredicate>($comparison_predicate) $lhs `,` $rhs `,` custom<Signedness>($signedness)"
        " attr-dict `:` custom<CudaTileType>(type($lhs)) `->` custom<CudaTileType>(type($result))"
    )
