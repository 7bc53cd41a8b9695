"""Warp-level matrices, `wmma.load`, `wmma.mma` and `wmma.store` (PTX ISA, "Warp Level Matrix Multiply-Accumulate
Operation Using wmma Instructions").

The ISA leaves open in which registers and lanes the elements of a fragment are, so that a program can only load, store
and multiply fragments, and change all of their elements alike.  Here element p of a matrix, row by row, is in register
p / (32 e), lane p / e % 32, for e elements to a register; a fragment with more places than elements repeats them.  A
warp reads rows of factors in pieces of 16 bytes, as `ldmatrix` does, and of accumulators in pairs of elements.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..launch.recording import Multiply
from ..memory.accesses import gather, read, resolve
from ..memory.loads import address_slot, note_granule, take_space
from ..ptx.decoder import Decoder, Instruction, Modifiers, instruction
from ..ptx.module import Group
from ..ptx.types import B32, F64, TYPES, U32
from .mma import _elements, total_bits

if TYPE_CHECKING:
    from ..launch.warps import WarpGroup
    from ..ptx.types import PtxType

_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")
_K16 = {(16, 16, 16), (8, 32, 16), (32, 8, 16)}
_SHAPES = {
    "f16": _K16, "bf16": _K16, "s8": _K16, "u8": _K16, "tf32": {(16, 16, 8)}, "f64": {(8, 8, 4)},
    "s4": {(8, 8, 32)}, "u4": {(8, 8, 32)},
}  # fmt: skip
"""Type of the factors -> shapes (PTX ISA, "Matrix Shape")."""
_ACCUMULATORS = {
    "f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "f64": ("f64",), "s8": ("s32",), "u8": ("s32",),
    "s4": ("s32",), "u4": ("s32",),
}  # fmt: skip
_BITS = {"tf32": 32, "s4": 4, "u4": 4}
_F16_REGISTERS = 8
"""Registers of a fragment of f16 factors of any shape."""
_WORDS = {4: np.dtype(np.uint32), 8: np.dtype(np.uint64), 16: np.dtype(np.complex128)}


class _Matrix(NamedTuple):
    """A fragment's matrix: extents, type, and whether rows are contiguous in memory."""

    rows: int
    columns: int
    name: str
    by_rows: bool
    is_factor: bool

    @property
    def bits(self) -> int:
        return _bits(self.name)

    @property
    def run(self) -> int:
        """Elements that are contiguous in memory: those of a row or of a column."""
        return self.columns if self.by_rows else self.rows

    @property
    def piece(self) -> int:
        """Bytes of one thread's access."""
        return min(16 if self.is_factor else max(2 * self.bits // 8, 4), self.run * self.bits // 8)

    @property
    def registers(self) -> int:
        if self.is_factor and self.name == "f16":
            return _F16_REGISTERS
        return self.rows * self.columns * self.bits // 32 // self.register.bits

    @property
    def register(self) -> PtxType:
        return F64 if self.name == "f64" else B32


def _bits(name: str) -> int:
    return _BITS[name] if name in _BITS else TYPES[name].bits


@functools.cache
def _places(matrix: _Matrix) -> tuple[np.ndarray, np.ndarray]:
    """Of every piece of a matrix: its run (row or column), and the first byte in it."""
    pieces = matrix.run * matrix.bits // 8 // matrix.piece
    other = matrix.rows if matrix.by_rows else matrix.columns
    runs, firsts = np.divmod(np.arange(other * pieces), pieces)
    return runs, firsts * matrix.piece


def _shape(decoder: Decoder, modifiers: Modifiers) -> tuple[int, int, int]:
    shape = next((name for name in modifiers.names if _SHAPE.fullmatch(name)), None)
    if shape is None or modifiers.take("sync") is None or modifiers.take("aligned") is None:
        raise decoder.unsupported()
    modifiers.names.remove(shape)
    m, n, k = (int(extent) for extent in _SHAPE.fullmatch(shape).groups())
    return m, n, k


def _fragment(decoder: Decoder, modifiers: Modifiers, part: str) -> _Matrix:
    """The matrix of a load or store of part `a`, `b`, `c` or `d`."""
    m, n, k = _shape(decoder, modifiers)
    layout = modifiers.take("row", "col")
    name = next((each for each in modifiers.names if each in TYPES or each in _BITS), None)
    if layout is None or name is None:
        raise decoder.unsupported()
    modifiers.names.remove(name)
    is_factor = part in "ab"
    shapes = _SHAPES.get(name, set()) if is_factor else set().union(
        *(_SHAPES[each] for each, accumulators in _ACCUMULATORS.items() if name in accumulators)
    )  # fmt: skip
    if (m, n, k) not in shapes:
        raise decoder.unsupported()
    rows, columns = {"a": (m, k), "b": (k, n)}.get(part, (m, n))
    return _Matrix(rows, columns, name, layout == "row", is_factor)


def _operands(decoder: Decoder) -> list:
    """The operands of a load or store; the last one, the stride, is optional."""
    return decoder.operands(max(2, min(len(decoder.current.operands), 3)))


def _slots(decoder: Decoder, operand: object, matrix: _Matrix, is_read: bool) -> list[int]:
    items = operand.items if isinstance(operand, Group) else [operand]
    if len(items) != matrix.registers:
        raise decoder.error(f"a fragment of this shape and type has {matrix.registers} registers")
    return [(decoder.src if is_read else decoder.dst)(each, matrix.register) for each in items]


def _to_registers(pieces: np.ndarray, matrix: _Matrix) -> np.ndarray:
    """(warps, registers, 32) words of (warps, rows, columns) elements, which for 4 bits are bytes."""
    flat = pieces.reshape(len(pieces), -1)
    if matrix.bits == 4:
        flat = flat[:, 0::2] | flat[:, 1::2] << 4
    words = np.ascontiguousarray(flat).view(matrix.register.storage)
    return np.resize(words.T, (matrix.registers * 32, len(pieces))).T.reshape(len(pieces), matrix.registers, 32)


def _bits_of(group: WarpGroup, slots: list[int], matrix: _Matrix) -> np.ndarray:
    """(warps, words): the words of a fragment, each once."""
    words = np.stack([group.full(slot).reshape(-1, 32) for slot in slots], axis=1).reshape(group.n // 32, -1)
    return np.ascontiguousarray(words[:, : matrix.rows * matrix.columns * matrix.bits // matrix.register.bits])


def _values(group: WarpGroup, slots: list[int], matrix: _Matrix) -> np.ndarray:
    """(warps, rows, columns) binary64 values of factors."""
    return _elements(_bits_of(group, slots, matrix), matrix.name).reshape(-1, matrix.rows, matrix.columns)


def _accesses(decoder: Decoder, item: Instruction, matrix: _Matrix, space: str, operands: list, write: bool):
    """A function that gives the accesses of the active warps: for each round of up to 32 pieces the resolved accesses
    and the pieces.  All threads of a warp have the same address and stride."""
    address = address_slot(decoder, operands[0], space)
    stride = decoder.src(operands[1], U32) if len(operands) > 1 else None
    note_granule(decoder, space, matrix.piece)
    runs, firsts = _places(matrix)

    def rounds(group: WarpGroup):
        warps = np.flatnonzero(group.active_lanes().any(1))
        starts = group.full(address).reshape(-1, 32)[warps, :1].astype(np.uint64)
        steps = np.full(starts.shape, matrix.run, np.uint64)
        if stride is not None:
            steps = group.full(stride).reshape(-1, 32)[warps, :1].astype(np.uint64)
        for first in range(0, runs.size, 32):
            some = slice(first, first + 32)
            offsets = runs[some].astype(np.uint64) * steps * np.uint64(matrix.bits) // np.uint64(8)
            addresses = (starts + offsets + firsts[some].astype(np.uint64)).reshape(-1)
            threads = (warps[:, None] * 32 + np.arange(runs[some].size)).reshape(-1)
            if group.launch.recorder is not None:
                group.launch.recorder.access(group, item, space, addresses, matrix.piece, threads, write)
            dtype = _WORDS[matrix.piece]
            yield resolve(group, item, space, addresses, dtype, write, threads, matrix.piece), some

    return rounds


@instruction("wmma.load")
def decode_load(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    part = modifiers.take("a", "b", "c") or ""
    if not part:
        raise decoder.unsupported()
    space, matrix = take_space(modifiers), _fragment(decoder, modifiers, part)
    target, *place = _operands(decoder)
    decoder.begin_collective(None)
    slots = _slots(decoder, target, matrix, is_read=False)
    rounds, count = _accesses(decoder, item, matrix, space, place, write=False), _places(matrix)[0].size

    def step(group: WarpGroup) -> None:
        group.check_whole_warps(item)
        dtype, parts = _WORDS[matrix.piece], []
        for accesses, some in rounds(group):
            read(group, item, accesses, whole_warp=matrix.is_factor)
            parts.append(gather(accesses, group.n, dtype).reshape(-1, 32)[:, : count - some.start])
        memory = np.ascontiguousarray(np.concatenate(parts, axis=1))
        elements = memory.view(np.uint8 if matrix.bits <= 8 else f"u{matrix.bits // 8}")
        if matrix.bits == 4:
            elements = np.stack([elements & 15, elements >> 4], axis=-1)
        tile = elements.reshape(group.n // 32, -1, matrix.run)
        words = _to_registers(tile if matrix.by_rows else tile.swapaxes(1, 2), matrix)
        for number, slot in enumerate(slots):
            if slot is not None:
                group.write(slot, np.ascontiguousarray(words[:, number]).reshape(-1))

    decoder.emit(step)


@instruction("wmma.store")
def decode_store(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    if not modifiers.take("d"):
        raise decoder.unsupported()
    space, matrix = take_space(modifiers), _fragment(decoder, modifiers, "d")
    target, source, *stride = _operands(decoder)
    decoder.begin_collective(None)
    slots = _slots(decoder, source, matrix, is_read=True)
    rounds = _accesses(decoder, item, matrix, space, [target, *stride], write=True)

    def step(group: WarpGroup) -> None:
        group.check_whole_warps(item)
        elements = _bits_of(group, slots, matrix).view(TYPES[matrix.name].storage)
        tile = elements.reshape(-1, matrix.rows, matrix.columns)
        tile = np.ascontiguousarray(tile if matrix.by_rows else tile.swapaxes(1, 2))
        pieces = tile.reshape(len(tile), -1).view(_WORDS[matrix.piece])
        for accesses, some in rounds(group):
            values = np.zeros((group.n // 32, 32), pieces.dtype)
            values[:, : pieces[:, some].shape[1]] = pieces[:, some]
            for access in accesses:
                access.store(group, item, values.reshape(-1))

    decoder.emit(step)


@instruction("wmma.mma")
def decode_mma(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    m, n, k = _shape(decoder, modifiers)
    # The layouts are those of the loads; elements of fragments have the same places in either.
    layouts = [name for name in modifiers.names if name in ("row", "col")]
    modifiers.take("rn")
    is_saturating = bool(modifiers.take("satfinite"))
    names = [name for name in modifiers.names if name in TYPES or name in _BITS]
    modifiers.names = [name for name in modifiers.names if name not in (*names, "row", "col")]
    d_name, a_name, b_name, c_name = names if len(names) == 4 else (*names[:1], "f16", "f16", *names[1:])
    types = _ACCUMULATORS.get(a_name, ())
    if len(layouts) != 2 or (m, n, k) not in _SHAPES.get(a_name, ()) or a_name != b_name:
        raise decoder.unsupported()
    if d_name not in types or c_name not in types:
        raise decoder.unsupported()
    matrices = [
        _Matrix(m, n, d_name, True, False), _Matrix(m, k, a_name, True, True), _Matrix(k, n, b_name, True, True),
        _Matrix(m, n, c_name, True, False),
    ]  # fmt: skip
    operands = decoder.operands(4)
    decoder.begin_collective(None)
    d, a, b, c = (
        _slots(decoder, operand, matrix, is_read=number > 0)
        for number, (operand, matrix) in enumerate(zip(operands, matrices))
    )
    result = Multiply("mma", m, n, k, a_name, d_name, 0, 0, 1)

    def step(group: WarpGroup) -> None:
        group.check_whole_warps(item)
        if group.launch.recorder is not None:
            group.launch.recorder.product(item, result)
        if group.launch.multiply:
            left, right = _values(group, a, matrices[1]), _values(group, b, matrices[2])
        else:
            left, right = np.zeros((group.n // 32, m, k)), np.zeros((group.n // 32, k, n))
        start = _bits_of(group, c, matrices[3]).view(TYPES[c_name].storage).reshape(-1, m, n)
        bits = total_bits(d_name, c_name, is_saturating, left, right, start)
        words = _to_registers(bits.astype(TYPES[d_name].storage, copy=False), matrices[0])
        for number, slot in enumerate(d):
            if slot is not None:
                group.write(slot, np.ascontiguousarray(words[:, number]).reshape(-1))

    decoder.emit(step)
