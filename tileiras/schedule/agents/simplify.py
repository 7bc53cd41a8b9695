"""Simplification of pipes: waits and signals that other operations make superfluous, and memory that is free again.

Stages that a barrier of the CTA shows to be empty take no wait to acquire and no arrival to release:

    scf.for ... {                                       scf.for ... {
      consumer_release %held                              consumer_release %held {known}
      %full = consumer_wait ...                           %full = consumer_wait ...
      barrier id = 0                             ->       barrier id = 0
      if a later iteration exists {                       if a later iteration exists {
        %empty = producer_acquire %p, %i                    %empty = producer_acquire %p, %i {known}
        tma_load ... into %empty                            tma_load ... into %empty

A ring of boxes beside one that threads copy has such a barrier in each iteration: all warps have released a stage
before the barrier, and one thread fills that stage after it.  Threads that have loaded from it still execute their
fence between their reads and the writes of the asynchronous proxy.

Where an agent has drained a pipe, its own buffers can reuse the pipe's memory:

    consumer_release ...            ->    consumer_release ...
    tensor_memory.wait              ->    tensor_memory.wait
                                          consumer_tail %pipe

Agents fill as many stages of a pipe as others drain.  After the last stage that its only consumer has waited for, and
after the wait for the dots that read it, the memory of its stages is no longer accessed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileiras import analysis, dialects, targets
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.dialects.nv_tileas import names
from tileiras.ir import Builder, Operation, UnitAttr

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.dialects.nv_tileas.pipes import CreatePipelineOp

# ---- stages known to be empty ----------------------------------------------------------------------------------------


def know_empty_stages(func: aa.FuncOp) -> None:
    """Mark acquires and releases of such stages `known`, in place, in a function of nv_tileas with its barriers."""
    pipes = [op for op in func.body.blocks[0].operations if op.name == names.CREATE_PIPELINE]
    if not pipes:
        return
    ends: dict[Operation | None, list[Operation]] = {}
    for op in func.walk():
        if isinstance(op, (dialects.nv_tileas.pipes.ProducerAcquireOp, dialects.nv_tileas.pipes.ConsumerReleaseOp)):
            ends.setdefault(analysis.pipes.pipe_of(op.token), []).append(op)
    for pipe in pipes:
        protocol = analysis.pipes.protocol_of(pipe)
        of_threads = protocol.empty != "agent" and not protocol.fills_by_commit
        if pipe.ctas is not None or pipe.groups is not None or not of_threads:
            continue
        own = ends.get(pipe, [])
        acquires = [op for op in own if isinstance(op, dialects.nv_tileas.pipes.ProducerAcquireOp) and op.fresh is None]
        releases = [op for op in own if isinstance(op, dialects.nv_tileas.pipes.ConsumerReleaseOp) and op.last is None]
        if acquires and _are_apart(releases, acquires):
            for op in (*acquires, *releases):
                op.attributes["known"] = UnitAttr()


def _are_apart(releases: list[Operation], acquires: list[Operation]) -> bool:
    """Whether the releases and the acquires of a pipe are in one loop of the function, and a barrier of the whole CTA
    stands between the former and the latter in each iteration."""
    loop = _loop_around(acquires[0])
    if loop is None or any(_loop_around(op) is not loop for op in (*releases, *acquires)):
        return False
    block = loop.body.block
    places = {op: number for number, op in enumerate(block.operations)}
    barriers = [at for op, at in places.items() if isinstance(op, tileas.BarrierOp) and op.threads is None]
    last = max((places[block.find_ancestor_op(op)] for op in releases), default=0)
    first = min(places[block.find_ancestor_op(op)] for op in acquires)
    return any(last < at < first for at in barriers)


def _loop_around(op: Operation) -> scf.ForOp | None:
    """The innermost loop around an operation, branches apart, if it is one with a counter and not an agent's."""
    around = op.parent_op
    while isinstance(around, scf.IfOp):
        around = around.parent_op
    return around if isinstance(around, scf.ForOp) and analysis.pipes.agent_of(around) is None else None


# ---- drained pipes ---------------------------------------------------------------------------------------------------

STORES = (tileas.TiledStoreOp, tileas.TiledAtomicRMWOp)


def say_where_pipes_are_drained(func: aa.FuncOp) -> None:
    """Put `consumer_tail` after the last use of pipes whose consumer then stores tiles in boxes, in place."""
    uses = analysis.pipes.PipeUses(func)
    for pipe, operations in uses.pipes.items():
        filling, draining = uses.filling(pipe), uses.draining(pipe)
        if len(draining) != 1 or draining[0] is None or filling == draining:
            continue
        if not _lie_together(pipe):
            continue
        block = draining[0].block
        own = {block.find_ancestor_op(op) for op in operations if analysis.pipes.agent_of(op) is draining[0]}
        place = _behind_dots(pipe, [op for op in block.operations if op in own][-1])
        if place is not None and _stores_behind(place):
            builder = Builder.after(place)
            builder.location = place.location
            builder.insert(dialects.nv_tileas.pipes.ConsumerTailOp(pipe.consumer))


def _lie_together(pipe: CreatePipelineOp) -> bool:
    """Whether the buffers of a pipe are contiguous in shared memory."""
    if not pipe.buffers or not all(isinstance(buffer.type, tileas.BufferType) for buffer in pipe.buffers):
        return False
    result = [buffer.defining_op for buffer in pipe.buffers]
    block: Any = result[0].parent  # type: ignore[union-attr]
    every = [op for op in block.operations if isinstance(op, tileas.AllocTensorOp)]
    first = every.index(result[0])
    return set(every[first : first + len(result)]) == set(result)


def _behind_dots(pipe: CreatePipelineOp, last: Operation) -> Operation | None:
    """The operation after which all stages have been read, given the wait `last` for the last of them; None if that is
    not known."""
    if pipe.kinds[1] == targets.pipe_protocol.BOX_STORES:
        return None
    if pipe.kinds[1] not in targets.pipe_protocol.BY_DOTS:
        return last
    op: Any = last.next
    while op is not None and not (isinstance(op, tileas.TensorWaitOp) and op.pending.value == 0):
        op = op.next
    return op


def _stores_behind(place: Operation) -> bool:
    op = place.next
    while op is not None:
        if any(isinstance(inner, STORES) and tileas.AHEAD_ATOM in inner.attributes for inner in op.walk()):
            return True
        op = op.next
    return False


def drained_bytes(op: Operation) -> int:
    """Most bytes of the buffers of a pipe that the agent around an operation has drained before it; 0 for none."""
    agent = analysis.pipes.agent_of(op)
    top: Any = None if agent is None else agent.block.find_ancestor_op(op)
    most = 0
    while top is not None:
        if isinstance(top, dialects.nv_tileas.pipes.ConsumerTailOp):
            most = max(most, sum(buffer.type.bytes for buffer in top.consumer.defining_op.buffers))
        top = top.prev
    return most
