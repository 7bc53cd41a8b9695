"""The rounding of the interpreter's arithmetic, against rational arithmetic."""

from fractions import Fraction

import numpy as np
import pytest

from tileiras.ir import FLOAT_SEMANTICS
from tileiras.sim.interpreter.rounding import FLOAT_DTYPES, INTEGRAL, compute, flush, max_finite, round_to

FORMATS = ("f16", "bf16", "f32", "f64")
EXACT = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "fma": lambda a, b, c: a * b + c,
}


def rounded(value: Fraction, keyword: str, mode: str) -> float:
    """A rational in a format, by the definition."""
    if not value:
        return 0.0
    semantics = FLOAT_SEMANTICS[keyword]
    magnitude, negative = abs(value), value < 0
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    exponent -= magnitude < Fraction(2) ** exponent
    unit = Fraction(2) ** (max(exponent, 1 - semantics.bias) - semantics.mantissa_bits)
    whole, rest = divmod(magnitude / unit, 1)
    up = {
        "nearest_even": rest > Fraction(1, 2) or rest == Fraction(1, 2) and whole % 2 == 1,
        "zero": False,
        "negative_inf": negative and rest > 0,
        "positive_inf": not negative and rest > 0,
    }[mode]
    result = (whole + up) * unit
    largest = Fraction(max_finite(semantics))
    if result > largest:
        outward = mode == "nearest_even" or mode == ("negative_inf" if negative else "positive_inf")
        result = float("inf") if outward else largest
    return float(-result if negative else result)


def numbers(generator, keyword, count):
    """Finite numbers of a format: half of them any bit pattern, half near one."""
    dtype = FLOAT_DTYPES[keyword]
    bits = generator.integers(0, 1 << (8 * dtype.itemsize - 1), count, dtype=np.uint64)
    bits |= generator.integers(0, 2, count, dtype=np.uint64) << np.uint64(8 * dtype.itemsize - 1)
    patterns = bits.astype(f"uint{8 * dtype.itemsize}").view(dtype)
    patterns = np.where(np.isfinite(patterns.astype(np.float64)), patterns, dtype.type(1))
    return np.where(np.arange(count) % 2, patterns, generator.standard_normal(count).astype(dtype)).astype(dtype)


@pytest.mark.parametrize("mode", INTEGRAL)
@pytest.mark.parametrize("keyword", FORMATS)
@pytest.mark.parametrize("name", EXACT)
def test_arithmetic_is_correctly_rounded(name, keyword, mode):
    generator = np.random.default_rng(7)
    operands = [numbers(generator, keyword, 60) for _ in range(3 if name == "fma" else 2)]
    if name == "div":
        operands[1] = np.where(operands[1] == 0, FLOAT_DTYPES[keyword].type(1), operands[1])
    with np.errstate(all="ignore"):
        results = compute(name, operands, keyword, mode)
    for result, *values in zip(results, *operands):
        assert float(result) == rounded(EXACT[name](*(Fraction(float(v)) for v in values)), keyword, mode)


@pytest.mark.parametrize("mode", INTEGRAL)
@pytest.mark.parametrize("keyword", ["f16", "f32", "f64"])
def test_square_root_is_correctly_rounded(keyword, mode):
    dtype = FLOAT_DTYPES[keyword]
    operands = np.abs(numbers(np.random.default_rng(3), keyword, 60))
    with np.errstate(all="ignore"):
        results = compute("sqrt", [operands], keyword, mode)
    for result, value in zip(results, operands):
        exact, root = Fraction(float(value)), Fraction(float(result))
        below = Fraction(float(np.nextafter(result, dtype.type(0))))
        above = Fraction(float(np.nextafter(result, dtype.type(np.inf))))
        if mode in ("zero", "negative_inf"):
            assert root**2 <= exact < above**2
        elif mode == "positive_inf":
            assert root**2 >= exact and (below**2 < exact or not exact)
        else:
            assert ((below + root) / 2) ** 2 <= exact <= ((root + above) / 2) ** 2


@pytest.mark.parametrize(
    ("keyword", "largest"),
    [("f8E4M3FN", 448.0), ("f8E5M2", 57344.0), ("f4E2M1FN", 6.0), ("f16", 65504.0), ("f8E8M0FNU", 2.0**127)],
)
def test_largest_number_of_a_format(keyword, largest):
    assert max_finite(FLOAT_SEMANTICS[keyword]) == largest
    assert float(round_to(np.array(largest), keyword)) == largest


@pytest.mark.parametrize("keyword", ["f8E4M3FN", "f8E5M2", "f4E2M1FN"])
def test_narrow_formats_round_to_nearest_even(keyword):
    dtype = FLOAT_DTYPES[keyword]
    codes = np.arange(16 if keyword == "f4E2M1FN" else 256, dtype=np.uint8).view(dtype).astype(np.float64)
    grid = np.unique(codes[np.isfinite(codes)])
    values = np.random.default_rng(5).uniform(grid[0], grid[-1], 500)
    distance = np.abs(values[:, None] - grid)
    assert (np.abs(round_to(values, keyword).astype(np.float64) - values) == distance.min(axis=1)).all()


def test_overflow_depends_on_format_and_mode():
    assert np.isinf(round_to(np.array(1e6), "f16"))
    assert round_to(np.array(1e6), "f16", "zero") == 65504
    assert round_to(np.array(-1e6), "f16", "positive_inf") == -65504
    assert np.isnan(round_to(np.array(1e6), "f8E4M3FN").astype(np.float32))
    assert round_to(np.array(1e6), "f8E4M3FN", saturate=True).astype(np.float32) == 448
    assert round_to(np.array(1e6), "f4E2M1FN").astype(np.float32) == 6


def test_scale_format_rounds_to_powers_of_two():
    values = np.array([1.5, 3.0, 2.0**-140, 4.0])
    assert round_to(values, "f8E8M0FNU", "zero").astype(np.float64).tolist() == [1, 2, 2.0**-127, 4]
    assert round_to(values, "f8E8M0FNU", "positive_inf").astype(np.float64).tolist() == [2, 4, 2.0**-127, 4]


def test_exact_cancellation_is_negative_zero_if_rounding_down():
    one = np.ones(1, np.float32)
    for mode in INTEGRAL:
        assert np.signbit(compute("sub", [one, one], "f32", mode))[0] == (mode == "negative_inf")


def test_flush_keeps_the_sign():
    tiny = np.array([1e-40, -1e-40, 2.0**-126], np.float32)
    flushed = flush(tiny)
    assert flushed.tolist() == [0, 0, 2.0**-126]
    assert np.signbit(flushed).tolist() == [False, True, False]


@pytest.mark.parametrize("mode", ["nearest_even", "nearest_away", "zero", "negative_inf", "positive_inf"])
def test_conversions_keep_the_sign_of_zero(mode):
    zeros = round_to(np.array([-0.0, 0.0, -1e-60, 1e-60]), "tf32", mode)
    assert np.signbit(zeros).tolist() == [True, False, True, False]


def test_halves_round_away_from_zero():
    values = np.array([1.5, 2.5, -2.5, -1.25, 3.0]) * 2.0**-11 + np.array([1, 1, -1, -1, 1])
    steps = (round_to(values, "tf32", "nearest_away").astype(np.float64) - np.sign(values)) * 2.0**10
    assert steps.tolist() == [1.0, 1.0, -1.0, -1.0, 2.0]


def test_directed_rounding_of_f64_in_any_memory_order():
    values = np.full((3, 2), 2.0)
    down = compute("sqrt", [values], "f64", "negative_inf")
    assert (down < np.sqrt(2.0)).all()
    assert (compute("sqrt", [values.T], "f64", "negative_inf") == down.T).all()


@pytest.mark.parametrize("keyword", ["f32", "f64"])
def test_a_product_beyond_the_largest_number_adds_to_an_infinity(keyword):
    large, infinity = np.array([1e300 if keyword == "f64" else 1e30]), np.array([-np.inf])
    operands = [each.astype(FLOAT_DTYPES[keyword]) for each in (large, large, infinity)]
    with np.errstate(all="ignore"):
        assert compute("fma", operands, keyword)[0] == -np.inf


@pytest.mark.parametrize("keyword", ["f16", "bf16", "f32"])
def test_numbers_below_the_least_round_down_to_positive_zero(keyword):
    least = np.array([2.0 ** (FLOAT_SEMANTICS[keyword].smallest_exponent - FLOAT_SEMANTICS[keyword].mantissa_bits)])
    least, half, zero = (each.astype(FLOAT_DTYPES[keyword]) for each in (least, np.array([0.5]), np.array([0.0])))
    result = compute("fma", [least, half, zero], keyword, "negative_inf")
    assert result[0] == 0 and not np.signbit(result[0])
    cancelled = compute("fma", [half, half, np.array([-0.25]).astype(half.dtype)], keyword, "negative_inf")
    assert cancelled[0] == 0 and np.signbit(cancelled[0])
