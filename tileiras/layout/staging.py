"""Tiles that stay in shared memory: the buffer's layout, and how threads write and read it.

Unlike a conversion, whose two sides are planned together and forgotten, a buffer has a layout of its own: its writers
(asynchronous copies of whole vectors) and its readers (fragments of matrix instructions) are each derived from it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

from tileiras.layout.convert import Condition
from tileiras.layout.linear_layout import LinearLayout
from tileiras.layout.shared import (
    INSTRUCTION_COST,
    MATRIX_FORMS,
    VECTOR_BITS,
    WAVEFRONT_ROWS,
    MatrixAccess,
    MatrixRows,
    SharedAccess,
    conflict_degree,
    deduplicated,
    lanes_in_flight,
    matrix_access,
    matrix_rows,
    optimal_offsets,
    vector_access,
    vector_choices,
)
from tileiras.support import gf2
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import MatrixForm


def _vector_bits(layout: LinearLayout, inverse: Sequence[int], element_bits: int) -> int:
    """How many of the lowest offset bits are registers of `layout`, up to the widest access."""
    places = {gf2.apply(inverse, v) for v in layout.bases("register")}
    width = 0
    while 1 << width in places and element_bits << width + 1 <= VECTOR_BITS:
        width += 1
    return width


def _plain_access(
    layout: LinearLayout,
    offsets: tuple[int, ...],
    inverse: Sequence[int],
    element_bits: int,
    width: int | None = None,
) -> SharedAccess:
    if width is None:
        width = _vector_bits(layout, inverse, element_bits)
    in_flight = lanes_in_flight(layout.bases("lane"), element_bits << width)
    inside = max(width, (32 // element_bits).bit_length() - 1 if element_bits < 32 else 0)
    return vector_access(layout, inverse, width, conflict_degree(offsets, in_flight, inside, element_bits))


@functools.lru_cache(maxsize=1024)
def store_access(
    layout: LinearLayout, offsets: tuple[int, ...], element_bits: int, width: int | None = None
) -> SharedAccess:
    """How threads that have a tile in `layout` write it to a buffer, 2**width elements at a time, or as many as the
    buffer has together; threads with free bits need not."""
    return deduplicated(_plain_access(layout, offsets, _inverse(layout, offsets), element_bits, width))


def _splits(layout: LinearLayout, element_bits: int, forms: tuple[MatrixForm, ...]) -> Iterator[MatrixRows]:
    """The ways in which matrices of these forms give a layout."""
    for form in forms:
        yield from matrix_rows(layout, element_bits, form)


@functools.lru_cache(maxsize=1024)
def load_access(
    layout: LinearLayout, offsets: tuple[int, ...], element_bits: int, forms: tuple[MatrixForm, ...] = MATRIX_FORMS
) -> SharedAccess | MatrixAccess:
    """How threads read a tile from a buffer into `layout`: whichever way takes the fewest wavefronts, by matrices of
    `forms` or without."""
    inverse = _inverse(layout, offsets)
    best: SharedAccess | MatrixAccess = _plain_access(layout, offsets, inverse, element_bits)
    for split in _splits(layout, element_bits, forms):
        matrices = matrix_access(layout, split, offsets, inverse, element_bits)
        if matrices is not None and access_cost(matrices, element_bits) < access_cost(best, element_bits):
            best = matrices
    return best


def in_whole(layout: LinearLayout, shape: tuple[int, ...]) -> LinearLayout:
    """The layout of a slice with the coordinates of the tile of this shape that it is the first of."""
    return LinearLayout.from_coordinates(layout.to_coordinates(), shape)


class Part(NamedTuple):
    """One of the parts of a tile along a dimension: the registers that hold it, in the threads for which the conditions
    hold, and their layout with the part's own coordinates."""

    registers: tuple[int, ...]
    conditions: tuple[Condition, ...]
    layout: LinearLayout


@functools.lru_cache(maxsize=1024)
def part_of(layout: LinearLayout, axis: int, parts: int, number: int) -> Part | None:
    """Part `number` of the equal `parts` of a tile along `axis`; None if a basis that selects it also moves
    elsewhere."""
    size = layout.shape[axis] // parts
    fixed: dict[int, int] = {}
    conditions = []
    bases = {dim: list(layout.bases(dim)) for dim in ("register", "lane", "warp")}
    for bit in range(parts.bit_length() - 1):
        unit = size << layout.dim_shift(axis) + bit
        value = number >> bit & 1
        holders = [(dim, i) for dim, vectors in bases.items() for i, basis in enumerate(vectors) if basis & unit]
        if len(holders) != 1 or bases[holders[0][0]][holders[0][1]] != unit:
            return None
        dim, place = holders[0]
        bases[dim][place] = 0
        if dim == "register":
            fixed[place] = value
        else:
            conditions.append(Condition(dim, place, value))
    free = [i for i in range(len(bases["register"])) if i not in fixed]
    start = sum(value << place for place, value in fixed.items())
    registers = tuple(
        start | sum(1 << place for i, place in enumerate(free) if n >> i & 1) for n in range(1 << len(free))
    )
    bases["register"] = [bases["register"][i] for i in free]
    shape = (*layout.shape[:axis], size, *layout.shape[axis + 1 :])
    coordinates = {dim: [layout.coordinates(basis) for basis in vectors] for dim, vectors in bases.items()}
    return Part(registers, tuple(conditions), LinearLayout.from_coordinates(coordinates, shape))


def slice_columns(layout: LinearLayout, shape: tuple[int, ...], offsets: tuple[int, ...]) -> tuple[int, ...]:
    """The addends (XOR) to addresses for the bits of a slice's number, for reads of slices in `layout` from a buffer of
    a tile of this shape."""
    whole = in_whole(layout, shape)
    inverse = _inverse(whole, offsets)
    axis = next(axis for axis, (n, part) in enumerate(zip(shape, layout.shape)) if n != part)
    first, last = (size.bit_length() - 1 for size in (layout.shape[axis], shape[axis]))
    return tuple(gf2.apply(inverse, 1 << whole.dim_shift(axis) + bit) for bit in range(first, last))


def _inverse(layout: LinearLayout, offsets: tuple[int, ...]) -> list[int]:
    inverse = gf2.right_inverse(list(offsets), layout.out_bits)
    if inverse is None:
        raise ValueError("the buffer does not hold every element of the tile")
    return inverse


def access_cost(access: SharedAccess | MatrixAccess, element_bits: int) -> float:
    """The cost of an access of a warp, in wavefronts and instructions."""
    return access.wavefronts(element_bits) + INSTRUCTION_COST * len(access.registers)


@functools.lru_cache(maxsize=1024)
def buffer_offsets(
    writer: LinearLayout,
    vector: tuple[int, ...],
    readers: tuple[LinearLayout, ...],
    element_bits: int,
    forms: tuple[MatrixForm, ...] = MATRIX_FORMS,
) -> tuple[int, ...]:
    """The layout of a buffer, as the tile position of each offset bit, with the fewest wavefronts in all.

    `writer` is the layout of the copies that fill it, `vector` the tile positions of the bits within one copy, which
    stay together; `readers` are the layouts that it is read into, by matrices of `forms` or without.
    """
    in_flight = lanes_in_flight(writer.bases("lane"), element_bits << len(vector))
    inside = gf2.support(vector)
    candidates = []
    for reader in readers:
        for split in _splits(reader, element_bits, forms):
            if split.vector[: len(vector)] == vector:
                rows = split.rows[:WAVEFRONT_ROWS]
                candidates.append(optimal_offsets(writer.out_bits, split.vector, in_flight, rows, element_bits))
        for access_bits in sorted({element_bits, *(b for b in (64, VECTOR_BITS) if b > element_bits)}):
            # A copy's elements stay together however a reader's lanes move within it.
            lanes = [v & ~inside for v in lanes_in_flight(reader.bases("lane"), access_bits)]
            candidates.append(optimal_offsets(writer.out_bits, vector, in_flight, lanes, element_bits))

    def cost(offsets: tuple[int, ...]) -> float:
        stores = access_cost(store_access(writer, offsets, element_bits, len(vector)), element_bits)
        return reading_cost(readers, offsets, element_bits, forms) + stores

    return min((tuple(offsets) for offsets in candidates), key=cost)


@functools.lru_cache(maxsize=1024)
def reading_cost(
    readers: tuple[LinearLayout, ...],
    offsets: tuple[int, ...],
    element_bits: int,
    forms: tuple[MatrixForm, ...] = MATRIX_FORMS,
) -> float:
    """The cost of reading a buffer into each of these layouts, in wavefronts and instructions."""
    return sum(access_cost(load_access(reader, offsets, element_bits, forms), element_bits) for reader in readers)


@functools.lru_cache(maxsize=1024)
def stored_offsets(
    writer: LinearLayout, readers: tuple[LinearLayout, ...], times: int, element_bits: int
) -> tuple[int, ...]:
    """Likewise for a buffer that threads write from registers, in which no elements have to stay together; each reader
    reads `times` slices; its layout is that of the first."""

    def cost(offsets: tuple[int, ...]) -> float:
        stores = access_cost(store_access(writer, offsets, element_bits), element_bits)
        return times * reading_cost(readers, offsets, element_bits) + stores

    candidates = {}
    for reader in readers:
        for vector, store, load in vector_choices(writer, reader, element_bits):
            lanes = (lanes_in_flight(layout.bases("lane"), element_bits << width)
                     for layout, width in ((writer, store), (reader, load)))  # fmt: skip
            candidates[tuple(optimal_offsets(writer.out_bits, vector, *lanes, element_bits))] = None
    return min(candidates, key=cost)
