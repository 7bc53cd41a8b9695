"""Loops whose loads run ahead: the copies of later iterations are in flight while this one computes.

With S stages, the copies of iteration i + S - 1 start in iteration i, into the stage that iteration i - 1 has read:

    for s in 0 .. S - 2:  if iteration s exists: start its copies into stage s;  commit
    for i in ...:
      wait until the group of iteration i is there, in all threads
      if iteration i + S - 1 exists: start its copies into the stage that was read last;  commit
      ... read stage i mod S ...

One barrier, at the wait, both publishes the copied tiles and ensures that all threads have read the stage before it is
overwritten.  A group is committed in every iteration, copies or not, so that the wait's count is a constant.

Where dots may be in flight when the next iteration begins, the stage that iteration i - 1 reads is not free in
iteration i: copies start for iteration i + S - 2, into the stage that iteration i - 2 has read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tileiras.analysis.derivations import erase_unused
from tileiras.dialects import arith, scf
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.arith.build import binary, compare, integer
from tileiras.ir import Attribute, Block, Builder, IntegerAttr, Operation, Region, Value, i32
from tileiras.layout import LinearLayout
from tileiras.layout.encoding import layout_of, with_layout
from tileiras.schedule.induction_variable import LoopCounter, end_no_earlier
from tileiras.schedule.schedule_analysis import slot_attributes
from tileiras.schedule.staging import StagedLoad, joined, read_in, rematerialized, staged_load, start_copy
from tileiras.schedule.tensor_boxes import comes_in_boxes
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import CopyAtom

from .box_ring import BoxRing, following, rings_of


def pipeline(loop: scf.ForOp, loads: Sequence[tileas.Load], stages: int, atom: CopyAtom | None) -> bool:
    """Has the loads of a loop run ahead through rings of `stages`, in place; returns False, without a change, if `atom`
    cannot copy one of them."""
    if atom is None:
        return False
    staged = [result for each in loads if (result := staged_load(each, loop, atom)) is not None]
    if len(staged) < len(loads):
        return False
    stages_in_use = 2 if tileas.DOTS_IN_FLIGHT in loop.attributes else 1
    run_ahead(loop, staged, stages - stages_in_use, [stages_in_use] * len(staged), atom)
    return True


def run_ahead(
    loop: scf.ForOp, staged: Sequence[StagedLoad], ahead: int, stages_in_use: Sequence[int], atom: CopyAtom
) -> scf.ForOp:
    """Has loads of a loop run `ahead` iterations ahead, in place; returns the new loop.

    `stages_in_use`: of each load, how many iterations' stages are not free when copies start: that of the iteration
    that begins, and those that operations in flight still read.
    """
    rewriting = _Pipeline(loop, staged, ahead, stages_in_use, atom)
    rewriting.run()
    return rewriting.loop


class _Places(NamedTuple):
    """The stages of an iteration.

    `read`: the stage that it reads, by the number of stages of a ring; `filled`: of each ring of boxes the iterator of
    the stage that it fills; `drained`: the number of the loop's result that is at the stage after the last one that
    was filled; `behind`: the operation after the waits for these rings.
    """

    read: dict[int, Value]
    filled: list[Value]
    drained: list[int]
    behind: Operation | None


class _Pipeline:
    """The rewriting of one loop."""

    def __init__(
        self, loop: scf.ForOp, staged: Sequence[StagedLoad], ahead: int, stages_in_use: Sequence[int], atom: CopyAtom
    ) -> None:
        self.loop = loop
        self.staged = staged
        self.atom = atom
        self.held = dict(zip((each.load for each in staged), stages_in_use))
        self.ahead = ahead
        self.outer = Builder.before(loop)
        self.outer.location = loop.location
        end_no_earlier(self.outer, loop)
        self.counter = LoopCounter(loop)

    def run(self) -> None:
        loop, outer = self.loop, self.outer
        types = [s.buffer_type(self._stages(s)) for s in self.staged]
        self.buffers = [outer.insert(tileas.AllocTensorOp(result=type)).results[0] for type in types]
        pairs = list(zip(self.staged, self.buffers))
        in_boxes = [(s, buffer, self.held[s.load]) for s, buffer in pairs if comes_in_boxes(s)]
        self.copied = [(s, buffer, joined(outer, s.tokens)) for s, buffer in pairs if not comes_in_boxes(s)]
        self.rings = rings_of(outer, in_boxes, self.ahead) if in_boxes else []
        numbers = [integer(outer, s) for s in range(max(map(self._stages, self.staged)))]
        filled = self._prologue(numbers)
        new, places = self._extend(numbers[0], filled)
        wait = self._head(new, places)
        self._read_stages(places.read, wait)
        after = Builder.before(new.next)
        after.location = loop.location
        for ring, number in zip(self.rings, places.drained):
            ring.tail(after, new.results[number])
        if not isinstance(new.parent_op, aa.FuncOp):
            for ring in self.rings:
                ring.end(after)
        for buffer in reversed(self.buffers):
            after.insert(tileas.DeallocTensorOp(buffer))

    def _stages(self, staged: StagedLoad) -> int:
        """Stages of the ring of a load."""
        return self.ahead + self.held[staged.load]

    # -- copies -------------------------------------------------------------------------------------------------------

    def _start(
        self, builder: Builder, exists: Value, counter: Callable[[Builder], Value], stage: Callable[[int], Value],
        filled: list[Value],
    ) -> None:  # fmt: skip
        """If the iteration exists, its copies into `stage(stages)` of a ring of `stages` stages, which the iterators
        `filled` of the rings of boxes are at; a group in any case.  `counter(builder)`: its number."""
        body = Block()
        inner = Builder.at_end(body)
        inner.location = self.loop.location
        values = {self.loop.induction_variable: counter(inner)}

        def again(value: Value) -> Value:
            return rematerialized(value, values, self.loop.body.block, inner)

        for staged, buffer, token in self.copied:
            inner.location = staged.load.location
            start_copy(inner, staged.load, buffer, stage(self._stages(staged)), token, self.atom, again)
        for ring, iterator in zip(self.rings, filled):
            ring.start(inner, iterator, again, builder is self.outer)
        inner.location = self.loop.location
        inner.insert(scf.YieldOp.create(()))
        builder.insert(scf.IfOp.create((exists,), (), {}, (Region([body]), Region())))
        if self.copied:
            builder.insert(tileas.AsyncCommitGroupOp())

    def _prologue(self, numbers: list[Value]) -> list[Value]:
        """The copies of the first iterations; the iterators of the rings after them."""
        loop, outer = self.loop, self.outer
        first = self.counter.runs(outer)
        filled = [ring.fill for ring in self.rings]
        self._start(outer, first, lambda builder: loop.lower_bound, lambda stages: numbers[0], filled)
        filled = [following(outer, each) for each in filled]
        for s in range(1, self.ahead):
            more, ahead = self.counter.later(outer, loop.lower_bound, s)
            exists = binary(outer, arith.AndIOp, first, more)

            def counter(builder: Builder, ahead: Value = ahead) -> Value:
                return binary(builder, arith.AddIOp, loop.lower_bound, ahead)

            def stage(stages: int, s: int = s) -> Value:
                return numbers[s]

            self._start(outer, exists, counter, stage, filled)
            filled = [following(outer, each) for each in filled]
        return filled

    def _head(self, new: scf.ForOp, places: _Places) -> Any:
        """Insert the wait and the copies for a later iteration at the head of the body: they overwrite the stage that
        the previous iteration has read, the one before stage `read`, or the one before that."""
        head = Builder.before(places.behind) if places.behind is not None else Builder.at_start(new.body.block)
        head.location = self.loop.location
        wait = None
        if self.copied:
            pending = IntegerAttr(self.ahead - 1, i32)
            wait = head.insert(tileas.AsyncWaitOp(pending=pending, result_token=aa.MemTokenType()))
            if any(leaf.in_place for staged, _, _ in self.copied for leaf in staged.leaves):
                head.insert(tileas.FenceProxyOp())
        counter = new.induction_variable
        exists, ahead = self.counter.later(head, counter, self.ahead)
        copied = dict.fromkeys(self._stages(staged) for staged, _, _ in self.copied)
        write = {stages: self._neighbour(head, places.read[stages], self.ahead, stages) for stages in copied}
        self._start(
            head, exists, lambda builder: binary(builder, arith.AddIOp, counter, ahead), write.__getitem__,
            places.filled,
        )  # fmt: skip
        return wait

    def _neighbour(self, builder: Builder, stage: Value, step: int, stages: int) -> Value:
        """The stage `step` after this one, of `stages`, going around.  It costs an instruction or three; carried
        through the loop beside the other, it would cost a register."""
        if stages == 2:
            return binary(builder, arith.SubIOp, integer(builder, 1), stage)
        last = stages - 1
        if step in (1, last):
            end, start = (last, 0) if step == 1 else (0, last)
            wraps = compare(builder, "eq", stage, integer(builder, end))
            neighbour = binary(builder, arith.AddIOp, stage, integer(builder, 1 if step == 1 else -1))
            return builder.insert(arith.SelectOp(wraps, integer(builder, start), neighbour)).results[0]
        stays = compare(builder, "slt", stage, integer(builder, stages - step))
        up, down = (binary(builder, arith.AddIOp, stage, integer(builder, by)) for by in (step, step - stages))
        return builder.insert(arith.SelectOp(stays, up, down)).results[0]

    # -- the loop -----------------------------------------------------------------------------------------------------

    def _extend(self, first: Value, filled: list[Value]) -> tuple[Any, _Places]:
        """The loop with the stage that is read carried along, as its last value; or, of rings, the iterators of their
        ends, and the tokens of the stages that are not released yet."""
        old = self.loop
        block = old.body.block
        end = block.last
        tail = Builder.before(end)
        tail.location = old.location
        depths = dict.fromkeys(self._stages(each) for each in self.staged)
        stage_of_read: dict[int, Value] = {}
        if not self.rings:
            stage_of_read = {stages: block.add_argument(i32, old.location) for stages in depths}
            end.operands = (*end.operands, *(self._neighbour(tail, each, 1, n) for n, each in stage_of_read.items()))
            self.loop = new = old.replace_with_additional_yields((first,) * len(stage_of_read))
            return new, _Places(stage_of_read, [], [], None)
        head = Builder.at_start(block)
        head.location = old.location
        later = {behind: self.counter.is_later(head, old.induction_variable, behind)
                 for behind in dict.fromkeys(ring.held for ring in self.rings if not ring.frees_by_commit)}  # fmt: skip
        initial: list[Value] = []
        yielded: list[Value] = []
        fills, drains = [], []
        held_at: dict[BoxRing, int] = {}

        def carried(value: Value) -> Value:
            initial.append(value)
            return block.add_argument(value.type, old.location)

        for ring, fill in zip(self.rings, filled):
            fills.append(carried(fill))
            drains.append(carried(ring.drain))
            yielded += [following(tail, fills[-1]), following(tail, drains[-1])]
            if not ring.frees_by_commit:
                # The oldest stage first, which is released before the wait: after it threads may have diverged.
                tokens = [carried(ring.consumer) for _ in range(ring.held)]
                releases = later[ring.held]
                if ring.is_freed_by_all:
                    # Only where the stage is filled again: no arrival is in flight when a CTA exits.
                    refilled, _ = self.counter.later(head, old.induction_variable, self.ahead)
                    releases = binary(head, arith.AndIOp, releases, refilled)
                ring.release_if(head, tokens[0], releases)
                yielded += [*tokens[1:], ring.consumer]
                held_at[ring] = len(yielded) - 1
        for ring, drain in zip(self.rings, drains):
            waited = ring.wait(head, drain)
            if ring in held_at:
                yielded[held_at[ring]] = waited
            else:
                ring.release(tail, waited)
        for ring, drain in zip(self.rings, drains):
            if ring.stages not in stage_of_read:
                stage_of_read[ring.stages] = head.insert(tileas.GetStageOp(drain, result=i32)).results[0]
        last = list(stage_of_read.values())[-1].defining_op
        for stages in depths:
            if stages not in stage_of_read:
                stage_of_read[stages] = carried(first)
                yielded.append(self._neighbour(tail, stage_of_read[stages], 1, stages))
        end.operands = (*end.operands, *yielded)
        self.loop = new = old.replace_with_additional_yields(tuple(initial))
        return new, _Places(stage_of_read, fills, [new.iter_args.index(drain) for drain in drains], last.next)

    def _read_stages(self, all_read: dict[int, Value], wait: tileas.AsyncWaitOp | None) -> None:
        for staged, buffer in zip(self.staged, self.buffers):
            load, stage_of_read = staged.load, all_read[self._stages(staged)]
            copies: dict[tuple[LinearLayout, Attribute | None], Value] = {}

            def reading(layout: LinearLayout, reader: Operation) -> Value:
                """The tile in a layout, at the slot of an operation that reads it."""
                slot = slot_attributes(reader if reader.parent is load.parent else load.parent.find_ancestor_op(reader))
                key = layout, slot.get(tileas.AWS_STAGE)
                if key not in copies:
                    type = with_layout(load.data.type, layout)
                    copy = tileas.CopyOp(buffer, stage_of_read, result=type, location=load.location)
                    copy.attributes.update(slot)
                    load.parent.insert_before(copy, load)
                    copies[key] = copy.results[0]
                return copies[key]

            for leaf in staged.leaves:
                convert = leaf.convert
                read_there, slot = partial(reading, reader=convert), slot_attributes(convert)
                value = read_in(convert.operand, layout_of(convert.result.type), load, read_there, slot=slot)
                convert.replace_all_uses_with((value,))
                convert.erase()
            erase_unused(load.data)
            for user in list(load.data.users):
                load.data.replace_uses_in(reading(staged.writer, user), [user])
            # After the wait for a stage, boxes have landed for every thread: no operation has to wait for them.
            landed = None if wait is None or comes_in_boxes(staged) else wait.result_token
            waited = [v for v in (load.token, landed) if v is not None]
            types = (load.result_token.type,)
            result = tileas.JoinMemTokenOp if waited else tileas.CreateMemTokenOp
            token = result.create(waited, types, location=load.location)
            token.attributes.update(slot_attributes(load))
            load.parent.insert_before(token, load)
            load.result_token.replace_all_uses_with(token.results[0])
            load.erase()
