"""Loads made where their tiles are used, in kernels whose tiles take more registers than a thread has.

    %w = tiled_load ...                     ...
    %v = extract_slice %w               ->  %w = tiled_load ...
    ...                                     %v = extract_slice %w
    %y = mulf %x, %v                        %y = mulf %x, %v

A front end loads its tables before anything else, and they wait in registers until the last dot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.analysis.copied_loads import LOADS
from tileiras.diagnostics import DiagnosticEngine
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import MemoryRead, NoMemoryEffect, Operation, RecursiveMemoryEffects, TensorType
from tileiras.ir.effects import has_no_effect
from tileiras.resources.registers import lacks_registers

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa

_MOVED_ALONG = (*tileas.VIEW_LIKE, tileas.ExtractSliceOp, tileas.ConvertLayoutOp, tileas.BroadcastOp)
"""What a loaded tile goes through on its way; it takes no more registers behind than before."""


def sink_loads(func: aa.FuncOp, engine: DiagnosticEngine | None = None) -> None:
    """Moves loads of a kernel's own block, in place, each with what only takes or renames parts of it, to the first
    use, when the kernel lacks registers.  None moves behind anything that may write."""
    if not lacks_registers(func):
        return
    moved = 0
    limit: Operation | None = None
    # From the end, so that what uses a tile has its place first.
    for op in reversed(list(func.body.blocks[0].operations)):
        if _may_write(op):
            limit = op
        elif _is_moved(op) and (place := _first_use(op, limit)) is not None and op.next is not place:
            op.move_before(place)
            moved += isinstance(op, LOADS)
    if moved and engine is not None:
        engine.remark(
            func.location, f"{moved} tiles are loaded where they are used: a thread has no registers for them"
        )


def _may_write(op: Operation) -> bool:
    if isinstance(op, LOADS) and op.mem_semantic.value != "weak":
        return True
    if op.has_trait(RecursiveMemoryEffects):
        return any(_may_write(inner) for inner in op.walk() if inner is not op)
    return not (op.has_trait(MemoryRead) or op.has_trait(NoMemoryEffect) or has_no_effect(op))


def _is_moved(op: Operation, depth: int = 8) -> bool:
    """Whether an operation is a load of a tile, or takes or renames a part of one."""
    if isinstance(op, LOADS):
        return isinstance(op.data.type, TensorType)
    source = op.operands[0].defining_op if isinstance(op, _MOVED_ALONG) else None
    return source is not None and source.parent is op.parent and depth > 0 and _is_moved(source, depth - 1)


def _first_use(op: Operation, limit: Operation | None) -> Operation | None:
    """The operation of the block before which all results have to be there, or `limit` if that comes first."""
    block = op.parent
    assert block is not None
    users = (block.find_ancestor_op(user) for result in op.results for user in result.users)
    first = limit
    for user in users:
        if user is not None and (first is None or user.is_before_in_block(first)):
            first = user
    return first
