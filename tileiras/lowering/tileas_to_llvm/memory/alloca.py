"""Memory of a tile block: a part of shared memory if its type requires it, else taken from the device's heap by
one thread and given back by it (CUDA C++ Programming Guide, "Dynamic Global Memory Allocation").

Heap addresses are those of global memory: they mix with the kernel's other pointers in tiles, loops and selections, and
the blocks that share a `global` allocation may be anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tileiras.dialects import llvm
from tileiras.dialects.llvm.layout import SHARED
from tileiras.ir import Value, element_type_of, i64

from ..emit.function import FunctionLowering
from ..emit.types import fragment_type
from .debug import GENERIC, continue_at, only_where
from .replicas import from_elected

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileas as tileas

HEAP_ALIGNMENT = 16
"""The alignment that `malloc` guarantees, in bytes."""

def _first_thread(lowering: FunctionLowering) -> Value:
    emit = lowering.emit
    return emit.icmp("eq", emit.thread, emit.integer(0))


def alloca(op: tileas.AllocaOp, args: Sequence[Any], lowering: FunctionLowering) -> Value:
    """Trap when the heap is exhausted.  The address is the first aligned one in the allocated memory."""
    emit = lowering.emit
    size, alignment = op.bytes, op.alignment.value
    if element_type_of(op.result.type).address_space == SHARED:
        return lowering.buffer(op)
    slack = alignment if alignment > HEAP_ALIGNMENT else 0
    inside, after = lowering.new_block(), lowering.new_block([i64])
    nothing = emit.integer(0, i64)
    emit.insert(llvm.CondBrOp(_first_thread(lowering), [], [nothing], trueDest=inside, falseDest=after))
    emit.block = inside
    pointer = lowering.external_call("malloc", (emit.integer(size + slack, i64),), GENERIC)
    result = emit.insert(llvm.PtrToIntOp(pointer, res=i64))
    failed = only_where(emit.icmp("eq", result, nothing), lowering)
    emit.insert(llvm.INTRINSIC_OPS["trap"]())
    continue_at(failed, lowering)
    emit.insert(llvm.BrOp([result], dest=after))
    emit.block = after
    shared = from_elected(after.arguments[0], lowering.layout(op.result), lowering)
    lowering.allocations[op.result] = shared
    if slack:
        shared = emit.and_(emit.value(emit.add(shared, alignment - 1, i64)), -alignment, i64)
    address = emit.insert(llvm.IntToPtrOp(shared, res=GENERIC))
    return emit.insert(llvm.AddrSpaceCastOp(address, res=fragment_type(op.result.type)))


def dealloc(op: tileas.DeallocOp, args: Sequence[Any], lowering: FunctionLowering) -> None:
    """Has one thread return the allocation to the heap; shared memory is free for others from here on."""
    emit = lowering.emit
    if element_type_of(op.pointer.type).address_space == SHARED:
        return
    after = only_where(_first_thread(lowering), lowering)
    pointer = emit.insert(llvm.IntToPtrOp(lowering.allocations[op.pointer], res=GENERIC))
    lowering.external_call("free", (pointer,), None)
    continue_at(after, lowering)
