"""Comparisons of one number with two bounds become one, with the nearer bound.

    %in = cmpi slt, %columns, splat %n : 1x64           %last = minsi %rows, splat (%n - 1) : 64x1
    %past = cmpi sge, %rows, %columns : 64x64      ->
    %visible = andi broadcast %in, %past : 64x64        %visible = cmpi sge, broadcast %last, broadcast %columns

Such is the mask of causal attention over keys whose number no tile divides.  The nearer bound is one of each row, and
the same in all iterations, where the mask is of each element and iteration: a comparison and a selection less for each
(ptxas 13.5 makes two FSEL of a selection by two comparisons).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tileiras.analysis.function_pass import FunctionPass
from tileiras.analysis.ranges import RangeAnalysis, whole
from tileiras.dialects import arith, scf
from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import (
    BlockArgument,
    Builder,
    IntegerAttr,
    Operation,
    TensorType,
    Value,
    element_type_of,
    remove_dead_operations,
)
from tileiras.support.named_tuple import NamedTuple

if TYPE_CHECKING:
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class Spread(NamedTuple):
    """A value, and for each of its dimensions the dimension of the mask that it lies on; None: of size one."""

    value: Value
    dims: tuple[int | None, ...]

    @property
    def along(self) -> tuple[int, ...]:
        """Dimensions of the mask along which elements differ."""
        return tuple(dim for dim in self.dims if dim is not None)

    def source(self) -> Spread:
        """The value that is broadcast and renamed to this one."""
        op: Any = self.value.defining_op
        if isinstance(op, aa.SplatOp):
            return Spread(op.operand, ()).source()
        if isinstance(op, aa.BroadcastOp):
            shape = op.operand.type.shape
            return Spread(op.operand, tuple(None if s == 1 else d for s, d in zip(shape, self.dims))).source()
        if isinstance(op, aa.ViewOp):
            shape, result = op.operand.type.shape, op.result.type.shape
            if [size for size in shape if size > 1] != [size for size in result if size > 1]:
                return self
            dims = iter([dim for size, dim in zip(result, self.dims) if size > 1])
            return Spread(op.operand, tuple(None if size == 1 else next(dims) for size in shape)).source()
        return self

    def is_same(self, other: Spread) -> bool:
        return self.value is other.value and self.along == other.along


class Limit(NamedTuple):
    """`number PREDICATE bound`, of all elements of a mask."""

    number: Spread
    predicate: str
    bound: Spread

    @property
    def is_upper(self) -> bool:
        return self.predicate in ("slt", "sle")

    @property
    def is_strict(self) -> bool:
        return self.predicate in ("slt", "sgt")


class JoinMaskBounds(FunctionPass):
    name = "tileas-join-mask-bounds"
    optional = True
    of_nv_tileaa = True
    needs = "`nv_tileaa` functions"
    establishes = "one comparison where a mask is of several with bounds of fewer elements than the mask"
    keeps = "values, other operations"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        if join_mask_bounds(func):
            remove_dead_operations(func)


def join_mask_bounds(func: aa.FuncOp) -> bool:
    """Replace conjunctions of comparisons in a function of nv_tileaa, in place; return whether there was one.  The
    old comparisons are left in place."""
    ranges = RangeAnalysis()
    operations = [op for op in func.walk() if isinstance(op, arith.AndIOp) and isinstance(op.result.type, TensorType)]
    return any([_join(op, ranges) for op in operations])


def _limits(mask: Value) -> Iterator[Limit]:
    """The limits that a mask states, in both directions."""
    source = Spread(mask, tuple(range(mask.type.rank))).source()
    op = source.value.defining_op
    if isinstance(op, arith.CmpIOp) and op.predicate.value in arith.MIRRORED:
        lhs, rhs = (Spread(value, source.dims).source() for value in (op.lhs, op.rhs))
        yield Limit(lhs, op.predicate.value, rhs)
        yield Limit(rhs, arith.MIRRORED[op.predicate.value], lhs)


def _join(op: arith.AndIOp, ranges: RangeAnalysis) -> bool:
    shape = op.result.type.shape
    for one in _limits(op.lhs):
        for other in _limits(op.rhs):
            if not one.number.is_same(other.number) or one.is_upper != other.is_upper:
                continue
            along = {*one.bound.along, *other.bound.along}
            # The nearer bound has to be of fewer elements than the mask.
            if math.prod(shape[dim] for dim in along) == math.prod(shape):
                continue
            agreed = _common_predicate(one, other, ranges)
            if agreed is not None:
                _replace(op, agreed, *((each, _step(each, agreed)) for each in (one, other)))
                return True
    return False


def _common_predicate(one: Limit, other: Limit, ranges: RangeAnalysis) -> str | None:
    """Common predicate of both limits; None if adjusting a bound could overflow."""
    for predicate in dict.fromkeys((one.predicate, other.predicate)):
        for each in (one, other):
            result, everything = ranges.range(each.bound.value), whole(each.bound.value.type)
            step = _step(each, predicate)
            if result.low + step < everything.low or result.high + step > everything.high:
                break
        else:
            return predicate
    return None


def _step(limit: Limit, predicate: str) -> int:
    """The addend of a bound for the predicate: `a < b` is `a <= b - 1`."""
    if limit.predicate == predicate:
        return 0
    return -1 if limit.is_strict == limit.is_upper else 1


def _replace(op: arith.AndIOp, predicate: str, *bounds: tuple[Limit, int]) -> None:
    shape, number = op.result.type.shape, bounds[0][0].number
    values = [limit.bound.value for limit, _ in bounds]
    builder = Builder.before(_outermost(op, values))
    builder.location = op.location
    along = {dim for limit, _ in bounds for dim in limit.bound.along}
    small = tuple(size if dim in along else 1 for dim, size in enumerate(shape))
    nearer = arith.MinSIOp if bounds[0][0].is_upper else arith.MaxSIOp
    ends = [_broadcast(builder, _shift(builder, limit.bound, step), small) for limit, step in bounds]
    dims = tuple(dim if dim in along else None for dim in range(len(shape)))
    joined = Spread(builder.insert(nearer(*ends)).results[0], dims)
    builder = Builder.before(op)
    builder.location = op.location
    along |= set(number.along)
    wide = tuple(size if dim in along else 1 for dim, size in enumerate(shape))
    sides = [_broadcast(builder, each, wide) for each in (number, joined)]
    mask = builder.insert(arith.CmpIOp(*sides, predicate=arith.CmpIPredicateAttr(predicate))).results[0]
    if wide != shape:
        mask = builder.insert(aa.BroadcastOp(mask, result=op.result.type)).results[0]
    op.replace_all_uses_with([mask])
    op.erase()


def _outermost(op: Operation, values: list[Value]) -> Operation:
    """The operation before which values are defined, in as few loops as possible."""
    homes = [value.block.parent_op if isinstance(value, BlockArgument) else value.defining_op for value in values]
    result = inner = op
    while not isinstance(around := inner.parent_op, aa.FuncOp) and not any(map(around.is_ancestor_of, homes)):
        inner = around
        if isinstance(around, (scf.ForOp, scf.WhileOp)):
            result = around
    return result


def _shift(builder: Builder, bound: Spread, step: int) -> Spread:
    """A bound plus a number."""
    if not step:
        return bound
    type = bound.value.type
    far = builder.insert(arith.ConstantOp(IntegerAttr(step, element_type_of(type)))).results[0]
    if isinstance(type, TensorType):
        far = builder.insert(aa.SplatOp(far, result=type)).results[0]
    return Spread(builder.insert(arith.AddIOp(bound.value, far)).results[0], bound.dims)


def _broadcast(builder: Builder, spread: Spread, shape: tuple[int, ...]) -> Value:
    """A value as a tensor of a shape, whose dimensions are those of the mask or one."""
    value = spread.value
    element = element_type_of(value.type)
    result = TensorType(shape, element)
    if not isinstance(value.type, TensorType):
        return builder.insert(aa.SplatOp(value, result=result)).results[0]
    along = set(spread.along)
    own = TensorType(tuple(size if dim in along else 1 for dim, size in enumerate(shape)), element)
    if value.type is not own:
        value = builder.insert(aa.ViewOp(value, result=own)).results[0]
    return value if own is result else builder.insert(aa.BroadcastOp(value, result=result)).results[0]
