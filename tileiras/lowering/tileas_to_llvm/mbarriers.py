"""Waiting for a phase of an mbarrier."""

from __future__ import annotations

from tileiras.dialects import llvm, nvvm
from tileiras.ir import UnitAttr, Value

from .function import FunctionLowering


def wait_for_phase(mbarrier: Value, parity: Value, lowering: FunctionLowering, of_cluster: bool = False) -> None:
    """Until the phase of this parity is complete; `of_cluster`: threads of other CTAs arrive as well."""
    emit = lowering.emit
    again = lowering.new_block()
    emit.insert(llvm.BrOp([], dest=again))
    emit.block = again
    if of_cluster:
        complete = emit.insert(nvvm.MBarrierTryWaitParityOp(mbarrier, parity, cluster=UnitAttr()))
    elif lowering.target.has("mbarrier_try_wait"):
        complete = emit.insert(nvvm.MBarrierTryWaitParityOp(mbarrier, parity))
    else:
        complete = emit.insert(nvvm.MBarrierTestWaitParityOp(mbarrier, parity))
    rest = lowering.new_block()
    emit.insert(llvm.CondBrOp(complete, [], [], trueDest=rest, falseDest=again))
    emit.block = rest
