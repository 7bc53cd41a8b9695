"""The agent of dots into tensor memory: loops of dots that are nested in a loop over tiles.

    for %tile ... {                        agent that computes              agent that multiplies
      %t = alloc                             for %tile ... {                  for %tile ... {
      for %k ... { dot ... into %t }           consumer_wait                    producer_acquire
      commit                         ->        load of the stage                for %k ... { dot into the stage }
      wait {pending = 0}                       consumer_release                 producer_commit
      %x = load %t                             ...                            }
      ...                                    }
    }

The stages of the pipe are accumulators.  The agent executes the loops of dots as they stand, with their waits for tiles
and their releases, and multiplies for the next tile while the warps that compute load, convert and store the current
one.  That takes two accumulators.  With one, the agent would begin once the previous tile has been loaded, as these
warps do without an agent: with rings of two stages a persistent multiplication with tiles of 256x256 takes 107.3 us on
B200 in this way, by our estimate, and 106.3 without the agent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tileiras.analysis.derivations import uses_through
from tileiras.analysis.one_thread import is_done_by_one_thread
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.dialects.arith.build import integer
from tileiras.dialects.nv_tileas.agents import AgentSwitchOp
from tileiras.dialects.nv_tileas.tensor_memory import allocation_of
from tileiras.dialects.nvvm.tensor_memory import MOST_WORDS
from tileiras.ir import Block, Builder, IntegerAttr, Operation, TensorType, Value, i32
from tileiras.layout.encoding import layout_of
from tileiras.layout.linear_layout import log2_exact
from tileiras.layout.tensor_memory import COLUMNS
from tileiras.reasons import Reason
from tileiras.resources.agent_registers import BESIDE_ACCUMULATORS, RegisterShares
from tileiras.schedule.agents.budget import FURTHER_WARPS, further_shares
from tileiras.schedule.agents.channels import Channel
from tileiras.schedule.agents.further import Further
from tileiras.schedule.agents.slice import AgentSlice, CannotSpecialize, is_inside
from tileiras.schedule.agents.split import Agent, AgentProgram, Remainder, drop_unchanged, split
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import Target
from tileiras.targets.pipe_protocol import ACCUMULATOR_LOADS, PAIR_PRODUCTS, PRODUCTS

ACCUMULATORS = 2
"""Used in turn: the one that dots write and the one that is being stored."""


class DotLoop(NamedTuple):
    """A loop whose dots an agent issues, the commit of the group after it unless that has been joined with a later
    one, the accumulators, and the operations of its block between which these are loaded; whether the dots are of a
    pair of CTAs, the number of accumulators used in turn, and the buffers of block scales, by stages of its operands.
    """

    loop: scf.ForOp
    commit: tileas.TensorCommitOp | None
    buffers: list[Value]
    first: Operation
    last: Operation
    is_of_pair: bool = False
    stages: int = ACCUMULATORS
    scales: Sequence[Value] = ()


class DotPlan(NamedTuple):
    """The loops of dots of a kernel, and the operations that their agent repeats."""

    loops: list[DotLoop]
    slice: AgentSlice

def dots_to_issue(program: Block) -> list[Operation]:
    """The dots of a program that the rule chooses: all of those into tensor memory, if one is in a loop over tiles or
    reads a tile that threads have stored there."""
    dots = [op for outer in program.operations for op in outer.walk() if isinstance(op, tileas.TensorDotOp)]
    is_chained = any(isinstance(dot.a.type, tileas.TensorBufferType) for dot in dots)
    return list(dots) if is_chained or any(_is_in_loop(loop) for dot in dots for loop in scf.loops_around(dot)) else []


def dot_agent(
    switch: AgentSwitchOp, func: aa.FuncOp, target: Target, dots: list[tileas.TensorDotOp]
) -> Further | None:
    """The agent of dots of the first agent of a switch, which computes.  Raises CannotSpecialize, with the reason."""
    plan = plan_dots(func, switch, dots)
    reason = Reason("agents.dots-specialized", accumulators=plan.loops[0].stages)
    return Further(lambda: split(switch, _Dots(switch, plan)), dot_shares(switch, func), reason, plan.loops[0].loop)


def plan_dots(func: aa.FuncOp, switch: AgentSwitchOp, dots: list[tileas.TensorDotOp]) -> DotPlan:
    """The plan for dots of the first agent of a switch, which computes, in loops over tiles.  Raises CannotSpecialize,
    with the reason."""
    loops: dict[scf.ForOp, None] = {}
    for dot in dots:
        loop = _outermost(dot)
        if loop is None:
            raise CannotSpecialize(dot, "agents.dot-beside-threads")
        if not _is_in_loop(loop):
            raise CannotSpecialize(loop, "agents.no-loop-over-tiles")
        loops[loop] = None
    result = [_dot_loop(loop) for loop in loops]
    columns = sum(buffer.type.columns for each in result for buffer in each.buffers)  # type: ignore[attr-defined]
    beside = sum(buffer.type.columns for each in result for buffer in each.scales)  # type: ignore[attr-defined]
    columns_in_use, most = ACCUMULATORS * columns + beside, COLUMNS // (func.kernel_spec.occupancy or 1)
    if columns_in_use > most and all(each.is_of_pair for each in result):
        # In one CTA the warps that compute know when they have loaded an accumulator; between two only a pipe signals
        # it.
        result = [each._replace(stages=1) for each in result]
    elif columns_in_use > most:
        raise CannotSpecialize(result[0].loop, "agents.dot-columns", taken=columns_in_use, scales=beside, most=most)
    agent_slice = AgentSlice(switch, set(func.body.blocks[0].operations))
    for each in result:
        agent_slice.take(each.loop, _operands_of(each))
    agent_slice.close()
    return DotPlan(result, agent_slice)


def _outermost(dot: Operation) -> scf.ForOp | None:
    """The outermost loop around a dot that one thread can execute alone."""
    result = None
    for loop in scf.loops_around(dot):
        if isinstance(loop, scf.ForOp) and is_done_by_one_thread(loop):
            result = loop
    return result


def _is_in_loop(loop: Operation) -> bool:
    return next(iter(scf.loops_around(loop)), None) is not None


def _dot_loop(loop: scf.ForOp) -> DotLoop:
    commit = loop.next if isinstance(loop.next, tileas.TensorCommitOp) else None
    dots = [op for op in loop.walk() if isinstance(op, tileas.TensorDotOp)]
    buffers = list(dict.fromkeys(dot.buffer for dot in dots))
    touched: list[Operation] = []
    for buffer in buffers:
        if not isinstance(buffer.defining_op, tileas.TensorAllocOp) or buffer.parent_block is not loop.parent:
            raise CannotSpecialize(loop, "agents.accumulator-outlives")
        for user in _users(buffer):
            if not isinstance(user, (tileas.TensorDotOp, tileas.TensorLoadOp)):
                raise CannotSpecialize(user, "agents.accumulator-written")
            if isinstance(user, tileas.TensorLoadOp):
                around = loop.parent.find_ancestor_op(user)
                if around is None:
                    raise CannotSpecialize(user, "agents.accumulator-loaded-elsewhere")
                touched.append(around)
    if not touched:
        raise CannotSpecialize(loop, "agents.accumulator-unread")
    places = {op: number for number, op in enumerate(loop.parent.operations)}
    touched.sort(key=lambda op: places[op])
    is_of_pair = any(dot.atom.is_of_pair for dot in dots)
    scales = list(dict.fromkeys(allocation_of(each) for dot in dots for each in dot.scales[2:]))
    if any(buffer.parent_block is not loop.parent for buffer in scales):
        raise CannotSpecialize(loop, "agents.scales-outlive")
    return DotLoop(loop, commit, buffers, touched[0], touched[-1], is_of_pair, scales=scales)


def _users(buffer: Value) -> Iterator[Operation]:
    """The operations on a buffer, or on parts of it."""
    for user, _ in uses_through(buffer, lambda user: isinstance(user, tileas.TensorSliceOp)):
        if not isinstance(user, tileas.TensorDeallocOp):
            yield user


def _operands_of(each: DotLoop) -> Iterator[Value]:
    """The values from outside that a loop of dots uses, tokens and accumulators apart."""
    for op in each.loop.walk():
        for value in op.operands:
            if value not in each.buffers and value not in each.scales and not isinstance(value.type, aa.MemTokenType):
                if not is_inside(value, each.loop):
                    yield value


def dot_shares(
    switch: AgentSwitchOp, func: aa.FuncOp, others: int = FURTHER_WARPS, beside: tuple[int, int] = (0, 0)
) -> RegisterShares:
    """Registers with `others` further warps, and with those of an agent `beside` the first one, which needs so many
    registers.  Raises CannotSpecialize where those that compute get too few."""
    shares = further_shares(switch, func, others=others, beside=beside)
    loads = [op for outer in switch.agents[0].operations for op in outer.walk() if isinstance(op, tileas.TensorLoadOp)]
    least = BESIDE_ACCUMULATORS + max((_loaded_at_once(op) for op in loads), default=0)
    if least > shares.entry:
        raise CannotSpecialize(switch, "agents.too-few-at-entry", needed=least, most=shares.entry)
    return shares


def _loaded_at_once(load: tileas.TensorLoadOp) -> int:
    """Registers that one instruction of a load writes."""
    tile = load.result.type
    return min(MOST_WORDS, layout_of(tile).registers * tile.element_type.width // 32)


# ---- the agent -------------------------------------------------------------------------------------------------------


def open_before(switch: AgentSwitchOp) -> tuple[Value, Value]:
    """Reserve the columns of the first agent before all agents, for all of them."""
    work = switch.agents[0].block
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
    """Extend the lifetime of a buffer of the first agent: from before all agents to its deallocation."""
    for user in [user for user in buffer.users if isinstance(user, tileas.TensorDeallocOp)]:
        user.erase()
    builder.insert(buffer.defining_op.detach())


def end_before_release(memory: Value, buffers: Sequence[Value], work: Block) -> None:
    """End buffers of tensor memory, or of shared memory, before the columns are released."""
    release = next(op for op in work.operations if isinstance(op, tileas.TensorReleaseOp) and op.memory is memory)
    for buffer in buffers:
        is_tensor = isinstance(buffer.type, tileas.TensorBufferType)
        dealloc = tileas.TensorDeallocOp if is_tensor else tileas.DeallocTensorOp
        work.insert_before(dealloc(buffer, location=release.location), release)


class AccumulatorPipe(Channel):
    """The pipe of the accumulators of a loop of dots."""

    __slots__ = ("loop",)

    def __init__(self, loop: DotLoop, base: Value, builder: Builder) -> None:
        self.loop = loop
        buffers = []
        for buffer in loop.buffers:
            builder.location = buffer.defining_op.location  # type: ignore[union-attr]
            alloc = tileas.TensorAllocOp(base, result=_in_turn(buffer.type, loop.stages))  # type: ignore[arg-type]
            buffers.append(builder.insert(alloc).results[0])
        dots = PAIR_PRODUCTS if loop.is_of_pair else PRODUCTS
        super().__init__(builder, buffers, loop.stages, (dots, ACCUMULATOR_LOADS))

    def stage(self, builder: Builder, iterator: Value) -> dict[Value, Value]:
        """The accumulators of the stage that an iterator is at, by the buffers that they replace."""
        number = builder.insert(tileas.GetStageOp(iterator, result=i32)).results[0]
        result = {}
        for old, ring in zip(self.loop.buffers, self.buffers):
            coords = [number, *(integer(builder, 0) for _ in ring.type.tile.shape[1:])]
            result[old] = builder.insert(tileas.TensorSliceOp(ring, coords, result=old.type)).results[0]
        return result


def _in_turn(type: tileas.TensorBufferType, stages: int) -> tileas.TensorBufferType:
    """Accumulators in neighbouring columns, as one tile with the rows of all of them."""
    tile, layout = type.tile, type.tile.encoding
    rows, *others = tile.shape
    further = [(rows << bit, *(0 for _ in others)) for bit in range(log2_exact(stages))]
    encoding = tileas.TensorLayoutAttr(layout.lane, (*layout.column, *further), layout.element)
    return tileas.TensorBufferType(TensorType((stages * rows, *others), tile.element_type, encoding))


class _Dots(Agent[AccumulatorPipe]):
    """The loops of dots of a plan, and the pipes of their accumulators."""

    def __init__(self, switch: AgentSwitchOp, plan: DotPlan) -> None:
        builder = Builder.before(switch)
        builder.location = switch.location
        self._memory, base = open_before(switch)
        self._by_loop: dict[Operation, AccumulatorPipe] = {}
        for each in plan.loops:
            self._by_loop[each.loop] = AccumulatorPipe(each, base, builder)
        self._scales = [buffer for each in plan.loops for buffer in each.scales]
        for buffer in self._scales:
            outlive_agents(buffer, builder)
        super().__init__(plan.slice, list(self._by_loop.values()))

    def of(self, op: Operation) -> Sequence[AccumulatorPipe]:
        return [self._by_loop[op]] if op in self._by_loop else ()

    def takes(self, op: Operation) -> bool:
        return op in self._by_loop

    def execute(
        self, loop: Operation, program: AgentProgram[AccumulatorPipe], builder: Builder,
        at: dict[AccumulatorPipe, Value],
    ) -> None:  # fmt: skip
        pipe = self._by_loop[loop]
        token = pipe.begin(builder, at, True)
        program.values.update(pipe.stage(builder, at[pipe]))
        program.repeat(loop, builder)
        pipe.end(builder, token, at, True)

    def finish(self, builder: Builder, at: dict[AccumulatorPipe, Value]) -> None:
        for pipe in self.pipes:
            if pipe.loop.is_of_pair:  # the other CTA arrives here
                builder.insert(tileas.ProducerTailOp(pipe.producer, at[pipe]))

    # -- the agent that computes ---------------------------------------------------------------------------------------

    def begin(self, work: Block) -> None:
        for pipe in self.pipes:
            _pass_by(pipe.loop.loop, pipe.loop.commit)
        drop_unchanged(list(self._by_loop), work)

    def hand_over(
        self, loop: scf.ForOp, rest: Remainder[AccumulatorPipe], at: dict[AccumulatorPipe, Value], runs_once: bool
    ) -> None:
        pipe = self._by_loop[loop]
        builder = Builder.before(pipe.loop.first)
        builder.location = loop.location
        token = pipe.begin(builder, at, False)
        for old, new in pipe.stage(builder, at[pipe]).items():
            replace_stage(old, new, [user for user in old.users if not loop.is_ancestor_of(user)])
        behind = Builder.after(pipe.loop.last)
        behind.location = loop.location
        pipe.end(behind, token, at, False)

    def end(self, work: Block) -> None:
        for pipe in self.pipes:
            pipe.loop.loop.erase()
            if pipe.loop.commit is not None:
                pipe.loop.commit.erase()
            for buffer in pipe.loop.buffers:
                buffer.defining_op.erase()  # type: ignore[union-attr]
        for op in (inner for outer in work.operations for inner in outer.walk()):
            if isinstance(op, tileas.TensorWaitOp):
                op.erase()
        buffers = [buffer for pipe in self.pipes for buffer in pipe.buffers]
        end_before_release(self._memory, [*buffers, *self._scales], work)


def replace_stage(old: Value, new: Value, users: Sequence[Operation]) -> None:
    """Replace a buffer by a stage of a pipe in some operations; the pipe's buffers end elsewhere."""
    for user in users:
        if isinstance(user, tileas.TensorDeallocOp):
            user.erase()
        else:
            old.replace_uses_in(new, [user])


def _pass_by(loop: scf.ForOp, commit: tileas.TensorCommitOp | None) -> None:
    """Replace the results of a loop of dots, and of their commit, by the values before it."""
    for result, value in zip(loop.results, loop.init_args):
        result.replace_all_uses_with(value)
    if commit is not None:
        commit.result.replace_all_uses_with(commit.count)
