"""Matrices in shared memory, described by 64-bit descriptors (PTX ISA, "Asynchronous Warpgroup Level Matrix Shared
Memory Layout", "Matrix Descriptor Format").

A matrix consists of units of 16 bytes. Its rows have S bytes: 16 without a swizzle, else the width of the swizzle. With
L and T, the leading and stride dimension byte offsets of the descriptor, unit c of row r begins at

- k in a row (K-major), r a row or column of the dot, no swizzle:  16 (r % 8) + T (r / 8) + L c
- k in a row, swizzle:                                                  S (r % 8) + T (r / 8) + 16 c
- k from row to row (MN-major), r being k, no swizzle:                 16 (r % 8) + L (r / 8) + T c
- k from row to row, swizzle:           S (r % 8) + T (r / 8) + 16 (c % (S / 16)) + L (c / (S / 16))

after the descriptor's address, and the swizzle XORs bits of the sum.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..arithmetic import rounding
from ..memory.accesses import Access, check_written, merge, resolve_shared
from ..order import proxies
from ..ptx.decoder import Instruction
from ..ptx.types import TYPES
from ..tensor_map import swizzled

if TYPE_CHECKING:
    from ..launch.warps import WarpGroup

_UNIT = np.dtype(np.complex128)
_SWIZZLES = (0, 128, 64, 32)


class Descriptor(NamedTuple):
    """All in bytes: the start of a matrix, its two strides, and the width of its swizzle (0: none)."""

    address: int
    leading: int
    stride: int
    swizzle: int


def decode_descriptor(word: int) -> Descriptor:
    """Decode a descriptor. Raises ValueError for bits that have to be zero, and for a base offset (a swizzle pattern
    that does not start at an aligned address)."""
    if word & ~0xC00E3FFF3FFF3FFF:
        raise ValueError("bits that have to be zero are not")
    if word >> 49 & 7:
        raise ValueError("a base offset")
    return Descriptor(
        (word & 0x3FFF) << 4, (word >> 16 & 0x3FFF) << 4, (word >> 32 & 0x3FFF) << 4, _SWIZZLES[word >> 62]
    )


class Operand(NamedTuple):
    """Operand A or B: ``rows`` rows of the dot (columns, for B) of ``k`` elements each; ``transposed``: MN-major."""

    type: str
    rows: int
    k: int
    transposed: bool

    def access(self, group: WarpGroup, item: Instruction, descriptor: Descriptor, warp: int) -> Access:
        """The units of the matrix in the shared memory of a warp's block."""
        batch = group.batch
        places = batch.matrices.get((self, descriptor, cta := int(group.warp_cta[warp])))
        if places is None:
            addresses = _addresses(self, descriptor)
            threads = np.full(addresses.size, warp * 32)
            access = resolve_shared(group, item, addresses, _UNIT, False, threads, own=True)
            batch.matrices[self, descriptor, cta] = access.index
            return access
        access = Access(batch.shared.view(_UNIT), places, np.full(places.size, warp * 32), shared=True)
        check_written(group, item, access)
        return access

    def decode(self, group: WarpGroup, item: Instruction, word: int, warp: int) -> Descriptor:
        """A warp's descriptor of the matrix."""
        try:
            return decode_descriptor(word)
        except ValueError as error:
            group.fault(f"no matrix descriptor that is known, {word:#x}: {error}", item, warp * 32)

    def read(self, group: WarpGroup, item: Instruction, access: Access, units: np.ndarray) -> np.ndarray:
        """(rows, k) binary64 of an access that has read ``units``."""
        if (races := group.launch.races) is not None:
            races.read(group, item, access, generic=False)
        return self.values(units)

    def values(self, units: np.ndarray) -> np.ndarray:
        """(rows, k) binary64 of the units in order."""
        lines = self.k if self.transposed else self.rows
        bits = units.view(TYPES[self.type].storage).reshape(lines, -1)
        if self.type == "tf32":
            bits = bits & np.uint32(0xFFFFE000)  # the lower 13 bits are ignored
        if self.type[0] in "su":
            values = bits.view(TYPES[self.type].value).astype(np.float64)
        else:
            values = rounding.decode(bits, self.type)
        return values.T if self.transposed else values


def begin_reads(group: WarpGroup, item: Instruction, accesses: Sequence[Access]) -> None:
    """Check that the matrices of warps of a group, which may be read from now on, are written and visible to the
    asynchronous proxy."""
    if (races := group.launch.races) is not None:
        (everything,) = merge(accesses)
        races.read(group, item, everything, generic=False)
        proxies.check_read(races, group, item, everything)
        for each in accesses:
            each.ordered = everything.ordered


@functools.lru_cache(maxsize=256)
def _addresses(operand: Operand, descriptor: Descriptor) -> np.ndarray:
    """Addresses of the units, row by row; for an MN-major matrix, k by k."""
    size = TYPES[operand.type].bytes
    lines, length = (operand.k, operand.rows) if operand.transposed else (operand.rows, operand.k)
    line = np.arange(lines, dtype=np.int64)[:, None]
    unit = np.arange(-(-length * size // 16), dtype=np.int64)
    span = descriptor.swizzle or 16
    within, beyond = line % 8 * span, line // 8
    if not operand.transposed:
        step = 16 if descriptor.swizzle else descriptor.leading
        places = within + beyond * descriptor.stride + unit * step
    elif descriptor.swizzle:
        across = span // 16
        places = within + beyond * descriptor.stride + unit % across * 16 + unit // across * descriptor.leading
    else:
        places = within + beyond * descriptor.leading + unit * descriptor.stride
    array = swizzled(descriptor.address + places, descriptor.swizzle).reshape(-1).astype(np.uint64)
    array.flags.writeable = False
    return array
