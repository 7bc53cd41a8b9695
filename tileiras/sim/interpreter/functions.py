"""Elementary functions of f64, correctly rounded except for about one result in 2^40.

NumPy's are its platform's, with errors of up to a few units. These are computed with about 100 bits (`double_double`)
and rounded once, by lossless argument reduction and power series. Arguments of sine, cosine and tangent above 2^20 are
reduced with as many digits of pi as their exponents need. Infinities, NaNs and zeros are NumPy's.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from math import factorial
from typing import NamedTuple

import numpy as np

from .double_double import DoubleDouble, horner, two_product, two_sum

_PI_BITS = 1400


@cache
def _half_pi() -> int:
    """pi / 2 in units of 2^-_PI_BITS, by Machin's formula."""
    bits = _PI_BITS + 32

    def arctangent(inverse: int) -> int:
        total, term, number = 0, (1 << bits) // inverse, 1
        while term:
            total += term // number if number % 4 == 1 else -(term // number)
            term //= inverse * inverse
            number += 2
        return total

    return (2 * (4 * arctangent(5) - arctangent(239))) >> 32


@cache
def _half_pi_parts() -> tuple[float, ...]:
    """pi / 2 as a sum of four f64."""
    rest, parts = Fraction(_half_pi(), 1 << _PI_BITS), []
    for _ in range(4):
        parts.append(float(rest))
        rest -= Fraction(parts[-1])
    return tuple(parts)


@cache
def _ln2() -> DoubleDouble:
    return DoubleDouble.of(sum((Fraction(2, (2 * n + 1) * 3 ** (2 * n + 1)) for n in range(40)), Fraction(0)))


@cache
def _series(name: str) -> list[DoubleDouble]:
    terms: dict[str, Callable[[int], Fraction]] = {
        "expm1": lambda n: Fraction(1, factorial(n + 1)),  # of x, without its first factor
        "sin": lambda n: Fraction((-1) ** n, factorial(2 * n + 1)),  # of the square
        "cos": lambda n: Fraction((-1) ** n, factorial(2 * n)),
        "atanh": lambda n: Fraction(1, 2 * n + 1),
    }
    count = {"expm1": 11, "sin": 15, "cos": 15, "atanh": 22}[name]
    return [DoubleDouble.of(terms[name](n)) for n in range(count)]


# ---- exponentials and logarithms -------------------------------------------------------------------------------------


def _expm1_small(x: DoubleDouble) -> DoubleDouble:
    """e^x - 1 for |x| up to 0.35: the series at x / 256, then (1 + p)^2 - 1 eight times."""
    x = x.scaled(2.0**-8)
    p = horner(_series("expm1"), x) * x
    for _ in range(8):
        p = p.scaled(2.0) + p * p
    return p


def _exponential(x: DoubleDouble) -> tuple[DoubleDouble, np.ndarray]:
    """(p, k) with e^x = 2^k (1 + p); |x| up to 1000."""
    k = np.rint(x.high * 1.4426950408889634)
    return _expm1_small(x - _ln2() * k), k.astype(np.int64)


def _expm1(x: DoubleDouble) -> DoubleDouble:
    p, k = _exponential(x)
    power = np.ldexp(1.0, k)
    return p.where(k == 0, p.scaled(power) + power - 1.0)


def _logarithm(x: np.ndarray) -> tuple[DoubleDouble, np.ndarray]:
    """(l, k) with log x = l + k log 2 for positive x; the two never cancel."""
    mantissa, exponent = np.frexp(x)
    low = mantissa < 0.7071067811865476
    mantissa, exponent = np.where(low, 2 * mantissa, mantissa), exponent - low
    z = DoubleDouble(mantissa - 1.0) / DoubleDouble.sum(mantissa, 1.0)
    return (horner(_series("atanh"), z * z) * z).scaled(2.0), exponent.astype(np.float64)


def exp(x: np.ndarray) -> np.ndarray:
    p, k = _exponential(DoubleDouble(np.clip(x, -800.0, 800.0)))
    return (p + 1.0).times_power(k)


def exp2(x: np.ndarray) -> np.ndarray:
    x = np.clip(x, -1200.0, 1200.0)
    k = np.rint(x)
    return (_expm1_small(_ln2() * (x - k)) + 1.0).times_power(k.astype(np.int64))


def log(x: np.ndarray) -> np.ndarray:
    part, k = _logarithm(x)
    return (part + _ln2() * k).high


def log2(x: np.ndarray) -> np.ndarray:
    part, k = _logarithm(x)
    return (part / _ln2() + k).high


def sinh(x: np.ndarray) -> np.ndarray:
    magnitude = np.abs(x)
    large, k = _exponential(DoubleDouble(np.minimum(magnitude, 800.0)))
    p = _expm1(DoubleDouble(np.minimum(magnitude, 40.0)))
    near = (p + p / (p + 1.0)).scaled(0.5).high
    # Beyond 40, e^-x is below the last of 106 bits.
    return np.copysign(np.where(magnitude < 40, near, (large + 1.0).times_power(k - 1)), x)


def cosh(x: np.ndarray) -> np.ndarray:
    p, k = _exponential(DoubleDouble(np.minimum(np.abs(x), 800.0)))
    power = np.ldexp(1.0, np.clip(k, 0, 60))
    e = (p + 1.0).scaled(power)
    return np.where(np.abs(x) < 40, (e + 1.0 / e).scaled(0.5).high, (p + 1.0).times_power(k - 1))


def tanh(x: np.ndarray) -> np.ndarray:
    magnitude = np.abs(x)
    p = _expm1(DoubleDouble(2 * np.minimum(magnitude, 20.0)))
    # Beyond 20 the distance from 1 is below half a unit.
    return np.copysign(np.where(magnitude < 20, (p / (p + 2.0)).high, 1.0), x)


def power(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x to the power of y; the sign, infinities, zeros and NaNs are NumPy's."""
    part, k = _logarithm(np.abs(x))
    product = (part + _ln2() * k) * y
    p, scale = _exponential(product)
    value = p + 1.0
    # Powers of short factors may lie exactly between two f64, where the series' error would decide: they round to even.
    unit = np.spacing(np.abs(value.high))
    tie = np.abs(np.abs(value.low) - unit / 2) < unit * 2.0**-34
    odd = (value.high.view(np.int64) & 1).astype(bool)
    neighbour = np.nextafter(value.high, np.where(value.low > 0, np.inf, -np.inf))
    value = DoubleDouble(np.where(tie & odd, neighbour, value.high), np.where(tie, 0.0, value.low))
    return np.copysign(value.times_power(scale), np.power(x, y))


def rsqrt(x: np.ndarray) -> np.ndarray:
    mantissa, exponent = np.frexp(x)
    odd = exponent % 2
    mantissa, exponent = np.ldexp(mantissa, odd), exponent - odd
    guess = 1.0 / np.sqrt(mantissa)
    residual = 1.0 - DoubleDouble.product(guess, guess) * mantissa
    return (residual * (residual * 0.375 + 0.5) * guess + guess).times_power(-exponent // 2)


# ---- angles ----------------------------------------------------------------------------------------------------------


def _reduce(x: np.ndarray) -> tuple[np.ndarray, DoubleDouble]:
    """(n, r) with x = n pi / 2 + r, |r| up to pi / 4; n modulo 4."""
    n = np.rint(x * 0.6366197723675814)
    small = np.abs(x) < 2.0**20
    n = np.where(small, n, 0.0)
    rest = DoubleDouble(np.where(small, x, 0.0))
    for part in _half_pi_parts()[:3]:
        rest = _less(rest, *two_product(n, part))
    rest = rest - n * _half_pi_parts()[3]
    quadrant = n.astype(np.int64) & 3
    if not small.all():
        high, low, quadrant = np.array(rest.high), np.array(rest.low), np.array(quadrant)
        for index in np.argwhere(~small):
            at = tuple(index)
            quadrant[at], high[at], low[at] = _reduced_exactly(float(x[at]))
        rest = DoubleDouble(high, low)
    return quadrant, rest


def _less(number: DoubleDouble, high: np.ndarray, low: np.ndarray) -> DoubleDouble:
    """The difference; its first step is exact where numbers cancel."""
    s, e = two_sum(number.high, -high)
    t, f = two_sum(number.low, -low)
    e, g = two_sum(e, t)
    high, low = two_sum(s, e)
    return DoubleDouble(high, low + (f + g))


def _reduced_exactly(x: float) -> tuple[int, float, float]:
    """`_reduce` of one number, by integers."""
    whole = int(abs(x)) << _PI_BITS  # x is at least 2^20 and may have a fraction
    whole += int((abs(x) - int(abs(x))) * 2.0**64) << _PI_BITS - 64
    half_pi = _half_pi()
    n, rest = divmod(whole, half_pi)
    if 2 * rest > half_pi:
        n, rest = n + 1, rest - half_pi
    exact = Fraction(rest, 1 << _PI_BITS)
    high = float(exact)
    low = float(exact - Fraction(high))
    return (n & 3, high, low) if x > 0 else (-n & 3, -high, -low)


def _sine_and_cosine(x: np.ndarray) -> tuple[DoubleDouble, DoubleDouble]:
    quadrant, r = _reduce(x)
    square = r * r
    sine, cosine = horner(_series("sin"), square) * r, horner(_series("cos"), square)
    swapped = quadrant % 2 == 1
    sine, cosine = cosine.where(swapped, sine), sine.where(swapped, cosine)
    return (-sine).where(quadrant >= 2, sine), (-cosine).where((quadrant == 1) | (quadrant == 2), cosine)


def sin(x: np.ndarray) -> np.ndarray:
    return _sine_and_cosine(x)[0].high


def cos(x: np.ndarray) -> np.ndarray:
    return _sine_and_cosine(x)[1].high


def tan(x: np.ndarray) -> np.ndarray:
    sine, cosine = _sine_and_cosine(x)
    return (sine / cosine).high


def atan2(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """One step of Newton's method from NumPy's angle."""
    guess = np.arctan2(y, x)
    exponent = np.maximum(np.frexp(x)[1], np.frexp(y)[1])
    x, y = np.ldexp(x, -exponent), np.ldexp(y, -exponent)
    sine, cosine = _sine_and_cosine(guess)
    step = (cosine * y - sine * x) / (cosine * x + sine * y)
    return (step + guess).high


# ---- all -------------------------------------------------------------------------------------------------------------


class _Function(NamedTuple):
    """The plain function, NumPy's as a rule, serves where `is_plain` holds, or an operand is infinite or NaN."""

    compute: Callable[..., np.ndarray]
    plain: Callable[..., np.ndarray]
    is_plain: Callable[..., np.ndarray]


def _small(x: np.ndarray) -> np.ndarray:
    """Where sin x, tan x, sinh x and tanh x round to x."""
    return np.abs(x) < 2.0**-60


def _never(x: np.ndarray) -> np.ndarray:
    return np.zeros(x.shape, bool)


def _not_positive(x: np.ndarray) -> np.ndarray:
    return x <= 0


def _trivial_power(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Zeros and ones, and results far beyond the largest or below the smallest number."""
    return (np.abs(x) == 1) | (x == 0) | (y == 0) | np.isnan(np.power(x, y)) | (np.abs(y * np.log2(np.abs(x))) > 1200)


def _is_ratio(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Where the angle is y / x to the last bit."""
    return np.isfinite(y) & np.isfinite(x) & (x > 0) & (np.frexp(x)[1] - np.frexp(y)[1] > 500)


def _on_axis_or_ratio(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    return (x == 0) | (y == 0) | _is_ratio(y, x)


def _arctangent(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.where(_is_ratio(y, x), y / x, np.arctan2(y, x))


_FUNCTIONS = {
    "cos": _Function(cos, np.cos, _never),
    "cosh": _Function(cosh, np.cosh, _never),
    "exp": _Function(exp, np.exp, _never),
    "exp2": _Function(exp2, np.exp2, _never),
    "log": _Function(log, np.log, _not_positive),
    "log2": _Function(log2, np.log2, _not_positive),
    "rsqrt": _Function(rsqrt, lambda x: 1.0 / np.sqrt(x), _not_positive),
    "sin": _Function(sin, np.sin, _small),
    "sinh": _Function(sinh, np.sinh, _small),
    "tan": _Function(tan, np.tan, _small),
    "tanh": _Function(tanh, np.tanh, _small),
    "pow": _Function(power, np.power, _trivial_power),
    "atan2": _Function(atan2, _arctangent, _on_axis_or_ratio),
}

PLAIN = {name: row.plain for name, row in _FUNCTIONS.items()}
"""Functions of f64 that may be a few units off, which is good enough for every narrower format."""


def evaluate(name: str, *operands: np.ndarray) -> np.ndarray:
    """The function of f64 arrays, rounded to nearest."""
    row = _FUNCTIONS[name]
    arrays = np.broadcast_arrays(*operands)
    with np.errstate(all="ignore"):
        plainly = row.is_plain(*arrays)
        for array in arrays:
            plainly = plainly | ~np.isfinite(array)
        if plainly.all():
            return np.asarray(row.plain(*arrays))
        exact = row.compute(*(np.where(plainly, 1.0, array) for array in arrays))
        return np.where(plainly, row.plain(*arrays), exact) if plainly.any() else exact
