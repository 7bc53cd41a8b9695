"""Floating-point arithmetic, bit for bit against exact rationals."""

import ml_dtypes
import numpy as np
import pytest
from exact import FORMATS, check, exactly, nearest, numbers

N = 600
MODES = ("rn", "rz", "rm", "rp")


def evaluate(name: str, mode: str, exact, ieee, *sources: np.ndarray) -> np.ndarray:
    """Per element: ``ieee`` on float64 for infinities, NaN and exact zeros; ``exact`` on rationals otherwise."""
    dtype = np.dtype(FORMATS[name][0])
    out = np.zeros(sources[0].size, dtype)
    for i, row in enumerate(zip(*sources)):
        values = [float(v) for v in row]
        if all(np.isfinite(values)):
            result = exact(*(exactly(v) for v in values))
            if result is not None and result != 0:
                out[i] = nearest(result, name, mode)
                continue
        with np.errstate(all="ignore"):
            out[i] = dtype.type(ieee(*(np.float64(v) for v in values)))
            if mode == "rm" and all(np.isfinite(values)) and out[i] == 0 and exact(*map(exactly, values)) is not None:
                out[i] = minus_zero_sum(out[i], row, ieee)
    return out


def minus_zero_sum(zero, row, ieee):
    """An exact zero that is a difference of non-zeros, or of zeros of two signs, is -0 when rounding down."""
    if ieee not in (add, sub, fma):
        return zero
    terms = row if len(row) == 2 else (float(row[0]) * float(row[1]), row[2])
    return zero if all(float(t) == 0 and not np.signbit(float(t)) for t in terms) else -abs(zero)


def add(a, b):
    return a + b


def sub(a, b):
    return a - b


def mul(a, b):
    return a * b


def fma(a, b, c):
    """Of floats or of rationals."""
    return c if c in (np.inf, -np.inf) and np.isfinite(a) and np.isfinite(b) else a * b + c


def typed(name: str, values: np.ndarray) -> np.ndarray:
    return values.view(np.uint16) if name == "bf16" else values


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["f32", "f64"])
@pytest.mark.parametrize("compute", [add, sub, mul, fma])
def test_rounding_modes(apply, compute, name, mode):
    operation = compute.__name__
    sources = [numbers(name, N, seed) for seed in range(3 if operation == "fma" else 2)]
    if operation == "sub" and mode == "rm":
        sources[1] = -sources[1]
        expected = evaluate(name, mode, add, add, sources[0], -sources[1])
    else:
        expected = evaluate(name, mode, compute, compute, *sources)
    places = ", ".join(f"${i}" for i in range(len(sources)))
    check(apply(f"{operation}.{mode}.{name} $d, {places};", expected.dtype, *sources), expected, *sources)


@pytest.mark.parametrize("name", ["f16", "bf16"])
@pytest.mark.parametrize("compute", [add, sub, mul, fma])
def test_half_precision(apply, compute, name):
    sources = [numbers(name, N, 10 + seed) for seed in range(3 if compute is fma else 2)]
    expected = evaluate(name, "rn", compute, compute, *sources)
    places = ", ".join(f"${i}" for i in range(len(sources)))
    raw = [typed(name, s) for s in sources]
    rounding = ".rn" if compute is fma or name == "bf16" else ""
    text = f"{compute.__name__}{rounding}.{name} $d, {places};"
    check(apply(text, np.uint16, *raw).view(expected.dtype), expected, *sources)
    words = [r.view(np.uint32) for r in raw]
    text = f"{compute.__name__}{rounding}.{name}x2 $d, {places};"
    check(apply(text, np.uint32, *words).view(expected.dtype), expected, *sources)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["f32", "f64"])
def test_division_roots_and_reciprocals(apply, name, mode):
    a, b = numbers(name, N, 20), numbers(name, N, 21)

    def divide(x, y):
        return None if y == 0 else x / y

    expected = evaluate(name, mode, divide, np.divide, a, b)
    check(apply(f"div.{mode}.{name} $d, $0, $1;", a.dtype, a, b), expected, a, b)
    one = np.ones(N, a.dtype)
    expected = evaluate(name, mode, divide, np.divide, one, b)
    check(apply(f"rcp.{mode}.{name} $d, $0;", a.dtype, b), expected, b)
    roots = apply(f"sqrt.{mode}.{name} $d, $0;", a.dtype, a)
    for root, x in zip(roots, a):
        if not np.isfinite(x) or x <= 0:
            with np.errstate(all="ignore"):
                assert np.array_equal(root, np.sqrt(x), equal_nan=True)
            continue
        below, above = np.nextafter(root, a.dtype.type(-np.inf)), np.nextafter(root, a.dtype.type(np.inf))
        value = exactly(x)
        if mode in ("rz", "rm"):
            assert exactly(root) ** 2 <= value < exactly(above) ** 2
        elif mode == "rp":
            assert exactly(below) ** 2 < value <= exactly(root) ** 2
        else:
            assert ((exactly(below) + exactly(root)) / 2) ** 2 <= value <= ((exactly(root) + exactly(above)) / 2) ** 2


def test_double_rounding_traps_of_fma(apply):
    """Sums that binary64 rounds to the middle of two binary32 numbers, on either side of it."""
    a = np.array([1 + 2.0**-12, 1 + 2.0**-12, 1.0, 2.0**-75], np.float32)
    b = np.array([1 + 2.0**-12, 1 + 2.0**-12, 1 + 2.0**-23, 2.0**-75], np.float32)
    c = np.array([2.0**-80, -(2.0**-80), 2.0**-100, 2.0**-149], np.float32)
    expected = np.array([nearest(exactly(x) * exactly(y) + exactly(z), "f32") for x, y, z in zip(a, b, c)])
    check(apply("fma.rn.f32 $d, $0, $1, $2;", np.float32, a, b, c), expected, a, b, c)


def test_a_product_beyond_the_largest_number_adds_to_an_infinity(apply):
    large = np.array([1e300, -1e300, np.inf])
    got = apply("fma.rn.f64 $d, $0, $1, $2;", np.float64, large, np.abs(large), -np.sign(large) * np.inf)
    assert np.array_equal(got, [-np.inf, np.inf, np.nan], equal_nan=True)


SUBNORMAL = np.array([2.0**-126, 2.0**-127, -(2.0**-130), 2.0**-149, 1.0, -0.0, 0.0], np.float32)


def test_flush_to_zero_and_saturation(apply):
    one, two = np.ones_like(SUBNORMAL), np.full_like(SUBNORMAL, 0.5)
    flushed = np.where(np.abs(SUBNORMAL) < 2.0**-126, np.copysign(0, SUBNORMAL), SUBNORMAL).astype(np.float32)
    check(apply("mul.ftz.f32 $d, $0, $1;", np.float32, SUBNORMAL, one), flushed)
    halved = np.where(np.abs(flushed) <= 2.0**-126, np.copysign(0, flushed), flushed / 2).astype(np.float32)
    check(apply("mul.ftz.f32 $d, $0, $1;", np.float32, SUBNORMAL, two), halved)
    check(apply("mul.f32 $d, $0, $1;", np.float32, SUBNORMAL, two), SUBNORMAL * two)
    values = np.array([-1, -0.0, 0.25, 1, 2, np.inf, -np.inf, np.nan], np.float32)
    clamped = np.array([0, 0, 0.25, 1, 1, 1, 0, 0], np.float32)
    check(apply("add.sat.f32 $d, $0, $1;", np.float32, values, np.zeros_like(values)), clamped)
    relu = np.array([0, 0, 0.25, 1, 2, np.inf, 0, np.nan], np.float16)
    half, zero = values.astype(np.float16), np.zeros(8, np.float16)
    computed = apply("fma.rn.relu.f16 $d, $0, $1, $2;", np.float16, half, np.ones_like(half), zero)
    check(computed, relu)


SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.5, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("operation", ["min", "max"])
def test_minimum_and_maximum(apply, operation, name):
    dtype = FORMATS[name][0]
    a, b = (np.array(x).astype(dtype) for x in (np.repeat(SPECIAL, len(SPECIAL)), np.tile(SPECIAL, len(SPECIAL))))

    def choose(x, y):
        pair = sorted([x, y], key=lambda v: (float(v), not np.signbit(float(v))))
        return pair[-1] if operation == "max" else pair[0]

    rows = list(zip(a, b))
    ignoring = np.array(
        [y if np.isnan(float(x)) else x if np.isnan(float(y)) else choose(x, y) for x, y in rows], dtype
    )
    computed = apply(f"{operation}.{name} $d, $0, $1;", typed(name, a).dtype, typed(name, a), typed(name, b))
    check(computed.view(dtype), ignoring, a, b)
    if name != "f64":
        nan = [np.isnan(float(x)) or np.isnan(float(y)) for x, y in rows]
        keeping = np.where(nan, np.array(np.nan).astype(dtype), ignoring)
        text = f"{operation}.NaN.{name} $d, $0, $1;"
        check(apply(text, typed(name, a).dtype, typed(name, a), typed(name, b)).view(dtype), keeping, a, b)


def test_nan_is_canonical(apply):
    zero, inf = np.zeros(1, np.float32), np.full(1, np.inf, np.float32)
    assert apply("mul.f32 $d, $0, $1;", np.uint32, zero, inf)[0] == 0x7FFFFFFF
    assert apply("fma.rn.f16 $d, $0, $1, $0;", np.uint16, zero.astype(np.float16), inf.astype(np.float16))[0] == 0x7FFF


def test_sign_operations_and_classes(apply):
    values = np.array([*SPECIAL, 2.0**-130, -(2.0**-130)], np.float32)
    check(apply("abs.f32 $d, $0;", np.float32, values), np.abs(values))
    check(apply("neg.f32 $d, $0;", np.float32, values), -values)
    check(
        apply("copysign.f32 $d, $0, $1;", np.float32, -values, np.full_like(values, 3)),
        np.copysign(np.float32(3), -values),
    )
    tests = {
        "finite": np.isfinite(values),
        "infinite": np.isinf(values),
        "notanumber": np.isnan(values),
        "number": ~np.isnan(values),
        "subnormal": (values != 0) & (np.abs(values) < 2.0**-126),
        "normal": np.isfinite(values) & (np.abs(values) >= 2.0**-126),
    }
    for kind, expected in tests.items():
        assert (apply(f"testp.{kind}.f32 $d, $0;", bool, values) == expected).all()


#: instruction -> (function in binary64, largest error in units of the last place that the ISA allows)
APPROXIMATE = {
    "ex2.approx.f32": (np.exp2, 2),
    "lg2.approx.f32": (np.log2, 2),
    "rsqrt.approx.f32": (lambda x: 1 / np.sqrt(x), 2),
    "rcp.approx.f32": (lambda x: 1 / x, 1),
    "sqrt.approx.f32": (np.sqrt, 2),
    "tanh.approx.f32": (np.tanh, 2),
    "sin.approx.f32": (np.sin, 2),
    "cos.approx.f32": (np.cos, 2),
}


@pytest.mark.parametrize("instruction", APPROXIMATE)
def test_approximations(apply, instruction):
    function, _ = APPROXIMATE[instruction]
    x = np.random.default_rng(0).uniform(0.01, 6, 500).astype(np.float32)
    check(apply(f"{instruction} $d, $0;", np.float32, x), function(x.astype(np.float64)).astype(np.float32), x)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan], np.float32)
    with np.errstate(all="ignore"):
        expected = function(special.astype(np.float64)).astype(np.float32)
    check(apply(f"{instruction} $d, $0;", np.float32, special), expected, special)


@pytest.mark.parametrize("instruction", APPROXIMATE)
def test_the_farther_neighbour_of_an_approximation(apply, instruction):
    """It differs where the nearest one is inexact, by less than a unit in the last place, or by the ISA's error."""
    function, _ = APPROXIMATE[instruction]
    x = np.random.default_rng(0).uniform(0.01, 6, 500).astype(np.float32)
    exact = function(x.astype(np.float64))
    near, far = exact.astype(np.float32), apply(f"{instruction} $d, $0;", np.float32, x, farther=True)
    assert ((near != far) == (near != exact)).all() and (near != far).mean() > 0.9
    unit = np.spacing(np.abs(exact).astype(np.float32))
    most = {"lg2": 2.0**-22 * np.maximum(np.abs(exact), 1), "sin": 2.0**-20.5, "cos": 2.0**-20.5,
            "tanh": 2.0**-11 * exact}.get(instruction.partition(".")[0], 0)  # fmt: skip
    assert (np.abs(far - exact) < most + unit).all() and (np.abs(far - exact) >= np.multiply(most, 0.5)).all()


def test_results_that_have_no_farther_neighbour(apply):
    x = np.array([0.0, 1.0, -3.0, 128.0, 2000.0, -2000.0, np.inf, -np.inf], np.float32)
    near = np.array([1.0, 2.0, 0.125, np.inf, np.inf, 0.0, np.inf, 0.0], np.float32)
    check(apply("ex2.approx.f32 $d, $0;", np.float32, x, farther=True), near)
    check(apply("mul.f32 $d, $0, $1;", np.float32, near[:3], np.float32(0.1), farther=True), near[:3] * np.float32(0.1))


def test_approximate_division_and_double_reciprocal(apply):
    a, b = np.random.default_rng(1).uniform(0.5, 9, (2, 200)).astype(np.float32)
    check(apply("div.full.f32 $d, $0, $1;", np.float32, a, b), a / b)
    check(apply("div.approx.ftz.f32 $d, $0, $1;", np.float32, a, b), a / b)
    huge = np.array([2.0**126, 2.0**127, -(2.0**127), 3e38, 2.0**127, np.inf, 2.0**127], np.float32)
    c = np.array([2.0**127, 2.0**127, 1.0, -3.0, np.inf, 3e38, np.nan], np.float32)
    expected = np.array([2.0, 0.0, -0.0, -0.0, np.nan, 0.0, np.nan], np.float32)
    check(apply("div.approx.f32 $d, $0, $1;", np.float32, c, huge), expected)
    computed = apply("rcp.approx.ftz.f64 $d, $0;", np.float64, a.astype(np.float64))
    assert (
        np.allclose(computed, 1 / a.astype(np.float64), rtol=2e-6) and not (computed.view(np.uint64) & 0xFFFFFFFF).any()
    )


def test_mixed_precision(apply):
    a, c = numbers("f16", 200, 30), numbers("f32", 200, 31)
    expected = evaluate("f32", "rn", add, add, a.astype(np.float32), c)
    check(apply("add.f32.f16 $d, $0, $1;", np.float32, a, c, cpu="sm_100a"), expected, a, c)


def test_packed_single_precision(apply):
    a, b, c = (numbers("f32", 400, seed) for seed in (40, 41, 42))
    expected = evaluate("f32", "rn", fma, fma, a, b, c)
    words = [v.view(np.uint64) for v in (a, b, c)]
    computed = apply("fma.rn.f32x2 $d, $0, $1, $2;", np.uint64, *words, cpu="sm_100a").view(np.float32)
    check(computed, expected, a, b, c)


def test_bf16_numbers_keep_their_subnormals(apply):
    tiny = np.array([1, 3, 0x7F], np.uint16)  # bf16 subnormal numbers
    half = np.full(3, 0x3F00, np.uint16)
    expected = [nearest(exactly(v) / 2, "bf16") for v in tiny.view(ml_dtypes.bfloat16)]
    check(apply("mul.rn.bf16 $d, $0, $1;", np.uint16, tiny, half).view(ml_dtypes.bfloat16), np.array(expected))
