"""Tensor maps: the 128 bytes that describe a tensor and its boxes to `cp.async.bulk.tensor`.

The CUDA driver API calls them opaque (`cuTensorMapEncodeTiled`). Cubins for the driver's tile launch contain host code
that writes them; the layout below was derived from the output of such code (13.5, sm_90) for tensors of known sizes.
Fields that it never sets, such as element strides and interleaving, have to be zero. From byte 0, low bits first:

    0   address, 64 bits
    8   bits 0-3: 2, or 0 in maps that kernels create from zeros by `tensormap.replace`, which has no field for them
        (Triton's do, TMAToLLVM.cpp, and run on Hopper and Blackwell); 4-6: rank - 1; 7-10: element type; 13-14:
        swizzle; 15: fill with NaN; 16: f32 becomes tf32; 18, 20-23: hints for the caches; 19: a swizzle of 128 bytes
        moves 32 bytes together; from bit 32 on: first stride, in units of 16 bytes
    16  second to fourth stride, 32 bits each; 0
    32  sizes of the five dimensions less 1, 32 bits each, innermost first
    55  sizes of the box in five dimensions less 1, 8 bits each
    64  unused: kernels that create maps leave the rest unchanged

Element types and swizzles have the numbers of the PTX ISA ("tensormap.replace": `.elemtype`, `.swizzle_mode`).
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

#: name -> (number, bytes of an element)
ELEMENTS = {
    "u8": (0, 1),
    "u16": (1, 2),
    "u32": (2, 4),
    "s32": (3, 4),
    "u64": (4, 8),
    "s64": (5, 8),
    "f16": (6, 2),
    "f32": (7, 4),
    "f64": (9, 8),
    "bf16": (10, 2),
}
_NAMES = {number: name for name, (number, _) in ELEMENTS.items()}
_SWIZZLES = (0, 32, 64, 128)

BYTES = 128
#: Used bytes of these.
USED = 64
_VALID = 2
_NAN, TO_TF32, _WIDE_ATOMS = 1 << 15, 1 << 16, 1 << 19
_KNOWN = 0xFFFFFFFF & ~(3 << 11) & ~(1 << 17) & ~(0xFF << 24)


class TensorMap(NamedTuple):
    """``dims``, ``strides`` (bytes, of all dimensions but the innermost) and ``box`` are innermost first;
    ``swizzle`` is the width in bytes of the rows that it permutes, 0 without; ``atom`` bytes stay together."""

    element: str
    address: int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int = 0
    fill_nan: bool = False
    to_tf32: bool = False
    atom: int = 16

    @property
    def element_bytes(self) -> int:
        return ELEMENTS[self.element][1]

    def check(self) -> None:
        """Raise ValueError for parameters that the driver rejects (CUDA driver API, `cuTensorMapEncodeTiled`)."""
        rank, row = len(self.dims), self.box[0] * self.element_bytes
        wrong = (
            ("the ranks differ", len(self.strides) != rank - 1 or len(self.box) != rank),
            ("the rank is not 1 to 5", not 1 <= rank <= 5),
            ("the tensor's address is not a multiple of 16", self.address % 16 != 0),
            ("a dimension is not 1 to 2**32", not all(1 <= size <= 1 << 32 for size in self.dims)),
            ("a stride is not a multiple of 16 below 2**36", any(s % 16 or s >> 36 for s in self.strides)),
            ("a box is not 1 to 256 wide", not all(1 <= size <= 256 for size in self.box)),
            ("rows of a box are not a multiple of 16 bytes", row % 16 != 0),
            ("atoms of 32 bytes without a swizzle of 128", self.atom != 16 and (self.atom, self.swizzle) != (32, 128)),
            ("rows of a box are wider than the swizzle", bool(self.swizzle) and row > self.swizzle),
        )
        for message, is_wrong in wrong:
            if is_wrong:
                raise ValueError(message)


def encode(tensor_map: TensorMap) -> bytes:
    """The 128 bytes. Raises ValueError for a map that the driver would reject."""
    tensor_map.check()
    rank = len(tensor_map.dims)
    flags = _VALID | rank - 1 << 4 | ELEMENTS[tensor_map.element][0] << 7 | _SWIZZLES.index(tensor_map.swizzle) << 13
    flags |= tensor_map.fill_nan * _NAN | tensor_map.to_tf32 * TO_TF32 | (tensor_map.atom == 32) * _WIDE_ATOMS
    strides = [stride >> 4 for stride in tensor_map.strides] + [0] * (5 - rank)
    dims = [size - 1 for size in tensor_map.dims] + [0] * (5 - rank)
    box = [size - 1 for size in tensor_map.box] + [0] * (5 - rank)
    raw = struct.pack("<QI4II5I3x5B", tensor_map.address, flags, *strides, 0, *dims, *box)
    return raw.ljust(BYTES, b"\0")


@functools.lru_cache(maxsize=64)
def decode(raw: bytes) -> TensorMap:
    """Decode a map of 128 bytes. Raises ValueError if they are not a map, or are one of an unknown kind."""
    address, flags, *rest = struct.unpack_from("<QI4II5I", raw)
    strides, beyond, dims, box = rest[:4], rest[4], rest[5:], raw[55:60]
    rank = (flags >> 4 & 7) + 1
    number = flags >> 7 & 15
    if flags & 15 not in (0, _VALID) or flags & ~_KNOWN or rank > 5 or number not in _NAMES:
        raise ValueError(f"flags {flags:#x}")
    reserved = (raw[52:55], raw[60:USED], strides[rank - 1 :], dims[rank:], box[rank:])
    if beyond or any(any(each) for each in reserved):
        raise ValueError("bits of unknown meaning")
    text = TensorMap(
        _NAMES[number], address, tuple(size + 1 for size in dims[:rank]), tuple(s << 4 for s in strides[: rank - 1]),
        tuple(size + 1 for size in box[:rank]), _SWIZZLES[flags >> 13 & 3], bool(flags & _NAN), bool(flags & TO_TF32),
        32 if flags & _WIDE_ATOMS else 16,
    )  # fmt: skip
    text.check()
    return text


def swizzled(addresses: np.ndarray, width: int, atom: int = 16) -> np.ndarray:
    """Shared addresses (int64) with rows of ``width`` bytes swizzled (PTX ISA, "Swizzling Modes"): bits 4 to 6 are
    XORed with bits 7 to 9, fewer of both for narrower rows. With atoms of 32 bytes, bits 5 and 6 are XORed with bits
    7 and 8 (CUTLASS, `Layout_MN_SW128_32B_Atom`: Swizzle<2, 5, 2>)."""
    if atom == 32:
        return addresses ^ (addresses >> 2 & 0x60)
    mask = {0: 0, 32: 0x10, 64: 0x30, 128: 0x70}[width]
    return addresses ^ (addresses >> 3 & mask)


def places(tensor_map: TensorMap, at: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """(number in the box, address) of the elements inside the tensor, row by row, of a box with its first element
    ``at``."""
    inside = np.ones(1, bool)
    addresses = np.zeros(1, np.int64)
    strides = (tensor_map.element_bytes, *tensor_map.strides)
    for size, count, first, stride in reversed(list(zip(tensor_map.dims, tensor_map.box, at, strides))):
        along = np.arange(first, first + count, dtype=np.int64)
        inside = (inside[:, None] & ((along >= 0) & (along < size))).reshape(-1)
        addresses = (addresses[:, None] + along * stride).reshape(-1)
    positions = np.flatnonzero(inside)
    return positions, addresses[positions] + tensor_map.address


def shared_units(tensor_map: TensorMap, base: int) -> np.ndarray:
    """Shared addresses of a box's units of 16 bytes, row by row, for a box at ``base``."""
    size = math.prod(tensor_map.box) * tensor_map.element_bytes
    return swizzled(np.arange(base, base + size, 16, dtype=np.int64), tensor_map.swizzle, tensor_map.atom)
