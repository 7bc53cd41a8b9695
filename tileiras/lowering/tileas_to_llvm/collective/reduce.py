"""Reductions: inside the thread, between the lanes of a warp by butterflies, between warps through shared memory."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from tileiras.dialects import arith, llvm, nvvm
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import IntegerType, Value, element_type_of, i1, i8, i32
from tileiras.layout.reduce import SharedReduction, plan_reduction
from tileiras.layout.reduction_order import TREE_AT_ONCE, commutes, thread_order

from ..emit.emitter import FULL_WARP
from ..emit.function import FunctionLowering
from ..emit.types import count_of, element_of, vector_of
from .convert_layout import convert, convert_together, shuffle_word

Values = list[Value]

LANES = 31
"""The bits of a lane's number."""


def combine(op: tileas.ReduceOp | tileas.ScanOp, left: Values, right: Values, lowering: FunctionLowering) -> Values:
    """The combiner's body on whole fragments."""
    block = op.body.block
    for argument, value in zip(block.arguments, [*left, *right]):
        lowering.values[argument] = value
    for inner in block.operations:
        if inner is block.last:
            break
        lowering.operation(inner)
    lowering.emit.location = op.location
    count = count_of(left[0].type)
    yielded = [lowering.value(v) for v in block.last.operands]
    return [v if count_of(v.type) == count else lowering.emit.splat(v, count) for v in yielded]


def reduce(op: tileas.ReduceOp, args: Sequence[Value], lowering: FunctionLowering) -> Values:
    layout = lowering.layout(op.inputs[0])
    plan = plan_reduction(layout, op.dim.value)
    current = _in_thread(op, list(args), plan.register_groups, lowering)
    kind = _whole_warp_kind(op, plan.lane_bits, lowering)
    if kind is not None:
        current = [_over_warp(current[0], kind, lowering)]
    else:
        for bit in plan.lane_bits:
            current = combine(op, current, [_butterfly(v, bit, lowering) for v in current], lowering)
        if plan.lane_bits and not commutes(op):
            # Lanes have combined the elements in different orders.
            current = [_of_first_lane(v, sum(1 << bit for bit in plan.lane_bits), lowering) for v in current]
    if plan.shared is not None:
        current = _across_warps(op, current, plan.shared, lowering)
    results = []
    for value, result in zip(current, op.results):
        target = lowering.layout(result)
        results.append(convert(value, plan.result, target, lowering) if target.shape == plan.result.shape else value)
    return results


def _in_thread(
    op: tileas.ReduceOp, values: Values, groups: Sequence[Sequence[int]], lowering: FunctionLowering
) -> Values:
    """The elements of each group, all result registers at once, in the order of `thread_order`.

    Large trees are written one half after the other, so that few partial results are live at a time.
    """
    emit = lowering.emit
    length = len(groups[0])
    order = thread_order(op, len(groups), length, lowering.target)
    if order.by_halves:
        pairs = _in_pairs(op, values, groups[0], order.part, lowering)
        return combine(op, *([emit.shuffle(v, [lane]) for v in pairs] for lane in (0, 1)), lowering)
    if order.part < length:
        rows = [groups[0][first : first + order.part] for first in range(0, length, order.part)]
        parts = [[emit.shuffle(v, row) for v in values] for row in rows]
        values = functools.reduce(lambda left, right: combine(op, left, right, lowering), parts)
        groups, length = [range(order.part)], order.part
    if length > TREE_AT_ONCE:
        middle = length // 2
        halves = [_in_thread(op, values, [group[side] for group in groups], lowering)
                  for side in (slice(middle), slice(middle, length))]  # fmt: skip
        return combine(op, *halves, lowering)
    # Register order: element j of every group, then element j + 1 of every group.
    current = [emit.shuffle(v, [group[j] for j in range(length) for group in groups]) for v in values]
    results = len(groups)
    while length > 1:
        even = [j * results + i for j in range(0, length, 2) for i in range(results)]
        odd = [j * results + i for j in range(1, length, 2) for i in range(results)]
        left = [emit.shuffle(v, even) for v in current]
        right = [emit.shuffle(v, odd) for v in current]
        current = combine(op, left, right, lowering)
        length //= 2
    return current


def _in_pairs(
    op: tileas.ReduceOp, values: Values, registers: Sequence[int], part: int, lowering: FunctionLowering
) -> Values:
    """The pairs that remain of registers when pairs of neighbours have been combined with each other: no element moves
    to the other half of a register pair."""
    emit = lowering.emit
    starts = range(0, len(registers), part)
    parts = ([emit.shuffle(v, registers[start : start + part]) for v in values] for start in starts)
    current = functools.reduce(lambda left, right: combine(op, left, right, lowering), parts)
    middle = part // 2
    while middle > 1:
        sides = range(middle), range(middle, 2 * middle)
        current = combine(op, *([emit.shuffle(v, list(side)) for v in current] for side in sides), lowering)
        middle //= 2
    return current


# Combiners that one instruction applies to the lanes of a warp (PTX ISA, "redux.sync"), and whether narrow operands
# are extended with their sign.
_WHOLE_WARP = {
    arith.AddIOp: ("add", False),
    arith.AndIOp: ("and", False),
    arith.OrIOp: ("or", False),
    arith.XOrIOp: ("xor", False),
    arith.MinSIOp: ("min", True),
    arith.MaxSIOp: ("max", True),
    arith.MinUIOp: ("umin", False),
    arith.MaxUIOp: ("umax", False),
}


def _whole_warp_kind(
    op: tileas.ReduceOp, lane_bits: Sequence[int], lowering: FunctionLowering
) -> tuple[str, bool] | None:
    """The instruction for a reduction over all lanes; None if absent for this target, type or combiner."""
    if len(op.inputs) != 1 or len(lane_bits) != 5 or not lowering.target.has("redux"):
        return None
    first, last = op.body.block.first, op.body.block.last
    element = element_type_of(op.inputs[0].type)
    if not isinstance(element, IntegerType) or element.width > 32 or first.next is not last:
        return None
    arguments = list(op.body.block.arguments)
    if list(last.operands) != list(first.results) or list(first.operands) not in (arguments, arguments[::-1]):
        return None
    return _WHOLE_WARP.get(type(first))


def _over_warp(value: Value, kind: tuple[str, bool], lowering: FunctionLowering) -> Value:
    emit = lowering.emit
    name, signed = kind
    element = element_of(value.type)
    narrow = element is not i32

    def one(scalar: Value) -> Value:
        if narrow:
            scalar = emit.insert((llvm.SExtOp if signed else llvm.ZExtOp)(scalar, res=i32))
        attribute = nvvm.ReductionKindAttr(name)
        result = emit.insert(nvvm.ReduxOp(scalar, emit.integer(FULL_WARP), kind=attribute))
        return emit.insert(llvm.TruncOp(result, res=element)) if narrow else result

    return emit.map_scalars(one, value)


def _butterfly(value: Value, bit: int, lowering: FunctionLowering) -> Value:
    """The value of the lane whose number differs in one bit."""
    return _shuffle(value, "bfly", lowering.emit.integer(1 << bit), lowering)


def _of_first_lane(value: Value, bits: int, lowering: FunctionLowering) -> Value:
    """The value of the lane whose number lacks these bits."""
    emit = lowering.emit
    return _shuffle(value, "idx", emit.and_(emit.lane, LANES & ~bits), lowering)


def _shuffle(value: Value, mode: str, operand: Value, lowering: FunctionLowering) -> Value:
    """One shuffle, words at a time."""
    emit = lowering.emit
    element = element_of(value.type)
    count = count_of(value.type)
    if element is i1:
        wide = emit.insert(llvm.ZExtOp(value, res=vector_of(i8, count)))
        return emit.insert(llvm.TruncOp(_shuffle(wide, mode, operand, lowering), res=value.type))
    per_word = max(1, min(count, 32 // element.width))
    groups = [range(i, i + per_word) for i in range(0, count, per_word)]
    parts = [shuffle_word(emit.shuffle(value, list(group)), mode, operand, lowering) for group in groups]
    return emit.concat(parts)


def _across_warps(op: tileas.ReduceOp, values: Values, stage: SharedReduction, lowering: FunctionLowering) -> Values:
    """Each warp's partial results to all warps of its group, with one barrier, and combined by all."""
    gathered = convert_together(values, stage.source, stage.target, lowering)
    results = stage.target.registers // stage.groups
    groups = [[group * results + i for group in range(stage.groups)] for i in range(results)]
    return _in_thread(op, gathered, groups, lowering)
