"""A kernel whose loads run ahead becomes two agents: one that loads, and one that does everything else.

    scf.for %i = ... {                     agent that computes                agent that loads
      %a = load ...                          scf.for %i = ... {                 scf.for %i = ... {
      %b = load ...              ->            consumer_wait                      producer_acquire
      %d = dot %a, %b, ...                     dot of the stage                   copies into the stage
      ...                                      consumer_release                   producer_commit
    }                                        }                                  }

Where a dot may be in flight when the next iteration begins, the stage that it reads is released after the next
iteration's dot.  Pipes run on through the loops around: iterators are handed from one run of a loop to the next, and
from a loop to a later one that continues with its ring.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from tileiras import schedule
from tileiras.analysis.copied_loads import moves_with_conversion
from tileiras.analysis.derivations import erase_unused, uses_through
from tileiras.analysis.dots_in_flight import is_of_warpgroups
from tileiras.analysis.function_pass import FunctionPass
from tileiras.analysis.pipes import pipe_of, protocol_of
from tileiras.analysis.ranges import RangeAnalysis
from tileiras.diagnostics import DiagnosticEngine
from tileiras.diagnostics.remarks import Remark
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.dialects.arith.build import compare
from tileiras.dialects.nv_tileas.agents import AgentSwitchOp, YieldOp
from tileiras.dialects.nv_tileas.attributes import LOAD
from tileiras.ir import Attribute, Block, Builder, DenseArrayAttr, IntegerAttr, Operation, Region, UnitAttr, Value, i32
from tileiras.layout import LinearLayout
from tileiras.layout.encoding import layout_of, with_layout
from tileiras.reasons import Reason
from tileiras.schedule.dependence_graph import rolled_dots
from tileiras.schedule.induction_variable import LoopCounter
from tileiras.schedule.materialize.box_ring import box_coordinates
from tileiras.schedule.materialize.cluster_tiles import ClusterTiles
from tileiras.schedule.materialize.cluster_trips import most_trips
from tileiras.schedule.schedule_analysis import is_published, slot_attributes
from tileiras.schedule.staging import StagedLoad, read_in, start_copy
from tileiras.schedule.tensor_boxes import is_multicast
from tileiras.targets import Target

from .channels import Pipe, Pipes, Ring, copy_box
from .load_plan import LoadPlan, leave_plain, plan_loads
from .partition import marked
from .slice import CannotSpecialize
from .split import Agent, AgentProgram, Remainder, split

if TYPE_CHECKING:
    from tileiras.ir.pass_manager import PassContext


class MaterializeSchedule(FunctionPass):
    name = "tileas-materialize-schedule"
    optional = True
    schedules = True
    requires = "SCHEDULED"
    needs = "schedules"
    establishes = "agents, and pipes between them, where a loop's loads go to an agent of their own"
    keeps = "values, token order, other functions"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        specialize(func, gpu, context.engine)


def specialize(func: aa.FuncOp, target: Target, engine: DiagnosticEngine | None = None) -> None:
    """Split a function of nv_tileas into agents, in place, if loads of its loops are marked for one.

    Where that cannot be, these loops are left to the plain schedule, with a remark.
    """
    loads = marked(func.body.blocks[0], LOAD)
    around = {load.parent_op for load in loads}
    loops: list[Any] = [op for op in func.walk() if op in around]
    if not loops:
        return
    try:
        plan = plan_loads(func, target, loops)
    except CannotSpecialize as error:
        leave_plain(loops, target, engine)
        if engine is not None:
            engine.emit(Remark(Reason("agents.not-split", cause=error.reason), error.op.location))
        return
    for load in loads:
        for name in (tileas.PARTITION, tileas.RUNS_AHEAD, tileas.STAGES):
            load.attributes.pop(name, None)
    _split(func, plan)


def _split(func: aa.FuncOp, plan: LoadPlan) -> None:
    """Make the agents, which have as many warps as the kernel has."""
    entry = func.body.blocks[0]
    end = entry.last
    assert end is not None
    work, location = Block(), plan.loops[0].loop.location
    for op in entry.operations:
        if op is not end and op not in plan.slice.outside:
            work.append(op.detach())
    builder = Builder.before(end)
    loads = _Loads(func, plan, builder)
    Builder.at_end(work, location).insert(YieldOp.create(()))
    builder.location = location
    count = {"num_agents_per_group": DenseArrayAttr(i32, [1])}
    switch = AgentSwitchOp.create((), (), count, [Region([work])], location=location)
    builder.insert(switch)
    switch = split(switch, loads)
    for ring in reversed(loads.pipes):
        for buffer in reversed(ring.buffers):
            builder.insert(tileas.DeallocTensorOp(buffer))
    func.attributes[tileas.BLOCK_WARPS] = IntegerAttr(len(switch.agents) * func.kernel_spec.num_warps, i32)


class _Loads(Agent[Ring]):
    """The loads of the loops of a plan."""

    def __init__(self, func: aa.FuncOp, plan: LoadPlan, builder: Builder) -> None:
        self._uses = uses = Pipes(plan.loops, builder)
        super().__init__(plan.slice, uses.rings)
        by_loop = {each.loop: most_trips(func, each, builder) for each in plan.loops}
        self._most: Mapping[Operation, Value] = {loop: trips for loop, trips in by_loop.items() if trips is not None}
        """The largest trip count of a loop among the tile blocks of a cluster, where they differ."""
        self._tiles = ClusterTiles(func)
        for pipe in uses.all:
            if self._tiles.may_differ(pipe):
                pipe.ring.op.attributes["alone"] = UnitAttr()
        self._atom = plan.atom
        self._loads: dict[Operation, tuple[Pipe, int, StagedLoad]] = {}
        for pipe in uses.all:
            for number, staged in enumerate(pipe.plan.loads):
                self._loads[staged.load] = pipe, number, staged
        self._acquired: dict[Pipe, Value] = {}
        self._stages: dict[Pipe, Value] = {}
        self._ranges = RangeAnalysis()
        self._overlapping: list[scf.ForOp] = []
        """Loops whose operations have stages."""
        self._ended: dict[Operation, list[Ring]] = {}
        """Loop that runs once -> the rings whose last user it is."""

    def of(self, op: Operation) -> Sequence[Ring]:
        return [pipe.ring for pipe in self._uses.of(op)]

    # -- the agent that loads ------------------------------------------------------------------------------------------

    def takes(self, op: Operation) -> bool:
        return op in self._loads

    def trips(self, loop: scf.ForOp) -> Value | None:
        """The agent copies as often as the tile block of the cluster with the largest trip count."""
        return self._most.get(loop)

    def before(self, loop: scf.ForOp, program: AgentProgram[Ring], builder: Builder) -> None:
        for pipe in self._uses.of(loop):
            self._tiles.compare(pipe, builder, program.values)

    def execute(self, load: Operation, program: AgentProgram[Ring], builder: Builder, at: dict[Ring, Value]) -> None:
        pipe, number, staged = self._loads[load]
        ring = pipe.ring
        if number == 0:
            self._acquired[pipe] = ring.begin(builder, at, True, together=self._tiles.pipes.get(pipe))
            if not pipe.descriptors:
                self._stages[pipe] = builder.insert(tileas.GetStageOp(at[ring], result=i32)).results[0]
        if pipe.descriptors:
            coords = box_coordinates(builder, staged.load, program.value, self._ranges)
            acquired, same = self._acquired[pipe], self._tiles.loads.get(load)
            copy_box(builder, pipe.descriptors[number], coords, acquired, number, is_multicast(staged), same)
        else:
            buffer, stage = ring.buffers[number], self._stages[pipe]
            start_copy(builder, staged.load, buffer, stage, None, self._atom, program.value)
        if number + 1 == len(ring.buffers):
            ring.end(builder, self._acquired.pop(pipe), at, True)

    def finish(self, builder: Builder, at: dict[Ring, Value]) -> None:
        for ring in self.pipes:
            if protocol_of(ring.op).is_of_pair or ring.op.is_freed_by_all:
                builder.insert(tileas.ProducerTailOp(ring.producer, at[ring]))

    # -- the agent that computes ---------------------------------------------------------------------------------------

    def hand_over(self, loop: scf.ForOp, rest: Remainder[Ring], at: dict[Ring, Value], runs_once: bool) -> None:
        """Has a loop with loads read stages of their pipes."""
        rings, own = self.inside(loop), self._uses.of(loop)
        late_pipes = [pipe for pipe in own if pipe.plan.held]
        block = loop.body.block
        inner = {ring: block.add_argument(at[ring].type, loop.location) for ring in rings}
        tokens = {pipe: block.add_argument(pipe.ring.consumer.type, loop.location) for pipe in late_pipes}
        rest.block(block, inner)
        waited = {pipe: _Stage(pipe, inner[pipe.ring], loop) for pipe in own}
        readers = {pipe: stage.read() for pipe, stage in waited.items()}
        for pipe, last in readers.items():
            if not pipe.plan.held:
                _release(last, waited[pipe].token)
        for pipe, last in readers.items():
            if pipe.plan.held:
                _release_later(_at_or_before(block, last), loop, tokens[pipe])
        most = self._most.get(loop)
        end: Any = block.last
        tail = Builder.before(end)
        tail.location = loop.location
        for pipe in own:
            inner[pipe.ring] = tail.insert(tileas.IncIterOp(inner[pipe.ring])).results[0]
        end.operands = (*end.operands, *(inner[ring] for ring in rings), *(waited[pipe].token for pipe in late_pipes))
        count = len(loop.results)
        ends = [*(at[ring] for ring in rings), *(pipe.ring.consumer for pipe in late_pipes)]
        new = loop.replace_with_additional_yields(ends)
        if is_published(new):
            self._overlapping.append(new)
            self._ended[new] = [pipe.ring for pipe in own if runs_once and pipe.ring.last is loop and most is None
                                and not pipe.ring.op.is_freed_by_all]  # fmt: skip
        handed_on = new.results[count:]
        at.update(zip(rings, handed_on))
        if not any(pipe.plan.held for pipe in own):
            new.attributes.pop(tileas.DOTS_IN_FLIGHT, None)
        # No stage is filled again after the last loop, but other CTAs may wait for the last release before they exit.
        # Where iterations overlap, the last wait is after it.
        again = [token for pipe, token in zip(late_pipes, handed_on[len(rings) :])
                 if not runs_once or pipe.ring.last is not loop or is_published(new) or most is not None
                 or pipe.ring.op.is_freed_by_all]  # fmt: skip
        if most is not None:
            schedule.materialize.cluster_trips.give_back_rest(new, most, own, at)
        if again:
            _release_last(new, again)

    def end(self, work: Block) -> None:
        for loop in self._overlapping:
            block = loop.parent
            schedule.agents.pipe_slots.overlap_around_pipes(loop)
            # No stage is filled again after the last loop, where the last iterations now end.
            for ring in (ring for ring in self.pipes if ring in self._ended.get(loop, ())):
                _mark_last_releases(block, ring)


class _Stage:
    """The stage of a pipe that an iteration of a loop reads: waited for before the first use of one of its tiles."""

    def __init__(self, pipe: Pipe, iterator: Value, loop: scf.ForOp) -> None:
        self._pipe = pipe
        self._block = loop.body.block
        self._first = first = self._first_use()
        builder = Builder.before(first)
        builder.location = first.location
        self.token = builder.insert(tileas.ConsumerWaitOp(pipe.ring.consumer, iterator)).results[0]
        self._number = builder.insert(tileas.GetStageOp(iterator, result=i32)).results[0]
        self._end: Operation = self._number.defining_op
        """The last of the operations that give tiles."""

    def _first_use(self) -> Operation:
        users: list[Operation] = []
        for staged in self._pipe.plan.loads:
            users += _uses(staged.load.data, {leaf.convert for leaf in staged.leaves})
        first_use = [op for user in users if (op := self._block.find_ancestor_op(user)) is not None]
        return _outermost(first_use, first=True)

    def read(self) -> Operation:
        """Replace the loads by copies of the stage; return the operation after which all have been read."""
        copies: list[Operation] = []
        for staged, buffer in zip(self._pipe.plan.loads, self._pipe.ring.buffers):
            copies += self._read(staged, buffer)
        tiles = [copy.results[0] for copy in copies]
        readers = (*copies, *(dot for tile in tiles for dot in (*_dots(tile), *rolled_dots(tile))))
        # Dots may be in a loop or a branch of the iteration.
        return _outermost([place for op in readers if (place := self._block.find_ancestor_op(op)) is not None])

    def _read(self, staged: StagedLoad, buffer: Value) -> list[Operation]:
        load = staged.load
        result: dict[tuple[LinearLayout, Attribute | None], Operation] = {}

        def reading(layout: LinearLayout, reader: Operation) -> Value:
            """The tile in a layout, when an operation reads it."""
            op = reader if reader.parent is self._block else self._block.find_ancestor_op(reader)
            slot = slot_attributes(op) or slot_attributes(load)
            key = layout, slot.get(tileas.AWS_STAGE)
            if key not in result:
                type = with_layout(load.data.type, layout)
                copy = tileas.CopyOp(buffer, self._number, result=type, location=load.location)
                copy.attributes.update(slot)
                self._block.insert_before(copy, self._end.next)
                self._end = result[key] = copy
            return result[key].results[0]

        for leaf in staged.leaves:
            layout = layout_of(leaf.convert.result.type)
            read_there, slot = partial(reading, reader=leaf.convert), slot_attributes(leaf.convert)
            value = read_in(leaf.convert.operand, layout, load, read_there, self._first, slot)
            leaf.convert.replace_all_uses_with((value,))
            leaf.convert.erase()
        erase_unused(load.data)
        for user in list(load.data.users):
            load.data.replace_uses_in(reading(staged.writer, user), [user])
        if load.result_token.has_uses:
            # The stage is full once the copies into it have landed: operations ordered after the load wait for no more.
            load.result_token.replace_all_uses_with(self._order(load))
        load.erase()
        return list(result.values())

    def _order(self, load: Any) -> Value:
        if load.token is not None:
            return load.token
        builder = Builder.before(load)
        builder.location = load.location
        return builder.insert(tileas.CreateMemTokenOp(result=aa.MemTokenType())).results[0]


def _uses(tile: Value, converts: set[Operation]) -> list[Operation]:
    """The operations that use a tile of a load where they stand: neither conversions, which are replaced by reads in
    their layout, nor operations that lead only to conversions, which are recomputed there."""
    uses: list[Operation] = []
    for user, _ in uses_through(tile, lambda user: _moves(user, converts) and not _leads_elsewhere(user, converts)):
        uses += user.results[0].users if user in converts else [user]
    return uses


def _leads_elsewhere(op: Operation, converts: set[Operation]) -> bool:
    """Whether the result of an operation has a use that leads to no conversion in `converts`."""
    return any(user not in converts for user, _ in uses_through(op.results[0], lambda user: _moves(user, converts)))


def _moves(op: Operation, converts: set[Operation]) -> bool:
    return op not in converts and moves_with_conversion(op)


def _outermost(operations: list[Operation], first: bool = False) -> Operation:
    """The first or the last of operations of a block."""
    result = operations[0]
    for op in operations[1:]:
        if op is not result and op.is_before_in_block(result) is first:
            result = op
    return result


def _dots(tile: Value) -> list[Operation]:
    """The dots that read a tile, perhaps under another shape."""
    uses = uses_through(tile, lambda user: isinstance(user, tileas.VIEW_LIKE))
    return [user for user, _ in uses if isinstance(user, tileas.DOTS)]


# ---- release ---------------------------------------------------------------------------------------------------------


def _release(last: Operation, token: Value) -> None:
    """Release the stage of this iteration after the last operation that reads it."""
    builder = Builder.after(last)
    builder.location = last.location
    builder.insert(tileas.ConsumerReleaseOp(token))


def _at_or_before(block: Block, last: Operation) -> Operation:
    """The operation of an iteration after which the dots of the previous one may be waited for: its first dot has been
    issued to the tensor cores by then, and where that one is waited for itself, all earlier dots complete without a
    further wait.  `last`: the default where there is no dot of warpgroups."""
    place = next((op for op in block.operations if is_of_warpgroups(op)), last)
    while isinstance(place.next, tileas.ConsumerReleaseOp):
        place = place.next
    return place


def _release_later(place: Operation, loop: scf.ForOp, token: Value) -> None:
    """Release the stage of the previous iteration, if there was one, after an operation."""
    builder = Builder.after(place)
    builder.location = place.location
    later = compare(builder, "ne", loop.induction_variable, loop.lower_bound)
    _release_if(builder, later, token)


def _release_last(loop: scf.ForOp, tokens: Sequence[Value]) -> None:
    """Release the stages that the last iteration of a loop still holds, if there was one."""
    builder = Builder.after(loop)
    builder.location = loop.location
    ran = LoopCounter(loop).runs(builder)
    for token in tokens:
        _release_if(builder, ran, token)


def _mark_last_releases(block: Block, ring: Ring) -> None:
    """Mark the releases of a ring's stages after all loops, and after branches with loops, as not waited for, up to
    the number of stages of the ring.  Where the last loop is in a branch, the releases after it in that branch are
    included."""
    releases: list[Operation] = []
    op = block.last
    while op is not None:
        if any(isinstance(inner, (scf.ForOp, scf.WhileOp)) for inner in op.walk()):
            # Overlapping iterations whose number is not known are in a branch: there may be none.
            op = op.then_region.block.last if isinstance(op, scf.IfOp) else None
            continue
        first = op.then_region.block.first if isinstance(op, scf.IfOp) else op
        if isinstance(first, tileas.ConsumerReleaseOp) and pipe_of(first.token) is ring.consumer.defining_op:
            releases.append(first)
        op = op.prev
    pipe: Any = ring.consumer.defining_op
    if len(releases) <= pipe.num_stages.value:
        for release in releases:
            release.attributes["last"] = UnitAttr()


def _release_if(builder: Builder, condition: Value, token: Value) -> None:
    body = Block()
    inner = Builder.at_end(body, builder.location)
    inner.insert(tileas.ConsumerReleaseOp(token))
    inner.insert(scf.YieldOp.create(()))
    builder.insert(scf.IfOp.create((condition,), (), {}, (Region([body]), Region())))
