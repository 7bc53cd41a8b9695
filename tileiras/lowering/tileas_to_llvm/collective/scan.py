"""Scans: serially over a thread's neighbours, then over the lanes of a warp by their totals, then over warps by theirs.

In the layout of the tile the scanned dimension runs through registers, then through the lowest lanes, then through
warps (`layout/scan.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tileiras.dialects import llvm, nvvm
from tileiras.ir import Value, i32
from tileiras.layout import LinearLayout
from tileiras.layout.scan import is_scannable, scan_layout, warp_totals

from ..emit.emitter import FULL_WARP
from ..emit.function import FunctionLowering
from ..emit.types import count_of, element_of, vector_of
from ..memory.access import as_data, from_data, load_vector, store_vector
from .convert_layout import convert
from .reduce import combine

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileas as tileas

Values = list[Value]


def scan(op: tileas.ScanOp, args: Sequence[Value], lowering: FunctionLowering) -> Values:
    emit = lowering.emit
    axis = op.dim.value
    source = lowering.layout(op.inputs[0])
    shape = op.inputs[0].type.shape
    # Text that was written by hand may have any layout.
    layout = source if is_scannable(source, axis) else scan_layout(shape, axis, lowering.num_warps)
    values = [convert(v, source, layout, lowering) for v in args]
    mask = layout.dim_mask(axis)
    lane_bits = sum(1 for v in layout.bases("lane") if v & mask)
    warp_bits = [bit for bit, v in enumerate(layout.bases("warp")) if v & mask]
    length = shape[axis] >> lane_bits + len(warp_bits)
    reverse = op.reverse is not None
    # Registers of one step along the axis, in the same order of the other coordinates for every step.
    steps: list[list[int]] = [[] for _ in range(length)]
    for register in range(layout.registers):
        steps[layout.coordinates(layout.apply(register=register))[axis]].append(register)
    if reverse:
        steps.reverse()
    parts = [[emit.shuffle(v, registers) for v in values] for registers in steps]
    for i in range(1, length):
        parts[i] = combine(op, parts[i - 1], parts[i], lowering)
    if lane_bits:
        running = _up_to_this_lane(op, parts[-1], lane_bits, reverse, lowering)
        before = [_from_lane(v, 1, reverse, lowering) for v in running]
        is_first = emit.icmp("eq", _lane(lane_bits, lowering), emit.integer(_last(lane_bits) if reverse else 0))
        if warp_bits:
            earlier, is_first_warp = _before_this_warp(op, running, layout, warp_bits, lane_bits, reverse, lowering)
            both = combine(op, earlier, before, lowering)
            after_warp = [emit.select(is_first, one, two) for one, two in zip(earlier, both)]
            before = [emit.select(is_first_warp, one, two) for one, two in zip(before, after_warp)]
            is_first = emit.insert(llvm.AndOp(is_first, is_first_warp))
        for i, part in enumerate(parts):
            whole = combine(op, before, part, lowering)
            parts[i] = [emit.select(is_first, old, new) for old, new in zip(part, whole)]
    results = []
    for number, result in enumerate(op.results):
        scanned = emit.assemble(steps, [part[number] for part in parts], layout.registers)
        results.append(convert(scanned, layout, lowering.layout(result), lowering))
    return results


def _last(lane_bits: int) -> int:
    return (1 << lane_bits) - 1


def _lane(lane_bits: int, lowering: FunctionLowering) -> Value:
    """The lane's place along the scanned dimension."""
    return lowering.emit.and_(lowering.emit.lane, _last(lane_bits))


def _up_to_this_lane(
    op: tileas.ScanOp, totals: Values, lane_bits: int, reverse: bool, lowering: FunctionLowering
) -> Values:
    """The combination of the totals of all lanes of the warp before this one, and its own."""
    emit = lowering.emit
    place = _lane(lane_bits, lowering)
    running = totals
    for bit in range(lane_bits):
        other = [_from_lane(v, 1 << bit, reverse, lowering) for v in running]
        if reverse:
            outside = emit.icmp("sgt", place, emit.integer(_last(lane_bits) - (1 << bit)))
        else:
            outside = emit.icmp("slt", place, emit.integer(1 << bit))
        joined = combine(op, other, running, lowering)
        running = [emit.select(outside, old, new) for old, new in zip(running, joined)]
    return running


def _before_this_warp(
    op: tileas.ScanOp,
    running: Values,
    layout: LinearLayout,
    warp_bits: Sequence[int],
    lane_bits: int,
    reverse: bool,
    lowering: FunctionLowering,
) -> tuple[Values, Value]:
    """The combination of all warps before this one along the scanned dimension, and whether this is the first.

    The last lane of each warp stores the warp's total.
    """
    emit = lowering.emit
    data = [as_data(v, lowering) for v in running]
    sizes = [element_of(v.type).width // 8 for v in data]
    where = warp_totals(layout, op.dim.value, sizes)
    assert where is not None, "a scan that runs through warps"
    count, starts = where.count, where.starts
    place = emit.value(emit.linear((), where.warp_place))
    area = lowering.area()
    lowering.before_stores(area)
    ends = emit.icmp("eq", _lane(lane_bits, lowering), emit.integer(0 if reverse else _last(lane_bits)))
    addresses = []
    for value, size, start in zip(data, sizes, starts):
        number = emit.linear(where.lane_row, where.warp_row)
        row = emit.gep(area.base, emit.add(emit.mul(number, count * size), start))
        store_vector(lowering, emit.gep(row, emit.mul(place, size)), 0, value, ends)
        addresses.append(row)
    lowering.before_loads(area)
    totals = []
    for value, size, row in zip(data, sizes, addresses):
        step = min(count, 16 // size)
        type = vector_of(value.type, step)
        totals.append(emit.concat([load_vector(lowering, row, at * size, type) for at in range(0, count, step)]))
    order = range(count - 1, -1, -1) if reverse else range(count)
    earlier: Values = []
    for number in order[:-1]:
        mine = [from_data(emit.extract(v, number), element_of(r.type), lowering) for v, r in zip(totals, running)]
        if not earlier:
            earlier = mine
            continue
        comes_before = emit.icmp("sgt" if not reverse else "slt", place, emit.integer(number))
        joined = combine(op, earlier, mine, lowering)
        earlier = [emit.select(comes_before, new, old) for old, new in zip(earlier, joined)]
    return earlier, emit.icmp("eq", place, emit.integer(order[0]))


def _from_lane(value: Value, distance: int, reverse: bool, lowering: FunctionLowering) -> Value:
    """The value of the lane `distance` before this one (after it when reversed); at the end, its own."""
    emit = lowering.emit
    kind = nvvm.ShflKindAttr("down" if reverse else "up")
    # The clamp is the last lane for `down` and the first for `up` (PTX ISA, shfl.sync).
    clamp = emit.integer(31 if reverse else 0)

    def one(scalar: Value) -> Value:
        words = emit.pack(scalar, i32)
        lane_values = [
            emit.insert(
                nvvm.ShflOp(emit.integer(FULL_WARP), emit.extract(words, i), emit.integer(distance), clamp, kind=kind)
            )
            for i in range(count_of(words.type))
        ]
        return emit.unpack(emit.build(lane_values), scalar.type)

    return emit.build([one(emit.extract(value, i)) for i in range(count_of(value.type))])
