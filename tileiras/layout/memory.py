"""Layouts for global memory accesses: how many elements a thread moves at once, and which lanes stand side by side."""

from __future__ import annotations

from collections.abc import Sequence

from tileiras.layout.constructors import blocked
from tileiras.layout.linear_layout import LinearLayout

ACCESS_BITS = 128  # widest access of a thread below sm_100 (PTX ISA, ld: .v4.b32, .v2.b64)
THREADS_PER_WARP = 32


def power_of_two_divisor(n: int, limit: int) -> int:
    """Largest power of two that divides n, at most `limit` (n == 0 is divisible by all)."""
    return min(n & -n, limit) if n else limit


def access_elements(element_bits: int, divisibility: int, access_bits: int = ACCESS_BITS) -> int:
    """Elements of the widest aligned access when every vector's first byte address is a multiple of `divisibility`."""
    element_bytes = max(1, element_bits // 8)
    return max(1, min(access_bits // 8, power_of_two_divisor(divisibility, access_bits // 8)) // element_bytes)


def dimension_order(strides: Sequence[int | None]) -> tuple[int, ...]:
    """Tile dimensions, fastest in memory first.  None is a stride not known before run time: slower than a known one;
    among equals the later dimension is the faster."""
    return tuple(sorted(range(len(strides)), key=lambda d: (strides[d] is None, abs(strides[d] or 0), -d)))


def coalesced(
    shape: Sequence[int],
    element_bits: int,
    order: Sequence[int],
    num_warps: int,
    *,
    contiguous: int = 1,
    divisibility: int = 1,
    access_bits: int = ACCESS_BITS,
    least_bits: int = 0,
) -> LinearLayout:
    """The blocked layout for a global access of a tile.

    `order`: dimensions, fastest in memory first.  `contiguous`: how many elements along `order[0]` are known to be
    adjacent in memory (and to share one mask value); `divisibility`: bytes that divide the address of each such run.  A
    thread gets at most a 16-byte vector, and no more than its share of the tile, so that small tiles still use all
    threads, unless that is less than `least_bits`: then several have the same elements.  Lanes run along the rows, then
    warps.
    """
    size = 1
    for n in shape:
        size *= n
    threads = THREADS_PER_WARP * num_warps
    share = max(1, size // threads, least_bits // element_bits)
    vector = min(access_elements(element_bits, divisibility, access_bits), contiguous, share)
    per_thread = [1] * len(shape)
    lanes = [1] * len(shape)
    warps = [1] * len(shape)
    if shape:
        per_thread[order[0]] = min(vector, shape[order[0]])
        left_lanes, left_warps = THREADS_PER_WARP, num_warps
        room = [n // p for n, p in zip(shape, per_thread)]
        for axis in order:
            lanes[axis] = min(left_lanes, room[axis])
            left_lanes //= lanes[axis]
            room[axis] //= lanes[axis]
        # Warps take whole rows first (the slowest dimension), so that a reduction along a row stays in a warp.
        for axis in reversed(order):
            warps[axis] = min(left_warps, room[axis])
            left_warps //= warps[axis]
            room[axis] //= warps[axis]
        lanes[order[-1]] *= left_lanes
        warps[order[-1]] *= left_warps
    layout = blocked(shape, per_thread, lanes, warps, tuple(order))
    return layout if shape else LinearLayout({"lane": [0] * 5, "warp": [0] * (num_warps.bit_length() - 1)}, ())


def contiguous_registers(layout: LinearLayout, axis: int) -> tuple[int, ...]:
    """Register bits that step by 1, 2, 4, ... along `axis`: the vector that each thread holds, lowest first."""
    step = 1 << layout.dim_shift(axis)
    registers = layout.bases("register")
    bits = []
    limit = layout.shape[axis]
    while step >> layout.dim_shift(axis) < limit and step in registers:
        bits.append(registers.index(step))
        step <<= 1
    return tuple(bits)


def vector_registers(
    layout: LinearLayout,
    axis: int,
    element_bits: int,
    *,
    contiguous: int,
    divisibility: int,
    access_bits: int = ACCESS_BITS,
) -> tuple[int, ...]:
    """The register bits that one access covers, for a layout chosen elsewhere; empty for element-wise accesses.

    The bits step along `axis`, fastest in memory; everything else in the layout must move by whole vectors.
    """
    bits = contiguous_registers(layout, axis)
    width = min(access_elements(element_bits, divisibility, access_bits), contiguous)
    bits = bits[: max(0, width.bit_length() - 1)]
    mask = layout.dim_mask(axis)
    while bits:
        inside = ((1 << len(bits)) - 1) << layout.dim_shift(axis)
        others = [v for d in layout.dims for i, v in enumerate(layout.bases(d)) if not (d == "register" and i in bits)]
        if not any(v & mask & inside for v in others):
            break
        bits = bits[:-1]
    return bits


def register_groups(registers: int, bits: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Registers grouped by the access that moves them, in memory order within a group."""
    mask = sum(1 << b for b in bits)
    return tuple(
        tuple(
            start | sum(1 << bits[i] for i in range(len(bits)) if element >> i & 1) for element in range(1 << len(bits))
        )
        for start in range(registers)
        if not start & mask
    )


def moved_registers(layout: LinearLayout, axis: int, by: int) -> tuple[int | None, ...]:
    """For each register, the one of the same thread whose element is `by` places further along `axis`; None if another
    thread has it, or it is outside the tile."""
    run = layout.shape[axis]
    bits = vector_registers(layout, axis, 8, contiguous=run, divisibility=run, access_bits=8 * run)
    result: list[int | None] = [None] * layout.registers
    for group in register_groups(layout.registers, bits):
        for place, register in enumerate(group):
            if 0 <= place + by < len(group):
                result[register] = group[place + by]
    return tuple(result)
