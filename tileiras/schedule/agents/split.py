"""The program of an agent that takes over a few operations of another program: these, and copies of the loops and
branches around them and of the operations that they depend on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from tileiras.dialects import arith, scf
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.arith.build import binary, integer
from tileiras.ir import Block, Builder, Operation, Region, Value
from tileiras.schedule.agents.slice import AgentSlice, is_inside

Pipe = TypeVar("Pipe")
"""Key of a pipe that the agent fills."""


class AgentProgram(ABC, Generic[Pipe]):
    """Writes the program of an agent beside another one, whose operations it executes as far as its slice contains
    them."""

    def __init__(self, slice: AgentSlice) -> None:
        self._slice = slice
        self._values: dict[Value, Value] = {}
        """Value of the other program -> value of the agent."""

    def _written(self, work: Block, producers: dict[Pipe, Value]) -> Block:
        """The program of the agent that runs beside `work`; `producers`: the ends of its pipes, at their first
        stages."""
        block = Block()
        builder = Builder.at_end(block)
        at = {pipe: builder.insert(tileas.CreateIteratorOp(end)).results[0] for pipe, end in producers.items()}
        none = builder.insert(tileas.CreateMemTokenOp(result=aa.MemTokenType()))
        self._token = none.results[0]
        self._block(work, builder, at)
        if not self._token.has_uses:
            none.erase()
        self._finish(builder, at)
        return block

    def _finish(self, builder: Builder, at: dict[Pipe, Value]) -> None:
        """Appends the agent's last operations; its iterators are at the stages that it would fill next."""

    @abstractmethod
    def _is_own(self, op: Operation) -> bool:
        """Whether the agent takes over an operation."""

    @abstractmethod
    def _do(self, op: Operation, builder: Builder, at: dict[Pipe, Value]) -> None:
        """Emits the agent's form of such an operation; advances the iterators."""

    @abstractmethod
    def _inside(self, op: Operation) -> list[Pipe]:
        """The pipes that the agent fills in a loop or branch, in order."""

    def _block(self, block: Block, builder: Builder, at: dict[Pipe, Value]) -> None:
        """Emits the operations of a block except its terminator, as far as the agent executes them; advances the
        iterators."""
        for op in block.operations:
            builder.location = op.location
            if self._is_own(op):
                self._do(op, builder, at)
            elif op in self._slice.around:
                _CONTROL_FLOW[type(op)](self, op, builder, at)
            elif op in self._slice.operations:
                self._repeat(op, builder)

    def _of(self, value: Value) -> Value:
        return self._values.get(value, value)

    def _repeat(self, op: Operation, builder: Builder) -> None:
        """Copies an operation, without the tokens that order it."""
        for inner in op.walk():
            for value in inner.operands:
                if isinstance(value.type, aa.MemTokenType) and not is_inside(value, op):
                    self._values[value] = self._token
            if isinstance(inner, scf.ForOp):
                inner.attributes.setdefault(tileas.LOOP_SCHEDULE, tileas.LoopScheduleAttr(tileas.SERIAL, 1))
        builder.insert(op.clone(self._values))

    def _trips(self, loop: scf.ForOp) -> Value | None:
        """Trip count of the agent's copy of a loop with step 1; None if it is that of the loop."""
        return None

    def _before(self, loop: scf.ForOp, builder: Builder) -> None:
        """Emits operations of the agent before its copy of a loop."""

    # -- control flow --------------------------------------------------------------------------------------------------

    def _loop(self, loop: scf.ForOp, builder: Builder, at: dict[Pipe, Value]) -> None:
        self._before(loop, builder)
        pipes, needed = self._inside(loop), sorted(self._slice.handed_on[loop])
        inits = [*(self._of(loop.init_args[n]) for n in needed), *(at[pipe] for pipe in pipes)]
        bounds = [self._of(value) for value in (loop.lower_bound, loop.upper_bound, loop.step)]
        begin, trips = bounds[0], self._trips(loop)
        body = Block([begin.type, *(value.type for value in inits)])
        counter: Value = body.arguments[0]
        if trips is not None:
            bounds = [integer(builder, 0, begin.type), trips, bounds[2]]
            counter = binary(Builder.at_end(body, loop.location), arith.AddIOp, begin, counter)
        self._values[loop.induction_variable] = counter
        carried = body.arguments[1:]
        self._values.update(zip((loop.iter_args[n] for n in needed), carried))
        inner = dict(zip(pipes, carried[len(needed) :]))
        self._end(loop.body.block, body, needed, pipes, inner)
        attributes: dict[str, Any] = {tileas.LOOP_SCHEDULE: tileas.LoopScheduleAttr(tileas.SERIAL, 1)}
        if loop.unsignedCmp is not None and trips is None:
            attributes["unsignedCmp"] = loop.unsignedCmp
        types = [value.type for value in inits]
        new = scf.ForOp.create((*bounds, *inits), types, attributes, (Region([body]),), location=loop.location)
        self._passed_on(loop, builder.insert(new), needed, pipes, at)

    def _while(self, loop: scf.WhileOp, builder: Builder, at: dict[Pipe, Value]) -> None:
        """A loop without a counter: the agent repeats the condition and its operands."""
        pipes = self._inside(loop)
        begun, passed = sorted(self._slice.begun_with[loop]), sorted(self._slice.handed_on[loop])
        inits = [*(self._of(loop.inits[n]) for n in begun), *(at[pipe] for pipe in pipes)]
        before = Block([value.type for value in inits])
        old: Any = loop.before.block
        self._values.update(zip((old.arguments[n] for n in begun), before.arguments))
        inner = dict(zip(pipes, before.arguments[len(begun) :]))
        first = Builder.at_end(before)
        self._block(old, first, inner)
        first.location = old.last.location
        values = [*(self._of(old.last.args[n]) for n in passed), *(inner[pipe] for pipe in pipes)]
        first.insert(scf.ConditionOp(self._of(old.last.condition), values))
        after = Block([value.type for value in values])
        self._values.update(zip((loop.after.block.arguments[n] for n in passed), after.arguments))
        self._end(loop.after.block, after, begun, pipes, dict(zip(pipes, after.arguments[len(passed) :])))
        types, regions = [value.type for value in values], (Region([before]), Region([after]))
        new = scf.WhileOp.create(inits, types, {}, regions, location=loop.location)
        self._passed_on(loop, builder.insert(new), passed, pipes, at)

    def _branch(self, branch: scf.IfOp, builder: Builder, at: dict[Pipe, Value]) -> None:
        pipes, needed = self._inside(branch), sorted(self._slice.handed_on[branch])
        regions = []
        for region in branch.regions:
            body = Block()
            old = region.blocks[0] if region.blocks else None
            self._end(old, body, needed, pipes, dict(at))
            regions.append(Region([body]))
        types = [*(branch.results[n].type for n in needed), *(at[pipe].type for pipe in pipes)]
        new = scf.IfOp.create((self._of(branch.condition),), types, {}, regions, location=branch.location)
        self._passed_on(branch, builder.insert(new), needed, pipes, at)

    def _end(
        self, old: Block | None, new: Block, needed: Sequence[int], pipes: Sequence[Pipe], at: dict[Pipe, Value]
    ) -> None:
        """Fills a block of a loop or branch; it yields the `needed` values of the old one, and the iterators."""
        inner = Builder.at_end(new)
        values: list[Value] = []
        if old is not None and old.last is not None:
            self._block(old, inner, at)
            inner.location = old.last.location
            values = [self._of(old.last.operands[n]) for n in needed]
        inner.insert(scf.YieldOp.create([*values, *(at[pipe] for pipe in pipes)]))

    def _passed_on(
        self, old: Any, new: Operation, needed: Sequence[int], pipes: Sequence[Pipe], at: dict[Pipe, Value]
    ) -> None:
        results = list(new.results)
        self._values.update(zip((old.results[n] for n in needed), results))
        at.update(zip(pipes, results[len(needed) :]))


_CONTROL_FLOW: dict[type[Operation], Callable[..., None]] = {
    scf.ForOp: AgentProgram._loop, scf.WhileOp: AgentProgram._while, scf.IfOp: AgentProgram._branch,
}  # fmt: skip
