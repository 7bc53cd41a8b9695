"""Matrix multiply-accumulate, `mma.sync` (PTX ISA, "Matrix Multiply-Accumulate Operation using mma instruction").

The fragment maps are the ISA's formulas.  With g = lane / 4 and t = lane % 4, and e elements to a register:

- A: element s of register r is at row g + 8 (r % 2), column t e + s + 4 e (r / 2); the shapes with 8 rows have the
  registers of row g alone;
- B: element s of register r is at row t e + s + 4 e r, column g;
- C and D: element i is at row g + 8 (i / 2), column 2 t + i % 2.

The ISA leaves the order and intermediate precision of floating-point sums open; here products and their sums are
computed in binary64 and rounded once, except those of f8 on sm_89 (`narrow_sums.py`).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..arithmetic import rounding
from ..launch.recording import Multiply
from ..ptx.decoder import Decoder, Instruction, Modifiers, instruction
from ..ptx.module import Group
from ..ptx.types import B32, F64, TYPES, U16
from .narrow_sums import is_narrow, narrow_sum
from .tcgen05_operands import decode_codes

if TYPE_CHECKING:
    from ..launch.warps import WarpGroup
    from ..ptx.module import Register

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
    "e2m1": 4,
    "e2m1.b8": 8,
    "e2m3.b8": 8,
    "e3m2.b8": 8,
}
_IN_BYTES = {"e2m1": 2, "e2m3": 0, "e3m2": 0}
"""Elements of 4 and 6 bits with a byte each in registers, as `.kind::f8f6f4` and `mxf8f6f4` have them, and their lowest
bit in it: "MMA F8F6F4 expects the four-bit data to be in the middle of the eight-bit container ... Same
transformation is NOT needed for FP6" (CUTLASS, mma_traits_sm120.hpp)."""

#: `.kind` of a block-scaled product and number of scales along k -> elements that share one, the scales' type, the
#: factors' types (PTX ISA, "Block Scaling for mma.sync").
_SCALED = {
    ("mxf8f6f4", 1): (32, "ue8m0", ("e4m3", "e5m2", *(f"{name}.b8" for name in _IN_BYTES))),
    ("mxf4", 2): (32, "ue8m0", ("e2m1",)),
    ("mxf4nvf4", 2): (32, "ue8m0", ("e2m1",)),
    ("mxf4nvf4", 4): (16, "ue4m3", ("e2m1",)),
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
    if name.endswith(".b8"):
        code, width = name[:4], 2 + int(name[1]) + int(name[3]) - 1
        return decode_codes(words[..., None].view(np.uint8) >> _IN_BYTES[code] & (1 << width) - 1, code)
    if bits == 4:
        pieces = (words[..., None] >> np.arange(0, 32, 4, dtype=np.uint32)) & np.uint32(15)
        if name == "e2m1":
            return rounding.decode(pieces.astype(np.uint8), name)
        values = pieces.astype(np.int64)
        return (np.where(values > 7, values - 16, values) if name == "s4" else values).astype(np.float64)
    pieces = np.ascontiguousarray(words)[..., None].view(TYPES[name].storage)
    if name == "tf32":
        pieces = pieces & np.uint32(0xFFFFE000)  # the lower 13 bits are ignored
    if name[0] in "su":
        return pieces.view(TYPES[name].value).astype(np.float64)
    return rounding.decode(pieces, name)


def fragment(group: WarpGroup, slots: list[int], kind: str, name: str, rows: int, columns: int) -> np.ndarray:
    """(warps, rows, columns) binary64: a fragment put together."""
    words = np.stack([group.full(slot).reshape(-1, 32) for slot in slots], axis=1)
    values = _elements(words, name)
    order = _inverse(kind, rows, columns, values.shape[-1])
    return values.reshape(len(values), -1)[:, order].reshape(-1, rows, columns)


@instruction("mma")
def decode_mma(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    modifiers.take("sync")
    modifiers.take("aligned")
    if modifiers.take("sp", "sp::ordered_metadata"):
        raise decoder.unsupported()
    scaled = _scaling(decoder, modifiers) if modifiers.take("block_scale") else None
    shape = next((name for name in modifiers.names if _SHAPE.fullmatch(name)), None)
    if shape is None or not modifiers.take("row") or not modifiers.take("col"):
        raise decoder.unsupported()
    modifiers.names.remove(shape)
    m, n, k = (int(v) for v in _SHAPE.fullmatch(shape).groups())
    saturating = bool(modifiers.take("satfinite"))
    in_bytes = bool(modifiers.take("kind::f8f6f4")) or scaled is not None and scaled[0] == "mxf8f6f4"
    names = [name for name in modifiers.names if name in TYPES or name in _ELEMENT_BITS or name in _IN_BYTES]
    modifiers.names = [name for name in modifiers.names if name not in names]
    names = [f"{name}.b8" if in_bytes and name in _IN_BYTES else name for name in names]
    if len(names) != 4 or names[1] not in _ELEMENT_BITS or names[2] not in _ELEMENT_BITS:
        raise decoder.unsupported()
    d_name, a_name, b_name, c_name = names
    if (m, n, k) not in _SHAPES[_ELEMENT_BITS[a_name]] or d_name != c_name:
        raise decoder.unsupported()
    decoder.begin_collective(None)
    operands = decoder.operands(4 if scaled is None else 8)
    fragments = [each.items if isinstance(each, Group) else [each] for each in operands[:4]]
    scales = None if scaled is None else _scale_readers(decoder, operands[4:], scaled, k, (a_name, b_name))
    register = F64 if a_name == "f64" else B32
    d_slots = [decoder.dst(each, register) for each in fragments[0]]
    a, b, c = ([decoder.src(each, register) for each in part] for part in fragments[1:])
    width = 64 if a_name == "f64" else 32
    counts = (m * k * _ELEMENT_BITS[a_name] // 32 // width, k * n * _ELEMENT_BITS[b_name] // 32 // width)
    if (len(a), len(b)) != counts or len(c) != len(d_slots) or len(c) * width != m * n * TYPES[d_name].bits // 32:
        raise decoder.error(f"{shape} with these types has {counts[0]} A and {counts[1]} B registers")
    narrow = decoder.module.target.startswith("sm_89") and is_narrow(a_name, b_name, d_name)
    accumulate = _accumulator(d_name, saturating, m, n, (a_name, b_name) if narrow else None)
    result = Multiply("mma", m, n, k, a_name, d_name, 0, 0, 1)

    def step(group: WarpGroup) -> None:
        group.check_whole_warps(item)
        if group.launch.recorder is not None:
            group.launch.recorder.product(item, result)
        if not group.launch.multiply:
            for slot, source in zip(d_slots, c):
                group.write(slot, group.R[source])
            return
        left = fragment(group, a, "a", a_name, m, k)
        right = fragment(group, b, "b", b_name, k, n)
        if scales is not None:
            left, right = left * scales[0](group), right * scales[1](group)
        for slot, value in zip(d_slots, accumulate(group, left, right, c)):
            group.write(slot, value)

    decoder.emit(step)


def _scaling(decoder: Decoder, modifiers: Modifiers) -> tuple[str, int, str]:
    """(kind, scales along k, their type) of a block-scaled product."""
    kind = modifiers.take(*(f"kind::{name}" for name in ("mxf8f6f4", "mxf4", "mxf4nvf4")))
    vector = modifiers.take(*(f"scale_vec::{count}X" for count in (1, 2, 4)))
    format = modifiers.take("ue8m0", "ue4m3")
    if kind is None or format is None:
        raise decoder.unsupported()
    name = kind.removeprefix("kind::")
    if vector is None and name == "mxf4nvf4":
        raise decoder.unsupported()
    count = int(vector[11]) if vector is not None else {"mxf8f6f4": 1, "mxf4": 2}[name]
    return name, count, format


def _scale_readers(
    decoder: Decoder, operands: Sequence[Group | Register], scaled: tuple[str, int, str], k: int, types: tuple[str, str]
):
    """Functions that give A's scales as (warps, 16, k) and B's as (warps, k, 8), one value for each element.

    The scales of row g of A are bytes of the register of thread 2 i of the quad g, i being the thread selector, those
    of row g + 8 of the thread after it; the scales of column g of B are with thread i of the quad.
    """
    kind, count, format = scaled
    run, scale_format, factors = _SCALED.get((kind, count), (0, "", ()))
    if scale_format != format or not run or k != run * count or not set(types) <= set(factors):
        raise decoder.unsupported()
    slots, selectors = [], []
    for word, pair in (operands[:2], operands[2:]):
        # One register, in braces or without them.
        slots.append(decoder.src(word.items[0] if isinstance(word, Group) and len(word.items) == 1 else word, B32))
        items = pair.items if isinstance(pair, Group) else ()
        if len(items) != 2:
            raise decoder.error("expected a byte and a thread selector")
        selectors.append([decoder.src(each, U16) for each in items])

    def read(group: WarpGroup, operand: int) -> np.ndarray:
        """(warps, 32, count): the scales that each thread has to give."""
        words = np.ascontiguousarray(group.full(slots[operand])).reshape(-1, 32)
        byte = int(np.unique(group.full(selectors[operand][0]))[0])
        pieces = words[..., None].view(np.uint8)[..., byte : byte + count]
        if format == "ue4m3":
            return rounding.decode(pieces & np.uint8(0x7F), "e4m3")
        return rounding.decode(np.ascontiguousarray(pieces), format)

    def thread(group: WarpGroup, operand: int) -> int:
        return int(np.unique(group.full(selectors[operand][1]))[0])

    def left_scales(group: WarpGroup) -> np.ndarray:
        values = read(group, 0).reshape(-1, 8, 4, count)
        first = 2 * thread(group, 0)
        rows = np.concatenate([values[:, :, first], values[:, :, first + 1]], axis=1)
        return np.repeat(rows, run, axis=2)

    def right_scales(group: WarpGroup) -> np.ndarray:
        columns = read(group, 1).reshape(-1, 8, 4, count)[:, :, thread(group, 1)]
        return np.repeat(columns.swapaxes(1, 2), run, axis=1)

    return left_scales, right_scales


def total_bits(
    name: str, addend: str, saturating: bool, left: np.ndarray, right: np.ndarray, start: np.ndarray
) -> np.ndarray:  # fmt: skip
    """(warps, m, n) storage elements of type ``name``: the product of the factors, and ``start`` of type ``addend``."""
    if name == "s32":
        total = (left @ right).astype(np.int64) + start.view(np.int32)
        if saturating:
            total = np.clip(total, -(2**31), 2**31 - 1)
        return total.astype(np.int32).view(np.uint32)
    if name == "f64":
        total = start.view(np.float64)
        for step in range(left.shape[2]):
            total = rounding.fma64(left[:, :, step, None], right[:, None, step, :], total)
        return np.ascontiguousarray(total).view(np.uint64)
    return rounding.encode(left @ right + rounding.decode(start, addend), name)


def _accumulator(name: str, saturating: bool, m: int, n: int, narrow: tuple[str, str] | None = None):
    """A function from the factors and the slots of C to the registers of D; `narrow`: the types of factors whose sums
    have fewer bits."""
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

    def addend(group: WarpGroup, slots: list[int]) -> np.ndarray:
        """(warps, m, n) storage elements of C."""
        words = np.stack([group.full(slot).reshape(-1, 32) for slot in slots], axis=1)
        if per_register == 2:
            halves = np.ascontiguousarray(words)[..., None].view(np.uint16)
            words = np.ascontiguousarray(halves.swapaxes(2, 3)).reshape(len(words), -1, 32)
        order = _inverse("c", m, n, 1)
        return words.reshape(len(words), -1)[:, order].reshape(-1, m, n)

    def compute(group: WarpGroup, left: np.ndarray, right: np.ndarray, slots: Sequence[int]) -> list[np.ndarray]:
        start = addend(group, slots)
        if narrow is None:
            bits = total_bits(name, name, saturating, left, right, start)
        else:
            bits = rounding.encode(narrow_sum(left, right, narrow, rounding.decode(start, name)), name)
        return registers(bits.reshape(len(bits), -1).astype(storage, copy=False))

    return compute
