"""Sums of f8 products by the tensor cores of sm_89 and sm_90, which have fewer bits than their f32 results.

Products are exact.  Those of an instruction, and the accumulator, are aligned to the largest of their exponents (of a
product, the sum of those of its factors) with 13 fraction bits; lower bits are cut off.  Their sum is then exact, and
the result has 13 fraction bits, cut off as well (Xie et al., "MMA-Sim", arXiv 2511.10909; Khattak and
Mikaitis, arXiv 2512.07004).  `mma.sync` of sm_89 is modeled with all products of an instruction in one sum.
"""

from __future__ import annotations

import numpy as np

FRACTION_BITS = 13

NARROW = ("e4m3", "e5m2")

_LEAST = {"e4m3": -6, "e5m2": -14}
"""The exponent of the smallest normal number, and of all below."""


def is_narrow(a_type: str, b_type: str, d_type: str) -> bool:
    """Whether factors and results are of types whose sums are narrow on these machines."""
    return a_type in NARROW and b_type in NARROW and d_type == "f32"


def narrow_sum(a: np.ndarray, b: np.ndarray, types: tuple[str, str], start: np.ndarray | float) -> np.ndarray:
    """(..., m, n) binary64: `a @ b + start` as the machine sums, of factors of these types."""
    with np.errstate(invalid="ignore", over="ignore"):
        products = a @ b
        exact = products + start
        magnitude = np.abs(a) @ np.abs(b) + np.abs(start)
        lowest = _lowest_bit(a) + _lowest_bit(b)
        lowest = np.minimum(lowest, _lowest_bit(start)) if np.any(start) else lowest
        # All terms are multiples of 2^lowest, and none of their sums needs more bits.
        fits = magnitude <= np.ldexp(1.0, lowest + FRACTION_BITS)
        if (fits | ~np.isfinite(magnitude)).all():
            return exact
        return np.where(fits | ~np.isfinite(magnitude), exact, _align(a, b, types, start))


def _lowest_bit(values: np.ndarray | float) -> int:
    """The exponent of the last bit that is set in any of the numbers."""
    fractions, exponents = np.frexp(np.where(np.isfinite(values), values, 0.0))
    whole = np.abs(np.ldexp(fractions, 53)).astype(np.int64)
    _, last = np.frexp((whole & -whole).astype(np.float64))
    return int(np.min(np.where(whole == 0, 1 << 10, exponents - 54 + last)))


def _exponents(values: np.ndarray, least: int) -> np.ndarray:
    """Those of the numbers; of zeros, one below all others."""
    return np.where(values == 0, -(1 << 12), np.maximum(np.frexp(values)[1] - 1, least))


def _align(a: np.ndarray, b: np.ndarray, types: tuple[str, str], start: np.ndarray | float) -> np.ndarray:
    b = np.swapaxes(b, -1, -2)
    rows, columns = a[..., :, None, :], b[..., None, :, :]
    exponents = _exponents(rows, _LEAST[types[0]]) + _exponents(columns, _LEAST[types[1]])
    start = np.broadcast_to(start, exponents.shape[:-1])
    largest = np.maximum(exponents.max(-1), _exponents(start, -126))
    unit = np.maximum(largest, -(1 << 9)) - FRACTION_BITS
    total = np.trunc(np.ldexp(rows * columns, -unit[..., None])).sum(-1) + np.trunc(np.ldexp(start, -unit))
    cut = np.maximum(np.frexp(total)[1] - 1 - FRACTION_BITS, 0)
    return np.ldexp(np.trunc(np.ldexp(total, -cut)), cut + unit)
