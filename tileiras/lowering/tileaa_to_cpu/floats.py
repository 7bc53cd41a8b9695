"""Arithmetic of floats, rounded as the operation says, and functions of one or two numbers.

Formats narrower than f32 are computed with in f32 and rounded again, which is harmless: f32 has more than twice their
precision plus two bits.  A multiply-add of them goes through f64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .access import Ways
from .code import constant, float_literal, suffix, vector
from .directed import fused, rounded_towards
from .elements import EQUAL, Lanes
from .elementwise import Rule, result_kind, rule
from .formats import encode
from .functions import FUNCTIONS, call_function

if TYPE_CHECKING:
    from .lower import Lowering

_SMALLEST_NORMAL = 2.0**-126


def is_flushed(op: Any) -> bool:
    """Whether an operation reads and writes subnormal f32 numbers as zeros."""
    return "flush_to_zero" in op.attributes or "nv_tileaa.flush_to_zero" in op.attributes


def flush(low: Lowering, op: Any, type: str, count: int, number: str) -> str:
    """A number of an operation that reads and writes subnormal f32 numbers as zeros."""
    if not is_flushed(op) or type != "float":
        return number
    code, whole = low.code, vector("float", count)
    size = code.intrinsic("fabs", "float", count, number)
    small = code.value(f"fcmp olt {whole} {size}, {constant('float', count, float_literal(_SMALLEST_NORMAL))}")
    zero = code.intrinsic("copysign", "float", count, constant("float", count, float_literal(0.0)), number)
    return code.value(f"select {vector('i1', count)} {small}, {whole} {zero}, {whole} {number}")


def finish(low: Lowering, op: Any, kind: Any, count: int, number: str) -> Lanes:
    """The result of an operation from its f32 or f64 number."""
    number = flush(low, op, kind.number, count, number)
    if kind.format:
        return Lanes(kind, count, bits=encode(low.code, kind.format, count, number))
    return Lanes(kind, count, number)


def numbers(low: Lowering, op: Any, operands: Sequence[Lanes]) -> list[str]:
    return [
        flush(low, op, each.kind.number, each.count, each.number(low.code)) if each.kind.is_float
        else each.number(low.code)
        for each in operands
    ]  # fmt: skip


def _mode(op: Any) -> str:
    """The rounding mode; an approximation is rounded to nearest."""
    attribute = op.attributes.get("rounding_mode")
    word = "nearest_even" if attribute is None else attribute.value
    return "nearest_even" if word in ("approx", "full") else word


def _rounded(name: str, nearest: Rule) -> None:
    """Register an operation: a rule for rounding to nearest, and the directed modes."""

    def apply(low: Lowering, op: Any, operands: Sequence[Lanes]) -> Lanes:
        mode = _mode(op)
        if mode == "nearest_even":
            return nearest(low, op, operands)
        kind, count = operands[0].kind, operands[0].count
        result = rounded_towards(low.code, name, kind, count, numbers(low, op, operands), mode)
        if kind.format:
            return result
        return Lanes(kind, count, flush(low, op, kind.number, count, result.number(low.code)))

    rule(f"nv_tileaa.{name}")(apply)


def _binary(instruction: str) -> Rule:
    def apply(low: Lowering, op: Any, operands: Sequence[Lanes]) -> Lanes:
        lhs, rhs = numbers(low, op, operands)
        name = low.code.value(f"{instruction} {operands[0].type} {lhs}, {rhs}")
        return finish(low, op, operands[0].kind, operands[0].count, name)

    return apply


def _fma(low: Lowering, op: Any, operands: Sequence[Lanes]) -> Lanes:
    code, kind, count = low.code, operands[0].kind, operands[0].count
    fma = numbers(low, op, operands)
    if not kind.format:
        return finish(low, op, kind, count, code.intrinsic("fma", kind.number, count, *fma))
    return fused(code, kind, count, fma)


def _unary(intrinsic: str) -> Rule:
    def apply(low: Lowering, op: Any, operands: Sequence[Lanes]) -> Lanes:
        (value,) = operands
        (number,) = numbers(low, op, operands)
        return finish(
            low, op, value.kind, value.count, low.code.intrinsic(intrinsic, value.kind.number, value.count, number)
        )

    return apply


_DIVISORS = (2.0**-24, 2.0**24)
_QUOTIENT = 2.0**-76
"""Magnitudes of f32 divisors, and the least one of their quotients, for which no step below is subnormal: dividends are
2^-100 at least.  An infinite step makes NaN."""


def _quotient(low: Lowering, op: Any, operands: Sequence[Lanes]) -> Lanes:
    """The quotient; by equal divisors with their reciprocal, which takes a third of the time.

    The product with the rounded reciprocal and one step of correction are the rounded quotient (Markstein, "Computation
    of Elementary Functions on the IBM RISC System/6000 Processor", IBM J. Res. Dev. 34, 1990, theorem 8.2).
    """
    dividend, divisor = operands
    count = dividend.count
    if divisor.steps != EQUAL or divisor.kind.number != "float" or count < low.features.lanes:
        return _binary("fdiv")(low, op, operands)
    code, type, truth = low.code, dividend.type, vector("i1", count)
    x, d = numbers(low, op, operands)
    one = code.element("float", count, d, 0)
    size = code.intrinsic("fabs", "float", 1, one)
    bounds = [code.value(f"fcmp {word} float {size}, {float_literal(limit)}")
              for word, limit in zip(("oge", "ole"), _DIVISORS)]  # fmt: skip
    reciprocal = code.splat("float", count, code.value(f"fdiv float {float_literal(1.0)}, {one}"))
    near = code.value(f"fmul {type} {x}, {reciprocal}")
    rest = code.intrinsic("fma", "float", count, code.value(f"fneg {type} {near}"), d, x)
    intrinsic = code.intrinsic("fma", "float", count, rest, reciprocal, near)
    size = code.intrinsic("fabs", "float", count, intrinsic)
    inside = code.value(f"fcmp oge {type} {size}, {constant('float', count, float_literal(_QUOTIENT))}")
    all_ = code.call(f"llvm.vector.reduce.and.{suffix('i1', count)}", "i1", [(truth, inside)])
    ways = Ways(code, code.value(f"and i1 {code.value(f'and i1 {bounds[0]}, {bounds[1]}')}, {all_}"))
    with ways.way():
        ways.result(intrinsic)
    with ways.way():
        ways.result(code.value(f"fdiv {type} {x}, {d}"))
    code.start(ways.after)
    return finish(low, op, dividend.kind, count, code.phi(type, ways.incoming))


def _divf(low: Lowering, op: Any, operands: Sequence[Lanes]) -> Lanes:
    """The quotient; an approximate one by a divisor above 2^126 vanishes, as its reciprocal does."""
    quotient = _quotient(low, op, operands)
    mode = op.attributes.get("rounding_mode")
    if mode is None or mode.value != "approx":
        return quotient
    code, count, (lhs, rhs) = low.code, quotient.count, numbers(low, op, operands)
    type, truth = vector("float", count), vector("i1", count)

    def number(value: float) -> str:
        return constant("float", count, float_literal(value))

    sizes = [code.intrinsic("fabs", "float", count, each) for each in (lhs, rhs)]
    above = code.value(f"fcmp ogt {type} {sizes[1]}, {number(2.0**126)}")
    finite = code.value(f"fcmp one {type} {sizes[1]}, {number(math.inf)}")
    defined = code.value(f"fcmp ord {type} {lhs}, {number(0.0)}")
    huge = code.value(f"and {truth} {code.value(f'and {truth} {above}, {finite}')}, {defined}")
    zero = code.intrinsic("copysign", "float", count, number(0.0), quotient.number(code))
    infinite = code.value(f"fcmp oeq {type} {sizes[0]}, {number(math.inf)}")
    vanished = code.value(f"select {truth} {infinite}, {type} {number(math.nan)}, {type} {zero}")
    result = code.value(f"select {truth} {huge}, {type} {vanished}, {type} {quotient.number(code)}")
    return Lanes(quotient.kind, count, result)


for _name, _instruction in {"addf": "fadd", "subf": "fsub", "mulf": "fmul"}.items():
    _rounded(_name, _binary(_instruction))
_rounded("divf", _divf)
_rounded("fma", _fma)
_rounded("sqrt", _unary("sqrt"))
for _name, _intrinsic in {"absf": "fabs", "ceil": "ceil", "floor": "floor"}.items():
    rule(f"math.{_name}")(_unary(_intrinsic))


@rule("arith.negf")
def _negf(low: Lowering, op: Any, operands: Sequence[Lanes]) -> Lanes:
    (value,) = operands
    return finish(
        low, op, value.kind, value.count, low.code.value(f"fneg {value.type} {value.number(low.code)}")
    )


@rule("arith.remf")
def _remf(low: Lowering, op: Any, operands: Sequence[Lanes]) -> Lanes:
    lhs, rhs = numbers(low, op, operands)
    name = low.code.value(f"frem {operands[0].type} {lhs}, {rhs}")
    return finish(low, op, operands[0].kind, operands[0].count, name)


def _extremum(intrinsic: str) -> Rule:
    def apply(low: Lowering, op: Any, operands: Sequence[Lanes]) -> Lanes:
        lhs, rhs = numbers(low, op, operands)
        kind, count = operands[0].kind, operands[0].count
        return finish(low, op, kind, count, low.code.intrinsic(intrinsic, kind.number, count, lhs, rhs))

    return apply


for _name, _intrinsic in {
    "maximumf": "maximum", "minimumf": "minimum", "maxnumf": "maximumnum", "minnumf": "minimumnum",
}.items():  # fmt: skip
    rule(f"arith.{_name}")(_extremum(_intrinsic))


@rule("arith.cmpf")
def _cmpf(low: Lowering, op: Any, operands: Sequence[Lanes]) -> Lanes:
    lhs, rhs = (each.number(low.code) for each in operands)
    name = low.code.value(f"fcmp {op.predicate.value} {operands[0].type} {lhs}, {rhs}")
    return Lanes(result_kind(op), operands[0].count, name)


def _function(name: str) -> Rule:
    def apply(low: Lowering, op: Any, operands: Sequence[Lanes]) -> Lanes:
        kind, count = operands[0].kind, operands[0].count
        result = numbers(low, op, operands)
        return finish(low, op, kind, count, call_function(low.code, name, kind.number, count, result))

    return apply


for _name in FUNCTIONS:
    rule(f"math.{_name}")(_function(_name))


@rule("math.fpowi")
def _fpowi(low: Lowering, op: Any, operands: Sequence[Lanes]) -> Lanes:
    """The exponent as a number: of 64 bits in f64, where those that differ by rounding have the same power."""
    base, exponent = operands
    code, count = low.code, base.count
    wide = vector("double", count)
    power = code.value(f"sitofp {exponent.type} {exponent.number(code)} to {wide}")
    number = base.number(code)
    if base.kind.number == "float":
        number = code.value(f"fpext {base.type} {number} to {wide}")
    result = call_function(code, "powf", "double", count, [number, power])
    if base.kind.number == "float":
        result = code.value(f"fptrunc {wide} {result} to {base.type}")
    return finish(low, op, base.kind, count, result)
