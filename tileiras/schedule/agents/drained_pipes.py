"""Marks where an agent has drained a pipe, so that its own buffers can reuse the pipe's memory.

    consumer_release ...            ->    consumer_release ...
    tensor_memory.wait              ->    tensor_memory.wait
                                          consumer_tail %pipe

Agents fill as many stages of a pipe as others drain.  After the last stage that its only consumer has waited for, and
after the wait for the dots that read it, the memory of its stages is no longer accessed.
"""

from __future__ import annotations

from typing import Any

from tileiras.analysis.pipes import PipeUses, agent_of
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas.pipes import ConsumerTailOp, CreatePipelineOp
from tileiras.ir import Builder, Operation
from tileiras.targets.pipe_protocol import BOX_STORES, BY_DOTS

STORES = (tileas.TiledStoreOp, tileas.TiledAtomicRMWOp)


def say_where_pipes_are_drained(func: aa.FuncOp) -> None:
    """Puts `consumer_tail` after the last use of pipes whose consumer then stores tiles in boxes, in place."""
    uses = PipeUses(func)
    for pipe, operations in uses.pipes.items():
        filling, draining = uses.filling(pipe), uses.draining(pipe)
        if len(draining) != 1 or draining[0] is None or filling == draining:
            continue
        if not _lie_together(pipe):
            continue
        block = draining[0].block
        own = {block.find_ancestor_op(op) for op in operations if agent_of(op) is draining[0]}
        place = _behind_dots(pipe, [op for op in block.operations if op in own][-1])
        if place is not None and _stores_behind(place):
            builder = Builder.after(place)
            builder.location = place.location
            builder.insert(ConsumerTailOp(pipe.consumer))


def _lie_together(pipe: CreatePipelineOp) -> bool:
    """Whether the buffers of a pipe are contiguous in shared memory."""
    if not pipe.buffers or not all(isinstance(buffer.type, tileas.BufferType) for buffer in pipe.buffers):
        return False
    made = [buffer.defining_op for buffer in pipe.buffers]
    block: Any = made[0].parent  # type: ignore[union-attr]
    every = [op for op in block.operations if isinstance(op, tileas.AllocTensorOp)]
    first = every.index(made[0])
    return set(every[first : first + len(made)]) == set(made)


def _behind_dots(pipe: CreatePipelineOp, last: Operation) -> Operation | None:
    """The operation after which all stages have been read, given the wait `last` for the last of them; None if that is
    not known."""
    if pipe.kinds[1] == BOX_STORES:
        return None
    if pipe.kinds[1] not in BY_DOTS:
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
    agent = agent_of(op)
    top: Any = None if agent is None else agent.block.find_ancestor_op(op)
    most = 0
    while top is not None:
        if isinstance(top, ConsumerTailOp):
            most = max(most, sum(buffer.type.bytes for buffer in top.consumer.defining_op.buffers))
        top = top.prev
    return most
