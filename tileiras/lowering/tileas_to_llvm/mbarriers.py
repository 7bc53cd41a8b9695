"""Waiting for a phase of an mbarrier, and arrivals of dots."""

from __future__ import annotations

from tileiras.dialects import llvm, nvvm
from tileiras.ir import UnitAttr, Value, i16

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


def arrive_behind_dots(mbarrier: Value, pair: bool, lowering: FunctionLowering) -> None:
    """The thread arrives once the dots that it has issued are complete, of a pair at the mbarriers of both CTAs."""
    emit = lowering.emit
    if not pair:
        emit.insert(nvvm.Tcgen05CommitOp(mbarrier))
        return
    ranks = emit.integer(0b11)
    if lowering.num_ctas > 2:
        ranks = emit.insert(llvm.ShlOp(ranks, emit.register("cluster.ctarank")))
    emit.insert(nvvm.Tcgen05CommitMulticastOp(mbarrier, emit.insert(llvm.TruncOp(ranks, res=i16))))
