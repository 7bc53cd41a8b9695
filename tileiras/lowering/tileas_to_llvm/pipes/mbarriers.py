"""Showing mbarriers to the asynchronous proxy, waiting for a phase of one, and arrivals of dots."""

from __future__ import annotations

from tileiras.analysis.pipes import ON_TOKENS
from tileiras.dialects import llvm
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas.thread import THREAD
from tileiras.ir import Operation, UnitAttr, Value, i16
from tileiras.targets.pipe_protocol import PIPE_PROTOCOLS

from ..emit.function import FunctionLowering
from .agents import copies_for_others


def is_fenced(op: tileas.CreatePipelineOp | tileas.TensorReserveOp) -> bool:
    """Whether `fence.mbarrier_init` has to follow an operation that initialises mbarriers.

    The asynchronous proxy counts bytes or arrives at some of those that are initialised here, and the same thread
    initialises no others before one of them is used: a fence after those serves all.
    """
    following = op.next
    while following is not None and not following.regions and not isinstance(following, _USES):
        if _has_mbarriers(following):
            return False
        following = following.next
    before: Operation | None = op
    while before is not None and (before is op or not (before.regions or isinstance(before, _USES))):
        if _is_signalled_asynchronously(before):
            return True
        before = before.prev
    return False


_USES = (*ON_TOKENS, tileas.TensorCommitOp)


def _has_mbarriers(op: Operation) -> bool:
    return isinstance(op, tileas.CreatePipelineOp) or isinstance(op, tileas.TensorReserveOp) and op.commits.value > 0


def _is_signalled_asynchronously(op: Operation) -> bool:
    if isinstance(op, tileas.CreatePipelineOp):
        protocol = PIPE_PROTOCOLS[op.kinds]
        return protocol.counts_bytes or protocol.fills_by_commit or protocol.frees_by_commit
    return isinstance(op, tileas.TensorReserveOp) and op.commits.value > 0


def wait_for_phase(mbarrier: Value, parity: Value, lowering: FunctionLowering, of_cluster: bool = False) -> None:
    """Until the phase of this parity is complete; `of_cluster`: threads of other CTAs arrive as well."""
    emit = lowering.emit
    again = lowering.new_block()
    emit.insert(llvm.BrOp([], dest=again))
    emit.block = again
    complete = emit.insert(THREAD["mbarrier.wait"](mbarrier, parity, cluster=UnitAttr() if of_cluster else None))
    rest = lowering.new_block()
    emit.insert(llvm.CondBrOp(complete, [], [], trueDest=rest, falseDest=again))
    emit.block = rest


def arrive_behind_dots(mbarrier: Value, pair: bool, lowering: FunctionLowering, ctas: int = 1) -> None:
    """The thread arrives once the dots that it has issued are complete, of a pair at the mbarriers of both CTAs, else
    at those of the `ctas` CTAs of its cluster that fill each other's stages."""
    emit = lowering.emit
    if not pair and ctas == 1:
        emit.insert(THREAD["tcgen05.commit"](mbarrier))
        return
    own = emit.register("cluster.ctarank")
    if not pair:
        ranks: Value = emit.integer((1 << ctas) - 1)
        together = copies_for_others(lowering)
        if together is not None:
            ranks = emit.select(together, ranks, emit.insert(llvm.ShlOp(emit.integer(1), own)))
    else:
        ranks = emit.integer(0b11)
        if lowering.num_ctas > 2:
            ranks = emit.insert(llvm.ShlOp(ranks, own))
    mask = emit.insert(llvm.TruncOp(ranks, res=i16))
    emit.insert(THREAD["tcgen05.commit.multicast"](mbarrier, mask, pair=UnitAttr() if pair else None))
