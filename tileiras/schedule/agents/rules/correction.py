"""The agent of corrections: it rescales accumulators in tensor memory while other threads compute, as in attention.

    for %i ... {                         agent that computes           agent of corrections
      %f = factors of the rows             for %i ... {                  for %i ... {
      %p = exponentials                      %f = ...; write %f            read %f
      producer_acquire                       %p = ...                      producer_acquire
      scale %o by %f               ->        producer_acquire              scale %o by %f
      store %p                               store %p                      producer_commit
      producer_commit                        producer_commit             }
    }                                      }

The agent of dots waits for a stage that an operand and an accumulator share, and both agents of threads fill it: one
stores the operand, the other rescales the accumulator meanwhile.  FlashAttention-4 has such an agent.
"""

from __future__ import annotations

from typing import Any

from tileiras.analysis.pipes import pipe_of
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas.agents import AgentSwitchOp
from tileiras.dialects.nv_tileas.tensor_memory import allocation_of
from tileiras.ir import Block, Builder, IntegerAttr, Operation, i32
from tileiras.reasons import Reason
from tileiras.resources.shared_memory import MBARRIER_BYTES, shared_budget
from tileiras.schedule.agents.budget import ctas_of, room_of
from tileiras.schedule.agents.crossing import AgentBeside, TilePipe, places_of_crossing, tiles_that_cross
from tileiras.schedule.agents.further import Further
from tileiras.schedule.agents.slice import AgentSlice, CannotSpecialize
from tileiras.schedule.agents.split import split
from tileiras.targets import Target
from tileiras.targets.pipe_protocol import OPERAND_STORES

from .dot import dot_shares

AT_ONCE = 32
"""Elements of a thread that the agent scales at a time: with 16, dots wait longer for it."""

REGISTERS = 64
"""Registers of a thread of the agent, 64 to 88 in FlashAttention-4.  With 80 the warps that compute get 16 fewer, and
attention of 128x64x128 takes 40.6 us instead of 39.1; with 64 ptxas 13.5 spills two registers of some kernels."""

MOST_COLUMNS = 64
"""Most columns of an operand beside which the rule moves scales: with more, the computation of an iteration takes so
long that by our estimates the gain is within the uncertainty, or less than the cost of the further warps."""


def scales_to_move(program: Block, func: aa.FuncOp, target: Target) -> list[Operation]:
    """The scales that the rule chooses: all of those of accumulators at least as large as the operands that threads
    compute beside them.  Raises CannotSpecialize where these take longer, or other CTAs compute meanwhile."""
    inside = [op for outer in program.operations for op in outer.walk()]
    scales = [op for op in inside if isinstance(op, tileas.TensorScaleOp)]
    for scale in scales:
        for buffer in _pipe(scale).buffers:
            columns, most = buffer.type.tile.shape[-1], min(MOST_COLUMNS, scale.buffer.type.tile.shape[-1])
            if buffer is not scale.buffer and columns > most:
                raise CannotSpecialize(scale, "chained.scaled-at-long-intervals", columns=columns, most=most)
        if (ctas := ctas_of(func, target)) > 1:
            raise CannotSpecialize(scale, "chained.scaled-beside-ctas", ctas=ctas)
    return list(scales)


def correction_agent(switch: AgentSwitchOp, func: aa.FuncOp, target: Target, scales: list[Any]) -> Further:
    """The agent of these scales of the first agent of a switch.  Raises CannotSpecialize, with the reason."""
    agent = _agent(switch, func, scales)
    warps = switch.warps(func.kernel_spec.num_warps)[0]
    shares = dot_shares(switch, func, 0, (warps, REGISTERS))
    _check_room(switch, func, target, scales)
    for scale in scales:
        scale.attributes["at_once"] = IntegerAttr(AT_ONCE, i32)
    reason = Reason("agents.corrections-specialized", warps=warps)
    return Further(lambda: split(switch, agent(), 1), shares, reason, switch, warps, 1)


def _pipe(scale: Any) -> Any:
    """The pipe of an accumulator and an operand that threads compute."""
    pipe = tileas.pipe_of_buffer(scale.buffer)
    if pipe is None or pipe.kinds[0] != OPERAND_STORES:
        raise CannotSpecialize(scale, "chained.scaled-before-own-dots")
    return pipe


def _agent(switch: AgentSwitchOp, func: aa.FuncOp, scales: list[Any]) -> Any:
    """The agent, which is created when called.  Raises CannotSpecialize, with the reason."""
    inside = [op for outer in switch.agents[0].operations for op in outer.walk()]
    pipes = {scale.buffer: _pipe(scale) for scale in scales}
    fills: dict[Any, list[Any]] = {}
    for op in inside:
        if isinstance(op, tileas.ProducerAcquireOp) and (pipe := pipe_of(op.token)) in pipes.values():
            commit = next(user for user in op.result.users if isinstance(user, tileas.ProducerCommitOp))
            own = [each for each in scales if pipes[each.buffer] is pipe and each.parent is op.parent is commit.parent]
            fills[op] = [each for each in own if op.is_before_in_block(each) and each.is_before_in_block(commit)]
    of_agent = {scale for own in fills.values() for scale in own}
    accesses: dict[Operation, Any] = {}
    for op in inside:
        if isinstance(op, (tileas.TensorLoadOp, tileas.TensorScaleOp, tileas.TensorStoreOp)) and op not in of_agent:
            buffer: Any = allocation_of(op.buffer)
            if buffer in pipes and (op in scales or any(op.parent is fill.parent for fill in fills)):
                raise CannotSpecialize(op, "chained.scaled-beside-others")
            if buffer in pipes and not all(op.parent.find_ancestor_op(fill) for fill in fills):  # type: ignore[union-attr]
                raise CannotSpecialize(op, "chained.scaled-in-branch")
            accesses.update({op: pipes[buffer]} if buffer in pipes else {})
    crossing = {op: accesses[op] for op in places_of_crossing(accesses, fills, inside)}
    tiles = list(dict.fromkeys(tile for scale in scales for tile in tiles_that_cross(scale.factor)))
    if any(tile.defining_op is None for tile in tiles):
        raise CannotSpecialize(scales[0], "chained.scaled-by-carried")
    agent_slice = AgentSlice(switch, set(func.body.blocks[0].operations))
    for acquire, own in fills.items():
        agent_slice.take(acquire, [scale.factor for scale in own])
    for op in (*crossing, *(tile.defining_op for tile in tiles)):
        agent_slice.take(op, [])  # type: ignore[arg-type]
    agent_slice.close()
    return lambda: AgentBeside(Builder.before(switch), agent_slice, fills, crossing, tiles)


def _check_room(place: Operation, func: aa.FuncOp, target: Target, scales: list[Any]) -> None:
    """Raise CannotSpecialize where shared memory does not hold the factors."""
    budget, before = shared_budget(func, target), room_of(func, target).bytes
    tiles = {tile for scale in scales for tile in tiles_that_cross(scale.factor)}
    after = before + MBARRIER_BYTES + sum(TilePipe.buffer_type(tile).bytes for tile in tiles)
    if after > budget:
        raise CannotSpecialize(place, "agents.store-shared-memory", bytes=after, budget=budget)
