"""Every operation that conformance kernels are generated from, one row each.

Bounds of the functions are the maximum errors that the CUDA C++ Programming Guide's appendix on mathematical functions
states for the libdevice functions; formats narrower than f32 are computed in f32 and rounded once, which may change the
last rounding.  All other operations are exact or rounded once: 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from case_formats import from_integer, nearest, power_of_two, to_float
from case_values import DTYPES, FLOATS, INTEGERS, NARROW, signed, unsigned, width, wrap

EXTENDED = np.longdouble
"""At least twice f32's precision, so that rounding the correctly rounded result again is innocuous."""


class Row(NamedTuple):
    """One element-wise operation.

    text: the operation; {t}, {t1}, ... the types of its operands, {r} of its result, which is %r.
    operands: (domain, element type) of %a, %b, %c; element "" is the row's.
    reference: operands as arrays, and the result's element type -> the result.
    """

    family: str
    name: str
    text: str
    elements: tuple[str, ...]
    operands: tuple[tuple[str, str], ...]
    result: str = ""
    ulps: dict[str, float] = {}
    reference: Callable[..., np.ndarray] | None = None


INTEGERS_1 = ("i1", *INTEGERS)
ONE, TWO, THREE = ((("any", ""),) * count for count in (1, 2, 3))
SIGNS: dict[str, Callable[[np.ndarray], np.ndarray]] = {"signed": signed, "unsigned": unsigned}
PREDICATES: dict[str, Callable[..., Any]] = {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less_than": np.less,
    "less_than_or_equal": np.less_equal,
    "greater_than": np.greater,
    "greater_than_or_equal": np.greater_equal,
}


def _wrapped(function: Callable[..., Any], read: Callable[..., Any] = unsigned) -> Callable[..., np.ndarray]:
    """A function of Python numbers, its low bits."""
    return lambda *arrays: wrap(function(*(read(array) for array in arrays[:-1])), arrays[-1])


def _rounded(function: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """A function of extended floats, rounded to the result's format."""
    return lambda *arrays: to_float(function(*(array.astype(EXTENDED) for array in arrays[:-1])), arrays[-1])


# ---- integers --------------------------------------------------------------------------------------------------------


def _quotient(a: Any, b: Any, mode: str) -> Any:
    floor = a // b
    if mode == "negative_inf":
        return floor
    up = (a % b != 0).astype(int).astype(object)
    if mode == "positive_inf":
        return floor + up
    return floor + up * (floor < 0).astype(int).astype(object)


def _shifted_right(read: Callable[..., Any]) -> Callable[..., np.ndarray]:
    return lambda a, b, element: wrap(read(a) >> unsigned(b), element)


INTEGER = [
    Row("integer", name, f"{name} %a, %b : {{t}}", INTEGERS_1, TWO, reference=_wrapped(function))
    for name, function in {
        "addi": np.add, "subi": np.subtract, "muli": np.multiply, "andi": np.bitwise_and, "ori": np.bitwise_or,
        "xori": np.bitwise_xor,
    }.items()
]  # fmt: skip
INTEGER += [
    Row("integer", f"{name} {sign}", f"{name} %a, %b {sign} : {{t}}", INTEGERS_1, TWO,
        reference=_wrapped(function, read))
    for name, function in {"maxi": np.maximum, "mini": np.minimum}.items() for sign, read in SIGNS.items()
]  # fmt: skip
INTEGER += [
    Row("integer", f"divi {sign} {mode}", f"divi %a, %b {sign}{text} : {{t}}", INTEGERS,
        (("any", ""), ("divisors", "")), reference=_wrapped(lambda a, b, mode=mode: _quotient(a, b, mode), SIGNS[sign]))
    for sign, mode, text in (
        ("signed", "zero", ""), ("unsigned", "zero", ""), ("signed", "negative_inf", " rounding<negative_inf>"),
        ("signed", "positive_inf", " rounding<positive_inf>"), ("unsigned", "positive_inf", " rounding<positive_inf>"),
    )
]  # fmt: skip
INTEGER += [
    Row("integer", f"remi {sign}", f"remi %a, %b {sign} : {{t}}", INTEGERS, (("any", ""), ("divisors", "")),
        reference=_wrapped(lambda a, b: a - _quotient(a, b, "zero") * b, read))
    for sign, read in SIGNS.items()
]  # fmt: skip
INTEGER += [
    Row("integer", "mulhii", "mulhii %a, %b : {t}", INTEGERS, TWO,
        reference=lambda a, b, e: wrap((unsigned(a) * unsigned(b)) >> width(e), e)),
    Row("integer", "negi", "negi %a : {t}", INTEGERS, ONE, reference=_wrapped(np.negative)),
    Row("integer", "absi", "absi %a : {t}", INTEGERS, ONE, reference=_wrapped(np.abs, signed)),
    Row("integer", "shli", "shli %a, %b : {t}", INTEGERS, (("any", ""), ("shifts", "")),
        reference=lambda a, b, e: wrap(unsigned(a) << unsigned(b), e)),
    *(Row("integer", f"shri {sign}", f"shri %a, %b {sign} : {{t}}", INTEGERS, (("any", ""), ("shifts", "")),
          reference=_shifted_right(read)) for sign, read in SIGNS.items()),
]  # fmt: skip
INTEGER += [
    Row("comparison", f"cmpi {name} {sign}", f"cmpi {name} %a, %b, {sign} : {{t}} -> {{r}}", INTEGERS_1, TWO, "i1",
        reference=lambda a, b, e, function=function, read=read: function(read(a), read(b)).astype(np.bool_))
    for name, function in PREDICATES.items() for sign, read in SIGNS.items()
]  # fmt: skip

# ---- floating point --------------------------------------------------------------------------------------------------

MODES = ("zero", "negative_inf", "positive_inf")


def _extremum(function: Callable[..., Any]) -> Callable[..., np.ndarray]:
    return lambda a, b, e: function(a.astype(np.float64), b.astype(np.float64)).astype(DTYPES[e])


def _compared(function: Callable[..., Any], unordered: bool) -> Callable[..., np.ndarray]:
    def reference(a: np.ndarray, b: np.ndarray, element: str) -> np.ndarray:
        a, b = a.astype(np.float64), b.astype(np.float64)
        nan = np.isnan(a) | np.isnan(b)
        return np.where(nan, unordered, function(a, b))

    return reference


FLOAT = [
    # f64 through an extended format would be rounded twice; NumPy's own f64 is the reference there.
    Row("float", name, f"{name} %a, %b : {{t}}", FLOATS, TWO,
        reference=lambda a, b, e, function=function: function(a.astype(np.float64), b.astype(np.float64))
        .astype(DTYPES[e]))
    for name, function in {"addf": np.add, "subf": np.subtract, "mulf": np.multiply, "divf": np.divide}.items()
]  # fmt: skip
FLOAT += [
    Row("float", f"{name} {mode}", f"{name} %a, %b rounding<{mode}> : {{t}}", FLOATS, TWO)
    for name in ("addf", "subf", "mulf", "divf") for mode in MODES
]  # fmt: skip
FLOAT += [Row("float", "fma", "fma %a, %b, %c : {t}", FLOATS, THREE)]
FLOAT += [Row("float", f"fma {mode}", f"fma %a, %b, %c rounding<{mode}> : {{t}}", FLOATS, THREE) for mode in MODES]
FLOAT += [
    Row("float", "sqrt", "sqrt %a : {t}", FLOATS, ONE,
        reference=lambda a, e: np.sqrt(a.astype(np.float64)).astype(DTYPES[e])),
    *(Row("float", f"sqrt {mode}", f"sqrt %a rounding<{mode}> : {{t}}", FLOATS, ONE) for mode in MODES),
    Row("float", "remf", "remf %a, %b : {t}", FLOATS, TWO,
        reference=lambda a, b, e: np.fmod(a.astype(np.float64), b.astype(np.float64)).astype(DTYPES[e])),
    Row("float", "absf", "absf %a : {t}", FLOATS, ONE, reference=_rounded(np.abs)),
    Row("float", "negf", "negf %a : {t}", FLOATS, ONE, reference=_rounded(np.negative)),
    Row("float", "ceil", "ceil %a : {t}", FLOATS, ONE, reference=_rounded(np.ceil)),
    Row("float", "floor", "floor %a : {t}", FLOATS, ONE, reference=_rounded(np.floor)),
    Row("float", "maxf", "maxf %a, %b : {t}", FLOATS, TWO, reference=_extremum(np.fmax)),
    Row("float", "minf", "minf %a, %b : {t}", FLOATS, TWO, reference=_extremum(np.fmin)),
    Row("float", "maxf propagate_nan", "maxf %a, %b propagate_nan : {t}", FLOATS, TWO,
        reference=_extremum(np.maximum)),
    Row("float", "minf propagate_nan", "minf %a, %b propagate_nan : {t}", FLOATS, TWO,
        reference=_extremum(np.minimum)),
    *(Row("float", f"{name} flush_to_zero", f"{name} %a, %b flush_to_zero : {{t}}", ("f32",), TWO)
      for name in ("addf", "subf", "mulf", "divf", "maxf", "minf")),
    Row("float", "fma flush_to_zero", "fma %a, %b, %c flush_to_zero : {t}", ("f32",), THREE),
    Row("float", "sqrt flush_to_zero", "sqrt %a flush_to_zero : {t}", ("f32",), ONE),
]  # fmt: skip
FLOAT += [
    Row("comparison", f"cmpf {name} {order}", f"cmpf {name} {order} %a, %b : {{t}} -> {{r}}", FLOATS, TWO, "i1",
        reference=_compared(function, order == "unordered"))
    for name, function in PREDICATES.items() for order in ("ordered", "unordered")
]  # fmt: skip

# ---- functions -------------------------------------------------------------------------------------------------------


def _bounds(f32: float, f64: float) -> dict[str, float]:
    return {"f16": 1, "bf16": 1, "f32": f32, "f64": f64}


# name: (f32, f64, NumPy's function, domain besides everything)
FUNCTIONS: dict[str, tuple[float, float, Callable[..., Any], str]] = {
    "exp": (2, 1, np.exp, "unit"),
    "exp2": (2, 1, np.exp2, "unit"),
    "log": (1, 1, np.log, "positive"),
    "log2": (1, 1, np.log2, "positive"),
    "rsqrt": (2, 1, lambda a: 1 / np.sqrt(a), "positive"),
    "sin": (2, 2, np.sin, "angles"),
    "cos": (2, 2, np.cos, "angles"),
    "tan": (4, 2, np.tan, "angles"),
    "sinh": (3, 2, np.sinh, "unit"),
    "cosh": (2, 1, np.cosh, "unit"),
    "tanh": (2, 1, np.tanh, "unit"),
}
FUNCTION = [
    Row("function", f"{name} {domain}", f"{name} %a : {{t}}", FLOATS, ((domain, ""),), "", _bounds(f32, f64),
        _rounded(function))
    for name, (f32, f64, function, other) in FUNCTIONS.items() for domain in ("any", other)
]  # fmt: skip
FUNCTION += [
    Row("function", "pow", "fpowf %a, %b : {t}", FLOATS, (("positive", ""), ("any", "")), "", _bounds(4, 2),
        _rounded(np.power)),
    # At most nine multiplications, of half a unit each, and as much for the reciprocal.
    *(Row("function", f"fpowi {power}", "fpowi %a, %b : {t0}, {t1}", FLOATS, (("positive", ""), ("exponents", power)),
          "", _bounds(9, 9), lambda a, n, e: to_float(np.power(a.astype(EXTENDED), signed(n).astype(EXTENDED)), e))
      for power in INTEGERS_1[:-1]),
    Row("function", "atan2", "atan2 %a, %b : {t}", FLOATS, TWO, "", _bounds(3, 2), _rounded(np.arctan2)),
]  # fmt: skip


def _quotient_by_reciprocal(a: np.ndarray, b: np.ndarray, element: str) -> np.ndarray:
    """The reciprocal of a number above 2^126 is zero (Tile IR, `divf`)."""
    quotient = (a.astype(np.float64) / b.astype(np.float64)).astype(np.float32)
    return np.where((np.abs(b) > 2.0**126) & np.isfinite(b), a * np.float32(0), quotient)


def _flushed(function: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """Flush subnormal inputs and results to zero."""

    def flush(values: np.ndarray) -> np.ndarray:
        return np.where(np.abs(values) < 2.0**-126, np.copysign(0.0, values), values)

    def reference(*arrays: np.ndarray) -> np.ndarray:
        return flush(function(*(flush(a.astype(np.float64)) for a in arrays[:-1])).astype(np.float32))

    return reference


# Bounds: Tile IR's for divf; the PTX ISA's for sqrt.approx (2^-23 of the result) and tanh.approx (2^-11); for exp, the
# programming guide's of __expf, which is the same two instructions: 2 and 1.173 times the argument.  Divisors below
# 2^-126 have no bound.
APPROXIMATE: list[tuple[str, str, tuple[tuple[str, str], ...], float, Callable[..., np.ndarray]]] = [
    ("divf approx", "divf %a, %b rounding<approx>", (("any", ""), ("normals", "")), 2, _quotient_by_reciprocal),
    ("divf full", "divf %a, %b rounding<full>", TWO, 2, _rounded(np.divide)),
    ("sqrt approx", "sqrt %a rounding<approx>", ONE, 2, _rounded(np.sqrt)),
    ("tanh approx", "tanh %a rounding<approx>", ONE, 2.0**13, _rounded(np.tanh)),
    ("tanh approx unit", "tanh %a rounding<approx>", (("unit", ""),), 2.0**13, _rounded(np.tanh)),
    ("exp approx", "exp %a rounding<approx>", (("unit", ""),), 3, _rounded(np.exp)),
    ("divf approx flush_to_zero", "divf %a, %b rounding<approx> flush_to_zero", (("any", ""), ("unit", "")), 2,
     _flushed(np.divide)),
    ("divf full flush_to_zero", "divf %a, %b rounding<full> flush_to_zero", TWO, 2, _flushed(np.divide)),
    ("sqrt approx flush_to_zero", "sqrt %a rounding<approx> flush_to_zero", ONE, 2, _flushed(np.sqrt)),
    ("exp2 flush_to_zero", "exp2 %a flush_to_zero", ONE, 2, _flushed(np.exp2)),
    ("rsqrt flush_to_zero", "rsqrt %a flush_to_zero", ONE, 2, _flushed(lambda a: 1 / np.sqrt(a))),
]  # fmt: skip
FUNCTION += [
    Row("function", name, f"{text} : {{t}}", ("f32",), operands, "", {"f32": bound}, reference)
    for name, text, operands, bound, reference in APPROXIMATE
]

# ---- conversions -----------------------------------------------------------------------------------------------------

EXPONENT, FOUR = "f8E8M0FNU", "f4E2M1FN"


def _nibble(sign: str) -> Callable[..., np.ndarray]:
    """i4 is the low half of the byte that carries it."""
    return lambda a, e: wrap((unsigned(a) + 8) % 16 - 8 if sign == "signed" else unsigned(a) % 16, e)


CONVERSION = [
    Row("conversion", f"exti {sign} {target}", f"exti %a {sign} : {{t}} -> {{r}}",
        tuple(e for e in INTEGERS_1 if width(e) < width(target)), ONE, target,
        reference=lambda a, e, read=read: wrap(read(a), e))
    for target in INTEGERS for sign, read in SIGNS.items()
]  # fmt: skip
CONVERSION += [
    Row("conversion", f"exti i4 {sign} {target}", f"exti %a {sign} : {{t}} -> {{r}}", ("i4",), ONE, target,
        reference=_nibble(sign))
    for target in INTEGERS for sign in SIGNS
]  # fmt: skip
CONVERSION += [
    Row("conversion", f"trunci {target}", "trunci %a : {t} -> {r}",
        tuple(e for e in INTEGERS if width(e) > width(target)), ONE, target,
        reference=lambda a, e: wrap(unsigned(a), e))
    for target in ("i1", "i4", *INTEGERS[:-1])
]  # fmt: skip
CONVERSION += [
    Row("conversion", f"itof {sign} {target}", f"itof %a {sign} : {{t}} -> {{r}}", INTEGERS_1, ONE, target,
        reference=from_integer(read))
    for target in (*FLOATS, *NARROW, FOUR, "tf32") for sign, read in SIGNS.items()
]  # fmt: skip
CONVERSION += [
    Row("conversion", f"ftof {target}", "ftof %a : {t} -> {r}",
        tuple(e for e in (*FLOATS, *NARROW, EXPONENT, FOUR, "tf32") if e != target), ONE, target,
        reference=_rounded(np.positive) if target in ("f32", "f64") else nearest)
    for target in (*FLOATS, *NARROW, FOUR, "tf32")
]  # fmt: skip
CONVERSION += [
    Row("conversion", f"ftof {mode} {domain} {EXPONENT}", f"ftof %a rounding<{mode}> : {{t}} -> {{r}}", elements,
        ((domain, ""),), EXPONENT, reference=power_of_two(mode == "positive_inf"))
    for mode in ("zero", "positive_inf")
    for domain, elements in (("any", (*FLOATS, *NARROW, FOUR, "tf32")), ("halves", ("f64",)), ("normals", ("f32",)))
]  # fmt: skip
CONVERSION += [
    Row("conversion", f"ftoi {sign} {target}", f"ftoi %a {sign} : {{t}} -> {{r}}", (*FLOATS, *NARROW, FOUR, "tf32"),
        ((("fits:" if sign == "signed" else "ufits:") + target, ""),), target,
        reference=lambda a, e: wrap(np.vectorize(int, otypes=[object])(a.astype(np.float64)), e))
    for target in INTEGERS for sign in SIGNS
]  # fmt: skip
CONVERSION += [
    Row("conversion", f"ftoi {sign} i1", f"ftoi %a {sign} : {{t}} -> {{r}}", (*FLOATS, *NARROW), ONE, "i1",
        reference=lambda a, e: a.astype(np.float64) != 0)
    for sign in SIGNS
]  # fmt: skip


def _saturated(read: str) -> Callable[..., np.ndarray]:
    def reference(a: np.ndarray, element: str) -> np.ndarray:
        bits = width(element)
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if read == "signed" else (0, (1 << bits) - 1)

        def one(x: float) -> int:
            return 0 if x != x else low if x <= low else high if x >= high else int(x)

        return wrap(np.vectorize(one, otypes=[object])(a.astype(np.float64)), element)

    return reference


CONVERSION += [
    Row("conversion", f"ftoi {sign} saturating {target}", f"ftoi %a {sign} saturating : {{t}} -> {{r}}",
        (*FLOATS, *NARROW, EXPONENT, FOUR, "tf32"), ONE, target, reference=_saturated(sign))
    for target in INTEGERS_1 for sign in SIGNS
]  # fmt: skip
CONVERSION += [
    # Halfway between two numbers with significands of three to 24 bits, and slightly more or less than f32 resolves.
    Row("conversion", f"ftof halves {target}", "ftof %a : {t} -> {r}", ("f64",), (("halves", ""),), target,
        reference=nearest)
    for target in ("f16", "bf16", *NARROW, FOUR, "tf32")
]  # fmt: skip
CONVERSION += [
    Row("conversion", f"itof halves {sign} {target}", f"itof %a {sign} : {{t}} -> {{r}}", ("i32", "i64"),
        (("halves", ""),), target, reference=from_integer(read))
    for target in ("bf16", "f32", "f64", "tf32") for sign, read in SIGNS.items()
]  # fmt: skip
BITS = (*INTEGERS, *FLOATS, *NARROW, EXPONENT)
CONVERSION += [
    Row("conversion", f"bitcast {target}", "bitcast %a : {t} -> {r}",
        tuple(e for e in BITS if e != target and width(e) == width(target)), ONE, target,
        reference=lambda a, e: a.view(DTYPES[e]))
    for target in BITS
]  # fmt: skip
SELECT = [
    Row("select", "select", "select %a, %b, %c : {t0}, {t1}", (*INTEGERS_1, *FLOATS, *NARROW, EXPONENT),
        (("any", "i1"), ("any", ""), ("any", "")), reference=lambda a, b, c, e: np.where(a, b, c)),
]  # fmt: skip

ROWS = [row for row in (*INTEGER, *FLOAT, *FUNCTION, *CONVERSION, *SELECT) if row.elements]
