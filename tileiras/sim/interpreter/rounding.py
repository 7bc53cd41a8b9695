"""Exact floating-point arithmetic in every rounding mode, on NumPy arrays.

Three routes, all exact:

* nearest-even on a format NumPy computes in (f64, f32, and f16 and bf16 through f32, where rounding twice is harmless
  because f32 has more than twice their precision plus two bits) is NumPy's own arithmetic;
* other modes on formats up to f32: the f64 result and the sign of its error (error-free transformations) give the
  result "rounded to odd", from which any narrower format can be rounded once more in any mode (Boldo, Melquiond 2008);
* other modes on f64: rational arithmetic, element by element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import frexp, isqrt

import ml_dtypes
import numpy as np

from tileiras.ir import FLOAT_SEMANTICS, FloatSemantics

from .double_double import two_product, two_sum
from .machine import Undefined

#: RoundingModeAttr keyword -> rounding of a number scaled so that one unit in the last place is 1.
INTEGRAL = {
    "nearest_even": np.rint,
    "zero": np.trunc,
    "negative_inf": np.floor,
    "positive_inf": np.ceil,
}


class _Formats(dict):
    def __missing__(self, keyword: str) -> np.dtype:
        raise Undefined(f"has numbers of type '{keyword}', which no dtype can hold")


def _nearest_away(values: np.ndarray) -> np.ndarray:
    whole = np.trunc(values)
    return np.copysign(np.abs(whole) + (np.abs(values - whole) >= 0.5), values)


_CONVERSIONS = {**INTEGRAL, "nearest_away": _nearest_away}
"""Conversions have one more mode."""

#: Element type keyword -> the dtype its values are kept in.  tf32 values are f32 numbers with ten fraction bits.
FLOAT_DTYPES = _Formats({
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "tf32": np.dtype(np.float32),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "f8E4M3FN": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "f8E8M0FNU": np.dtype(ml_dtypes.float8_e8m0fnu),
    "f4E2M1FN": np.dtype(ml_dtypes.float4_e2m1fn),
})  # fmt: skip

_NATIVE = {"f16": np.float32, "bf16": np.float32, "f32": np.float32, "f64": np.float64}


def max_finite(semantics: FloatSemantics) -> float:
    """The largest finite number of a format, exact in f64."""
    top = (1 << semantics.exponent_bits) - 1 - semantics.bias
    if semantics.has_infinity:
        fraction, top = 2.0 - 2.0**-semantics.mantissa_bits, top - 1
    elif semantics.has_nan and semantics.mantissa_bits:
        fraction = 2.0 - 2.0 ** (1 - semantics.mantissa_bits)
    elif semantics.has_nan:
        fraction, top = 1.0, top - 1
    else:
        fraction = 2.0 - 2.0**-semantics.mantissa_bits
    return fraction * 2.0**top


def round_to(values: np.ndarray, keyword: str, mode: str = "nearest_even", *, saturate: bool = False) -> np.ndarray:
    """``values`` (f64) rounded to format ``keyword``, in its dtype.

    Values beyond the largest number become infinity (NaN in formats without one) if the mode rounds that way, else the
    largest number; always the largest with ``saturate`` and in formats without infinity and NaN, in which NaN becomes
    the largest too. A format without a sign uses the magnitude (CUDA math API, `__nv_cvt_float_to_fp4`,
    `__nv_cvt_float_to_e8m0`).
    """
    values = np.asarray(values, np.float64)
    dtype = FLOAT_DTYPES[keyword]
    if keyword == "f64" or mode == "nearest_even" and keyword in ("f32", "f16"):
        with np.errstate(over="ignore"):  # to infinity, as meant
            return values.astype(dtype)
    semantics = FLOAT_SEMANTICS[keyword]
    if not semantics.has_sign:
        values = np.abs(values)
    if not semantics.has_nan:
        values = np.where(np.isnan(values), np.inf, values)
    _, exponents = np.frexp(values)
    lowest = (1 if semantics.has_sign and semantics.mantissa_bits else 0) - semantics.bias
    units = np.maximum(exponents - 1, lowest) - semantics.mantissa_bits
    rounded = np.ldexp(_CONVERSIONS[mode](np.ldexp(values, -units)), units)
    if not semantics.has_sign:
        # No zero either: smaller values become the smallest power of two.
        rounded = np.maximum(rounded, 2.0**lowest)
    rounded = np.where(np.isfinite(values), rounded, values)
    limit = max_finite(semantics)
    beyond = np.abs(rounded) > limit
    if beyond.any():
        outside = np.copysign(np.inf if semantics.has_infinity else np.nan, rounded)
        largest = np.copysign(limit, rounded)
        if not semantics.has_nan:
            outside = largest
        elif saturate or mode == "zero":
            outside = np.where(np.isinf(values) & (not saturate), outside, largest)
        elif mode not in ("nearest_even", "nearest_away"):
            away = (rounded > 0) == (mode == "positive_inf")
            outside = np.where(away | np.isinf(values), outside, largest)
        rounded = np.where(beyond, outside, rounded)
    return rounded.astype(np.float32).astype(dtype)  # exact by now


def flush(values: np.ndarray) -> np.ndarray:
    """Subnormal f32 numbers as zeros of the same sign."""
    return np.where(np.abs(values) < np.float32(2.0**-126), np.copysign(np.float32(0), values), values)


def _odd(value: np.ndarray, error: np.ndarray) -> np.ndarray:
    """``value + error`` (``error`` below half a unit) rounded to odd: inexact results get an odd last bit."""
    value = np.asarray(value, np.float64)
    inexact = np.isfinite(value) & (error != 0) & np.isfinite(error)
    even = (np.ascontiguousarray(value).view(np.int64) & 1).reshape(value.shape) == 0
    towards = np.where(error > 0, np.inf, -np.inf)
    return np.where(inexact & even, np.nextafter(value, towards), value)


def _odd_add(a: np.ndarray, b: np.ndarray):
    return _odd(*two_sum(a, b))


def _odd_div(a: np.ndarray, b: np.ndarray):
    quotient = a / b
    product, low = two_product(quotient, b)
    residual = (a - product) - low
    return _odd(quotient, np.where(b < 0, -residual, residual))


def _odd_sqrt(a: np.ndarray):
    root = np.sqrt(a)
    product, low = two_product(root, root)
    return _odd(root, (a - product) - low)


def _multiply_add(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """The exact product of finite numbers is finite, beyond the largest number as well."""
    return np.where(np.isfinite(a) & np.isfinite(b) & np.isinf(c), c, a * b + c)


#: name -> (NumPy in the working type, rounded-to-odd in f64 for operands up to f32, exact on rationals)
_OPERATIONS: dict[str, tuple[Callable, Callable, Callable]] = {
    "add": (np.add, _odd_add, lambda a, b: a + b),
    "sub": (np.subtract, lambda a, b: _odd_add(a, -b), lambda a, b: a - b),
    "mul": (np.multiply, np.multiply, lambda a, b: a * b),
    "div": (np.divide, _odd_div, lambda a, b: a / b if b else None),
    "sqrt": (np.sqrt, _odd_sqrt, None),
    "fma": (_multiply_add, lambda a, b, c: _odd_add(a * b, c), lambda a, b, c: a * b + c),
}


def compute(name: str, operands: list[np.ndarray], keyword: str, mode: str = "nearest_even", ftz: bool = False):
    """``add``, ``sub``, ``mul``, ``div``, ``sqrt`` or ``fma`` on tiles of format ``keyword``, correctly rounded."""
    if ftz:
        operands = [flush(operand) for operand in operands]
    native, odd, _ = _OPERATIONS[name]
    dtype = FLOAT_DTYPES[keyword]
    if mode == "nearest_even" and name != "fma":
        working = _NATIVE[keyword]
        result = native(*(np.asarray(x).astype(working, copy=False) for x in operands)).astype(dtype, copy=False)
    elif keyword != "f64":
        result = round_to(odd(*(np.asarray(x).astype(np.float64) for x in operands)), keyword, mode)
        if mode == "negative_inf" and name in ("add", "sub", "fma"):
            result = _negative_zero(name, operands, result)
    else:
        result = _rational(name, operands, mode)
    return flush(result) if ftz else result


def _negative_zero(name: str, operands: Sequence[np.ndarray], result: np.ndarray):
    """When rounding down, an exact cancellation is -0 (IEEE 754 section 6.3), and a positive number rounds to +0."""
    x, y, *rest = (np.asarray(operand).astype(np.float64) for operand in operands)
    if name == "fma":
        x, y = x * y, rest[0]
    elif name == "sub":
        y = -y
    cancelled = (x + y == 0) & ~((x == 0) & (y == 0) & ~np.signbit(x) & ~np.signbit(y))
    return np.where(cancelled, -np.zeros_like(result), result).astype(result.dtype)


def _rational(name: str, operands: list[np.ndarray], mode: str) -> np.ndarray:
    """f64 results in any mode. NumPy's result determines zeros, infinities and NaNs; finite results are computed
    exactly."""
    arrays = np.broadcast_arrays(*(np.asarray(x, np.float64) for x in operands))
    native, _, exact = _OPERATIONS[name]
    result = np.array(native(*arrays), order="C")
    flat = result.reshape(-1)
    for position, numbers in enumerate(zip(*(a.reshape(-1).tolist() for a in arrays))):
        if not np.isfinite(numbers).all():
            continue
        if name == "sqrt":
            if numbers[0] > 0:
                flat[position] = _round_root(Fraction(numbers[0]), mode)
            continue
        value = exact(*map(Fraction, numbers))
        if value is None:
            continue
        if value:
            flat[position] = round_fraction(value, mode)
        elif mode == "negative_inf" and name != "mul" and name != "div" and not _all_positive_zero(name, numbers):
            flat[position] = -0.0
    return result


def _all_positive_zero(name: str, numbers: tuple) -> bool:
    x, y, *rest = numbers
    if name == "fma":
        x, y = x * y, rest[0]
    elif name == "sub":
        y = -y
    return not any(v or np.signbit(v) for v in (x, y))


def round_fraction(value: Fraction, mode: str) -> float:
    """A non-zero rational rounded to f64."""
    magnitude, negative = abs(value), value < 0
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if magnitude < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** (max(exponent, -1022) - 52)
    scaled = magnitude / unit
    whole, rest = divmod(scaled.numerator, scaled.denominator)
    if rest:
        half = 2 * rest - scaled.denominator
        up = {
            "nearest_even": half > 0 or half == 0 and whole & 1,
            "zero": False,
            "negative_inf": negative,
            "positive_inf": not negative,
        }[mode]
        whole += bool(up)
    try:
        result = float(whole * unit)
    except OverflowError:
        towards = mode == "zero" or (mode == "positive_inf" if negative else mode == "negative_inf")
        result = float(np.finfo(np.float64).max) if towards else float("inf")
    return -result if negative else result


def _round_root(value: Fraction, mode: str) -> float:
    """Square root of a positive rational (an f64 number): 64 extra bits and a sticky bit decide every mode."""
    _, exponent = frexp(float(value))
    shift = 2 * (128 - exponent // 2)
    scaled = value * Fraction(2) ** shift
    root = isqrt(int(scaled))
    sticky = int(root * root != scaled)
    return round_fraction(Fraction(2 * root + sticky, 2) / Fraction(2) ** (shift // 2), mode)
