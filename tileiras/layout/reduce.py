"""Plans a reduction along one dimension of a layout: its stages in registers, lanes and warps."""

from __future__ import annotations

import functools

from tileiras.layout.linear_layout import LinearLayout
from tileiras.support import gf2
from tileiras.support.named_tuple import NamedTuple


class SharedReduction(NamedTuple):
    """The stage across warps: the partial results of `groups` warps change from one layout to another.

    Both are of a tile (groups, *result shape).  In `source` the warps of a group hold one partial each, in `target`
    every thread has all partials of its results: register `r + group * (target.registers // groups)`.
    """

    groups: int
    source: LinearLayout
    target: LinearLayout


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


@functools.lru_cache(maxsize=1024)
def plan_reduction(layout: LinearLayout, axis: int) -> ReductionPlan:
    """Raise ValueError when a basis mixes `axis` with another dimension or the axis crosses CTAs."""
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
    result, value = sliced.remove_redundant_registers()
    # Result register i has the kept coordinate that its bits select; the groups are listed in that order.
    wide = [registers[b] for b in value]
    ordered = tuple(
        tuple(register for _, register in sorted(groups[gf2.apply(wide, i)].items())) for i in range(result.registers)
    )
    lane_bits = tuple(i for i, v in enumerate(layout.bases("lane")) if v & mask and not free["lane"] >> i & 1)
    warp_bits = [i for i, v in enumerate(layout.bases("warp")) if v & mask and not free["warp"] >> i & 1]
    shared = None
    if warp_bits:
        number = {bit: result.size << position for position, bit in enumerate(warp_bits)}
        bases = {dim: result.bases(dim) for dim in result.dims}
        warps = [number.get(bit, v) for bit, v in enumerate(result.bases("warp"))]
        shape = (1 << len(warp_bits), *result.shape)
        shared = SharedReduction(
            groups=shape[0],
            source=LinearLayout({**bases, "warp": warps}, shape),
            target=LinearLayout({**bases, "register": (*result.bases("register"), *number.values())}, shape),
        )
    return ReductionPlan(axis, ordered, lane_bits, shared, result)
