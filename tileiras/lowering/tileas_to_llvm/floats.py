"""Float arithmetic with rounding modes and flushing, and conversions between float types.

f16, bf16, f32 and f64 are LLVM's own.  Narrower floats are converted to f32 (through f16, which holds all of them),
computed there, and converted back: the hardware has no arithmetic on them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tileiras.dialects import llvm, nvvm
from tileiras.dialects import nv_tileas as tileas
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
    i8,
    i16,
    i32,
)

from .function import FunctionLowering
from .types import NATIVE_FLOATS, count_of, element_of, scalar_type, vector_of

FROM_F32 = f32

# PTX suffixes of rounding modes.
ROUNDING = {
    "nearest_even": "rn",
    "zero": "rz",
    "negative_inf": "rm",
    "positive_inf": "rp",
    "approx": "approx",
    "full": "full",
}
_FP8 = {"f8E4M3FN": "e4m3", "f8E5M2": "e5m2"}


def widened(
    type: FloatType, args: Sequence[Value], lowering: FunctionLowering, compute: Callable[[list[Value]], Value]
) -> Value:
    """`compute` on the arguments; for a type without arithmetic on f32 values, rounded once at the end."""
    if type.keyword in NATIVE_FLOATS or type.keyword == "tf32":
        result = compute(list(args))
        return round_to_tf32(result, lowering) if type.keyword == "tf32" else result
    return from_f32(type, compute([to_f32(type, a, lowering) for a in args]), lowering)


# ---- conversions ----------------------------------------------------------------------------------------------------


def to_f32(type: FloatType, value: Value, lowering: FunctionLowering) -> Value:
    """The exact f32 value of floats held in any form."""
    emit = lowering.emit
    wide = vector_of(f32, count_of(value.type))
    keyword = type.keyword
    if keyword in ("f32", "tf32"):
        return value
    if keyword in ("f16", "bf16"):
        return emit.insert(llvm.FPExtOp(value, res=wide))
    if keyword == "f64":
        return emit.insert(llvm.FPTruncOp(value, res=wide))
    if keyword == "f8E8M0FNU":
        # A biased exponent: 2^(x - 127); 0 is the subnormal 2^-127, 255 is NaN.
        bits = emit.insert(llvm.ZExtOp(value, res=vector_of(i32, count_of(value.type))))
        shifted = emit.insert(llvm.ShlOp(bits, emit.integer(23, bits.type)))
        small = emit.icmp("eq", bits, emit.integer(0, bits.type))
        shifted = emit.select(small, emit.integer(1 << 22, bits.type), shifted)
        nan = emit.icmp("eq", bits, emit.integer(255, bits.type))
        return emit.bitcast(emit.select(nan, emit.integer(0x7FFFFFFF, bits.type), shifted), wide)
    if keyword in _FP8 and lowering.target.has("fp8_conversion"):
        halves = _pairs(value, _FP8[keyword], lowering)
        return emit.insert(llvm.FPExtOp(halves, res=wide))
    return _decode(type, value, lowering)


def _pairs(value: Value, kind: str, lowering: FunctionLowering) -> Value:
    """8-bit floats to f16 two at a time."""
    emit = lowering.emit
    count = count_of(value.type)
    source = emit.build([value, value]) if count == 1 else value
    words = emit.bitcast(source, vector_of(i16, max(2, count) // 2))
    named = StringAttr(kind)
    parts = [emit.insert(nvvm.CvtUnpackF8Op(emit.extract(words, i), kind=named)) for i in range(max(2, count) // 2)]
    joined = emit.concat(parts)
    return emit.extract(joined, 0) if count == 1 else joined


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
    # Read as an f32 with the fields in place, a value is 2^(bias - 127) of what it means; the product is exact.
    moved = emit.insert(llvm.ShlOp(magnitude, const(23 - s.mantissa_bits)))
    scaled = emit.insert(llvm.FMulOp(emit.bitcast(moved, wide), emit.floating(2.0 ** (127 - s.bias), wide)))
    result = emit.bitcast(scaled, ints)
    if s.has_infinity:
        special = emit.icmp("uge", magnitude, const(((1 << s.exponent_bits) - 1) << s.mantissa_bits))
        result = emit.select(special, emit.insert(llvm.OrOp(moved, const(0x7F800000))), result)
    elif s.has_nan:
        special = emit.icmp("eq", magnitude, const((1 << s.width - 1) - 1))
        result = emit.select(special, const(0x7FFFFFFF), result)
    return emit.bitcast(emit.insert(llvm.OrOp(result, sign)), wide)


def from_f32(type: FloatType, value: Value, lowering: FunctionLowering) -> Value:
    """f32 values rounded to nearest even."""
    emit = lowering.emit
    keyword = type.keyword
    count = count_of(value.type)
    if keyword == "f32":
        return value
    if keyword in ("f16", "bf16"):
        return emit.insert(llvm.FPTruncOp(value, res=vector_of(type, count)))
    if keyword == "f64":
        return emit.insert(llvm.FPExtOp(value, res=vector_of(type, count)))
    if keyword == "tf32":
        return round_to_tf32(value, lowering)
    if keyword in _FP8 and lowering.target.has("fp8_conversion"):
        source = emit.build([value, value]) if count == 1 else value
        kind = StringAttr(_FP8[keyword])
        words = [
            emit.insert(nvvm.CvtPackF8Op(emit.extract(source, 2 * i + 1), emit.extract(source, 2 * i), kind=kind))
            for i in range(max(2, count) // 2)
        ]
        packed = emit.bitcast(emit.build(words), VectorType((max(2, count),), i8))
        return emit.extract(packed, 0) if count == 1 else packed
    if keyword in _FP8:
        return _encode(type, value, lowering)
    raise VerifyError(f"conversion to '{type}' is not supported on {lowering.target.name}", prefix=False)


def _encode(type: FloatType, value: Value, lowering: FunctionLowering) -> Value:
    """f32 to an 8-bit float as the conversion instructions of newer GPUs do: to nearest even, saturating to the largest
    finite value, NaN to the NaN without a sign (PTX ISA, "cvt", .satfinite)."""
    emit = lowering.emit
    s = type.semantics
    count = count_of(value.type)
    ints, wide = vector_of(i32, count), vector_of(f32, count)

    def const(number: int) -> Value:
        return emit.integer(number, ints)

    bits = emit.bitcast(value, ints)
    magnitude = emit.insert(llvm.AndOp(bits, const(0x7FFFFFFF)))
    dropped = 23 - s.mantissa_bits
    top = ((1 << s.exponent_bits) - 1) << s.mantissa_bits
    largest = top - 1 if s.has_infinity else top + (1 << s.mantissa_bits) - 2
    bias = 127 - s.bias << 23
    limited = emit.intrinsic("umin", magnitude, const((largest << dropped) + bias))
    # Normal numbers: add just under half of the last place kept, and one more where the kept part is odd.
    shifted = emit.insert(llvm.SubOp(limited, const(bias)))
    odd = emit.insert(llvm.AndOp(emit.insert(llvm.LShrOp(shifted, const(dropped))), const(1)))
    rounded = emit.insert(llvm.AddOp(emit.insert(llvm.AddOp(shifted, odd)), const((1 << dropped - 1) - 1)))
    normal = emit.insert(llvm.LShrOp(rounded, const(dropped)))
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


def round_to_tf32(value: Value, lowering: FunctionLowering) -> Value:
    """f32 rounded to 10 mantissa bits, to nearest even; infinities and NaNs stay."""
    emit = lowering.emit
    type = value.type
    ints = vector_of(i32, count_of(type))
    bits = emit.bitcast(value, ints)
    odd = emit.insert(llvm.AndOp(emit.insert(llvm.LShrOp(bits, emit.integer(13, ints))), emit.integer(1, ints)))
    moved = emit.insert(llvm.AddOp(emit.insert(llvm.AddOp(bits, odd)), emit.integer(0xFFF, ints)))
    rounded = emit.insert(llvm.AndOp(moved, emit.integer(~0x1FFF, ints)))
    exponent = emit.insert(llvm.AndOp(bits, emit.integer(0x7F800000, ints)))
    special = emit.icmp("eq", exponent, emit.integer(0x7F800000, ints))
    return emit.bitcast(emit.select(special, bits, rounded), type)


def fp_to_fp(op: Any, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    (value,) = args
    source, target = element_type_of(op.operand.type), element_type_of(op.result.type)
    if source is target:
        return value
    emit = lowering.emit
    mode = op.rounding_mode.value
    native = source.keyword in NATIVE_FLOATS and target.keyword in NATIVE_FLOATS
    result = vector_of(scalar_type(target), count_of(value.type))
    if native and target.width > source.width:
        return emit.insert(llvm.FPExtOp(value, res=result))
    if mode != "nearest_even" and target.semantics.mantissa_bits < source.semantics.mantissa_bits:
        return emit.insert(nvvm.CvtOp(value, rounding=nvvm.FPRoundingModeAttr(ROUNDING[mode]), res=result))
    if native and target.width < source.width:
        return emit.insert(llvm.FPTruncOp(value, res=vector_of(target, count_of(value.type))))
    wide = f64_to_odd_f32(value, lowering) if source.keyword == "f64" else to_f32(source, value, lowering)
    return from_f32(target, wide, lowering)


def f64_to_odd_f32(value: Value, lowering: FunctionLowering) -> Value:
    """f64 rounded to f32 so that rounding once more is right: towards zero, the last bit set where that lost anything
    (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008)."""
    emit = lowering.emit
    count = count_of(value.type)
    ints = vector_of(i32, count)
    short = emit.insert(nvvm.CvtOp(value, rounding=nvvm.FPRoundingModeAttr("rz"), res=vector_of(f32, count)))
    again = emit.insert(llvm.FPExtOp(short, res=value.type))
    differs = emit.insert(llvm.FCmpOp(again, value, predicate=llvm.FCmpPredicateAttr("one")))
    sticky = emit.insert(llvm.ZExtOp(differs, res=ints))
    return emit.bitcast(emit.insert(llvm.OrOp(emit.bitcast(short, ints), sticky)), short.type)


# ---- arithmetic -----------------------------------------------------------------------------------------------------

_OPERATIONS = {"add": llvm.FAddOp, "sub": llvm.FSubOp, "mul": llvm.FMulOp, "div": llvm.FDivOp}
_ROUNDED = {"add": nvvm.AddFOp, "sub": nvvm.AddFOp, "mul": nvvm.MulFOp, "div": nvvm.DivFOp}


def _rounding(
    op: Any, type: FloatType, lowering: FunctionLowering, approximable: bool = False
) -> dict[str, Any] | None:
    """The attributes of the instruction with a rounding mode, None when LLVM's own operation does the same."""
    is_f32 = type.keyword == "f32"
    mode = ROUNDING[op.rounding_mode.value]
    if mode == "rn" and is_f32 and approximable and lowering.approximate:
        mode = "approx"
    # LLVM's own operations flush by the function's attribute, the others have to say so.
    flushing = is_f32 and (op.flush_to_zero is not None or lowering.flush_to_zero and mode != "rn")
    if mode == "rn" and not flushing:
        return None
    return {"rounding": nvvm.FPRoundingModeAttr(mode), "ftz": UnitAttr() if flushing else None}


def _arithmetic(name: str) -> Any:
    def lower(op: Any, args: Sequence[Value], lowering: FunctionLowering) -> Value:
        emit = lowering.emit
        type = element_type_of(op.result.type)
        lhs, rhs = lowering.matched(args)
        rounding = _rounding(op, type, lowering, approximable=name == "div")
        if rounding is None:
            return widened(type, (lhs, rhs), lowering, lambda values: emit.insert(_OPERATIONS[name](*values)))
        if name == "sub":
            # PTX rounds x + (-y) as it does x - y, and LLVM has no intrinsic for the difference.
            rhs = emit.insert(llvm.FNegOp(rhs))
        return emit.insert(_ROUNDED[name](lhs, rhs, **rounding))

    return lower


def fma(op: Any, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    emit = lowering.emit
    type = element_type_of(op.result.type)
    args = lowering.matched(args)
    rounding = _rounding(op, type, lowering)
    if rounding is None:
        return widened(type, args, lowering, lambda values: emit.intrinsic("fma", *values))
    return emit.insert(nvvm.FmaOp(*args, **rounding))


def sqrt(op: Any, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    emit = lowering.emit
    type = element_type_of(op.result.type)
    rounding = _rounding(op, type, lowering, approximable=True)
    if rounding is not None:
        return emit.insert(nvvm.SqrtOp(args[0], **rounding))
    if type.keyword in ("f32", "f64"):
        return emit.intrinsic("sqrt", args[0])
    # f32 has more than twice the bits of every narrower type plus two: rounding twice is rounding once.
    return from_f32(type, emit.intrinsic("sqrt", to_f32(type, args[0], lowering)), lowering)


def _high_product(signed: bool) -> Any:
    def lower(op: Any, args: Sequence[Value], lowering: FunctionLowering) -> Value:
        emit = lowering.emit
        extend = llvm.SExtOp if signed else llvm.ZExtOp

        def high(a: Value, b: Value) -> Value:
            width = element_of(a.type).width
            double = vector_of(IntegerType(2 * width), count_of(a.type))
            product = emit.insert(llvm.MulOp(emit.insert(extend(a, res=double)), emit.insert(extend(b, res=double))))
            shifted = emit.insert(llvm.LShrOp(product, emit.integer(width, double)))
            return emit.insert(llvm.TruncOp(shifted, res=a.type))

        a, b = lowering.matched(args)
        # Vector constants have elements of at most 64 bits, and the back end splits vectors of i128 anyway.
        return emit.map_scalars(high, a, b) if element_of(a.type).width == 64 else high(a, b)

    return lower


PATTERNS: dict[type, Any] = {
    tileas.AddFOp: _arithmetic("add"),
    tileas.SubFOp: _arithmetic("sub"),
    tileas.MulFOp: _arithmetic("mul"),
    tileas.DivFOp: _arithmetic("div"),
    tileas.FmaOp: fma,
    tileas.SqrtOp: sqrt,
    tileas.FpToFpOp: fp_to_fp,
    tileas.MulhUIOp: _high_product(False),
    tileas.MulhSIOp: _high_product(True),
}
