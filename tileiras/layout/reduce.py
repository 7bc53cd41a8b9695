"""What a reduction along one dimension does to the registers, lanes and warps of a layout."""

from __future__ import annotations

from tileiras import gf2
from tileiras.layout.linear_layout import LinearLayout
from tileiras.named_tuple import NamedTuple


class SharedReduction(NamedTuple):
    """The stage across warps: one thread of each group stores a partial result, all read the group's partials.

    Addresses are in elements: `(lane_map(lane) ^ warp_map(warp) ^ offsets[r]) * groups + group`, where `group` is
    `group_map(warp)` for the store and runs over `groups` for the loads.  `lane_mask` and `warp_mask`: threads with
    any of these bits set hold copies and do not store.
    """

    groups: int
    group_map: tuple[int, ...]
    lane_map: tuple[int, ...]
    warp_map: tuple[int, ...]
    offsets: tuple[int, ...]
    lane_mask: int
    warp_mask: int
    elements: int


class ReductionPlan(NamedTuple):
    """Reduction along `axis`: first in a thread, then between lanes, then between warps.

    `register_groups[i]` lists, in the order of the reduced coordinate, the source registers that combine into result
    register i; `lane_bits` are the butterflies; `shared` is the last stage or None.  `result` is the layout that comes
    out: the slice, held by every thread of a group.
    """

    axis: int
    register_groups: tuple[tuple[int, ...], ...]
    lane_bits: tuple[int, ...]
    shared: SharedReduction | None
    result: LinearLayout


def mixes_axes(layout: LinearLayout, axis: int) -> bool:
    """Whether some basis moves along `axis` and another dimension at once: such a tile has to be converted first."""
    mask = layout.dim_mask(axis)
    return any(v & mask and v & ~mask for v in layout.columns)


def plan_reduction(layout: LinearLayout, axis: int) -> ReductionPlan:
    """Raises ValueError when a basis mixes `axis` with another dimension or the axis crosses CTAs."""
    if mixes_axes(layout, axis):
        raise ValueError("a basis of the layout mixes the reduced dimension with another")
    mask = layout.dim_mask(axis)
    if any(v & mask for v in layout.bases("block")):
        raise ValueError("reduction across the CTAs of a cluster")
    free = layout.free_variable_masks()
    registers = layout.bases("register")
    groups: dict[int, dict[int, int]] = {}
    for register in range(layout.registers):
        if register & free["register"]:
            continue
        position = gf2.apply(registers, register)
        groups.setdefault(position & ~mask, {})[position & mask] = register
    sliced = layout.drop_dim(axis)
    result, kept = sliced.remove_redundant_registers()
    # Result register i has the kept coordinate that its bits select; the groups are listed in that order.
    wide = [registers[b] for b in kept]
    ordered = tuple(
        tuple(register for _, register in sorted(groups[gf2.apply(wide, i)].items())) for i in range(result.registers)
    )
    lane_bits = tuple(i for i, v in enumerate(layout.bases("lane")) if v & mask and not free["lane"] >> i & 1)
    warp_bits = [i for i, v in enumerate(layout.bases("warp")) if v & mask and not free["warp"] >> i & 1]
    shared = None
    if warp_bits:
        group_map = [0] * layout.bits("warp")
        for position, bit in enumerate(warp_bits):
            group_map[bit] = 1 << position
        # Copies in free lanes and warps, and the lanes that the butterflies made equal, do not store.
        result_free = result.free_variable_masks()
        reduced_warps = sum(1 << b for b in warp_bits)
        inverse = result.right_inverse()
        positions = _compact(result)
        shared = SharedReduction(
            groups=1 << len(warp_bits),
            group_map=tuple(group_map),
            lane_map=tuple(gf2.apply(positions, v) for v in result.bases("lane")),
            warp_map=tuple(gf2.apply(positions, v) for v in result.bases("warp")),
            offsets=tuple(gf2.apply(positions, result.apply(register=r)) for r in range(result.registers)),
            lane_mask=result_free["lane"],
            warp_mask=result_free["warp"] & ~reduced_warps,
            elements=(1 << len(inverse)) << len(warp_bits),
        )
    return ReductionPlan(axis, ordered, lane_bits, shared, result)


def _compact(result: LinearLayout) -> list[int]:
    """Positions of the result in the buffer: row-major, which is conflict free for lanes that run along a row."""
    return [1 << i for i in range(result.out_bits)]
