"""Materializes loops with single stages (`schedule/single_buffer.py`): copies follow the dots that read the old stage.

Copies by all threads start where these have waited for the dots, and are waited for, with a barrier, before the first
dot that reads them.  Boxes come through pipes of one stage, one for the loads that begin for the next iteration and one
for the others: a commit of the dots frees a stage, for which one thread waits before it copies.
"""

from __future__ import annotations

from collections.abc import Sequence

from tileiras.analysis.derivations import erase_unused
from tileiras.dialects import arith, scf
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.arith.build import binary, integer
from tileiras.ir import Block, Builder, IntegerAttr, Operation, Pure, Region, UnitAttr, Value, i32
from tileiras.layout import LinearLayout
from tileiras.layout.encoding import is_in_shared, layout_of, with_layout
from tileiras.schedule.induction_variable import LoopCounter, end_no_earlier
from tileiras.schedule.single_buffer import Turns, turns_of, turns_of_threads
from tileiras.schedule.staging import StagedLoad, joined, read_in, rematerialized, staged_load, start_copy
from tileiras.schedule.tensor_boxes import comes_in_boxes
from tileiras.targets import CopyAtom

from .box_ring import BoxRing, fence_before_boxes, following


def refill_single_buffers(loop: scf.ForOp, loads: Sequence[tileas.Load], stages: int, atom: CopyAtom | None) -> bool:
    """Give loads of a loop a buffer of one stage each, in place; return False, and leave the loop unchanged, if
    `atom` cannot copy one of them, or their readers do not show when a stage is free."""
    if atom is None:
        return False
    staged = [result for each in loads if (result := staged_load(each, loop, atom)) is not None]
    turns = turns_of(loop, staged) or turns_of_threads(loop, staged) if len(staged) == len(loads) else None
    if turns is None:
        return False
    (_RewritingForThreads if turns.by_threads else _Rewriting)(loop, turns, atom).run()
    return True


class _Part:
    """The loads whose copies begin for the next iteration, or those for this one: those in boxes, through `ring`, and
    those that all threads copy."""

    def __init__(self, loads: list[StagedLoad], readers: list[Operation]) -> None:
        self.readers = readers
        self.copied = [each for each in loads if not comes_in_boxes(each)]
        self.boxes = [each for each in loads if comes_in_boxes(each)]
        self.ring: BoxRing | None = None
        self.fill: Value | None = None
        """The iterator at the stage of the ring that the boxes go to."""


class _Rewriting:
    """The rewriting of one loop."""

    def __init__(self, loop: scf.ForOp, turns: Turns, atom: CopyAtom) -> None:
        self._loop = loop
        self._turns = turns
        self._ahead = _Part(turns.ahead, turns.scoring)
        self._own = _Part(turns.own, turns.adding)
        self._atom = atom
        self._outer = Builder.before(loop)
        self._outer.location = loop.location
        end_no_earlier(self._outer, loop)
        self._counter = LoopCounter(loop)
        self._stage = integer(self._outer, 0)
        self._buffers: dict[Operation, Value] = {}
        self._tokens: dict[Operation, Value | None] = {}
        self._initial: list[Value] = []
        self._yielded: list[Value] = []

    def run(self) -> None:
        loop, outer, parts = self._loop, self._outer, (self._ahead, self._own)
        earlier = _wait_of_operands(loop)
        every = [*self._turns.ahead, *self._turns.own]
        for each in every:
            self._buffers[each.load] = outer.insert(tileas.AllocTensorOp(result=each.buffer_type(1))).results[0]
            self._tokens[each.load] = joined(outer, each.tokens)
        if any(part.boxes for part in parts):
            boxes = [each for part in parts for each in part.boxes]
            fence_before_boxes(outer, self._buffers[every[0].load], boxes)
        for part in parts:
            if part.boxes:
                buffers = [self._buffers[each.load] for each in part.boxes]
                part.ring = BoxRing(outer, part.boxes, buffers, 1, 1)
                part.fill = part.ring.fill
        self._fill_if(outer, self._counter.runs(outer), loop.lower_bound, self._ahead)
        if self._ahead.ring is not None:
            self._ahead.fill = following(outer, self._ahead.ring.fill)
        copied = any(part.copied for part in parts)
        if copied:
            outer.insert(tileas.AsyncCommitGroupOp())
            if earlier is None:
                self._await(outer)
            else:
                for op in (earlier, earlier.next):
                    op.move_before(loop)
                earlier.attributes["pending"] = IntegerAttr(0, i32)
        for part in parts:
            self._drain(part)
        self._refill(copied)
        landed = None
        if copied:
            arrived = Builder.before(self._turns.adding[0])
            arrived.location = loop.location
            landed = self._await(arrived)
        for each in every:
            self._read(each, landed)
        if self._initial:
            end = loop.yield_op
            end.operands = (*end.operands, *self._yielded)
            loop = loop.replace_with_additional_yields(tuple(self._initial))
        after = Builder.before(loop.next)
        after.location = loop.location
        for each in reversed(every):
            after.insert(tileas.DeallocTensorOp(self._buffers[each.load]))

    # -- copies --------------------------------------------------------------------------------------------------------

    def _carried(self, value: Value) -> Value:
        """An iterator that the loop carries, and which is at the next stage in every iteration."""
        self._initial.append(value)
        argument = self._loop.body.block.add_argument(value.type, self._loop.location)
        tail = Builder.before(self._loop.yield_op)
        tail.location = self._loop.location
        self._yielded.append(following(tail, argument))
        return argument

    def _drain(self, part: _Part) -> None:
        """Insert the wait for boxes before the first dot that reads them, and the release of their stage after the
        last one."""
        if part.ring is None:
            return
        before, behind = Builder.before(part.readers[0]), Builder.after(part.readers[-1])
        before.location = behind.location = self._loop.location
        part.ring.release(behind, part.ring.wait(before, self._carried(part.ring.drain)))

    def _refill(self, copied: bool) -> None:
        """The copies for the next iteration, if there is one, and those for this one."""
        loop, builder = self._loop, Builder.before(self._turns.refill)
        builder.location = loop.location
        for part in (self._ahead, self._own):
            if part.fill is not None:
                part.fill = self._carried(part.fill)
        counter = loop.induction_variable
        exists, distance = self._counter.later(builder, counter, 1)
        self._fill_if(builder, exists, binary(builder, arith.AddIOp, counter, distance), self._ahead)
        self._fill(builder, counter, self._own)
        if copied:
            builder.insert(tileas.AsyncCommitGroupOp())

    def _fill_if(self, builder: Builder, exists: Value, counter: Value, part: _Part) -> None:
        """The copies of the iteration at `counter`, if it exists."""
        body = Block()
        inner = Builder.at_end(body)
        inner.location = self._loop.location
        self._fill(inner, counter, part)
        inner.insert(scf.YieldOp.create(()))
        builder.insert(scf.IfOp.create((exists,), (), {}, (Region([body]), Region())))

    def _fill(self, builder: Builder, counter: Value, part: _Part) -> None:
        loop = self._loop
        values = {loop.induction_variable: counter}

        def again(value: Value) -> Value:
            return rematerialized(value, values, loop.body.block, builder)

        for each in part.copied:
            builder.location = each.load.location
            buffer, token = self._buffers[each.load], self._tokens[each.load]
            copy = start_copy(builder, each.load, buffer, self._stage, token, self._atom, again)
            if counter is not loop.lower_bound:
                copy.attributes[tileas.BEHIND_READERS] = UnitAttr()
        builder.location = loop.location
        if part.ring is not None and part.fill is not None:
            part.ring.start(builder, part.fill, again, counter is loop.lower_bound)

    def _await(self, builder: Builder) -> Value:
        """Wait until all copies have landed, for dots to read them."""
        wait = tileas.AsyncWaitOp(pending=IntegerAttr(0, i32), result_token=aa.MemTokenType())
        result = builder.insert(wait).results[0]
        builder.insert(tileas.FenceProxyOp())
        return result

    # -- readers -------------------------------------------------------------------------------------------------------

    def _place_of_reads(self, staged: StagedLoad, convert: Operation) -> Operation | None:
        """Before which operation a tile is read; None where that is anywhere, since dots read it in place."""
        return None

    def _read(self, staged: StagedLoad, landed: Value | None) -> None:
        """Has dots read the tile in its buffer; the loop yields the token of the wait as that of the load."""
        load, buffer = staged.load, self._buffers[staged.load]

        for convert in (leaf.convert for leaf in staged.leaves):
            before = self._place_of_reads(staged, convert)

            def read(layout: LinearLayout, before: Operation | None = before) -> Value:
                type = with_layout(load.data.type, layout)
                copy = tileas.CopyOp(buffer, self._stage, result=type, location=load.location)
                load.parent.insert_before(copy, before or load)
                return copy.results[0]

            tile = read_in(convert.operands[0], layout_of(convert.results[0].type), load, read, before)
            convert.replace_all_uses_with((tile,))
            convert.erase()
        erase_unused(load.data)
        if load.result_token.has_uses:
            end = Builder.before(self._loop.yield_op)
            end.location = load.location
            tokens = [token for token in (load.token, landed) if token is not None]
            result = tileas.JoinMemTokenOp if tokens else tileas.CreateMemTokenOp
            join = end.insert(result.create(tuple(tokens), (load.result_token.type,)))
            load.result_token.replace_all_uses_with(join.results[0])
        load.erase()


class _RewritingForThreads(_Rewriting):
    """The rewriting of a loop whose dots are executed by threads: each dot reads its stage directly before it, and the
    copies that refill the stage follow a barrier."""

    def run(self) -> None:
        loop, outer, turns = self._loop, self._outer, self._turns
        every = [*turns.ahead, *turns.own]
        earlier = _last_wait(loop)
        for each in every:
            self._buffers[each.load] = outer.insert(tileas.AllocTensorOp(result=each.buffer_type(1))).results[0]
            self._tokens[each.load] = joined(outer, each.tokens)
        self._fill_if(outer, self._counter.runs(outer), loop.lower_bound, self._ahead)
        outer.insert(tileas.AsyncCommitGroupOp())
        if earlier is not None:
            earlier.move_before(loop)
            earlier.attributes["pending"] = IntegerAttr(earlier.pending.value + 1, i32)
        # The tiles of their dots have landed; copies for the next of these dots and for the others alternate.
        arrived = Builder.before(turns.scoring[0])
        arrived.location = loop.location
        first = self._landed(arrived, 0)
        counter = loop.induction_variable
        self._fill(arrived, counter, self._own)
        arrived.insert(tileas.AsyncCommitGroupOp())
        behind = Builder.before(turns.refill)
        behind.location = loop.location
        exists, distance = self._counter.later(behind, counter, 1)
        self._fill_if(behind, exists, binary(behind, arith.AddIOp, counter, distance), self._ahead)
        behind.insert(tileas.AsyncCommitGroupOp())
        late = Builder.before(turns.adding[0])
        late.location = loop.location
        last = self._landed(late, 1)
        for each in turns.ahead:
            self._read(each, first)
        for each in turns.own:
            self._read(each, last)
        after = Builder.before(loop.next)
        after.location = loop.location
        for each in reversed(every):
            after.insert(tileas.DeallocTensorOp(self._buffers[each.load]))

    def _landed(self, builder: Builder, pending: int) -> Value:
        """Wait until all groups of copies but the last `pending` have landed."""
        wait = tileas.AsyncWaitOp(pending=IntegerAttr(pending, i32), result_token=aa.MemTokenType())
        return builder.insert(wait).results[0]

    def _place_of_reads(self, staged: StagedLoad, convert: Operation) -> Operation | None:
        """Reads are placed at the first dot, after the wait; so are view-like operations between tile and read."""
        dot = (self._turns.scoring if staged in self._turns.ahead else self._turns.adding)[0]
        waiting = [convert.results[0]]
        while waiting:
            for user in waiting.pop().users:
                if isinstance(user, tileas.VIEW_LIKE):
                    user.move_before(dot)
                    waiting.append(user.results[0])
        return dot


def _last_wait(loop: scf.ForOp) -> tileas.AsyncWaitOp | None:
    """The wait for tiles that nothing before a loop reads, if there is one: the first copies of the loop may begin
    before it."""
    op = loop.prev
    while op is not None and op.has_trait(Pure):
        op = op.prev
    if not isinstance(op, tileas.AsyncWaitOp):
        return None
    users = (loop.parent.find_ancestor_op(user) for user in op.result_token.users)
    return None if any(user is not None and user.is_before_in_block(loop) for user in users) else op


def _wait_of_operands(loop: scf.ForOp) -> tileas.AsyncWaitOp | None:
    """The wait, followed by a fence, for tiles that nothing before a loop reads, if there is one: that for the first
    copies of the loop serves as well."""
    op = loop.prev
    while op is not None and (op.has_trait(Pure) or isinstance(op, (tileas.CopyOp, tileas.FenceProxyOp))):
        if isinstance(op, tileas.CopyOp) and not is_in_shared(op.result.type):
            return None
        op = op.prev
    if not isinstance(op, tileas.AsyncWaitOp) or not isinstance(op.next, tileas.FenceProxyOp):
        return None
    users = (loop.parent.find_ancestor_op(user) for user in op.result_token.users)
    return None if any(user is not None and user.is_before_in_block(loop) for user in users) else op
