"""Sums of f8 products with 13 fraction bits, against the definition in exact arithmetic."""

from fractions import Fraction
from math import floor, log2

import ml_dtypes
import numpy as np
import pytest

from tileiras.sim.emulator.tensor_core.narrow_sums import narrow_sum

TYPES = {"e4m3": (ml_dtypes.float8_e4m3fn, -6), "e5m2": (ml_dtypes.float8_e5m2, -14)}


def _exponent(value: float, least: int) -> int:
    return max(floor(log2(abs(value))), least)


def _cut(value: Fraction, unit: Fraction) -> Fraction:
    """A multiple of the unit, towards zero."""
    whole = abs(value) // unit
    return whole * unit if value >= 0 else -whole * unit


def _defined(row: np.ndarray, column: np.ndarray, start: float, least: tuple[int, int]) -> float:
    terms = [(Fraction(x) * Fraction(y), _exponent(x, least[0]) + _exponent(y, least[1]))
             for x, y in zip(row.tolist(), column.tolist()) if x and y]  # fmt: skip
    if start:
        terms.append((Fraction(start), _exponent(start, -126)))
    if not terms:
        return 0.0
    unit = Fraction(2) ** (max(exponent for _, exponent in terms) - 13)
    total = sum((_cut(term, unit) for term, _ in terms), Fraction(0))
    if not total:
        return 0.0
    largest = floor(log2(abs(total)))
    return float(_cut(total, Fraction(2) ** (largest - 13)))


def _codes(rng: np.random.Generator, shape: tuple[int, int], type_: str) -> np.ndarray:
    dtype = TYPES[type_][0]
    values = (rng.normal(size=shape) * 2.0 ** rng.integers(-6, 6, shape)).astype(dtype).astype(np.float64)
    return np.where(np.isfinite(values), values, 1.0)


@pytest.mark.parametrize("types", [(a, b) for a in TYPES for b in TYPES])
def test_sums_match_their_definition(types):
    rng = np.random.default_rng(11)
    a, b = _codes(rng, (5, 32), types[0]), _codes(rng, (32, 7), types[1])
    start = (rng.normal(size=(5, 7)) * 2.0 ** rng.integers(-8, 12, (5, 7))).astype(np.float32).astype(np.float64)
    start[0, 0] = 0
    result = narrow_sum(a, b, types, start)
    least = tuple(TYPES[name][1] for name in types)
    wanted = [[_defined(row, column, first, least) for column, first in zip(b.T, firsts)]
              for row, firsts in zip(a, start.tolist())]  # fmt: skip
    np.testing.assert_array_equal(result, wanted)


def test_a_small_product_beside_a_large_accumulator_is_lost():
    a, b = np.zeros((1, 32)), np.zeros((32, 1))
    a[0, 0] = b[0, 0] = 1.0
    types = "e4m3", "e4m3"
    assert narrow_sum(a, b, types, np.full((1, 1), 8192.0)) == 8193
    assert narrow_sum(a, b, types, np.full((1, 1), 16384.0)) == 16384


def test_sums_of_small_whole_numbers_are_exact():
    rng = np.random.default_rng(3)
    a, b = rng.integers(-3, 4, (16, 32)).astype(float), rng.integers(-3, 4, (32, 8)).astype(float)
    np.testing.assert_array_equal(narrow_sum(a, b, ("e4m3", "e5m2"), np.full((16, 8), 100.0)), a @ b + 100)


def test_infinities_and_nan_stay():
    a, b = np.full((2, 32), 0.3), np.full((32, 1), 1.7)
    a[0, 3], a[1, 3] = np.inf, np.nan
    result = narrow_sum(a, b, ("e5m2", "e5m2"), 0.0)
    assert np.isposinf(result[0, 0]) and np.isnan(result[1, 0])
