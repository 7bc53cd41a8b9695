"""Number formats by their definitions: the reference of conversions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from case_values import DTYPES, F4_VALUES


def to_float(values: np.ndarray, element: str) -> np.ndarray:
    """Extended floats in a format; ml_dtypes formats are converted from f64, which is precise enough for them."""
    dtype = DTYPES[element]
    return values.astype(dtype) if element in ("f16", "f32", "f64") else values.astype(np.float64).astype(dtype)


# Bits of the significand, the hidden one included.
PRECISIONS = {"f16": 11, "bf16": 8, "tf32": 11, "f32": 24, "f64": 53}


def from_integer(read: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """Python numbers rounded to nearest even."""

    def one(value: int, digits: int) -> float:
        unit = 1 << max(abs(value).bit_length() - digits, 0)
        low, rest = divmod(value, unit)
        return float((low + (2 * rest > unit or 2 * rest == unit and low & 1)) * unit)

    def reference(a: np.ndarray, element: str) -> np.ndarray:
        digits = PRECISIONS.get(element)
        if digits is None:  # beyond the largest number long before f64 rounds
            return nearest(read(a).astype(np.float64), element)
        rounded = np.array([one(int(value), digits) for value in read(a).flat]).reshape(a.shape)
        return to_float(rounded, element)

    return reference


def nearest(a: np.ndarray, element: str) -> np.ndarray:
    """The nearest number of a format narrower than f32, ties to even; formats of 8 and 4 bits saturate."""
    values = a.astype(np.float64)
    if element in PRECISIONS:
        lowest = -14 if element == "f16" else -126
        exponents = np.frexp(np.where(np.isfinite(values), values, 0))[1]
        unit = np.exp2(np.maximum(exponents, lowest + 1) - float(PRECISIONS[element]))
        return np.where(np.isfinite(values), np.rint(values / unit) * unit, values).astype(DTYPES[element])
    small = element == "f4E2M1FN"
    table = F4_VALUES[:8] if small else np.arange(128, dtype=np.uint8).view(DTYPES[element])
    table = table.astype(np.float64)
    table = table[np.isfinite(table)]
    magnitude = np.abs(values)
    above = np.searchsorted(table, magnitude).clip(1, len(table) - 1)
    low, high = magnitude - table[above - 1], table[above] - magnitude
    chosen = np.where((high < low) | (high == low) & (above % 2 == 0), above, above - 1)
    chosen = np.where(magnitude >= table[-1], len(table) - 1, chosen)
    signed_ = np.copysign(table[chosen], values)
    return np.where(np.isnan(values), table[-1] if small else np.nan, signed_).astype(DTYPES[element])


def power_of_two(up: bool) -> Callable[..., np.ndarray]:
    """f8E8M0FNU of the magnitude: NaN is preserved, other values are clamped to [2^-127, 2^127]."""

    def reference(a: np.ndarray, element: str) -> np.ndarray:
        magnitude = np.abs(a.astype(np.float64))
        mantissas, exponents = np.frexp(magnitude)
        exponents = np.where(np.isinf(magnitude), 128, exponents - 1 + (up & (mantissas != 0.5)))
        exponents = np.where(magnitude <= 2.0**-127, -127, exponents).clip(-127, 127)
        return np.where(np.isnan(magnitude), 255, exponents + 127).astype(np.uint8).view(DTYPES[element])

    return reference
