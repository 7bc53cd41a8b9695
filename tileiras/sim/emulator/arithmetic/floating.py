"""Floating-point arithmetic (PTX ISA, "Floating Point Instructions", "Half Precision ...", "Mixed Precision ...").

The functions below map bit patterns to bit patterns; packed types (f16x2, bf16x2, f32x2) apply them to both halves.
Approximate instructions return the correctly rounded result of the exact function, or in runs with ``farther`` the
other neighbour of the exact result, off by less than a unit in the last place, or for functions with a greater error
a result that is off by it (`_ERRORS`): each satisfies the accuracy that the ISA states; where the ISA defines a value
(div.approx), they return it.
"""

from __future__ import annotations

import operator

import numpy as np

from ..ptx.decoder import FLOAT_TYPES, Decoder, Instruction, Modifiers, instruction
from ..ptx.types import TYPES, PtxType
from ..ptx.verbs import Verb, emit, one_type, verbs
from . import rounding

_SINGLE = ("f32", "f64")
_MODES = ("rn", "rz", "rm", "rp")
_SIGN = {16: np.uint16(0x8000), 32: np.uint32(0x80000000), 64: np.uint64(1 << 63)}


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
        bits = rounding.encode(values, self.name, self.mode)
        if self.mode == "far":
            # A result that overflows or underflows has one value.
            nearest = rounding.encode(values, self.name)
            ends = np.abs(rounding.decode(bits, self.name)), np.abs(rounding.decode(nearest, self.name))
            bits = np.where((np.maximum(*ends) < np.inf) & (ends[1] > 0), bits, nearest)
        return self._out(bits)

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


def on_halves(compute, type_: PtxType):
    """``compute`` for a type that may be packed."""
    return packed(compute, TYPES[type_.name[:-2]].storage, type_.storage) if type_.kind == "packed" else compute


def _mixed(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> bool:
    """`add.f32.f16 d, a, c`: the f16 or bf16 operands are widened first."""
    floats = [name for name in modifiers.names if name in FLOAT_TYPES]
    if len(floats) != 2:
        return False
    narrow = TYPES[floats[1]]
    modifiers.names.reverse()
    modifiers.names.remove(floats[1])
    modifiers.names.reverse()
    unit, type_ = _unit(decoder, modifiers)
    compute = getattr(unit, item.opcode)

    def evaluate(*operands: np.ndarray) -> np.ndarray:
        *sources, last = operands
        return compute(*(rounding.encode(rounding.decode(bits, narrow.name), type_.name) for bits in sources), last)

    emit(decoder, (type_, *(narrow,) * (len(item.operands) - 2), type_), evaluate)
    return True


def _unit(decoder: Decoder, modifiers: Modifiers) -> tuple[Float, PtxType]:
    mode = modifiers.take(*_MODES) or "rn"
    ftz, sat, relu = (bool(modifiers.take(each)) for each in ("ftz", "sat", "relu"))
    type_ = one_type(decoder, modifiers, FLOAT_TYPES)
    return Float(type_.name.removesuffix("x2"), mode, ftz, sat, relu), type_


def _upper_half(compute):
    """`rcp.approx.ftz.f64`, `rsqrt.approx.ftz.f64`: the lower 32 bits of argument and result are zero."""
    keep = np.uint64(0xFFFFFFFF00000000)
    return lambda a: compute(a & keep) & keep


_ERRORS = {
    "lg2": lambda x, y: np.where((x > 0.5) & (x < 2), 1, np.abs(y)) * 2.0**-22,
    "sin": lambda x, y: 2.0**-21,
    "cos": lambda x, y: 2.0**-21,
    "tanh": lambda x, y: np.abs(y) * 2.0**-11,
}
"""Errors of results y for arguments x of binary32 that may exceed a unit in the last place (PTX ISA, lg2, sin, cos and
tanh)."""


def _function(evaluate, name: str = ""):
    """A function evaluated in binary64."""

    def off(x: np.ndarray) -> np.ndarray:
        exact = evaluate(x)
        return np.where(exact == exact.astype(np.float32), exact, exact - np.copysign(_ERRORS[name](x, exact), exact))

    def make(unit: Float, flags: set[str]):
        compute = unit.function(off if unit.mode == "far" and unit.name == "f32" and name in _ERRORS else evaluate)
        return _upper_half(compute) if unit.name == "f64" and unit.ftz else compute

    return make


def _reciprocal(unit: Float, flags: set[str]):
    return _upper_half(unit.rcp) if "approx" in flags and unit.name == "f64" else unit.rcp


def _sign(change):
    """`abs` and `neg`: ``change`` of the bits and the sign bit."""

    def make(unit: Float, flags: set[str]):
        sign = _SIGN[rounding.FORMATS[unit.name].bits]
        return lambda a: change(*unit._in(a), sign)

    return make


def _extremum(largest: bool):
    return lambda unit, flags: unit.minimum("NaN" in flags, largest, "xorsign" in flags)


def _cosine_or_sine(function):
    return lambda x: function(np.where(np.isinf(x), np.nan, x))


_ARITHMETIC = {
    # opcode: (modifiers, numbers of sources, function of the unit and of the modifiers that are present)
    "add": ("", (2,), lambda unit, flags: unit.add),
    "sub": ("", (2,), lambda unit, flags: unit.sub),
    "mul": ("", (2,), lambda unit, flags: unit.mul),
    "mad": ("", (3,), lambda unit, flags: unit.fma),
    "fma": ("", (3,), lambda unit, flags: unit.fma),
    "div": ("approx full", (2,), lambda unit, flags: unit.div_approximate if "approx" in flags else unit.div),
    "min": ("NaN xorsign abs", (2, 3), _extremum(False)),
    "max": ("NaN xorsign abs", (2, 3), _extremum(True)),
    "abs": ("", (1,), _sign(lambda bits, sign: bits & ~sign)),
    "neg": ("", (1,), _sign(operator.xor)),
    "sqrt": ("approx", (1,), lambda unit, flags: unit.sqrt),
    "rcp": ("approx", (1,), _reciprocal),
    "ex2": ("approx", (1,), _function(np.exp2)),
    "lg2": ("approx", (1,), _function(np.log2, "lg2")),
    "sin": ("approx", (1,), _function(_cosine_or_sine(np.sin), "sin")),
    "cos": ("approx", (1,), _function(_cosine_or_sine(np.cos), "cos")),
    "tanh": ("approx", (1,), _function(np.tanh, "tanh")),
    "rsqrt": ("approx", (1,), _function(lambda x: 1.0 / np.sqrt(x))),
}
_BOTH_KINDS = ("add", "sub", "mul", "mad", "div", "min", "max", "abs", "neg")
"""Opcodes with instructions on integers as well."""


@instruction(*_BOTH_KINDS, floats=True)
@instruction(*_ARITHMETIC.keys() - _BOTH_KINDS)
def decode_arithmetic(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    if item.opcode in ("add", "sub", "fma") and _mixed(decoder, item, modifiers):
        return
    names, counts, make = _ARITHMETIC[item.opcode]
    flags = {name for name in names.split() if modifiers.take(name)}
    if "abs" in flags and "xorsign" not in flags:
        raise decoder.unsupported("modifier .abs")
    unit, type_ = _unit(decoder, modifiers)
    if decoder.farther and flags & {"approx", "full"} and unit.name != "f64":
        unit.mode = "far"
    count = len(item.operands) - 1 if len(item.operands) - 1 in counts else counts[0]
    emit(decoder, (type_,) * (count + 1), on_halves(make(unit, flags), type_))


def _property(type_: PtxType, name: str):
    smallest = np.finfo(type_.value).smallest_normal
    return {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda v: ~np.isnan(v),
        "notanumber": np.isnan,
        "normal": lambda v: np.isfinite(v) & (np.abs(v) >= smallest),
        "subnormal": lambda v: (v != 0) & (np.abs(v) < smallest),
    }[name]


def _copy_sign(type_: PtxType):
    """The sign of the first source on the magnitude of the second."""
    sign = _SIGN[type_.bits]
    return lambda a, b: (a & sign) | (b & ~sign)


verbs(
    Verb("copysign.T", "T T T", make=_copy_sign, types=_SINGLE),
    Verb("testp.(finite,infinite,number,notanumber,normal,subnormal).T", "pred t", make=_property, types=_SINGLE),
)
