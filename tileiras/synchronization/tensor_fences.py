"""Fences for accesses of threads to tensor memory before other threads, or the tensor core, write there.

Loads and stores of all warps are followed by a barrier, then by the dot that one thread issues, or by stores of another
tile: `tcgen05.fence::before_thread_sync` follows the former and `tcgen05.fence::after_thread_sync` precedes the latter
(PTX ISA, "Canonical synchronization patterns" of tcgen05).  A commit implies a fence, so the opposite order needs one
only behind the wait.  Accumulators that a pipe passes between agents have the fences of their pipe.
"""

from __future__ import annotations

from typing import Any

from tileiras.analysis.agents import agent_warps
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.dialects.nv_tileas import names
from tileiras.dialects.nv_tileas.tensor_memory import allocation_of
from tileiras.ir import Operation, UnitAttr, Value, VerifyError
from tileiras.targets.sm import WARPGROUP

_MOVES = (tileas.TensorLoadOp, tileas.TensorScaleOp, tileas.TensorStoreOp)
"""Accesses of threads to tensor memory."""


def fence_columns(func: aa.FuncOp) -> None:
    """Mark in place the loads, stores and dots that need fences in a function of nv_tileas whose buffers have columns.

    They are a load or store, with a dot or a store of another tile in the same columns behind it or in a later
    iteration; and stores of an A that a dot of an earlier iteration has read.  A fence orders all earlier accesses of
    its thread.
    """
    numbers = {op: number for number, op in enumerate(func.walk()) if not _is_of_pipe(op)}
    moves: list[Any] = [op for op in numbers if isinstance(op, _MOVES)]
    writes: list[Any] = [op for op in numbers if isinstance(op, (tileas.TensorDotOp, tileas.TensorStoreOp))]
    loops = {op: set(scf.loops_around(op)) for op in (*moves, *writes)}
    ordered: list[tuple[Operation, Operation]] = []
    from_before: list[tuple[Operation, Operation]] = []
    for later in writes:
        conflicts = [move for move in moves if _meets(move, later) and not _in_own_lanes(later, func)]
        earlier = [move for move in conflicts if numbers[move] < numbers[later]]
        beside = [move for move in earlier if move.parent is later.parent]
        last = {move.parent: move for move in earlier}
        ordered += [(move, later) for move in beside[-1:] or last.values()]
        from_before += [(m, later) for m in conflicts if numbers[m] > numbers[later] and loops[m] & loops[later]]
    for move, later in from_before:
        # The issuing thread has passed the barrier before another dot of the iteration.
        between = (d for m, d in ordered if numbers[m] >= numbers[move] and d.parent is move.parent)
        if not isinstance(later, tileas.TensorDotOp) or not any(isinstance(d, tileas.TensorDotOp) for d in between):
            ordered.append((move, later))
    for move, later in ordered:
        move.attributes["fenced"] = UnitAttr()
        later.attributes["fenced" if isinstance(later, tileas.TensorDotOp) else "overwrites"] = UnitAttr()
    for dot in writes:
        if isinstance(dot, tileas.TensorDotOp) and isinstance(dot.a.type, tileas.TensorBufferType):
            for later in writes:
                # Dots with different accumulators are not implicitly ordered.
                if isinstance(later, tileas.TensorDotOp) and _meet(dot.a, later.buffer):
                    later.attributes["fenced"] = UnitAttr()
            for store in [op for op in moves if isinstance(op, tileas.TensorStoreOp) and op.buffer is dot.a]:
                if loops[store] & loops[dot] and not (_is_behind_load(store) or _knows(store)):
                    store.attributes["overwrites"] = UnitAttr()

    for dot in writes:
        if isinstance(dot, tileas.TensorDotOp) and dot.scales and loops[dot]:
            dot.attributes["fenced"] = UnitAttr()  # copies write where the dot of an earlier iteration has read
    for load in moves:
        if not isinstance(load, tileas.TensorStoreOp) and _knows(load):
            load.attributes["behind"] = UnitAttr()


def _is_of_pipe(op: Any) -> bool:
    """Whether an operation is on a stage of a pipe; accesses of threads are then marked as behind the pipe's fence."""
    if not isinstance(op, (*_MOVES, tileas.TensorDotOp)):
        return False
    if tileas.pipe_of_buffer(allocation_of(op.buffer)) is None:
        return False
    if not isinstance(op, tileas.TensorDotOp):
        op.attributes["behind"] = UnitAttr()
    return True


def _knows(move: tileas.TensorLoadOp | tileas.TensorScaleOp | tileas.TensorStoreOp) -> bool:
    """Whether the fence of an earlier load of the block suffices: the waits since then are for no later group than the
    wait before that load, and serve only to follow the phases of an mbarrier."""
    waits: list[tileas.TensorWaitOp] = []
    other: Operation | None = None
    op = move.prev
    while op is not None:
        if op.regions and any(inner.name.startswith(names.TENSOR_MEMORY) for inner in op.walk()):
            return False
        if isinstance(op, tileas.TensorWaitOp):
            if other is not None:
                return all(w.count is op.count and w.pending.value >= op.pending.value for w in waits)
            waits.append(op)
        elif isinstance(op, (tileas.TensorLoadOp, tileas.TensorScaleOp)):
            other = op
        op = op.prev
    return False


def _meets(move: Any, later: tileas.TensorDotOp | tileas.TensorStoreOp) -> bool:
    """Whether different threads may access common columns in both operations.  Loads and stores of the same buffer do
    not count: a thread has the same elements of it in all of them."""
    if isinstance(later, tileas.TensorStoreOp) and move.buffer is later.buffer:
        return False
    return any(_meet(move.buffer, each) for each in _buffers_of(later))


def _in_own_lanes(later: tileas.TensorDotOp | tileas.TensorStoreOp, func: aa.FuncOp) -> bool:
    """Whether a store writes only lanes that no other thread accesses: each of four warps reaches its own lanes only
    (PTX ISA, "Access restrictions" of tensor memory)."""
    return isinstance(later, tileas.TensorStoreOp) and agent_warps(later, func) == WARPGROUP


def _buffers_of(op: tileas.TensorDotOp | tileas.TensorStoreOp) -> list[Value]:
    """The buffers that a dot reads or writes, or a store writes."""
    if isinstance(op, tileas.TensorDotOp) and isinstance(op.a.type, tileas.TensorBufferType):
        return [op.buffer, op.a]
    return [op.buffer]


def _is_behind_load(store: tileas.TensorStoreOp) -> bool:
    """Whether a load, which has a fence, stands between the wait for dots and a store."""
    op = store.prev
    while op is not None and not isinstance(op, tileas.TensorWaitOp):
        if isinstance(op, (tileas.TensorLoadOp, tileas.TensorScaleOp)):
            return True
        op = op.prev
    return False


def _meet(one: Value, other: Value) -> bool:
    (start, end), (first, last) = _columns(one), _columns(other)
    return start < last and first < end


def _columns(buffer: Value) -> tuple[int, int]:
    op = allocation_of(buffer).defining_op
    if not isinstance(op, tileas.TensorAllocOp) or op.column is None:
        raise VerifyError("expects a buffer whose columns are known here")
    return op.column.value, op.column.value + op.result.type.columns
