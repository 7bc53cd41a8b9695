"""Operands of `tcgen05.mma` and sources of `tcgen05.cp` in shared memory (PTX ISA, "Shared Memory Descriptor", "Shared
Memory Layout and Swizzling", "Packing formats of elements in Tensor and Shared memory").

The layout of the units of 16 bytes is that of `wgmma`, by rows and strides (`matrix_descriptor`), except for the
swizzle of 128 bytes by atoms of 32: MN-major, its pattern has four rows of k instead of eight, and bits 5 and 6 of an
address are XORed with bits 7 and 8. A base offset is the row of eight at which a pattern begins.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..arithmetic import rounding
from ..memory.accesses import RANK_BIT, Access, resolve_shared
from ..order import proxies
from ..ptx.module import Instruction
from ..tensor_map import swizzled

if TYPE_CHECKING:
    from ..launch.warps import WarpGroup

_UNIT = np.dtype(np.complex128)
#: Bits 61 to 63 of a descriptor -> (bytes of a row, bytes of an atom).
_SWIZZLES = {0: (16, 16), 1: (128, 32), 2: (128, 16), 4: (64, 16), 6: (32, 16)}


class Format(NamedTuple):
    """An element type: ``bits``, and ``group``, the number of elements that 16 bytes of a row hold including
    padding."""

    bits: int
    group: int


#: Elements narrower than 8 bits have groups of 16 padded to 16 bytes, except those of `mxf4` and `mxf4nvf4`, "e2m1x2".
FORMATS = {
    "f16": Format(16, 8), "bf16": Format(16, 8), "tf32": Format(32, 4), "e4m3": Format(8, 16), "e5m2": Format(8, 16),
    "u8": Format(8, 16), "s8": Format(8, 16), "e2m3": Format(6, 16), "e3m2": Format(6, 16), "e2m1": Format(4, 16),
    "e2m1x2": Format(4, 32),
}  # fmt: skip


def _narrow(exponent_bits: int, mantissa_bits: int, bias: int) -> np.ndarray:
    """The values of a format without infinities and NaN, by code."""
    codes = np.arange(1 << 1 + exponent_bits + mantissa_bits)
    exponent, mantissa = codes >> mantissa_bits & (1 << exponent_bits) - 1, codes & (1 << mantissa_bits) - 1
    fraction = mantissa / (1 << mantissa_bits)
    magnitude = np.where(exponent == 0, fraction * 2.0 ** (1 - bias), (1 + fraction) * 2.0 ** (exponent - bias))
    return np.where(codes >> exponent_bits + mantissa_bits, -magnitude, magnitude)


_NARROW = {"e2m3": _narrow(2, 3, 1), "e3m2": _narrow(3, 2, 3), "e2m1": _narrow(2, 1, 1), "e2m1x2": _narrow(2, 1, 1)}


def decode_codes(codes: np.ndarray, name: str) -> np.ndarray:
    """binary64 values of the codes of elements, one code per integer."""
    if name in _NARROW:
        return _NARROW[name][codes]
    if name in ("u8", "s8"):
        return codes.view(np.int8 if name == "s8" else np.uint8).astype(np.float64)
    if name == "tf32":
        codes = codes & np.uint32(0xFFFFE000)  # the lower 13 bits are ignored
    return rounding.decode(codes, name)


def unpack(raw: np.ndarray, name: str) -> np.ndarray:
    """(rows, bytes) of shared memory as (rows, elements) of binary64."""
    bits, group = FORMATS[name]
    if bits >= 8:
        return decode_codes(np.ascontiguousarray(raw).view(f"u{bits // 8}"), name)
    return decode_codes(narrow_codes(raw, bits, group), name)


def narrow_codes(raw: np.ndarray, bits: int, group: int) -> np.ndarray:
    """(rows, units of 16 bytes) of elements of 4 or 6 bits as codes, ``group`` in 16 bytes."""
    units = raw.reshape(len(raw), -1, 16)[..., : group * bits // 8]
    spread = np.unpackbits(units, axis=-1, bitorder="little").reshape(*units.shape[:2], group, bits)
    codes = (spread << np.arange(bits, dtype=np.uint8)).sum(-1, dtype=np.uint8)
    return codes.reshape(len(raw), -1)


def unpack_words(words: np.ndarray, name: str) -> np.ndarray:
    """(rows, columns) of tensor memory as (rows, elements): narrow types have containers of 8 bits, that of e2m1 has
    two bits of padding on either side, except for `mxf4`."""
    bits, _ = FORMATS[name]
    raw = np.ascontiguousarray(words).view(np.uint8)
    if bits >= 8:
        return decode_codes(raw.view(f"u{bits // 8}"), name)
    if name == "e2m1x2":
        return decode_codes(np.stack([raw & 15, raw >> 4], axis=-1).reshape(len(raw), -1), name)
    return decode_codes(raw >> 2 & 15 if name == "e2m1" else raw & 63, name)


class Descriptor(NamedTuple):
    """All in bytes: the start of a matrix, its two strides, the rows and atoms of its swizzle, and the offset of its
    pattern from a boundary of eight rows."""

    address: int
    leading: int
    stride: int
    row: int
    atom: int
    base: int


def decode_descriptor(word: int) -> Descriptor:
    """Raise ValueError for bits that the ISA does not define."""
    if word >> 46 & 7 != 1:
        raise ValueError("bits 46 to 48 are not 0b001")
    if word >> 52 & 1:
        raise ValueError("an absolute leading dimension, which K of 48 bytes alone has")
    if word >> 53 & 0xFF or word >> 14 & 3 or word >> 30 & 3:
        raise ValueError("bits that have to be zero are not")
    mode = word >> 61
    if mode not in _SWIZZLES:
        raise ValueError(f"swizzling mode {mode}")
    address, leading, stride = ((word >> bit & 0x3FFF) << 4 for bit in (0, 16, 32))
    return Descriptor(address, leading, stride, *_SWIZZLES[mode], base=(word >> 49 & 7) << 7 if mode else 0)


class Matrix(NamedTuple):
    """A matrix in the shared memory of one block: ``rows`` of ``units`` times 16 bytes; if MN-major
    (``transposed``), a row has the elements of one k."""

    descriptor: Descriptor
    rows: int
    units: int
    transposed: bool


@functools.lru_cache(maxsize=1024)
def unit_addresses(matrix: Matrix) -> np.ndarray:
    """Offsets in shared memory of a matrix's units, uint64, row by row."""
    result = matrix.descriptor
    line = np.arange(matrix.rows, dtype=np.int64)[:, None]
    unit = np.arange(matrix.units, dtype=np.int64)
    plain, across = result.row == 16, result.row // 16
    if not matrix.transposed:
        step = result.leading if plain else 16
        places = line % 8 * result.row + line // 8 * result.stride + unit * step
    elif plain:
        places = line % 8 * 16 + line // 8 * result.leading + unit * result.stride
    else:
        period = 4 if result.atom == 32 else 8
        places = line % period * result.row + line // period * result.stride
        places = places + unit % across * 16 + unit // across * result.leading
    places = places + result.address - result.base
    if result.atom == 32:
        places = places ^ (places >> 2 & 0x60)
    else:
        places = swizzled(places, 0 if plain else result.row)
    return (places + result.base).reshape(-1).astype(np.uint64)


class Source:
    """A matrix in the shared memory of ``block``, read by an instruction of ``thread`` of ``group``; it has to be
    written completely, or ``partly``."""

    __slots__ = ("block", "group", "item", "init_bits_at_issue", "matrix", "ordered", "partly", "thread", "units")

    def __init__(
        self, group: WarpGroup, item: Instruction, thread: int, block: int, matrix: Matrix, partly: bool = False
    ) -> None:
        self.group = group
        self.item = item
        self.thread = thread
        self.block = block
        self.matrix = matrix
        self.partly = partly
        self.units: np.ndarray | None = None  # their values when the instruction was issued
        self.ordered = 0  # of that access
        self.init_bits_at_issue: np.ndarray | bool = True  # whether they were written then

    def _access(self) -> Access:
        addresses = unit_addresses(self.matrix)
        members = self.group.launch.members
        if members > 1:
            addresses = addresses | np.uint64(self.block % members << RANK_BIT)
        threads = np.full(addresses.size, self.thread)
        return resolve_shared(self.group, self.item, addresses, _UNIT, None if self.partly else False, threads)

    def init_bits(self) -> np.ndarray:
        """(rows, bytes): written both at issue and at the read."""
        return self._init_bits_now() & self.init_bits_at_issue

    def known_rows(self, name: str) -> np.ndarray:
        """(rows,), or if transposed (columns,), of elements of a format: whether they are written."""
        init_bits = self.init_bits()
        if not self.matrix.transposed:
            return init_bits.all(1)
        bits, group = FORMATS[name]
        of_units = init_bits.reshape(len(init_bits), -1, group, 16 // group) if bits >= 8 else init_bits.reshape(
            len(init_bits), -1, 1, 16).repeat(group, 2)  # fmt: skip
        return of_units.all((0, 3)).reshape(-1)

    def _init_bits_now(self) -> np.ndarray:
        access, init_bits = self._access(), self.group.batch.shared_written
        if init_bits is None:
            return np.ones((self.matrix.rows, self.matrix.units * _UNIT.itemsize), bool)
        return init_bits.reshape(-1, _UNIT.itemsize)[access.index].reshape(self.matrix.rows, -1)

    def begin(self) -> None:
        """Check that the matrix, which may be read from now on, is written and visible to the asynchronous proxy."""
        access = self._access()
        if (races := self.group.launch.races) is not None:
            races.read(self.group, self.item, access, generic=False)
            proxies.check_read(races, self.group, self.item, access)
        self.units = access.data[access.index]
        self.ordered = access.ordered
        if self.partly:
            self.init_bits_at_issue = self._init_bits_now()

    def read(self) -> np.ndarray:
        """(rows, bytes)."""
        access = self._access()
        access.ordered = self.ordered
        if (races := self.group.launch.races) is not None:
            races.read(self.group, self.item, access, generic=False)
        units = access.data[access.index].view(np.uint64)
        if (changed := units != self.units.view(np.uint64)).any():
            offset = int(unit_addresses(self.matrix)[changed.argmax() // 2])
            message = f"shared memory at {offset:#x}, which this reads, has been written before it has taken place"
            self.group.fault(message, self.item, self.thread, offset)
        return units.view(np.uint8).reshape(self.matrix.rows, -1)


def matrix_at(
    group: WarpGroup, item: Instruction, thread: int, word: int, rows: int, units: int, transposed: bool
) -> Matrix:
    """Decode a descriptor to its matrix; a fault if it is invalid."""
    try:
        descriptor = decode_descriptor(word)
    except ValueError as error:
        group.fault(f"no matrix descriptor, {word:#x}: {error}", item, thread)
    return Matrix(descriptor, rows, units, transposed)
