"""Fences around what threads do in tensor memory before others, or the tensor core, write there.

Loads and stores of all warps, a barrier, then the dot that one thread issues, or stores of another tile:
`tcgen05.fence::before_thread_sync` stands behind the former and `tcgen05.fence::after_thread_sync` before the latter
(PTX ISA, "Canonical synchronization patterns" of tcgen05).  A commit is a fence of its own kind, so that the way back
needs one only behind the wait.
"""

from __future__ import annotations

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.dialects.nv_tileas.tensor_memory import allocation_of
from tileiras.ir import UnitAttr, Value, VerifyError


def fence_columns(func: aa.FuncOp) -> None:
    """Marks loads, stores and dots of a function of nv_tileas, whose buffers have columns, in place: those that meet in
    a column, the dot or the store of another tile behind the load or store, or in a later iteration."""
    numbers = {op: number for number, op in enumerate(func.walk())}
    moves = [op for op in numbers if isinstance(op, (tileas.TensorLoadOp, tileas.TensorStoreOp))]
    writes = [op for op in numbers if isinstance(op, (tileas.TensorDotOp, tileas.TensorStoreOp))]
    loops = {op: set(scf.loops_around(op)) for op in (*moves, *writes)}
    for later in writes:
        is_dot = isinstance(later, tileas.TensorDotOp)
        for move in moves:
            if not is_dot and move.buffer is later.buffer:
                continue  # a thread has the same elements of a buffer in all loads and stores
            behind = numbers[move] < numbers[later] or loops[move] & loops[later]
            if behind and _meet(move.buffer, later.buffer):
                move.attributes["fenced"] = later.attributes["fenced" if is_dot else "overwrites"] = UnitAttr()


def _meet(one: Value, other: Value) -> bool:
    (start, end), (first, last) = _columns(one), _columns(other)
    return start < last and first < end


def _columns(buffer: Value) -> tuple[int, int]:
    op = allocation_of(buffer).defining_op
    if not isinstance(op, tileas.TensorAllocOp) or op.column is None:
        raise VerifyError("expects a buffer whose columns are known here")
    return op.column.value, op.column.value + op.result.type.columns
