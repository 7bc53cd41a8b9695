"""Operands that a loop over tiles loads once for each tile and that dots in its inner loops read, as attention
does with the rows of Q while its loop over keys runs.  Another agent loads them ahead, into a ring of the outer loop.

An agent that multiplies waits for the stage before the inner loops and releases it after them, by a commit, which
arrives once all dots that read the stage are complete.
"""

from __future__ import annotations

from collections.abc import Iterable

from tileiras.analysis.pipes import pipe_of
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.dialects.nv_tileas.pipes import ConsumerReleaseOp, ConsumerWaitOp, IncIterOp
from tileiras.ir import Operation
from tileiras.schedule.agents.slice import CannotSpecialize
from tileiras.schedule.dependence_graph import readers_of
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets.pipe_protocol import TENSOR_MEMORY


class HeldStages(NamedTuple):
    """The operations of threads on such rings: waits for stages, the copies by which dots read these, releases, and
    the steps of iterators to the next stage."""

    waits: list[ConsumerWaitOp]
    copies: list[tileas.CopyOp]
    releases: list[ConsumerReleaseOp]
    steps: list[IncIterOp]


def held_stages(
    inside: Iterable[Operation], loops: Iterable[scf.ForOp], copies: Iterable[tileas.CopyOp], agent_ops: set[Operation]
) -> HeldStages:
    """The operations among those `inside` a program that work on the rings which `copies` read for dots in `loops`.
    Those in `agent_ops` are left out: they leave the program with their loops.

    Raises CannotSpecialize where threads do something else with a stage of these rings.
    """
    pipes = {pipe: None for copy in copies if (pipe := tileas.pipe_of_buffer(copy.buffer)) is not None}
    result = HeldStages([], [], [], [])
    if not pipes:
        return result
    around = set(loops)
    buffers = {buffer for pipe in pipes for buffer in pipe.buffers}
    for op in inside:
        if op in agent_ops:
            continue
        if isinstance(op, tileas.CopyOp) and op.buffer in buffers:
            if not all(dot.parent_op in around for dot in readers_of(op)):
                raise CannotSpecialize(op, "agents.stage-read")
            result.copies.append(op)
        elif isinstance(op, ConsumerWaitOp) and pipe_of(op.token) in pipes:
            if not all(isinstance(user, ConsumerReleaseOp) for user in op.results[0].users):
                raise CannotSpecialize(op, "agents.stage-read")
            result.waits.append(op)
        elif isinstance(op, ConsumerReleaseOp) and pipe_of(op.token) in pipes:
            result.releases.append(op)
        elif isinstance(op, IncIterOp) and pipe_of(op.iterator) in pipes:
            result.steps.append(op)
    for pipe in pipes:
        if pipe.kinds[1] != TENSOR_MEMORY:
            raise CannotSpecialize(pipe, "agents.stage-held")
    return result
