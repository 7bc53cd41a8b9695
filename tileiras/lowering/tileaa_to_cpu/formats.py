"""Conversions between f32 numbers and the bits of narrower formats, by integer instructions on vectors.

`decode` is exact.  `encode` rounds in a mode, subnormals included; the formats of 8 and 4 bits saturate where asked.
"""

from __future__ import annotations

import functools

from tileiras.ir import FLOAT_SEMANTICS
from tileiras.support.named_tuple import NamedTuple

from .code import Code, constant, float_literal, vector

MODES = ("nearest_even", "zero", "negative_inf", "positive_inf", "nearest_away")


class Format(NamedTuple):
    """A float format as bits."""

    width: int
    exponent_bits: int
    mantissa_bits: int
    bias: int
    has_infinity: bool
    has_nan: bool

    @property
    def infinity(self) -> int:
        """The bits behind those of the largest number of an IEEE format: infinity."""
        return ((1 << self.exponent_bits) - 1) << self.mantissa_bits

    @property
    def nan(self) -> int:
        if self.has_infinity:
            return self.infinity | 1 << (self.mantissa_bits - 1)
        return (1 << (self.exponent_bits + self.mantissa_bits)) - 1

    @property
    def largest(self) -> int:
        if self.has_infinity:
            return self.infinity - 1
        return (1 << (self.exponent_bits + self.mantissa_bits)) - (2 if self.has_nan else 1)


@functools.cache
def format_of(keyword: str) -> Format:
    semantics = FLOAT_SEMANTICS[keyword]
    return Format(
        semantics.width,
        semantics.exponent_bits,
        semantics.mantissa_bits,
        semantics.bias,
        semantics.has_infinity,
        semantics.has_nan,
    )


class _Words:
    """Instructions on vectors of i32 and float of one length."""

    def __init__(self, code: Code, count: int) -> None:
        self.code, self.count = code, count
        self.int, self.float, self.bool = (vector(type, count) for type in ("i32", "float", "i1"))

    def c(self, number: int) -> str:
        return constant("i32", self.count, number)

    def op(self, name: str, left: str, right: str | int) -> str:
        right = self.c(right) if isinstance(right, int) else right
        return self.code.value(f"{name} {self.int} {left}, {right}")

    def compare(self, predicate: str, left: str, right: str | int) -> str:
        right = self.c(right) if isinstance(right, int) else right
        return self.code.value(f"icmp {predicate} {self.int} {left}, {right}")

    def choose(self, condition: str, yes: str | int, no: str | int) -> str:
        yes, no = (self.c(each) if isinstance(each, int) else each for each in (yes, no))
        return self.code.value(f"select {self.bool} {condition}, {self.int} {yes}, {self.int} {no}")

    def bits(self, number: str) -> str:
        return self.code.value(f"bitcast {self.float} {number} to {self.int}")

    def number(self, bits: str) -> str:
        return self.code.value(f"bitcast {self.int} {bits} to {self.float}")

    def scaled(self, number: str, factor: float) -> str:
        return self.code.value(
            f"fmul {self.float} {number}, {constant('float', self.count, float_literal(factor))}"
        )

    def resized(self, value: str, width: int, to: int) -> str:
        if width == to:
            return value
        source, target = (vector(f"i{each}", self.count) for each in (width, to))
        return self.code.value(f"{'zext' if width < to else 'trunc'} {source} {value} to {target}")


def decode(code: Code, keyword: str, count: int, data: str) -> str:
    """The f32 numbers of stored bits (i16 or i8, the float itself for tf32)."""
    if keyword == "tf32":
        return data
    words, format = _Words(code, count), format_of(keyword)
    bits = words.resized(data, max(8, format.width), 32)
    if keyword == "bf16":
        return words.number(words.op("shl", bits, 16))
    if keyword == "f16":
        return _decode_half(code, count, data)
    if keyword == "f8E8M0FNU":
        power = words.choose(words.compare("eq", bits, 0), 0x00400000, words.op("shl", bits, 23))
        return words.number(words.choose(words.compare("eq", bits, 255), 0x7FC00000, power))
    magnitude = words.op("and", bits, (1 << (format.width - 1)) - 1)
    sign = words.op("shl", words.op("and", bits, 1 << (format.width - 1)), 32 - format.width)
    fields = words.op("shl", magnitude, 23 - format.mantissa_bits)
    result = words.bits(words.scaled(words.number(fields), 2.0 ** (127 - format.bias)))
    if format.has_infinity:
        special = words.compare("uge", magnitude, format.infinity)
        result = words.choose(special, words.op("or", fields, 0x7F800000), result)
    elif format.has_nan:
        result = words.choose(words.compare("eq", magnitude, format.nan), 0x7FC00000, result)
    return words.number(words.op("or", result, sign))


def _decode_half(code: Code, count: int, bits: str) -> str:
    half = code.value(f"bitcast {vector('i16', count)} {bits} to {vector('half', count)}")
    return code.value(f"fpext {vector('half', count)} {half} to {vector('float', count)}")


def encode(
    code: Code, keyword: str, count: int, number: str, mode: str = "nearest_even", saturate: bool = False,
    exact: bool = False,
) -> str:  # fmt: skip
    """The stored bits of f32 numbers, rounded; `exact`: they are numbers of the format."""
    words, format = _Words(code, count), format_of(keyword)
    if keyword == "f16" and (exact or mode == "nearest_even"):
        half = code.value(f"fptrunc {words.float} {number} to {vector('half', count)}")
        return code.value(f"bitcast {vector('half', count)} {half} to {vector('i16', count)}")
    bits = words.bits(number)
    if exact and keyword == "bf16":
        return words.resized(words.op("lshr", bits, 16), 32, 16)
    if keyword == "f8E8M0FNU":
        return words.resized(_encode_power(words, bits, mode, saturate), 32, 8)
    if keyword == "tf32":
        return number if exact else words.number(_keep(words, bits, 13, mode))
    if keyword == "bf16":
        return words.resized(words.op("lshr", _keep(words, bits, 16, mode), 16), 32, 16)
    return words.resized(_encode_small(words, format, bits, mode, saturate), 32, max(8, format.width))


def _increment(words: _Words, magnitude: str, sign: str, drop: int, mode: str) -> str:
    """The amount that is added to a magnitude before its lowest bits are cut off."""
    if mode == "nearest_even":
        odd = words.op("and", words.op("lshr", magnitude, drop), 1)
        return words.op("add", odd, (1 << (drop - 1)) - 1)
    if mode == "nearest_away":
        return words.c(1 << (drop - 1))
    if mode == "zero":
        return words.c(0)
    away = words.compare("ne" if mode == "negative_inf" else "eq", sign, 0)
    return words.choose(away, (1 << drop) - 1, 0)


def _keep(words: _Words, bits: str, drop: int, mode: str) -> str:
    """f32 bits without the lowest `drop` bits of the mantissa; NaN stays NaN."""
    magnitude = words.op("and", bits, 0x7FFFFFFF)
    sign = words.op("and", bits, -0x80000000)
    added = words.op("add", magnitude, _increment(words, magnitude, sign, drop, mode))
    cut = words.op("and", added, -(1 << drop))
    cut = words.choose(words.compare("uge", magnitude, 0x7F800000), magnitude, cut)
    cut = words.choose(words.compare("ugt", magnitude, 0x7F800000), 0x7FC00000, cut)
    return words.op("or", cut, sign)


def _encode_small(words: _Words, format: Format, bits: str, mode: str, saturate: bool) -> str:
    """Bits of a format with a smaller exponent, in i32."""
    drop = 23 - format.mantissa_bits
    magnitude = words.op("and", bits, 0x7FFFFFFF)
    sign = words.op("and", bits, -0x80000000)
    normal = words.op("lshr", words.op("add", magnitude, _increment(words, magnitude, sign, drop, mode)), drop)
    normal = words.op("sub", normal, (127 - format.bias) << format.mantissa_bits)
    # Below the normal numbers the bits count units.
    units = words.scaled(words.number(magnitude), 2.0 ** (format.bias - 1 + format.mantissa_bits))
    small = _whole(words, units, sign, mode)
    is_normal = words.compare("uge", magnitude, (127 - format.bias + 1) << 23)
    result = words.choose(is_normal, normal, small)
    beyond = words.compare("sgt", result, format.largest)
    finite = words.compare("ult", magnitude, 0x7F800000)
    if saturate or not format.has_nan:
        outside = words.c(format.largest)
    else:
        outside = _overflow(words, format, finite, sign, mode)
    result = words.choose(words.code.value(f"and {words.bool} {beyond}, {finite}"), outside, result)
    infinity = format.largest if saturate or not format.has_nan else format.infinity
    if not format.has_infinity and format.has_nan and not saturate:
        infinity = format.nan
    result = words.choose(words.compare("eq", magnitude, 0x7F800000), infinity, result)
    nan = format.nan if format.has_nan else format.largest
    is_nan = words.compare("ugt", magnitude, 0x7F800000)
    result = words.choose(is_nan, nan, result)
    if not format.has_nan:
        sign = words.choose(is_nan, 0, sign)
    return words.op("or", result, words.op("lshr", sign, 32 - format.width))


def _overflow(words: _Words, format: Format, finite: str, sign: str, mode: str) -> str:
    """The bits of a finite number that rounds beyond the largest one."""
    outside = format.infinity if format.has_infinity else format.nan
    if mode in ("nearest_even", "nearest_away"):
        return words.c(outside)
    if mode == "zero":
        return words.c(format.largest)
    away = words.compare("ne" if mode == "negative_inf" else "eq", sign, 0)
    return words.choose(away, outside, format.largest)


def _whole(words: _Words, units: str, sign: str, mode: str) -> str:
    """A number of units, rounded to an integer of 32 bits."""
    code, count = words.code, words.count
    if mode in ("nearest_even", "nearest_away", "zero"):
        name = {"nearest_even": "roundeven", "nearest_away": "round", "zero": "trunc"}[mode]
        rounded = code.intrinsic(name, "float", count, units)
    else:
        up, down = (code.intrinsic(name, "float", count, units) for name in ("ceil", "floor"))
        away = words.compare("ne" if mode == "negative_inf" else "eq", sign, 0)
        rounded = code.value(f"select {words.bool} {away}, {words.float} {up}, {words.float} {down}")
    return code.call(
        f"llvm.fptosi.sat.{'i32.f32' if count == 1 else f'v{count}i32.v{count}f32'}", words.int,
        [(words.float, rounded)],
    )  # fmt: skip


def _encode_power(words: _Words, bits: str, mode: str, saturate: bool) -> str:
    """f8E8M0FNU: the exponent of the magnitude, rounded; no zero, no sign."""
    magnitude = words.op("and", bits, 0x7FFFFFFF)
    added = {"nearest_even": 0x400000, "nearest_away": 0x400000, "positive_inf": 0x7FFFFF}.get(mode, 0)
    power = words.op("lshr", words.op("add", magnitude, added), 23)
    # 2^-127 is a subnormal f32.
    limit = {"nearest_even": 0x600000, "nearest_away": 0x600000, "positive_inf": 0x400001}.get(mode, 0x800000)
    small = words.choose(words.compare("uge", magnitude, limit), 1, 0)
    power = words.choose(words.compare("uge", magnitude, 0x00800000), power, small)
    top = 254 if saturate or mode == "zero" else 255
    power = words.choose(words.compare("ugt", power, 254), top, power)
    if not saturate:
        power = words.choose(words.compare("eq", magnitude, 0x7F800000), 255, power)
    return words.choose(words.compare("ugt", magnitude, 0x7F800000), 255, power)


def rounded(
    code: Code, keyword: str, count: int, number: str, mode: str = "nearest_even", saturate: bool = False
) -> str:
    """f32 numbers rounded to a narrower format, as f32 numbers."""
    return decode(code, keyword, count, encode(code, keyword, count, number, mode, saturate))


def narrow_to_odd(code: Code, count: int, wide: str) -> str:
    """f64 numbers as f32 rounded to odd, which round correctly to every narrower format (Boldo, Melquiond 2008)."""
    single, double, integer, truth = (vector(type, count) for type in ("float", "double", "i32", "i1"))
    near = code.value(f"fptrunc {double} {wide} to {single}")
    back = code.value(f"fpext {single} {near} to {double}")
    exact = code.value(f"fcmp ueq {double} {back}, {wide}")
    bits = code.value(f"bitcast {single} {near} to {integer}")
    sizes = [code.intrinsic("fabs", "double", count, each) for each in (back, wide)]
    over = code.value(f"fcmp ogt {double} {sizes[0]}, {sizes[1]}")
    less = code.value(f"zext {truth} {over} to {integer}")
    down = code.value(f"sub {integer} {bits}, {less}")
    odd = code.value(f"or {integer} {down}, {constant('i32', count, 1)}")
    result = code.value(f"select {truth} {exact}, {integer} {bits}, {integer} {odd}")
    return code.value(f"bitcast {integer} {result} to {single}")
