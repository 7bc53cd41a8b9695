"""Marks operations of a loop that is short of registers to recompute values instead of keeping them through the loop.

LLVM and ptxas move invariant computations out of loops, and spill the results where there are too few registers: the
thread's part of addresses, conditions of copies, distances between rows.  Recomputed in every iteration they occupy
registers for a few instructions only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.analysis.function_pass import FunctionPass
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.ir import IntegerAttr, Operation, UnitAttr, i32

if TYPE_CHECKING:
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target

_BY_THREAD = (
    tileas.AsyncLoadOp, tileas.AsyncTiledLoadOp, tileas.CopyOp, tileas.MakeRangeOp, tileas.StoreTensorOp,
)  # fmt: skip
"""Operations that select their elements by the thread's number."""

_THROUGH_VIEWS = (tileas.TiledLoadOp, tileas.TiledStoreOp, tileas.TiledAtomicRMWOp)
"""Operations that compute addresses and conditions of sizes and strides."""


class Rematerialize(FunctionPass):
    name = "tileas-rematerialize"
    optional = True
    schedules = True
    requires = "ALLOCATED"
    needs = "loops that `tileas-mark-short-loops` has marked; operations and scratch areas as they will be"
    establishes = "`nv_tileas.rematerialize` on operations, `nv_tileas.rematerialize_behind` on the loops"
    keeps = "operations"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        rematerialize(func)


def rematerialize(func: aa.FuncOp) -> None:
    """Mark the operations of a function of nv_tileas whose scratch areas have their places, and take the marks from
    its loops."""
    for loop in [op for op in func.walk() if isinstance(op, scf.ForOp)]:
        if tileas.SHORT_OF_REGISTERS not in loop.attributes:
            continue
        for op in loop.walk():
            if op is not loop and _computes(op):
                # Of nested loops the innermost one counts, to which the walk comes last.
                op.attributes[tileas.REMATERIALIZE] = IntegerAttr(_loops_between(op, loop), i32)
    for op in func.walk():
        if op.attributes.pop(tileas.SHORT_OF_REGISTERS, None) is not None:
            op.attributes[tileas.REMATERIALIZE_BEHIND] = UnitAttr()


def _computes(op: Operation) -> bool:
    """Whether an operation computes values that could be kept through a loop."""
    if isinstance(op, _THROUGH_VIEWS):
        cut = op.view.defining_op
        memref = cut.source.defining_op if isinstance(cut, aa.BlockTileOp) else None
        return memref is None or len(memref.operands) > 1 or tileas.SCRATCH in op.attributes
    return isinstance(op, _BY_THREAD) or tileas.SCRATCH in op.attributes


def _loops_between(op: Operation, loop: Operation) -> int:
    count, parent = 0, op.parent_op
    while parent is not loop:
        assert parent is not None, "a loop around the operation"
        count += isinstance(parent, scf.ForOp)
        parent = parent.parent_op
    return count
