"""Memory of a tile block: a part of shared memory where all its uses are in sight, else taken from the device's heap by
one thread and given back by it (CUDA C++ Programming Guide, "Dynamic Global Memory Allocation").

Heap addresses are those of global memory: they mix with the kernel's other pointers in tiles, loops and selections, and
the blocks that share a `global` allocation may be anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileiras.dialects import llvm
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.llvm.layout import SHARED
from tileiras.dialects.nv_tileaa import PtrType
from tileiras.ir import TensorType, Value, element_type_of, i64
from tileiras.layout.arena import AREA_ALIGNMENT, aligned

from .debug import GENERIC, continue_at, only_where
from .function import FunctionLowering
from .replicas import from_representative
from .types import fragment_type, memory_type, points_to_half_bytes

HEAP_ALIGNMENT = 16
"""What `malloc` guarantees, in bytes."""

SHARED_BYTES = 16 * 1024
"""What a function's allocations take together at most: shared memory limits how many blocks run at once."""

# Operations whose result leads where their operand does.
_MOVES = (
    tileas.AddPtrOp,
    tileas.AssumeOp,
    tileas.BroadcastOp,
    tileas.ConvertLayoutOp,
    tileas.PermuteOp,
    tileas.PtrBitcastOp,
    tileas.SplatOp,
    tileas.ViewOp,
)
_ACCESSES = (tileas.LoadOp, tileas.StoreOp, tileas.AtomicRMWOp, tileas.AtomicCASOp)
_TILED = (tileas.TiledLoadOp, tileas.TiledStoreOp)


def _size(op: Any) -> int:
    bits = 4 if points_to_half_bytes(op.result.type) else memory_type(element_type_of(op.result.type).pointee).width
    return max(1, -(-op.num_elem.value * bits // 8))


def _pointers(value: Value, found: dict[Value, None]) -> bool:
    """Collects the pointers made of `value`; False when one of them is used for more than accesses."""
    if value in found:
        return True
    if points_to_half_bytes(value.type):
        return False  # whose addresses are numbers
    found[value] = None
    for user in value.users:
        if isinstance(user, _MOVES) and user.operands[0] is value:
            fine = _pointers(user.results[0], found)
        elif isinstance(user, tileas.MakeMemRefOp) and user.base is value:
            views = [view for cut in user.result.users for view in cut.results]
            fine = all(isinstance(access, _TILED) for view in views for access in view.users)
        else:
            # The pointer comes first; one that is stored is known to others.
            is_address = user.operands[0] is value and value not in user.operands[1:]
            fine = isinstance(user, tileas.DeallocOp) or isinstance(user, _ACCESSES) and is_address
        if not fine:
            return False
    return True


def place_in_shared(func: Any) -> None:
    """Moves the allocations of a function of nv_tileas that can be there to shared memory: what their pointers' types
    say."""
    left = SHARED_BYTES
    for op in [op for op in func.walk() if isinstance(op, tileas.AllocaOp)]:
        pointers: dict[Value, None] = {}
        size = aligned(_size(op))
        if op.global_ is not None or op.alignment.value > AREA_ALIGNMENT or size > left:
            continue
        if not _pointers(op.result, pointers):
            continue
        left -= size
        for value in pointers:
            element = PtrType(element_type_of(value.type).pointee, SHARED)
            is_tensor = isinstance(value.type, TensorType)
            value.type = TensorType(value.type.shape, element, value.type.encoding) if is_tensor else element


def _first_thread(lowering: FunctionLowering) -> Value:
    emit = lowering.emit
    return emit.icmp("eq", emit.thread, emit.integer(0))


def alloca(op: Any, args: Sequence[Any], lowering: FunctionLowering) -> Value:
    """Traps when the heap is exhausted.  The address is the first aligned one in what `malloc` gave."""
    emit = lowering.emit
    size, alignment = _size(op), op.alignment.value
    if element_type_of(op.result.type).address_space == SHARED:
        address, region = lowering.reserve(op.result, size)
        lowering.synchronization.before_scratch(region)
        return address
    slack = alignment if alignment > HEAP_ALIGNMENT else 0
    inside, after = lowering.new_block(), lowering.new_block([i64])
    nothing = emit.integer(0, i64)
    emit.insert(llvm.CondBrOp(_first_thread(lowering), [], [nothing], trueDest=inside, falseDest=after))
    emit.block = inside
    pointer = lowering.external_call("malloc", (emit.integer(size + slack, i64),), GENERIC)
    given = emit.insert(llvm.PtrToIntOp(pointer, res=i64))
    failed = only_where(emit.icmp("eq", given, nothing), lowering)
    emit.insert(llvm.INTRINSIC_OPS["trap"]())
    continue_at(failed, lowering)
    emit.insert(llvm.BrOp([given], dest=after))
    emit.block = after
    shared = from_representative(after.arguments[0], lowering.layout(op.result), lowering)
    lowering.allocations[op.result] = shared
    if slack:
        shared = emit.and_(emit.value(emit.add(shared, alignment - 1, i64)), -alignment, i64)
    address = emit.insert(llvm.IntToPtrOp(shared, res=GENERIC))
    return emit.insert(llvm.AddrSpaceCastOp(address, res=fragment_type(op.result.type)))


def dealloc(op: Any, args: Sequence[Any], lowering: FunctionLowering) -> None:
    """Once all threads have made their accesses."""
    emit = lowering.emit
    lowering.synchronization.barrier()
    if element_type_of(op.pointer.type).address_space == SHARED:
        lowering.release(op.pointer)
        return
    after = only_where(_first_thread(lowering), lowering)
    pointer = emit.insert(llvm.IntToPtrOp(lowering.allocations[op.pointer], res=GENERIC))
    lowering.external_call("free", (pointer,), None)
    continue_at(after, lowering)


PATTERNS: dict[type, Any] = {
    tileas.AllocaOp: alloca,
    tileas.DeallocOp: dealloc,
}
