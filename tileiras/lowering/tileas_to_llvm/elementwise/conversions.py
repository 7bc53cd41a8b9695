"""Conversions between float types, and between integers and floats.

f16, bf16, f32 and f64 are LLVM's own.  All other formats go through f32, which holds every one of them: by the target's
instructions on pairs of numbers (`PACKED`) where it has them, by arithmetic on the bits elsewhere.

A conversion rounds once.  Where it takes two steps, the first one rounds to odd, which leaves the second one right
(Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tileiras.dialects import arith, llvm, nvvm
from tileiras.ir import (
    FloatType,
    IntegerType,
    StringAttr,
    UnitAttr,
    Value,
    VectorType,
    VerifyError,
    element_type_of,
    f32,
    i1,
    i4,
    i8,
    i16,
    i32,
)
from tileiras.support.named_tuple import NamedTuple

from ..emit.function import FunctionLowering
from ..emit.types import NATIVE_FLOATS, ROUNDING, count_of, element_of, scalar_type, vector_of
from . import byte_words

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileas as tileas


class Packed(NamedTuple):
    """A narrow format that the hardware converts in pairs: PTX's name of it, and the feature of targets that do."""

    kind: str
    feature: str


PACKED = {
    "f8E4M3FN": Packed("e4m3", "fp8_conversion"),
    "f8E5M2": Packed("e5m2", "fp8_conversion"),
    "f8E8M0FNU": Packed("ue8m0", "fp4_conversion"),
    "f4E2M1FN": Packed("e2m1", "fp4_conversion"),
}


def _packed(keyword: str, lowering: FunctionLowering) -> Packed | None:
    row = PACKED.get(keyword)
    return row if row is not None and lowering.target.has(row.feature) else None


# ---- to f32 ---------------------------------------------------------------------------------------------------------


def to_f32(type: FloatType, value: Value, lowering: FunctionLowering) -> Value:
    """The exact f32 value of floats held in any form (f64: the nearest)."""
    emit = lowering.emit
    wide = vector_of(f32, count_of(value.type))
    keyword = type.keyword
    if keyword in ("f32", "tf32"):
        return value
    if keyword in ("f16", "bf16"):
        return emit.insert(llvm.FPExtOp(value, res=wide))
    if keyword == "f64":
        return emit.insert(llvm.FPTruncOp(value, res=wide))
    packed = _packed(keyword, lowering)
    if packed is not None:
        return emit.insert(llvm.FPExtOp(_unpack(value, type.width, packed.kind, lowering), res=wide))
    return _decode_exponent(value, lowering) if keyword == "f8E8M0FNU" else _decode(type, value, lowering)


def _unpack(value: Value, width: int, kind: str, lowering: FunctionLowering) -> Value:
    """Narrow floats to f16 (f8E8M0FNU: bf16), two at a time."""
    emit = lowering.emit
    count = count_of(value.type)
    source = emit.build([value, value]) if count == 1 else value
    pairs = count_of(source.type) // 2
    if width == 8:
        words = emit.bitcast(source, vector_of(i16, pairs))
    else:
        low, high = (emit.shuffle(source, range(first, 2 * pairs, 2)) for first in (0, 1))
        low = emit.insert(llvm.AndOp(low, emit.integer(15, low.type)))
        high = emit.insert(llvm.ShlOp(high, emit.integer(4, high.type)))
        words = emit.insert(llvm.ZExtOp(emit.insert(llvm.OrOp(low, high)), res=vector_of(i16, pairs)))
    unpack = nvvm.CvtUnpackF8Op if width == 8 else nvvm.CvtUnpackF4Op
    parts = [emit.insert(unpack(emit.extract(words, i), kind=StringAttr(kind))) for i in range(pairs)]
    joined = emit.concat(parts)
    return emit.extract(joined, 0) if count == 1 else joined


def _decode_exponent(value: Value, lowering: FunctionLowering) -> Value:
    """f8E8M0FNU is a biased exponent: 2^(x - 127); 0 is the subnormal 2^-127, 255 is NaN."""
    emit = lowering.emit
    ints = vector_of(i32, count_of(value.type))
    bits = emit.insert(llvm.ZExtOp(value, res=ints))
    shifted = emit.insert(llvm.ShlOp(bits, emit.integer(23, ints)))
    small = emit.icmp("eq", bits, emit.integer(0, ints))
    shifted = emit.select(small, emit.integer(1 << 22, ints), shifted)
    nan = emit.icmp("eq", bits, emit.integer(255, ints))
    return emit.bitcast(emit.select(nan, emit.integer(0x7FFFFFFF, ints), shifted), vector_of(f32, count_of(ints)))


def _decode(type: FloatType, value: Value, lowering: FunctionLowering) -> Value:
    """A narrow float from its bits: normal numbers by moving the fields, subnormals by an exact multiplication."""
    emit = lowering.emit
    s = type.semantics
    ints = vector_of(i32, count_of(value.type))
    wide = vector_of(f32, count_of(value.type))
    bits = emit.insert(llvm.ZExtOp(value, res=ints))

    def const(number: int) -> Value:
        return emit.integer(number, ints)

    magnitude = emit.insert(llvm.AndOp(bits, const((1 << s.width - 1) - 1)))
    sign = emit.insert(llvm.ShlOp(emit.insert(llvm.AndOp(bits, const(1 << s.width - 1))), const(32 - s.width)))
    # Read as an f32 with the fields in place, a value is its true value times 2^(bias - 127); the product is exact.  It
    # is
    # the instruction rather than LLVM's operation, which would flush those subnormal f32 in a kernel that flushes.
    fields = emit.insert(llvm.ShlOp(magnitude, const(23 - s.mantissa_bits)))
    scale = emit.floating(2.0 ** (127 - s.bias), wide)
    nearest = nvvm.FPRoundingModeAttr("rn")
    result = emit.bitcast(emit.insert(nvvm.MulFOp(emit.bitcast(fields, wide), scale, rounding=nearest)), ints)
    if s.has_infinity:
        special = emit.icmp("uge", magnitude, const(((1 << s.exponent_bits) - 1) << s.mantissa_bits))
        result = emit.select(special, emit.insert(llvm.OrOp(fields, const(0x7F800000))), result)
    elif s.has_nan:
        special = emit.icmp("eq", magnitude, const((1 << s.width - 1) - 1))
        result = emit.select(special, const(0x7FFFFFFF), result)
    return emit.bitcast(emit.insert(llvm.OrOp(result, sign)), wide)


# ---- from f32 -------------------------------------------------------------------------------------------------------


def from_f32(type: FloatType, value: Value, lowering: FunctionLowering, mode: str = "nearest_even") -> Value:
    """f32 values rounded to a format.

    8- and 4-bit formats saturate.  Modes other than nearest even exist for f8E8M0FNU (zero and positive_inf, which are
    the only ones there), f16 and bf16 (all but nearest_away), and tf32 (zero and nearest_away).
    """
    emit = lowering.emit
    keyword = type.keyword
    count = count_of(value.type)
    if keyword == "f32":
        return value
    if keyword in ("f16", "bf16") and mode != "nearest_even":
        return _round_half(type, value, mode, lowering)
    if keyword in ("f16", "bf16"):
        return emit.insert(llvm.FPTruncOp(value, res=vector_of(type, count)))
    if keyword == "f64":
        return emit.insert(llvm.FPExtOp(value, res=vector_of(type, count)))
    if keyword == "tf32":
        return round_to_tf32(value, lowering, mode)
    if not type.semantics.has_sign and type.semantics.has_zero:
        # The result for negative numbers depends on the instruction, and no target here has one.
        raise VerifyError(f"has no conversion to {keyword}")
    if keyword == "f8E8M0FNU":
        return _to_exponent(value, mode, lowering)
    packed = _packed(keyword, lowering)
    return _encode(type, value, lowering) if packed is None else _pack(type.width, value, packed.kind, "rn", lowering)


def _pack(width: int, value: Value, kind: str, rounding: str, lowering: FunctionLowering) -> Value:
    """f32 to a narrow format, two at a time."""
    emit = lowering.emit
    count = count_of(value.type)
    source = emit.build([value, value]) if count == 1 else value
    attributes = {"kind": StringAttr(kind), "rounding": nvvm.FPRoundingModeAttr(rounding)}
    pack = nvvm.CvtPackF8Op if width == 8 else nvvm.CvtPackF4Op
    size = count_of(source.type)
    pairs = ((emit.extract(source, i + 1), emit.extract(source, i)) for i in range(0, size, 2))
    words = emit.build([emit.insert(pack(high, low, **attributes)) for high, low in pairs])
    if width == 8:
        packed = emit.bitcast(words, VectorType((size,), i8))
    else:
        both = emit.insert(llvm.TruncOp(words, res=vector_of(i8, size // 2)))
        low = emit.insert(llvm.AndOp(both, emit.integer(15, both.type)))
        high = emit.insert(llvm.LShrOp(both, emit.integer(4, both.type)))
        order = [half * (size // 2) + i for i in range(size // 2) for half in (0, 1)]
        packed = emit.shuffle(emit.concat([low, high]), order)
    return emit.extract(packed, 0) if count == 1 else packed


def _encode(type: FloatType, value: Value, lowering: FunctionLowering) -> Value:
    """f32 to a narrow float as the conversion instructions of newer GPUs do: to nearest even, saturating to the largest
    finite value; NaN to the NaN without a sign, in formats without one to the largest value (PTX ISA, "cvt"; for
    f4E2M1FN, CUDA math API, `__nv_cvt_float_to_fp4`)."""
    emit = lowering.emit
    s = type.semantics
    count = count_of(value.type)
    ints, wide = vector_of(i32, count), vector_of(f32, count)

    def const(number: int) -> Value:
        return emit.integer(number, ints)

    bits = emit.bitcast(value, ints)
    magnitude = emit.insert(llvm.AndOp(bits, const(0x7FFFFFFF)))
    dropped_bits = 23 - s.mantissa_bits
    top = ((1 << s.exponent_bits) - 1) << s.mantissa_bits
    # The codes from `top` on: none is finite, all are, or all but the last one.
    largest = top - 1 if s.has_infinity else top + (1 << s.mantissa_bits) - 1 - s.has_nan
    bias = 127 - s.bias << 23
    limited = emit.intrinsic("umin", magnitude, const((largest << dropped_bits) + bias))
    # Normal numbers: add just under half of the last place kept, and one more where the kept part is odd.
    shifted = emit.insert(llvm.SubOp(limited, const(bias)))
    odd = emit.insert(llvm.AndOp(emit.insert(llvm.LShrOp(shifted, const(dropped_bits))), const(1)))
    rounded = emit.insert(llvm.AddOp(emit.insert(llvm.AddOp(shifted, odd)), const((1 << dropped_bits - 1) - 1)))
    normal = emit.insert(llvm.LShrOp(rounded, const(dropped_bits)))
    # Subnormal ones: a sum with the power of two whose last place is theirs rounds them into its low bits.
    anchor = 1 - s.bias - s.mantissa_bits + 23
    sum_ = emit.insert(llvm.FAddOp(emit.bitcast(limited, wide), emit.floating(2.0**anchor, wide)))
    subnormal = emit.insert(llvm.SubOp(emit.bitcast(sum_, ints), const(127 + anchor << 23)))
    is_normal = emit.icmp("uge", limited, const(128 - s.bias << 23))
    result = emit.select(is_normal, normal, subnormal)
    sign = emit.insert(llvm.LShrOp(emit.insert(llvm.XOrOp(bits, magnitude)), const(32 - s.width)))
    result = emit.insert(llvm.OrOp(result, sign))
    is_nan = emit.icmp("ugt", magnitude, const(0x7F800000))
    result = emit.select(is_nan, const((1 << s.width - 1) - 1), result)
    return emit.insert(llvm.TruncOp(result, res=vector_of(i8, count)))


def _to_exponent(value: Value, mode: str, lowering: FunctionLowering) -> Value:
    """f32 to f8E8M0FNU: the magnitude's power of two, towards zero or away from it, within 2^-127 and 2^127; NaN is 255
    (CUDA math API, `__nv_cvt_bfloat16raw_to_e8m0`, which documents `cvt.satfinite.ue8m0x2`)."""
    emit = lowering.emit
    if mode not in ("zero", "positive_inf"):
        raise VerifyError(f"has no conversion to f8E8M0FNU with rounding mode '{mode}'")
    packed = _packed("f8E8M0FNU", lowering)
    if packed is not None:
        return _pack(8, value, packed.kind, ROUNDING[mode], lowering)
    ints = vector_of(i32, count_of(value.type))

    def const(number: int) -> Value:
        return emit.integer(number, ints)

    magnitude = emit.insert(llvm.AndOp(emit.bitcast(value, ints), const(0x7FFFFFFF)))
    result = magnitude
    if mode == "positive_inf":
        # Any bit below the exponent carries into it; code 0 denotes 2^-127 and all smaller values.
        carried = emit.insert(llvm.AddOp(magnitude, const((1 << 23) - 1)))
        result = emit.select(emit.icmp("ugt", magnitude, const(1 << 22)), carried, magnitude)
    code = emit.intrinsic("umin", emit.insert(llvm.LShrOp(result, const(23))), const(254))
    code = emit.select(emit.icmp("ugt", magnitude, const(0x7F800000)), const(255), code)
    return emit.insert(llvm.TruncOp(code, res=vector_of(i8, count_of(ints))))


def round_to_tf32(value: Value, lowering: FunctionLowering, mode: str = "nearest_even") -> Value:
    """f32 rounded to 10 mantissa bits, to nearest, ties to even or away, or towards zero; infinities and NaNs stay."""
    emit = lowering.emit
    type = value.type
    ints = vector_of(i32, count_of(type))
    if mode != "nearest_even":
        bits = emit.bitcast(value, ints)
        half = 0x1000 if mode == "nearest_away" else 0
        return _cut_to_tf32(bits, emit.insert(llvm.AddOp(bits, emit.integer(half, ints))), type, lowering)
    if lowering.target.has("tf32_nearest_even"):
        rounding = nvvm.FPRoundingModeAttr("rn")

        def rounded(element: Value) -> Value:
            return emit.insert(nvvm.CvtToTF32Op(element, rounding=rounding, res=i32))

        return emit.bitcast(emit.map_scalars(rounded, value), type)
    bits = emit.bitcast(value, ints)
    odd = emit.insert(llvm.AndOp(emit.insert(llvm.LShrOp(bits, emit.integer(13, ints))), emit.integer(1, ints)))
    sums = emit.insert(llvm.AddOp(emit.insert(llvm.AddOp(bits, odd)), emit.integer(0xFFF, ints)))
    return _cut_to_tf32(bits, sums, type, lowering)


def _cut_to_tf32(bits: Value, sums: Value, type: FloatType | VectorType, lowering: FunctionLowering) -> Value:
    """The upper 19 bits of `sums`; `bits` where they are an infinity or a NaN."""
    emit = lowering.emit
    ints = bits.type
    rounded = emit.insert(llvm.AndOp(sums, emit.integer(~0x1FFF, ints)))
    exponent = emit.insert(llvm.AndOp(bits, emit.integer(0x7F800000, ints)))
    special = emit.icmp("eq", exponent, emit.integer(0x7F800000, ints))
    return emit.bitcast(emit.select(special, bits, rounded), type)


def _round_half(type: FloatType, value: Value, mode: str, lowering: FunctionLowering) -> Value:
    """f32 to f16 or bf16 towards zero or one of the infinities.

    bf16, for which PTX has no rounding up or down, is the upper half of f32: a carry into it moves away from zero, from
    the largest number to infinity as well.
    """
    emit = lowering.emit
    result = vector_of(type, count_of(value.type))
    if type.keyword == "f16":
        return emit.insert(nvvm.CvtOp(value, rounding=nvvm.FPRoundingModeAttr(ROUNDING[mode]), res=result))
    ints, words = vector_of(i32, count_of(value.type)), vector_of(i16, count_of(value.type))
    bits = emit.bitcast(value, ints)
    if mode != "zero":
        magnitude = emit.insert(llvm.AndOp(bits, emit.integer(0x7FFFFFFF, ints)))
        away = emit.icmp("sge" if mode == "positive_inf" else "slt", bits, emit.integer(0, ints))
        finite = emit.icmp("ult", magnitude, emit.integer(0x7F800000, ints))
        carried = emit.insert(llvm.AddOp(bits, emit.integer(0xFFFF, ints)))
        bits = emit.select(emit.insert(llvm.AndOp(away, finite)), carried, bits)
    # A NaN whose upper half would read as infinity stays one.
    is_nan = emit.insert(llvm.FCmpOp(value, value, predicate=llvm.FCmpPredicateAttr("uno")))
    bits = emit.select(is_nan, emit.integer(0x7FFF0000, ints), bits)
    upper = emit.insert(llvm.TruncOp(emit.insert(llvm.LShrOp(bits, emit.integer(16, ints))), res=words))
    return emit.bitcast(upper, result)


# ---- from wider types, rounded to odd -------------------------------------------------------------------------------


def _with_sticky(short: Value, differs: Value, lowering: FunctionLowering) -> Value:
    """f32 rounded towards zero, the last bit set where that lost something: rounded to odd."""
    emit = lowering.emit
    ints = vector_of(i32, count_of(short.type))
    sticky = emit.insert(llvm.ZExtOp(differs, res=ints))
    return emit.bitcast(emit.insert(llvm.OrOp(emit.bitcast(short, ints), sticky)), short.type)


def f64_to_odd_f32(value: Value, lowering: FunctionLowering) -> Value:
    """f64 rounded to odd in f32."""
    emit = lowering.emit
    wide = vector_of(f32, count_of(value.type))
    short = emit.insert(nvvm.CvtOp(value, rounding=nvvm.FPRoundingModeAttr("rz"), res=wide))
    again = emit.insert(llvm.FPExtOp(short, res=value.type))
    return _with_sticky(
        short, emit.insert(llvm.FCmpOp(again, value, predicate=llvm.FCmpPredicateAttr("one"))), lowering
    )


def integer_to_odd_f32(value: Value, signed: bool, lowering: FunctionLowering) -> Value:
    """Integers rounded to odd in f32, which holds those of up to 16 bits."""
    emit = lowering.emit
    wide = vector_of(f32, count_of(value.type))
    if element_of(value.type).width < 32:
        return emit.insert((llvm.SIToFPOp if signed else llvm.UIToFPOp)(value, res=wide))
    unsigned = None if signed else UnitAttr()
    short = emit.insert(nvvm.CvtOp(value, rounding=nvvm.FPRoundingModeAttr("rz"), is_unsigned=unsigned, res=wide))
    # No larger in magnitude than `value`, hence in range.
    again = emit.insert((llvm.FPToSIOp if signed else llvm.FPToUIOp)(short, res=value.type))
    return _with_sticky(short, emit.icmp("ne", again, value), lowering)


# ---- operations -----------------------------------------------------------------------------------------------------


def fp_to_fp(op: tileas.FpToFpOp, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    (value,) = args
    source, target = element_type_of(op.operand.type), element_type_of(op.result.type)
    if source is target:
        return value
    emit = lowering.emit
    mode = op.rounding_mode.value
    if target.keyword != "f8E8M0FNU" and source.semantics.fits(target.semantics):
        mode = "nearest_even"  # nothing is rounded
    native = source.keyword in NATIVE_FLOATS and target.keyword in NATIVE_FLOATS
    result = vector_of(scalar_type(target), count_of(value.type))
    if native and target.width > source.width:
        return emit.insert(llvm.FPExtOp(value, res=result))
    if native and target.width < source.width and mode == "nearest_even":
        return emit.insert(llvm.FPTruncOp(value, res=result))
    if target.keyword == "f32" and source.keyword == "f64":
        return emit.insert(nvvm.CvtOp(value, rounding=nvvm.FPRoundingModeAttr(ROUNDING[mode]), res=result))
    wide = f64_to_odd_f32(value, lowering) if source.keyword == "f64" else to_f32(source, value, lowering)
    return from_f32(target, wide, lowering, mode)


def _from_integer(signed: bool) -> Any:
    cls = llvm.SIToFPOp if signed else llvm.UIToFPOp

    def lower(op: arith.SIToFPOp | arith.UIToFPOp, args: Sequence[Value], lowering: FunctionLowering) -> Value:
        (value,) = args
        type = element_type_of(op.result.type)
        if element_type_of(op.operand.type) is i4:
            value = i4_to_i8(value, signed, lowering)
        if byte_words.converts(value, type, lowering):
            return byte_words.to_float(value, type, signed, lowering)
        # Below sm_90 LLVM goes from integers to bf16 through f32 and rounds twice.
        by_llvm = type.keyword != "bf16" or lowering.target.has("bf16_arithmetic")
        if type.keyword in NATIVE_FLOATS and by_llvm:
            return lowering.emit.insert(cls(value, res=lowering.like(value, op.result.type)))
        return from_f32(type, integer_to_odd_f32(value, signed, lowering), lowering)

    return lower


def _to_integer(cls: type) -> Any:
    def lower(op: arith.FPToSIOp | arith.FPToUIOp, args: Sequence[Value], lowering: FunctionLowering) -> Value:
        (value,) = args
        type = element_type_of(op.operand.type)
        if type.keyword not in NATIVE_FLOATS:
            value = to_f32(type, value, lowering)
        result = lowering.like(value, op.result.type)
        if element_of(result) is i1:
            # A float converts to i1 by the lowest bit of its truncated value.
            wide = vector_of(IntegerType(32), count_of(value.type))
            return lowering.emit.insert(llvm.TruncOp(lowering.emit.insert(cls(value, res=wide)), res=result))
        if byte_words.fills_words(result):
            wide = vector_of(i32, count_of(value.type))
            return byte_words.low_bytes(lowering.emit.insert(cls(value, res=wide)), lowering)
        return lowering.emit.insert(cls(value, res=result))

    return lower


def i4_to_i8(value: Value, signed: bool, lowering: FunctionLowering) -> Value:
    """An i4 is held in the low half of an i8, whose upper half is undefined; `arith-expand` takes both apart."""
    emit = lowering.emit
    if byte_words.in_words(value):
        return byte_words.low_halves(value, signed, lowering)
    half = emit.insert(arith.TruncIOp.create((value,), (vector_of(i4, count_of(value.type)),)))
    return emit.insert((arith.ExtSIOp if signed else arith.ExtUIOp).create((half,), (value.type,)))


def _extend(signed: bool) -> Any:
    def lower(op: arith.ExtSIOp | arith.ExtUIOp, args: Sequence[Value], lowering: FunctionLowering) -> Value:
        (value,) = args
        if element_type_of(op.operand.type) is i4:
            value = i4_to_i8(value, signed, lowering)
        return _resize(llvm.SExtOp if signed else llvm.ZExtOp, op, value, lowering)

    return lower


def trunci(op: arith.TruncIOp, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    return _resize(llvm.TruncOp, op, args[0], lowering)


def _resize(
    cls: type, op: arith.ExtSIOp | arith.ExtUIOp | arith.TruncIOp, value: Value, lowering: FunctionLowering
) -> Value:
    result = lowering.like(value, op.result.type)
    return value if value.type is result else lowering.emit.insert(cls(value, res=result))


def bitcast(op: arith.BitcastOp, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    return lowering.emit.bitcast(args[0], lowering.like(args[0], op.result.type))


extsi = _extend(True)
extui = _extend(False)
sitofp = _from_integer(True)
uitofp = _from_integer(False)
fptosi = _to_integer(llvm.FPToSIOp)
fptoui = _to_integer(llvm.FPToUIOp)
