"""Float arithmetic with rounding modes and flushing, and conversions between float types.

f16, bf16, f32 and f64 are LLVM's own.  Narrower floats are converted to f32 (through f16, which holds all of them), computed
there, and converted back: the hardware has no arithmetic on them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tileiras.dialects import llvm
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import FloatType, Value, VectorType, VerifyError, element_type_of, f16, f32, i8, i16, i32

from .function import FunctionLowering
from .types import NATIVE_FLOATS, count_of, element_of, vector_of

FROM_F32 = f32

# PTX suffixes of rounding modes.
ROUNDING = {"nearest_even": "rn", "zero": "rz", "negative_inf": "rm", "positive_inf": "rp"}
_SUFFIX = {"f32": "f", "f64": "d"}
_FP8 = {"f8E4M3FN": "e4m3x2", "f8E5M2": "e5m2x2"}


def widened(
    type: FloatType, args: Sequence[Value], lowering: FunctionLowering, compute: Callable[[list[Value]], Value]
) -> Value:
    """`compute` on the arguments; for a type without arithmetic on f32 values, rounded once at the end."""
    if type.keyword in NATIVE_FLOATS or type.keyword == "tf32":
        result = compute(list(args))
        return round_to_tf32(result, lowering) if type.keyword == "tf32" else result
    return from_f32(type, compute([to_f32(type, a, lowering) for a in args]), lowering)


# ---- conversions -------------------------------------------------------------------------------------------------------


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
        halves = _pairs(value, f"{_FP8[keyword]}.to.f16x2.rn", lowering)
        return emit.insert(llvm.FPExtOp(halves, res=wide))
    return _decode(type, value, lowering)


def _pairs(value: Value, name: str, lowering: FunctionLowering) -> Value:
    """8-bit floats to f16 two at a time."""
    emit = lowering.emit
    count = count_of(value.type)
    source = emit.build([value, value]) if count == 1 else value
    words = emit.bitcast(source, vector_of(i16, max(2, count) // 2))
    parts = [emit.nvvm(name, (emit.extract(words, i),), VectorType((2,), f16)) for i in range(max(2, count) // 2)]
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
        # The first argument goes to the high half (PTX ISA, cvt to packed types).
        words = [
            emit.nvvm(f"ff.to.{_FP8[keyword]}.rn", (emit.extract(source, 2 * i + 1), emit.extract(source, 2 * i)), i16)
            for i in range(max(2, count) // 2)
        ]
        packed = emit.bitcast(emit.build(words), VectorType((max(2, count),), i8))
        return emit.extract(packed, 0) if count == 1 else packed
    raise VerifyError(f"conversion to '{type}' is not supported on {lowering.target.name}", prefix=False)


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
    mode = ROUNDING.get(op.rounding_mode.value)
    native = source.keyword in NATIVE_FLOATS and target.keyword in NATIVE_FLOATS
    if native and target.width > source.width:
        return emit.insert(llvm.FPExtOp(value, res=vector_of(target, count_of(value.type))))
    if mode != "rn" and target.width < source.width:
        if (source.keyword, target.keyword) == ("f64", "f32"):
            return emit.map_scalars(lambda x: emit.nvvm(f"d2f.{mode}", (x,), f32), value)
        raise VerifyError(f"rounding mode '{op.rounding_mode.value}' is not supported from '{source}' to '{target}'")
    if native and target.width < source.width:
        return emit.insert(llvm.FPTruncOp(value, res=vector_of(target, count_of(value.type))))
    return from_f32(target, to_f32(source, value, lowering), lowering)


# ---- arithmetic --------------------------------------------------------------------------------------------------------

_OPERATIONS = {"add": llvm.FAddOp, "sub": llvm.FSubOp, "mul": llvm.FMulOp, "div": llvm.FDivOp}


def _is_flushing(op: Any, type: FloatType) -> bool:
    return op.flush_to_zero is not None and type.keyword == "f32"


def _arithmetic(name: str) -> Any:
    def lower(op: Any, args: Sequence[Value], lowering: FunctionLowering) -> Value:
        emit = lowering.emit
        type = element_type_of(op.result.type)
        args = lowering.matched(args)
        mode = op.rounding_mode.value
        if mode == "nearest_even" and not _is_flushing(op, type):
            return widened(type, args, lowering, lambda values: emit.insert(_OPERATIONS[name](*values)))
        if mode in ("approx", "full"):
            if name != "div":
                raise VerifyError(f"rounding mode '{mode}' does not apply")
            flush = ".ftz" if _is_flushing(op, type) else ""
            if mode == "full":
                return emit.map_scalars(lambda x, y: emit.nvvm(f"div.full{flush}", (x, y), f32), *args)
            return emit.map_scalars(lambda x, y: emit.nvvm(f"div.approx{flush}.f", (x, y), f32), *args)
        suffix = _directed(op, type)

        def one(x: Value, y: Value) -> Value:
            if name == "sub":  # PTX rounds x + (-y) like x - y, and there is no intrinsic for the difference
                return emit.nvvm(f"add.{suffix}", (x, emit.insert(llvm.FNegOp(y))), type)
            return emit.nvvm(f"{name}.{suffix}", (x, y), type)

        return emit.map_scalars(one, *args)

    return lower


def _directed(op: Any, type: FloatType) -> str:
    """`rz.ftz.f`: the ending of an intrinsic with a rounding mode."""
    if type.keyword not in _SUFFIX:
        raise VerifyError(f"rounding mode '{op.rounding_mode.value}' is not supported for '{type}'")
    flush = ".ftz" if _is_flushing(op, type) else ""
    return f"{ROUNDING[op.rounding_mode.value]}{flush}.{_SUFFIX[type.keyword]}"


def fma(op: Any, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    emit = lowering.emit
    type = element_type_of(op.result.type)
    args = lowering.matched(args)
    if op.rounding_mode.value == "nearest_even" and not _is_flushing(op, type):
        return widened(type, args, lowering, lambda values: emit.intrinsic("fma", *values))
    name = f"fma.{_directed(op, type)}"
    return emit.map_scalars(lambda x, y, z: emit.nvvm(name, (x, y, z), type), *args)


def sqrt(op: Any, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    emit = lowering.emit
    type = element_type_of(op.result.type)
    (value,) = args
    mode = op.rounding_mode.value
    flush = ".ftz" if _is_flushing(op, type) else ""
    if mode == "approx":
        return emit.map_scalars(lambda x: emit.nvvm(f"sqrt.approx{flush}.f", (x,), f32), value)
    if type.keyword in _SUFFIX and (mode != "nearest_even" or flush):
        return emit.map_scalars(lambda x: emit.nvvm(f"sqrt.{_directed(op, type)}", (x,), type), value)
    if type.keyword in _SUFFIX:
        return emit.intrinsic("sqrt", value)
    # f32 has more than twice the bits of every narrower type plus two: rounding twice is rounding once.
    return from_f32(type, emit.intrinsic("sqrt", to_f32(type, value, lowering)), lowering)


def _high_product(signed: bool) -> Any:
    def lower(op: Any, args: Sequence[Value], lowering: FunctionLowering) -> Value:
        from tileiras.ir import IntegerType

        emit = lowering.emit
        a, b = lowering.matched(args)
        width = element_of(a.type).width
        double = vector_of(IntegerType(2 * width), count_of(a.type))
        extend = llvm.SExtOp if signed else llvm.ZExtOp
        product = emit.insert(llvm.MulOp(emit.insert(extend(a, res=double)), emit.insert(extend(b, res=double))))
        high = emit.insert(llvm.LShrOp(product, emit.integer(width, double)))
        return emit.insert(llvm.TruncOp(high, res=a.type))

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
