"""Loads made where their tiles are used, in kernels whose tiles take more registers than a thread has.

    %w = tiled_load ...                     ...
    %v = extract_slice %w               ->  %w = tiled_load ...
    ...                                     %v = extract_slice %w
    %y = mulf %x, %v                        %y = mulf %x, %v

A front end loads its tables before anything else, and they wait in registers until the last dot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import resources
from tileiras.analysis.copied_loads import LOADS
from tileiras.analysis.function_pass import FunctionPass
from tileiras.diagnostics import DiagnosticEngine
from tileiras.diagnostics.remarks import Remark
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.ir import MemoryRead, NoMemoryEffect, Operation, RecursiveMemoryEffects, TensorType
from tileiras.ir.effects import has_no_effect
from tileiras.reasons import Reason
from tileiras.resources.loaded_tiles import is_over_slices, loads_for_slices, loads_much

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target

_MOVED_ALONG = (*tileas.VIEW_LIKE, tileas.ExtractSliceOp, tileas.ConvertLayoutOp, tileas.BroadcastOp)
"""Operations between a loaded tile and its use; their results take no more registers than their operands."""


class SinkLoads(FunctionPass):
    name = "tileas-sink-loads"
    optional = True
    schedules = True
    requires = "LAYOUTS"
    adds_operations = False
    needs = "layouts and atoms"
    establishes = "loads where their tiles are used, in kernels without the registers to wait"
    keeps = "values, the order of loads and writes"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        if loads_much(func):
            sink_loads(func, context.engine)
        if loads_for_slices(func):
            sink_into_slices(func, context.engine)


def sink_loads(func: aa.FuncOp, engine: DiagnosticEngine | None = None) -> None:
    """Move loads of a kernel's own block, in place, each with the operations that only extract or rename parts of it,
    to the first use, if the kernel lacks registers.  No load moves past an operation that may write."""
    if not resources.registers.lacks_registers(func):
        return
    count = 0
    limit: Operation | None = None
    # From the end, so that the users of a tile are placed before it.
    for op in reversed(list(func.body.blocks[0].operations)):
        if may_write(op):
            limit = op
        elif _is_moved(op) and (place := _first_use(op, limit)) is not None and op.next is not place:
            op.move_before(place)
            count += isinstance(op, LOADS)
    if count and engine is not None:
        engine.emit(Remark(Reason("memory.loads-sunk", tiles=count), func.location))


def sink_into_slices(func: aa.FuncOp, engine: DiagnosticEngine | None = None) -> None:
    """Move loads from before a loop over a few slices into it, after its dots, in place, where a thread lacks
    registers for accumulators and loaded tiles together: tiles that only the epilogue of a slice reads are then loaded
    once for each slice.  Operations that extract or rename parts of a tile move with its load.

    A load then follows stores of earlier slices, which is right since nothing orders it: its token is unused.
    """
    for loop in [op for op in func.walk() if is_over_slices(op) and any(map(_multiplies, op.body.block.operations))]:
        if resources.registers.exceeds(loop, func) > 0 and (count := _sink_into(loop)) and engine is not None:
            engine.emit(Remark(Reason("memory.loads-per-slice", tiles=count), loop.location))


def _sink_into(loop: scf.ForOp) -> int:
    """Move loads into a loop over slices; return how many."""
    body = loop.body.block
    places = {op: place for place, op in enumerate(body.operations)}
    products = max(place for op, place in places.items() if _multiplies(op))
    count = 0
    op = loop.prev
    while op is not None and not may_write(op):
        before = op.prev
        users = [body.find_ancestor_op(user) for value in op.results for user in value.users]
        inside = [user for user in users if user is not None and places.get(user, products + 1) > products]
        if _is_moved(op) and users and len(inside) == len(users) and not any(v.has_uses for v in op.results[1:]):
            first = next(other for other in body.operations if other in inside)
            op.move_before(first)
            count += isinstance(op, LOADS)
        op = before
    return count


def _multiplies(op: Operation) -> bool:
    """Whether an operation is a loop with dots."""
    return isinstance(op, scf.ForOp) and any(isinstance(inner, tileas.DOTS) for inner in op.walk())


def may_write(op: Operation) -> bool:
    """Whether an operation may write memory, or orders accesses."""
    if isinstance(op, LOADS) and op.mem_semantic.value != "weak":
        return True
    if op.has_trait(RecursiveMemoryEffects):
        return any(may_write(inner) for inner in op.walk() if inner is not op)
    return not (op.has_trait(MemoryRead) or op.has_trait(NoMemoryEffect) or has_no_effect(op))


def _is_moved(op: Operation, depth: int = 8) -> bool:
    """Whether an operation is a load of a tile, or extracts or renames a part of one."""
    if isinstance(op, LOADS):
        return isinstance(op.data.type, TensorType)
    source = op.operands[0].defining_op if isinstance(op, _MOVED_ALONG) else None
    return source is not None and source.parent is op.parent and depth > 0 and _is_moved(source, depth - 1)


def _first_use(op: Operation, limit: Operation | None) -> Operation | None:
    """The operation of the block before which all results are needed, or `limit` if that comes first."""
    block = op.parent
    assert block is not None
    users = (block.find_ancestor_op(user) for result in op.results for user in result.users)
    first = limit
    for user in users:
        if user is not None and (first is None or user.is_before_in_block(first)):
            first = user
    return first
