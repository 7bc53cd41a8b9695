"""The agent of corrections: it rescales accumulators in tensor memory while other threads compute, as in attention.

    for %i ... {                         agent that computes           agent of corrections
      %f = factors of the rows             for %i ... {                  for %i ... {
      %p = exponentials                      %f = ...; write %f            producer_acquire
      producer_acquire                       %p = ...                      scale %o by %f, which is read
      scale %o by %f               ->        producer_acquire              producer_commit
      store %p                               store %p                    }
      producer_commit                        producer_commit
    }                                      }

The agent of dots waits for stages that an operand and an accumulator share.  Both agents of threads fill them: one
stores the operand, the other rescales the accumulator.  Factors of rows cross through shared memory, as soon as they
are computed; the accumulator itself crosses where the agent that computes has stored or loaded it outside of these
stages.  FlashAttention-4 has such an agent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileiras.analysis.pipes import pipe_of
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.dialects.nv_tileas.agents import AgentSwitchOp
from tileiras.dialects.nv_tileas.pipes import CreatePipelineOp
from tileiras.dialects.nv_tileas.tensor_memory import allocation_of
from tileiras.ir import Block, Builder, IntegerAttr, Operation, Value, i32
from tileiras.reasons import Reason
from tileiras.schedule.agents.channels import Channel, HandOver, TilePipe
from tileiras.schedule.agents.further import Further
from tileiras.schedule.agents.slice import AgentSlice, CannotSpecialize, hoist, tiles_that_cross
from tileiras.schedule.agents.split import Agent, AgentProgram, Remainder, split
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import Target
from tileiras.targets.pipe_protocol import OPERAND_STORES

from .dot import dot_shares

AT_ONCE = 32
"""Elements of a thread that the agent scales at a time."""
REGISTERS = 2 * AT_ONCE
"""Registers of a thread of the agent: of these elements, their factors and addresses; 64 to 88 in FlashAttention-4."""


class CorrectionPlan(NamedTuple):
    """The stages that the agent fills beside the one that computes, by their acquires, and their scales; the accesses
    of the latter after which accumulators cross; tiles that cross; and the operations that the agent repeats."""

    fills: dict[Operation, list[Any]]
    accesses: dict[Operation, CreatePipelineOp]
    tiles: list[Value]
    slice: AgentSlice


def scales_to_move(program: Block) -> list[Operation]:
    """The scales of accumulators that the rule chooses: those in loops."""
    inside = (op for outer in program.operations for op in outer.walk())
    return [op for op in inside if isinstance(op, tileas.TensorScaleOp) and tileas.pipe_of_buffer(op.buffer)]


def correction_agent(switch: AgentSwitchOp, func: aa.FuncOp, target: Target, scales: list[Any]) -> Further:
    """The agent of these scales of the first agent of a switch.  Raises CannotSpecialize, with the reason."""
    plan = _plan(switch, func, scales)
    warps = switch.warps(func.kernel_spec.num_warps)[0]
    shares = dot_shares(switch, func, 0, (warps, REGISTERS))
    said = Reason("agents.corrections-specialized", warps=warps)
    return Further(lambda: split(switch, _Corrections(switch, plan), 1), shares, said, scales[0], warps, 1)


def _plan(switch: AgentSwitchOp, func: aa.FuncOp, scales: list[Any]) -> CorrectionPlan:
    inside = [op for outer in switch.agents[0].operations for op in outer.walk()]
    pipes = {scale: tileas.pipe_of_buffer(scale.buffer) for scale in scales}
    for scale, pipe in pipes.items():
        if pipe is None or pipe.kinds[0] != OPERAND_STORES:
            raise CannotSpecialize(scale, "correction.no-agent-of-dots")
    fills: dict[Operation, list[Any]] = {}
    for op in inside:
        if isinstance(op, tileas.ProducerAcquireOp) and (pipe := pipe_of(op.token)) in pipes.values():
            (commit,) = (user for user in op.result.users if isinstance(user, tileas.ProducerCommitOp))
            own = [each for each in scales if pipes[each] is pipe and each.parent is op.parent]
            fills[op] = [each for each in own if op.is_before_in_block(each) and each.is_before_in_block(commit)]
    moved = {scale for own in fills.values() for scale in own}
    accesses = [op for op in inside if _accumulator(op) in {each.buffer for each in scales} and op not in scales]
    for op in (*scales, *accesses):
        around = [fill for fill in fills if op.parent is fill.parent]
        if op in scales and op not in moved or op in accesses and around:
            raise CannotSpecialize(op, "correction.beside-stage")
        if op in accesses and not all(op.parent.find_ancestor_op(fill) for fill in fills):
            raise CannotSpecialize(op, "correction.in-branch")
    tiles = list(dict.fromkeys(tile for scale in scales for tile in tiles_that_cross(scale.factor)))
    needed = AgentSlice(switch, set(func.body.blocks[0].operations))
    for acquire, own in fills.items():
        needed.take(acquire, [scale.factor for scale in own])
    crossing = {op: tileas.pipe_of_buffer(_accumulator(op)) for op in _last_ones(accesses, fills, inside)}
    for op in crossing:
        needed.take(op, [])
    for tile in tiles:
        if tile.defining_op is None:
            raise CannotSpecialize(scales[0], "correction.carried-factor")
        needed.take(tile.defining_op, [])
    needed.close()
    return CorrectionPlan(fills, crossing, tiles, needed)


def _accumulator(op: Operation) -> Value | None:
    """The buffer in tensor memory that threads access."""
    return allocation_of(op.buffer) if isinstance(op, (tileas.TensorLoadOp, tileas.TensorStoreOp)) else None


def _last_ones(accesses: list[Operation], fills: dict[Operation, Any], inside: list[Operation]) -> list[Operation]:
    """The accesses of the agent that computes that the agent of corrections may follow: all but those before another
    one of the same block, and those after which no stage is filled."""
    events = [op for op in inside if op in fills or op in accesses]
    found = []
    for op, *later in (events[number:] for number, op in enumerate(events) if op not in fills):
        again = any(loop.is_ancestor_of(fill) for loop in scf.loops_around(op) for fill in fills)
        is_followed = later and later[0] in accesses and later[0].parent is op.parent
        if not is_followed and (again or any(each in fills for each in later)):
            found.append(op)
    return found


class _Corrections(Agent[Any]):
    """The scales of a plan."""

    def __init__(self, switch: AgentSwitchOp, plan: CorrectionPlan) -> None:
        builder = Builder.before(switch)
        builder.location = switch.location
        self._fills = plan.fills
        filled = {op: pipe_of(op.token) for op in plan.fills}  # type: ignore[attr-defined]
        joined = {pipe: Channel.of(pipe) for pipe in filled.values()}
        self.joined = list(joined.values())
        groups = next(iter(joined)).num_groups
        handed = {pipe: HandOver(builder, pipe.num_groups) for pipe in plan.accesses.values()}
        self._tiles = [TilePipe(tile, builder, groups) for tile in plan.tiles]
        self._of: dict[Operation, list[Channel]] = {op: [joined[pipe]] for op, pipe in filled.items()}
        self._of.update((op, [handed[pipe]]) for op, pipe in plan.accesses.items())
        for pipe in self._tiles:
            self._of.setdefault(pipe.value.defining_op, []).append(pipe)
        super().__init__(plan.slice, [*handed.values(), *self._tiles])

    def fills(self, pipe: Channel) -> bool:
        return pipe in self.joined

    def of(self, op: Operation) -> Sequence[Channel]:
        return self._of.get(op, ())

    def takes(self, op: Operation) -> bool:
        return op in self._of

    def execute(
        self, op: Operation, program: AgentProgram[Channel], builder: Builder, at: dict[Channel, Value]
    ) -> None:
        for pipe in self._of[op]:
            if isinstance(pipe, TilePipe):
                program.values[pipe.value] = pipe.read(builder, at)
            elif isinstance(pipe, HandOver):
                pipe.signal(builder, at, False)
            else:
                token = pipe.begin(builder, at, True)
                for scale in self._fills[op]:
                    builder.insert(scale.clone(program.values)).attributes["at_once"] = IntegerAttr(AT_ONCE, i32)
                pipe.end(builder, token, at, True)

    # -- the agent that computes ---------------------------------------------------------------------------------------

    def begin(self, work: Block) -> None:
        for pipe in self._tiles:
            hoist(pipe.value.defining_op)

    def hands_over(self, op: Operation) -> bool:
        return op in self._of and op not in self._fills

    def hand_over(
        self, op: Operation, rest: Remainder[Channel], at: dict[Channel, Value], runs_once: bool
    ) -> None:
        builder = Builder.after(op)
        builder.location = op.location
        for pipe in self._of[op]:
            pipe.write(builder, at) if isinstance(pipe, TilePipe) else pipe.signal(builder, at, True)

    def end(self, work: Block) -> None:
        for acquire, scales in self._fills.items():
            for scale in scales:
                scale.erase()
            place = acquire.next
            while place is not None and not isinstance(place, (tileas.TensorStoreOp, tileas.ProducerCommitOp)):
                place = place.next
            acquire.parent.insert_before(acquire.detach(), place)
