"""PTX types: their width, kind and the NumPy types that hold their bits and their values.

Registers are kept as unsigned integers of their width (predicates as bool): PTX registers are untyped bits that each
instruction reads in its own type, and LLVM declares every 32-bit register `.b32`.
"""

from __future__ import annotations

import numpy as np

_STORAGE = {
    1: np.dtype(bool),
    8: np.dtype(np.uint8),
    16: np.dtype(np.uint16),
    32: np.dtype(np.uint32),
    64: np.dtype(np.uint64),
    128: np.dtype("V16"),
}
_SIGNED = {8: np.dtype(np.int8), 16: np.dtype(np.int16), 32: np.dtype(np.int32), 64: np.dtype(np.int64)}


class PtxType:
    """One fundamental or packed type (PTX ISA, "Types").

    ``kind`` is one of bits, unsigned, signed, float, packed, predicate; ``value`` is the NumPy type of the values where
    NumPy has one (f16, f32, f64 and the integers), otherwise the storage type.
    """

    __slots__ = ("bits", "bytes", "kind", "name", "storage", "value")

    def __init__(self, name: str, bits: int, kind: str, value: np.dtype | None = None) -> None:
        self.name = name
        self.bits = bits
        self.bytes = max(1, bits // 8)
        self.kind = kind
        self.storage = _STORAGE[bits]
        self.value = np.dtype(value) if value is not None else self.storage

    @property
    def signed(self) -> bool:
        return self.kind == "signed"

    @property
    def is_integer(self) -> bool:
        return self.kind in ("bits", "unsigned", "signed")

    def __repr__(self) -> str:
        return f".{self.name}"


def _table() -> dict[str, PtxType]:
    types = [PtxType("pred", 1, "predicate", np.dtype(bool))]
    for bits in (8, 16, 32, 64):
        types.append(PtxType(f"b{bits}", bits, "bits"))
        types.append(PtxType(f"u{bits}", bits, "unsigned"))
        types.append(PtxType(f"s{bits}", bits, "signed", _SIGNED[bits]))
    types.append(PtxType("b128", 128, "bits"))
    types += [PtxType("f16", 16, "float", np.float16), PtxType("f32", 32, "float", np.float32)]
    types += [PtxType("f64", 64, "float", np.float64), PtxType("bf16", 16, "float"), PtxType("tf32", 32, "float")]
    types += [PtxType(name, 8, "float") for name in ("e4m3", "e5m2")]
    types += [PtxType("e2m1x2", 8, "packed"), PtxType("ue8m0x2", 16, "packed")]
    packed = (("f16x2", 32), ("bf16x2", 32), ("f32x2", 64), ("u16x2", 32), ("s16x2", 32), ("e4m3x2", 16))
    types += [PtxType(name, bits, "packed") for name, bits in (*packed, ("e5m2x2", 16))]
    return {t.name: t for t in types}


TYPES: dict[str, PtxType] = _table()
PRED = TYPES["pred"]
B8, B16, B32, B64, B128 = (TYPES[f"b{n}"] for n in (8, 16, 32, 64, 128))
U8, U16, U32, U64 = (TYPES[f"u{n}"] for n in (8, 16, 32, 64))
S32, S64 = TYPES["s32"], TYPES["s64"]
F16, BF16, F32, F64 = (TYPES[n] for n in ("f16", "bf16", "f32", "f64"))
