"""Conversions between element types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileiras.dialects import arith, nv_tileaa
from tileiras.ir import FloatAttr, TensorType, element_type_of, f32

from .rules import Table, by_signedness, cast, integer

if TYPE_CHECKING:
    from tileiras.dialects import cuda_tile
    from tileiras.ir import ConversionRewriter

_TRUNCATING = by_signedness(arith.FPToSIOp, arith.FPToUIOp, is_cast=True)


def _float_to_float(op: cuda_tile.FToFOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    result = rewriter.convert_type(op.results[0].type)
    return rewriter.insert(nv_tileaa.FpToFpOp(args[0], rounding_mode=op.rounding_mode.value, result=result))


def _float_to_integer(op: cuda_tile.FToIOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    """Only truncation exists, so the rounding mode says nothing.

    Saturation is three choices around the plain conversion, since PTX's conversions clamp to the ends of the register
    that they write, which is wider than i1 and i8, and make 2^63 of NaN in 64 bits.

    Without saturation, i1 says whether the number differs from zero: the vendor's compiler (13.5) compares so, and the
    front end makes bool of floats by this operation.
    """
    target = rewriter.convert_type(op.results[0].type)
    to_truth = element_type_of(target).width == 1 and op.saturating is None
    if op.saturating is None and not to_truth:
        return _TRUNCATING(op, args, rewriter)
    insert = rewriter.insert
    (value,) = args
    if element_type_of(value.type).keyword not in ("f32", "f64"):
        # Exact, and in range for both ends of every integer type.
        wide = value.type.with_element_type(f32) if isinstance(value.type, TensorType) else f32
        value = insert(nv_tileaa.FpToFpOp(value, rounding_mode="nearest_even", result=wide)).results[0]
    width, is_signed = element_type_of(target).width, op.signedness.value == "signed"
    low, above = (-(1 << width - 1), 1 << width - 1) if is_signed else (0, 1 << width)

    def bound(number: int) -> Any:
        constant = FloatAttr.from_float(float(number), element_type_of(value.type))
        return insert(arith.ConstantOp.splat(constant, value.type)).results[0]

    if to_truth:
        return insert(arith.CmpFOp(value, bound(0), predicate="une")).results[0]

    def end(number: int) -> Any:
        return integer(rewriter, number & 1 if width == 1 else number, target)

    convert = arith.FPToSIOp if is_signed else arith.FPToUIOp
    result = insert(convert(value, result=target)).results[0]
    for predicate, other, number in (("ole", bound(low), low), ("oge", bound(above), above - 1), ("uno", value, 0)):
        outside = insert(arith.CmpFOp(value, other, predicate=predicate)).results[0]
        result = insert(arith.SelectOp(outside, end(number), result)).results[0]
    return result


def patterns() -> Table:
    return {
        "bitcast": cast(arith.BitcastOp),
        "exti": by_signedness(arith.ExtSIOp, arith.ExtUIOp, is_cast=True),
        "ftof": _float_to_float,
        "ftoi": _float_to_integer,
        "int_to_ptr": cast(nv_tileaa.IntToPtrOp),
        # Only rounding to nearest even exists.
        "itof": by_signedness(arith.SIToFPOp, arith.UIToFPOp, is_cast=True),
        "ptr_to_int": cast(nv_tileaa.PtrToIntOp),
        "ptr_to_ptr": cast(nv_tileaa.PtrBitcastOp),
        "trunci": cast(arith.TruncIOp),
    }
