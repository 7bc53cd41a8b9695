"""Two agents that compute take alternate tiles of a loop.

    for %tile ... {                  for %tile ... iter_args(%turn = 0, or 1 in the second agent) {
      for %k ... {                     if %turn == 0 {
        consumer_wait                    wait for the turn
        dot of the stage       ->        for %k ... { consumer_wait, dot of the stage, consumer_release }
        consumer_release                 end the turn
      }                                  tiled_store
      tiled_store                      } else { inc_iter by the trips of the loop over %k }
    }                                  yield 1 - %turn
                                     }

Both drain one ring, which the agent that loads fills in the order of tiles.  They run their loops over K in that order
too, by a pipe without a buffer that the first agent fills and the second one drains: without it one of them could wait
for a stage two rounds before that is filled, and an mbarrier distinguishes rounds by their parity alone.  The parts of
a round that fill stages for the agent that stores, or that tokens order after the round before, have turns of their
own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tileiras.analysis.function_pass import FunctionPass
from tileiras.diagnostics import DiagnosticEngine
from tileiras.diagnostics.remarks import Remark
from tileiras.dialects import arith, scf
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.arith.build import binary, compare, integer
from tileiras.dialects.nv_tileas import names
from tileiras.dialects.nv_tileas.agents import AgentSwitchOp
from tileiras.dialects.nv_tileas.pipes import CreatePipelineOp, PipelineIteratorType
from tileiras.ir import Block, Builder, Operation, Region, UnitAttr, Value, remove_dead_operations
from tileiras.reasons import Reason
from tileiras.resources.agent_registers import RegisterShares
from tileiras.resources.limits import LEAST_RESERVE
from tileiras.resources.registers import LiveRegisters
from tileiras.resources.shared_memory import MBARRIER_BYTES, bytes_in_use, shared_budget
from tileiras.schedule.strategy import Strategy
from tileiras.targets import Target
from tileiras.targets.pipe_protocol import STORES, THREADS
from tileiras.targets.sm import WARPGROUP

from .budget import Room, check_ctas, further_shares, give_warps, room_of
from .channels import Channel
from .rules.alternate_tiles import AlternatePlan, is_of_round, plan_alternate_tiles, tile_loops
from .slice import CannotSpecialize
from .split import AgentProgram, Part, first_stage, with_agents

if TYPE_CHECKING:
    from tileiras.ir.pass_manager import PassContext

GROUPS = 2


class PingPong(FunctionPass):
    """`nv_tile.aws.ping_pong` on a loop requests it; with `strategy={loads=by-rule}` a rule decides for dots of
    warpgroups."""

    name = "tileas-ping-pong"
    optional = True
    schedules = True
    requires = "SCHEDULED"
    needs = "agents with their warps; dots of warpgroups with their waits"
    establishes = "a second agent that computes, for every other tile, in loops over tiles"
    keeps = "values, other functions"

    strategy: Strategy = Strategy()

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        switches: list[Any] = [op for op in func.body.blocks[0].operations if op.name == names.AGENT_SWITCH]
        if len(switches) == 1:
            if alternate_tiles(switches[0], func, gpu, self.strategy.is_by_rule, context.engine) is not None:
                remove_dead_operations(func)


def alternate_tiles(
    switch: AgentSwitchOp, func: aa.FuncOp, target: Target, by_rule: bool = False,
    engine: DiagnosticEngine | None = None,
) -> AgentSwitchOp | None:  # fmt: skip
    """Has two agents that compute alternate in taking the tiles of a loop, in place, if `nv_tile.aws.ping_pong` on the
    loop requests it, or, with `by_rule`, if there is a gain.  Returns the new switch, None if absent; a remark gives
    the decision and the reason."""
    loops = tile_loops(switch.agents[0].block)
    result = any(tileas.PING_PONG in loop.attributes for loop in loops)
    if not result and not (by_rule and loops and _is_by_warpgroups(switch)):
        return None
    outside = set(func.body.blocks[0].operations)
    try:
        plan = plan_alternate_tiles(switch, switch.agents[0], outside)
        shares = _shares(switch, func, plan)
        bytes_before_and_after = _bytes_taken(switch, func, target)
        if not result:
            _check_gain(switch, func, target, plan, shares, bytes_before_and_after)
    except CannotSpecialize as error:
        for loop in loops:
            loop.attributes.pop(tileas.PING_PONG, None)
        if engine is not None:
            engine.emit(Remark(Reason("turns.tiles-together", cause=error.reason), error.op.location))
        return None
    location = plan.loop.location
    new = alternate(switch, plan, outside)
    assert new.num_warps is not None, "agents have their warps before"
    compute, *others = new.num_warps.elements
    give_warps(new, func, target, [compute] * GROUPS + others, shares, GROUPS)
    if engine is not None:
        reason = Reason("turns.tiles-alternate", agents=GROUPS, warps=func.kernel_spec.num_warps)
        engine.emit(Remark(reason, location))
    return new


def _is_by_warpgroups(switch: AgentSwitchOp) -> bool:
    """Whether dots of the first agent are those of warpgroups, which are in flight while threads continue."""
    return any(isinstance(op, tileas.AsyncDotOp) for outer in switch.agents[0].operations for op in outer.walk())


def _check_gain(
    switch: AgentSwitchOp, func: aa.FuncOp, target: Target, plan: AlternatePlan, shares: RegisterShares,
    bytes_before_and_after: tuple[int, int],
) -> None:  # fmt: skip
    """Raise CannotSpecialize where the rule of `auto` leaves all tiles to one agent: if there is one tile, or an SM
    would hold fewer CTAs, and one already computes under the dots of another.  `bytes_before_and_after`: of
    shared memory, now and with a second agent."""
    tiles = plan.loop.trip_count
    if tiles is not None and tiles < GROUPS:
        raise CannotSpecialize(plan.loop, "turns.one-tile")
    if func.kernel_spec.num_warps != WARPGROUP:
        raise CannotSpecialize(plan.loop, "turns.many-warps", warps=func.kernel_spec.num_warps)
    alone = room_of(func, target)._replace(bytes=bytes_before_and_after[0])
    check_ctas(switch, func, target, alone, Room(shares.warps, shares.entry, bytes_before_and_after[1]))


def _shares(switch: AgentSwitchOp, func: aa.FuncOp, plan: AlternatePlan) -> RegisterShares:
    """The registers of all agents with a second one that computes.  Raises CannotSpecialize where threads get too
    few."""
    compute = switch.warps(func.kernel_spec.num_warps)[0]
    if compute % WARPGROUP:
        raise CannotSpecialize(switch, "turns.part-of-warpgroup", warps=compute)
    # ptxas computes an epilogue of a few registers at a time, whose tiles as a whole do not fit.
    live = LiveRegisters()
    least_registers = LEAST_RESERVE + max(live.of_loop(run) for run in plan.runs)
    return further_shares(switch, func, compute * (GROUPS - 1), least_registers=least_registers)


def _bytes_taken(switch: AgentSwitchOp, func: aa.FuncOp, target: Target) -> tuple[int, int]:
    """The shared memory that a function takes at most, and with a second agent.  Raises CannotSpecialize where that is
    more than there is."""
    budget = shared_budget(func, target)
    most = bytes_in_use(func.body.blocks[0], budget) + MBARRIER_BYTES
    # The memory of the agents is in use at the same time.
    both = most + bytes_in_use(switch.agents[0].block, budget)
    if both > budget:
        raise CannotSpecialize(switch, "turns.shared-memory", bytes=both, budget=budget)
    return most, both


# ---- the agents ------------------------------------------------------------------------------------------------------


def alternate(switch: AgentSwitchOp, plan: AlternatePlan, outside: set[Operation]) -> AgentSwitchOp:
    """Has a second agent, beside the first one of a switch, take every other tile; returns the switch in the place of
    the one that is given."""
    builder = Builder.before(switch)
    builder.location = plan.loop.location
    orders = [Channel(builder, (), 1, (STORES, THREADS)) for _ in range(1 + (plan.ordered is not None))]
    for pipe in plan.pipes:
        pipe.attributes["by_turns"] = UnitAttr()
    plan.loop.attributes.pop(tileas.PING_PONG, None)
    for store in plan.stores:
        # The end of a turn publishes stores of threads to the next turn, but not boxes in flight.
        store.attributes.pop(tileas.AHEAD_ATOM, None)
    switch.agents[0].clone_into(second := Region(), {}, {})
    first, *others = switch.agents
    new = with_agents(switch, [GROUPS, *switch.num_agents_per_group.elements[1:]], [first, second, *others])
    for number in range(GROUPS):
        _Group(plan_alternate_tiles(new, new.agents[number], outside), number, orders).rewrite()
    return new


class _Group:
    """Rewrites the program of one of the agents, in place, to take every other tile."""

    def __init__(self, plan: AlternatePlan, number: int, orders: Sequence[Channel]) -> None:
        self._plan = plan
        self._fills = number == 0
        self._number = number
        self._orders = orders
        """The pipes by which the two take turns; the first agent fills them."""

    def rewrite(self) -> None:
        plan, builder = self._plan, Builder.before(self._plan.loop)
        builder.location = plan.loop.location
        begin = [integer(builder, self._number)]
        begin += [first_stage(builder, pipe, self._fills) for pipe in self._orders]
        self._own_tokens(builder)
        turn, *iterators = (plan.tile.add_argument(value.type, plan.loop.location) for value in begin)
        end: Any = plan.tile.last
        work = Block()
        for op in list(plan.tile.operations):
            if op is not end and op not in plan.slice.operations:
                work.append(op.detach())
        builder = Builder.before(end)
        builder.location = plan.loop.location
        own = compare(builder, "eq", turn, integer(builder, 0))
        other = binary(builder, arith.XOrIOp, turn, integer(builder, 1))
        branch = builder.insert(self._branch(own, work, end, iterators))
        results = iter(branch.results)
        carried = [next(results) if is_of_round(value) else value for value in end.operands]
        end.operands = (*carried, other, *results)
        plan.loop.replace_with_additional_yields(begin)

    def _own_tokens(self, builder: Builder) -> None:
        """Order the operations that both agents compute in each round by a token from before the loop: no access of a
        round orders them."""
        none: Value | None = None
        for op in (op for op in self._plan.tile.operations if op in self._plan.slice.operations):
            for inner in op.walk():
                for number, value in enumerate(inner.operands):
                    if isinstance(value.type, aa.MemTokenType):
                        none = none or builder.insert(tileas.CreateMemTokenOp(result=aa.MemTokenType())).results[0]
                        inner.operands = (*inner.operands[:number], none, *inner.operands[number + 1 :])

    def _branch(self, own: Value, work: Block, end: Any, iterators: list[Value]) -> scf.IfOp:
        """The branch between a round of the agent itself, which is `work`, and one of the other agent, in which only
        iterators move on."""
        plan = self._plan
        carried = [(number, value) for number, value in enumerate(end.operands) if is_of_round(value)]
        at: dict[CreatePipelineOp, Value] = {}
        for number, value in carried:
            if isinstance(value.type, PipelineIteratorType):
                at[plan.iterators[value]] = plan.loop.iter_args[number]
        other = Block()
        AgentProgram(_Passing(plan)).clone(work, Builder.at_end(other, plan.loop.location), at)
        turns = self._take_turns(iterators)
        ends = [at[plan.iterators[value]] if isinstance(value.type, PipelineIteratorType) else plan.loop.iter_args[n]
                for n, value in carried]  # fmt: skip
        for block, values in ((work, [*(value for _, value in carried), *turns]), (other, [*ends, *iterators])):
            Builder.at_end(block, plan.loop.location).insert(scf.YieldOp.create(values))
        types = [*(value.type for _, value in carried), *(value.type for value in iterators)]
        return scf.IfOp.create((own,), types, {}, (Region([work]), Region([other])), location=plan.loop.location)

    def _take_turns(self, iterators: Sequence[Value]) -> list[Value]:
        """Insert a wait for the turn before each part of a round that has turns, and the end of the turn after it;
        return the iterators of the next turns."""
        plan = self._plan
        spans = [plan.dots, *([] if plan.ordered is None else [plan.ordered])]
        at: dict[Channel, Value] = dict(zip(self._orders, iterators))
        for (first, last), pipe in zip(spans, self._orders):
            builder, behind = Builder.before(first), Builder.after(last)
            builder.location = behind.location = first.location
            pipe.end(behind, pipe.begin(builder, at, self._fills), at, self._fills)
        return list(at.values())


class _Passing(Part[CreatePipelineOp]):
    """The operations of an agent in a round of the other one: it only advances its iterators."""

    def __init__(self, plan: AlternatePlan) -> None:
        super().__init__(plan.slice)
        self._plan = plan

    def of(self, op: Operation) -> Sequence[CreatePipelineOp]:
        return [self._plan.iterators[op.iterator]] if isinstance(op, tileas.IncIterOp) else ()

    def takes(self, op: Operation) -> bool:
        return op in self._plan.runs or isinstance(op, tileas.IncIterOp)

    def execute(
        self, op: Operation, program: AgentProgram[CreatePipelineOp], builder: Builder,
        at: dict[CreatePipelineOp, Value],
    ) -> None:  # fmt: skip
        if isinstance(op, tileas.IncIterOp):
            pipe = self._plan.iterators[op.iterator]
            at[pipe] = builder.insert(tileas.IncIterOp(at[pipe])).results[0]
            return
        assert isinstance(op, scf.ForOp)
        trips = _count(op, program, builder)
        for pipe, stages in self._plan.runs[op].items():
            count = trips
            if stages != 1:
                count = binary(builder, arith.MulIOp, trips, integer(builder, stages, trips.type))
            at[pipe] = builder.insert(tileas.IncIterOp(at[pipe], count)).results[0]


def _count(loop: scf.ForOp, program: AgentProgram[CreatePipelineOp], builder: Builder) -> Value:
    """The trip count of a loop."""
    lower, upper, step = (program.value(value) for value in (loop.lower_bound, loop.upper_bound, loop.step))
    # The unsigned difference is exact for bounds of either sign.
    distance = binary(builder, arith.SubIOp, upper, lower)
    trips = binary(builder, arith.CeilDivUIOp, distance, step)
    runs = compare(builder, "slt" if loop.unsignedCmp is None else "ult", lower, upper)
    none = integer(builder, 0, trips.type)
    return builder.insert(arith.SelectOp(runs, trips, none)).results[0]
