"""The program of the agent that computes: the kernel's, with stages of pipes in the place of loads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from tileiras import schedule
from tileiras.analysis.copied_loads import moves_with_conversion
from tileiras.analysis.dots_in_flight import is_of_warpgroups
from tileiras.analysis.pipes import pipe_of
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.dialects.arith.build import compare
from tileiras.ir import Attribute, Block, Builder, Operation, Region, UnitAttr, Value, i32
from tileiras.layout import LinearLayout
from tileiras.layout.encoding import layout_of, with_layout
from tileiras.schedule.agents.channels import Pipe, Pipes, Ring
from tileiras.schedule.dependence_graph import rolled_dots
from tileiras.schedule.induction_variable import LoopCounter
from tileiras.schedule.schedule_analysis import is_published, slot_attributes
from tileiras.schedule.staging import StagedLoad, erase_unused, read_in

Iterators = dict[Ring, Value]


class Consumer:
    """Rewrites the program of a kernel, in place, to take its tiles from pipes."""

    def __init__(self, pipes: Pipes, most: Mapping[Operation, Value] | None = None) -> None:
        self._pipes = pipes
        self._most = most or {}
        """The largest trip count of a loop among the tile blocks of a cluster, where they differ."""
        self._overlapping: list[scf.ForOp] = []
        """Loops whose operations have stages."""
        self._ended: dict[Operation, list[Ring]] = {}
        """Loop that runs once -> the rings whose last user it is."""

    def rewrite(self, work: Block) -> None:
        builder = Builder.at_start(work)
        at = {ring: builder.insert(tileas.CreateIteratorOp(ring.consumer)).results[0] for ring in self._pipes.rings}
        self._block(work, at, runs_once=True)
        if self._overlapping:
            for loop in self._overlapping:
                block = loop.parent
                schedule.agents.pipe_slots.overlap_around_pipes(loop)
                # No stage is filled again after the last loop, where the last iterations now end.
                for ring in (ring for ring in self._pipes.rings if ring in self._ended.get(loop, ())):
                    _mark_last_releases(block, ring)

    def _block(self, block: Block, at: Iterators, runs_once: bool = False) -> None:
        """Rewrites the loops of a block; advances the iterators."""
        for op in block.operations:
            if not self._pipes.inside(op):
                continue
            if isinstance(op, scf.ForOp):
                self._loop(op, at, runs_once)
            elif isinstance(op, scf.WhileOp):
                self._while(op, at)
            else:
                self._branch(op, at, runs_once)

    def _branch(self, branch: Any, at: Iterators, runs_once: bool) -> None:
        rings = self._pipes.inside(branch)
        regions = []
        for region in branch.regions:
            inner = dict(at)
            if not region.blocks:
                region.append(Block())
                Builder.at_end(region.block, branch.location).insert(scf.YieldOp.create(()))
            self._block(region.block, inner, runs_once)
            end = region.block.last
            end.operands = (*end.operands, *(inner[ring] for ring in rings))
            regions.append(Region().take_blocks(region))
        types = [*(result.type for result in branch.results), *(at[ring].type for ring in rings)]
        new = scf.IfOp.create(branch.operands, types, dict(branch.attributes), regions, location=branch.location)
        branch.parent.insert_before(new, branch)
        count = len(branch.results)
        branch.replace_all_uses_with(new.results[:count])
        branch.erase()
        at.update(zip(rings, new.results[count:]))

    def _while(self, loop: scf.WhileOp, at: Iterators) -> None:
        rings = self._pipes.inside(loop)
        types = [at[ring].type for ring in rings]
        for block in (loop.before.block, loop.after.block):
            inner = {ring: block.add_argument(type, loop.location) for ring, type in zip(rings, types)}
            self._block(block, inner)
            end: Any = block.last
            end.operands = (*end.operands, *(inner[ring] for ring in rings))
        operands = (*loop.operands, *(at[ring] for ring in rings))
        regions = [Region().take_blocks(region) for region in loop.regions]
        results = [*(result.type for result in loop.results), *types]
        new = scf.WhileOp.create(operands, results, dict(loop.attributes), regions, location=loop.location)
        assert loop.parent is not None
        loop.parent.insert_before(new, loop)
        count = len(loop.results)
        loop.replace_all_uses_with(new.results[:count])
        loop.erase()
        at.update(zip(rings, new.results[count:]))

    def _loop(self, loop: scf.ForOp, at: Iterators, runs_once: bool) -> None:
        rings, own = self._pipes.inside(loop), self._pipes.of(loop)
        held = [pipe for pipe in own if pipe.plan.held]
        block = loop.body.block
        inner = {ring: block.add_argument(at[ring].type, loop.location) for ring in rings}
        tokens = {pipe: block.add_argument(pipe.ring.consumer.type, loop.location) for pipe in held}
        self._block(block, inner)
        waited = {pipe: _Stage(pipe, inner[pipe.ring], loop) for pipe in own}
        readers = {pipe: stage.read() for pipe, stage in waited.items()}
        for pipe, last in readers.items():
            if not pipe.plan.held:
                _release(last, waited[pipe].token)
        for pipe, last in readers.items():
            if pipe.plan.held:
                _release_later(_begun(block, last), loop, tokens[pipe])
        most = self._most.get(loop)
        end: Any = block.last
        tail = Builder.before(end)
        tail.location = loop.location
        for pipe in own:
            inner[pipe.ring] = tail.insert(tileas.IncIterOp(inner[pipe.ring])).results[0]
        end.operands = (*end.operands, *(inner[ring] for ring in rings), *(waited[pipe].token for pipe in held))
        count = len(loop.results)
        ends = [*(at[ring] for ring in rings), *(pipe.ring.consumer for pipe in held)]
        new = loop.replace_with_additional_yields(ends)
        if is_published(new):
            self._overlapping.append(new)
            self._ended[new] = [pipe.ring for pipe in own if runs_once and pipe.ring.last is loop and most is None]
        handed_on = new.results[count:]
        at.update(zip(rings, handed_on))
        if not any(pipe.plan.held for pipe in own):
            new.attributes.pop(tileas.DOTS_IN_FLIGHT, None)
        # No stage is filled again after the last loop.  Where iterations overlap, the last wait is after it.
        again = [token for pipe, token in zip(held, handed_on[len(rings) :])
                 if not runs_once or pipe.ring.last is not loop or is_published(new) or most is not None]  # fmt: skip
        if most is not None:
            schedule.materialize.cluster_trips.give_back_rest(new, most, own, at)
        if again:
            _release_last(new, again)


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
        found = [op for user in users if (op := self._block.find_ancestor_op(user)) is not None]
        return _outermost(found, first=True)

    def read(self) -> Operation:
        """Replaces the loads by copies of the stage; returns the operation after which all have been read."""
        copies: list[Operation] = []
        for staged, buffer in zip(self._pipe.plan.loads, self._pipe.ring.buffers):
            copies += self._read(staged, buffer)
        tiles = [copy.results[0] for copy in copies]
        readers = (*copies, *(dot for tile in tiles for dot in (*_dots(tile), *rolled_dots(tile))))
        # Dots may be in a loop or a branch of the iteration.
        return _outermost([place for op in readers if (place := self._block.find_ancestor_op(op)) is not None])

    def _read(self, staged: StagedLoad, buffer: Value) -> list[Operation]:
        load = staged.load
        made: dict[tuple[LinearLayout, Attribute | None], Operation] = {}

        def reading(layout: LinearLayout, reader: Operation) -> Value:
            """The tile in a layout, when an operation reads it."""
            op = reader if reader.parent is self._block else self._block.find_ancestor_op(reader)
            slot = slot_attributes(op) or slot_attributes(load)
            key = layout, slot.get(tileas.AWS_STAGE)
            if key not in made:
                type = with_layout(load.data.type, layout)
                copy = tileas.CopyOp(buffer, self._number, result=type, location=load.location)
                copy.attributes.update(slot)
                self._block.insert_before(copy, self._end.next)
                self._end = made[key] = copy
            return made[key].results[0]

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
        return list(made.values())

    def _order(self, load: Any) -> Value:
        if load.token is not None:
            return load.token
        builder = Builder.before(load)
        builder.location = load.location
        return builder.insert(tileas.CreateMemTokenOp(result=aa.MemTokenType())).results[0]


def _uses(tile: Value, converts: set[Operation]) -> list[Operation]:
    """The operations that use a tile of a load where they stand: neither conversions, which are replaced by reads in
    their layout, nor operations that lead only to conversions, which are recomputed there."""
    found: list[Operation] = []
    for user in tile.users:
        if user in converts:
            found += user.results[0].users
        elif moves_with_conversion(user) and not _leads_elsewhere(user, converts):
            found += _uses(user.results[0], converts)
        else:
            found.append(user)
    return found


def _leads_elsewhere(op: Operation, converts: set[Operation]) -> bool:
    """Whether the result of an operation has a use that leads to no conversion in `converts`."""
    return any(
        user not in converts and not (moves_with_conversion(user) and not _leads_elsewhere(user, converts))
        for user in op.results[0].users
    )


def _outermost(operations: list[Operation], first: bool = False) -> Operation:
    """The first or the last of operations of a block."""
    found = operations[0]
    for op in operations[1:]:
        if op is not found and op.is_before_in_block(found) is first:
            found = op
    return found


def _dots(tile: Value) -> list[Operation]:
    """The dots that read a tile, perhaps under another shape."""
    found: list[Operation] = []
    for user in tile.users:
        if isinstance(user, tileas.DOTS):
            found.append(user)
        elif isinstance(user, tileas.VIEW_LIKE):
            found += _dots(user.results[0])
    return found


# ---- release ---------------------------------------------------------------------------------------------------------


def _release(last: Operation, token: Value) -> None:
    """Releases the stage of this iteration after the last operation that reads it."""
    builder = Builder.after(last)
    builder.location = last.location
    builder.insert(tileas.ConsumerReleaseOp(token))


def _begun(block: Block, last: Operation) -> Operation:
    """The operation of an iteration after which the dots of the previous one may be waited for: its first dot has been
    issued to the tensor cores by then, and where that one is waited for itself, all earlier dots complete without a
    further wait.  `last`: the default where there is no dot of warpgroups."""
    place = next((op for op in block.operations if is_of_warpgroups(op)), last)
    while isinstance(place.next, tileas.ConsumerReleaseOp):
        place = place.next
    return place


def _release_later(place: Operation, loop: scf.ForOp, token: Value) -> None:
    """Releases the stage of the previous iteration, if there was one, after an operation."""
    builder = Builder.after(place)
    builder.location = place.location
    later = compare(builder, "ne", loop.induction_variable, loop.lower_bound)
    _release_if(builder, later, token)


def _release_last(loop: scf.ForOp, tokens: Sequence[Value]) -> None:
    """Releases the stages that the last iteration of a loop still holds, if there was one."""
    builder = Builder.after(loop)
    builder.location = loop.location
    ran = LoopCounter(loop).runs(builder)
    for token in tokens:
        _release_if(builder, ran, token)


def _mark_last_releases(block: Block, ring: Ring) -> None:
    """Marks the releases of a ring's stages after all loops, and after branches with loops, as not waited for, up to
    the number of stages of the ring.  Where the last loop is in a branch, the releases after it in that branch are
    included."""
    found: list[Operation] = []
    op = block.last
    while op is not None:
        if any(isinstance(inner, (scf.ForOp, scf.WhileOp)) for inner in op.walk()):
            # Overlapping iterations whose number is not known are in a branch: there may be none.
            op = op.then_region.block.last if isinstance(op, scf.IfOp) else None
            continue
        first = op.then_region.block.first if isinstance(op, scf.IfOp) else op
        if isinstance(first, tileas.ConsumerReleaseOp) and pipe_of(first.token) is ring.consumer.defining_op:
            found.append(first)
        op = op.prev
    pipe: Any = ring.consumer.defining_op
    if len(found) <= pipe.num_stages.value:
        for release in found:
            release.attributes["last"] = UnitAttr()


def _release_if(builder: Builder, condition: Value, token: Value) -> None:
    body = Block()
    inner = Builder.at_end(body, builder.location)
    inner.insert(tileas.ConsumerReleaseOp(token))
    inner.insert(scf.YieldOp.create(()))
    builder.insert(scf.IfOp.create((condition,), (), {}, (Region([body]), Region())))
