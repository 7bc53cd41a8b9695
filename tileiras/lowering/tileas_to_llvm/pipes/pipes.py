"""Pipes: mbarriers in the arena, and the instructions by which agents wait for stages and hand them over.

The emitted code follows the row of `targets/pipe_protocol.py`.  An iterator is a pair of a stage and a parity, a token
its stage.  The mbarriers of a pipe are, in this order: those of full stages, those of empty stages, and, where CTAs of
a cluster fill each other's stages or fill them alone, those of stages that are empty in all CTAs.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from tileiras.analysis.agents import agent_warps
from tileiras.analysis.pipes import (
    DRAINS,
    FILLS,
    PipeUses,
    agent_of,
    is_filled_alike,
    pipe_of,
    protocol_of,
)
from tileiras.dialects import llvm
from tileiras.dialects.nv_tileas.bulk_copies import OnBuffer, OnToken
from tileiras.dialects.nv_tileas.pipes import (
    ConsumerReleaseOp,
    ConsumerTailOp,
    ConsumerWaitOp,
    CreateIteratorOp,
    CreatePipelineOp,
    DestroyPipelineOp,
    GetStageOp,
    IncIterOp,
    ProducerAcquireOp,
    ProducerCommitOp,
    ProducerTailOp,
)
from tileiras.dialects.nv_tileas.thread import THREAD
from tileiras.ir import IntegerAttr, Operation, StringAttr, UnitAttr, Value, VerifyError, i1, i32
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets.pipe_protocol import COMMIT, EXPECT, NOINC, PipeProtocol

from ..emit.emitter import FULL_WARP
from ..emit.function import FunctionLowering
from ..tensor_core.warpgroup_dot import WARP_BITS, uniform_warp
from .agents import by_thread_of_pair, copies_for_others, elected, in_first_of_pair
from .mbarriers import arrive_behind_dots, is_fenced, wait_for_phase

BYTES = CreatePipelineOp.MBARRIER_BYTES


class Pipe(NamedTuple):
    """The addresses of the mbarriers of a pipe, and its protocol."""

    base: Value
    stages: int
    protocol: PipeProtocol
    op: CreatePipelineOp
    is_filled_alike: bool
    """For CTAs that may fill their stages alone: whether they do so in all rounds or in none."""

    def full(self, stage: Value, group: IntegerAttr | None, lowering: FunctionLowering) -> Value:
        """The mbarrier of a full stage: of the group of warps that an operation names, or of the thread's own group."""
        emit = lowering.emit
        return emit.gep(self.base, emit.mul(self._place(stage, group, lowering), BYTES))

    def empty(self, stage: Value, group: IntegerAttr | None, lowering: FunctionLowering) -> Value:
        return lowering.emit.gep(self.full(stage, group, lowering), BYTES * self.stages * self.op.num_groups)

    def free(self, stage: Value, lowering: FunctionLowering) -> Value:
        """The mbarrier of a stage that CTAs of a cluster fill together or alone: it is empty in all of them."""
        return lowering.emit.gep(self.full(stage, None, lowering), 2 * BYTES * self.stages)

    def _place(self, stage: Value, group: IntegerAttr | None, lowering: FunctionLowering) -> Value:
        """The number of a stage's mbarrier among those of its kind: those of the first group of warps come first."""
        emit = lowering.emit
        if self.op.groups is None:
            return stage
        number = emit.lshr(uniform_warp(lowering), WARP_BITS) if group is None else group.value
        return emit.value(emit.add(stage, emit.mul(number, self.stages)))


def create_pipeline(op: CreatePipelineOp, args: Sequence[Any], lowering: FunctionLowering) -> list[Value]:
    """Has one thread initialise the mbarriers; a barrier after the last pipe makes them visible to the others."""
    emit = lowering.emit
    protocol, stages = protocol_of(op), op.num_stages.value
    base = lowering.buffer(op)
    uses = PipeUses(lowering.func)
    fillers, drainers = (_warps(uses, op, kinds, lowering) for kinds in (FILLS, DRAINS))
    if op.by_turns is not None:
        fillers, drainers = fillers[:1], drainers[:1]  # all have as many
    full = sum(protocol.full_count(warps // op.num_groups) for warps in fillers)
    empty = sum(protocol.empty_count(warps // op.num_groups) for warps in drainers)
    lowering.pipes[op] = Pipe(base, stages, protocol, op, is_filled_alike(op, uses))
    freed = emit.integer(empty * (op.num_ctas if op.is_freed_by_all else 1))
    together = copies_for_others(lowering) if op.is_freed_by_all else None
    if together is not None:
        freed = emit.select(together, freed, emit.integer(empty))
    counts = [emit.integer(full), freed, *([] if op.alone is None else [emit.integer(op.num_ctas)])]
    if all(isinstance(use, ProducerAcquireOp) and _is_empty(use) for use in _waits_until_empty(uses, op)):
        del counts[1:]
    with elected(lowering, first_thread(lowering)):
        places = stages * op.num_groups
        for count, start in zip(counts, range(0, op.mbarrier_bytes, BYTES * places)):
            for stage in range(places):
                emit.insert(THREAD["mbarrier.init"](emit.gep(base, start + BYTES * stage), count))
        if is_fenced(op):
            emit.insert(THREAD["fence.mbarrier_init"]())
    return [emit.integer(0), emit.integer(0)]


def _waits_until_empty(uses: PipeUses, pipe: CreatePipelineOp) -> list[Operation]:
    tails = [user for user in pipe.producer.users if isinstance(user, ProducerTailOp)]
    return [*(use for use in uses.pipes[pipe] if isinstance(use, FILLS)), *tails]


def _is_empty(acquire: ProducerAcquireOp) -> bool:
    """Whether the stage is known to be empty, so that no wait is needed."""
    return acquire.fresh is not None or acquire.known is not None


def destroy_pipeline(op: DestroyPipelineOp, args: Sequence[Any], lowering: FunctionLowering) -> None:
    """A place is no mbarrier when another one is made there (PTX ISA, "mbarrier.inval")."""
    emit, pipe = lowering.emit, lowering.pipes[op.producer.defining_op]
    with elected(lowering, first_thread(lowering)):
        for number in range(2 * pipe.stages * pipe.op.num_groups):
            emit.insert(THREAD["mbarrier.inval"](emit.gep(pipe.base, BYTES * number)))


def _warps(
    uses: PipeUses, pipe: CreatePipelineOp, kinds: tuple[type[Operation], ...], lowering: FunctionLowering
) -> list[int]:
    """The warps of each agent that has operations of these kinds on a pipe."""
    agents = uses.filling(pipe) if kinds is FILLS else uses.draining(pipe)
    if not agents:
        raise VerifyError("expects agents that fill it, and others that drain it")
    first = {agent: next(op for op in uses.pipes[pipe] if isinstance(op, kinds) and agent_of(op) is agent)
             for agent in agents}  # fmt: skip
    return [agent_warps(op, lowering.func) for op in first.values()]


# ---- iterators -------------------------------------------------------------------------------------------------------


def create_iterator(op: CreateIteratorOp, args: Sequence[Any], lowering: FunctionLowering) -> Value:
    emit = lowering.emit
    return emit.build([emit.integer(0), emit.integer(0)])


def inc_iter(op: IncIterOp, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    pipe = pipe_of(op.iterator)
    if pipe is None:
        raise VerifyError("expects an iterator of one pipe, which is known here")
    stages = pipe.num_stages.value
    return _following(args[0], stages, lowering) if op.by is None else _further(args[0], args[1], stages, lowering)


def _further(iterator: Value, count: Value, stages: int, lowering: FunctionLowering) -> Value:
    """The iterator advanced by an unsigned number of stages, of `stages`."""
    emit, type = lowering.emit, count.type
    stage, parity = _stage(iterator, lowering), _parity(iterator, lowering)
    rounds = emit.insert(llvm.UDivOp(count, emit.integer(stages, type)))
    rest = emit.sub(count, emit.mul(rounds, stages, type), type)
    if type is not i32:
        rounds, rest = (emit.insert(llvm.TruncOp(each, result=i32)) for each in (rounds, rest))
    stage_and_rest = emit.value(emit.add(stage, rest))
    wraps = emit.icmp("uge", stage_and_rest, emit.integer(stages))
    within = emit.select(wraps, emit.value(emit.sub(stage_and_rest, stages)), stage_and_rest)
    turns = emit.and_(emit.value(emit.xor(rounds, emit.zext(wraps, i32))), 1)
    return emit.build([within, emit.value(emit.xor(parity, turns))])


def _following(iterator: Value, stages: int, lowering: FunctionLowering) -> Value:
    """The iterator at the next of `stages` stages."""
    emit = lowering.emit
    stage, parity = _stage(iterator, lowering), _parity(iterator, lowering)
    following = emit.value(emit.add(stage, 1))
    wraps = emit.icmp("eq", following, emit.integer(stages))
    first = emit.select(wraps, emit.integer(0), following)
    turned = emit.value(emit.xor(parity, emit.zext(wraps, i32)))
    return emit.build([first, turned])


def get_stage(op: GetStageOp, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    return _stage(args[0], lowering)


def _stage(iterator: Value, lowering: FunctionLowering) -> Value:
    return lowering.emit.extract(iterator, 0)


def _parity(iterator: Value, lowering: FunctionLowering) -> Value:
    return lowering.emit.extract(iterator, 1)


# ---- waiting and arriving --------------------------------------------------------------------------------------------


def pipe_on(op: OnToken, lowering: FunctionLowering) -> Pipe:
    entry = lowering.pipes.get(pipe_of(op.token))
    if entry is None:
        raise VerifyError("expects an end of one pipe, which is known here")
    return entry


def _arrive(mbarrier: Value, lowering: FunctionLowering) -> None:
    lowering.emit.insert(THREAD["mbarrier.arrive"](mbarrier))


def _by_warps(
    mbarrier: Value, signal: str, lowering: FunctionLowering, of_both: bool = False, ctas: int = 1
) -> None:  # fmt: skip
    """One arrival for each warp, once all of its threads are here; `of_both`: of warps of both CTAs of a pair, at the
    mbarrier of that of even rank; `ctas`: at the mbarriers of as many CTAs."""
    emit = lowering.emit
    if signal == "warp":
        emit.insert(THREAD["warp.barrier"](emit.integer(FULL_WARP)))
    with elected(lowering, emit.thread_is_elected(31, 0)):
        if of_both:
            _fence_cluster(lowering)
            first = emit.and_(emit.register("cluster.ctarank"), ~1)
            emit.insert(THREAD["mbarrier.arrive.cluster"](mbarrier, emit.value(first)))
        else:
            _arrive_at_all(mbarrier, ctas, lowering)


def _arrive_at_all(mbarrier: Value, ctas: int, lowering: FunctionLowering) -> None:
    """Arrive at the mbarrier of an empty stage in all CTAs that fill it, a power of two of them, or in the own one if
    there is no cluster.

    No data is handed over: the CTA whose copy overwrites the stage reads nothing that this one has written. The reads
    are complete (`wgmma.wait_group`; values of loads, behind `fence.proxy.async`) before the arrival, a release at the
    scope of this CTA, in whose memory they are; the copy is issued after the wait that has observed it.  CUTLASS
    arrives in this way (`ClusterBarrier::arrive(cta_id)` of `PipelineTmaAsync::consumer_release`), the reference
    compiler too.  A release at the scope of the cluster is a `MEMBAR` of the whole GPU in ptxas 13.5's machine code,
    and an acquire there invalidates L1.
    """
    _arrive(mbarrier, lowering)
    if ctas == 1:
        return
    emit = lowering.emit
    with elected(lowering, copies_for_others(lowering)):
        for distance in range(1, ctas):
            other = emit.value(emit.xor(emit.register("cluster.ctarank"), distance))
            emit.insert(THREAD["mbarrier.arrive.cluster"](mbarrier, other, reads=UnitAttr()))


def first_thread(lowering: FunctionLowering) -> Value | None:
    return lowering.emit.thread_is_elected(*lowering.thread_masks)


def _fence(here: str, pipe: Pipe, lowering: FunctionLowering) -> None:
    if pipe.protocol.fence == here:
        lowering.emit.insert(THREAD["fence.proxy.async.shared"]())


def producer_acquire(op: ProducerAcquireOp, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    pipe = pipe_on(op, lowering)
    together = None if op.together is None else lowering.value(op.together)
    return acquire(pipe, args[1], lowering, op.group, _is_empty(op), together)


def acquire(
    pipe: Pipe, iterator: Value, lowering: FunctionLowering, group: IntegerAttr | None = None, is_empty: bool = False,
    together: Value | None = None,
) -> Value:  # fmt: skip
    """Wait until the stage of an iterator is empty, where CTAs may fill stages alone in all of them if `together`
    holds, and return it."""
    emit = lowering.emit
    stage = _stage(iterator, lowering)
    # The first round finds the phase before the first one complete.
    parity = emit.value(emit.xor(_parity(iterator, lowering), 1))
    # Only the thread that arrives may wait: others are not waited for, and could fall behind by a round.
    with _filling(pipe, lowering) if pipe.protocol.is_filled_by_one_thread else nullcontext():
        if not is_empty:
            _wait_until_empty(pipe, stage, group, parity, lowering)
        if pipe.op.alone is not None:
            _wait_for_cluster(pipe, stage, _parity(iterator, lowering), together, lowering)
        if pipe.protocol.is_in_tensor_memory and not is_empty:
            emit.insert(THREAD["tcgen05.fence.after"]())  # of the loads, or dots, of those that have released it
        elif pipe.protocol.counts_bytes:
            pair = pipe.protocol.is_of_pair
            size = emit.integer(pipe.op.stage_bytes * (2 if pair else 1))
            with elected(lowering, in_first_of_pair(lowering) if pair else None):
                emit.insert(THREAD["mbarrier.arrive.expect_tx"](pipe.full(stage, None, lowering), size))
    return stage


def _filling(pipe: Pipe, lowering: FunctionLowering) -> AbstractContextManager[None]:
    """Context: the emitted code is executed by the thread that fills stages; for dots of a pair, by that of one CTA."""
    return by_thread_of_pair(lowering, pipe.protocol.is_of_pair and pipe.protocol.fills_by_commit)


def _wait_until_empty(
    pipe: Pipe, stage: Value, group: IntegerAttr | None, parity: Value, lowering: FunctionLowering
) -> None:
    wait_for_phase(pipe.empty(stage, group, lowering), parity, lowering, pipe.protocol.is_freed_by_both)


def _wait_for_cluster(
    pipe: Pipe, stage: Value, parity: Value, together: Value | None, lowering: FunctionLowering
) -> None:
    """Wait, where `together` holds, until the stage is empty in all CTAs, whose producers signal each other.

    Consumers do not know which rounds the CTAs fill together, nor which the others have: they release the stages that
    they have read to their producer, which passes that on to the other CTAs.  No CTA ends before the others have
    arrived at its mbarriers, since it waits for them in each round that they fill together.

    In a round that a CTA fills alone it arrives at its own mbarrier on behalf of all, without a wait, so that the
    mbarrier is in the phase of the round: arrivals of the next round that is filled together may come earlier, and only
    add up. If all rounds are filled alike, these arrivals are not needed.
    """
    emit = lowering.emit
    with elected(lowering, copies_for_others(lowering)):
        free = pipe.free(stage, lowering)
        with elected(lowering, together):
            _arrive_at_all(free, pipe.op.num_ctas, lowering)
            wait_for_phase(free, parity, lowering)
        if together is not None and not pipe.is_filled_alike:
            with elected(lowering, emit.value(emit.xor(together, emit.integer(1, i1), i1))):
                for _ in range(pipe.op.num_ctas):
                    _arrive(free, lowering)


def _fence_cluster(lowering: FunctionLowering) -> None:
    """Release, with this thread's next arrival in another CTA, its warp's writes and those released to it."""
    ordering, scope = llvm.AtomicOrderingAttr("acq_rel"), StringAttr("cluster")
    lowering.emit.insert(llvm.FenceOp(ordering=ordering, syncscope=scope))


def producer_tail(op: ProducerTailOp, args: Sequence[Value], lowering: FunctionLowering) -> None:
    emit, pipe = lowering.emit, lowering.pipes[op.producer.defining_op]
    with _filling(pipe, lowering) if pipe.protocol.is_filled_by_one_thread else nullcontext():
        at = args[1]
        for number in range(pipe.stages):
            # Threads release stages in turn: the last release implies the others.  Commits may arrive in any order.
            if number + 1 == pipe.stages or not pipe.protocol.is_freed_by_both:
                parity = emit.value(emit.xor(_parity(at, lowering), 1))
                _wait_until_empty(pipe, _stage(at, lowering), op.group, parity, lowering)
            at = _following(at, pipe.stages, lowering)
        if pipe.protocol.is_stored:
            emit.insert(THREAD["tcgen05.fence.after"]())  # of the dots whose accumulators threads load


def consumer_tail(op: ConsumerTailOp, args: Sequence[Value], lowering: FunctionLowering) -> None:
    """No code: the operation was used when the agent's buffers were placed."""


def producer_commit(op: ProducerCommitOp, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    commit(pipe_on(op, lowering), args[0], lowering, op.group)
    return lowering.emit.integer(0)


def commit(pipe: Pipe, stage: Value, lowering: FunctionLowering, group: IntegerAttr | None = None) -> None:
    signal = pipe.protocol.full_signal
    if signal == EXPECT:
        return  # said when the stage was acquired
    full = pipe.full(stage, group, lowering)
    if signal == NOINC:
        lowering.emit.insert(THREAD["mbarrier.arrive.copies"](full))
        return
    if signal == COMMIT:
        with _filling(pipe, lowering):
            arrive_behind_dots(full, pipe.protocol.is_of_pair, lowering)
        return
    _fence("before commit", pipe, lowering)
    if pipe.protocol.is_stored:
        lowering.emit.insert(THREAD["tcgen05.fence.before"]())
    _by_warps(full, pipe.protocol.full, lowering)


def consumer_wait(op: ConsumerWaitOp, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    return wait(pipe_on(op, lowering), args[1], lowering, op.group)


def wait(pipe: Pipe, iterator: Value, lowering: FunctionLowering, group: IntegerAttr | None = None) -> Value:
    stage, parity = _stage(iterator, lowering), _parity(iterator, lowering)
    alone = pipe.protocol.empty == "agent"
    with by_thread_of_pair(lowering, pipe.protocol.is_of_pair) if alone else nullcontext():
        wait_for_phase(pipe.full(stage, group, lowering), parity, lowering)
        _fence("behind wait", pipe, lowering)
        if pipe.protocol.is_in_tensor_memory:
            lowering.emit.insert(THREAD["tcgen05.fence.after"]())
    return stage


def consumer_release(op: ConsumerReleaseOp, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    if op.known is not None:
        _fence("before release", pipe_on(op, lowering), lowering)
    elif op.last is None:
        release(pipe_on(op, lowering), args[0], lowering, op.group)
    return lowering.emit.integer(0)


def release(pipe: Pipe, stage: Value, lowering: FunctionLowering, group: IntegerAttr | None = None) -> None:
    emit = lowering.emit
    mbarrier = pipe.empty(stage, group, lowering)
    ctas = pipe.op.num_ctas if pipe.op.is_freed_by_all else 1
    if pipe.protocol.empty == "agent":
        with by_thread_of_pair(lowering, pipe.protocol.is_of_pair):
            if pipe.protocol.frees_by_commit:
                arrive_behind_dots(mbarrier, pipe.protocol.is_of_pair, lowering, ctas)
                return
            emit.insert(THREAD["tma.create_group"]())
            emit.insert(THREAD["tma.wait_group"](numGroups=IntegerAttr(0, i32), read=UnitAttr()))
            _arrive_at_all(mbarrier, ctas, lowering)
        return
    _fence("before release", pipe, lowering)
    if pipe.protocol.is_in_tensor_memory:
        emit.insert(THREAD["tcgen05.fence.before"]())
    _by_warps(mbarrier, pipe.protocol.empty, lowering, pipe.protocol.is_freed_by_both, ctas)


def number_of_buffer(op: OnBuffer) -> int:
    return 0 if op.buffer is None else op.buffer.value
