"""The program of the agent that loads: the loops and branches around loads that run ahead, and these as copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileiras.analysis.ranges import RangeAnalysis
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.ir import Block, Builder, Operation, Region, Value, i32
from tileiras.schedule.agent_plan import AgentPlan
from tileiras.schedule.producer_slice import is_inside
from tileiras.schedule.staging import StagedLoad, start_copy

from .box_ring import box_coordinates
from .pipes import Pipe, Pipes, copy_box

Iterators = dict[Pipe, Value]
"""Where in each pipe the agent is."""


class Producer:
    """Writes the program of the agent that loads beside that of the kernel."""

    def __init__(self, plan: AgentPlan, pipes: Pipes) -> None:
        self._slice = plan.slice
        self._atom = plan.atom
        self._pipes = pipes
        self._values: dict[Value, Value] = {}
        """Of the kernel -> of the agent."""
        self._loads: dict[Operation, tuple[Pipe, int, StagedLoad]] = {}
        for pipe in pipes.all:
            for number, staged in enumerate(pipe.plan.loads):
                self._loads[staged.load] = pipe, number, staged
        self._acquired: dict[Pipe, Value] = {}
        self._stages: dict[Pipe, Value] = {}
        self._ranges = RangeAnalysis()

    def program(self, work: Block) -> Block:
        """What the agent does while `work` is done."""
        block = Block()
        builder = Builder.at_end(block)
        at = {pipe: builder.insert(tileas.CreateIteratorOp(pipe.producer)).results[0] for pipe in self._pipes.all}
        none = builder.insert(tileas.CreateMemTokenOp(result=aa.MemTokenType()))
        self._token = none.results[0]
        self._block(work, builder, at)
        if not self._token.has_uses:
            none.erase()
        return block

    def _block(self, block: Block, builder: Builder, at: Iterators) -> None:
        """The operations of a block but its terminator, as far as the agent does them; moves the iterators on."""
        for op in block.operations:
            builder.location = op.location
            if op in self._loads:
                self._copy(op, builder, at)
            elif op in self._slice.around:
                (self._loop if isinstance(op, scf.ForOp) else self._branch)(op, builder, at)
            elif op in self._slice.operations:
                self._repeat(op, builder)

    def _of(self, value: Value) -> Value:
        return self._values.get(value, value)

    def _repeat(self, op: Operation, builder: Builder) -> None:
        """The operation once more, ordered after nothing."""
        for inner in op.walk():
            for value in inner.operands:
                if isinstance(value.type, aa.MemTokenType) and not is_inside(value, op):
                    self._values[value] = self._token
            if isinstance(inner, scf.ForOp):
                inner.attributes.setdefault(tileas.LOOP_SCHEDULE, tileas.LoopScheduleAttr(tileas.SERIAL, 1))
        builder.insert(op.clone(self._values))

    # -- copies --------------------------------------------------------------------------------------------------------

    def _copy(self, load: Operation, builder: Builder, at: Iterators) -> None:
        pipe, number, staged = self._loads[load]
        if number == 0:
            acquire = tileas.ProducerAcquireOp(pipe.producer, at[pipe])
            self._acquired[pipe] = builder.insert(acquire).results[0]
            if not pipe.descriptors:
                self._stages[pipe] = builder.insert(tileas.GetStageOp(at[pipe], result=i32)).results[0]
        if pipe.descriptors:
            coords = box_coordinates(builder, staged, self._of, self._ranges)
            copy_box(builder, pipe.descriptors[number], coords, self._acquired[pipe], number)
        else:
            start_copy(builder, staged.load, pipe.buffers[number], self._stages[pipe], None, self._atom, self._of)
        if number + 1 == len(pipe.buffers):
            builder.insert(tileas.ProducerCommitOp(self._acquired.pop(pipe)))
            at[pipe] = builder.insert(tileas.IncIterOp(at[pipe])).results[0]

    # -- control flow --------------------------------------------------------------------------------------------------

    def _loop(self, loop: scf.ForOp, builder: Builder, at: Iterators) -> None:
        pipes, needed = self._pipes.inside(loop), sorted(self._slice.handed_on[loop])
        inits = [*(self._of(loop.init_args[n]) for n in needed), *(at[pipe] for pipe in pipes)]
        bounds = [self._of(value) for value in (loop.lower_bound, loop.upper_bound, loop.step)]
        body = Block([bounds[0].type, *(value.type for value in inits)])
        self._values[loop.induction_variable] = body.arguments[0]
        carried = body.arguments[1:]
        self._values.update(zip((loop.iter_args[n] for n in needed), carried))
        inner = dict(zip(pipes, carried[len(needed) :]))
        self._end(loop.body.block, body, needed, pipes, inner)
        attributes: dict[str, Any] = {tileas.LOOP_SCHEDULE: tileas.LoopScheduleAttr(tileas.SERIAL, 1)}
        if loop.unsignedCmp is not None:
            attributes["unsignedCmp"] = loop.unsignedCmp
        types = [value.type for value in inits]
        new = scf.ForOp.create((*bounds, *inits), types, attributes, (Region([body]),), location=loop.location)
        self._passed_on(loop, builder.insert(new), needed, pipes, at)

    def _branch(self, branch: scf.IfOp, builder: Builder, at: Iterators) -> None:
        pipes, needed = self._pipes.inside(branch), sorted(self._slice.handed_on[branch])
        regions = []
        for region in branch.regions:
            body = Block()
            old = region.blocks[0] if region.blocks else None
            self._end(old, body, needed, pipes, dict(at))
            regions.append(Region([body]))
        types = [*(branch.results[n].type for n in needed), *(at[pipe].type for pipe in pipes)]
        new = scf.IfOp.create((self._of(branch.condition),), types, {}, regions, location=branch.location)
        self._passed_on(branch, builder.insert(new), needed, pipes, at)

    def _end(self, old: Block | None, new: Block, needed: Sequence[int], pipes: Sequence[Pipe], at: Iterators) -> None:
        """Fills a block of a loop or branch; it yields what is needed of the old one, and the iterators."""
        inner = Builder.at_end(new)
        values: list[Value] = []
        if old is not None and old.last is not None:
            self._block(old, inner, at)
            inner.location = old.last.location
            values = [self._of(old.last.operands[n]) for n in needed]
        inner.insert(scf.YieldOp.create([*values, *(at[pipe] for pipe in pipes)]))

    def _passed_on(self, old: Any, new: Operation, needed: Sequence[int], pipes: Sequence[Pipe], at: Iterators) -> None:
        results = list(new.results)
        self._values.update(zip((old.results[n] for n in needed), results))
        at.update(zip(pipes, results[len(needed) :]))
