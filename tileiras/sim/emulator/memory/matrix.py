"""Matrix loads, stores and transposes (PTX ISA, "ldmatrix", "stmatrix", "movmatrix").

An 8x8 matrix of 16-bit elements is spread over a warp so that lane l holds the elements 2(l%4) and 2(l%4)+1 of row
l/4; read row by row as 32-bit words, the matrix is in lane order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..ptx.decoder import Decoder, Instruction, Modifiers, instruction
from ..ptx.module import Group
from ..ptx.types import B32
from .accesses import gather, read, resolve
from .loads import address_slot, note_granule, take_space

if TYPE_CHECKING:
    from ..launch.warps import WarpGroup

_ROW = np.dtype(np.complex128)  # 16 bytes


def _shape(decoder: Decoder, modifiers: Modifiers) -> tuple[int, bool]:
    """(number of matrices, transposed)."""
    modifiers.take("sync")
    modifiers.take("aligned")
    number = modifiers.take("x1", "x2", "x4")
    transposed = bool(modifiers.take("trans"))
    if not modifiers.take("m8n8") or number is None:
        raise decoder.unsupported()
    if not modifiers.take("b16"):
        raise decoder.unsupported()
    return int(number[1:]), transposed


def _row_threads(group: WarpGroup, count: int) -> np.ndarray:
    """Numbers of the threads whose addresses are used: the first 8 * count lanes of every active warp."""
    warps = np.flatnonzero(group.active_lanes().any(1))
    return (warps[:, None] * 32 + np.arange(8 * count)).reshape(-1)


def _load(
    decoder: Decoder, item: Instruction, modifiers: Modifiers, rows: int, count: int, arrange: Callable
) -> None:
    """The first 8 * ``rows`` lanes of a warp name rows of 16 bytes, which ``arrange`` makes the words of ``count``
    registers, (warps, count, 32), of."""
    space = take_space(modifiers)
    d, source = decoder.operands(2)
    parts = d.items if isinstance(d, Group) else [d]
    if len(parts) != count:
        raise decoder.error(f"expected {count} destination registers")
    decoder.begin_collective(None)
    slots = [decoder.dst(part, B32) for part in parts]
    address = address_slot(decoder, source, space)
    note_granule(decoder, space, 16)
    is_idle = decoder.is_idle

    def step(group: WarpGroup) -> None:
        group.check_whole_warps(item)
        threads = _row_threads(group, rows)
        addresses = group.full(address)[threads]
        if group.launch.recorder is not None:
            group.launch.recorder.access(group, item, space, addresses, 16, threads, False)
        accesses = resolve(group, item, space, addresses, _ROW, False, threads, 16)
        if is_idle:
            return
        read(group, item, accesses, whole_warp=True)
        loaded = gather(accesses, group.n, _ROW).reshape(-1, 32)[:, : 8 * rows].reshape(-1)
        words = arrange(np.ascontiguousarray(loaded))
        for number, slot in enumerate(slots):
            if slot is not None:
                group.write(slot, np.ascontiguousarray(words[:, number]).reshape(-1))

    decoder.emit(step)


@instruction("ldmatrix.sync.aligned.m16n16")
def decode_bytes(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    """`ldmatrix.m16n16.trans.b8`: 16x16 matrices of bytes, a row of 16 for each address, whose columns go to the lanes:
    register h of a matrix has in lane l the elements 4(l%4) to 4(l%4)+3 of column l/4 + 8h."""
    number = modifiers.take("x1", "x2")
    if number is None or not modifiers.take("trans") or not modifiers.take("b8"):
        raise decoder.unsupported()
    count = int(number[1:])

    def arrange(rows: np.ndarray) -> np.ndarray:
        matrices = rows.view(np.uint8).reshape(-1, count, 16, 16).swapaxes(2, 3)
        return np.ascontiguousarray(matrices).view(np.uint32).reshape(-1, 2 * count, 32)

    _load(decoder, item, modifiers, 2 * count, 2 * count, arrange)


@instruction("ldmatrix")
def decode_ldmatrix(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    count, transposed = _shape(decoder, modifiers)

    def arrange(rows: np.ndarray) -> np.ndarray:
        matrices = rows.view(np.uint16).reshape(-1, count, 8, 8)
        matrices = np.ascontiguousarray(matrices.swapaxes(2, 3)) if transposed else matrices
        return matrices.view(np.uint32).reshape(-1, count, 32)

    _load(decoder, item, modifiers, count, count, arrange)


@instruction("stmatrix")
def decode_stmatrix(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    count, transposed = _shape(decoder, modifiers)
    space = take_space(modifiers)
    target, values = decoder.operands(2)
    parts = values.items if isinstance(values, Group) else [values]
    if len(parts) != count:
        raise decoder.error(f"expected {count} source registers")
    decoder.begin_collective(None)
    slots = [decoder.src(part, B32) for part in parts]
    address = address_slot(decoder, target, space)

    def step(group: WarpGroup) -> None:
        group.check_whole_warps(item)
        words = np.stack([group.full(slot).reshape(-1, 32) for slot in slots], axis=1)
        matrices = np.ascontiguousarray(words).view(np.uint16).reshape(-1, count, 8, 8)
        if transposed:
            matrices = np.ascontiguousarray(matrices.swapaxes(2, 3))
        rows = np.zeros((group.n // 32, 32), _ROW)
        rows[:, : 8 * count] = matrices.reshape(-1, 8 * count * 8).view(_ROW)
        threads = _row_threads(group, count)
        addresses = group.full(address)[threads]
        if group.launch.recorder is not None:
            group.launch.recorder.access(group, item, space, addresses, 16, threads, True)
        for access in resolve(group, item, space, addresses, _ROW, True, threads, 16):
            access.store(group, item, rows.reshape(-1))

    decoder.emit(step)


@instruction("movmatrix")
def decode_movmatrix(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    modifiers.take("sync")
    modifiers.take("aligned")
    if not (modifiers.take("m8n8") and modifiers.take("trans") and modifiers.take("b16")):
        raise decoder.unsupported()
    d, a = decoder.operands(2)
    decoder.begin_collective(None)
    x, slot = decoder.src(a, B32), decoder.dst(d, B32)

    def step(group: WarpGroup) -> None:
        group.check_whole_warps(item)
        matrices = np.ascontiguousarray(group.full(x)).view(np.uint16).reshape(-1, 8, 8)
        turned = np.ascontiguousarray(matrices.swapaxes(1, 2)).view(np.uint32)
        group.write(slot, turned.reshape(-1))

    decoder.emit(step)
