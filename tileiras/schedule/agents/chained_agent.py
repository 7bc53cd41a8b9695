"""The agent of dots between which threads compute: it issues those of the next iteration first.

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

from collections.abc import Iterator, Sequence
from typing import Any

from tileiras.analysis.pipes import pipe_of
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.dialects.nv_tileas import names
from tileiras.dialects.nv_tileas.agents import AgentSwitchOp
from tileiras.ir import Block, Builder, IntegerAttr, Operation, TensorType, UnitAttr, Value, i32
from tileiras.layout.linear_layout import log2_exact
from tileiras.reasons import Reason
from tileiras.schedule.induction_variable import trip_count
from tileiras.schedule.materialize.rotation import rotate
from tileiras.schedule.materialize.unspecialized import mark_fresh
from tileiras.targets import Target
from tileiras.targets.pipe_protocol import ACCUMULATOR_LOADS, OPERAND_STORES, PRODUCTS, RUNS, STORES, TENSOR_MEMORY

from .channels import Channel
from .further import Further
from .rules.chained_dots import ChainedDot, ChainedLoop, ChainedPlan, FixedOperand, plan_chained_dots, reads_of
from .rules.dot import dot_shares, end_before_release, open_before, outlive_agents, replace_stage
from .split import Agent, AgentProgram, Remainder, drop_unchanged, serial_loop, split


def chained_dot_agent(
    switch: AgentSwitchOp, func: aa.FuncOp, target: Target, dots: list[tileas.TensorDotOp]
) -> Further | None:
    """The agent of dots of the first agent of a switch, which computes; None where threads do not compute between them.
    Raises CannotSpecialize, with the reason."""
    plan = plan_chained_dots(func, switch, dots)
    if plan is None:
        return None
    reason = Reason("agents.dots-ahead")
    return Further(lambda: _separate(switch, plan), dot_shares(switch, func), reason, plan.loops[0].loop)


def _separate(switch: AgentSwitchOp, plan: ChainedPlan) -> AgentSwitchOp:
    dots = _ChainedDots(switch, plan)
    new = split(switch, dots)
    work, program = new.agents[0].block, new.agents[-1].block
    for loop, slots in dots.overlapping:
        rotate(loop, slots, lambda _: ())
    _drop_first_tails(program)
    _release_no_further(program)
    mark_fresh(program)
    mark_fresh(work)
    return new


class ChainedPipe(Channel):
    """A pipe between the agent that multiplies and threads that compute: of accumulators, of operands with the
    accumulators that they add to, or of an operand that does not change.  `own`: its buffers in tensor memory that the
    pipe allocates."""

    __slots__ = ("fills", "own")

    def __init__(
        self, buffers: list[Value], own: list[Value], kinds: tuple[str, str], builder: Builder, groups: int = 1
    ) -> None:
        super().__init__(builder, buffers, 1, kinds, groups=groups)
        self.own = own
        self.fills = kinds[0] == PRODUCTS
        """Whether dots fill its stages."""


class _ChainedDots(Agent[ChainedPipe]):
    """The loops of dots of a plan."""

    def __init__(self, switch: AgentSwitchOp, plan: ChainedPlan) -> None:
        builder = Builder.before(switch)
        builder.location = switch.location
        self._memory, base = open_before(switch)
        dots = [dot for each in plan.loops for dot in each.dots]
        self._shared = list(dict.fromkeys(buffer for dot in dots for buffer in dot.buffers[1:]))
        for buffer in self._shared:
            outlive_agents(buffer, builder)
        self._plan = plan
        self._loops = {each.loop: each for each in plan.loops}
        self._copies = [*(copy for each in plan.fixed for copy in each.copies), *plan.held.copies]
        self._moved = {*plan.held.waits, *self._copies, *plan.held.releases}
        self._runs = {loop: bool(trip_count(loop)) for loop in self._loops}
        """Whether a loop is known to run."""
        self._by_loop: dict[Operation, list[ChainedPipe]] = {}
        """A pipe for each dot of a loop; loops of a kind share theirs."""
        self._fixed: dict[Value, ChainedPipe] = {}
        """Buffer of an operand that does not change -> its pipe."""
        self._operands = {each.buffer: each for each in plan.fixed}
        self._fills = {each.fill: each.buffer for each in plan.fixed}
        self._held: dict[Value, Value] = {}
        """Buffer of an operand that does not change -> the token of the wait for it."""
        self.overlapping: list[tuple[scf.ForOp, dict[Operation, tuple[int, int]]]] = []
        """Loops, and stages and places of their operations."""
        super().__init__(plan.slice, self._pipes(base, builder))

    def _pipes(self, base: Value, builder: Builder) -> list[ChainedPipe]:
        plan = self._plan
        of_kind: dict[Any, list[ChainedPipe]] = {}
        for each in plan.loops:
            if each.kind not in of_kind:
                pipes = of_kind[each.kind] = []
                for dot in each.dots:
                    over = pipes[0].own[0] if plan.shares_columns and not dot.is_ahead else None
                    pipes.append(self._pipe(dot, base, over, builder))
            self._by_loop[each.loop] = of_kind[each.kind]
        for operand in plan.fixed:
            alloc: Any = operand.buffer.defining_op
            builder.location = alloc.location
            builder.insert(alloc.detach())
            filled = STORES if isinstance(operand.fill, tileas.StoreTensorOp) else RUNS
            self._fixed[operand.buffer] = ChainedPipe([operand.buffer], [], (filled, TENSOR_MEMORY), builder)
        return [*(pipe for pipes in of_kind.values() for pipe in pipes), *self._fixed.values()]

    def _pipe(self, dot: ChainedDot, base: Value, over: Value | None, builder: Builder) -> ChainedPipe:
        """The pipe of a dot, with a buffer of its own, which lies where another one does where it is `over` it."""
        builder.location = dot.dot.location
        type: Any = dot.buffers[0].type
        if over is not None:
            type = _apart(type, over.type, self._plan.groups)  # type: ignore[arg-type]
        own = builder.insert(tileas.TensorAllocOp(base, over, result=type)).results[0]
        kinds = (PRODUCTS, ACCUMULATOR_LOADS) if dot.is_ahead else (OPERAND_STORES, TENSOR_MEMORY)
        return ChainedPipe([own, *dot.buffers[1:]], [own], kinds, builder, self._plan.groups)

    def fills(self, pipe: ChainedPipe) -> bool:
        return pipe.fills

    def of(self, op: Operation) -> Sequence[ChainedPipe]:
        return [self._fixed[self._fills[op]]] if op in self._fills else self._by_loop.get(op, ())

    # -- the agent that multiplies -------------------------------------------------------------------------------------

    def takes(self, op: Operation) -> bool:
        return op in self._loops or op in self._moved

    def execute(
        self, op: Operation, program: AgentProgram[ChainedPipe], builder: Builder, at: dict[ChainedPipe, Value]
    ) -> None:
        each = self._loops.get(op)
        if each is None:
            fixed = self._operands.get(op.buffer) if op in self._copies else None  # type: ignore[attr-defined]
            if fixed is not None:
                self._wait_for(fixed, builder, at)
            builder.insert(op.clone(program.values))
            return
        operands = [fixed for fixed in self._plan.fixed if each.loop in fixed.loops]
        for fixed in operands:
            self._wait_for(fixed, builder, at)
        self._multiply(each, program, builder, at)
        for fixed in operands:
            if fixed.loops[-1] is each.loop:
                builder.insert(tileas.ConsumerReleaseOp(self._held.pop(fixed.buffer)))

    def _wait_for(self, fixed: FixedOperand, builder: Builder, at: dict[ChainedPipe, Value]) -> None:
        if fixed.buffer not in self._held:
            pipe = self._fixed[fixed.buffer]
            self._held[fixed.buffer] = pipe.begin(builder, at, False)
            pipe.advance(builder, at)

    def _multiply(
        self, each: ChainedLoop, program: AgentProgram[ChainedPipe], builder: Builder, at: dict[ChainedPipe, Value]
    ) -> None:
        """Emit the loop, with the waits and signals of its dots."""
        loop, pipes, of = each.loop, self._by_loop[each.loop], program.value
        inits = [*(of(loop.init_args[n]) for n in each.carried), *(at[pipe] for pipe in pipes)]
        bounds = [of(value) for value in (loop.lower_bound, loop.upper_bound, loop.step)]
        body = Block([bounds[0].type, *(value.type for value in inits)])
        values = dict(program.values)
        values[loop.induction_variable] = body.arguments[0]
        values.update(zip((loop.iter_args[n] for n in each.carried), body.arguments[1:]))
        iterators = dict(zip(pipes, body.arguments[1 + len(each.carried) :]))
        inner = Builder.at_end(body, loop.location)
        by_dot = {dot.dot: (dot, pipe) for dot, pipe in zip(each.dots, pipes)}
        stages: dict[Operation, tuple[int, int]] = {}
        """Operation -> its stage, and the group of warps that it is for."""
        stage_of, shares_columns, groups = _stages(each), self._plan.shares_columns, self._plan.groups
        for op in each.moved:
            inner.location = op.location
            if op in by_dot:
                dot, pipe = by_dot[op]
                operand_pipe = pipes[1] if shares_columns and dot.is_ahead else None
                tail = None if operand_pipe is None else (operand_pipe.producer, iterators[operand_pipe])
                for group, emitted in _issue(dot, pipe, tail, groups, values, iterators, inner):
                    stages[emitted] = stage_of[op], group
            else:
                last = groups - 1 if isinstance(op, tileas.ConsumerReleaseOp) else 0
                stages[inner.insert(op.clone(values))] = stage_of[op], last
        ends = [values.get(end := loop.yield_op.operands[n], end) for n in each.carried]
        inner.insert(scf.YieldOp.create([*ends, *(iterators[pipe] for pipe in pipes)]))
        new = serial_loop(loop, bounds, inits, body)
        builder.insert(new)
        program.values.update(zip((loop.results[n] for n in each.carried), new.results))
        at.update(zip(pipes, new.results[len(each.carried) :]))
        # Dots of the next iteration come first, in program order; unless they overwrite operands of others: then they
        # follow these, and both dots of one group of warps precede those of the next group.
        def order(op: Operation) -> tuple[int, int]:
            stage, group = stages[op]
            return (group, -stage) if shares_columns else (stage, 0)

        places = sorted(stages, key=order)
        self.overlapping.append((new, {op: (stages[op][0], place) for place, op in enumerate(places)}))

    # -- the agent that computes ---------------------------------------------------------------------------------------

    def begin(self, work: Block) -> None:
        for each in self._loops.values():
            _pass_by(each)
        # The agent that multiplies takes the stages of rings of outer loops.
        stages = self._plan.held
        for op in (*stages.releases, *stages.waits):
            op.erase()
        for step in stages.steps:
            step.results[0].replace_all_uses_with(step.iterator)
            step.erase()
        drop_unchanged(list(self._loops), work)
        _drop_waits_for_copies(work, set(self._fixed))

    def end(self, work: Block) -> None:
        for copy in self._copies:
            _erase_with_views(copy)
        buffers = dict.fromkeys((*self._shared, *(buffer for pipe in self.pipes for buffer in pipe.own)))
        fixed = (each for each in self._fixed if not any(isinstance(u, tileas.DeallocTensorOp) for u in each.users))
        end_before_release(self._memory, [*buffers, *fixed], work)

    def hands_over(self, op: Operation) -> bool:
        if isinstance(op, tileas.DeallocTensorOp):
            return op.buffer in self._fixed
        return isinstance(op, tileas.TensorWaitOp) or bool(self.of(op))

    def hand_over(
        self, op: Any, rest: Remainder[ChainedPipe], at: dict[ChainedPipe, Value], runs_once: bool
    ) -> None:
        if isinstance(op, tileas.TensorWaitOp):
            self._wait(op, at)
        elif isinstance(op, tileas.DeallocTensorOp):
            self._give_back(op, at)
        elif op in self._fills:
            self._fill(op, at)
        else:
            self._loop(op, at)

    def _wait(self, wait: tileas.TensorWaitOp, at: dict[ChainedPipe, Value]) -> None:
        """After a loop: for all dots that add to an accumulator of its own."""
        builder = Builder.before(wait)
        builder.location = wait.location
        for pipe in self.pipes:
            if pipe.producer.defining_op.kinds[0] == OPERAND_STORES:  # type: ignore[union-attr]
                builder.insert(tileas.ProducerTailOp(pipe.producer, at[pipe]))
        wait.erase()

    def _fill(self, fill: Operation, at: dict[ChainedPipe, Value]) -> None:
        pipe = self._fixed[self._fills[fill]]
        builder, behind = Builder.before(fill), Builder.after(fill)
        builder.location = behind.location = fill.location
        pipe.end(behind, pipe.begin(builder, at, True), at, True)

    def _give_back(self, dealloc: tileas.DeallocTensorOp, at: dict[ChainedPipe, Value]) -> None:
        """Operations that overwrite an operand follow the dots that read it, as threads do once they have loaded the
        results of these.  In a loop over tiles the operand keeps its place."""
        builder = Builder.before(dealloc)
        builder.location = dealloc.location
        if next(iter(scf.loops_around(dealloc)), None) is not None:
            dealloc.erase()
        elif not any(self._runs[loop] for loop in self._operands[dealloc.buffer].loops):
            pipe = self._fixed[dealloc.buffer]
            builder.insert(tileas.ProducerTailOp(pipe.producer, at[pipe]))

    def _loop(self, loop: scf.ForOp, at: dict[ChainedPipe, Value]) -> None:
        each, pipes, block = self._loops[loop], self._by_loop[loop], loop.body.block
        inner = {pipe: block.add_argument(at[pipe].type, loop.location) for pipe in pipes}
        for dot, pipe in zip(each.dots, pipes):
            _hand_on(dot, pipe, self._plan.shares_columns, inner)
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


def _apart(
    type: tileas.TensorBufferType, over: tileas.TensorBufferType, groups: int
) -> tileas.TensorBufferType:
    """An A whose rows of each group of warps lie in the first columns of those of the accumulator that it is over."""
    tile, layout = type.tile, type.tile.encoding
    free = log2_exact(over.columns // type.columns)
    own = len(layout.column) - log2_exact(groups)
    column = (*layout.column[:own], *[(0,) * len(tile.shape)] * free, *layout.column[own:])
    encoding = tileas.TensorLayoutAttr(layout.lane, column, layout.element)
    return tileas.TensorBufferType(TensorType(tile.shape, tile.element_type, encoding))


# ---- the agent that multiplies ---------------------------------------------------------------------------------------


def _stages(each: ChainedLoop) -> dict[Operation, int]:
    """Operation that moves -> its stage: 1 for dots of tiles that threads store and for operations that only these
    use."""
    value: dict[Operation, int] = {dot.dot: int(not dot.is_ahead) for dot in each.dots}
    stages = dict(value)
    moving_on = [op for op in each.moved if isinstance(op, tileas.IncIterOp)]
    for op in reversed([op for op in each.moved if op not in value and op not in moving_on]):
        if isinstance(op, (tileas.ConsumerWaitOp, tileas.ConsumerReleaseOp)):
            # A stage is held from its first reader to its last one, which need not be of one part.
            buffers = pipe_of(op.token).buffers  # type: ignore[union-attr]
            readers = [value[dot] for dot in value if reads_of(dot, buffers)]
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
    """Emit a dot, by groups of warps, between the wait for its stage and the signal after it; yields the group of each
    operation.  Where it overwrites operands of others, it follows the wait for the `tail` of their pipe."""
    at = iterators[pipe]
    flag = None if tail is None else UnitAttr()
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
            begin = builder.insert(tileas.ProducerAcquireOp(pipe.producer, at, known=flag, group=group))
            end = tileas.ProducerCommitOp(begin.results[0], group=group)
        else:
            begin = builder.insert(tileas.ConsumerWaitOp(pipe.consumer, at, group=group))
            end = tileas.ConsumerReleaseOp(begin.results[0], group=group)
        dot = builder.insert(each.dot.clone(values))
        if group is not None:
            dot.attributes["group"] = group
        yield from ((number, op) for op in (begin, dot, builder.insert(end)))


def _drop_first_tails(program: Block) -> None:
    """Remove the waits for the readers of stages that have not been read so far."""
    for op in [inner for outer in program.operations for inner in outer.walk()]:
        if isinstance(op, tileas.ProducerTailOp) and isinstance(op.iterator.defining_op, tileas.CreateIteratorOp):
            op.erase()


def _release_no_further(program: Block) -> None:
    """Mark the last release of a stage that another agent would fill again, if no later operation waits for it."""
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


def _hand_on(each: ChainedDot, pipe: ChainedPipe, shares_columns: bool, at: dict[ChainedPipe, Value]) -> None:
    """Insert the threads' wait for the stage of a pipe in an iteration, and their signal after it.  Where the tile
    that they store alternates with scores, its signal also says that they have loaded the scores, and the scores of the
    next iteration show that the tile has been read."""
    flag = UnitAttr() if shares_columns else None
    fills = not each.is_ahead
    before, behind = Builder.before(each.first), Builder.after(each.last)
    before.location, behind.location = each.first.location, each.last.location
    token = pipe.begin(before, at, fills, **({"known": flag} if fills else {}))
    pipe.end(behind, token, at, fills, **({} if fills else {"known": flag}))
    old = each.buffers[0]
    replace_stage(old, pipe.buffers[0], [user for user in old.users if user is not each.dot])


def _counts(each: ChainedLoop) -> list[int]:
    """The numbers of the groups that a loop carries."""
    loop, counts = each.loop, {dot.commit.count for dot in each.dots if dot.commit is not None}
    return [n for n, value in enumerate(loop.iter_args) if value in counts]


def _pass_by(each: ChainedLoop) -> None:
    """Replace the numbers and iterators after the dots of a loop by those before it."""
    loop = each.loop
    for dot in each.dots:
        if dot.commit is not None:
            dot.commit.result.replace_all_uses_with(dot.commit.count)
    for number in (*each.carried, *_counts(each)):
        loop.results[number].replace_all_uses_with(loop.init_args[number])


def _erase_with_views(op: Operation) -> None:
    """Remove an operation and the views of its result, which nothing else uses any more."""
    for user in list(op.results[0].users):
        _erase_with_views(user)
    op.erase()


def _drop_waits_for_copies(work: Block, buffers: set[Value]) -> None:
    """Remove the waits for copies into buffers of pipes, whose mbarriers signal their arrival, if there are no other
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
