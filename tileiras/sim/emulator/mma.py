"""Matrix multiply-accumulate, `mma.sync` (PTX ISA, "Matrix Multiply-Accumulate Operation using mma instruction").

The fragment maps are the ISA's formulas.  With g = lane / 4 and t = lane % 4, and e elements to a register:

- A: element s of register r is at row g + 8 (r % 2), column t e + s + 4 e (r / 2); the shapes with 8 rows have the
  registers of row g alone;
- B: element s of register r is at row t e + s + 4 e r, column g;
- C and D: element i is at row g + 8 (i / 2), column 2 t + i % 2.

The ISA leaves the order and intermediate precision of floating-point sums open; here products and their sums are
computed in binary64 and rounded once.
"""

from __future__ import annotations

import functools
import re

import numpy as np

from . import rounding
from .program import Decoder, Instruction, Modifiers, instruction
from .ptx_parser import Group
from .types import B32, F64, TYPES

_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")

#: element type -> bits; s4 and u4 exist only inside matrix fragments.
_ELEMENT_BITS = {
    "f16": 16,
    "bf16": 16,
    "tf32": 32,
    "f64": 64,
    "s8": 8,
    "u8": 8,
    "s4": 4,
    "u4": 4,
    "e4m3": 8,
    "e5m2": 8,
}

#: bits of an A element -> the shapes that exist (PTX ISA, mma: "Syntax").
_SHAPES = {
    16: {(16, 8, 8), (16, 8, 16)},
    32: {(16, 8, 4), (16, 8, 8)},
    8: {(8, 8, 16), (16, 8, 16), (16, 8, 32)},
    4: {(8, 8, 32), (16, 8, 32), (16, 8, 64)},
    64: {(8, 8, 4), (16, 8, 4), (16, 8, 8), (16, 8, 16)},
}


@functools.cache
def a_positions(m: int, k: int, elements: int) -> np.ndarray:
    """(registers, 32, elements): row * k + column of every element of an A fragment."""
    per_row = m // 8
    registers = m * k // (32 * elements)
    r, lane, s = np.ogrid[:registers, :32, :elements]
    row = lane // 4 + 8 * (r % per_row)
    column = lane % 4 * elements + s + 4 * elements * (r // per_row)
    return row * k + column


@functools.cache
def b_positions(k: int, n: int, elements: int) -> np.ndarray:
    """(registers, 32, elements): row * n + column of every element of a B fragment."""
    registers = k * n // (32 * elements)
    r, lane, s = np.ogrid[:registers, :32, :elements]
    row = lane % 4 * elements + s + 4 * elements * r
    return row * n + lane // 4


@functools.cache
def c_positions(m: int, n: int) -> np.ndarray:
    """(elements, 32): row * n + column of every element of a C or D fragment."""
    i, lane = np.ogrid[: m * n // 32, :32]
    return (lane // 4 + 8 * (i // 2)) * n + lane % 4 * 2 + i % 2


@functools.cache
def _inverse(kind: str, rows: int, columns: int, elements: int) -> np.ndarray:
    """Where in a fragment, flattened (register, lane, element), each element of the matrix is."""
    if kind == "c":
        positions = c_positions(rows, columns)
    else:
        positions = (a_positions if kind == "a" else b_positions)(rows, columns, elements)
    return np.argsort(positions.reshape(-1), kind="stable")


def _elements(words: np.ndarray, name: str) -> np.ndarray:
    """(..., e) binary64 values of the elements in registers, from the low end up."""
    bits = _ELEMENT_BITS[name]
    if bits == 4:
        pieces = (words[..., None] >> np.arange(0, 32, 4, dtype=np.uint32)) & np.uint32(15)
        values = pieces.astype(np.int64)
        return (np.where(values > 7, values - 16, values) if name == "s4" else values).astype(np.float64)
    pieces = np.ascontiguousarray(words)[..., None].view(TYPES[name].storage)
    if name == "tf32":
        pieces = pieces & np.uint32(0xFFFFE000)  # the lower 13 bits are ignored
    if name[0] in "su":
        return pieces.view(TYPES[name].value).astype(np.float64)
    return rounding.decode(pieces, name)


def _matrix(group, slots: list[int], kind: str, name: str, rows: int, columns: int) -> np.ndarray:
    """(warps, rows, columns) binary64: a fragment put together."""
    words = np.stack([group.full(slot).reshape(-1, 32) for slot in slots], axis=1)
    values = _elements(words, name)
    order = _inverse(kind, rows, columns, values.shape[-1])
    return values.reshape(len(values), -1)[:, order].reshape(-1, rows, columns)


@instruction("mma")
def decode_mma(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    modifiers.take("sync")
    modifiers.take("aligned")
    if modifiers.take("sp", "sp::ordered_metadata", "block_scale"):
        raise decoder.unsupported()
    shape = next((name for name in modifiers.names if _SHAPE.fullmatch(name)), None)
    if shape is None or not modifiers.take("row") or not modifiers.take("col"):
        raise decoder.unsupported()
    modifiers.names.remove(shape)
    m, n, k = (int(v) for v in _SHAPE.fullmatch(shape).groups())
    saturating = bool(modifiers.take("satfinite"))
    modifiers.take("kind::f8f6f4")
    names = [name for name in modifiers.names if name in TYPES or name in _ELEMENT_BITS]
    modifiers.names = [name for name in modifiers.names if name not in names]
    if len(names) != 4 or names[1] not in _ELEMENT_BITS or names[2] not in _ELEMENT_BITS:
        raise decoder.unsupported()
    d_name, a_name, b_name, c_name = names
    if (m, n, k) not in _SHAPES[_ELEMENT_BITS[a_name]] or d_name != c_name:
        raise decoder.unsupported()
    decoder.begin_collective(None)
    fragments = [each.items if isinstance(each, Group) else [each] for each in decoder.operands(4)]
    register = F64 if a_name == "f64" else B32
    d_slots = [decoder.dst(each, register) for each in fragments[0]]
    a, b, c = ([decoder.src(each, register) for each in part] for part in fragments[1:])
    width = 64 if a_name == "f64" else 32
    expected = (m * k * _ELEMENT_BITS[a_name] // 32 // width, k * n * _ELEMENT_BITS[b_name] // 32 // width)
    if (len(a), len(b)) != expected or len(c) != len(d_slots) or len(c) * width != m * n * TYPES[d_name].bits // 32:
        raise decoder.error(f"{shape} with these types has {expected[0]} A and {expected[1]} B registers")
    accumulate = _accumulator(d_name, saturating, m, n)

    def step(group) -> None:
        left = _matrix(group, a, "a", a_name, m, k)
        right = _matrix(group, b, "b", b_name, k, n)
        for slot, value in zip(d_slots, accumulate(group, left, right, c)):
            group.write(slot, value)

    decoder.emit(step)


def _accumulator(name: str, saturating: bool, m: int, n: int):
    """A function from the factors and the slots of C to the registers of D."""
    positions = c_positions(m, n)
    storage = TYPES[name].storage
    per_register = 2 if name == "f16" else 1

    def registers(bits: np.ndarray) -> list[np.ndarray]:
        """(warps, m * n) storage elements as registers in fragment order."""
        spread = bits[:, positions]  # (warps, elements, 32)
        if per_register == 2:
            pairs = spread.reshape(len(bits), -1, 2, 32).swapaxes(2, 3)
            spread = np.ascontiguousarray(pairs).view(np.uint32)[..., 0]
        return [np.ascontiguousarray(spread[:, i]).reshape(-1) for i in range(spread.shape[1])]

    def addend(group, slots: list[int]) -> np.ndarray:
        """(warps, m, n) storage elements of C."""
        words = np.stack([group.full(slot).reshape(-1, 32) for slot in slots], axis=1)
        if per_register == 2:
            halves = np.ascontiguousarray(words)[..., None].view(np.uint16)
            words = np.ascontiguousarray(halves.swapaxes(2, 3)).reshape(len(words), -1, 32)
        order = _inverse("c", m, n, 1)
        return words.reshape(len(words), -1)[:, order].reshape(-1, m, n)

    def compute(group, left, right, slots) -> list[np.ndarray]:
        start = addend(group, slots)
        if name == "s32":
            total = (left @ right).astype(np.int64) + start.view(np.int32)
            if saturating:
                total = np.clip(total, -(2**31), 2**31 - 1)
            bits = total.astype(np.int32).view(np.uint32)
        elif name == "f64":
            total = start.view(np.float64)
            for step in range(left.shape[2]):
                total = rounding.fma64(left[:, :, step, None], right[:, None, step, :], total)
            bits = np.ascontiguousarray(total).view(np.uint64)
        else:
            bits = rounding.encode(left @ right + rounding.decode(start, name), name)
        return registers(bits.reshape(len(bits), -1).astype(storage, copy=False))

    return compute
