"""Rounding of exact rationals to binary formats, one number at a time: the reference of the emulator's arithmetic."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np

#: name -> (NumPy type, precision, exponent of the smallest normal number, largest exponent)
FORMATS = {
    "f16": (np.float16, 11, -14, 15),
    "bf16": (ml_dtypes.bfloat16, 8, -126, 127),
    "f32": (np.float32, 24, -126, 127),
    "f64": (np.float64, 53, -1022, 1023),
}


def exactly(value) -> Fraction:
    return Fraction(float(value))


def nearest(value: Fraction, name: str, mode: str = "rn", zero: float = 0.0):
    """``value`` rounded to a format; ``zero`` is the result (with its sign) when value is 0."""
    dtype, precision, emin, emax = FORMATS[name]
    if value == 0:
        return dtype(zero)
    negative, magnitude = value < 0, abs(value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    while Fraction(2) ** exponent > magnitude:
        exponent -= 1
    while Fraction(2) ** (exponent + 1) <= magnitude:
        exponent += 1
    quantum = Fraction(2) ** (max(exponent, emin) - precision + 1)
    whole, rest = divmod(magnitude, quantum)
    half = 2 * rest - quantum
    if mode == "rn":
        up = half > 0 or half == 0 and whole % 2 == 1
    elif mode == "rna":
        up = half >= 0
    else:
        up = bool(rest) and (mode == "rp" and not negative or mode == "rm" and negative)
    result = (whole + up) * quantum
    if result >= Fraction(2) ** (emax + 1):
        stays = mode == "rz" or mode == "rm" and not negative or mode == "rp" and negative
        largest = Fraction(2) ** (emax + 1) - Fraction(2) ** (emax + 1 - precision)
        result = largest if stays else None
    number = np.inf if result is None else float(result)
    with np.errstate(all="ignore"):
        return dtype(-number if negative else number)


def numbers(name: str, count: int, seed: int) -> np.ndarray:
    """Random bit patterns of a format with many special values: zeros, subnormals, halves, extremes; no NaN."""
    dtype = np.dtype(FORMATS[name][0])
    bits = 8 * dtype.itemsize
    unsigned = np.dtype(f"u{dtype.itemsize}")
    rng = np.random.default_rng(seed)
    raw = np.frombuffer(rng.bytes(count * dtype.itemsize), unsigned).copy()
    precision, emin = FORMATS[name][1], FORMATS[name][2]
    kind = rng.integers(0, 6, count)
    mantissa = (1 << precision - 1) - 1
    one = int(np.array(1.0).astype(dtype).view(unsigned))
    near_one = (raw & unsigned.type(mantissa)) + unsigned.type(one)
    tiny = raw & unsigned.type(mantissa | 1 << bits - 1)
    few = (raw & unsigned.type(3)) + unsigned.type(one)
    raw = np.where(kind == 0, near_one, np.where(kind == 1, tiny, np.where(kind == 2, few, raw)))
    values = raw.astype(unsigned).view(dtype).copy()
    specials = [0.0, -0.0, np.inf, -np.inf, 1.0, -1.0, 2.0**emin, float(np.array(0.1).astype(dtype))]
    where = rng.integers(0, count, count // 10)
    values[where] = np.array(rng.choice(specials, where.size)).astype(dtype)
    with np.errstate(invalid="ignore"):  # signalling NaN bit patterns
        bad = np.isnan(values.astype(np.float64))
    values[bad] = dtype.type(1.5)
    return values


def same(computed: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Equal in every bit, or both NaN."""
    unsigned = np.dtype(f"u{computed.dtype.itemsize}")
    both_nan = np.isnan(computed.astype(np.float64)) & np.isnan(expected.astype(np.float64))
    return (computed.view(unsigned) == expected.view(unsigned)) | both_nan


def check(computed: np.ndarray, expected: np.ndarray, *sources: np.ndarray) -> None:
    wrong = np.flatnonzero(~same(computed, expected))
    assert not wrong.size, [(computed[i], expected[i], *(s[i] for s in sources)) for i in wrong[:4]]
