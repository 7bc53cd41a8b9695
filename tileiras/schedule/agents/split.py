"""The split of a program into agents, the same for every kind of agent.

    program                  agent that computes          new agent
    for %i ... {               for %i ... {                 for %i ... {
      %a = address                                            %a = address
      store %x, %a      ->       acquire; write %x; commit    wait; copy to %a; release
      %y = ...                   %y = ...
    }                          }                            }

The program is cloned without the operations that the new agent does not need (`slice.py`), and its operations are
erased from the first agent.  `Agent` gives the form that an operation takes in either program: the ends of pipes.  An
iterator for each pipe is carried through the loops and branches of both programs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from tileiras.dialects import arith, scf
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.arith.build import binary, integer
from tileiras.dialects.nv_tileas.agents import AgentSwitchOp, YieldOp
from tileiras.ir import Block, Builder, DenseArrayAttr, Operation, Region, Value, i32

from .slice import AgentSlice, is_inside

Pipe = TypeVar("Pipe")


class Part(ABC, Generic[Pipe]):
    """The operations of a program that another one executes in a form of its own, and their pipes."""

    def __init__(self, slice: AgentSlice) -> None:
        self.slice = slice

    @abstractmethod
    def of(self, op: Operation) -> Sequence[Pipe]:
        """The pipes that an operation itself uses, without those of operations in it."""

    def inside(self, op: Operation) -> list[Pipe]:
        """The pipes that an operation and those in it use, in order."""
        return list(dict.fromkeys(pipe for inner in op.walk() for pipe in self.of(inner)))

    @abstractmethod
    def takes(self, op: Operation) -> bool:
        """Whether an operation takes another form."""

    @abstractmethod
    def execute(self, op: Operation, program: AgentProgram[Pipe], builder: Builder, at: dict[Pipe, Value]) -> None:
        """Emit that form; advance the iterators."""

    def before(self, loop: scf.ForOp, program: AgentProgram[Pipe], builder: Builder) -> None:
        """Emit operations before the copy of a loop."""

    def trips(self, loop: scf.ForOp) -> Value | None:
        """Trip count of the copy of a loop with step 1; None if it is that of the loop."""
        return None


class Agent(Part[Pipe]):
    """The operations that an agent takes over, and the pipes between it and the agent that had them."""

    def __init__(self, slice: AgentSlice, pipes: Sequence[Pipe]) -> None:
        super().__init__(slice)
        self.pipes = list(pipes)

    joined: Sequence[Pipe] = ()
    """Pipes of the agent that had the operations, whose stages both fill from now on."""

    def fills(self, pipe: Pipe) -> bool:
        """Whether the agent fills the stages of a pipe; it drains them otherwise."""
        return True

    def between(self, op: Operation) -> list[Pipe]:
        """The pipes between both agents that an operation and those in it use."""
        return [pipe for pipe in self.inside(op) if pipe not in self.joined]

    def finish(self, builder: Builder, at: dict[Pipe, Value]) -> None:
        """Append the agent's last operations; its iterators are at the stages that it would use next."""

    # -- the other agent -----------------------------------------------------------------------------------------------

    def begin(self, work: Block) -> None:
        """Prepare the program of the other agent."""

    def hands_over(self, op: Operation) -> bool:
        """Whether an operation of the other agent takes another form."""
        return bool(self.of(op))

    @abstractmethod
    def hand_over(self, op: Any, rest: Remainder[Pipe], at: dict[Pipe, Value], runs_once: bool) -> None:
        """Give the operation that form, in place; advances the iterators.  `runs_once`: outside of all loops."""

    def end(self, work: Block) -> None:
        """Complete the program of the other agent."""


def split(switch: AgentSwitchOp, agent: Agent[Any], place: int | None = None) -> AgentSwitchOp:
    """Move the operations of an agent from the first agent of a switch to a further one of as many warps, the last one
    unless `place` gives its number; return the switch that replaces the given one."""
    work = switch.agents[0].block
    program = _program_beside(work, agent)
    Remainder(agent).rewrite(work)
    Builder.at_end(program, switch.location).insert(YieldOp.create(()))
    counts = [*switch.num_agents_per_group.elements, 1]
    agents = list(switch.agents)
    agents.insert(len(agents) if place is None else place, Region([program]))
    return with_agents(switch, counts, agents)


def with_agents(switch: AgentSwitchOp, counts: Sequence[int], agents: Sequence[Region]) -> AgentSwitchOp:
    """The switch that replaces one, with these agents; `counts`: agents of each group."""
    regions = [Region().take_blocks(region) for region in agents]
    attributes = {**switch.attributes, "num_agents_per_group": DenseArrayAttr(i32, counts)}
    new = AgentSwitchOp.create((), (), attributes, regions, location=switch.location)
    switch.parent.insert_before(new, switch)
    switch.erase()
    return new


# ---- the new agent ---------------------------------------------------------------------------------------------------


def _program_beside(work: Block, agent: Agent[Any]) -> Block:
    """The program of an agent that runs beside `work`."""
    block = Block()
    builder = Builder.at_end(block)
    pipes = sorted((*agent.pipes, *agent.joined), key=agent.fills, reverse=True)
    at = {pipe: first_stage(builder, pipe, agent.fills(pipe)) for pipe in pipes}
    AgentProgram(agent).clone(work, builder, at)
    agent.finish(builder, at)
    return block


def first_stage(builder: Builder, pipe: Any, fills: bool) -> Value:
    """The iterator at the first stage of an end of a pipe."""
    return builder.insert(tileas.CreateIteratorOp(pipe.producer if fills else pipe.consumer)).results[0]


class AgentProgram(Generic[Pipe]):
    """A clone of a program without the operations that an agent does not need."""

    def __init__(self, part: Part[Pipe]) -> None:
        self._agent = part
        self._slice = part.slice
        self.values: dict[Value, Value] = {}
        """Value of the other program -> value of the agent."""

    def clone(self, work: Block, builder: Builder, at: dict[Pipe, Value]) -> None:
        """Emit the operations of a block; advances the iterators."""
        none = builder.insert(tileas.CreateMemTokenOp(result=aa.MemTokenType()))
        self._token = none.results[0]
        self._block(work, builder, at)
        if not self._token.has_uses:
            none.erase()

    def value(self, value: Value) -> Value:
        """The agent's counterpart of a value."""
        return self.values.get(value, value)

    def _block(self, block: Block, builder: Builder, at: dict[Pipe, Value]) -> None:
        """Emit the operations of a block except its terminator, as far as the agent executes them."""
        for op in block.operations:
            builder.location = op.location
            if self._agent.takes(op):
                self._agent.execute(op, self, builder, at)
            elif op in self._slice.around:
                _CONTROL_FLOW[type(op)](self, op, builder, at)
            elif op in self._slice.operations:
                self.repeat(op, builder)

    def repeat(self, op: Operation, builder: Builder) -> None:
        """Clone an operation, without the tokens that order it."""
        for inner in op.walk():
            for value in inner.operands:
                if isinstance(value.type, aa.MemTokenType) and not is_inside(value, op):
                    self.values[value] = self._token
            if isinstance(inner, scf.ForOp):
                inner.attributes.setdefault(tileas.LOOP_SCHEDULE, tileas.LoopScheduleAttr(tileas.SERIAL, 1))
        builder.insert(op.clone(self.values))

    # -- control flow --------------------------------------------------------------------------------------------------

    def _loop(self, loop: scf.ForOp, builder: Builder, at: dict[Pipe, Value]) -> None:
        self._agent.before(loop, self, builder)
        pipes, numbers = self._agent.inside(loop), sorted(self._slice.handed_on[loop])
        inits = [*(self.value(loop.init_args[n]) for n in numbers), *(at[pipe] for pipe in pipes)]
        bounds = [self.value(value) for value in (loop.lower_bound, loop.upper_bound, loop.step)]
        begin, trips = bounds[0], self._agent.trips(loop)
        body = Block([begin.type, *(value.type for value in inits)])
        counter: Value = body.arguments[0]
        if trips is not None:
            bounds = [integer(builder, 0, begin.type), trips, bounds[2]]
            counter = binary(Builder.at_end(body, loop.location), arith.AddIOp, begin, counter)
        self.values[loop.induction_variable] = counter
        carried = body.arguments[1:]
        self.values.update(zip((loop.iter_args[n] for n in numbers), carried))
        self._end(loop.body.block, body, numbers, pipes, dict(zip(pipes, carried[len(numbers) :])))
        new = serial_loop(loop, bounds, inits, body, counts_as=trips is None)
        self._passed_on(loop, builder.insert(new), numbers, pipes, at)

    def _while(self, loop: scf.WhileOp, builder: Builder, at: dict[Pipe, Value]) -> None:
        """A loop without a counter: the agent repeats the condition and its operands."""
        pipes = self._agent.inside(loop)
        init_numbers, results = sorted(self._slice.begun_with[loop]), sorted(self._slice.handed_on[loop])
        inits = [*(self.value(loop.inits[n]) for n in init_numbers), *(at[pipe] for pipe in pipes)]
        before = Block([value.type for value in inits])
        old: Any = loop.before.block
        self.values.update(zip((old.arguments[n] for n in init_numbers), before.arguments))
        inner = dict(zip(pipes, before.arguments[len(init_numbers) :]))
        first = Builder.at_end(before)
        self._block(old, first, inner)
        first.location = old.last.location
        values = [*(self.value(old.last.args[n]) for n in results), *(inner[pipe] for pipe in pipes)]
        first.insert(scf.ConditionOp(self.value(old.last.condition), values))
        after = Block([value.type for value in values])
        self.values.update(zip((loop.after.block.arguments[n] for n in results), after.arguments))
        self._end(loop.after.block, after, init_numbers, pipes, dict(zip(pipes, after.arguments[len(results) :])))
        types, regions = [value.type for value in values], (Region([before]), Region([after]))
        new = scf.WhileOp.create(inits, types, {}, regions, location=loop.location)
        self._passed_on(loop, builder.insert(new), results, pipes, at)

    def _branch(self, branch: scf.IfOp, builder: Builder, at: dict[Pipe, Value]) -> None:
        pipes, numbers = self._agent.inside(branch), sorted(self._slice.handed_on[branch])
        regions = []
        for region in branch.regions:
            body = Block()
            self._end(region.blocks[0] if region.blocks else None, body, numbers, pipes, dict(at))
            regions.append(Region([body]))
        types = [*(branch.results[n].type for n in numbers), *(at[pipe].type for pipe in pipes)]
        new = scf.IfOp.create((self.value(branch.condition),), types, {}, regions, location=branch.location)
        self._passed_on(branch, builder.insert(new), numbers, pipes, at)

    def _end(
        self, old: Block | None, new: Block, numbers: Sequence[int], pipes: Sequence[Pipe], at: dict[Pipe, Value]
    ) -> None:
        """Fill a block of a loop or branch; it yields the `numbers` values of the old one, and the iterators."""
        inner = Builder.at_end(new)
        values: list[Value] = []
        if old is not None and old.last is not None:
            self._block(old, inner, at)
            inner.location = old.last.location
            values = [self.value(old.last.operands[n]) for n in numbers]
        inner.insert(scf.YieldOp.create([*values, *(at[pipe] for pipe in pipes)]))

    def _passed_on(
        self, old: Any, new: Operation, numbers: Sequence[int], pipes: Sequence[Pipe], at: dict[Pipe, Value]
    ) -> None:
        results = list(new.results)
        self.values.update(zip((old.results[n] for n in numbers), results))
        at.update(zip(pipes, results[len(numbers) :]))


_CONTROL_FLOW: dict[type[Operation], Callable[..., None]] = {
    scf.ForOp: AgentProgram._loop, scf.WhileOp: AgentProgram._while, scf.IfOp: AgentProgram._branch,
}  # fmt: skip


def serial_loop(
    loop: scf.ForOp, bounds: Sequence[Value], inits: Sequence[Value], body: Block, counts_as: bool = True
) -> scf.ForOp:
    """An agent's copy of a loop with a body of its own; `counts_as`: its counter is compared like that of the loop."""
    attributes: dict[str, Any] = {tileas.LOOP_SCHEDULE: tileas.LoopScheduleAttr(tileas.SERIAL, 1)}
    if loop.unsignedCmp is not None and counts_as:
        attributes["unsignedCmp"] = loop.unsignedCmp
    types = [value.type for value in inits]
    return scf.ForOp.create((*bounds, *inits), types, attributes, (Region([body]),), location=loop.location)


# ---- the agent that computes -----------------------------------------------------------------------------------------


class Remainder(Generic[Pipe]):
    """The program that an agent has left, in which its operations become ends of pipes."""

    def __init__(self, agent: Agent[Pipe]) -> None:
        self._agent = agent

    def rewrite(self, work: Block) -> None:
        """Rewrite the program in place."""
        agent = self._agent
        agent.begin(work)
        builder = Builder.at_start(work)
        at = {pipe: first_stage(builder, pipe, not agent.fills(pipe)) for pipe in agent.pipes}
        self.block(work, at, runs_once=True)
        agent.end(work)

    def block(self, block: Block, at: dict[Pipe, Value], runs_once: bool = False) -> None:
        """Rewrite the operations of a block; advances the iterators."""
        for op in list(block.operations):
            if self._agent.hands_over(op):
                self._agent.hand_over(op, self, at, runs_once)
            elif not op.regions or not self._agent.between(op):
                continue
            elif isinstance(op, scf.ForOp):
                self._loop(op, at)
            elif isinstance(op, scf.WhileOp):
                self._while(op, at)
            else:
                self._branch(op, at, runs_once)

    def _loop(self, loop: scf.ForOp, at: dict[Pipe, Value]) -> None:
        pipes, block = self._agent.between(loop), loop.body.block
        inner = {pipe: block.add_argument(at[pipe].type, loop.location) for pipe in pipes}
        self.block(block, inner)
        end, count = loop.yield_op, len(loop.results)
        end.operands = (*end.operands, *(inner[pipe] for pipe in pipes))
        new = loop.replace_with_additional_yields([at[pipe] for pipe in pipes])
        new.attributes.pop(tileas.DOTS_IN_FLIGHT, None)
        at.update(zip(pipes, new.results[count:]))

    def _while(self, loop: scf.WhileOp, at: dict[Pipe, Value]) -> None:
        pipes = self._agent.between(loop)
        types = [at[pipe].type for pipe in pipes]
        for block in (loop.before.block, loop.after.block):
            inner = {pipe: block.add_argument(type, loop.location) for pipe, type in zip(pipes, types)}
            self.block(block, inner)
            end: Any = block.last
            end.operands = (*end.operands, *(inner[pipe] for pipe in pipes))
        inits = (*loop.operands, *(at[pipe] for pipe in pipes))
        self._replace(loop, inits, [Region().take_blocks(region) for region in loop.regions], pipes, at)

    def _branch(self, branch: Any, at: dict[Pipe, Value], runs_once: bool) -> None:
        pipes = self._agent.between(branch)
        regions = []
        for region in branch.regions:
            inner = dict(at)
            if not region.blocks:
                region.append(Block())
                Builder.at_end(region.block, branch.location).insert(scf.YieldOp.create(()))
            self.block(region.block, inner, runs_once)
            end = region.block.last
            end.operands = (*end.operands, *(inner[pipe] for pipe in pipes))
            regions.append(Region().take_blocks(region))
        self._replace(branch, branch.operands, regions, pipes, at)

    def _replace(
        self, op: Any, operands: Sequence[Value], regions: list[Region], pipes: list[Pipe], at: dict[Pipe, Value]
    ) -> None:
        """Replace a loop or branch by one that yields the iterators as well."""
        count = len(op.results)
        types = [*(result.type for result in op.results), *(at[pipe].type for pipe in pipes)]
        new = type(op).create(operands, types, dict(op.attributes), regions, location=op.location)
        op.parent.insert_before(new, op)
        op.replace_all_uses_with(new.results[:count])
        op.erase()
        at.update(zip(pipes, new.results[count:]))


def loops_around(loop: Operation, work: Block) -> Iterator[Operation]:
    """The loops and branches of a program that an operation is in."""
    outer = loop.parent_op
    while outer is not None and outer is not work.parent_op:
        yield outer
        outer = outer.parent_op


def drop_unchanged(loops: Sequence[Operation], work: Block) -> None:
    """Remove values that the loops around some loops carry unchanged, and results of branches around them that are one
    value on every way."""
    around = {outer for loop in loops for outer in loops_around(loop, work)}
    places = {op: number for number, op in enumerate(inner for outer in work.operations for inner in outer.walk())}
    for op in sorted(around, key=lambda op: -places[op]):  # inner operations first
        if isinstance(op, scf.ForOp):
            same = [n for n, value in enumerate(op.yield_op.operands) if value is op.iter_args[n]]
            for n in same:
                op.iter_args[n].replace_all_uses_with(op.init_args[n])
                op.results[n].replace_all_uses_with(op.init_args[n])
            if same:
                op.without_carried(same)
        elif isinstance(op, scf.IfOp) and op.results:
            _drop_equal_results(op)


def _drop_equal_results(branch: scf.IfOp) -> None:
    ways = list(zip(*(region.block.last.operands for region in branch.regions)))
    same = [n for n, values in enumerate(ways) if all(v is values[0] and not is_inside(v, branch) for v in values)]
    for n in same:
        branch.results[n].replace_all_uses_with(ways[n][0])
    if same:
        branch.without_results(same)
