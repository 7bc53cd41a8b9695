"""Loads issued before long computations that do not provide their addresses, in kernels with registers to spare.

    %m = reduce %x                          %w = tiled_load ...
    %w = tiled_load ...                 ->  %m = reduce %x
    %y = mulf %m, %w                        %y = mulf %m, %w

A reduction waits for other warps, and functions such as `sin` branch.  ptxas moves no load past either, so that the
latency of memory would follow that of the computation.  Tiles that all tile blocks load, such as the weights of a norm,
come from L2, and their loads stay: before the reduction they compete with the row that it waits for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tileiras import resources
from tileiras.analysis.copied_loads import LOADS
from tileiras.analysis.function_pass import FunctionPass
from tileiras.diagnostics import DiagnosticEngine
from tileiras.diagnostics.remarks import Remark
from tileiras.dialects import arith, math, scf
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import Block, Operation, TensorType
from tileiras.ir.effects import has_no_effect
from tileiras.reasons import Reason
from tileiras.resources.registers import words

from .sink_loads import may_write

if TYPE_CHECKING:
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target

_LONG = (
    tileas.ReduceOp, tileas.ScanOp, tileas.ConvertLayoutOp, tileas.DivFOp, tileas.SqrtOp, arith.RemFOp,
    math.SinOp, math.CosOp, math.TanOp, math.PowFOp, math.SinhOp, math.CoshOp,
)  # fmt: skip
"""Operations with barriers or branches."""

HELD = 80
"""Registers of a thread's tiles and of hoisted loads at most, those of addresses included.  A stage of an FFT of 2^24
elements, with 80, then has 56 in all, and takes 61.7 us on H200 instead of 63.5 (sim.estimate)."""


class HoistLoads(FunctionPass):
    name = "tileas-hoist-loads"
    optional = True
    schedules = True
    requires = "LAYOUTS"
    adds_operations = False
    needs = "layouts and atoms"
    establishes = "loads before operations with barriers or branches, in kernels with registers for their tiles"
    keeps = "values, the order of loads and writes"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        hoist_loads(func, context.engine)


def hoist_loads(func: aa.FuncOp, engine: DiagnosticEngine | None = None) -> None:
    """Move loads of tiles in each block before the first long computation that they do not depend on, in place.  No
    load moves past an operation that may write, or past a loop or a branch; blocks with dots have schedules."""
    blocks = [region.block for op in func.walk() for region in op.regions if region.blocks]
    result = [block for block in blocks if not any(isinstance(op, tileas.DOTS) for op in block.operations)]
    loads = [pair for block in result for pair in _behind_long(block)]
    free = HELD - resources.registers.tile_registers(func) if loads else 0
    hoisted = 0
    for load, long in loads:
        place, operands = _place(load, long)
        if place is not None and words(load.data) <= free:
            for each in (*operands, load):
                each.move_before(place)
            free -= words(load.data)
            hoisted += 1
    if hoisted and engine is not None:
        engine.emit(Remark(Reason("memory.loads-hoisted", tiles=hoisted), func.location))


def _behind_long(block: Block) -> Iterator[tuple[tileas.Load, list[Operation]]]:
    """Loads of tiles, with the long computations before each that no operation between forbids to pass."""
    long: list[Operation] = []
    for op in block.operations:
        if op.regions and not isinstance(op, _LONG) or may_write(op):
            long = []
        elif isinstance(op, _LONG):
            if isinstance(op.results[0].type, TensorType):
                long = [*long, op]
        elif long and isinstance(op, LOADS) and isinstance(op.data.type, TensorType) and _is_of_one_block(op):
            yield op, long


def _is_of_one_block(load: tileas.Load) -> bool:
    """Whether a load's addresses depend on the tile block, or on the iteration of a loop."""
    values = list(load.operands)
    for value in values:
        op = value.defining_op
        if op is None or isinstance(op, aa.GetProgramIdOp):
            if op is not None or isinstance(value.block.parent_op, scf.ForOp):
                return True
        else:
            values += [operand for operand in op.operands if operand not in values]
    return False


def _place(load: Operation, long: list[Operation]) -> tuple[Operation | None, list[Operation]]:
    """The first of the long computations that a load can precede, and the operations that move with it, in order."""
    operands: dict[Operation, None] = {}
    place: Operation | None = long[0]
    pending = [load]
    while pending and place is not None:
        for value in pending.pop().operands:
            op = value.defining_op
            if op is None or op.parent is not load.parent or op in operands or op.is_before_in_block(place):
                continue
            if isinstance(op, _LONG) or not has_no_effect(op):
                place = next((later for later in long if op.is_before_in_block(later)), None)
                if place is None:
                    return None, []
            else:
                operands[op] = None
                pending.append(op)
    behind = [op for op in operands if place is not None and not op.is_before_in_block(place)]
    return place, sorted(behind, key=_Position)


class _Position:
    """Orders operations of one block."""

    __slots__ = ("op",)

    def __init__(self, op: Operation) -> None:
        self.op = op

    def __lt__(self, other: _Position) -> bool:
        return self.op.is_before_in_block(other.op)
