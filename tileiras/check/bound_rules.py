"""The interval of each operation's result from those of its operands.

A rule is given the machine, the operation, the operands' values and intervals (None: exact) and the interpreter's
result; it returns the result's interval, or None for an exact one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tileiras.ir import FLOAT_SEMANTICS, FloatType, Operation
from tileiras.sim.interpreter.functions import PLAIN
from tileiras.sim.interpreter.machine import attribute

from .bounds import Bounds, hull, is_anything, is_point, point, round_ends, rounded, settle, widen

if TYPE_CHECKING:
    from .tracking import TrackingMachine

Values = Sequence[Any]
"""Values of the operands."""
Intervals = Sequence[Bounds | None]
Rule = Callable[["TrackingMachine", Operation, Values, Intervals, Any], Any]

RULES: dict[str, Rule] = {}
"""Full name of an operation -> its rule."""
SOURCES: set[str] = set()
"""Operations whose result may be inexact where all operands are exact."""

TINY = 2.0**-126
"""The smallest normal f32, below which `ftz` flushes."""

FUNCTION_ULPS = {
    "exp": (2, 1), "exp2": (2, 1), "log": (1, 1), "log2": (1, 1), "rsqrt": (2, 1), "sin": (2, 2), "cos": (2, 2),
    "tan": (4, 2), "tanh": (2, 1), "sinh": (3, 2), "cosh": (2, 1), "fpowf": (4, 2), "fpowi": (1, 1), "pow": (4, 2),
    "atan2": (3, 2),
}  # fmt: skip
"""Largest errors in f32 and in f64: CUDA C++ Programming Guide, appendix on mathematical functions.  Functions of
narrower formats go through f32 and are rounded once more."""
APPROXIMATE_ULPS = 2
"""Largest error of div.full, div.approx and sqrt.approx in f32 (PTX ISA, floating-point instructions)."""
APPROXIMATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exp": lambda x: (2 + np.floor(1.173 * np.abs(x))) * 2.0**-23,
    "tanh": lambda x: np.full(np.shape(x), 2.0**-10.987),
}
"""Largest relative error by operand of functions of f32 with rounding `approx`: `__expf` (CUDA C++ Programming Guide,
intrinsic functions), `tanh.approx` (PTX ISA)."""
_MONOTONE = {"exp", "exp2", "log", "log2", "rsqrt", "tanh", "sinh"}


def rule(*mnemonics: str, source: bool = False) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        for mnemonic in mnemonics:
            RULES[f"cuda_tile.{mnemonic}"] = function
            if source:
                SOURCES.add(f"cuda_tile.{mnemonic}")
        return function

    return register


def _ends(values: Sequence[Any], bounds: Sequence[Bounds | None]) -> list[Bounds]:
    return [point(value) if each is None else each for value, each in zip(values, bounds)]


def _fixed(ends: Sequence[Bounds]) -> np.ndarray:
    fixed: Any = True
    for each in ends:
        fixed = fixed & is_point(each)
    return fixed


def _element(op: Operation) -> Any:
    return op.results[0].type.element_type


def _flush(machine: TrackingMachine, op: Operation, bounds: Bounds) -> Bounds:
    """With `ftz` code may use a subnormal f32 unchanged or flush it to zero."""
    if not machine.ftz or getattr(_element(op), "keyword", "") != "f32":
        return bounds
    small = (bounds.low < TINY) & (bounds.high > -TINY)
    return Bounds(
        np.where(small & (np.abs(bounds.low) < TINY), np.minimum(bounds.low, 0.0), bounds.low),
        np.where(small & (np.abs(bounds.high) < TINY), np.maximum(bounds.high, 0.0), bounds.high),
    )


# -- arithmetic ------------------------------------------------------------------------------------------------------


def _corners(function: Callable[..., np.ndarray], ends: Sequence[Bounds]) -> tuple[np.ndarray, np.ndarray]:
    choices: list[list[np.ndarray]] = [[]]
    for each in ends:
        choices = [[*before, end] for before in choices for end in (each.low, each.high)]
    return hull([function(*choice) for choice in choices])


def _quotient(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x / y


_ARITHMETIC = {
    "addf": np.add, "subf": np.subtract, "mulf": np.multiply, "divf": _quotient, "fma": lambda a, b, c: a * b + c,
}  # fmt: skip


@rule("addf", "subf", "mulf", "divf", "fma", source=True)
def arithmetic(
    machine: TrackingMachine, op: Operation, values: Values, bounds: Intervals, result: np.ndarray
) -> Bounds | None:
    name, keyword = op.name.partition(".")[2], _element(op).keyword
    mode = attribute(op, "rounding_mode", "nearest_even")
    loose = name == "divf" and keyword == "f32" and (mode in ("approx", "full") or machine.approx)
    if all(each is None for each in bounds) and not loose and not machine.ftz:
        return None
    ends = [_flush(machine, op, each) for each in _ends(values, bounds)]
    low, high = _corners(_ARITHMETIC[name], ends)
    if name == "divf":
        through_zero = (ends[1].low <= 0) & (ends[1].high >= 0) & ~is_point(ends[1])
        low, high = np.where(through_zero, -np.inf, low), np.where(through_zero, np.inf, high)
    low, high = round_ends(low, high, keyword, "nearest_even" if mode in ("approx", "full") else mode)
    fixed = _fixed(ends) & (not loose)
    if loose:
        low, high = widen(low, APPROXIMATE_ULPS, keyword)[0], widen(high, APPROXIMATE_ULPS, keyword)[1]
        fixed = _fixed(ends) & ~np.isfinite(np.asarray(result).astype(np.float64))
    wide = _flush(machine, op, Bounds(*hull([low, high, np.asarray(result).astype(np.float64)])))
    return settle(wide.low, wide.high, result, fixed & (wide.low == wide.high))


@rule("sqrt", source=True)
def square_root(
    machine: TrackingMachine, op: Operation, values: Values, bounds: Intervals, result: np.ndarray
) -> Bounds | None:
    keyword = _element(op).keyword
    loose = keyword == "f32" and (attribute(op, "rounding_mode", "nearest_even") == "approx" or machine.approx)
    if bounds[0] is None and not loose and not machine.ftz:
        return None
    ends = _flush(machine, op, _ends(values, bounds)[0])
    low, high = round_ends(np.sqrt(ends.low), np.sqrt(ends.high), keyword)
    if loose:
        low, high = widen(low, APPROXIMATE_ULPS, keyword)[0], widen(high, APPROXIMATE_ULPS, keyword)[1]
    special = ~np.isfinite(np.asarray(result).astype(np.float64)) | (np.asarray(values[0]) == 0)
    return settle(low, high, result, is_point(ends) & (special | (low == high)))


def _power_by_multiplications(values: Values, low: np.ndarray, high: np.ndarray, keyword: str) -> Bounds:
    """The ends of x to the power of an integer: `__nv_powi` multiplies, at most as often as the exponent says, and
    takes the reciprocal for a negative exponent, of a power that may be infinite where the result is subnormal."""
    count = np.abs(np.asarray(values[1]).astype(np.int64))
    low, high = widen(low, count, keyword)[0], widen(high, count, keyword)[1]
    underflows = np.minimum(np.abs(low), np.abs(high)) <= 2 * np.ldexp(1.0, FLOAT_SEMANTICS[keyword].smallest_exponent)
    return Bounds(np.where(underflows, np.minimum(low, 0.0), low), np.where(underflows, np.maximum(high, 0.0), high))


def _function_ulps(op: Operation, name: str, keyword: str, ends: Sequence[Bounds]) -> Any:
    """The largest error of a function in units of the last place, for all results or for each."""
    units = FUNCTION_ULPS[name][keyword == "f64"] if keyword in ("f32", "f64") else 1
    if name not in APPROXIMATIONS or attribute(op, "rounding_mode", "full") != "approx":
        return units
    operand = np.maximum(np.abs(ends[0].low), np.abs(ends[0].high))
    relative = APPROXIMATIONS[name](np.where(np.isfinite(operand), operand, 0.0))
    return np.maximum(units, relative * 2.0**24)


@rule(*FUNCTION_ULPS, source=True)
def function(
    machine: TrackingMachine, op: Operation, values: Values, bounds: Intervals, result: np.ndarray
) -> Bounds | None:
    name, keyword = op.name.partition(".")[2], _element(op).keyword
    ends = _ends(values, bounds)
    units = _function_ulps(op, name, keyword, ends)
    if all(each is None for each in bounds):
        low = high = np.asarray(result).astype(np.float64)
    elif name in _MONOTONE:
        low, high = hull([rounded(PLAIN[name](end), keyword) for end in ends[0]])
    elif name in ("sin", "cos"):
        width, middle = ends[0].high - ends[0].low, np.asarray(result).astype(np.float64)
        low, high = np.maximum(middle - width, -1.0), np.minimum(middle + width, 1.0)
    else:
        machine.unruled.add(op.name)
        low, high = np.full(np.shape(result), -np.inf), np.full(np.shape(result), np.inf)
    low, high = widen(low, units, keyword)[0], widen(high, units, keyword)[1]
    if name == "fpowi":
        low, high = _power_by_multiplications(values, low, high, keyword)
    if machine.ftz and keyword == "f32":
        low, high = np.where(np.abs(low) < TINY, -TINY, low), np.where(np.abs(high) < TINY, TINY, high)
    # NaN results, and infinite results of infinite operands, are fixed by the specification.
    wide = np.asarray(result).astype(np.float64)
    operand = np.asarray(values[0]).astype(np.float64)
    return settle(low, high, result, _fixed(ends) & (np.isnan(wide) | (np.isinf(wide) & ~np.isfinite(operand))))


@rule("maxf", "minf", "absf", "negf", "floor", "ceil")
def order(
    machine: TrackingMachine, op: Operation, values: Values, bounds: Intervals, result: np.ndarray
) -> Bounds | None:
    name, ends = op.name.partition(".")[2], _ends(values, bounds)
    fixed = _fixed(ends)
    if name in ("maxf", "minf"):
        pick = np.fmax if name == "maxf" else np.fmin
        low, high = pick(ends[0].low, ends[1].low), pick(ends[0].high, ends[1].high)
        if "propagate_nan" in op.attributes:
            unbounded = (is_anything(ends[0]) | is_anything(ends[1])) & ~fixed
            low, high = np.where(unbounded, -np.inf, low), np.where(unbounded, np.inf, high)
        return settle(low, high, result, fixed)
    low, high = ends[0]
    if name == "absf":
        around = (low < 0) & (high > 0)
        low, high = np.where(around, 0.0, np.minimum(np.abs(low), np.abs(high))), np.maximum(np.abs(low), np.abs(high))
    elif name == "negf":
        low, high = -high, -low
    else:
        low, high = (np.floor(low), np.floor(high)) if name == "floor" else (np.ceil(low), np.ceil(high))
    unbounded = is_anything(ends[0])
    return settle(np.where(unbounded, -np.inf, low), np.where(unbounded, np.inf, high), result, fixed)


# -- comparisons, truth values, integers -----------------------------------------------------------------------------

_LESS = {
    "less_than": np.less, "less_than_or_equal": np.less_equal, "greater_than": np.greater,
    "greater_than_or_equal": np.greater_equal,
}  # fmt: skip


@rule("cmpf", "cmpi")
def compare(
    machine: TrackingMachine, op: Operation, values: Values, bounds: Intervals, result: np.ndarray
) -> Bounds | None:
    if op.name == "cuda_tile.cmpi" and attribute(op, "signedness", "signed") != "signed":
        certain = _fixed(_ends(values, bounds))
    else:
        left, right = _ends(values, bounds)
        unbounded = (is_anything(left) & ~is_point(left)) | (is_anything(right) & ~is_point(right))
        holds = _LESS.get(op.attributes["comparison_predicate"].value)
        if holds is None:
            is_one = (left.low == left.high) & (right.low == right.high)  # zeros of either sign are equal
            certain = (left.high < right.low) | (right.high < left.low) | is_one
        else:
            certain = holds(left.low, right.high) == holds(left.high, right.low)
        certain = (certain & ~unbounded) | (is_point(left) & is_point(right))
    truth = np.asarray(result).astype(np.float64)
    return None if certain.all() else Bounds(np.where(certain, truth, 0.0), np.where(certain, truth, 1.0))


@rule("andi", "ori", "xori")
def logic(
    machine: TrackingMachine, op: Operation, values: Values, bounds: Intervals, result: np.ndarray
) -> Bounds | None:
    ends = _ends(values, bounds)
    if getattr(_element(op), "width", 0) != 1:
        return settle(np.full(np.shape(result), -np.inf), np.full(np.shape(result), np.inf), result, _fixed(ends))
    choose = {"andi": np.minimum, "ori": np.maximum}.get(op.name.partition(".")[2])
    if choose is None:
        return settle(np.zeros(np.shape(result)), np.ones(np.shape(result)), result, _fixed(ends))
    low, high = (choose(*(np.asarray(end) for end in pair)) for pair in zip(*ends))
    return settle(low, high, result, low == high)


@rule("select")
def select(
    machine: TrackingMachine, op: Operation, values: Values, bounds: Intervals, result: np.ndarray
) -> Bounds | None:
    condition, if_true, if_false = _ends(values, bounds)
    sure = is_point(condition)
    truth = np.broadcast_to(condition.high > 0, np.shape(result))
    low, high = hull([if_true.low, if_false.low])[0], hull([if_true.high, if_false.high])[1]
    low = np.where(sure, np.where(truth, if_true.low, if_false.low), low)
    high = np.where(sure, np.where(truth, if_true.high, if_false.high), high)
    return settle(low, high, result, sure & np.where(truth, is_point(if_true), is_point(if_false)))


_WHOLE = {"addi": np.add, "subi": np.subtract, "muli": np.multiply, "maxi": np.maximum, "mini": np.minimum}


@rule(*_WHOLE, "negi", "exti", "trunci", "absi")
def whole(
    machine: TrackingMachine, op: Operation, values: Values, bounds: Intervals, result: np.ndarray
) -> Bounds | None:
    """The interval of an integer result; any value if it may wrap, or be negative and read as unsigned."""
    name, ends = op.name.partition(".")[2], _ends(values, bounds)
    if name in _WHOLE:
        low, high = _corners(_WHOLE[name], ends)
    elif name == "negi":
        low, high = -ends[0].high, -ends[0].low
    elif name == "absi":
        return settle(np.full(np.shape(result), np.nan), np.full(np.shape(result), np.nan), result, _fixed(ends))
    else:
        low, high = ends[0]
    limit = 2.0 ** (_element(op).width - 1)
    wraps = (low < -limit) | (high >= limit) | (np.abs(low) > 2.0**53) | (np.abs(high) > 2.0**53)
    if attribute(op, "signedness", "signed") == "unsigned":
        wraps = wraps | (low < 0)
    return settle(np.where(wraps, -np.inf, low), np.where(wraps, np.inf, high), result, _fixed(ends))


# -- conversions and moves -------------------------------------------------------------------------------------------


@rule("ftof", "itof", "ftoi")
def convert(
    machine: TrackingMachine, op: Operation, values: Values, bounds: Intervals, result: np.ndarray
) -> Bounds | None:
    (ends,), target = _ends(values, bounds), _element(op)
    fixed = is_point(ends)
    if isinstance(target, FloatType):
        mode = attribute(op, "rounding_mode", "nearest_even")
        saturate = FLOAT_SEMANTICS[target.keyword].width <= 8
        low, high = (rounded(end, target.keyword, mode, saturate) for end in ends)
        unbounded = is_anything(ends)
        low, high = np.where(unbounded, -np.inf, low), np.where(unbounded, np.inf, high)
        return settle(low, high, result, fixed)
    low, high = np.trunc(ends.low), np.trunc(ends.high)
    limit = 2.0 ** (target.width - 1)
    outside = (low < -limit) | (high >= limit) | (np.abs(low) > 2.0**53) | (target.width == 1)
    if op.attributes.get("saturating") is not None and attribute(op, "signedness", "signed") == "signed":
        low, high = np.clip(low, -limit, limit - 1), np.clip(high, -limit, limit - 1)
        outside = is_anything(ends)
    elif attribute(op, "signedness", "signed") != "signed":
        outside = outside | (low < 0)
    return settle(np.where(outside, -np.inf, low), np.where(outside, np.inf, high), result, fixed)


def _move_rule(function: Callable[[Operation, Any], np.ndarray]) -> Rule:
    def move(
        machine: TrackingMachine, op: Operation, values: Values, bounds: Intervals, result: np.ndarray
    ) -> Bounds:
        return bounds[0].map(lambda end: function(op, np.broadcast_to(end, np.shape(values[0]))))

    return move


RULES["cuda_tile.reshape"] = _move_rule(lambda op, end: end.reshape(tuple(op.results[0].type.shape)))
RULES["cuda_tile.broadcast"] = _move_rule(lambda op, end: np.broadcast_to(end, tuple(op.results[0].type.shape)))
RULES["cuda_tile.permute"] = _move_rule(lambda op, end: np.transpose(end, tuple(op.attributes["permutation"])))


@rule("cat")
def cat(
    machine: TrackingMachine, op: Operation, values: Values, bounds: Intervals, result: np.ndarray
) -> Bounds | None:
    ends = [Bounds(*(np.broadcast_to(e, np.shape(v)) for e in each)) for each, v in zip(_ends(values, bounds), values)]
    axis = op.attributes["dim"].value
    return Bounds(*(np.concatenate(side, axis=axis) for side in zip(*ends)))


def _place(machine: TrackingMachine, indices: Sequence[Any], part: Sequence[int]) -> tuple[slice, ...]:
    starts = [int(machine[index]) for index in indices]
    return tuple(slice(start * step, (start + 1) * step) for start, step in zip(starts, part))


@rule("extract")
def extract(
    machine: TrackingMachine, op: Operation, values: Values, bounds: Intervals, result: np.ndarray
) -> Bounds | None:
    where = _place(machine, op.operands[1:], np.shape(result))
    return None if bounds[0] is None else bounds[0].map(lambda end: np.broadcast_to(end, np.shape(values[0]))[where])


@rule("insert")
def insert(
    machine: TrackingMachine, op: Operation, values: Values, bounds: Intervals, result: np.ndarray
) -> Bounds | None:
    part, whole_tile = _ends(values[:2], bounds[:2])
    where = _place(machine, op.operands[2:], np.shape(values[0]))
    sides = []
    for piece, end in zip(part, whole_tile):
        tile = np.array(np.broadcast_to(end, np.shape(values[1])))
        tile[where] = piece
        sides.append(tile)
    return Bounds(*sides)

