"""Instruction descriptors and zero-column masks of `tcgen05.mma` (PTX ISA, "Instruction descriptor", "Zero-Column Mask
Descriptor", "Matrix Shape").

Where the ISA's table of the mask and its examples differ, the examples count: a span of n in the mask stands for n + 1
columns of B, which are used and zero in turn.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

_F8F6F4 = {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"}
#: kind -> types of A and B by code, types of D by code (none: always f32).
_TYPES: dict[str, tuple[dict[int, str], dict[int, str] | None]] = {
    "f16": ({0: "f16", 1: "bf16"}, {0: "f16", 1: "f32"}),
    "tf32": ({2: "tf32"}, {1: "f32"}),
    "f8f6f4": (_F8F6F4, {0: "f16", 1: "f32"}),
    "i8": ({0: "u8", 1: "s8"}, {2: "s32"}),
    "mxf8f6f4": (_F8F6F4, None),
    "mxf4": ({1: "e2m1x2"}, None),
    "mxf4nvf4": ({1: "e2m1x2"}, None),
}
KINDS = tuple(_TYPES)
#: Elements of k of one dot: 32 bytes of them in memory.
K = {"f16": 16, "tf32": 8, "f8f6f4": 32, "i8": 32, "mxf8f6f4": 32, "mxf4": 64, "mxf4nvf4": 64}
SCALED = ("mxf8f6f4", "mxf4", "mxf4nvf4")
_EIGHT_BITS = ("e4m3", "e5m2", "u8", "s8")


class Shape(NamedTuple):
    """Decoded instruction descriptor. ``m`` and ``n`` are those of both blocks of a pair together; ``scale`` is the
    type of scales, and ``scale_ids`` are the first bytes of A's and B's."""

    kind: str
    d: str
    a: str
    b: str
    m: int
    n: int
    saturate: bool
    signs: tuple[int, int]
    transposed: tuple[bool, bool]
    scale: str
    scale_ids: tuple[int, int]
    most_shift: int

    @property
    def k(self) -> int:
        return K[self.kind]


def decode_instruction(word: int, kind: str, cta_group: int, weights: bool, narrow: bool = False) -> Shape:
    """``weights``: `.ws`; ``narrow``: the rule "tensor-columns" is waived. Raises ValueError for a combination that the
    ISA does not define."""
    scaled, four = kind in SCALED, kind in ("mxf4", "mxf4nvf4")
    if word >> 2 & 1 or word & 3:
        raise ValueError("a sparse product")
    types, results = _TYPES[kind]
    a, b = types.get(word >> 7 & 7), types.get(word >> 10 & (3 if four else 7))
    if a is None or b is None:
        raise ValueError(f"types {word >> 7 & 7} and {word >> 10 & 7} of A and B")
    d = "f32" if results is None else results.get(word >> 4 & 3)
    if d is None:
        raise ValueError(f"type {word >> 4 & 3} of D")
    if kind == "f16" and (d == "f16" and "bf16" in (a, b)):
        raise ValueError("bf16 with D in f16")
    transposed = bool(word >> 15 & 1), bool(word >> 16 & 1)
    signs = -1 if word >> 13 & 1 else 1, -1 if word >> 14 & 1 else 1
    if kind == "i8" and signs != (1, 1):
        raise ValueError("integers are not negated")
    if kind != "i8" and word >> 3 & 1:
        raise ValueError("only integers saturate")
    if word >> 6 & 1 or not scaled and (word >> 23 & 1 or word >> 29 & 1) or not (scaled or weights) and word >> 30:
        raise ValueError("bits that have to be zero are not")
    for name, turned in zip((a, b), transposed):
        if turned and name not in ("f16", "bf16", "tf32", *_EIGHT_BITS):
            raise ValueError(f"a transposed matrix of {name}")
    if scaled and word >> 31:
        raise ValueError("K of 96 elements")
    m, n = (word >> 24 & 31) << 4, (word >> 17 & 63) << 3
    narrow = narrow and kind == "f16" and n == 8
    _check_size(kind, m, n, cta_group, weights, transposed[1] and b in _EIGHT_BITS, narrow)
    scale = ("ue4m3", "ue8m0")[word >> 23 & 1] if scaled else ""
    ids = (word >> 29 & 3, word >> 4 & 3) if scaled else (0, 0)
    most_shift = (0, 8, 16, 32)[word >> 30] if weights else 0
    return Shape(kind, d, a, b, m, n, bool(word >> 3 & 1) and kind == "i8", signs, transposed, scale, ids, most_shift)


def _check_size(
    kind: str, m: int, n: int, cta_group: int, weights: bool, eight_bits_turned: bool, narrow: bool
) -> None:
    if weights:
        fits = m in (32, 64, 128) and n in (64, 128, 256)
    elif cta_group == 2:
        step = 32 if kind == "i8" or eight_bits_turned else 16
        fits = m in (128, 256) and n % step == 0
    else:
        step = 16 if m == 128 or eight_bits_turned or kind == "i8" and n > 32 else 8
        if narrow or kind == "i8" and m == 128 and n in (8, 24):
            step = 8
        fits = m in ((128,) if kind in SCALED else (64, 128)) and n % step == 0
    if not fits or not 8 <= n <= 256:
        raise ValueError(f"a product of {m} rows and {n} columns")


def column_mask(word: int, shape: Shape) -> tuple[int, np.ndarray]:
    """(shift of B in columns, mask of the n used columns). Raises ValueError."""
    if word >> 62 or word >> 36 & 7:
        raise ValueError("bits of a zero-column mask that have to be zero are not")
    shift = word >> 56 & 63
    if shift > min(16 if shape.m == 32 else 32, shape.most_shift):
        raise ValueError(f"a shift by {shift} columns, of at most {shape.most_shift}")
    mask = np.ones(shape.n, bool)
    if word >> 39 & 1:
        parts = 128 // shape.m
        columns = shape.n // parts
        ones, zero = (word >> 48 & 255) + 1, (word >> 40 & 255) + 1
        for part in range(parts):
            starts_zero = word >> 32 + part & 1
            start = min(word >> 8 * part & 255, (zero if starts_zero else ones) - 1)
            place = (np.arange(columns) + start) % (ones + zero)
            mask[part * columns : (part + 1) * columns] = place >= zero if starts_zero else place < ones
    return shift, mask
