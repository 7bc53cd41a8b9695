"""Tiles in shared memory as boxes of a tensor map: the parts that one copy of the tensor memory accelerator moves.

A box lies row by row, its innermost dimension first; the hardware's swizzle then exchanges units of 16 bytes within
rows of 32, 64 or 128 bytes, by the bits of their shared address (PTX ISA, "Swizzling Modes"), or units of 32 bytes
within rows of 128.  Rows are no wider than the swizzle, and no dimension is longer than 256, so a tile may take several
boxes, which differ in their place alone.

The hardware exchanges units by bits of the address, so a box begins where its swizzle does: at a multiple of eight rows
as wide as the swizzle.  If several swizzles place a tile of fewer bytes alike, it uses the narrowest, whose stages need
the fewest bytes.  A tile of fewer than eight rows of its swizzle is padded to these, by less than 1,024 bytes a stage.
Narrower rows would save nothing: eight of them in each of their boxes take the same bytes, in more boxes, and more of
them lie in the same banks.
"""

from __future__ import annotations

import functools
from math import prod

from tileiras.layout.arena import aligned_to
from tileiras.layout.constructors import swizzled_shared
from tileiras.layout.linear_layout import LinearLayout, log2_exact
from tileiras.layout.matrix_descriptor import WIDE_ATOM
from tileiras.support.named_tuple import NamedTuple

LONGEST = 256
"""The most elements of a box along a dimension (CUDA driver API, cuTensorMapEncodeTiled: boxDim)."""

MOST_DIMENSIONS = 5
"""The most dimensions of a tensor map (PTX ISA, "Tensors")."""

UNIT = 16
"""Alignment in bytes of rows of a box, strides and addresses."""

PLAIN_ALIGNMENT = 128
"""Alignment in bytes of the shared address of a box without a swizzle (PTX ISA, "cp.async.bulk.tensor")."""

_MIXED_BITS = {(128, UNIT): 3, (64, UNIT): 2, (32, UNIT): 1, (0, UNIT): 0, (128, WIDE_ATOM): 2}
"""Bits of the address from bit 7 on that are mixed into those from the first on that says which atom it is, by the
width of the swizzle and the bytes that it keeps together."""


_FIRST_MIXED = 7
"""Bit of an address."""


class Piece(NamedTuple):
    """One box of a tile: its first byte in the tile's place in shared memory, its corner in the tile."""

    offset: int
    corner: tuple[int, ...]


class TensorBoxes(NamedTuple):
    """How a tile is made of boxes.

    `order`: the tile's dimensions, innermost of the tensor first; `box`: extents by dimension of the tile; `swizzle`:
    width in bytes of the rows that it mixes, 0 for none; `atom`: bytes that it keeps together.
    """

    order: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int
    pieces: tuple[Piece, ...]
    atom: int = UNIT

    def share(self, parts: int, number: int) -> tuple[Piece, ...]:
        """The boxes of one of `parts` parts that are equally many."""
        count = len(self.pieces) // parts
        return self.pieces[number * count : (number + 1) * count]

    @property
    def alignment(self) -> int:
        """The alignment of the tile's shared address: eight rows are one repetition of the swizzle."""
        return alignment_of(self.swizzle)


def alignment_of(swizzle: int) -> int:
    """The alignment of the shared address of a box with this swizzle."""
    return max(PLAIN_ALIGNMENT, 8 * swizzle)


@functools.lru_cache(maxsize=256)
def box_layout(shape: tuple[int, ...], contiguous: int, element_bits: int) -> LinearLayout | None:
    """The layout of shared memory in which boxes with the widest swizzle put a tile; None for a tile whose dimension
    `contiguous` has less than the 16 bytes that stay together."""
    row = shape[contiguous] * element_bits // 8
    if row < UNIT:
        return None
    others = [dim for dim in range(len(shape)) if dim != contiguous]
    rows = prod(shape[dim] for dim in others)
    span = next(span for span in (128, 64, 32, UNIT) if row >= span)
    layout = swizzled_shared((rows, shape[contiguous]), element_bits, span)
    order = [*others, contiguous]
    return layout.reshape(tuple(shape[dim] for dim in order)).permute(tuple(map(order.index, range(len(shape)))))


@functools.lru_cache(maxsize=256)
def tensor_boxes(layout: LinearLayout, contiguous: int, element_bits: int, parts: int = 1) -> TensorBoxes | None:
    """The boxes of a tile in a layout of shared memory, of whose tensor the tile's dimension `contiguous` is the
    innermost; None where no boxes have that layout.  There are a multiple of `parts`, a power of two.

    Of the swizzles that place the tile so, the one whose stages take the fewest bytes, the widest of these.
    """
    if element_bits % 8 or not 1 <= len(layout.shape) <= MOST_DIMENSIONS:
        return None
    part_bits = parts.bit_length() - 1
    every = (_with_swizzle(layout, contiguous, element_bits // 8, mode, part_bits) for mode in _MIXED_BITS)
    size = element_bits // 8 << len(layout.bases("offset"))
    return min(filter(None, every), key=lambda boxes: aligned_to(size, boxes.alignment), default=None)


@functools.lru_cache(maxsize=256)
def stage_of_boxes(
    offsets: tuple[int, ...], shape: tuple[int, ...], contiguous: int, element_bits: int
) -> tuple[int, ...]:
    """The layout of stages that boxes fill with tiles of a layout: padded behind the tile, so that stages one behind
    the other begin where boxes may."""
    boxes = tensor_boxes(LinearLayout({"offset": offsets}, shape), contiguous, element_bits)
    if boxes is None:
        return offsets
    size = element_bits // 8 << len(offsets)
    return (*offsets, *[0] * log2_exact(aligned_to(size, boxes.alignment) // size))


def _with_swizzle(
    layout: LinearLayout, contiguous: int, size: int, mode: tuple[int, int], part_bits: int
) -> TensorBoxes | None:
    """The boxes of a layout for one way to swizzle; None if absent.  `part_bits`: bits of offsets that remain to
    number the boxes."""
    swizzle, atom = mode
    steps = _steps(layout, size.bit_length() - 1, _MIXED_BITS[mode], atom)
    movable = [bit for bit, moved_by in enumerate(steps or ()) if moved_by is not None]
    if steps is None or len(movable) < part_bits:
        return None
    box, order, count = [1] * len(layout.shape), [contiguous], 0
    row = swizzle // size if swizzle else LONGEST
    for moved_by in steps[: movable[-part_bits] if part_bits else len(steps)]:
        if moved_by is None:
            break
        dim, step = moved_by
        if dim not in order and step == 1:
            order.append(dim)
        elif dim != order[-1] or step != box[dim] or step == (row if dim == contiguous else LONGEST):
            break
        box[dim] *= 2
        count += 1
    order += [dim for dim in reversed(range(len(box))) if dim not in order]
    first = size << count
    if box[contiguous] * size % UNIT:
        return None
    pieces = [Piece(0, (0,) * len(box))]
    for bit, moved_by in enumerate(steps[count:]):
        if moved_by is None:
            continue
        dim, step = moved_by
        corners = [list(piece.corner) for piece in pieces]
        for corner in corners:
            corner[dim] += step
        pieces += [Piece(piece.offset + (first << bit), tuple(corner)) for piece, corner in zip(pieces, corners)]
    boxes = TensorBoxes(tuple(order), tuple(box), swizzle, tuple(pieces), atom)
    return None if any(piece.offset % boxes.alignment for piece in pieces) else boxes


def _steps(layout: LinearLayout, size_bits: int, mixed: int, atom: int) -> list[tuple[int, int] | None] | None:
    """For each bit of an offset in elements, before a swizzle that keeps `atom` bytes together, the dimension along
    which it moves, and how far; None for a bit with nothing at its offsets.  None for all where a bit moves along
    several dimensions."""
    bases, distance = layout.bases("offset"), _FIRST_MIXED - (atom.bit_length() - 1)
    steps: list[tuple[int, int] | None] = []
    for bit, vector in enumerate(bases):
        if not vector:
            steps.append(None)
            continue
        if _FIRST_MIXED <= bit + size_bits < _FIRST_MIXED + mixed:
            vector ^= bases[bit - distance]
        moves = [(dim, step) for dim, step in enumerate(layout.coordinates(vector)) if step]
        if len(moves) != 1 or moves[0][1] & moves[0][1] - 1:
            return None
        steps.append(moves[0])
    return steps
