"""Elementary functions, element by element.  Half precision is computed in f32."""

from __future__ import annotations

from tileiras.ir import (
    AllShapesMatch,
    AllTypesMatch,
    Pure,
    UnitAttr,
    attribute,
    i1,
    i8,
    i16,
    i32,
    operand,
    registry,
    result,
)

from .attributes import RoundingModeAttr
from .constraints import BaseFloatTile, TileOf
from .operation import TileOp
from .ops_arith_float import FTZ, FloatUnary
from .verifiers import verify_divide_modifiers, verify_flush_to_zero, verify_full_or_approx

_TAIL = "attr-dict `:` custom<CudaTileType>(type($result))"
_FULL = RoundingModeAttr("full")
ACCURACY = "`full`, or `approx` for the fast approximation (f32 only)"


class CeilOp(FloatUnary, name="cuda_tile.ceil", since="13.1", opcode=0xD):
    """Smallest whole number that is not below the input."""


class FloorOp(FloatUnary, name="cuda_tile.floor", since="13.1", opcode=0x27):
    """Largest whole number that is not above the input."""


class CosOp(FloatUnary, name="cuda_tile.cos", since="13.1", opcode=0x12):
    """Cosine."""


class CosHOp(FloatUnary, name="cuda_tile.cosh", since="13.1", opcode=0x13):
    """Hyperbolic cosine."""


class SinOp(FloatUnary, name="cuda_tile.sin", since="13.1", opcode=0x62):
    """Sine."""


class SinHOp(FloatUnary, name="cuda_tile.sinh", since="13.1", opcode=0x63):
    """Hyperbolic sine."""


class TanOp(FloatUnary, name="cuda_tile.tan", since="13.1", opcode=0x69):
    """Tangent."""


class TanHOp(FloatUnary, name="cuda_tile.tanh", since="13.1", opcode=0x6A):
    """Hyperbolic tangent."""

    rounding_mode = attribute(RoundingModeAttr, ACCURACY, default=_FULL, since="13.2")
    assembly_format = "$source custom<FullRoundingMode>($rounding_mode) " + _TAIL

    def verify_op(self) -> None:
        verify_full_or_approx(self)


class ExpOp(FloatUnary, name="cuda_tile.exp", since="13.1", opcode=0x17):
    """Exponential, base e."""

    rounding_mode = attribute(RoundingModeAttr, ACCURACY, default=_FULL, since="13.3")
    assembly_format = "$source custom<FullRoundingMode>($rounding_mode) " + _TAIL

    def verify_op(self) -> None:
        verify_full_or_approx(self)


class Exp2Op(FloatUnary, name="cuda_tile.exp2", since="13.1", opcode=0x18):
    """Exponential, base 2."""

    flush_to_zero = attribute(UnitAttr, FTZ, optional=True)
    assembly_format = "$source (`flush_to_zero` $flush_to_zero^)? " + _TAIL

    def verify_op(self) -> None:
        verify_flush_to_zero(self)


class LogOp(FloatUnary, name="cuda_tile.log", since="13.1", opcode=0x3F):
    """Natural logarithm."""


class Log2Op(FloatUnary, name="cuda_tile.log2", since="13.1", opcode=0x40):
    """Logarithm, base 2."""


class RsqrtOp(FloatUnary, name="cuda_tile.rsqrt", since="13.1", opcode=0x5D):
    """One over the square root."""

    flush_to_zero = attribute(UnitAttr, FTZ, optional=True)
    assembly_format = "$source (`flush_to_zero` $flush_to_zero^)? " + _TAIL

    def verify_op(self) -> None:
        verify_flush_to_zero(self)


class SqrtOp(FloatUnary, name="cuda_tile.sqrt", since="13.1", opcode=0x64):
    """Square root, rounded as IEEE says or (f32 only) approximated."""

    rounding_mode = attribute(RoundingModeAttr, "how the result is rounded")
    flush_to_zero = attribute(UnitAttr, FTZ, optional=True)
    assembly_format = "$source custom<SqrtOpRoundingMode>($rounding_mode) (`flush_to_zero` $flush_to_zero^)? " + _TAIL

    def verify_op(self) -> None:
        verify_divide_modifiers(self, ("nearest_even", "zero", "negative_inf", "positive_inf", "approx"))


class Atan2Op(TileOp, name="cuda_tile.atan2", since="13.2", opcode=0x6E, group="Floating Point"):
    """Angle of the point (y, x): the arc tangent of `x / y` in the quadrant given by their signs."""

    traits = (Pure, AllTypesMatch("x", "y", "result"))
    x = operand(BaseFloatTile, "numerator of the ratio")
    y = operand(BaseFloatTile, "denominator of the ratio")
    result = result(BaseFloatTile, "the angles in radians")
    assembly_format = "$x `,` $y " + _TAIL


class FPowFOp(TileOp, name="cuda_tile.fpowf", since="13.1", opcode=0x54, group="Floating Point"):
    """`source` to the power of a floating-point `exponent`.  Texts before 13.4 call it `pow`."""

    traits = (Pure, AllTypesMatch("result", "source", "exponent"))
    source = operand(BaseFloatTile, "base")
    exponent = operand(BaseFloatTile, "exponent")
    result = result(BaseFloatTile, "the powers")
    assembly_format = "$source `,` $exponent " + _TAIL


# One operation, one opcode: the older spelling is an alias for readers.
registry.OPERATIONS["cuda_tile.pow"] = FPowFOp


class FPowIOp(TileOp, name="cuda_tile.fpowi", since="13.4", opcode=0x79, group="Floating Point"):
    """`source` to the power of a signed integer `exponent`."""

    traits = (Pure, AllTypesMatch("source", "result"), AllShapesMatch("source", "exponent"))
    source = operand(BaseFloatTile, "base")
    exponent = operand(TileOf(i1, i8, i16, i32), "exponent")
    result = result(BaseFloatTile, "the powers")
    assembly_format = (
        "$source `,` $exponent attr-dict `:` custom<CudaTileType>(type($result)) `,`"
        " custom<CudaTileType>(type($exponent))"
    )
