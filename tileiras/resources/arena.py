"""The arena of shared memory: which allocations it has, and where each buffer lies in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.llvm.layout import SHARED
from tileiras.dialects.nv_tileaa import PtrType
from tileiras.ir import IntegerAttr, TensorType, Value, element_type_of, i32
from tileiras.layout.arena import AREA_ALIGNMENT, aligned

SHARED_BYTES = 16 * 1024
"""What a function's allocations take together at most: shared memory limits how many blocks run at once."""

CREATE_PIPELINE = "nv_tileas.async.pipeline.create_pipeline"
AGENT_SWITCH = "nv_tileas.async.pipeline.agent_switch"
"""By name: kernels without agents do without the file that has them."""

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


def alloca_bytes(op: Any) -> int:
    """Bytes of what an `alloca` gives: 4-bit elements share a byte, tf32 ones take those of an f32."""
    pointee = element_type_of(op.result.type).pointee
    width = getattr(pointee, "width", 64)
    bits = width if width == 4 else 1 << max(3, (width - 1).bit_length())
    return max(1, -(-op.num_elem.value * bits // 8))


def _pointers(value: Value, found: dict[Value, None]) -> bool:
    """Collects the pointers made of `value`; False when one of them is used for more than accesses."""
    if value in found:
        return True
    if _points_to_half_bytes(value.type):
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
        size = aligned(alloca_bytes(op))
        if op.global_ is not None or op.alignment.value > AREA_ALIGNMENT or size > left:
            continue
        if not _pointers(op.result, pointers):
            continue
        left -= size
        for value in pointers:
            element = PtrType(element_type_of(value.type).pointee, SHARED)
            is_tensor = isinstance(value.type, TensorType)
            value.type = TensorType(value.type.shape, element, value.type.encoding) if is_tensor else element


def _points_to_half_bytes(type: Any) -> bool:
    element = element_type_of(type)
    return isinstance(element, PtrType) and getattr(element.pointee, "width", 64) == 4


def place_buffers(func: aa.FuncOp) -> None:
    """Gives every buffer of a function of nv_tileas, and the mbarriers of every pipe, their `offset`: behind all that
    live where they begin.  Mbarriers live to the end of the function, what an agent has until all agents have ended."""
    _place([func], {}, 0)


def _place(operations: Iterable[Any], ends: dict[Value, int], floor: int) -> int:
    """Gives buffers their places, behind those that live, whose `ends` are given, and behind `floor`; how far they
    reach."""
    reach = floor
    for op in operations:
        if isinstance(op, (tileas.AllocTensorOp, tileas.AllocaOp)) or op.name == CREATE_PIPELINE:
            size = shared_bytes(op)
            if size:
                start = aligned(max(floor, *ends.values()) if ends else floor)
                op.attributes["offset"] = IntegerAttr(start, i32)
                ends[op.results[0]] = start + size
                reach = max(reach, start + size)
        elif isinstance(op, tileas.DeallocTensorOp):
            ends.pop(op.buffer, None)
        elif isinstance(op, tileas.DeallocOp):
            ends.pop(op.pointer, None)
        for region in op.regions:
            # Agents run beside each other.
            below = reach if op.name == AGENT_SWITCH else floor
            reach = max(reach, _place(region.operations, ends, below))
    return reach


def shared_bytes(op: Any) -> int:
    """Bytes of shared memory that an operation takes from where it stands on; 0 for an `alloca` on the heap."""
    if isinstance(op, tileas.AllocTensorOp):
        return op.result.type.bytes
    if op.name == CREATE_PIPELINE:
        return op.mbarrier_bytes
    return alloca_bytes(op) if element_type_of(op.result.type).address_space == SHARED else 0
