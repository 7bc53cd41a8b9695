"""Dots between which threads compute move to an agent of their own, which issues those of the next iteration first.

    for %i ... {                           agent that computes           agent that multiplies
      dot %q, %k into %s; commit             for %i ... {                  for %i ... {
      wait                                     consumer_wait                 producer_acquire
      %x = load %s                             %x = load of the stage        dot %q, %k into the stage
      %y = exponentials of %x          ->      consumer_release              producer_commit
      scale %o; store %y into %p               %y = ...                      consumer_wait
      dot %p, %v into %o; commit               producer_acquire              dot %p, %v into %o
    }                                          scale %o; store %y into %p    consumer_release
                                               producer_commit             }
                                             }

The stages of the first pipe are accumulators, those of the second one are an A and the accumulator that threads have
rescaled: the agent that has acquired a stage may access them.  The agent's loop is then rotated, so that it issues the
first dot of iteration i + 1 before it waits for the operands of the second one of iteration i.

Where columns are few, the tile that threads store replaces the scores that they have loaded.  The dot of the next
scores then follows the dot of that tile, and the issuing thread waits for the latter to be complete: dots with
different accumulators are not ordered by themselves (PTX ISA, "Memory Consistency Model" of tcgen05).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tileiras.analysis.pipes import pipe_of
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.dialects.nv_tileas import names
from tileiras.dialects.nv_tileas.agents import AgentSwitchOp, YieldOp
from tileiras.ir import Block, Builder, IntegerAttr, Operation, Region, UnitAttr, Value, i32
from tileiras.schedule.agents.chained_pipes import ChainedPipe, ChainedPipes
from tileiras.schedule.agents.dot_split import drop_unchanged, loops_around, open_before, outlive_agents, with_agent
from tileiras.schedule.agents.load_consumer import Consumer
from tileiras.schedule.agents.rules.chained_dots import ChainedDot, ChainedLoop, ChainedPlan, FixedOperand, reads_of
from tileiras.schedule.agents.split import AgentProgram
from tileiras.schedule.induction_variable import trip_count
from tileiras.schedule.materialize.rotation import rotate
from tileiras.schedule.materialize.unspecialized import mark_fresh
from tileiras.targets.pipe_protocol import OPERAND_STORES, PRODUCTS


def separate_chained_dots(switch: AgentSwitchOp, plan: ChainedPlan) -> AgentSwitchOp:
    """Moves the dots of a plan to a further, last agent, of as many warps as the first one; returns the switch that
    replaces the given one."""
    work = switch.agents[0].block
    before = Builder.before(switch)
    before.location = switch.location
    memory, base = open_before(switch, work)
    kept = list(dict.fromkeys(buffer for each in plan.loops for dot in each.dots for buffer in dot.buffers[1:]))
    for buffer in kept:
        outlive_agents(buffer, before)
    pipes = ChainedPipes(plan, base, before)
    program = _Program(plan, pipes)
    block = program.program(work)
    _Computing(plan, pipes).rewrite(work)
    release = next(op for op in work.operations if isinstance(op, tileas.TensorReleaseOp) and op.memory is memory)
    for buffer in dict.fromkeys((*kept, *(buffer for pipe in pipes.rings for buffer in pipe.own))):
        work.insert_before(tileas.TensorDeallocOp(buffer, location=release.location), release)
    for buffer in pipes.fixed:
        if not any(isinstance(user, tileas.DeallocTensorOp) for user in buffer.users):
            work.insert_before(tileas.DeallocTensorOp(buffer, location=release.location), release)
    Builder.at_end(block, switch.location).insert(YieldOp.create(()))
    new = with_agent(switch, block)
    for loop, slots in program.overlapping:
        rotate(loop, slots, lambda _: ())
    _drop_first_tails(block)
    _release_no_further(block)
    mark_fresh(block)
    mark_fresh(work)
    return new


# ---- the agent that multiplies ---------------------------------------------------------------------------------------


class _Program(AgentProgram[ChainedPipe]):
    """Writes the program of the agent that multiplies."""

    def __init__(self, plan: ChainedPlan, pipes: ChainedPipes) -> None:
        super().__init__(plan.slice)
        self._pipes = pipes
        self._loops = {each.loop: each for each in plan.loops}
        self._copies = {copy for each in plan.fixed for copy in each.copies}
        self._stages = {*plan.held.waits, *plan.held.copies, *plan.held.releases}
        self._fixed = plan.fixed
        self._held: dict[Value, Value] = {}
        """Buffer of an operand that does not change -> the token of the wait for it."""
        self.overlapping: list[tuple[scf.ForOp, dict[Operation, tuple[int, int]]]] = []
        """Loops, and stages and places of their operations."""

    def program(self, work: Block) -> Block:
        """The program of the agent that runs beside `work`."""
        fills = {pipe: pipe.producer for pipe in self._pipes.rings if _is_filled_by_dots(pipe)}
        drains = {pipe: pipe.consumer for pipe in self._pipes.rings if pipe not in fills}
        return self._written(work, {**fills, **drains})

    def _is_own(self, op: Operation) -> bool:
        return op in self._loops or op in self._copies or op in self._stages

    def _inside(self, op: Operation) -> list[ChainedPipe]:
        return self._pipes.inside(op)

    def _do(self, op: Operation, builder: Builder, at: dict[ChainedPipe, Value]) -> None:
        each = self._loops.get(op)
        if each is None:
            builder.insert(op.clone(self._values))
            return
        mine = [fixed for fixed in self._fixed if each.loop in fixed.loops]
        for fixed in mine:
            self._wait(fixed, builder, at)
        self._multiply(each, builder, at)
        for fixed in mine:
            if fixed.loops[-1] is each.loop:
                builder.insert(tileas.ConsumerReleaseOp(self._held.pop(fixed.buffer)))

    def _wait(self, fixed: FixedOperand, builder: Builder, at: dict[ChainedPipe, Value]) -> None:
        if fixed.buffer not in self._held:
            pipe = self._pipes.fixed[fixed.buffer]
            self._held[fixed.buffer] = builder.insert(tileas.ConsumerWaitOp(pipe.consumer, at[pipe])).results[0]
            at[pipe] = builder.insert(tileas.IncIterOp(at[pipe])).results[0]

    def _multiply(self, each: ChainedLoop, builder: Builder, at: dict[ChainedPipe, Value]) -> None:
        """Emits the loop, with the waits and signals of its dots."""
        loop, pipes = each.loop, self._pipes.by_loop[each.loop]
        inits = [*(self._of(loop.init_args[n]) for n in each.carried), *(at[pipe] for pipe in pipes)]
        bounds = [self._of(value) for value in (loop.lower_bound, loop.upper_bound, loop.step)]
        body = Block([bounds[0].type, *(value.type for value in inits)])
        values = dict(self._values)
        values[loop.induction_variable] = body.arguments[0]
        values.update(zip((loop.iter_args[n] for n in each.carried), body.arguments[1:]))
        iterators = dict(zip(pipes, body.arguments[1 + len(each.carried) :]))
        inner = Builder.at_end(body, loop.location)
        by_dot = {dot.dot: (dot, pipe) for dot, pipe in zip(each.dots, pipes)}
        stages: dict[Operation, tuple[int, int]] = {}
        """Operation -> its stage, and the group of warps that it is for."""
        stage_of = _stages(each)
        for op in each.moved:
            inner.location = op.location
            if op in by_dot:
                dot, pipe = by_dot[op]
                stored = pipes[1] if self._pipes.in_turn and dot.is_ahead else None
                tail = None if stored is None else (stored.producer, iterators[stored])
                for group, made in _issue(dot, pipe, tail, self._pipes.groups, values, iterators, inner):
                    stages[made] = stage_of[op], group
            else:
                last = self._pipes.groups - 1 if isinstance(op, tileas.ConsumerReleaseOp) else 0
                stages[inner.insert(op.clone(values))] = stage_of[op], last
        ends = [values.get(end := loop.yield_op.operands[n], end) for n in each.carried]
        inner.insert(scf.YieldOp.create([*ends, *(iterators[pipe] for pipe in pipes)]))
        attributes: dict[str, Any] = {tileas.LOOP_SCHEDULE: tileas.LoopScheduleAttr(tileas.SERIAL, 1)}
        if loop.unsignedCmp is not None:
            attributes["unsignedCmp"] = loop.unsignedCmp
        types = [value.type for value in inits]
        new = scf.ForOp.create((*bounds, *inits), types, attributes, (Region([body]),), location=loop.location)
        builder.insert(new)
        self._values.update(zip((loop.results[n] for n in each.carried), new.results))
        at.update(zip(pipes, new.results[len(each.carried) :]))
        # Dots of the next iteration come first, in program order; unless they overwrite operands of others: then they
        # follow these, and both dots of one group of warps precede those of the next group.
        in_turn = self._pipes.in_turn
        places = sorted(stages, key=lambda op: (stages[op][1], -stages[op][0]) if in_turn else (stages[op][0], 0))
        self.overlapping.append((new, {op: (stages[op][0], place) for place, op in enumerate(places)}))


def _is_filled_by_dots(pipe: ChainedPipe) -> bool:
    return pipe.producer.defining_op.kinds[0] == PRODUCTS  # type: ignore[union-attr]


def _stages(each: ChainedLoop) -> dict[Operation, int]:
    """Operation that moves -> its stage: 1 for dots of tiles that threads store and for operations that only these
    use."""
    found: dict[Operation, int] = {dot.dot: int(not dot.is_ahead) for dot in each.dots}
    stages = dict(found)
    moving_on = [op for op in each.moved if isinstance(op, tileas.IncIterOp)]
    for op in reversed([op for op in each.moved if op not in found and op not in moving_on]):
        if isinstance(op, (tileas.ConsumerWaitOp, tileas.ConsumerReleaseOp)):
            # A stage is held from its first reader to its last one, which need not be of one part.
            buffers = pipe_of(op.token).buffers  # type: ignore[union-attr]
            readers = [found[dot] for dot in found if reads_of(dot, buffers)]
            stages[op] = min(readers) if isinstance(op, tileas.ConsumerWaitOp) else max(readers)
        else:
            users = (user for result in op.results for user in result.users)
            stages[op] = min((stages[user] for user in users if user in stages), default=0)
    for op in moving_on:  # beside the wait that goes by the iterator
        stages[op] = min((stages[user] for user in op.iterator.users if user in stages), default=0)
    return stages


def _issue(
    each: ChainedDot, pipe: ChainedPipe, tail: tuple[Value, Value] | None, groups: int, values: dict[Value, Value],
    iterators: dict[ChainedPipe, Value], builder: Builder,
) -> Iterator[tuple[int, Operation]]:  # fmt: skip
    """Emits a dot, by groups of warps, between the wait for its stage and the signal after it; yields the group of each
    operation.  Where it overwrites operands of others, it follows the wait for the `tail` of their pipe."""
    at = iterators[pipe]
    known = None if tail is None else UnitAttr()
    values.update(zip(each.buffers, pipe.buffers))
    iterators[pipe] = builder.insert(tileas.IncIterOp(at)).results[0]
    yield 0, iterators[pipe].defining_op  # type: ignore[misc]
    for number in range(groups):
        group = IntegerAttr(number, i32) if groups > 1 else None
        if tail is not None:
            yield number, builder.insert(tileas.ProducerTailOp(*tail, group=group))
        begin: Operation
        end: Operation
        if each.is_ahead:
            begin = builder.insert(tileas.ProducerAcquireOp(pipe.producer, at, known=known, group=group))
            end = tileas.ProducerCommitOp(begin.results[0], group=group)
        else:
            begin = builder.insert(tileas.ConsumerWaitOp(pipe.consumer, at, group=group))
            end = tileas.ConsumerReleaseOp(begin.results[0], group=group)
        dot = builder.insert(each.dot.clone(values))
        if group is not None:
            dot.attributes["group"] = group
        yield from ((number, op) for op in (begin, dot, builder.insert(end)))


def _drop_first_tails(program: Block) -> None:
    """Removes the waits for the readers of stages that have not been read so far."""
    for op in [inner for outer in program.operations for inner in outer.walk()]:
        if isinstance(op, tileas.ProducerTailOp) and isinstance(op.iterator.defining_op, tileas.CreateIteratorOp):
            op.erase()


def _release_no_further(program: Block) -> None:
    """Marks the last release of a stage that another agent would fill again, if no later operation waits for it."""
    released: dict[Operation, Operation] = {}
    for op in (inner for outer in program.operations for inner in outer.walk()):
        if isinstance(op, tileas.ConsumerReleaseOp):
            pipe: Any = pipe_of(op.token)
            released.pop(pipe, None)
            is_awaited = any(isinstance(user, tileas.ProducerTailOp) for user in pipe.producer.users)
            if next(iter(scf.loops_around(op)), None) is None and not is_awaited:
                released[pipe] = op
    for op in released.values():
        op.attributes["last"] = UnitAttr()


# ---- the agent that computes -----------------------------------------------------------------------------------------


class _Computing(Consumer):
    """Rewrites the program of the agent that computes, in place, to hand stages to the one that multiplies."""

    def __init__(self, plan: ChainedPlan, pipes: ChainedPipes) -> None:
        super().__init__(pipes)  # type: ignore[arg-type]
        self._loops = {each.loop: each for each in plan.loops}
        self._chained = pipes
        self._copies = [*(copy for each in plan.fixed for copy in each.copies), *plan.held.copies]
        self._held = plan.held
        self._fixed = {each.buffer: each for each in plan.fixed}
        self._runs = {loop: bool(trip_count(loop)) for loop in self._loops}
        """Whether a loop is known to run."""

    def rewrite(self, work: Block) -> None:
        around = {outer for loop in self._loops for outer in loops_around(loop, work)}
        for each in self._loops.values():
            _pass_by(each)
        self._leave_stages()
        places = {op: number for number, op in enumerate(inner for outer in work.operations for inner in outer.walk())}
        for op in sorted(around, key=lambda op: -places[op]):  # inner operations first
            drop_unchanged(op)
        _drop_waits_for_copies(work, set(self._chained.fixed))
        builder = Builder.at_start(work)
        ends = {pipe: pipe.consumer if _is_filled_by_dots(pipe) else pipe.producer for pipe in self._chained.rings}
        at: Any = {pipe: builder.insert(tileas.CreateIteratorOp(end)).results[0] for pipe, end in ends.items()}
        self._block(work, at, runs_once=True)
        for copy in self._copies:
            _erase_with_views(copy)

    def _leave_stages(self) -> None:
        """Removes the operations on rings of outer loops, whose stages the agent that multiplies takes."""
        for op in (*self._held.releases, *self._held.waits):
            op.erase()
        for step in self._held.steps:
            step.results[0].replace_all_uses_with(step.iterator)
            step.erase()

    def _block(self, block: Block, at: Any, runs_once: bool = False) -> None:
        for op in list(block.operations):
            if isinstance(op, tileas.TensorWaitOp):
                self._wait(op, at)
            elif op in self._chained.fills:
                self._fill(op, at)
            elif isinstance(op, tileas.DeallocTensorOp) and op.buffer in self._chained.fixed:
                self._give_back(op, at)
            elif not self._pipes.inside(op):
                continue
            elif isinstance(op, scf.ForOp):
                self._loop(op, at, runs_once)
            elif isinstance(op, scf.WhileOp):
                self._while(op, at)
            else:
                self._branch(op, at, runs_once)

    def _wait(self, wait: tileas.TensorWaitOp, at: Any) -> None:
        """After a loop: for all dots that add to an accumulator of its own."""
        builder = Builder.before(wait)
        builder.location = wait.location
        for pipe in self._chained.rings:
            if pipe.producer.defining_op.kinds[0] == OPERAND_STORES:  # type: ignore[union-attr]
                builder.insert(tileas.ProducerTailOp(pipe.producer, at[pipe]))
        wait.erase()

    def _fill(self, fill: Operation, at: Any) -> None:
        pipe = self._chained.fixed[self._chained.fills[fill].buffer]
        builder = Builder.before(fill)
        builder.location = fill.location
        token = builder.insert(tileas.ProducerAcquireOp(pipe.producer, at[pipe])).results[0]
        behind = Builder.after(fill)
        behind.location = fill.location
        behind.insert(tileas.ProducerCommitOp(token))
        at[pipe] = behind.insert(tileas.IncIterOp(at[pipe])).results[0]

    def _give_back(self, dealloc: tileas.DeallocTensorOp, at: Any) -> None:
        """Operations that overwrite an operand follow the dots that read it, as threads do once they have loaded the
        results of these.  In a loop over tiles the operand keeps its place."""
        builder = Builder.before(dealloc)
        builder.location = dealloc.location
        if next(iter(scf.loops_around(dealloc)), None) is not None:
            dealloc.erase()
        elif not any(self._runs[loop] for loop in self._fixed[dealloc.buffer].loops):
            pipe = self._chained.fixed[dealloc.buffer]
            builder.insert(tileas.ProducerTailOp(pipe.producer, at[pipe]))

    def _loop(self, loop: scf.ForOp, at: Any, runs_once: bool) -> None:
        each = self._loops.get(loop)
        if each is None:
            super()._loop(loop, at, runs_once)
            return
        pipes = self._chained.by_loop[loop]
        block = loop.body.block
        inner = {pipe: block.add_argument(at[pipe].type, loop.location) for pipe in pipes}
        for dot, pipe in zip(each.dots, pipes):
            _hand_on(dot, pipe, self._chained.in_turn, inner)
        for op in [op for op in block.operations if isinstance(op, tileas.TensorWaitOp)]:
            op.erase()
        same = [*each.carried, *_counts(each)]
        end = loop.yield_op
        end.operands = [loop.iter_args[n] if n in same else value for n, value in enumerate(end.operands)]
        for dot in each.dots:
            dot.dot.erase()
            if dot.commit is not None:
                dot.commit.erase()
        for op in reversed(each.moved):
            if op.parent is not None and not any(result.has_uses for result in op.results):
                op.erase()
        for dot in each.dots:
            dot.buffers[0].defining_op.erase()  # type: ignore[union-attr]
        end.operands = (*end.operands, *(inner[pipe] for pipe in pipes))
        for number in same:
            loop.iter_args[number].replace_all_uses_with(loop.init_args[number])
        new = loop.replace_with_additional_yields([at[pipe] for pipe in pipes]).without_carried(same)
        at.update(zip(pipes, new.results[-len(pipes) :]))


def _hand_on(each: ChainedDot, pipe: ChainedPipe, in_turn: bool, at: dict[ChainedPipe, Value]) -> None:
    """Inserts the threads' wait for the stage of a pipe in an iteration, and their signal after it.  Where the tile
    that they store alternates with scores, its signal also says that they have loaded the scores, and the scores of the
    next iteration show that the tile has been read."""
    known = UnitAttr() if in_turn else None
    before, behind = Builder.before(each.first), Builder.after(each.last)
    before.location, behind.location = each.first.location, each.last.location
    if each.is_ahead:
        token = before.insert(tileas.ConsumerWaitOp(pipe.consumer, at[pipe])).results[0]
        behind.insert(tileas.ConsumerReleaseOp(token, known=known))
    else:
        token = before.insert(tileas.ProducerAcquireOp(pipe.producer, at[pipe], known=known)).results[0]
        behind.insert(tileas.ProducerCommitOp(token))
    at[pipe] = behind.insert(tileas.IncIterOp(at[pipe])).results[0]
    old = each.buffers[0]
    for user in [user for user in old.users if user is not each.dot]:
        if isinstance(user, tileas.TensorDeallocOp):
            user.erase()
        else:
            old.replace_uses_in(pipe.buffers[0], [user])


def _counts(each: ChainedLoop) -> list[int]:
    """The numbers of the groups that a loop carries."""
    loop, counts = each.loop, {dot.commit.count for dot in each.dots if dot.commit is not None}
    return [n for n, value in enumerate(loop.iter_args) if value in counts]


def _pass_by(each: ChainedLoop) -> None:
    """Replaces the numbers and iterators after the dots of a loop by those before it."""
    loop = each.loop
    for dot in each.dots:
        if dot.commit is not None:
            dot.commit.result.replace_all_uses_with(dot.commit.count)
    for number in (*each.carried, *_counts(each)):
        loop.results[number].replace_all_uses_with(loop.init_args[number])


def _erase_with_views(op: Operation) -> None:
    """Removes an operation and the views of its result, which nothing else uses any more."""
    for user in list(op.results[0].users):
        _erase_with_views(user)
    op.erase()


def _drop_waits_for_copies(work: Block, buffers: set[Value]) -> None:
    """Removes the waits for copies into buffers of pipes, whose mbarriers signal their arrival, if there are no other
    copies; and the fences for dots, since each pipe has its own."""
    inside = [op for outer in work.operations for op in outer.walk()]
    for op in inside:
        if op.name == names.FENCE_PROXY:
            op.erase()
    copies: list[Any] = [op for op in inside if isinstance(op, (tileas.AsyncTiledLoadOp, tileas.AsyncLoadOp))]
    if any(op.buffer not in buffers for op in copies):
        return
    for op in inside:
        waits = isinstance(op, tileas.AsyncWaitOp) and not op.result_token.has_uses
        if waits or isinstance(op, tileas.AsyncCommitGroupOp):
            op.erase()
