"""Integer and floating-point arithmetic, comparisons, bit operations and select."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .machine import Machine, as_tile, attribute, meaning
from .rounding import FLOAT_DTYPES, compute, flush
from .values import dtype_of, signed, undefine, unsigned, wrap

if TYPE_CHECKING:
    from tileiras.dialects import cuda_tile


def flushes(op: cuda_tile.TileOp) -> bool:
    return "flush_to_zero" in op.attributes


def _element(op: cuda_tile.TileOp):
    return op.operands[0].type.element_type


# -- floating point ------------------------------------------------------------------------------------------------


def _rounded(name: str):
    def apply(machine: Machine, op: cuda_tile.AddFOp | cuda_tile.SubFOp):
        mode = attribute(op, "rounding_mode", "nearest_even")
        return compute(name, machine.operands(op), _element(op).keyword, mode, flushes(op))

    return apply


for _mnemonic, _name in {"addf": "add", "subf": "sub", "mulf": "mul", "fma": "fma"}.items():
    meaning(_mnemonic, elementwise=True)(_rounded(_name))


@meaning("divf", elementwise=True)
def divf(machine: Machine, op: cuda_tile.DivFOp):
    mode = attribute(op, "rounding_mode", "nearest_even")
    lhs, rhs = machine.operands(op)
    exact = compute("div", [lhs, rhs], _element(op).keyword, "nearest_even" if mode in ("approx", "full") else mode,
                    flushes(op))  # fmt: skip
    if mode != "approx":
        return exact
    # The approximation multiplies by a reciprocal that underflows for the largest divisors.
    huge = (np.abs(rhs) > np.float32(2.0**126)) & np.isfinite(rhs) & ~np.isnan(lhs)
    vanished = np.where(np.isinf(lhs), np.float32(np.nan), np.copysign(np.float32(0), exact))
    return np.where(huge, vanished, exact)


@meaning("sqrt", elementwise=True)
def sqrt(machine: Machine, op: cuda_tile.SqrtOp):
    mode = attribute(op, "rounding_mode", "nearest_even")
    mode = "nearest_even" if mode in ("approx", "full") else mode
    return compute("sqrt", machine.operands(op), _element(op).keyword, mode, flushes(op))


@meaning("absf", elementwise=True)
def absf(machine: Machine, op: cuda_tile.AbsFOp):
    return as_tile(np.abs(machine[op.operands[0]]), dtype_of(_element(op)))


@meaning("negf", elementwise=True)
def negf(machine: Machine, op: cuda_tile.NegFOp):
    return as_tile(np.negative(machine[op.operands[0]]), dtype_of(_element(op)))


def _extremum(machine: Machine, op: cuda_tile.MaxFOp | cuda_tile.MinFOp, sign: int):
    """IEEE 754-2019 maximum/minimum (propagate_nan) or maximumNumber/minimumNumber; -0 orders below +0."""
    lhs, rhs = machine.operands(op)
    if flushes(op):
        lhs, rhs = flush(lhs), flush(rhs)
    x, y = (np.asarray(v).astype(np.float64) * sign for v in (lhs, rhs))
    first = (x > y) | ((x == y) & ~np.signbit(x))
    result = np.where(first, lhs, rhs)
    if "propagate_nan" in op.attributes:
        result = np.where(np.isnan(x) | np.isnan(y), np.asarray(np.nan, result.dtype), result)
    else:
        result = np.where(np.isnan(x), rhs, np.where(np.isnan(y), lhs, result))
    return as_tile(result, FLOAT_DTYPES[_element(op).keyword])


@meaning("maxf", elementwise=True)
def maxf(machine: Machine, op: cuda_tile.MaxFOp):
    return _extremum(machine, op, 1)


@meaning("minf", elementwise=True)
def minf(machine: Machine, op: cuda_tile.MinFOp):
    return _extremum(machine, op, -1)


_PREDICATES = {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less_than": np.less,
    "less_than_or_equal": np.less_equal,
    "greater_than": np.greater,
    "greater_than_or_equal": np.greater_equal,
}


@meaning("cmpf", elementwise=True)
def cmpf(machine: Machine, op: cuda_tile.CmpFOp):
    lhs, rhs = (np.asarray(v).astype(np.float64) for v in machine.operands(op))
    holds = _PREDICATES[op.attributes["comparison_predicate"].value](lhs, rhs)
    unordered = np.isnan(lhs) | np.isnan(rhs)
    if attribute(op, "comparison_ordering", "ordered") == "ordered":
        return np.asarray(holds & ~unordered)
    return np.asarray(holds | unordered)


# -- integers ------------------------------------------------------------------------------------------------------


def _is_signed(op: cuda_tile.TileOp) -> bool:
    return attribute(op, "signedness", "signed") == "signed"


def _signed_operands(machine: Machine, op: cuda_tile.CmpIOp | cuda_tile.DivIOp | cuda_tile.RemIOp) -> list[np.ndarray]:
    """The operands in the signedness of the operation."""
    convert = signed if _is_signed(op) else unsigned
    width = _element(op).width
    return [convert(value, width) for value in machine.operands(op)]


@meaning("cmpi", elementwise=True)
def cmpi(machine: Machine, op: cuda_tile.CmpIOp):
    lhs, rhs = _signed_operands(machine, op)
    return np.asarray(_PREDICATES[op.attributes["comparison_predicate"].value](lhs, rhs))


_WRAPPING = {"addi": np.add, "subi": np.subtract, "muli": np.multiply}


def _wide(
    function: Callable[..., np.ndarray],
    operands: Sequence[np.ndarray],
    width: int,
    convert: Callable[[np.ndarray, int], np.ndarray],
):
    """An operation in Python integers, for the overflow rule of 64-bit operands."""
    wide = [convert(v, width).astype(object if width == 64 else np.int64) for v in operands]
    return np.asarray(function(*wide))


def _overflow_undefined(
    op: cuda_tile.AddIOp | cuda_tile.MulIOp | cuda_tile.SubIOp,
    result: np.ndarray,
    operands: Sequence[int | np.ndarray],
    function: Callable[..., np.ndarray],
):
    """``result`` with undefined elements where it overflows contrary to the overflow attribute."""
    promise = attribute(op, "overflow", "none")
    if promise == "none":
        return result
    element = _element(op)
    width = element.width
    broken = np.zeros(np.shape(result), bool)
    if promise in ("no_signed_wrap", "no_wrap"):
        broken = broken | (_wide(function, operands, width, signed) != signed(result, width)).astype(bool)
    if promise in ("no_unsigned_wrap", "no_wrap"):
        broken = broken | (_wide(function, operands, width, unsigned) != unsigned(result, width)).astype(bool)
    return undefine(result, broken, element)


@meaning("addi", "subi", "muli", elementwise=True)
def wrapping(machine: Machine, op: cuda_tile.AddIOp | cuda_tile.MulIOp | cuda_tile.SubIOp):
    function = _WRAPPING[op.name.partition(".")[2]]
    width = _element(op).width
    operands = machine.operands(op)
    result = wrap(function(*(unsigned(v, width) for v in operands)), width)
    return _overflow_undefined(op, result, operands, function)


@meaning("negi", elementwise=True)
def negi(machine: Machine, op: cuda_tile.NegIOp):
    width = _element(op).width
    operands = machine.operands(op)
    result = wrap(np.negative(unsigned(operands[0], width)), width)
    return _overflow_undefined(op, result, operands, np.negative)


@meaning("absi", elementwise=True)
def absi(machine: Machine, op: cuda_tile.AbsIOp):
    width = _element(op).width
    return wrap(np.abs(signed(machine[op.operands[0]], width)), width)


def high_bits(lhs: np.ndarray, rhs: np.ndarray, width: int) -> np.ndarray:
    """The upper half of the unsigned product."""
    x, y = (unsigned(v, width).astype(np.uint64) for v in (lhs, rhs))
    if width < 64:
        return wrap((x * y) >> np.uint64(width), width)
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    x0, x1, y0, y1 = x & low, x >> half, y & low, y >> half
    middle = x1 * y0 + (x0 * y0 >> half)
    return wrap(x1 * y1 + (middle >> half) + ((x0 * y1 + (middle & low)) >> half), width)


@meaning("mulhii", elementwise=True)
def mulhii(machine: Machine, op: cuda_tile.MulhiIOp):
    return high_bits(*machine.operands(op), _element(op).width)


def _divide(machine: Machine, op: cuda_tile.DivIOp | cuda_tile.RemIOp):
    """Truncated quotient and remainder, and where they are undefined (zero divisor, signed overflow)."""
    lhs, rhs = _signed_operands(machine, op)
    width = _element(op).width
    bad = rhs == 0
    if _is_signed(op):
        bad = bad | ((rhs == -1) & (lhs == -(1 << (width - 1))))
    divisor = np.where(bad, np.ones_like(rhs), rhs)
    remainder = np.fmod(lhs, divisor)
    quotient = (lhs - remainder) // divisor
    return lhs, divisor, quotient, remainder, bad


@meaning("divi", elementwise=True)
def divi(machine: Machine, op: cuda_tile.DivIOp):
    lhs, divisor, quotient, remainder, bad = _divide(machine, op)
    mode = attribute(op, "rounding", "zero")
    inexact = remainder != 0
    opposite = (lhs < 0) != (divisor < 0)
    if mode == "positive_inf":
        quotient = quotient + (inexact & ~opposite).astype(quotient.dtype)
    elif mode == "negative_inf":
        quotient = quotient - (inexact & opposite).astype(quotient.dtype)
    element = _element(op)
    return undefine(wrap(quotient, element.width), bad, element, is_inverted=True)


@meaning("remi", elementwise=True)
def remi(machine: Machine, op: cuda_tile.RemIOp):
    _, _, _, remainder, bad = _divide(machine, op)
    element = _element(op)
    return undefine(wrap(remainder, element.width), bad, element, is_inverted=True)


@meaning("maxi", elementwise=True)
def maxi(machine: Machine, op: cuda_tile.MaxIOp):
    return wrap(np.maximum(*_signed_operands(machine, op)), _element(op).width)


@meaning("mini", elementwise=True)
def mini(machine: Machine, op: cuda_tile.MinIOp):
    return wrap(np.minimum(*_signed_operands(machine, op)), _element(op).width)


_BITWISE = {"andi": np.bitwise_and, "ori": np.bitwise_or, "xori": np.bitwise_xor}


@meaning("andi", "ori", "xori", elementwise=True)
def bitwise(machine: Machine, op: cuda_tile.AndIOp | cuda_tile.OrIOp | cuda_tile.XOrIOp):
    return as_tile(_BITWISE[op.name.partition(".")[2]](*machine.operands(op)), dtype_of(_element(op)))


@meaning("shli", elementwise=True)
def shli(machine: Machine, op: cuda_tile.ShLIOp):
    width = _element(op).width
    lhs, amount = (unsigned(v, width) for v in machine.operands(op))
    # The specification does not define shifts by the width or more, which are poison in MLIR and LLVM.
    broken = amount >= width
    back = np.where(broken, 0, amount).astype(lhs.dtype)
    result = wrap(lhs << back, width)
    promise = attribute(op, "overflow", "none")
    # A promise is broken when shifting back does not restore the operand.
    if promise in ("no_signed_wrap", "no_wrap"):
        restored = signed(result, width) >> back.astype(result.dtype)
        broken = broken | (restored != signed(wrap(lhs, width), width))
    if promise in ("no_unsigned_wrap", "no_wrap"):
        broken = broken | ((unsigned(result, width) >> back) != lhs)
    return undefine(result, broken, _element(op))


@meaning("shri", elementwise=True)
def shri(machine: Machine, op: cuda_tile.ShRIOp):
    width = _element(op).width
    value, amount = machine.operands(op)
    amount = unsigned(amount, width)
    value = signed(value, width) if _is_signed(op) else unsigned(value, width)
    broken = amount >= width
    shifted = value >> np.where(broken, 0, amount).astype(value.dtype)
    return undefine(wrap(shifted, width), broken, _element(op))


@meaning("select", elementwise=True)
def select(machine: Machine, op: cuda_tile.SelectOp):
    condition, value, other = machine.operands(op)
    return as_tile(np.where(condition, value, other), dtype_of(op.operands[1].type.element_type))
