"""Element-wise operations on every type: compiled code agrees with the interpreter, element by element."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.kernels.tiles import Tile, assert_same, run_both
from tests.kernels.views import tile_type

COUNT = 128
INTEGERS = ("i8", "i16", "i32", "i64")
FLOATS = ("f16", "bf16", "f32", "f64")
DTYPES = {f"i{w}": np.dtype(f"int{w}") for w in (8, 16, 32, 64)} | {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}


def integers(element: str, seed: int) -> np.ndarray:
    """Small numbers, any numbers, and the ends of the range."""
    dtype = DTYPES[element]
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    generator = np.random.default_rng(seed)
    values = generator.integers(low, high, COUNT, dtype=np.int64, endpoint=True)
    values[::3] = generator.integers(-9, 10, len(values[::3]))
    corners = np.array([0, 1, -1, low, high])
    values[: len(corners) ** 2] = np.tile(corners, 5) if seed % 2 else np.repeat(corners, 5)
    return values.astype(dtype)


def floats(element: str, seed: int) -> np.ndarray:
    """Ordinary numbers, zeros, infinities, NaN, subnormal numbers and the largest."""
    dtype = DTYPES[element]
    values = (4 * np.random.default_rng(seed).standard_normal(COUNT)).astype(dtype)
    limits = ml_dtypes.finfo(dtype)
    corners = [0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, float(limits.smallest_subnormal), -float(limits.max)]
    corners = np.array(corners).astype(dtype)
    values[:64] = np.tile(corners, 8) if seed % 2 else np.repeat(corners, 8)
    return values


def compare(element, operations, inputs, ulps=0, **options):
    """``operations``: name -> (text with {t} for the tile type, element type of the result)."""
    t = tile_type((COUNT,), element)
    outputs, lines = [], []
    for number, (text, result) in enumerate(operations):
        name = f"r{number}"
        values = np.zeros(COUNT, DTYPES.get(result, np.dtype(np.int8)))
        if result == "i1":
            lines.append(f"%{name}_b = {text} : {t} -> tile<{COUNT}xi1>")
            lines.append(f"%{name} = exti %{name}_b unsigned : tile<{COUNT}xi1> -> tile<{COUNT}xi8>")
            outputs.append(Tile(name, "i8", values))
        else:
            arrow = "" if result == element and "->" not in text else f" -> tile<{COUNT}x{result}>"
            lines.append(f"%{name} = {text} : {t}{arrow}")
            outputs.append(Tile(name, result, values))
    expected, actual = run_both(inputs, "\n".join(lines), outputs, **options)
    for (text, _), want, got in zip(operations, expected, actual):
        assert_same(text, got, want, inputs, ulps)


# ---- integers --------------------------------------------------------------------------------------------------------

BINARY = ["addi", "subi", "muli", "andi", "ori", "xori", "mulhii"]
SIGNED_BINARY = ["maxi", "mini"]
PREDICATES = ["equal", "not_equal", "less_than", "less_than_or_equal", "greater_than", "greater_than_or_equal"]
SIGNEDNESS = ("signed", "unsigned")


@pytest.mark.parametrize("element", INTEGERS)
def test_integer_arithmetic(element):
    operations = [(f"{name} %a, %b", element) for name in BINARY]
    operations += [(f"{name} %a, %b {sign}", element) for name in SIGNED_BINARY for sign in SIGNEDNESS]
    operations += [("negi %a", element), ("absi %a", element)]
    compare(element, operations, [Tile("a", element, integers(element, 1)), Tile("b", element, integers(element, 2))])


@pytest.mark.parametrize("element", INTEGERS)
def test_integer_comparisons(element):
    operations = [(f"cmpi {p} %a, %b, {sign}", "i1") for p in PREDICATES for sign in SIGNEDNESS]
    compare(element, operations, [Tile("a", element, integers(element, 1)), Tile("b", element, integers(element, 2))])


@pytest.mark.parametrize("element", INTEGERS)
def test_integer_division(element):
    operations = [
        ("divi %a, %b signed", element),
        ("divi %a, %b unsigned", element),
        ("divi %a, %b signed rounding<negative_inf>", element),
        ("divi %a, %b signed rounding<positive_inf>", element),
        ("divi %a, %b unsigned rounding<positive_inf>", element),
        ("remi %a, %b signed", element),
        ("remi %a, %b unsigned", element),
    ]
    a, b = integers(element, 1), integers(element, 2)
    # Division by zero and the one quotient that does not fit have no meaning.
    b = np.where((b == 0) | (b == -1), b.dtype.type(3), b)
    compare(element, operations, [Tile("a", element, a), Tile("b", element, b)])


@pytest.mark.parametrize("element", INTEGERS)
def test_shifts(element):
    width = 8 * DTYPES[element].itemsize
    amount = np.random.default_rng(4).integers(0, width, COUNT).astype(DTYPES[element])
    operations = [("shli %a, %b", element), ("shri %a, %b signed", element), ("shri %a, %b unsigned", element)]
    compare(element, operations, [Tile("a", element, integers(element, 1)), Tile("b", element, amount)])


@pytest.mark.parametrize("element", INTEGERS)
def test_integer_conversions(element):
    width = 8 * DTYPES[element].itemsize
    operations = []
    for other in INTEGERS:
        size = 8 * DTYPES[other].itemsize
        if size > width:
            operations += [(f"exti %a {sign}", other) for sign in SIGNEDNESS]
        elif size < width:
            operations.append(("trunci %a", other))
    operations += [(f"itof %a {sign}", target) for target in FLOATS for sign in SIGNEDNESS]
    compare(element, operations, [Tile("a", element, integers(element, 1))])


# ---- floating point --------------------------------------------------------------------------------------------------

MODES = ("", " rounding<zero>", " rounding<negative_inf>", " rounding<positive_inf>")


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("element", FLOATS)
def test_float_arithmetic(element, target):
    modes = MODES if element in ("f32", "f64") else MODES[:1]
    operations = [(f"{name} %a, %b{mode}", element) for name in ("addf", "subf", "mulf", "divf") for mode in modes]
    operations += [(f"fma %a, %b, %c{mode}", element) for mode in modes]
    operations += [(f"sqrt %a{mode}", element) for mode in modes]
    inputs = [Tile(name, element, floats(element, seed)) for name, seed in (("a", 1), ("b", 2), ("c", 4))]
    compare(element, operations, inputs, gpu_name=target)


@pytest.mark.parametrize("element", FLOATS)
def test_float_comparisons_and_extrema(element):
    operations = [(f"cmpf {p} {o} %a, %b", "i1") for p in PREDICATES for o in ("ordered", "unordered")]
    operations += [(f"{name} %a, %b{nan}", element) for name in ("maxf", "minf") for nan in ("", " propagate_nan")]
    operations += [("absf %a", element), ("negf %a", element), ("ceil %a", element), ("floor %a", element)]
    compare(element, operations, [Tile("a", element, floats(element, 1)), Tile("b", element, floats(element, 2))])


def test_flush_to_zero():
    operations = [(f"{name} %a, %b flush_to_zero", "f32") for name in ("addf", "subf", "mulf", "divf", "maxf", "minf")]
    operations += [("sqrt %a flush_to_zero", "f32"), ("fma %a, %b, %a flush_to_zero", "f32")]
    a = (np.random.default_rng(1).standard_normal(COUNT) * 2.0**-126).astype(np.float32)
    b = (np.random.default_rng(2).standard_normal(COUNT) * 2.0 ** -np.random.default_rng(3).integers(0, 4, COUNT))
    compare("f32", operations, [Tile("a", "f32", a), Tile("b", "f32", b.astype(np.float32))])


# Maximum errors in f32 and f64, from the table of the CUDA C++ Programming Guide's appendix on mathematical functions.
FUNCTIONS = {
    "exp": (2, 1), "exp2": (2, 1), "log": (1, 1), "log2": (1, 1), "rsqrt": (2, 1), "sin": (2, 2), "cos": (2, 2),
    "tan": (4, 2), "tanh": (2, 1), "sinh": (3, 2), "cosh": (2, 1),
}  # fmt: skip


@pytest.mark.sampled(24)
@pytest.mark.parametrize("element", FLOATS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name, element):
    values = floats(element, 1)
    ulps = FUNCTIONS[name][element == "f64"] if element in ("f32", "f64") else 1
    compare(element, [(f"{name} %a", element)], [Tile("a", element, values)], ulps)


@pytest.mark.parametrize("element", FLOATS)
def test_float_remainder_and_power(element):
    a, b = np.abs(floats(element, 1)), floats(element, 2)
    inputs = [Tile("a", element, a), Tile("b", element, b)]
    compare(element, [("remf %a, %b", element)], inputs)
    compare(element, [("pow %a, %b", element)], inputs, {"f32": 4, "f64": 2}.get(element, 1))


@pytest.mark.parametrize("element", FLOATS)
def test_float_conversions(element):
    operations = [("ftof %a", other) for other in FLOATS if other != element]
    compare(element, operations, [Tile("a", element, floats(element, 1))])


@pytest.mark.parametrize("element", FLOATS)
def test_floats_to_integers(element):
    small = np.random.default_rng(6).uniform(-120, 120, COUNT).astype(DTYPES[element])
    compare(element, [("ftoi %a signed", other) for other in INTEGERS], [Tile("a", element, small)])
    compare(element, [("ftoi %a unsigned", other) for other in INTEGERS], [Tile("a", element, np.abs(small))])


@pytest.mark.parametrize(("element", "other"), [("i16", "f16"), ("i16", "bf16"), ("i32", "f32"), ("i64", "f64")])
def test_bitcasts(element, other):
    compare(element, [("bitcast %a", other)], [Tile("a", element, integers(element, 1))])
    compare(other, [("bitcast %a", element)], [Tile("a", other, floats(other, 1))])


@pytest.mark.parametrize("element", INTEGERS + FLOATS)
def test_select(element):
    make = integers if element in INTEGERS else floats
    inputs = [Tile("a", element, make(element, 1)), Tile("b", element, make(element, 2))]
    t = tile_type((COUNT,), element)
    order = f"cmpi less_than %a, %b, signed : {t}" if element in INTEGERS else f"cmpf less_than ordered %a, %b : {t}"
    body = f"""%m = {order} -> tile<{COUNT}xi1>
               %r = select %m, %a, %b : tile<{COUNT}xi1>, {t}"""
    expected, actual = run_both(inputs, body, [Tile("r", element, np.zeros(COUNT, DTYPES[element]))])
    assert_same("select", actual[0], expected[0], inputs)
