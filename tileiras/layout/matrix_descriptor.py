"""Operands of wgmma and tcgen05.mma in shared memory: the layouts that a matrix descriptor can describe, and its
fields.

An operand is made of rows of 16, 32, 64 or 128 bytes along its contiguous dimension, the *span*; eight of these are
one repetition of the swizzle.  Rows follow each other, and blocks of a span's width follow each other after the last
row (PTX ISA, "Asynchronous Warpgroup Level Matrix Shared Memory Layout").
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Literal

from tileiras.layout.constructors import swizzled_shared
from tileiras.layout.linear_layout import LinearLayout, log2_exact
from tileiras.reasons import Reason
from tileiras.support import gf2
from tileiras.support.named_tuple import NamedTuple

SPANS = (128, 64, 32, 16)
"""Bytes, the widest first: rows in more banks, fewer of them in the same ones.  16 is without a swizzle."""

ROWS = 8
"""Rows of a repetition of the swizzle."""

_CODES = {16: 0, 128: 1, 64: 2, 32: 3}
"""PTX ISA, "Matrix Descriptor Format" of wgmma, bits 63-62."""

_TCGEN05_CODES, _TCGEN05_VERSION = {16: 0, 128: 2, 64: 4, 32: 6}, 1
"""PTX ISA, "Shared memory descriptor" of tcgen05, bits 63-61 and 48-46."""

ADDRESS_MASK = 0x3FFFF
"""Bits of an address of shared memory that a descriptor has (PTX ISA, "Matrix Descriptor Format")."""

Major = Literal["k", "mn"]


WIDE_ATOM, _WIDE_ROWS, _WIDE_CODE = 32, 4, 1
"""For 32-bit elements whose K is not contiguous, which only tcgen05.mma takes: bytes that the swizzle of 128 keeps
together, rows of a repetition, and its code (PTX ISA, "Shared memory descriptor" of tcgen05)."""


class MatrixDescriptor(NamedTuple):
    """The fields of a descriptor other than the address: byte distances, and the span of the swizzle.

    `stride`: between repetitions of the swizzle; `leading`: between blocks of a span's width where the rows or columns
    of the dot are contiguous, of no meaning where K is; without a swizzle `leading` is between groups of eight
    rows, and `stride` between units of 16 bytes.
    """

    major: Major
    span: int
    leading: int
    stride: int
    atom: int = 16
    """Bytes that the swizzle keeps together."""

    @property
    def constant(self) -> int:
        """The descriptor of an operand of wgmma at address 0."""
        return self._strides | _CODES[self.span] << 62

    @property
    def tcgen05_constant(self) -> int:
        """The descriptor of an operand of tcgen05.mma at address 0."""
        code = _WIDE_CODE if self.atom == WIDE_ATOM else _TCGEN05_CODES[self.span]
        return self._strides | _TCGEN05_VERSION << 46 | code << 61

    @property
    def _strides(self) -> int:
        return (self.leading >> 4) << 16 | (self.stride >> 4) << 32

    @property
    def alignment(self) -> int:
        """The alignment of the operand's address, so that the base offset of the descriptor is 0."""
        return ROWS * self.span


SPREAD_ROWS = 64
"""Rows of an A that is `spread` over the 128 of an instruction, 16 at a time: rows 0 to 15 are the instruction's rows 0
to 15, rows 16 to 31 its rows 32 to 47, and so on.  Nothing is in shared memory for the instruction's other rows."""

_SPREAD_BITS = 4
"""Low bits that the number of a row has in common with the number of the instruction's row."""


class NoDescriptor(ValueError):
    """The reason for which no matrix descriptor reads an operand."""

    def __init__(self, code: str, rows: int, columns: int) -> None:
        self.reason = Reason(code, rows=rows, columns=columns)
        super().__init__(code, rows, columns)

    def __str__(self) -> str:
        return str(self.reason)


@functools.lru_cache(maxsize=256)
def matrix_layout(
    shape: tuple[int, int], k_axis: int, element_bits: int, major: Major, spread: bool = False
) -> LinearLayout:
    """Where the elements of an operand of this shape, whose dimension `k_axis` is K, lie in shared memory; `spread`: it
    is an A of `SPREAD_ROWS` rows for an instruction with 128.

    Raises NoDescriptor for an operand whose contiguous dimension is shorter than 16 bytes, or than 128 where it is not
    K and elements have 32 bits.
    """
    contiguous = k_axis if major == "k" else 1 - k_axis
    rows, columns = shape[1 - contiguous], shape[contiguous]
    if spread:
        return _spread_layout(rows, columns, contiguous, element_bits, major)
    if _is_wide(element_bits, major):
        if columns * element_bits < 8 * SPANS[0] or rows < ROWS:
            raise NoDescriptor("dots.no-wide-descriptor", rows, columns)
        layout = swizzled_shared((rows, columns), element_bits, SPANS[0], WIDE_ATOM)
        return layout if contiguous == 1 else layout.permute((1, 0))
    span = next((span for span in SPANS if columns * element_bits >= 8 * span), 0)
    if not span or rows < ROWS:
        raise NoDescriptor("dots.no-descriptor", rows, columns)
    layout = swizzled_shared((rows, columns), element_bits, span)
    return layout if contiguous == 1 else layout.permute((1, 0))


def _spread_layout(rows: int, columns: int, contiguous: int, element_bits: int, major: Major) -> LinearLayout:
    """The layout of a spread A with `columns` contiguous elements.  If these lie along M there is no swizzle, which
    would mix empty rows with the others."""
    if major == "mn":
        fits = columns == SPREAD_ROWS and element_bits == 8 and rows >= ROWS
    else:
        fits = rows == SPREAD_ROWS and columns * element_bits >= 8 * SPANS[-1]
    if not fits:
        raise NoDescriptor("dots.no-spread-descriptor", rows, columns)
    span = SPANS[-1] if major == "mn" else next(span for span in SPANS if columns * element_bits >= 8 * span)
    layout = swizzled_shared((rows, columns), element_bits, span)
    offset = list(layout.bases("offset"))
    per_span = log2_exact(span * 8 // element_bits)
    offset.insert(per_span + (_SPREAD_BITS if major == "k" else log2_exact(rows)), 0)
    layout = LinearLayout({"offset": offset}, (rows, columns))
    return layout if contiguous == 1 else layout.permute((1, 0))


def _is_wide(element_bits: int, major: Major) -> bool:
    return element_bits == 32 and major == "mn"


@functools.lru_cache(maxsize=256)
def describe(layout: LinearLayout, k_axis: int, element_bits: int, spread: bool = False) -> MatrixDescriptor | None:
    """The descriptor of an operand, `spread` as of `matrix_layout`, in a layout of shared memory; None if no descriptor
    describes it."""
    majors: tuple[Major, ...] = ("k", "mn")
    for major in majors:
        try:
            if matrix_layout(layout.shape, k_axis, element_bits, major, spread) != layout:
                continue
        except ValueError:
            continue
        contiguous = k_axis if major == "k" else 1 - k_axis
        rows, columns = layout.shape[1 - contiguous], layout.shape[contiguous]
        span = next(span for span in SPANS if columns * element_bits >= 8 * span)
        if spread and major == "mn":
            span = SPANS[-1]
        if major == "k":
            return MatrixDescriptor(major, span, 16, ROWS * span)
        if _is_wide(element_bits, major):
            return MatrixDescriptor(major, span, rows * span, _WIDE_ROWS * span, WIDE_ATOM)
        if span == 16:
            return MatrixDescriptor(major, span, ROWS * span, rows * span)
        return MatrixDescriptor(major, span, rows * span, ROWS * span)
    return None


@functools.lru_cache(maxsize=256)
def swizzle_period(layout: LinearLayout, element_bits: int) -> int:
    """Bytes after which the swizzle of a layout repeats, 16 for one without: the alignment that descriptors of the
    layout require of the tile's address, whose bits the hardware exchanges."""
    rows, period = layout.bases("offset"), SPANS[-1]
    for bit, vector in enumerate(rows):
        if vector & gf2.support(rows[:bit]):
            period = element_bits // 8 << bit + 1
    return period


def byte_offset(layout: LinearLayout, place: Sequence[int], element_bits: int) -> int:
    """The byte of an element of a tile in shared memory."""
    inverse = gf2.right_inverse(list(layout.bases("offset")), layout.out_bits)
    assert inverse is not None, "the layout does not hold every element"
    return gf2.apply(inverse, layout.flatten(place)) * element_bits // 8
