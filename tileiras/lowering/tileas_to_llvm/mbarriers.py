"""Waiting for a phase of an mbarrier."""

from __future__ import annotations

from tileiras.dialects import llvm, nvvm
from tileiras.ir import Value

from .function import FunctionLowering


def wait_for_phase(mbarrier: Value, parity: Value, lowering: FunctionLowering) -> None:
    """Until the phase of this parity is complete."""
    emit = lowering.emit
    again = lowering.new_block()
    emit.insert(llvm.BrOp([], dest=again))
    emit.block = again
    kind = nvvm.MBarrierTryWaitParityOp if lowering.target.has("mbarrier_try_wait") else nvvm.MBarrierTestWaitParityOp
    complete = emit.insert(kind(mbarrier, parity))
    rest = lowering.new_block()
    emit.insert(llvm.CondBrOp(complete, [], [], trueDest=rest, falseDest=again))
    emit.block = rest
