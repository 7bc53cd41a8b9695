"""Numbers of about 106 bits as unevaluated sums of two f64, on NumPy arrays.

The sum and product of two f64 are such numbers exactly (Knuth's and Dekker's error-free transformations); arithmetic
on them follows Dekker, "A floating-point technique for extending the available precision" (1971), and Hida, Li and
Bailey, "Library for double-double and quad-double arithmetic" (2007), with relative errors of a few times 2^-104.
Magnitudes stay within 2^-900 and 2^900 or are zero: splitting and the errors of products need the room.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

_SPLIT = 134217729.0  # 2^27 + 1 splits 53 bits into halves


def two_sum(a: np.ndarray, b: float | np.ndarray):
    """(s, e) with s = a + b rounded and s + e exact."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def two_product(a: np.ndarray, b: float | np.ndarray):
    """(p, e) with p = a * b rounded and p + e exact where nothing over- or underflows (Dekker)."""
    product = a * b
    ah = a * _SPLIT
    ah = ah - (ah - a)
    bh = b * _SPLIT
    bh = bh - (bh - b)
    al, bl = a - ah, b - bh
    return product, ((ah * bh - product) + ah * bl + al * bh) + al * bl


class DoubleDouble:
    """``high + low``, where ``high`` is the nearest f64 of the sum.  Operands may be f64 as well."""

    __slots__ = ("high", "low")
    __array_ufunc__ = None  # an array on the left leaves the operation to this class

    def __init__(self, high: float | np.ndarray, low: float | np.ndarray = 0.0) -> None:
        self.high = np.asarray(high, np.float64)
        self.low = np.asarray(low, np.float64)

    @classmethod
    def of(cls, value: Fraction) -> "DoubleDouble":
        high = float(value)
        return cls(high, float(value - Fraction(high)))

    @classmethod
    def sum(cls, a: np.ndarray, b: float) -> "DoubleDouble":
        return cls(*two_sum(a, b))

    @classmethod
    def product(cls, a: np.ndarray, b: np.ndarray) -> "DoubleDouble":
        return cls(*two_product(a, b))

    def __neg__(self) -> "DoubleDouble":
        return DoubleDouble(-self.high, -self.low)

    def __add__(self, other: DoubleDouble | float | np.ndarray) -> "DoubleDouble":
        other = _wide(other)
        s, e = two_sum(self.high, other.high)
        t, f = two_sum(self.low, other.low)
        s, e = _normal(s, e + t)
        return DoubleDouble(*_normal(s, e + f))

    __radd__ = __add__

    def __sub__(self, other: DoubleDouble | float | np.ndarray) -> "DoubleDouble":
        return self + -_wide(other)

    def __rsub__(self, other: float) -> "DoubleDouble":
        return -self + other

    def __mul__(self, other: DoubleDouble | float | np.ndarray) -> "DoubleDouble":
        other = _wide(other)
        p, e = two_product(self.high, other.high)
        return DoubleDouble(*_normal(p, e + (self.high * other.low + self.low * other.high)))

    __rmul__ = __mul__

    def __truediv__(self, other: DoubleDouble) -> "DoubleDouble":
        other = _wide(other)
        first = self.high / other.high
        rest = self - other * first
        second = rest.high / other.high
        third = (rest - other * second).high / other.high
        return DoubleDouble(*_normal(first, second)) + third

    def __rtruediv__(self, other: float) -> "DoubleDouble":
        return _wide(other) / self

    def scaled(self, factor: float | np.ndarray) -> "DoubleDouble":
        """Times powers of two."""
        return DoubleDouble(self.high * factor, self.low * factor)

    def where(self, condition: np.ndarray, other: "DoubleDouble") -> "DoubleDouble":
        """``self`` where the condition holds, else ``other``."""
        return DoubleDouble(np.where(condition, self.high, other.high), np.where(condition, self.low, other.low))

    def times_power(self, exponent: np.ndarray) -> np.ndarray:
        """The nearest f64 of the number times 2^exponent, rounded once where that is subnormal."""
        normal = np.ldexp(self.high, exponent)
        tiny = (np.abs(normal) <= 2.0**-1022) & (self.high != 0)
        if not tiny.any():
            return normal
        # Added to a number whose last place is 2^-1074 before scaling, the sum is rounded there.
        lifted = np.maximum(exponent, -1200)
        anchor = np.copysign(np.ldexp(1.0, 52 - 1074 - lifted), self.high)
        s, e = two_sum(anchor, self.high)
        return np.where(tiny, np.ldexp((s + (e + self.low)) - anchor, lifted), normal)


def _wide(value: DoubleDouble | float | np.ndarray) -> DoubleDouble:
    return value if isinstance(value, DoubleDouble) else DoubleDouble(value)


def _normal(a: np.ndarray, b: np.ndarray):
    """The sum of two numbers, the second of smaller magnitude, as (nearest, rest)."""
    s = a + b
    return s, b - (s - a)


def horner(coefficients: list[DoubleDouble], x: DoubleDouble) -> DoubleDouble:
    """c0 + c1 x + c2 x^2 + ..."""
    result = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        result = result * x + coefficient
    return result
