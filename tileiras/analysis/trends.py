"""Monotonicity of integers of an `nv_tileaa.func` along an axis of the grid.

It is queried for bounds of loops, to order tile blocks by their work.  Overflow is ignored, since any order is correct.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tileiras.dialects import arith, nv_tileaa
from tileiras.ir import BlockArgument, Operation, Value

from .derivations import settle
from .ranges import RangeAnalysis

Trend = int | None
"""1: nondecreasing along the axis; -1: nonincreasing; 0: the same everywhere; None: unknown."""


def together(a: Trend, b: Trend) -> Trend:
    """The trend of a function that is monotonic in two numbers: their sum, or the larger of them."""
    if a is None or b is None:
        return None
    return a or b if not a or not b or a == b else None


def opposite(trend: Trend) -> Trend:
    return None if trend is None else -trend


class TrendAnalysis:
    """The trends of one function's scalars along an axis, computed on demand."""

    def __init__(self, axis: str, ranges: RangeAnalysis) -> None:
        self._axis = axis
        self._ranges = ranges
        self._known: dict[Value, Trend] = {}

    def trend(self, value: Value) -> Trend:
        return settle(value, self._known, None, _sources, lambda value, sources: self._find(value))

    def is_positive(self, value: Value) -> bool:
        return self._ranges.range(value).low > 0

    def is_natural(self, value: Value) -> bool:
        return self._ranges.range(value).low >= 0

    def _find(self, value: Value) -> Trend:
        if isinstance(value, BlockArgument):
            # Loop-carried values and induction variables change after the start of a tile block.
            return 0 if isinstance(value.block.parent_op, nv_tileaa.FuncOp) else None
        op: Any = value.defining_op
        if isinstance(op, nv_tileaa.GetProgramIdOp):
            return int(op.axis.value == self._axis)
        rule = _RULES.get(type(op))
        return None if rule is None else rule(op, self)


def _sources(value: Value) -> Sequence[Value]:
    op = value.defining_op
    return op.operands if op is not None and type(op) in _RULES else ()


# ---- rules -----------------------------------------------------------------------------------------------------------

Rule = Callable[[Any, TrendAnalysis], Trend]


def _same_everywhere(op: Operation, trends: TrendAnalysis) -> Trend:
    return 0


def _as_operand(op: Operation, trends: TrendAnalysis) -> Trend:
    return trends.trend(op.operands[0])


def _both(op: Any, trends: TrendAnalysis) -> Trend:
    return together(trends.trend(op.lhs), trends.trend(op.rhs))


def _difference(op: arith.SubIOp, trends: TrendAnalysis) -> Trend:
    return together(trends.trend(op.lhs), opposite(trends.trend(op.rhs)))


def _product(op: arith.MulIOp, trends: TrendAnalysis) -> Trend:
    natural = trends.is_natural(op.lhs), trends.is_natural(op.rhs)
    a, b = trends.trend(op.lhs), trends.trend(op.rhs)
    if (a == 0 or natural[1]) and (b == 0 or natural[0]):
        return together(a, b)
    return None


def _quotient(op: Any, trends: TrendAnalysis) -> Trend:
    return trends.trend(op.lhs) if trends.trend(op.rhs) == 0 and trends.is_positive(op.rhs) else None


def _shift(op: Any, trends: TrendAnalysis) -> Trend:
    return trends.trend(op.lhs) if trends.trend(op.rhs) == 0 else None


def _pure(op: Operation, trends: TrendAnalysis) -> Trend:
    """The trend of a pure operation without a rule of its own."""
    return 0 if all(trends.trend(operand) == 0 for operand in op.operands) else None


_RULES: dict[type[Operation], Rule] = {
    arith.ConstantOp: _same_everywhere,
    nv_tileaa.GetNumProgramsOp: _same_everywhere,
    nv_tileaa.AssumeOp: _as_operand,
    arith.ExtSIOp: _as_operand,
    arith.ExtUIOp: _as_operand,
    arith.TruncIOp: _as_operand,
    arith.AddIOp: _both,
    arith.MaxSIOp: _both,
    arith.MinSIOp: _both,
    arith.MaxUIOp: _both,
    arith.MinUIOp: _both,
    arith.SubIOp: _difference,
    arith.MulIOp: _product,
    arith.DivSIOp: _quotient,
    arith.DivUIOp: _quotient,
    arith.FloorDivSIOp: _quotient,
    arith.CeilDivSIOp: _quotient,
    arith.CeilDivUIOp: _quotient,
    arith.ShLIOp: _shift,
    arith.ShRSIOp: _shift,
    arith.ShRUIOp: _shift,
    arith.RemSIOp: _pure,
    arith.RemUIOp: _pure,
    arith.AndIOp: _pure,
    arith.OrIOp: _pure,
    arith.XOrIOp: _pure,
    arith.CmpIOp: _pure,
    arith.SelectOp: _pure,
}
