"""Scans: serially over a thread's neighbours, then over the lanes of the warp by their totals.

The tile is first brought to a layout in which the scanned dimension runs through neighbouring registers, then through
neighbouring lanes, and through nothing else; the other dimensions take what lanes, warps and registers are left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import nvvm
from tileiras.ir import Value, i32
from tileiras.layout import LinearLayout, blocked

from .convert_layout import FULL_WARP, convert
from .function import FunctionLowering
from .reduce import combine
from .types import count_of

Values = list[Value]


def scan_layout(shape: Sequence[int], axis: int, num_warps: int) -> LinearLayout:
    """Registers, then lanes, along `axis`; then lanes and warps along the other dimensions, the last one first."""
    lanes_axis = min(32, shape[axis])
    per_thread = [1] * len(shape)
    per_thread[axis] = shape[axis] // lanes_axis
    lanes, warps = [1] * len(shape), [1] * len(shape)
    lanes[axis] = lanes_axis
    left_lanes, left_warps = 32 // lanes_axis, num_warps
    for d in reversed(range(len(shape))):
        if d != axis:
            lanes[d] = min(left_lanes, shape[d])
            left_lanes //= lanes[d]
            warps[d] = min(left_warps, shape[d] // lanes[d])
            left_warps //= warps[d]
    spare = next((d for d in range(len(shape)) if d != axis), None)
    order = (axis, *(d for d in reversed(range(len(shape))) if d != axis))
    if spare is None:
        layout = blocked(shape, per_thread, lanes, warps, order)
        lane = (*layout.bases("lane"), *[0] * (5 - layout.bits("lane")))
        return layout.with_bases("lane", lane).with_bases("warp", [0] * (num_warps.bit_length() - 1))
    lanes[spare] *= left_lanes
    warps[spare] *= left_warps
    return blocked(shape, per_thread, lanes, warps, order)


def scan(op: Any, args: Sequence[Value], lowering: FunctionLowering) -> Values:
    emit = lowering.emit
    axis = op.dim.value
    source = lowering.layout(op.inputs[0])
    shape = op.inputs[0].type.shape
    layout = scan_layout(shape, axis, lowering.num_warps)
    values = [convert(v, source, layout, lowering) for v in args]
    mask = layout.dim_mask(axis)
    lane_bits = sum(1 for v in layout.bases("lane") if v & mask)
    length = shape[axis] >> lane_bits
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
        before, is_first = _before_this_lane(op, parts[-1], lane_bits, reverse, lowering)
        for i, part in enumerate(parts):
            whole = combine(op, before, part, lowering)
            parts[i] = [emit.select(is_first, old, new) for old, new in zip(part, whole)]
    results = []
    for number, result in enumerate(op.results):
        scanned = emit.assemble(steps, [part[number] for part in parts], layout.registers)
        results.append(convert(scanned, layout, lowering.layout(result), lowering))
    return results


def _before_this_lane(
    op: Any, totals: Values, lane_bits: int, reverse: bool, lowering: FunctionLowering
) -> tuple[Values, Value]:
    """The combination of all lanes before this one, and whether there is none."""
    emit = lowering.emit
    place = emit.and_(emit.lane, (1 << lane_bits) - 1)
    last = (1 << lane_bits) - 1
    running = totals
    for bit in range(lane_bits):
        other = [_from_lane(v, 1 << bit, reverse, lowering) for v in running]
        if reverse:
            outside = emit.icmp("sgt", place, emit.integer(last - (1 << bit)))
        else:
            outside = emit.icmp("slt", place, emit.integer(1 << bit))
        joined = combine(op, other, running, lowering)
        running = [emit.select(outside, old, new) for old, new in zip(running, joined)]
    is_first = emit.icmp("eq", place, emit.integer(last if reverse else 0))
    return [_from_lane(v, 1, reverse, lowering) for v in running], is_first


def _from_lane(value: Value, distance: int, reverse: bool, lowering: FunctionLowering) -> Value:
    """The value of the lane `distance` before this one (behind it when reversed); at the end, its own."""
    emit = lowering.emit
    kind = nvvm.ShflKindAttr("down" if reverse else "up")
    # The clamp is the last lane for `down` and the first for `up` (PTX ISA, shfl.sync).
    clamp = emit.integer(31 if reverse else 0)

    def one(scalar: Value) -> Value:
        words = emit.pack(scalar, i32)
        moved = [
            emit.insert(
                nvvm.ShflOp(emit.integer(FULL_WARP), emit.extract(words, i), emit.integer(distance), clamp, kind=kind)
            )
            for i in range(count_of(words.type))
        ]
        return emit.unpack(emit.build(moved), scalar.type)

    return emit.build([one(emit.extract(value, i)) for i in range(count_of(value.type))])


PATTERNS: dict[type, Any] = {tileas.ScanOp: scan}
