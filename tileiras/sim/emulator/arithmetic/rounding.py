"""Correctly rounded arithmetic and conversions between the floating-point formats of PTX, on NumPy arrays.

Results that binary64 cannot represent are carried as a binary64 value *rounded to odd*: rounding that to a format with
at least two bits less gives the correctly rounded exact value (Boldo and Melquiond, "Emulation of FMA and Correctly
Rounded Sums", 2008), in every rounding mode and for subnormal results too.

Modes: rn (ties to even), rz, rm (down), rp (up), rna (ties away from zero), far (the neighbour that rn
does not choose).
"""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np

APPROXIMATE = re.compile(r"\.(?:approx|full)\b")
"""Modifiers of instructions whose result the ISA bounds by an error."""


class FloatFormat:
    """A binary format: ``precision`` in bits with the hidden one, ``emin`` the exponent of the smallest normal
    number, ``limit`` the largest finite one; ``nan`` the NaN that operations return (PTX ISA, "canonical NaN"; e2m1
    has no NaN and uses its largest number)."""

    __slots__ = ("bits", "emin", "has_infinity", "limit", "name", "nan", "precision")

    def __init__(
        self, name: str, bits: int, precision: int, emin: int, limit: float, nan: int, has_infinity: bool = True
    ) -> None:
        self.name = name
        self.bits = bits
        self.precision = precision
        self.emin = emin
        self.limit = limit
        self.nan = nan
        self.has_infinity = has_infinity


FORMATS = {
    each.name: each
    for each in (
        FloatFormat("f64", 64, 53, -1022, float(np.finfo(np.float64).max), 0x7FF8000000000000),
        FloatFormat("f32", 32, 24, -126, (2 - 2.0**-23) * 2.0**127, 0x7FFFFFFF),
        FloatFormat("tf32", 32, 11, -126, (2 - 2.0**-10) * 2.0**127, 0x7FFFFFFF),
        FloatFormat("f16", 16, 11, -14, 65504.0, 0x7FFF),
        FloatFormat("bf16", 16, 8, -126, (2 - 2.0**-7) * 2.0**127, 0x7FFF),
        FloatFormat("e4m3", 8, 4, -6, 448.0, 0x7F, has_infinity=False),
        FloatFormat("e5m2", 8, 3, -14, 57344.0, 0x7F),
        FloatFormat("e2m1", 4, 2, 0, 6.0, 0x7, has_infinity=False),
        FloatFormat("ue8m0", 8, 1, -127, 2.0**127, 0xFF, has_infinity=False),
    )
}


# -- bits to binary64 and back -------------------------------------------------------------------------------------


def _e4m3_table() -> np.ndarray:
    values = np.empty(256)
    for code in range(256):
        exponent, mantissa = code >> 3 & 15, code & 7
        magnitude = mantissa * 2.0**-9 if exponent == 0 else (1 + mantissa / 8) * 2.0 ** (exponent - 7)
        if code & 0x7F == 0x7F:
            magnitude = np.nan
        values[code] = -magnitude if code & 128 else magnitude
    return values


_E4M3 = _e4m3_table()
_E2M1 = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0])


def decode(bits: np.ndarray, name: str) -> np.ndarray:
    """The binary64 values of bit patterns in storage type."""
    if name in ("f32", "tf32"):
        return bits.view(np.float32).astype(np.float64)
    if name == "f16":
        return bits.view(np.float16).astype(np.float64)
    if name == "bf16":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    if name == "f64":
        return bits.view(np.float64)
    if name == "e5m2":
        return (bits.astype(np.uint16) << np.uint16(8)).view(np.float16).astype(np.float64)
    if name == "e2m1":
        return _E2M1[bits]
    if name == "ue8m0":
        return np.where(bits == 0xFF, np.nan, np.ldexp(1.0, bits.astype(np.int32) - 127))
    return _E4M3[bits]


def encode(values: np.ndarray, name: str, mode: str = "rn", satfinite: bool = False) -> np.ndarray:
    """Bit patterns of binary64 values (exact, or rounded to odd) rounded to a format, NaN canonical."""
    if mode == "rn" and not satfinite and name == "f32":
        bits = values.astype(np.float32).view(np.uint32)
    elif mode == "rn" and not satfinite and name == "f16":
        bits = values.astype(np.float16).view(np.uint16)
    else:
        bits = _pack(round_to(values, name, mode, satfinite), name)
    return canonical_nan(bits, np.isnan(values), name)


def canonical_nan(bits: np.ndarray, is_nan: np.ndarray, name: str) -> np.ndarray:
    return np.where(is_nan, bits.dtype.type(FORMATS[name].nan), bits) if is_nan.any() else bits


def _pack(values: np.ndarray, name: str) -> np.ndarray:
    """Bits of values that the format holds exactly."""
    if name in ("f32", "tf32"):
        return values.astype(np.float32).view(np.uint32)
    if name == "f16":
        return values.astype(np.float16).view(np.uint16)
    if name == "bf16":
        return (values.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    if name == "e5m2":
        return (values.astype(np.float16).view(np.uint16) >> np.uint16(8)).astype(np.uint8)
    if name == "f64":
        return values.view(np.uint64)
    magnitude = np.abs(np.where(np.isnan(values), 0.0, values))
    if name == "ue8m0":
        return np.where(np.isnan(values), 0xFF, np.frexp(magnitude)[1] + 126).astype(np.uint8)
    if name == "e2m1":
        return (np.searchsorted(_E2M1[:8], magnitude) | np.where(np.signbit(values), 8, 0)).astype(np.uint8)
    exponent = np.maximum(np.frexp(magnitude)[1] - 1, -6)
    steps = np.ldexp(magnitude, 3 - exponent).astype(np.int64)  # mantissa with its hidden bit, in eighths
    code = np.where(steps < 8, steps, (exponent + 7 << 3) + steps - 8)
    code = np.where(np.isnan(values), 0x7F, np.where(np.isinf(values), 0x7F, code))
    return (code | np.where(np.signbit(values), 128, 0)).astype(np.uint8)


def round_integral(values: np.ndarray, mode: str) -> np.ndarray:
    """Rounded to an integer: rni, rzi, rmi, rpi are the modes' names with an i."""
    if mode == "rn":
        return np.rint(values)
    if mode == "rz":
        return np.trunc(values)
    if mode == "rm":
        return np.floor(values)
    if mode == "rp":
        return np.ceil(values)
    if mode == "far":
        low, high = np.floor(values), np.ceil(values)
        return np.where(np.rint(values) == low, high, low)
    whole = np.trunc(values)
    return whole + np.copysign(np.abs(values - whole) >= 0.5, values)


def round_to(values: np.ndarray, name: str, mode: str, satfinite: bool = False) -> np.ndarray:
    """Binary64 values rounded to a narrower format's numbers."""
    format_ = FORMATS[name]
    if name == "f64":
        return values
    if name == "ue8m0":
        # No sign and no zero: the magnitude, at least the smallest power of two (CUDA math API,
        # __nv_cvt_bfloat16raw_to_e8m0, since the PTX ISA omits it).
        values = np.maximum(np.abs(values), 2.0**format_.emin)
    exponent = np.frexp(values)[1]
    quantum = np.maximum(exponent - format_.precision, format_.emin - format_.precision + 1)
    scaled = np.ldexp(values, -quantum)
    rounded = np.copysign(np.ldexp(round_integral(scaled, mode), quantum), values)
    over = np.abs(rounded) > format_.limit
    if not over.any():
        return rounded
    limit = np.copysign(format_.limit, values)
    if satfinite:
        return np.where(over, limit, rounded)
    infinite = np.copysign(np.inf if format_.has_infinity else np.nan, values)
    if mode == "rz":
        infinite = np.where(np.isinf(values), infinite, limit)
    elif mode in ("rm", "rp"):
        away = (values < 0) if mode == "rm" else (values > 0)
        infinite = np.where(np.isinf(values) | away, infinite, limit)
    return np.where(over, infinite, rounded)


# -- exact sums and products ---------------------------------------------------------------------------------------


def two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(s, e) with s = a + b rounded and s + e exact; e is 0 where s is not finite."""
    s = a + b
    other = s - a
    e = (a - (s - other)) + (b - other)
    return s, np.where(np.isfinite(s), e, 0.0)


def to_odd(s: np.ndarray, e: np.ndarray) -> np.ndarray:
    """The exact s + e rounded to odd."""
    bits = s.view(np.int64)
    inexact = (e != 0) & ((bits & 1) == 0)
    if not inexact.any():
        return s
    step = np.where((e > 0) == (s > 0), 1, -1)
    return np.where(inexact, bits + step, bits).view(np.float64)


def odd_sum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a + b rounded to odd; an exact zero from opposite signs is +0."""
    return to_odd(*two_sum(a, b))


def exact_zero_sign(result: np.ndarray, a: np.ndarray, b: np.ndarray, mode: str) -> np.ndarray:
    """IEEE 754: a sum that is exactly zero is +0, but -0 when rounding down or when both terms are -0."""
    if mode != "rm":
        return result
    both_positive = (a == 0) & (b == 0) & ~np.signbit(a) & ~np.signbit(b)
    return np.where((result == 0) & ~both_positive, -0.0, result)


_SPLIT = float(2**27 + 1)


def two_product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(p, e), p = a * b rounded and p + e exact, for factors and products well inside the exponent range (Dekker)."""
    p = a * b
    ca, cb = _SPLIT * a, _SPLIT * b
    ah, bh = ca - (ca - a), cb - (cb - b)
    al, bl = a - ah, b - bh
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def _safe_product(a: np.ndarray, b: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Where Dekker's product neither over- nor underflows (or is trivially exact)."""
    magnitude = np.abs(p)
    inside = (magnitude > 2.0**-960) & (magnitude < 2.0**1000) & (np.abs(a) < 2.0**990) & (np.abs(b) < 2.0**990)
    return inside | (a == 0) | (b == 0)


def _round_fraction(value: Fraction, mode: str) -> float:
    """An exact rational rounded to binary64; never zero."""
    sign, magnitude = (-1.0, -value) if value < 0 else (1.0, value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    quantum = max(exponent - 52, -1074)
    scaled = magnitude / Fraction(2) ** quantum
    whole = scaled.numerator // scaled.denominator
    rest = scaled - whole
    up = {
        "rn": rest > Fraction(1, 2) or rest == Fraction(1, 2) and whole & 1 == 1,
        "rz": False,
        "rm": sign < 0 and rest > 0,
        "rp": sign > 0 and rest > 0,
    }[mode]
    whole += up
    if whole.bit_length() + quantum > 1024:
        toward_zero = mode == "rz" or mode == "rm" and sign > 0 or mode == "rp" and sign < 0
        return sign * (FORMATS["f64"].limit if toward_zero else np.inf)
    return sign * float(np.ldexp(float(whole), quantum))


def directed(value: np.ndarray, error: np.ndarray, mode: str) -> np.ndarray:
    """``value``, the nearest binary64 to value + error, corrected to the rounding ``mode``."""
    if mode == "rn":
        return value
    if mode == "rz":
        toward, move = np.zeros(1), (error != 0) & ((error < 0) == (value > 0))
    elif mode == "rm":
        toward, move = np.array([-np.inf]), error < 0
    else:
        toward, move = np.array([np.inf]), error > 0
    return np.where(move, np.nextafter(value, toward), value)


def fma64(a: np.ndarray, b: np.ndarray, c: np.ndarray, mode: str = "rn") -> np.ndarray:
    """binary64 a * b + c with one rounding."""
    a, b, c = np.broadcast_arrays(a, b, c)
    p = a * b
    # The exact product of finite numbers is finite, beyond the largest number as well.
    plain = np.where(np.isfinite(a) & np.isfinite(b) & np.isinf(c), c, p + c)
    finite = np.isfinite(a) & np.isfinite(b) & np.isfinite(c)
    uh, ul = two_product(a, b)
    ul = np.where((a == 0) | (b == 0), 0.0, ul)
    th, tl = two_sum(c, ul)
    vh, vl = two_sum(uh, th)
    result, error = two_sum(vh, odd_sum(tl, vl))
    result = directed(result, error, mode)
    zero = (result == 0) & (error == 0)
    result = np.where(zero, exact_zero_sign(plain, p, c, mode), result)
    hard = finite & ~(_safe_product(a, b, p) & (np.abs(c) < 2.0**1000) & ((np.abs(c) > 2.0**-960) | (c == 0)))
    result = np.where(finite, result, plain)
    for index in np.flatnonzero(hard.reshape(-1)).tolist():
        exact = Fraction(float(a.flat[index])) * Fraction(float(b.flat[index])) + Fraction(float(c.flat[index]))
        if exact:
            result.flat[index] = _round_fraction(exact, mode)
        else:
            one = [np.array([x.flat[index]]) for x in (plain, p, c)]
            result.flat[index] = exact_zero_sign(*one, mode)[0]
    return result


def add64(a: np.ndarray, b: np.ndarray, mode: str) -> np.ndarray:
    if mode == "rn":
        return a + b
    s, e = two_sum(a, b)
    overflowed = np.isinf(s) & np.isfinite(a) & np.isfinite(b)
    result = exact_zero_sign(directed(s, e, mode), a, b, mode)
    return _limit_overflow(result, overflowed, mode)


def mul64(a: np.ndarray, b: np.ndarray, mode: str) -> np.ndarray:
    if mode == "rn":
        return a * b
    a, b = np.broadcast_arrays(a, b)
    p, e = two_product(a, b)
    result = directed(p, np.where((a == 0) | (b == 0), 0.0, e), mode)
    result = np.where(np.isfinite(a) & np.isfinite(b) & (p != 0), result, p)
    for index in np.flatnonzero((np.isfinite(a) & np.isfinite(b) & ~_safe_product(a, b, p)).reshape(-1)).tolist():
        exact = Fraction(float(a.flat[index])) * Fraction(float(b.flat[index]))
        if exact:
            result.flat[index] = _round_signed(exact, mode)
    return result


def _round_signed(exact: Fraction, mode: str) -> float:
    value = _round_fraction(exact, mode)
    return np.copysign(value, -1.0) if exact < 0 else value


def div64(a: np.ndarray, b: np.ndarray, mode: str) -> np.ndarray:
    return _correct(a / b, mode, lambda i: Fraction(float(a.flat[i])) / Fraction(float(b.flat[i])), a, b)


def sqrt64(a: np.ndarray, mode: str) -> np.ndarray:
    root = np.sqrt(a)
    if mode == "rn":
        return root
    flat = root.reshape(-1).copy()
    for index in np.flatnonzero(np.isfinite(flat) & (flat > 0)).tolist():
        excess = Fraction(float(flat[index])) ** 2 - Fraction(float(a.flat[index]))
        if excess > 0 and mode in ("rz", "rm"):
            flat[index] = np.nextafter(flat[index], 0.0)
        elif excess < 0 and mode == "rp":
            flat[index] = np.nextafter(flat[index], np.inf)
    return flat.reshape(root.shape)


def _correct(nearest: np.ndarray, mode: str, exact, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if mode == "rn":
        return nearest
    a, b = np.broadcast_arrays(a, b)
    result = np.array(nearest)
    for index in np.flatnonzero((np.isfinite(a) & np.isfinite(b) & (a != 0) & (b != 0)).reshape(-1)).tolist():
        value = Fraction(float(a.flat[index])) / Fraction(float(b.flat[index]))
        result.flat[index] = _round_signed(value, mode)
    return result


def _limit_overflow(result: np.ndarray, overflowed: np.ndarray, mode: str) -> np.ndarray:
    if not overflowed.any():
        return result
    limit = FORMATS["f64"].limit
    toward_zero = np.ones(result.shape, bool) if mode == "rz" else (result > 0) == (mode == "rm")
    return np.where(overflowed & toward_zero, np.copysign(limit, result), result)


# -- arithmetic on bit patterns ------------------------------------------------------------------------------------


def fma32(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """binary32 a * b + c rounded to nearest, one rounding."""
    p = a.astype(np.float64) * b
    s = p + c
    result = s.astype(np.float32)
    # Double rounding is wrong only if the first result is halfway between two binary32 numbers, or is subnormal.
    risky = (s.view(np.uint64) & np.uint64(0x1FFFFFFF)) == np.uint64(0x10000000)
    if risky.any() or ((np.abs(s) < 2.0**-126) & (s != 0)).any():
        result = odd_sum(p, c.astype(np.float64)).astype(np.float32)
    return result


def flush(bits: np.ndarray, name: str) -> np.ndarray:
    """Replace subnormal numbers by zeros of their sign."""
    format_ = FORMATS[name]
    mantissa = format_.precision - 1 if name != "tf32" else 23
    sign = bits.dtype.type(1 << format_.bits - 1)
    exponent = bits.dtype.type((1 << format_.bits - 1) - (1 << mantissa))
    subnormal = (bits & exponent) == 0
    return np.where(subnormal, bits & sign, bits)
