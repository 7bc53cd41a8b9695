"""Pipes of a function: the pipe of a token or an iterator, and the agents that fill and drain it.

`errors.py` checks single operations on pipes, `model.py` their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tileiras.analysis.incoming import incoming
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.dialects.nv_tileas.agents import AgentSwitchOp
from tileiras.dialects.nv_tileas.bulk_copies import BulkLoadOp, BulkStoreOp, TmaLoadOp, TmaStoreStageOp
from tileiras.dialects.nv_tileas.pipes import (
    ConsumeOneOp,
    ConsumerReadOp,
    ConsumerReleaseOp,
    ConsumerWaitOp,
    CreatePipelineOp,
    IncIterOp,
    ProduceOneOp,
    ProducerAcquireOp,
    ProducerCommitOp,
    ProducerWriteOp,
)
from tileiras.ir import Operation, Region, Value
from tileiras.support.lazy import lazy_names
from tileiras.targets.pipe_protocol import PIPE_PROTOCOLS, PipeProtocol

Finding = tuple[Operation, str]

FILLS = (ProducerAcquireOp, ProduceOneOp)
DRAINS = (ConsumerWaitOp, ConsumeOneOp)
ON_TOKENS = (
    *FILLS, *DRAINS, ProducerCommitOp, ConsumerReleaseOp, ProducerWriteOp, ConsumerReadOp, BulkLoadOp, TmaLoadOp,
    BulkStoreOp, TmaStoreStageOp,
)  # fmt: skip


def sources(value: Value) -> list[Operation]:
    """The operations whose results a value may be, through loops and branches."""
    operations: dict[Operation, None] = {}
    seen = {value}
    pending = [value]
    while pending:
        current = pending.pop()
        carried = incoming(current)
        if carried is None:
            if current.defining_op is not None:
                operations[current.defining_op] = None
            continue
        for each in carried:
            if each.value not in seen:
                seen.add(each.value)
                pending.append(each.value)
    return list(operations)


def pipe_of(value: Value) -> CreatePipelineOp | None:
    """The pipe of a token or an iterator; None if it may belong to several."""
    operations: set[Operation] = set()
    seen: set[Value] = set()
    pending = [value]
    while pending:
        for op in sources(pending.pop()):
            before: Any = op.iterator if isinstance(op, IncIterOp) else getattr(op, "token", None)
            if isinstance(op, CreatePipelineOp):
                operations.add(op)
            elif before is not None and before not in seen:
                seen.add(before)
                pending.append(before)
    return operations.pop() if len(operations) == 1 else None  # type: ignore[return-value]


def agent_of(op: Operation) -> Region | None:
    """The region of the nearest agent around an operation; None for the kernel itself."""
    while op.parent_op is not None:
        if isinstance(op.parent_op, AgentSwitchOp):
            return op.parent.parent  # type: ignore[union-attr]
        op = op.parent_op
    return None


def is_last_pipe(op: Operation) -> bool:
    """Whether no other pipe is created before one is used."""
    current = op.next
    while current is not None and not isinstance(current, (AgentSwitchOp, *ON_TOKENS)):
        if isinstance(current, CreatePipelineOp):
            return False
        if current.regions:
            return True
        current = current.next
    return True


def is_held_by_dots(copy: Operation) -> bool:
    """Whether no stage is released between a read and the last dot behind it in its block."""
    released = False
    current = copy.next
    while current is not None:
        if released and isinstance(current, tileas.DOTS):
            return False
        released = released or isinstance(current, ConsumerReleaseOp)
        current = current.next
    return True


def is_held_until(copy: tileas.CopyOp, user: Operation) -> bool:
    """Whether no stage of the pipe from which `copy` reads is released before `user`, which follows in the same block.
    """
    current = copy.next
    while current is not None and current is not user:
        for op in current.walk():
            if isinstance(op, ConsumerReleaseOp) and copy.buffer in getattr(pipe_of(op.token), "buffers", ()):
                return False
        current = current.next
    return True


def protocol_of(pipe: CreatePipelineOp) -> PipeProtocol:
    return PIPE_PROTOCOLS[pipe.kinds]


def is_filled_alike(pipe: CreatePipelineOp, uses: PipeUses) -> bool:
    """Whether the CTAs that fill each other's stages of a pipe do so in all rounds or in no round: all fills have the
    same condition, which is not computed in a loop or branch."""
    conditions = {getattr(op, "together", None) for op in uses.pipes[pipe] if isinstance(op, FILLS)}
    if len(conditions) != 1:
        return False
    (condition,) = conditions
    around: Operation | None = None if condition is None else condition.parent_block.parent_op
    return not isinstance(around, (scf.ForOp, scf.WhileOp, scf.IfOp))


class PipeUses:
    """The operations on each pipe of a function, and their agents."""

    def __init__(self, func: Operation) -> None:
        self.pipes: dict[CreatePipelineOp, list[Any]] = {}
        self.strays: list[Operation] = []
        """Operations whose token belongs to no known pipe, or may belong to several."""
        self.buffers: dict[Value, CreatePipelineOp] = {}
        for op in func.walk():
            if isinstance(op, CreatePipelineOp):
                self.pipes[op] = []
                self.buffers.update(dict.fromkeys(op.buffers, op))
            elif isinstance(op, ON_TOKENS):
                pipe = pipe_of(op.token)
                if pipe is None:
                    self.strays.append(op)
                else:
                    self.pipes.setdefault(pipe, []).append(op)

    def filling(self, pipe: CreatePipelineOp) -> list[Region | None]:
        return _agents(op for op in self.pipes[pipe] if isinstance(op, FILLS))

    def draining(self, pipe: CreatePipelineOp) -> list[Region | None]:
        return _agents(op for op in self.pipes[pipe] if isinstance(op, DRAINS))


def _agents(operations: Iterator[Operation]) -> list[Region | None]:
    return list(dict.fromkeys(map(agent_of, operations)))


def is_multicast(op: Operation) -> bool:
    """Whether an operation copies to all CTAs of a cluster."""
    return isinstance(op, TmaLoadOp) and op.multicast is not None


__getattr__ = lazy_names(__name__, globals())
