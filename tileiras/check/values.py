"""The values in the arrays of a launch, by type: integers whose sums are exact, ordinary and special numbers, extremes,
and numbers whose sums cancel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from tileiras.ir import FLOAT_SEMANTICS, FloatType, IntegerType
from tileiras.sim.interpreter.rounding import FLOAT_DTYPES, max_finite, round_to
from tileiras.sim.interpreter.values import dtype_of, width_of

KINDS = ("whole", "normal", "special", "cancelling", "extreme")
POSITIVE = "positive"
"""Whole numbers from one on, which most assertions of programs admit."""

DISTINCT = -1
"""Value of `limit` for which integers count up, so that the rows that they index are all different."""
_PERIOD = 1 << 16
"""Elements after which values repeat: those of a longer array begin with those of a shorter one."""


def dtype_in_memory(element: Any) -> np.dtype:
    if width_of(element) in (1, 4) or getattr(element, "width", 64) == 1:
        return np.dtype(np.uint8)
    if isinstance(element, (FloatType, IntegerType)):
        dtype = dtype_of(element)
        return np.dtype(np.uint8) if dtype == np.bool_ else dtype
    return np.dtype(np.int64)


def count_in_memory(element: Any, size: int) -> int:
    """Elements of the array for `size` bytes."""
    return size // dtype_in_memory(element).itemsize


def array(
    element: Any, count: int, kind: str, seed: int, limit: int | None, positive: bool = False
) -> np.ndarray:
    """`count` elements as they lie in memory.

    Integers are below `limit` if it is given, or all different if it is DISTINCT; with `positive` floats have no sign.
    """
    generator = np.random.default_rng(seed)
    length = min(count, _PERIOD)
    if isinstance(element, FloatType) and element.keyword in FLOAT_DTYPES:
        numbers = _floats(element.keyword, kind, generator)
        numbers = np.abs(numbers) if positive else numbers
        if width_of(element) == 4:
            bits = numbers.view(np.uint8) & 0xF
            numbers = (bits[0::2] | bits[1::2] << 4).astype(np.uint8)
    else:
        numbers = _integers(element, kind, generator, limit)
    return np.resize(numbers[: max(length, 1)], count).astype(dtype_in_memory(element), copy=False)


def poisoned(element: Any, contents: np.ndarray, untouched: np.ndarray) -> np.ndarray:
    """The array with NaN, where the type has it, in the elements that the program does not touch: code that reads one
    into a sum, even as a factor of zero, changes the result."""
    if isinstance(element, FloatType) and element.keyword in FLOAT_DTYPES and width_of(element) > 4:
        if FLOAT_SEMANTICS[element.keyword].has_nan:
            contents[untouched] = np.array(np.nan).astype(contents.dtype)
    return contents


def lengths(element: Any, count: int, tile: int, trips: Sequence[tuple[int, int]]) -> np.ndarray:
    """Numbers that bound loops over tiles: (tiles, further elements) in turn."""
    numbers = np.array([max(0, tiles * tile + more) for tiles, more in trips])
    return np.resize(np.clip(numbers, 0, (1 << element.width - 1) - 1), count).astype(dtype_in_memory(element))


def _integers(element: Any, kind: str, generator: np.random.Generator, limit: int | None) -> np.ndarray:
    width = getattr(element, "width", 64)
    if width == 1:
        return generator.integers(0, 2, _PERIOD).astype(np.uint8)
    if width == 4:
        return generator.integers(0, 256, _PERIOD).astype(np.uint8)
    if limit == DISTINCT:
        return np.arange(_PERIOD).astype(dtype_of(element))
    if limit is not None:
        return generator.integers(0, limit, _PERIOD).astype(dtype_of(element))
    if kind == POSITIVE:
        return generator.integers(1, 5, _PERIOD).astype(dtype_of(element))
    low, high = -(1 << width - 1), (1 << width - 1) - 1
    if kind != "extreme":
        return generator.integers(-4, 5, _PERIOD).astype(dtype_of(element))
    numbers = generator.integers(low, high, _PERIOD, dtype=np.int64, endpoint=True)
    numbers[::3] = generator.choice(np.array([low, high, -1, 0, 1]), len(numbers[::3]))
    return numbers.astype(dtype_of(element))


def _floats(keyword: str, kind: str, generator: np.random.Generator) -> np.ndarray:
    dtype, semantics = FLOAT_DTYPES[keyword], FLOAT_SEMANTICS[keyword]
    if not semantics.has_sign:
        return round_to(np.ldexp(1.0, generator.integers(-2, 3, _PERIOD)), keyword)
    if kind == "whole":
        numbers = generator.integers(-3, 4, _PERIOD).astype(np.float64)
    elif kind == POSITIVE:
        numbers = generator.integers(1, 5, _PERIOD).astype(np.float64)
    elif kind == "cancelling":
        numbers = generator.standard_normal(_PERIOD) * np.ldexp(1.0, generator.integers(-4, 5, _PERIOD))
        numbers[1::2] = -numbers[0::2] * (1 + 2.0**-6 * generator.integers(0, 2, _PERIOD // 2))
    else:
        numbers = generator.standard_normal(_PERIOD)
    values = round_to(numbers, keyword, saturate=semantics.width <= 8)
    if kind in ("special", "extreme"):
        least = float(ml_dtypes.finfo(dtype).smallest_subnormal)
        normal, most = float(ml_dtypes.finfo(dtype).tiny), max_finite(semantics)
        special = [0.0, -0.0, least, -least, normal, -normal, normal * 0.5]
        if kind == "extreme":
            special += [most, -most, most / 2]
        else:
            special += [np.inf, -np.inf] if semantics.has_infinity else []
            special += [np.nan] if semantics.has_nan else []
        # One element in sixteen: some rows contain special values, but NaN does not spread to all of them.
        where = generator.random(_PERIOD) < 1 / 16
        values[where] = np.array(generator.choice(special, int(where.sum()))).astype(dtype)
    return values


LARGE = (-40.0, -20.0, 2e5, 0.0)
"""Floating-point parameters with which functions have arguments that they reduce another way: exponents that span the
range of a type, and angles beyond the one up to which a few multiplications reduce them (105,615 in f32)."""


def large(element: Any, turn: int) -> float:
    most = max_finite(FLOAT_SEMANTICS[element.keyword])
    return float(round_to(np.array(np.clip(LARGE[turn % len(LARGE)], -most, most)), element.keyword))


def scalar(element: Any, kind: str, number: int) -> Any:
    """A floating-point parameter's value."""
    choices = {
        "whole": (1.0, 2.0, -1.0, 0.5), "special": (0.5, -1.0, 1.0, 2.0), "extreme": (-40.0, 0.0, 40.0, 1e4),
    }.get(kind, (0.3, 1.7, 0.01, -0.6))  # fmt: skip
    return float(round_to(np.array(choices[number % len(choices)]), element.keyword))
