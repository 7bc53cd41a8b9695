"""Intervals of the values that compiled code may have, beside those that the interpreter computes.

A value without an interval is exact: every right program has these bits.  Rounding is monotone, so that a correctly
rounded operation on intervals has the rounded ends as its interval; operations whose result the specification does not
fix (sums in any order, functions with an error in units of the last place) widen it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tileiras.ir import FLOAT_SEMANTICS, FloatType
from tileiras.sim.interpreter.rounding import FLOAT_DTYPES, max_finite, round_to


class Bounds(NamedTuple):
    """The least and the greatest value of every element, in f64.  -inf and inf together admit NaN as well: any value.

    NaN in both: the value is NaN.
    """

    low: np.ndarray
    high: np.ndarray

    def map(self, function: Callable[[np.ndarray], np.ndarray]) -> Bounds:
        """Both ends moved by an operation that moves elements."""
        return Bounds(function(self.low), function(self.high))


def point(values: np.ndarray) -> Bounds:
    wide = np.asarray(values).astype(np.float64)
    return Bounds(wide, wide)


def anything(shape: tuple[int, ...]) -> Bounds:
    return Bounds(np.full(shape, -np.inf), np.full(shape, np.inf))


def is_point(bounds: Bounds) -> np.ndarray:
    """Where an element has one value; the two zeros are two."""
    is_one = (bounds.low == bounds.high) & (np.signbit(bounds.low) == np.signbit(bounds.high))
    return is_one | (np.isnan(bounds.low) & np.isnan(bounds.high))


def is_anything(bounds: Bounds) -> np.ndarray:
    return (bounds.low == -np.inf) & (bounds.high == np.inf)


def settle(low: np.ndarray, high: np.ndarray, values: np.ndarray, fixed: np.ndarray | bool) -> Bounds | None:
    """The interval of a result: its value alone where `fixed`, and any value where the ends are unknown.

    None where all elements are fixed.
    """
    if np.all(fixed):
        return None
    wide = np.asarray(values).astype(np.float64)
    with np.errstate(all="ignore"):
        is_inside = (low <= wide) & (wide <= high)
    low, high = np.where(is_inside, low, -np.inf), np.where(is_inside, high, np.inf)
    return Bounds(np.where(fixed, wide, low), np.where(fixed, wide, high))


def unit(values: np.ndarray, keyword: str) -> np.ndarray:
    """One unit in the last place of a format at the magnitude of each number."""
    semantics = FLOAT_SEMANTICS[keyword]
    magnitude = np.abs(np.asarray(values).astype(np.float64))
    _, exponents = np.frexp(np.where(np.isfinite(magnitude), magnitude, max_finite(semantics)))
    return np.ldexp(1.0, np.maximum(exponents - 1, 1 - semantics.bias) - semantics.mantissa_bits)


def precision(keyword: str) -> int:
    """Bits of a significand."""
    return FLOAT_SEMANTICS[keyword].mantissa_bits + 1


def rounded(values: np.ndarray, keyword: str, mode: str = "nearest_even", saturate: bool = False) -> np.ndarray:
    """f64 numbers rounded to a format, in f64 again."""
    if keyword == "f64":
        return np.asarray(values, np.float64)
    return round_to(values, keyword, mode, saturate=saturate).astype(np.float64)


def hull(corners: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The ends of the values at the corners of the operands' intervals; NaN where one of them is.

    The negative zero is the lesser one: a product with zero has the sign of its other factor.
    """
    stack = np.stack(np.broadcast_arrays(*corners))
    low, high, negative = stack.min(0), stack.max(0), np.signbit(stack)
    low, high = np.where((low == 0) & negative.any(0), -0.0, low), np.where((high == 0) & ~negative.all(0), 0.0, high)
    return low, high


def round_ends(
    low: np.ndarray, high: np.ndarray, keyword: str, mode: str = "nearest_even"
) -> tuple[np.ndarray, np.ndarray]:
    """Ends that were computed in f64, rounded as the operation rounds; for f64 results, one unit further out."""
    if keyword == "f64":
        return np.nextafter(low, -np.inf), np.nextafter(high, np.inf)
    return rounded(low, keyword, mode), rounded(high, keyword, mode)


def widen(values: np.ndarray, units: float, keyword: str) -> tuple[np.ndarray, np.ndarray]:
    """Values within so many units in the last place; beyond the largest number is infinity."""
    wide = np.asarray(values).astype(np.float64)
    step = units * unit(wide, keyword)
    limit = max_finite(FLOAT_SEMANTICS[keyword])
    low, high = np.where(wide == np.inf, limit, wide - step), np.where(wide == -np.inf, -limit, wide + step)
    return np.where(low < -limit, -np.inf, low), np.where(high > limit, np.inf, high)


def lowest_bit(values: np.ndarray) -> np.ndarray:
    """The exponent of the last bit that is set in each number; very large for zeros and non-finite numbers."""
    wide = np.asarray(values).astype(np.float64)
    fractions, exponents = np.frexp(np.where(np.isfinite(wide), wide, 0.0))
    whole = np.abs(np.ldexp(fractions, 53)).astype(np.int64)
    _, last = np.frexp((whole & -whole).astype(np.float64))
    return np.where(whole == 0, 1 << 20, exponents - 53 + last - 1)


def is_exact_sum(magnitude: np.ndarray, lowest: np.ndarray, bits: int) -> np.ndarray:
    """Whether sums of terms are exact in any order: all are multiples of 2^lowest, and so many of these fit the format.

    `magnitude` is the sum of the terms' magnitudes.
    """
    with np.errstate(all="ignore"):
        return magnitude <= np.ldexp(1.0, np.minimum(bits + lowest, 1023))


def sum_bounds(
    sums: Bounds, magnitude: np.ndarray, terms: int | np.ndarray, keyword: str, step: float | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Ends of a sum of `terms` in any order, each addition off by at most `step` of its result (Higham, section 4.2).

    Partial sums beyond the largest number make any value possible.
    """
    each = step if step is not None else 2.0 ** -precision(keyword)
    with np.errstate(all="ignore"):
        error = 1.01 * np.maximum(terms, 1) * (each + 2.0**-52) * magnitude
        overflows = magnitude * 1.01 > max_finite(FLOAT_SEMANTICS[keyword])
        low, high = np.where(overflows, -np.inf, sums.low - error), np.where(overflows, np.inf, sums.high + error)
    return low, high


def dtype_keyword(element: object) -> str | None:
    """The keyword of a float type that NumPy arrays can hold; None for other types."""
    return element.keyword if isinstance(element, FloatType) and element.keyword in FLOAT_DTYPES else None
