"""Floating-point arithmetic (PTX ISA, "Floating Point Instructions", "Half Precision ...", "Mixed Precision ...").

The functions below map bit patterns to bit patterns; packed types (f16x2, bf16x2, f32x2) apply them to both halves.
Approximate instructions return the correctly rounded result of the exact function, which satisfies every accuracy that
the ISA states for them; where the ISA defines a value (div.approx), they return it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..ptx.decoder import Decoder, Instruction, Modifiers, instruction
from ..ptx.types import PRED, TYPES, PtxType
from . import rounding

FLOAT_TYPES = ("f16", "bf16", "f32", "f64", "f16x2", "bf16x2", "f32x2")
_MODES = ("rn", "rz", "rm", "rp")
_SIGN = {16: np.uint16(0x8000), 32: np.uint32(0x80000000), 64: np.uint64(1 << 63)}


def float_type(decoder: Decoder, modifiers: Modifiers) -> PtxType:
    types = modifiers.types()
    if len(types) != 1 or types[0].name not in FLOAT_TYPES:
        raise decoder.unsupported()
    return types[0]


def packed(compute, half: np.dtype, word: np.dtype):
    """``compute`` on the halves of words."""

    def apply(*words: np.ndarray) -> np.ndarray:
        parts = [np.ascontiguousarray(each).view(half).reshape(-1, 2) for each in words]
        return np.ascontiguousarray(compute(*parts)).view(word).reshape(-1)

    return apply


class Float:
    """Arithmetic of one format with the modifiers that all instructions share."""

    def __init__(self, name: str, mode: str = "rn", ftz: bool = False, sat: bool = False, relu: bool = False) -> None:
        self.name = name
        self.mode = mode
        self.ftz = ftz
        self.sat = sat
        self.relu = relu
        self.simple = not (ftz or sat or relu)

    # Each public method takes and returns bit patterns.

    def _in(self, *bits: np.ndarray):
        return [rounding.flush(each, self.name) for each in bits] if self.ftz else bits

    def _out(self, bits: np.ndarray) -> np.ndarray:
        if self.simple:
            return bits
        if self.ftz:
            bits = rounding.flush(bits, self.name)
        if self.sat or self.relu:
            values = rounding.decode(bits, self.name)
            if self.sat:
                values = np.where(values > 0, np.minimum(values, 1.0), 0.0)  # NaN and -0 become +0
            else:
                values = np.where((values > 0) | np.isnan(values), values, 0.0)
            bits = rounding.encode(values, self.name)
        return bits

    def _native(self, result: np.ndarray) -> np.ndarray:
        """Bits of a binary32 or binary64 array."""
        nan = np.isnan(result)
        bits = result.view(np.uint32 if result.dtype.itemsize == 4 else np.uint64)
        return self._out(rounding.canonical_nan(bits, nan, self.name) if nan.any() else bits)

    def _finish(self, values: np.ndarray) -> np.ndarray:
        return self._out(rounding.encode(values, self.name, self.mode))

    def add(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        a, b = self._in(a, b)
        if self.name == "f64":
            return self._native(rounding.add64(a.view(np.float64), b.view(np.float64), self.mode))
        if self.name == "f32" and self.mode == "rn":
            return self._native(a.view(np.float32) + b.view(np.float32))
        x, y = rounding.decode(a, self.name), rounding.decode(b, self.name)
        return self._finish(rounding.exact_zero_sign(rounding.odd_sum(x, y), x, y, self.mode))

    def sub(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return self.add(a, b ^ _SIGN[8 * b.dtype.itemsize])

    def mul(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        a, b = self._in(a, b)
        if self.name == "f64":
            return self._native(rounding.mul64(a.view(np.float64), b.view(np.float64), self.mode))
        if self.name == "f32" and self.mode == "rn":
            return self._native(a.view(np.float32) * b.view(np.float32))
        return self._finish(rounding.decode(a, self.name) * rounding.decode(b, self.name))

    def fma(self, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        a, b, c = self._in(a, b, c)
        if self.name == "f64":
            return self._native(rounding.fma64(a.view(np.float64), b.view(np.float64), c.view(np.float64), self.mode))
        if self.name == "f32" and self.mode == "rn":
            return self._native(rounding.fma32(a.view(np.float32), b.view(np.float32), c.view(np.float32)))
        x, y, z = (rounding.decode(each, self.name) for each in (a, b, c))
        p = x * y
        return self._finish(rounding.exact_zero_sign(rounding.odd_sum(p, z), p, z, self.mode))

    def div(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        a, b = self._in(a, b)
        if self.name == "f64":
            return self._native(rounding.div64(a.view(np.float64), b.view(np.float64), self.mode))
        # A quotient of 24-bit numbers is a binary32 number, half way between two, or 2**-49 (relatively) away from
        # either: binary64's rounding cannot carry it across. The same holds for square roots.
        return self._finish(rounding.decode(a, self.name) / rounding.decode(b, self.name))

    def div_approximate(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """PTX ISA, "div": the reciprocal of a divisor above 2^126 counts as zero; times an infinity it is NaN."""
        exact = self.div(a, b)
        x, y = rounding.decode(a, self.name), rounding.decode(b, self.name)
        huge = (np.abs(y) > 2.0**126) & np.isfinite(y) & ~np.isnan(x)
        if not huge.any():
            return exact
        zero = (a ^ b) & _SIGN[32]
        return np.where(huge, np.where(np.isinf(x), bits_of_nan(self.name, a.dtype), zero), exact)

    def sqrt(self, a: np.ndarray) -> np.ndarray:
        (a,) = self._in(a)
        if self.name == "f64":
            return self._native(rounding.sqrt64(a.view(np.float64), self.mode))
        return self._finish(np.sqrt(rounding.decode(a, self.name)))

    def rcp(self, a: np.ndarray) -> np.ndarray:
        one = rounding.encode(np.ones(1), self.name)
        return self.div(one, a)

    def function(self, evaluate):
        """A unary function evaluated in binary64."""

        def apply(a: np.ndarray) -> np.ndarray:
            (a,) = self._in(a)
            return self._finish(evaluate(rounding.decode(a, self.name)))

        return apply

    def minimum(self, keep_nan: bool, largest: bool, magnitude_sign: bool = False):
        """min or max: NaN is ignored unless ``keep_nan``, and -0 < +0; ``magnitude_sign`` is `.xorsign.abs`."""
        sign = _SIGN[rounding.FORMATS[self.name].bits]

        def apply(*operands: np.ndarray) -> np.ndarray:
            operands = self._in(*operands)
            flip = None
            if magnitude_sign:
                flip = (operands[0] ^ operands[1]) & sign
                operands = [each & ~sign for each in operands]
            result = operands[0]
            for other in operands[1:]:
                result = self._choose(result, other, keep_nan, largest, sign)
            return self._out(result if flip is None else result | flip)

        return apply

    def _choose(self, a: np.ndarray, b: np.ndarray, keep_nan: bool, largest: bool, sign: int) -> np.ndarray:
        x, y = (self._values(each) for each in (a, b))
        x_nan, y_nan = np.isnan(x), np.isnan(y)
        first = (x > y) if largest else (x < y)
        zero = (x == 0) & (y == 0)
        if zero.any():
            first = first | (zero & ((a & sign) == 0 if largest else (a & sign) != 0))
        result = np.where(first, a, b)
        nan = bits_of_nan(self.name, a.dtype)
        if keep_nan:
            return np.where(x_nan | y_nan, nan, result)
        if x_nan.any() or y_nan.any():
            result = np.where(x_nan, np.where(y_nan, nan, b), np.where(y_nan, a, result))
        return result

    def _values(self, bits: np.ndarray) -> np.ndarray:
        if self.name == "f32":
            return bits.view(np.float32)
        return rounding.decode(bits, self.name)


def bits_of_nan(name: str, dtype: np.dtype):
    return dtype.type(rounding.FORMATS[name].nan)


def emit(decoder: Decoder, type_: PtxType, operands: list, compute) -> None:
    """``compute`` from source bit patterns to the result's, for a possibly packed type."""
    slots = [decoder.src(each, type_) for each in operands[1:]]
    if type_.kind == "packed":
        compute = packed(compute, TYPES[type_.name[:-2]].storage, type_.storage)
    if len(slots) == 1:
        (x,) = slots
        decoder.put(operands[0], type_, lambda R: compute(R[x]), raw=True)
    elif len(slots) == 2:
        x, y = slots
        decoder.put(operands[0], type_, lambda R: compute(R[x], R[y]), raw=True)
    else:
        x, y, z = slots
        decoder.put(operands[0], type_, lambda R: compute(R[x], R[y], R[z]), raw=True)


def _arithmetic(decoder: Decoder, modifiers: Modifiers, default_mode: str | None = "rn") -> tuple[Float, PtxType]:
    mode = modifiers.take(*_MODES) or default_mode
    ftz, sat, relu = (bool(modifiers.take(each)) for each in ("ftz", "sat", "relu"))
    type_ = float_type(decoder, modifiers)
    name = type_.name.removesuffix("x2")
    return Float(name, mode or "rn", ftz, sat, relu), type_


def _mixed(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> bool:
    """`add.f32.f16 d, a, c`: the f16 or bf16 operands are widened first."""
    found = [name for name in modifiers.names if name in FLOAT_TYPES]
    if len(found) != 2:
        return False
    narrow = TYPES[found[1]]
    modifiers.names.reverse()
    modifiers.names.remove(found[1])
    modifiers.names.reverse()
    unit, type_ = _arithmetic(decoder, modifiers)
    d, *sources = item.operands
    slots = [decoder.src(each, narrow) for each in sources[:-1]]
    last = decoder.src(sources[-1], type_)
    compute = {"add": unit.add, "sub": unit.sub, "fma": unit.fma}[item.opcode]

    def evaluate(R: Sequence[np.ndarray]):
        wide = [rounding.encode(rounding.decode(R[slot], narrow.name), type_.name) for slot in slots]
        return compute(*wide, R[last])

    decoder.put(d, type_, evaluate, raw=True)
    return True


def decode_add(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    if _mixed(decoder, item, modifiers):
        return
    unit, type_ = _arithmetic(decoder, modifiers)
    emit(decoder, type_, decoder.operands(3), unit.add if item.opcode == "add" else unit.sub)


def decode_mul(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    unit, type_ = _arithmetic(decoder, modifiers)
    if item.opcode == "mad":
        emit(decoder, type_, decoder.operands(4), unit.fma)
    else:
        emit(decoder, type_, decoder.operands(3), unit.mul)


@instruction("fma")
def decode_fma(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    if modifiers.take("oob"):
        raise decoder.unsupported("fma.oob")
    if _mixed(decoder, item, modifiers):
        return
    unit, type_ = _arithmetic(decoder, modifiers)
    emit(decoder, type_, decoder.operands(4), unit.fma)


def decode_div(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    approximate = modifiers.take("approx", "full") == "approx"
    unit, type_ = _arithmetic(decoder, modifiers)
    emit(decoder, type_, decoder.operands(3), unit.div_approximate if approximate else unit.div)


def decode_min(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    keep_nan = bool(modifiers.take("NaN"))
    magnitude_sign = bool(modifiers.take("xorsign"))
    if magnitude_sign:
        modifiers.take("abs")
    unit, type_ = _arithmetic(decoder, modifiers)
    operands = item.operands
    if len(operands) not in (3, 4):
        raise decoder.error("expected 3 or 4 operands")
    emit(decoder, type_, operands, unit.minimum(keep_nan, item.opcode == "max", magnitude_sign))


def decode_abs(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    unit, type_ = _arithmetic(decoder, modifiers)
    sign = _SIGN[16 if type_.name[:3] in ("f16", "bf1") else 32 if type_.name[:3] == "f32" else 64]

    def compute(a: np.ndarray):
        (a,) = unit._in(a)
        return a & ~sign if item.opcode == "abs" else a ^ sign

    emit(decoder, type_, decoder.operands(2), compute)


@instruction("sqrt", "rcp")
def decode_sqrt(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    approximate = modifiers.take("approx")
    unit, type_ = _arithmetic(decoder, modifiers)
    compute = unit.sqrt if item.opcode == "sqrt" else unit.rcp
    if approximate and type_.name == "f64":
        compute = _upper_half(unit.rcp)
    emit(decoder, type_, decoder.operands(2), compute)


def _upper_half(compute):
    """`rcp.approx.ftz.f64`, `rsqrt.approx.ftz.f64`: the lower 32 bits of argument and result are zero."""
    keep = np.uint64(0xFFFFFFFF00000000)
    return lambda a: compute(a & keep) & keep


def _cosine_or_sine(function):
    return lambda x: function(np.where(np.isinf(x), np.nan, x))


_FUNCTIONS = {
    "ex2": np.exp2,
    "lg2": np.log2,
    "sin": _cosine_or_sine(np.sin),
    "cos": _cosine_or_sine(np.cos),
    "tanh": np.tanh,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
}


@instruction(*_FUNCTIONS)
def decode_function(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    modifiers.take("approx")
    unit, type_ = _arithmetic(decoder, modifiers)
    compute = unit.function(_FUNCTIONS[item.opcode])
    if type_.name == "f64" and unit.ftz:
        compute = _upper_half(compute)
    emit(decoder, type_, decoder.operands(2), compute)


@instruction("copysign")
def decode_copysign(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    """The sign of the first source on the magnitude of the second."""
    type_ = float_type(decoder, modifiers)
    sign = _SIGN[type_.bits]
    emit(decoder, type_, decoder.operands(3), lambda a, b: (a & sign) | (b & ~sign))


@instruction("testp")
def decode_testp(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    kind = modifiers.take("finite", "infinite", "number", "notanumber", "normal", "subnormal")
    type_ = float_type(decoder, modifiers)
    d, a = decoder.operands(2)
    x, value = decoder.src(a, type_), type_.value
    smallest = np.finfo(value).smallest_normal
    test = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda v: ~np.isnan(v),
        "notanumber": np.isnan,
        "normal": lambda v: np.isfinite(v) & (np.abs(v) >= smallest),
        "subnormal": lambda v: (v != 0) & (np.abs(v) < smallest),
    }.get(kind)
    if test is None:
        raise decoder.unsupported()
    decoder.put(d, PRED, lambda R: test(R[x].view(value)), raw=True)
