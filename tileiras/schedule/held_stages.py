"""Stages of rings of a loop over tiles that are read by products in nested loops: for example an operand of attention
that stays the same while the loop over keys runs, and that another agent loads ahead for the next tile.

An agent that multiplies waits for such a stage before its loops and releases it after them, by a commit, which arrives
once all products that read the stage are complete.
"""

from __future__ import annotations

from collections.abc import Iterable

from tileiras.analysis.pipes import pipe_of
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.dialects.nv_tileas.pipes import ConsumerReleaseOp, ConsumerWaitOp, CreatePipelineOp, IncIterOp
from tileiras.ir import Operation, Value
from tileiras.layout.encoding import is_in_shared
from tileiras.named_tuple import NamedTuple
from tileiras.targets.pipe_protocol import TENSOR_MEMORY

from .producer_slice import NotSeparable


class HeldStages(NamedTuple):
    """The threads' operations on stages of rings of enclosing loops: the waits for stages, the copies through which
    products read these, their releases, and the increments of iterators."""

    waits: list[ConsumerWaitOp]
    copies: list[tileas.CopyOp]
    releases: list[ConsumerReleaseOp]
    steps: list[IncIterOp]


def held_stages(
    inside: Iterable[Operation], loops: Iterable[scf.ForOp], copies: Iterable[tileas.CopyOp], moved: set[Operation]
) -> HeldStages:
    """The stages that `copies`, which products in `loops` read, belong to, among the operations of a program;
    operations in `moved` leave with these loops anyway.  Raises NotSeparable where threads do something else with the
    stages."""
    pipes = {pipe for copy in copies if (pipe := ring_of(copy.buffer)) is not None}
    found = HeldStages([], [], [], [])
    if not pipes:
        return found
    around = set(loops)
    buffers = {buffer for pipe in pipes for buffer in pipe.buffers}
    for op in inside:
        if op in moved:
            continue
        if isinstance(op, tileas.CopyOp) and op.buffer in buffers:
            if not all(isinstance(dot.parent_op, scf.ForOp) and dot.parent_op in around for dot in _readers(op)):
                raise NotSeparable(op, "threads read a stage of a ring of a loop around")
            found.copies.append(op)
        elif isinstance(op, ConsumerWaitOp) and pipe_of(op.token) in pipes:
            if not all(isinstance(user, ConsumerReleaseOp) for user in op.results[0].users):
                raise NotSeparable(op, "threads read a stage of a ring of a loop around")
            found.waits.append(op)
        elif isinstance(op, ConsumerReleaseOp) and pipe_of(op.token) in pipes:
            found.releases.append(op)
        elif isinstance(op, IncIterOp) and pipe_of(op.iterator) in pipes:
            found.steps.append(op)
    for pipe in pipes:
        if pipe.kinds[1] != TENSOR_MEMORY:
            raise NotSeparable(pipe, "threads hold the stage of an operand")
    return found


def ring_of(buffer: Value) -> CreatePipelineOp | None:
    """The pipe to whose stages a buffer belongs."""
    return next((user for user in buffer.users if isinstance(user, CreatePipelineOp)), None)


def _readers(copy: Operation) -> list[Operation]:
    """The readers of the tile of a copy in place, view-like operations apart; the copy itself where its result is in
    registers."""
    result: Value = copy.results[0]
    if not is_in_shared(result.type):
        return [copy]
    found: list[Operation] = []
    for user in result.users:
        found += _readers(user) if isinstance(user, tileas.VIEW_LIKE) else [user]
    return found
