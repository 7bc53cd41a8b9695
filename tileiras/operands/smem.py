"""Operands of dots that a loop needs in every iteration, kept in shared memory when registers are short.

    %q = tiled_load ...                           %b = alloc_tensor;  async.tiled_load ... into %b;  async.wait
    %a = convert_layout %q                  ->    for ...:
    for ...:                                        %a = copy %b[0]
      %s = dot %a, ...                              %s = dot %a, ...

A dot reads its operands from shared memory a step at a time, so that few registers hold parts of the tile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileiras import resources
from tileiras.analysis.copied_loads import LOADS, Leaf, copied_vector, is_only_renamed, leaves_of, loads_of
from tileiras.analysis.derivations import erase_unused
from tileiras.analysis.function_pass import FunctionPass
from tileiras.diagnostics import CompileError, DiagnosticEngine, ExitCode
from tileiras.diagnostics.remarks import Remark
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.dialects.arith.build import integer
from tileiras.ir import Block, Builder, IntegerAttr, Operation, Value, i32
from tileiras.layout import LinearLayout
from tileiras.layout.encoding import layout_of, with_layout
from tileiras.reasons import Reason
from tileiras.resources.registers import LiveRegisters, exceeds, lacks, words
from tileiras.resources.shared_memory import (
    buffer_bytes,
    ring_bytes,
    scratch_beside,
    scratch_bytes,
    shared_budget,
    takes_rounds,
)
from tileiras.schedule.staging import buffer_type, read_in, stage_offsets, start_copy
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import CopyAtom, Target, find_copy_atom

if TYPE_CHECKING:
    from tileiras.ir.pass_manager import PassContext


class Resident(NamedTuple):
    """A load, where its tile leaves for dots in loops, and these dots."""

    load: Any
    leaves: tuple[Leaf, ...]
    dots: tuple[Any, ...]
    offsets: tuple[int, ...]


WHERE = ("loop-invariant", "in-loops", "outside-loops")


class SharedMemoryOperands(FunctionPass):
    """Copies dot operands directly to shared memory, from where they are read step by step.

    `where` selects the operands: `loop-invariant` ones of loops that need more registers than a thread has; those
    `in-loops` whose loads have no shared memory to run ahead; large ones `outside-loops` that do not fit into
    registers.
    """

    name = "tileas-smem-operands"
    optional = True
    schedules = True
    requires = "LAYOUTS"
    needs = "layouts and atoms; with `where=in-loops`, schedules"
    establishes = "buffers with asynchronous copies for dot operands, within the rest of shared memory"
    keeps = "values, token order"

    where: str = "loop-invariant"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        if self.where not in WHERE:
            message = f"pass '{self.name}': expected where={', '.join(WHERE)}, got '{self.where}'"
            raise CompileError.at(None, message, ExitCode.CONFIGURATION)
        if not _may_have_operands(func, self.where):
            return
        copies = {"loop-invariant": keep_loop_invariant, "in-loops": copy_refused, "outside-loops": copy_large}
        copies[self.where](func, gpu, context.engine)


def _may_have_operands(func: aa.FuncOp, where: str) -> bool:
    """Whether a function has candidates, without a count of registers."""
    if where == "outside-loops":
        has_dots = any(isinstance(op, tileas.DOTS) for op in func.body.blocks[0].operations)
        return has_dots and resources.loaded_tiles.loads_much(func)
    if where == "in-loops":
        return any(tileas.NO_ROOM in op.attributes for op in func.walk())
    return any(isinstance(op, scf.ForOp) for op in func.walk())


def keep_loop_invariant(func: aa.FuncOp, target: Target, engine: DiagnosticEngine | None = None) -> None:
    """Keep loop-invariant dot operands in shared memory, in place, where a loop takes too many registers.

    At most half of the shared memory goes to them.
    """
    atom = find_copy_atom(target, "global", "shared", asynchronous=True)
    if atom is None:
        return
    live = LiveRegisters()
    short = {op: None for op in func.walk() if isinstance(op, scf.ForOp) and exceeds(op, func, live) > 0}
    if not short:
        return
    available = shared_budget(func, target) // 2
    by_block: dict[Any, list[Resident]] = {}
    for load in [op for op in func.walk() if isinstance(op, LOADS)]:
        resident = _resident(load, atom)
        if resident is None or not any(_loops_around(p, load) & short.keys() for p in resident.dots):
            continue
        size = buffer_type(load, resident.offsets, 1).stage_bytes
        if size > available:
            continue
        available -= size
        by_block.setdefault(load.parent, []).append(resident)
        if engine is not None:
            shape = "x".join(map(str, load.data.type.shape))
            engine.emit(Remark(Reason("memory.stays-in-shared", shape=shape), load.location))
    for item in by_block.values():
        _keep(item, atom)


def _loops_around(op: Operation, load: Operation) -> set[Operation]:
    """The loops between an operation and the block of a load."""
    loops = set()
    current = op.parent_op
    while current is not None and op.parent is not load.parent:
        if isinstance(current, scf.ForOp):
            loops.add(current)
        if current.parent is load.parent:
            break
        current = current.parent_op
    return loops


def copy_refused(func: aa.FuncOp, target: Target, engine: DiagnosticEngine | None = None) -> None:
    """Copy dot operands whose loads found no room to run ahead straight to shared memory where they are used, in
    place, if it holds them once."""
    atom = find_copy_atom(target, "global", "shared", asynchronous=True)
    for loop in [op for op in func.walk() if isinstance(op, scf.ForOp)]:
        loads = [op for op in loads_of(loop) if op.attributes.pop(tileas.NO_ROOM, None) is not None]
        if atom is None or not loads:
            continue
        replaced_ops = {leaf.convert for load in loads for leaf in leaves_of(load.data, loop.body.block)} | set(loads)
        available = shared_budget(func, target) - ring_bytes(loop) - scratch_beside(loop, replaced_ops)
        count = copy_where_used(loads, available, atom)
        if count and engine is not None:
            engine.emit(Remark(Reason("memory.copied-at-use", loads=count), loop.location))


def copy_where_used(loads: list[Any], available: int, atom: CopyAtom) -> int:
    """Copy dot operands straight to shared memory, in place, within `available` bytes; return how many.

    Tiles that are loaded before the dots of earlier ones are there together with them.
    """
    groups: list[list[Resident]] = []
    in_use, end = 0, None
    for load in loads:
        resident = _resident(load, atom, in_loops=False)
        if resident is None or any(dot.parent is not load.parent for dot in resident.dots):
            continue
        apart = end is None or end.is_before_in_block(load)
        size = buffer_type(load, resident.offsets, 1).stage_bytes + (0 if apart else in_use)
        if size > available:
            continue
        if apart:
            groups.append([])
            end = None
        groups[-1].append(resident)
        in_use = size
        for dot in resident.dots:
            end = dot if end is None or end.is_before_in_block(dot) else end
    for group in groups:
        _keep(group, atom)
    return sum(map(len, groups))


def copy_large(func: aa.FuncOp, target: Target, engine: DiagnosticEngine | None = None) -> None:
    """Store operands of dots outside of loops to shared memory at once, in place, if the whole operand would be in
    registers before its dot begins, and a thread lacks the registers for that."""
    atom = find_copy_atom(target, "global", "shared", asynchronous=True)
    if atom is None:
        return
    block, budget = func.body.blocks[0], shared_budget(func, target)
    for load in [op for op in block.operations if isinstance(op, LOADS)]:
        resident = _resident(load, atom, in_loops=False)
        if resident is None or any(dot.parent is not block for dot in resident.dots):
            continue
        whole = (leaf.convert.results[0] for leaf in resident.leaves if takes_rounds(leaf.convert))
        most = max(map(words, whole), default=0)
        if not most or not lacks(func, most):
            continue
        size = buffer_type(load, resident.offsets, 1).stage_bytes
        if size + _shared_bytes(resident, block, budget) > budget:
            continue
        if engine is not None:
            shape = "x".join(map(str, load.data.type.shape))
            engine.emit(Remark(Reason("memory.copied-at-once", shape=shape), load.location))
        _keep([resident], atom)


def _shared_bytes(resident: Resident, block: Block, budget: int) -> int:
    """Bytes of shared memory that others need at most between a load and its last dot."""
    converts = {leaf.convert for leaf in resident.leaves}
    operations = list(block.operations)
    first, last = operations.index(resident.load), max(map(operations.index, resident.dots))
    live, most = sum(map(buffer_bytes, operations[:first])), 0
    for op in operations[first:last]:
        inner = [each for each in op.walk() if each not in converts]
        buffers = sum(each.result.type.bytes for each in inner if isinstance(each, tileas.AllocTensorOp))
        most = max(most, live + buffers + max((scratch_bytes(each, budget) for each in inner), default=0))
        live += buffer_bytes(op)
    return most


def _resident(load: tileas.Load, atom: CopyAtom, in_loops: bool = True) -> Resident | None:
    vector = copied_vector(load, atom)
    if vector is None:
        return None
    leaves, dots = leaves_of(load.data, load.parent), []
    if not leaves or not is_only_renamed(load.data, leaves):
        return None
    for leaf in leaves:
        products = _products(leaf.convert.results[0])
        if products is None or in_loops and any(dot.parent is load.parent for dot in products):
            return None
        dots += products
    offsets = stage_offsets(load, vector, leaves)
    return None if offsets is None else Resident(load, tuple(leaves), tuple(dots), offsets)


def _products(value: Value) -> list[Any] | None:
    """The dots that take a value as an operand; None when something else uses it."""
    for user in value.users:
        dot = isinstance(user, tileas.DOTS)
        if not dot or any(operand is value for operand in user.operands[2:]):
            return None
    return list(value.users)


def _keep(residents: list[Resident], atom: CopyAtom) -> None:
    """The rewriting of the loads of one block."""
    end: Operation | None = None
    buffers = []
    for resident in residents:
        load = resident.load
        builder = Builder.before(load)
        builder.location = load.location
        type = buffer_type(load, resident.offsets, 1)
        buffer = builder.insert(tileas.AllocTensorOp(result=type)).results[0]
        stage = integer(builder, 0)
        start_copy(builder, load, buffer, stage, load.token, atom)
        builder.insert(tileas.AsyncCommitGroupOp())
        wait = builder.insert(tileas.AsyncWaitOp(pending=IntegerAttr(0, i32), result_token=aa.MemTokenType()))
        if any(leaf.in_place for leaf in resident.leaves):
            builder.insert(tileas.FenceProxyOp())
        load.result_token.replace_all_uses_with(wait.results[0])
        buffers.append(buffer)
        for leaf in resident.leaves:
            for dot in leaf.convert.results[0].users:
                last = load.parent.find_ancestor_op(dot)
                if end is None or end.is_before_in_block(last):
                    end = last
                _read_before(dot, leaf, load, buffer, stage)
            leaf.convert.erase()
        erase_unused(load.data)
        load.erase()
    assert end is not None
    after = Builder.before(end.next)  # type: ignore[arg-type]
    after.location = end.location
    for buffer in reversed(buffers):
        after.insert(tileas.DeallocTensorOp(buffer))


def _read_before(dot: tileas.DotOp, leaf: Leaf, load: tileas.TiledLoadOp, buffer: Value, stage: Value) -> None:
    """Replace a dot's operand by a read of the buffer."""
    old = leaf.convert.results[0]

    def read(layout: LinearLayout) -> Value:
        copy = tileas.CopyOp(buffer, stage, result=with_layout(load.data.type, layout), location=load.location)
        dot.parent.insert_before(copy, dot)
        return copy.results[0]

    old.replace_uses_in(read_in(leaf.convert.operands[0], layout_of(old.type), load, read, dot), [dot])
