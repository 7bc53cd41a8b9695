"""Fences around what threads do in tensor memory before others, or the tensor core, write there.

Loads and stores of all warps, a barrier, then the dot that one thread issues, or stores of another tile:
`tcgen05.fence::before_thread_sync` stands behind the former and `tcgen05.fence::after_thread_sync` before the latter
(PTX ISA, "Canonical synchronization patterns" of tcgen05).  A commit is a fence of its own kind, so that the way back
needs one only behind the wait.  Accumulators that a pipe hands from agent to agent have the fences of their pipe.
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
"""What threads do in tensor memory."""


def fence_columns(func: aa.FuncOp) -> None:
    """Marks loads, stores and dots of a function of nv_tileas, whose buffers have columns, in place: those that meet in
    a column, the dot or the store of another tile behind the load or store, or in a later iteration, and stores of an A
    that an earlier iteration's dot has read.  A fence is for all that its thread has done before."""
    numbers = {op: number for number, op in enumerate(func.walk()) if not _is_of_pipe(op)}
    moves: list[Any] = [op for op in numbers if isinstance(op, _MOVES)]
    writes: list[Any] = [op for op in numbers if isinstance(op, (tileas.TensorDotOp, tileas.TensorStoreOp))]
    loops = {op: set(scf.loops_around(op)) for op in (*moves, *writes)}
    ordered: list[tuple[Operation, Operation]] = []
    from_before: list[tuple[Operation, Operation]] = []
    for later in writes:
        met = [move for move in moves if _meets(move, later) and not _in_own_lanes(later, func)]
        earlier = [move for move in met if numbers[move] < numbers[later]]
        beside = [move for move in earlier if move.parent is later.parent]
        last = {move.parent: move for move in earlier}
        ordered += [(move, later) for move in beside[-1:] or last.values()]
        from_before += [(m, later) for m in met if numbers[m] > numbers[later] and loops[m] & loops[later]]
    for move, later in from_before:
        # The thread that issues dots is behind the barrier before another one of the iteration.
        between = (d for m, d in ordered if numbers[m] >= numbers[move] and d.parent is move.parent)
        if not isinstance(later, tileas.TensorDotOp) or not any(isinstance(d, tileas.TensorDotOp) for d in between):
            ordered.append((move, later))
    for move, later in ordered:
        move.attributes["fenced"] = UnitAttr()
        later.attributes["fenced" if isinstance(later, tileas.TensorDotOp) else "overwrites"] = UnitAttr()
    for dot in writes:
        if isinstance(dot, tileas.TensorDotOp) and isinstance(dot.a.type, tileas.TensorBufferType):
            for later in writes:
                # Of dots with other accumulators, the later one is not behind the earlier one by itself.
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
    """Whether an operation is on a stage of a pipe; of loads it is noted that they are behind its fence."""
    if not isinstance(op, (*_MOVES, tileas.TensorDotOp)):
        return False
    if tileas.pipe_of_buffer(allocation_of(op.buffer)) is None:
        return False
    if not isinstance(op, tileas.TensorDotOp):
        op.attributes["behind"] = UnitAttr()
    return True


def _knows(move: tileas.TensorLoadOp | tileas.TensorScaleOp | tileas.TensorStoreOp) -> bool:
    """Whether the waits since another load of the block, which has a fence, are for no group that is later than the
    wait before that one: there are such for the sake of an mbarrier's phases."""
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
    """Whether threads use columns in both, and not the same ones those of a tile: a thread has the same elements of a
    buffer in all loads and stores."""
    if isinstance(later, tileas.TensorStoreOp) and move.buffer is later.buffer:
        return False
    return any(_meet(move.buffer, each) for each in _used(later))


def _in_own_lanes(later: tileas.TensorDotOp | tileas.TensorStoreOp, func: aa.FuncOp) -> bool:
    """Whether threads meet nobody where they store: of four warps each reaches its own lanes only (PTX ISA, "Access
    restrictions" of tensor memory)."""
    return isinstance(later, tileas.TensorStoreOp) and agent_warps(later, func) == WARPGROUP


def _used(op: tileas.TensorDotOp | tileas.TensorStoreOp) -> list[Value]:
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
