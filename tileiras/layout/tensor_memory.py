"""Tiles in tensor memory: the lane and the column of 32 bits of each element, and the thread that loads it.

An accumulator of tcgen05.mma has the instruction's rows along the lanes: 128 of them, or 64 in 16 of every 32; for a
pair of CTAs with 64 rows each the second half of the columns is in the lanes after these (PTX ISA, "Data Path Layout
Organization", layouts D, F and B).  Tiles with more rows continue in the columns after these.  A warp accesses the 32
lanes given by its number modulo 4, so that warps beyond the first four take other columns.
"""

from __future__ import annotations

import functools
from typing import Literal

from tileiras.layout.linear_layout import TENSOR_DIMS, LinearLayout, log2_exact
from tileiras.support import gf2

LANES = 128
"""Lanes of the tensor memory of an SM (PTX ISA, "Tensor Memory Addressing")."""

COLUMNS = 512
"""Columns of 32 bits, likewise."""

COLUMN_BITS = 32
"""Bits of a lane of a column, likewise."""

SCALED_AT_ONCE = 64
"""Registers of a thread that are multiplied between a load and a store: half of the most that an instruction moves."""

LEAST_COLUMNS = 32
"""The fewest columns of an allocation, whose columns are a power of two (PTX ISA, "tcgen05.alloc")."""

LANE_SHIFT = 16
"""The position of the lane in an address; the column is below (PTX ISA, "Tensor Memory Addressing")."""

HALF = 64
"""Rows of the smaller accumulator, which has every second run of 16 lanes."""

_FREE_LANE = 4
"""The bit of a lane's number that is clear in these."""

_WARPS = 2
"""Bits of a warp's number that determine the lanes that it accesses."""

HALVES = "16x32bx2"

AccessShape = Literal["32x32b", "16x32bx2", "16x128b", "16x256b"]
"""PTX ISA, "Data Movement Shape": a lane of 32 has a row; a lane and the one 16 behind have half a row each; the
fragment of mma.sync's accumulators, of elements that have a column each or, where two have one, half as many."""


@functools.lru_cache(maxsize=256)
def accumulator_layout(
    shape: tuple[int, int], rows: int, exchanged: bool = False, of_pair: bool = False
) -> LinearLayout:
    """Where an accumulator of this shape lies when an instruction has `rows` rows of it, 64 or 128; `exchanged`: of the
    transposed tile; `of_pair`: when it is one of two CTAs, which has all columns."""
    m, n = shape[::-1] if exchanged else shape
    row_bits = [(1 << bit, 0) for bit in range(log2_exact(rows))]
    columns = [(0, 1 << bit) for bit in range(log2_exact(n))]
    if rows == HALF and of_pair:
        row_bits.append(columns.pop())
    elif rows == HALF:
        row_bits.insert(_FREE_LANE, (0, 0))
    columns += [(rows << bit, 0) for bit in range(log2_exact(m // rows))]
    layout = LinearLayout.from_coordinates({"column": columns, "lane": row_bits}, (m, n))
    return layout.permute((1, 0)) if exchanged else layout


@functools.lru_cache(maxsize=256)
def operand_layout(shape: tuple[int, int], element_bits: int) -> LinearLayout:
    """Where A of this shape, 64 rows, or 128 or a multiple of them, lies when an instruction reads it in tensor memory:
    rows along the lanes, as those of D, and as many elements of a row in a column as its 32 bits hold (PTX ISA, "Data
    Path Layout Organization")."""
    m, k = shape
    along = [(0, 1 << bit) for bit in range(log2_exact(k))]
    packed = log2_exact(COLUMN_BITS // element_bits)
    rows = [(1 << bit, 0) for bit in range(log2_exact(m))]
    if m == HALF:
        rows.insert(_FREE_LANE, (0, 0))
    own = log2_exact(LANES)
    bases = {"element": along[:packed], "column": along[packed:] + rows[own:], "lane": rows[:own]}
    return LinearLayout.from_coordinates(bases, shape)


def without_free_columns(layout: LinearLayout) -> LinearLayout:
    """A tile of whose runs of 128 rows each begins some columns behind the one before ends, as if it did not."""
    columns = layout.bases("column")
    if all(columns):
        return layout
    first = columns.index(0)
    behind = [vector for vector in columns[first:] if vector]
    if any(vector < layout.flatten((LANES, 0)) for vector in behind):
        return layout
    bases = {"element": layout.bases("element"), "column": (*columns[:first], *behind), "lane": layout.bases("lane")}
    return LinearLayout(bases, layout.shape)


SCALES_IN_WORD = 4
"""Bytes of a column of a lane: the scales of a row, or column, for as many runs of K."""

_WORD_ROWS = 32
"""Rows whose words are in a column, one in each lane of a quarter (PTX ISA, "Scale Factor Layout" of tcgen05.mma)."""


_COPIED_WORDS = 4
"""Words of a row that are copied together, each to a column (PTX ISA, "tcgen05.cp", shape .32x128b)."""

_LEAST_WORD_COLUMNS = 2
"""Columns from the words of four runs of K to the next: CUTLASS uses every second one (SM100, tiles of N = 64); others
are undocumented."""


_SPREAD_RUN = 16
"""Consecutive rows of an A that is `spread` (`matrix_descriptor.SPREAD_ROWS`): each run is followed by as many rows of
the instruction that have no value, so that the accumulator lies as one of 64 rows does."""


def scale_places(shape: tuple[int, int], spread: bool, exchanged: bool) -> tuple[int, int]:
    """The rows and the columns of a result for which scales are copied.  For the instruction's A, which is B of a dot
    that is `exchanged`, these are all rows of the instruction where A is `spread`."""
    m, n = shape
    if not spread:
        return m, n
    return (m, LANES) if exchanged else (LANES, n)


@functools.lru_cache(maxsize=256)
def scale_layout(count: int, runs: int, spread: bool = False) -> LinearLayout:
    """Where the scales of `count` rows, for `runs` runs of K, lie in shared memory, from where copies of 32 rows of 16
    bytes take them: a row has the words of four rows of the tile, each 32 after the one before, and of further runs
    where the tile has fewer; then comes the next row.  Nothing is at places beyond the tile's rows and runs, nor for
    the rows that an A which is `spread` leaves out."""
    rows = [(1 << bit, 0) for bit in range(log2_exact(count))]
    along = [(0, 1 << bit) for bit in range(log2_exact(runs))]
    near, own, together = (log2_exact(n) for n in (SCALES_IN_WORD, _WORD_ROWS, _COPIED_WORDS))
    near_rows = log2_exact(_SPREAD_RUN) if spread else own
    words = [*_pad(rows[near_rows:], log2_exact(_LEAST_WORD_COLUMNS)), *along[near:]]
    offset = [
        *_pad(along[:near], near), *_pad(words[:together], together), *_pad(rows[:near_rows], own),
        *words[together:],
    ]  # fmt: skip
    return LinearLayout.from_coordinates({"offset": offset}, (count, runs))


def _pad(bases: list[tuple[int, int]], bits: int) -> list[tuple[int, int]]:
    return [*bases, *[(0, 0)] * (bits - len(bases))]


def word_columns(count: int) -> int:
    """Columns between the words of a row for four runs of K and those for the next four."""
    return max(_LEAST_WORD_COLUMNS, count // _WORD_ROWS)


def scale_columns(count: int, runs: int) -> int:
    """Columns to which copies of the scales of `count` rows write."""
    return max(_COPIED_WORDS, word_columns(count) * -(-runs // SCALES_IN_WORD))


def raw_layout(columns: int) -> LinearLayout:
    """Words of all lanes in neighbouring columns."""
    bases = {"column": [(0, 1 << bit) for bit in range(log2_exact(columns))]}
    bases["lane"] = [(1 << bit, 0) for bit in range(log2_exact(LANES))]
    return LinearLayout.from_coordinates(bases, (LANES, columns))


def is_in_tensor_memory(layout: LinearLayout) -> bool:
    """Whether a layout is one of tensor memory."""
    return layout.dims == TENSOR_DIMS


def access_shape(layout: LinearLayout, halves: bool = False) -> AccessShape:
    """The shape of warps' loads and stores of a tile with this layout; `halves` as of `fragment_layout`."""
    if layout.bases("lane")[_FREE_LANE]:
        return "32x32b"
    if halves:
        return HALVES
    return "16x128b" if layout.bases("element") else "16x256b"


def access_of(layout: LinearLayout, fragment: LinearLayout, element_bits: int) -> AccessShape | None:
    """The shape of moves of these fragments of a tile with this layout; None if no instruction has it."""
    for halves in (False, True):
        if fragment_layout(layout, fragment.warps, element_bits, halves) == fragment:
            return access_shape(layout, halves)
    return None


@functools.lru_cache(maxsize=256)
def fragment_layout(
    layout: LinearLayout, warps: int, element_bits: int, halves: bool = False
) -> LinearLayout | None:
    """The registers, lanes and warps that a tile in tensor memory goes to; None when its lanes cannot be divided
    among the warps.

    Elements of 16 bits that have a column each are put into registers by two neighbours.  `halves`: of 64 rows, each is
    in two threads, which reduce it with one exchange; otherwise in four, each of which has the columns of a quadruple
    of neighbours, as mma.sync and stores of 8 elements by as many threads require.
    """
    further = log2_exact(warps) - _WARPS
    elements, lanes, columns = layout.bases("element"), layout.bases("lane"), layout.bases("column")
    own = len(columns) - further
    # Columns of other tiles may lie between those of two warpgroups.
    while own > 0 and not columns[own - 1]:
        own -= 1
    if further < 0 or own < 0 or is_spread(layout, element_bits) and own < 1:
        return None
    warp = (*lanes[-_WARPS:], *columns[len(columns) - further :])
    inside = columns[:own]
    shape = access_shape(layout, halves)
    if shape == "32x32b":
        bases = {"register": (*elements, *inside), "lane": lanes[:5], "warp": warp}
    elif shape == HALVES:
        if len(inside) < 1 + is_spread(layout, element_bits):
            return None
        bases = {"register": (*elements, *inside[:-1]), "lane": (*lanes[:_FREE_LANE], inside[-1]), "warp": warp}
    else:
        near = 0 if elements else 2 if is_spread(layout, element_bits) else 1
        if own < near + 2:
            return None
        register = (*elements, *inside[:near], lanes[3], *inside[near + 2 :])
        bases = {"register": register, "lane": (*inside[near : near + 2], *lanes[:3]), "warp": warp}
    return LinearLayout(bases, layout.shape)


def slice_fragment(
    shape: tuple[int, ...], part: tuple[int, ...], rows: int, exchanged: bool, warps: int, element_bits: int,
    halves: bool = False,
) -> LinearLayout | None:  # fmt: skip
    """The fragments of a slice of an accumulator of `accumulator_layout`, cut into parts of the shape `part`; None when
    its columns are not neighbours, or the warps cannot share them; `halves` as of `fragment_layout`.

    A slice lies as an accumulator of its own shape does.
    """
    (m, n), (part_m, part_n) = (shape[::-1], part[::-1]) if exchanged else (shape, part)
    if part_m % rows or part_m > rows and part_n < n:
        return None
    return fragment_layout(accumulator_layout(part, rows, exchanged), warps, element_bits, halves)


def is_spread(layout: LinearLayout, element_bits: int) -> bool:
    """Whether elements of 16 bits have a column each, as accumulators have."""
    return element_bits == 16 and not layout.bases("element")


def columns_of(layout: LinearLayout) -> int:
    """Columns that a tile takes."""
    return 1 << len(layout.bases("column"))


def column_of(layout: LinearLayout, place: tuple[int, int]) -> int:
    """The column of an element."""
    columns = layout.bases("column")
    others = [vector for vector in (*layout.bases("lane"), *layout.bases("element")) if vector]
    inverse = gf2.right_inverse([*columns, *others], layout.out_bits)
    assert inverse is not None, "the layout does not hold every element"
    return gf2.apply(inverse, layout.flatten(place)) & (1 << len(columns)) - 1


def own_columns(layout: LinearLayout, warps: int) -> int:
    """Columns of a tile that each of `warps` warps accesses."""
    return columns_of(layout) >> log2_exact(warps) - _WARPS


def warp_offsets(layout: LinearLayout, warps: int) -> list[int]:
    """The addend to the address of a tile for each bit of a warp's number, which gives the warp's part."""
    own = log2_exact(own_columns(layout, warps))
    return [32 << LANE_SHIFT, 64 << LANE_SHIFT, *(1 << bit for bit in range(own, len(layout.bases("column"))))]
