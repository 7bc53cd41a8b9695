"""Rows of a warpgroup's A in registers, in an order in which its threads read vectors along them.

An instruction multiplies its rows in any order, as long as A and the accumulator have the same one.  So a tile that
lies in shared memory with the rows contiguous, where no matrix descriptor takes it, goes to registers in vectors: rows
of one thread are neighbours there, and those of the eight threads of a column lie in other banks than the next columns,
which the swizzle of 128 bytes exchanges by their numbers.

    row of the instruction      64 b + 32 w1 + 16 w0 +  8 r  + 4 l2 + 2 l1 + l0     b, r registers, l lanes, w warps
    row of the tile, 32 bits    64 w1 + 32 w0 + 16 l0 + 8 l2 + 4 l1 + 2 b  + r      in vectors of 16 bytes
"""

from __future__ import annotations

import functools
import itertools

from tileiras.layout.linear_layout import LinearLayout, log2_exact
from tileiras.layout.shared import VECTOR_BITS
from tileiras.layout.staging import access_cost, load_access
from tileiras.layout.tensor_box import box_layout

_SPAN_BYTES = 128
"""The bytes of a row of boxes of tensor maps, all banks."""


@functools.lru_cache(maxsize=256)
def contiguous_rows(fragment: LinearLayout, element_bits: int) -> tuple[int, ...]:
    """The bit of a row's number in the tile for each bit of its number in the instructions that take `fragment`, a
    layout of registers of [rows, columns], so that it is read with the least cost where boxes of tensor maps, or copies
    that lay it likewise, have put it with contiguous rows."""
    rows, columns = fragment.shape
    boxes = box_layout((columns, rows), 1, element_bits)
    if boxes is None:
        return tuple(range(log2_exact(rows)))
    in_thread, in_lanes = (_row_bits(fragment, dim) for dim in ("register", "lane"))
    vector = in_thread[: log2_exact(VECTOR_BITS // element_bits)]
    span = range(len(vector), min(log2_exact(rows), log2_exact(8 * _SPAN_BYTES // element_bits)))

    def order(lanes: tuple[int, ...]) -> tuple[int, ...]:
        places = dict(zip((*vector, *in_lanes), (*range(len(vector)), *lanes)))
        others = iter(bit for bit in range(log2_exact(rows)) if bit not in places.values())
        return tuple(places[bit] if bit in places else next(others) for bit in range(log2_exact(rows)))

    def cost(order: tuple[int, ...]) -> float:
        layout = with_rows(fragment, order).permute((1, 0))
        return access_cost(load_access(layout, boxes.bases("offset"), element_bits), element_bits)

    orders = map(order, itertools.permutations(span, len(in_lanes)))
    return min(orders, key=cost)


def with_rows(layout: LinearLayout, order: tuple[int, ...]) -> LinearLayout:
    """A layout of [rows, columns] whose rows are permuted: bit i of a row's number becomes bit `order[i]`."""
    shift = layout.dim_shift(0)

    def in_tile(vector: int) -> int:
        row, column = layout.coordinates(vector)
        return column | sum(1 << shift + place for bit, place in enumerate(order) if row >> bit & 1)

    return layout.map_bases(in_tile)


def _row_bits(layout: LinearLayout, dim: str) -> list[int]:
    """The bits of the row's number that bases of an input dimension are, in order."""
    coordinates = map(layout.coordinates, layout.bases(dim))
    return [log2_exact(row) for row, column in coordinates if row and not column]
