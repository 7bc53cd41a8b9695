"""Ranges of the integers of an `nv_tileaa.func`; for a tensor, the range of all its elements.

Bounds come from constants, from `assume bounded`, from the grid and from loops, and are propagated through arithmetic;
the result of an operation that may overflow its type is unbounded.  Ranges are of signed numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tileiras.analysis.derivations import settle
from tileiras.dialects import arith, nv_tileaa, nv_tileas, scf
from tileiras.ir import (
    BlockArgument,
    DenseElementsAttr,
    IntegerAttr,
    IntegerType,
    Operation,
    TensorType,
    Value,
    element_type_of,
)
from tileiras.support.named_tuple import NamedTuple

MOST_TILE_BLOCKS = (1 << 24) - 1
"""Limit along an axis of the grid (Tile IR specification, "get_num_tile_blocks")."""


class Range(NamedTuple):
    """`low <= number <= high`."""

    low: int
    high: int

    def inside(self, other: "Range") -> bool:
        return other.low <= self.low and self.high <= other.high

    def union(self, other: "Range") -> "Range":
        return Range(min(self.low, other.low), max(self.high, other.high))


@functools.lru_cache(maxsize=1024)  # most values are of a few types
def whole(type: IntegerType | TensorType) -> Range:
    """The full range of an integer type, or of a tensor's element type; that of 64 bits for an index."""
    element = element_type_of(type)
    width = element.width if isinstance(element, IntegerType) else 64
    return Range(-(1 << width - 1), (1 << width - 1) - 1)


_EVERYTHING = Range(-(1 << 63), (1 << 63) - 1)


class RangeAnalysis:
    """The ranges of one function's values, computed on demand."""

    def __init__(self) -> None:
        self._known: dict[Value, Range] = {}

    def range(self, value: Value) -> Range:
        return settle(value, self._known, _EVERYTHING, self._sources, self._find)

    def decided(self, predicate: str, lhs: Value, rhs: Value) -> bool | None:
        """The result of a comparison for all elements, with a predicate of arith.cmpi; None if unknown."""
        a, b = self.range(lhs), self.range(rhs)
        if predicate[0] == "u":
            if a.low < 0 or b.low < 0:
                return None
            predicate = "s" + predicate[1:]
        if predicate in ("sgt", "sge"):
            a, b, predicate = b, a, {"sgt": "slt", "sge": "sle"}[predicate]
        if predicate in ("slt", "sle"):
            strict = predicate == "slt"
            if a.high + strict <= b.low:
                return True
            return False if b.high < a.low + strict else None
        if a.high < b.low or b.high < a.low:
            return predicate == "ne"
        return predicate == "eq" if a == b and a.low == a.high else None

    @staticmethod
    def _sources(value: Value) -> Sequence[Value]:
        """The values whose ranges decide that of a value."""
        op: Any = value.block.parent_op if isinstance(value, BlockArgument) else value.defining_op
        if isinstance(value, BlockArgument):
            is_counter = isinstance(op, scf.ForOp) and value.index == 0
            return (op.lower_bound, op.upper_bound, op.step) if is_counter else ()
        if isinstance(op, scf.IfOp):
            return [region.block.last.operands[value.index] for region in op.regions]
        return op.operands if _rule(value) is not None else ()

    def _find(self, value: Value, sources: Sequence[Value]) -> Range:
        op: Any = value.block.parent_op if isinstance(value, BlockArgument) else value.defining_op
        everything = whole(value.type)
        if isinstance(value, BlockArgument):
            return self._counter(op) if isinstance(op, scf.ForOp) and value.index == 0 else everything
        if isinstance(op, scf.IfOp):
            branches = list(map(self.range, sources))
            return branches[0].union(branches[-1])
        rule = _rule(value)
        result = rule(op, self) if rule is not None else None
        return result if result is not None and result.inside(everything) else everything

    def _counter(self, op: scf.ForOp) -> Range:
        """The range of a loop's counter, which starts at the lower bound and stays below the upper one."""
        lower, upper, step = (self.range(value) for value in (op.lower_bound, op.upper_bound, op.step))
        if step.low <= 0 or op.unsignedCmp is not None and (lower.low < 0 or upper.low < 0):
            return whole(op.lower_bound.type)
        return Range(lower.low, max(lower.low, upper.high - 1))


# ---- rules -----------------------------------------------------------------------------------------------------------

Rule = Callable[[Any, RangeAnalysis], Range | None]


def _rule(value: Value) -> Rule | None:
    """The rule for the result of an operation; None if its range is unknown."""
    if not isinstance(element_type_of(value.type), IntegerType):
        return None
    cls = type(value.defining_op)
    # Operations of nv_tileas are subclasses of their nv_tileaa counterparts.
    return RULES.get(cls) or RULES.get(cls.__bases__[0])


def _binary(compute: Callable[[Range, Range], Range | None]) -> Rule:
    return lambda op, ranges: compute(ranges.range(op.lhs), ranges.range(op.rhs))


def _sum(op: arith.AddIOp, ranges: RangeAnalysis) -> Range:
    """A sum; that of a loop's counter and a number, where enough iterations follow, is below the loop's bound."""
    a, b = ranges.range(op.lhs), ranges.range(op.rhs)
    rest = _following_iterations(op)
    if rest is not None and a.low >= 0:
        loop, more = rest
        least, end = ranges.range(more).low, ranges.range(loop.upper_bound)
        if 0 <= b.low and b.high <= least and end.low >= 0:
            a = Range(a.low, max(a.low, min(a.high, end.high - 1 - least)))
    return Range(a.low + b.low, a.high + b.high)


def _following_iterations(op: arith.AddIOp) -> tuple[scf.ForOp, Value] | None:
    """The loop with the counter `op.lhs`, and `%n` of the condition `bound - counter > %n` of the `if` around `op`."""
    branch: Any = op.parent_op
    counter: Any = op.lhs
    loop = counter.block.parent_op if isinstance(counter, BlockArgument) and counter.index == 0 else None
    if not isinstance(loop, scf.ForOp) or not isinstance(branch, scf.IfOp) or branch.regions[0].block is not op.parent:
        return None
    test: Any = branch.condition.defining_op
    if not isinstance(test, arith.CmpIOp) or test.predicate.value != "ugt":
        return None
    rest: Any = test.lhs.defining_op
    is_rest = isinstance(rest, arith.SubIOp) and rest.lhs is loop.upper_bound and rest.rhs is counter
    return (loop, test.rhs) if is_rest else None


def _same(op: Operation, ranges: RangeAnalysis) -> Range:
    return ranges.range(op.operands[0])


def _constant(op: arith.ConstantOp, ranges: RangeAnalysis) -> Range | None:
    value = op.value
    if isinstance(value, IntegerAttr):
        return Range(value.value, value.value)
    if not isinstance(value, DenseElementsAttr):
        return None
    width = value.type.element_type.width
    numbers = [bits - (bits >> width - 1 << width) for bits in value.stored_bits()]
    return Range(min(numbers), max(numbers))


def _assume(op: nv_tileaa.AssumeOp, ranges: RangeAnalysis) -> Range:
    result, predicate = ranges.range(op.operand), op.predicate
    if not isinstance(predicate, nv_tileaa.BoundedAttr):
        return result
    low = result.low if predicate.lower is None else max(result.low, predicate.lower)
    high = result.high if predicate.upper is None else min(result.high, predicate.upper)
    return Range(low, high) if low <= high else result


def _product(a: Range, b: Range) -> Range:
    corners = [x * y for x in a for y in b]
    return Range(min(corners), max(corners))


def _quotient(a: Range, b: Range) -> Range | None:
    """The quotient of a number that is not negative by a positive one, with any rounding."""
    return Range(a.low // b.high, -(-a.high // b.low)) if a.low >= 0 and b.low > 0 else None


def _unsigned_quotient(op: arith.DivUIOp | arith.CeilDivUIOp, ranges: RangeAnalysis) -> Range | None:
    """The quotient of an unsigned division; a negative dividend is one of the largest unsigned numbers."""
    a, b = ranges.range(op.lhs), ranges.range(op.rhs)
    if a.low < 0:
        a = Range(0, (1 << element_type_of(op.lhs.type).width) - 1)
    return _quotient(a, b)


def _remainder(a: Range, b: Range) -> Range | None:
    return Range(0, min(a.high, b.high - 1)) if a.low >= 0 and b.low > 0 else None


def _and(a: Range, b: Range) -> Range | None:
    tops = [r.high for r in (a, b) if r.low >= 0]
    return Range(0, min(tops)) if tops else None


def _shifted_left(a: Range, b: Range) -> Range | None:
    return _product(a, Range(1 << b.low, 1 << b.high)) if 0 <= b.low and b.high < 64 else None


def _shifted_right(a: Range, b: Range) -> Range | None:
    return Range(a.low >> b.high, a.high >> b.low) if a.low >= 0 and 0 <= b.low and b.high < 64 else None


def _unsigned_extreme(choose: Callable[[int, int], int]) -> Callable[[Range, Range], Range | None]:
    def compute(a: Range, b: Range) -> Range | None:
        return Range(choose(a.low, b.low), choose(a.high, b.high)) if a.low >= 0 and b.low >= 0 else None

    return compute


def _extension_range(op: arith.ExtUIOp, ranges: RangeAnalysis) -> Range:
    result = ranges.range(op.operands[0])
    if result.low >= 0:
        return result
    element = element_type_of(op.operands[0].type)
    return Range(0, (1 << element.width) - 1)


def _select(op: arith.SelectOp, ranges: RangeAnalysis) -> Range:
    return ranges.range(op.operands[1]).union(ranges.range(op.operands[2]))


RULES: dict[type[Operation], Rule] = {
    arith.ConstantOp: _constant,
    arith.AddIOp: _sum,
    arith.SubIOp: _binary(lambda a, b: Range(a.low - b.high, a.high - b.low)),
    arith.MulIOp: _binary(_product),
    arith.DivSIOp: _binary(_quotient),
    arith.DivUIOp: _unsigned_quotient,
    arith.CeilDivSIOp: _binary(_quotient),
    arith.CeilDivUIOp: _unsigned_quotient,
    arith.FloorDivSIOp: _binary(_quotient),
    arith.RemSIOp: _binary(_remainder),
    arith.RemUIOp: _binary(_remainder),
    arith.AndIOp: _binary(_and),
    arith.ShLIOp: _binary(_shifted_left),
    arith.ShRSIOp: _binary(_shifted_right),
    arith.ShRUIOp: _binary(_shifted_right),
    arith.MaxSIOp: _binary(lambda a, b: Range(max(a.low, b.low), max(a.high, b.high))),
    arith.MinSIOp: _binary(lambda a, b: Range(min(a.low, b.low), min(a.high, b.high))),
    arith.MaxUIOp: _binary(_unsigned_extreme(max)),
    arith.MinUIOp: _binary(_unsigned_extreme(min)),
    arith.SelectOp: _select,
    arith.ExtSIOp: _same,
    arith.ExtUIOp: _extension_range,
    arith.TruncIOp: _same,
    nv_tileaa.MakeRangeOp: lambda op, ranges: Range(0, op.result.type.num_elements - 1),
    nv_tileaa.SplatOp: _same,
    nv_tileaa.UnsplatOp: _same,
    nv_tileaa.BroadcastOp: _same,
    nv_tileaa.ViewOp: _same,
    nv_tileaa.PermuteOp: _same,
    nv_tileas.ConvertLayoutOp: _same,
    nv_tileaa.AssumeOp: _assume,
    nv_tileaa.GetProgramIdOp: lambda op, ranges: Range(0, MOST_TILE_BLOCKS - 1),
    nv_tileaa.GetNumProgramsOp: lambda op, ranges: Range(1, MOST_TILE_BLOCKS),
}
