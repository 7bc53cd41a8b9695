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
from typing import Any

from tileiras.dialects import arith, scf
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.arith.build import binary, compare, integer
from tileiras.dialects.nv_tileas.agents import AgentSwitchOp
from tileiras.dialects.nv_tileas.pipes import CreatePipelineOp, PipelineIteratorType
from tileiras.ir import Block, Builder, DenseArrayAttr, Operation, Region, UnitAttr, Value, i32
from tileiras.schedule.agents.channels import create_pipe
from tileiras.schedule.agents.rules.alternate_tiles import AlternatePlan, is_of_round, plan_alternate_tiles
from tileiras.schedule.agents.split import AgentProgram
from tileiras.targets.pipe_protocol import STORES, THREADS

GROUPS = 2


def alternate(switch: AgentSwitchOp, plan: AlternatePlan, outside: set[Operation]) -> AgentSwitchOp:
    """Has a second agent, beside the first one of a switch, take every other tile; returns the switch in the place of
    the one that is given."""
    builder = Builder.before(switch)
    builder.location = plan.loop.location
    orders = [create_pipe(builder, (), 1, STORES, THREADS) for _ in range(1 + (plan.ordered is not None))]
    for pipe in plan.pipes:
        pipe.attributes["by_turns"] = UnitAttr()
    plan.loop.attributes.pop(tileas.PING_PONG, None)
    for store in plan.stores:
        # The end of a turn publishes stores of threads to the next turn, but not boxes in flight.
        store.attributes.pop(tileas.AHEAD_ATOM, None)
    switch.agents[0].clone_into(second := Region(), {}, {})
    regions = [Region().take_blocks(region) for region in switch.agents]
    attributes = dict(switch.attributes)
    counts = switch.num_agents_per_group.elements
    attributes["num_agents_per_group"] = DenseArrayAttr(i32, [GROUPS, *counts[1:]])
    new = AgentSwitchOp.create((), (), attributes, [regions[0], second, *regions[1:]], location=switch.location)
    switch.parent.insert_before(new, switch)
    switch.erase()
    for number in range(GROUPS):
        _Group(plan_alternate_tiles(new, new.agents[number], outside), number, orders).rewrite()
    return new


class _Group:
    """Rewrites the program of one of the agents, in place, to take every other tile."""

    def __init__(self, plan: AlternatePlan, number: int, orders: Sequence[Sequence[Value]]) -> None:
        self._plan = plan
        self._number = number
        self._orders = [ends[number] for ends in orders]
        """This agent's ends of the pipes by which the two take turns."""

    def rewrite(self) -> None:
        plan, builder = self._plan, Builder.before(self._plan.loop)
        builder.location = plan.loop.location
        begin = [integer(builder, self._number)]
        begin += [builder.insert(tileas.CreateIteratorOp(end)).results[0] for end in self._orders]
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
        """Orders the operations that both agents compute in each round by a token from before the loop: no access of a
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
        _Passing(plan).pass_by(work, other, at)
        taken = self._take_turns(iterators)
        left = [at[plan.iterators[value]] if isinstance(value.type, PipelineIteratorType) else plan.loop.iter_args[n]
                for n, value in carried]  # fmt: skip
        for block, values in ((work, [*(value for _, value in carried), *taken]), (other, [*left, *iterators])):
            Builder.at_end(block, plan.loop.location).insert(scf.YieldOp.create(values))
        types = [*(value.type for _, value in carried), *(value.type for value in iterators)]
        return scf.IfOp.create((own,), types, {}, (Region([work]), Region([other])), location=plan.loop.location)

    def _take_turns(self, iterators: Sequence[Value]) -> list[Value]:
        """Inserts a wait for the turn before each part of a round that has turns, and the end of the turn after it;
        returns the iterators of the next turns."""
        plan = self._plan
        spans = [plan.dots, *([] if plan.ordered is None else [plan.ordered])]
        following = []
        for (first, last), end, at in zip(spans, self._orders, iterators):
            builder, behind = Builder.before(first), Builder.after(last)
            builder.location = behind.location = first.location
            begins, ends = (
                (tileas.ConsumerWaitOp, tileas.ConsumerReleaseOp) if self._number
                else (tileas.ProducerAcquireOp, tileas.ProducerCommitOp)
            )  # fmt: skip
            token = builder.insert(begins(end, at)).results[0]
            behind.insert(ends(token))
            following.append(behind.insert(tileas.IncIterOp(at)).results[0])
        return following


class _Passing(AgentProgram[CreatePipelineOp]):
    """Writes the program of an agent in a round of the other one: it only advances its iterators."""

    def __init__(self, plan: AlternatePlan) -> None:
        super().__init__(plan.slice)
        self._plan = plan

    def pass_by(self, work: Block, block: Block, at: dict[CreatePipelineOp, Value]) -> None:
        """Fills a block with the remaining operations of `work`; advances the iterators."""
        builder = Builder.at_end(block)
        builder.location = self._plan.loop.location
        none = builder.insert(tileas.CreateMemTokenOp(result=aa.MemTokenType()))
        self._token = none.results[0]
        self._block(work, builder, at)
        if not self._token.has_uses:
            none.erase()

    def _is_own(self, op: Operation) -> bool:
        return op in self._plan.runs or isinstance(op, tileas.IncIterOp)

    def _inside(self, op: Operation) -> list[CreatePipelineOp]:
        found = (inner for inner in op.walk() if isinstance(inner, tileas.IncIterOp))
        return list(dict.fromkeys(self._plan.iterators[inner.iterator] for inner in found))

    def _do(self, op: Operation, builder: Builder, at: dict[CreatePipelineOp, Value]) -> None:
        if isinstance(op, tileas.IncIterOp):
            pipe = self._plan.iterators[op.iterator]
            at[pipe] = builder.insert(tileas.IncIterOp(at[pipe])).results[0]
            return
        assert isinstance(op, scf.ForOp)
        trips = self._count(op, builder)
        for pipe, stages in self._plan.runs[op].items():
            count = trips
            if stages != 1:
                count = binary(builder, arith.MulIOp, trips, integer(builder, stages, trips.type))
            at[pipe] = builder.insert(tileas.IncIterOp(at[pipe], count)).results[0]

    def _count(self, loop: scf.ForOp, builder: Builder) -> Value:
        """How often a loop runs."""
        lower, upper, step = (self._of(value) for value in (loop.lower_bound, loop.upper_bound, loop.step))
        # The unsigned difference is exact for bounds of either sign.
        distance = binary(builder, arith.SubIOp, upper, lower)
        trips = binary(builder, arith.CeilDivUIOp, distance, step)
        runs = compare(builder, "slt" if loop.unsignedCmp is None else "ult", lower, upper)
        none = integer(builder, 0, trips.type)
        return builder.insert(arith.SelectOp(runs, trips, none)).results[0]
