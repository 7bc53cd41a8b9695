"""Conversions between element types; shapes stay as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.ir import (
    AllShapesMatch,
    FloatType,
    Pure,
    UnitAttr,
    VerifyError,
    attribute,
    f4E2M1FN,
    f8E4M3FN,
    f8E5M2,
    f8E8M0FNU,
    f32,
    f64,
    fnv8E5M3FNU,
    operand,
    result,
    tf32,
)

from .attributes import IntegerOverflowAttr, RoundingModeAttr, SignednessAttr
from .constraints import FloatTile, I64Tile, Int4Tile, IntTile, NumberTile, PointerTile
from .operation import IEEE_MODES, TileOp, parse_rounding
from .verifiers import bit_width

if TYPE_CHECKING:
    from tileiras.ir import Parser

ROUNDING = "how the result is rounded"
_SOURCE = "`:` custom<CudaTileType>(type($source)) `->` custom<CudaTileType>(type($result))"
_FROM = "`:` custom<CudaTileType>(type($from)) `->` custom<CudaTileType>(type($to))"
_LOW_PRECISION = (f8E4M3FN, f8E5M2, f4E2M1FN, fnv8E5M3FNU)


class _Conversion(TileOp):
    group = "Conversions"
    traits = (Pure, AllShapesMatch("source", "result"))
    assembly_format = "$source attr-dict " + _SOURCE


class _NumberConversion(TileOp):
    group = "Conversions"
    traits = (Pure, AllShapesMatch("from", "to"))


class BitcastOp(_Conversion, name="cuda_tile.bitcast", since="13.1", opcode=0x9):
    """The same bits as another type of the same width."""

    source = operand(NumberTile, "the input")
    result = result(NumberTile, "its bits, read as another type")

    verifies_locally = True

    def verify_op(self) -> None:
        source, target = self.source.type, self.result.type
        widths = bit_width(source.element_type), bit_width(target.element_type)
        if widths[0] != widths[1]:
            raise VerifyError(
                f"types must be equal width, cannot convert '{source}' of width {widths[0]} to type '{target}'"
                f" of width {widths[1]}"
            )


class IntToPtrOp(_Conversion, name="cuda_tile.int_to_ptr", since="13.1", opcode=0x33):
    """Addresses as pointers."""

    source = operand(I64Tile, "addresses")
    result = result(PointerTile, "pointers to them")


class PtrToIntOp(_Conversion, name="cuda_tile.ptr_to_int", since="13.1", opcode=0x56):
    """Pointers as addresses."""

    source = operand(PointerTile, "pointers")
    result = result(I64Tile, "their addresses")


class PtrToPtrOp(_Conversion, name="cuda_tile.ptr_to_ptr", since="13.1", opcode=0x57):
    """The same addresses as pointers to another type."""

    source = operand(PointerTile, "pointers")
    result = result(PointerTile, "pointers to the same places")


class ExtIOp(_NumberConversion, name="cuda_tile.exti", since="13.1", opcode=0x25):
    """Wider integers of the same value."""

    source = operand(Int4Tile, "the input", name="from")
    signedness = attribute(SignednessAttr, "whether the input is read as signed or unsigned")
    to = result(Int4Tile, "the wider integers")
    assembly_format = "$from custom<Signedness>($signedness) attr-dict " + _FROM

    verifies_locally = True

    def verify_op(self) -> None:
        if self.to.type.element_type.width <= self.source.type.element_type.width:
            raise VerifyError("extending to smaller or identical integer")


class TruncIOp(_NumberConversion, name="cuda_tile.trunci", since="13.1", opcode=0x6B):
    """Narrower integers: the low bits."""

    source = operand(Int4Tile, "the input", name="from")
    overflow = attribute(
        IntegerOverflowAttr, "the assumption about the bits that are lost", default=IntegerOverflowAttr("none")
    )
    to = result(Int4Tile, "the narrower integers")
    assembly_format = "$from (`overflow` `` $overflow^)? attr-dict " + _FROM

    verifies_locally = True

    def verify_op(self) -> None:
        if self.to.type.element_type.width >= self.source.type.element_type.width:
            raise VerifyError("truncating to larger or identical integer")


class IToFOp(_NumberConversion, name="cuda_tile.itof", since="13.1", opcode=0x3B):
    """Integers as floating-point numbers."""

    source = operand(IntTile, "the input", name="from")
    signedness = attribute(SignednessAttr, "whether the input is read as signed or unsigned")
    rounding_mode = attribute(RoundingModeAttr, ROUNDING)
    to = result(FloatTile, "the nearest floating-point numbers")
    assembly_format = (
        "$from custom<Signedness>($signedness) custom<IEEERoundingMode>($rounding_mode) attr-dict " + _FROM
    )

    verifies_locally = True

    def verify_op(self) -> None:
        if self.to.type.element_type is f8E8M0FNU:
            raise VerifyError(
                "integer to f8E8M0FNU conversion is not supported, please first convert to another float type"
            )
        if self.rounding_mode.value != "nearest_even":
            raise VerifyError("invalid rounding mode specified. Only 'nearest_even' is supported")


class FToFOp(_NumberConversion, name="cuda_tile.ftof", since="13.1", opcode=0x2A):
    """Floating-point numbers in another format."""

    source = operand(FloatTile, "the input", name="from")
    rounding_mode = attribute(RoundingModeAttr, ROUNDING, default=RoundingModeAttr("nearest_even"))
    to = result(FloatTile, "the converted numbers")
    assembly_format = "$from custom<IEEERoundingMode>($rounding_mode) attr-dict " + _FROM

    verifies_locally = True

    def verify_op(self) -> None:
        if self.source.type is self.to.type:
            raise VerifyError("converting tiles must not be a no-op")
        modes, message = self.modes(self.source.type.element_type, self.to.type.element_type)
        if self.rounding_mode.value not in modes:
            raise VerifyError(f"invalid rounding mode specified{message}")

    @classmethod
    def parse_IEEERoundingMode(cls, parser: Parser) -> RoundingModeAttr:
        return parse_rounding(parser, (*IEEE_MODES, "nearest_away"), "nearest_even", strict=True)

    @staticmethod
    def modes(source: FloatType, target: FloatType) -> tuple[tuple[str, ...], str]:
        """The modes that a conversion between two floating-point formats has, and the error for others (13.4)."""
        return _modes_since_13_4(source, target)


def modes_until_13_3(source: FloatType, target: FloatType) -> tuple[tuple[str, ...], str]:
    """`FToFOp.modes` of the public release."""
    if target is f8E8M0FNU:
        words = " for conversion to f8E8M0FNU. Only 'zero' and 'positive_inf' are supported"
        return ("zero", "positive_inf"), words
    return ("nearest_even",), ". Only 'nearest_even' is supported"


def _modes_since_13_4(source: FloatType, target: FloatType) -> tuple[tuple[str, ...], str]:
    if target is f8E8M0FNU:
        return modes_until_13_3(source, target)
    if target in _LOW_PRECISION:
        return ("nearest_even",), " for conversion to low-precision type. Only 'nearest_even' is supported"
    if (source, target) == (f32, tf32):
        words = " for conversion from f32 to tf32. Only 'nearest_even', 'zero', and 'nearest_away' are supported"
        return ("nearest_even", "zero", "nearest_away"), words
    if (source, target) == (f64, f32):
        words = "'nearest_even', 'zero', 'negative_inf', and 'positive_inf' are supported"
        return IEEE_MODES, f" for conversion from f64 to f32. Only {words}"
    if source.semantics.fits(target.semantics):
        modes = (*IEEE_MODES, "nearest_away")
        words = ", ".join(f"'{mode}'" for mode in modes)
        return modes, f" for widening conversion. Only IEEE float rounding modes are supported: {words}"
    words = "Only 'nearest_even' and 'zero' are supported for narrowing conversions to standard types"
    return ("nearest_even", "zero"), f". {words}"


class FToIOp(_NumberConversion, name="cuda_tile.ftoi", since="13.1", opcode=0x2B):
    """Floating-point numbers as integers, towards zero."""

    source = operand(FloatTile, "the input", name="from")
    signedness = attribute(SignednessAttr, "whether the result is signed or unsigned")
    rounding_mode = attribute(RoundingModeAttr, ROUNDING)
    saturating = attribute(
        UnitAttr, "numbers outside the integer type become its nearest end, NaN zero", optional=True, since="13.4"
    )
    to = result(IntTile, "the integers")
    assembly_format = (
        "$from custom<Signedness>($signedness) custom<IntegerRoundingMode>($rounding_mode)"
        " (`saturating` $saturating^)? attr-dict " + _FROM
    )

    verifies_locally = True

    def verify_op(self) -> None:
        if self.rounding_mode.value != "nearest_int_to_zero":
            raise VerifyError("invalid rounding mode specified. Only 'nearest_int_to_zero' is supported")
