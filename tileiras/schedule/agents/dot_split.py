"""Loops of dots into tensor memory go to an agent of their own, with accumulators in turn.

    for %tile ... {                        agent that computes              agent that multiplies
      %t = alloc                             for %tile ... {                  for %tile ... {
      for %k ... { dot ... into %t }           consumer_wait                    producer_acquire
      commit                         ->        load of the stage                for %k ... { dot into the stage }
      wait {pending = 0}                       consumer_release                 producer_commit
      %x = load %t                             ...                            }
      ...                                    }
    }

The stages of the pipe are accumulators.  The agent does the loops of dots as they stand, waits for tiles and their
releases included, and continues with the next tile while the last one is converted and stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.dialects.arith.build import integer
from tileiras.dialects.nv_tileas.agents import AgentSwitchOp, YieldOp
from tileiras.ir import Block, Builder, DenseArrayAttr, IntegerAttr, Operation, Region, TensorType, Value, i32
from tileiras.layout.linear_layout import log2_exact
from tileiras.schedule.agents.channels import create_pipe
from tileiras.schedule.agents.load_consumer import Consumer
from tileiras.schedule.agents.rules.dot import DotLoop, DotPlan
from tileiras.schedule.agents.slice import is_inside
from tileiras.schedule.agents.split import AgentProgram
from tileiras.targets.pipe_protocol import ACCUMULATOR_LOADS, PAIR_PRODUCTS, PRODUCTS


def separate_dots(switch: AgentSwitchOp, plan: DotPlan) -> AgentSwitchOp:
    """Moves the dots of a plan to a further, last agent, of as many warps as the first one; returns the switch that
    replaces the given one."""
    work = switch.agents[0].block
    before = Builder.before(switch)
    before.location = switch.location
    memory, base = open_before(switch, work)
    pipes = AccumulatorPipes(plan, base, before)
    scales = [buffer for each in plan.loops for buffer in each.scales]
    for buffer in scales:
        outlive_agents(buffer, before)
    program = _MmaProgram(plan, pipes).program(work)
    _Epilogue(pipes).rewrite(work)
    release = next(op for op in work.operations if isinstance(op, tileas.TensorReleaseOp) and op.memory is memory)
    for buffer in [*(buffer for pipe in pipes.rings for buffer in pipe.buffers), *scales]:
        work.insert_before(tileas.TensorDeallocOp(buffer, location=release.location), release)
    Builder.at_end(program, switch.location).insert(YieldOp.create(()))
    return with_agent(switch, program)


def open_before(switch: AgentSwitchOp, work: Block) -> tuple[Value, Value]:
    """Reserves the columns of the first agent before all agents, for all of them."""
    opened: Any = next(op for op in work.operations if isinstance(op, tileas.TensorOpenOp))
    reserve: Any = opened.memory.defining_op
    place: Operation = switch
    if reserve.parent is work:
        switch.parent.insert_before(reserve.detach(), switch)
    else:
        # A pair of CTAs has reserved them: all its pipes are after one barrier of the cluster.
        place = next(op for op in switch.parent.operations if isinstance(op, tileas.CreatePipelineOp))
    switch.parent.insert_before(opened.detach(), place)
    # Every group becomes a stage of a pipe, which has an mbarrier of its own.
    reserve.attributes["commits"] = IntegerAttr(0, i32)
    return reserve.result, opened.result


def outlive_agents(buffer: Value, builder: Builder) -> None:
    """Extends the lifetime of a buffer of the first agent: from before all agents to its deallocation."""
    for user in [user for user in buffer.users if isinstance(user, tileas.TensorDeallocOp)]:
        user.erase()
    builder.insert(buffer.defining_op.detach())


def with_agent(switch: AgentSwitchOp, program: Block) -> AgentSwitchOp:
    regions = [*(Region().take_blocks(region) for region in switch.agents), Region([program])]
    attributes = dict(switch.attributes)
    attributes["num_agents_per_group"] = DenseArrayAttr(i32, [*switch.num_agents_per_group.elements, 1])
    new = AgentSwitchOp.create((), (), attributes, regions, location=switch.location)
    switch.parent.insert_before(new, switch)
    switch.erase()
    return new


# ---- accumulators ----------------------------------------------------------------------------------------------------


class AccumulatorPipe:
    """The pipe of the accumulators of a loop of dots."""

    __slots__ = ("buffers", "consumer", "loop", "producer")

    def __init__(self, loop: DotLoop, base: Value, builder: Builder) -> None:
        self.loop = loop
        self.buffers = []
        for buffer in loop.buffers:
            builder.location = buffer.defining_op.location
            alloc = tileas.TensorAllocOp(base, result=_in_turn(buffer.type, loop.stages))
            self.buffers.append(builder.insert(alloc).results[0])
        dots = PAIR_PRODUCTS if loop.is_of_pair else PRODUCTS
        self.producer, self.consumer = create_pipe(builder, self.buffers, loop.stages, dots, ACCUMULATOR_LOADS)

    def stage(self, builder: Builder, iterator: Value) -> dict[Value, Value]:
        """The accumulators of the stage that an iterator is at, by the buffers that they replace."""
        number = builder.insert(tileas.GetStageOp(iterator, result=i32)).results[0]
        found = {}
        for old, ring in zip(self.loop.buffers, self.buffers):
            coords = [number, *(integer(builder, 0) for _ in ring.type.tile.shape[1:])]
            found[old] = builder.insert(tileas.TensorSliceOp(ring, coords, result=old.type)).results[0]
        return found


def _in_turn(type: tileas.TensorBufferType, stages: int) -> tileas.TensorBufferType:
    """Accumulators in neighbouring columns, as one tile with the rows of all of them."""
    tile, layout = type.tile, type.tile.encoding
    rows, *others = tile.shape
    further = [(rows << bit, *(0 for _ in others)) for bit in range(log2_exact(stages))]
    encoding = tileas.TensorLayoutAttr(layout.lane, (*layout.column, *further), layout.element)
    return tileas.TensorBufferType(TensorType((stages * rows, *others), tile.element_type, encoding))


class AccumulatorPipes:
    """The pipes of the accumulators of a kernel, by the loops that fill them; for `Consumer` no loop has some that it
    drains a stage of in each iteration."""

    def __init__(self, plan: DotPlan, base: Value, builder: Builder) -> None:
        self.by_loop = {each.loop: AccumulatorPipe(each, base, builder) for each in plan.loops}
        self.rings = list(self.by_loop.values())

    def of(self, loop: Operation) -> Sequence[AccumulatorPipe]:
        return ()

    def inside(self, op: Operation) -> list[AccumulatorPipe]:
        """The pipes of an operation that is a loop of dots, and of those in it, in order."""
        return [self.by_loop[inner] for inner in op.walk() if inner in self.by_loop] if op.regions else []


# ---- the agent that multiplies ---------------------------------------------------------------------------------------


class _MmaProgram(AgentProgram[AccumulatorPipe]):
    """Writes the program of the agent that multiplies."""

    def __init__(self, plan: DotPlan, pipes: AccumulatorPipes) -> None:
        super().__init__(plan.slice)
        self._pipes = pipes

    def program(self, work: Block) -> Block:
        """The program of the agent that runs beside `work`."""
        return self._written(work, {pipe: pipe.producer for pipe in self._pipes.rings})

    def _finish(self, builder: Builder, at: dict[AccumulatorPipe, Value]) -> None:
        for pipe in self._pipes.rings:
            if pipe.loop.is_of_pair:  # the other CTA arrives here
                builder.insert(tileas.ProducerTailOp(pipe.producer, at[pipe]))

    def _is_own(self, op: Operation) -> bool:
        return op in self._pipes.by_loop

    def _inside(self, op: Operation) -> list[AccumulatorPipe]:
        return self._pipes.inside(op)

    def _do(self, loop: Operation, builder: Builder, at: dict[AccumulatorPipe, Value]) -> None:
        pipe = self._pipes.by_loop[loop]
        token = builder.insert(tileas.ProducerAcquireOp(pipe.producer, at[pipe])).results[0]
        self._values.update(pipe.stage(builder, at[pipe]))
        self._repeat(loop, builder)
        builder.insert(tileas.ProducerCommitOp(token))
        at[pipe] = builder.insert(tileas.IncIterOp(at[pipe])).results[0]


# ---- the agent that computes -----------------------------------------------------------------------------------------


class _Epilogue(Consumer):
    """Rewrites the program of the agent that computes, in place, to take accumulators from pipes."""

    def __init__(self, pipes: AccumulatorPipes) -> None:
        super().__init__(pipes)  # type: ignore[arg-type]
        self._by_loop = pipes.by_loop

    def rewrite(self, work: Block) -> None:
        around = {outer for loop in self._by_loop for outer in loops_around(loop, work)}
        for loop, pipe in self._by_loop.items():
            _pass_by(loop, pipe.loop.commit)
        places = {op: number for number, op in enumerate(inner for outer in work.operations for inner in outer.walk())}
        for op in sorted(around, key=lambda op: -places[op]):  # inner operations first
            drop_unchanged(op)
        super().rewrite(work)
        for loop, pipe in self._by_loop.items():
            loop.erase()
            if pipe.loop.commit is not None:
                pipe.loop.commit.erase()
            for buffer in pipe.loop.buffers:
                buffer.defining_op.erase()
        for op in (inner for outer in work.operations for inner in outer.walk()):
            if isinstance(op, tileas.TensorWaitOp):
                op.erase()

    def _loop(self, loop: scf.ForOp, at: dict[Any, Value], runs_once: bool) -> None:
        pipe = self._by_loop.get(loop)
        if pipe is None:
            super()._loop(loop, at, runs_once)
            return
        builder = Builder.before(pipe.loop.first)
        builder.location = loop.location
        token = builder.insert(tileas.ConsumerWaitOp(pipe.consumer, at[pipe])).results[0]
        for old, new in pipe.stage(builder, at[pipe]).items():
            for user in [user for user in old.users if not loop.is_ancestor_of(user)]:
                if isinstance(user, tileas.TensorDeallocOp):
                    user.erase()
                else:
                    old.replace_uses_in(new, [user])
        behind = Builder.after(pipe.loop.last)
        behind.location = loop.location
        behind.insert(tileas.ConsumerReleaseOp(token))
        at[pipe] = behind.insert(tileas.IncIterOp(at[pipe])).results[0]


def loops_around(loop: Operation, work: Block) -> Iterator[Operation]:
    """The loops and branches of a program that an operation is in."""
    outer = loop.parent_op
    while outer is not None and outer is not work.parent_op:
        yield outer
        outer = outer.parent_op


def _pass_by(loop: scf.ForOp, commit: tileas.TensorCommitOp | None) -> None:
    """Replaces the results of a loop of dots, and of their commit, by the values before it."""
    for result, value in zip(loop.results, loop.init_args):
        result.replace_all_uses_with(value)
    if commit is not None:
        commit.result.replace_all_uses_with(commit.count)


def drop_unchanged(op: Operation) -> None:
    """Removes loop-carried values that every iteration yields unchanged, and results of a branch that are one value
    whichever way it goes."""
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
