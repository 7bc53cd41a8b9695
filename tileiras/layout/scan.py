"""Layouts in which a dimension can be scanned."""

from __future__ import annotations

from collections.abc import Sequence

from tileiras.layout.constructors import blocked
from tileiras.layout.linear_layout import LinearLayout
from tileiras.layout.reduce import mixes_axes
from tileiras.support.named_tuple import NamedTuple

ELEMENTS_ALONE = 8
"""The fewest elements of a thread for which a scan is divided among warps: below, each warp does all of it, without
waits."""


def is_scannable(layout: LinearLayout, axis: int) -> bool:
    """Whether `axis` runs through registers, then through the lowest lanes, then through warps.

    Where it runs through warps, a thread has registers of no other dimension.
    """
    unit = layout.dim_mask(axis) & -layout.dim_mask(axis)
    columns = {dim: [v & layout.dim_mask(axis) for v in layout.bases(dim)] for dim in layout.dims}
    if mixes_axes(layout, axis) or any(columns["block"]):
        return False
    registers, warps = (sorted(filter(None, columns[dim])) for dim in ("register", "warp"))
    lanes = [v for v in columns["lane"] if v]
    if lanes != columns["lane"][: len(lanes)] or warps != [v for v in columns["warp"] if v]:
        return False
    if warps and (not lanes or len(registers) != layout.bits("register")):
        return False
    result = (*registers, *lanes, *warps)
    return result == tuple(unit << place for place in range(layout.shape[axis].bit_length() - 1))


def scan_layout(shape: Sequence[int], axis: int, num_warps: int) -> LinearLayout:
    """Registers, then lanes, then spare warps, along `axis`; lanes and warps along the other dimensions, the last one
    first."""
    lanes_axis = min(32, shape[axis])
    lanes, warps = [1] * len(shape), [1] * len(shape)
    lanes[axis] = lanes_axis
    left_lanes, left_warps = 32 // lanes_axis, num_warps
    for d in reversed(range(len(shape))):
        if d != axis:
            lanes[d] = min(left_lanes, shape[d])
            left_lanes //= lanes[d]
            warps[d] = min(left_warps, shape[d] // lanes[d])
            left_warps //= warps[d]
    warps[axis] = min(left_warps, max(1, shape[axis] // lanes_axis // ELEMENTS_ALONE))
    left_warps //= warps[axis]
    per_thread = [1] * len(shape)
    per_thread[axis] = shape[axis] // (lanes_axis * warps[axis])
    spare = next((d for d in range(len(shape)) if d != axis), None)
    order = (axis, *(d for d in reversed(range(len(shape))) if d != axis))
    if spare is None:
        layout = blocked(shape, per_thread, lanes, warps, order)
        lane = (*layout.bases("lane"), *[0] * (5 - layout.bits("lane")))
        warp = (*layout.bases("warp"), *[0] * (num_warps.bit_length() - 1 - layout.bits("warp")))
        return layout.with_bases("lane", lane).with_bases("warp", warp)
    lanes[spare] *= left_lanes
    warps[spare] *= left_warps
    return blocked(shape, per_thread, lanes, warps, order)


class WarpTotals(NamedTuple):
    """The places of the warps' totals in scratch memory during a scan across warps.

    Each scan that is divided among warps has a row of `count` totals: the other bits of lanes and warps determine the
    row (`lane_row`, `warp_row`), and `warp_place` is a warp's own place in it.  `starts` has the byte at which the rows
    of each operand begin, and at the end their total size.
    """

    count: int
    lane_row: tuple[int, ...]
    warp_row: tuple[int, ...]
    warp_place: tuple[int, ...]
    starts: tuple[int, ...]


def warp_totals(layout: LinearLayout, axis: int, sizes: Sequence[int]) -> WarpTotals | None:
    """For operands whose elements have these sizes, in bytes, in a layout in which `axis` can be scanned; None where it
    runs through no warps."""
    mask = layout.dim_mask(axis)
    warps = [bit for bit, v in enumerate(layout.bases("warp")) if v & mask]
    if not warps:
        return None
    lane_bits = sum(1 for v in layout.bases("lane") if v & mask)
    others = [bit for bit in range(layout.bits("warp")) if bit not in warps]
    count, rows = 1 << len(warps), 1 << 5 - lane_bits + len(others)
    starts = [0]
    for size in sizes:
        starts.append(starts[-1] + -(-size * rows * count // 16) * 16)
    return WarpTotals(
        count,
        tuple(0 if bit < lane_bits else 1 << bit - lane_bits for bit in range(5)),
        tuple(
            0 if bit in warps else 1 << 5 - lane_bits + others.index(bit) for bit in range(layout.bits("warp"))
        ),
        tuple(1 << warps.index(bit) if bit in warps else 0 for bit in range(layout.bits("warp"))),
        tuple(starts),
    )
