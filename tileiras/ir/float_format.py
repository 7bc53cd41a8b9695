"""Floating-point constants as bits and as MLIR text.

Values travel as bit patterns.  Encoding rounds to nearest, ties to even, as MLIR does when it reads a decimal literal:
through a double, then to the target format.  Printing follows APFloat: six significant digits when that text reads
back as the same value, the format's natural precision otherwise, hexadecimal for infinities and NaNs.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TYPE_CHECKING

from .types import FLOAT_SEMANTICS, FloatSemantics

if TYPE_CHECKING:
    # Only constants that are no zero need it, and importing it takes as long as reading a small kernel.
    from fractions import Fraction

    from .types import FloatType


def _layout(type: FloatType) -> tuple[FloatSemantics, int]:
    """The format, and how many low bits of its storage a bit pattern uses (tf32: 19 of 32)."""
    semantics = FLOAT_SEMANTICS[type.keyword]
    return semantics, semantics.has_sign + semantics.exponent_bits + semantics.mantissa_bits


def bit_width(type: FloatType) -> int:
    """Bits of the pattern: a hexadecimal literal may have no more."""
    return _layout(type)[1]


def nan_bits(type: FloatType) -> int | None:
    """The quiet NaN that a conversion produces, None for a format without one."""
    semantics, width = _layout(type)
    if not semantics.has_nan:
        return None
    if not semantics.has_infinity:
        return (1 << (width - semantics.has_sign)) - 1
    exponent = (1 << semantics.exponent_bits) - 1
    return (exponent << semantics.mantissa_bits) | (1 << (semantics.mantissa_bits - 1))


def _classify(bits: int, type: FloatType) -> tuple[str, int, int, int]:
    """("finite" | "inf" | "nan", sign, significand, exponent): the value is (-1)^sign * significand * 2^exponent."""
    semantics, width = _layout(type)
    mantissa_bits = semantics.mantissa_bits
    sign = (bits >> (width - 1)) & 1 if semantics.has_sign else 0
    top = (1 << semantics.exponent_bits) - 1
    exponent = (bits >> mantissa_bits) & top
    mantissa = bits & ((1 << mantissa_bits) - 1)
    if semantics.has_infinity:
        if exponent == top:
            return ("nan" if mantissa else "inf"), sign, 0, 0
    elif semantics.has_nan and exponent == top and mantissa == (1 << mantissa_bits) - 1:
        return "nan", sign, 0, 0
    if not semantics.has_zero:
        return "finite", 0, 1, exponent - semantics.bias  # e8m0: no zero and no subnormals
    if exponent == 0:
        return "finite", sign, mantissa, 1 - semantics.bias - mantissa_bits
    return "finite", sign, mantissa | (1 << mantissa_bits), exponent - semantics.bias - mantissa_bits


def decode_float(bits: int, type: FloatType) -> float:
    """The value as a Python float; every supported format is exact in it."""
    if type.keyword == "f32":
        return struct.unpack("<f", struct.pack("<I", bits))[0]
    if type.keyword == "f64":
        return struct.unpack("<d", struct.pack("<Q", bits))[0]
    kind, sign, significand, exponent = _classify(bits, type)
    if kind == "finite":
        magnitude = significand * 2.0**exponent
    else:
        magnitude = float(kind)
    return -magnitude if sign else magnitude


def _largest_finite(type: FloatType) -> tuple[int, Fraction]:
    from fractions import Fraction

    semantics, width = _layout(type)
    all_ones = (1 << (width - semantics.has_sign)) - 1
    if semantics.has_infinity:
        bits = all_ones - (1 << semantics.mantissa_bits)
    elif semantics.has_nan:
        bits = all_ones - 1
    else:
        bits = all_ones
    _, _, significand, exponent = _classify(bits, type)
    return bits, Fraction(significand) * Fraction(2) ** exponent


def encode_fraction(value: Fraction, negative: bool, type: FloatType) -> int:
    """Bits of the nearest value, ties to even.  Overflow gives infinity, else NaN, else the largest value."""
    from fractions import Fraction

    semantics, width = _layout(type)
    mantissa_bits = semantics.mantissa_bits
    sign = (1 << (width - 1)) if negative and semantics.has_sign else 0
    value = abs(value)
    if value == 0:
        return sign
    # floor(log2(value)), exactly.
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    if Fraction(2) ** exponent > value:
        exponent -= 1
    lowest = (1 if semantics.has_zero else 0) - semantics.bias
    unit = max(exponent, lowest) - mantissa_bits
    scaled = value / Fraction(2) ** unit
    significand = scaled.numerator // scaled.denominator
    rest = scaled - significand
    # In e8m0 there is no significand bit to be even: the tie is decided by the exponent's, as the carry below does.
    odd = (significand if mantissa_bits or semantics.has_zero else exponent + semantics.bias) & 1
    if rest > Fraction(1, 2) or rest == Fraction(1, 2) and odd:
        significand += 1
    biased = max(exponent, lowest) + semantics.bias
    if not semantics.has_zero:
        bits = biased + (significand - 1)
        bits = max(bits, 0)
    elif significand < (1 << mantissa_bits):
        bits = significand  # subnormal
    else:
        # The hidden bit adds one to the exponent field; a carry out of the significand does so once more.
        bits = ((biased - 1) << mantissa_bits) + significand
    largest, _ = _largest_finite(type)
    if bits > largest:
        if semantics.has_infinity:
            bits = ((1 << semantics.exponent_bits) - 1) << mantissa_bits
        else:
            nan = nan_bits(type)
            bits = nan if nan is not None else largest
    return sign | bits


@lru_cache(maxsize=4096)
def _encode_by_repr(packed: bytes, type: FloatType) -> int:
    (value,) = struct.unpack("<d", packed)
    semantics, width = _layout(type)
    negative = packed[7] >= 0x80
    if value != value:
        nan = nan_bits(type)
        return nan if nan is not None else _largest_finite(type)[0]
    if value in (float("inf"), float("-inf")):
        sign = (1 << (width - 1)) if negative and semantics.has_sign else 0
        if semantics.has_infinity:
            return sign | ((1 << semantics.exponent_bits) - 1) << semantics.mantissa_bits
        nan = nan_bits(type)
        return sign | (nan if nan is not None else _largest_finite(type)[0])
    from fractions import Fraction

    return encode_fraction(Fraction(value), negative, type)


def encode_float(value: float, type: FloatType) -> int:
    """Bits of a Python float rounded to `type`."""
    packed = struct.pack("<d", value)
    if type.keyword == "f64":
        return int.from_bytes(packed, "little")
    return _encode_by_repr(packed, type)


def parse_decimal(text: str, type: FloatType) -> int:
    """Bits of a decimal literal such as `-1.5e3`."""
    return encode_float(float(text), type)


# ---- printing --------------------------------------------------------------------------------------------------------


def _decimal_digits(significand: int, exponent: int, precision: int) -> tuple[str, int]:
    """Digits d and exponent e with value about d * 10^e and at most `precision` digits, rounded half up as APFloat."""
    if exponent >= 0:
        number, power = significand << exponent, 0
    else:
        # significand * 2^-n == significand * 5^n * 10^-n
        number, power = significand * 5**-exponent, exponent
    # APFloat first drops low digits by truncation, keeping a few more bits than `precision` digits need.
    surplus = (number.bit_length() - (precision * 196 + 58) // 59) * 59 // 196
    if surplus > 0:
        number //= 10**surplus
        power += surplus
    digits = str(number)
    stripped = digits.rstrip("0") or "0"
    power += len(digits) - len(stripped)
    digits = stripped
    if len(digits) > precision:
        cut = len(digits) - precision
        power += cut
        up = digits[precision] >= "5"
        digits = digits[:precision]
        if up:
            digits = str(int(digits) + 1)
        result = digits.rstrip("0")
        power += len(digits) - len(result)
        digits = result
    return digits, power


def _scientific(digits: str, power: int, precision: int) -> str:
    """`%e` form with `precision` digits after the point."""
    exponent = power + len(digits) - 1
    fraction = digits[1:].ljust(precision, "0")
    return f"{digits[0]}.{fraction}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def _natural(digits: str, power: int, precision: int) -> str:
    """APFloat's default form: plain notation unless that needs more than three zeros of padding."""
    count = len(digits)
    if power >= 0:
        scientific = power > 3 or count + power > precision
    else:
        leading = power + count - 1
        scientific = leading < 0 and -leading > 3
    if scientific:
        exponent = power + count - 1
        return f"{digits[0]}.{digits[1:] or '0'}E{'-' if exponent < 0 else '+'}{abs(exponent)}"
    if power >= 0:
        return digits + "0" * power
    whole = count + power
    if whole > 0:
        return f"{digits[:whole]}.{digits[whole:]}"
    return "0." + "0" * -whole + digits


@lru_cache(maxsize=8192)
def format_float(bits: int, type: FloatType) -> str:
    """MLIR's text of a constant, without its type: `1.000000e+00`, `0x7F800000`."""
    semantics, width = _layout(type)
    kind, sign, significand, exponent = _classify(bits, type)
    if kind == "finite":
        minus = "-" if sign else ""
        if significand == 0:
            return minus + "0.000000e+00"
        trailing = (significand & -significand).bit_length() - 1
        significand >>= trailing
        exponent += trailing
        from fractions import Fraction

        text = minus + _scientific(*_decimal_digits(significand, exponent, 6), 6)
        if encode_fraction(Fraction(text), bool(sign), type) == bits:
            return text
        # APFloat's natural precision: enough digits to read the value back.
        precision = 2 + (semantics.mantissa_bits + 1) * 59 // 196
        text = minus + _natural(*_decimal_digits(significand, exponent, precision), precision)
        if "." in text:
            return text
    return hexadecimal(bits, type)


def hexadecimal(bits: int, type: FloatType) -> str:
    """The bit pattern as `0x...`."""
    return f"0x{bits:X}"
