"""Loops whose loads run ahead: the tiles of later iterations are on their way while this one computes.

With S stages, the copies of iteration i + S - 1 start in iteration i, into the stage that iteration i - 1 has read:

    for s in 0 .. S - 2:  if iteration s exists: start its copies into stage s;  commit
    for i in ...:
      wait until the group of iteration i is there, in all threads
      if iteration i + S - 1 exists: start its copies into the stage that was read last;  commit
      ... read stage i mod S ...

One barrier, at the wait, both publishes what the copies brought and says that all threads have read the stage before
it is overwritten.  A group is committed in every iteration, copies or not, so that the wait's count is a constant.

Where dots may be under way when the next iteration begins, the stage that iteration i - 1 reads is not free in
iteration i: copies start for iteration i + S - 2, into the stage that iteration i - 2 has read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tileiras.dialects import arith, scf
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.arith.build import binary, compare, integer
from tileiras.ir import Block, Builder, IntegerAttr, Region, Value, i32
from tileiras.layout import LinearLayout
from tileiras.layout.encoding import layout_of, with_layout
from tileiras.schedule.induction_variable import LoopCounter, end_no_earlier
from tileiras.schedule.staging import StagedLoad, erase_unused, joined, read_in, rematerialized, staged_load, start_copy
from tileiras.targets import CopyAtom


def pipeline(loop: scf.ForOp, loads: Sequence[tileas.Load], stages: int, atom: CopyAtom | None) -> bool:
    """Has the loads of a loop run ahead through rings of `stages`, in place; False, and nothing done, where `atom`
    cannot copy one of them."""
    if atom is None:
        return False
    staged = [found for each in loads if (found := staged_load(each, loop, atom)) is not None]
    if len(staged) < len(loads):
        return False
    _Pipeline(loop, staged, stages, atom).run()
    return True


class _Pipeline:
    """The rewriting of one loop."""

    def __init__(self, loop: scf.ForOp, staged: list[StagedLoad], stages: int, atom: CopyAtom) -> None:
        self.loop = loop
        self.staged = staged
        self.stages = stages
        self.atom = atom
        self.held = 2 if tileas.DOTS_IN_FLIGHT in loop.attributes else 1
        """Iterations whose stages are not free: this one's, and that of dots under way."""
        self.ahead = stages - self.held
        """Iterations that copies run ahead."""
        self.outer = Builder.before(loop)
        self.outer.location = loop.location
        end_no_earlier(self.outer, loop)
        self.counter = LoopCounter(loop)

    def run(self) -> None:
        loop, outer = self.loop, self.outer
        types = [s.buffer_type(self.stages) for s in self.staged]
        self.buffers = [outer.insert(tileas.AllocTensorOp(result=type)).results[0] for type in types]
        self.tokens = [joined(outer, s.tokens) for s in self.staged]
        numbers = [integer(outer, s) for s in range(self.stages)]
        self._prologue(numbers)
        new = self._extended(numbers[0])
        read = new.body.block.arguments[-1]
        wait = self._head(new, read)
        self._read_stages(new, read, wait)
        after = Builder.before(new.next)
        after.location = loop.location
        for buffer in reversed(self.buffers):
            after.insert(tileas.DeallocTensorOp(buffer))

    # -- copies -------------------------------------------------------------------------------------------------------

    def _start(self, builder: Builder, exists: Value, counter: Callable[[Builder], Value], stage: Value) -> None:
        """If the iteration exists, its copies into `stage`; a group in any case.  `counter(builder)`: its number."""
        body = Block()
        inner = Builder.at_end(body)
        inner.location = self.loop.location
        values = {self.loop.induction_variable: counter(inner)}

        def again(value: Value) -> Value:
            return rematerialized(value, values, self.loop.body.block, inner)

        for staged, buffer, token in zip(self.staged, self.buffers, self.tokens):
            inner.location = staged.load.location
            start_copy(inner, staged.load, buffer, stage, token, self.atom, again)
        inner.location = self.loop.location
        inner.insert(scf.YieldOp.create(()))
        builder.insert(scf.IfOp.create((exists,), (), {}, (Region([body]), Region())))
        builder.insert(tileas.AsyncCommitGroupOp())

    def _prologue(self, numbers: list[Value]) -> None:
        loop, outer = self.loop, self.outer
        first = self.counter.runs(outer)
        self._start(outer, first, lambda builder: loop.lower_bound, numbers[0])
        for s in range(1, self.ahead):
            more, ahead = self.counter.later(outer, loop.lower_bound, s)
            exists = binary(outer, arith.AndIOp, first, more)

            def counter(builder: Builder, ahead: Value = ahead) -> Value:
                return binary(builder, arith.AddIOp, loop.lower_bound, ahead)

            self._start(outer, exists, counter, numbers[s])

    def _head(self, new: scf.ForOp, read: Value) -> Any:
        """The wait and the copies for a later iteration, at the head of the body: what the iteration before has read,
        the one before stage `read`, is overwritten, or the one before that."""
        head = Builder.at_start(new.body.block)
        head.location = self.loop.location
        pending = IntegerAttr(self.ahead - 1, i32)
        wait = head.insert(tileas.AsyncWaitOp(pending=pending, result_token=aa.MemTokenType()))
        if any(leaf.in_place for staged in self.staged for leaf in staged.leaves):
            head.insert(tileas.FenceProxyOp())
        counter = new.induction_variable
        exists, ahead = self.counter.later(head, counter, self.ahead)
        write = self._neighbour(head, read, -self.held)
        self._start(head, exists, lambda builder: binary(builder, arith.AddIOp, counter, ahead), write)
        return wait

    def _neighbour(self, builder: Builder, stage: Value, step: int) -> Value:
        """The stage `step` behind or, of negative numbers, before this one, going around.  It costs an instruction or
        three; carried through the loop beside the other, it would cost a register."""
        if self.stages == 2:
            return binary(builder, arith.SubIOp, integer(builder, 1), stage)
        last = self.stages - 1
        forward = step % self.stages
        if forward in (1, last):
            end, start = (last, 0) if forward == 1 else (0, last)
            wraps = compare(builder, "eq", stage, integer(builder, end))
            moved = binary(builder, arith.AddIOp, stage, integer(builder, 1 if forward == 1 else -1))
            return builder.insert(arith.SelectOp(wraps, integer(builder, start), moved)).results[0]
        stays = compare(builder, "slt", stage, integer(builder, self.stages - forward))
        up, down = (
            binary(builder, arith.AddIOp, stage, integer(builder, by)) for by in (forward, forward - self.stages)
        )
        return builder.insert(arith.SelectOp(stays, up, down)).results[0]

    # -- the loop -----------------------------------------------------------------------------------------------------

    def _extended(self, read: Value) -> Any:
        """The loop with the stage that is read carried along, as its last value."""
        old = self.loop
        block = old.body.block
        reading = block.add_argument(i32, old.location)
        end = block.last
        tail = Builder.before(end)
        tail.location = old.location
        end.operands = (*end.operands, self._neighbour(tail, reading, 1))
        self.loop = new = old.replace_with_additional_yields((read,))
        return new

    def _read_stages(self, new: scf.ForOp, read: Value, wait: tileas.AsyncWaitOp) -> None:
        for staged, buffer in zip(self.staged, self.buffers):
            load = staged.load
            made: dict[LinearLayout, Value] = {}

            def reading(
                layout: LinearLayout, load: tileas.Load = load, buffer: Value = buffer, made: dict = made
            ) -> Value:
                if layout not in made:
                    type = with_layout(load.data.type, layout)
                    copy = tileas.CopyOp(buffer, read, result=type, location=load.location)
                    load.parent.insert_before(copy, load)
                    made[layout] = copy.results[0]
                return made[layout]

            for leaf in staged.leaves:
                value = read_in(leaf.convert.operand, layout_of(leaf.convert.result.type), load, reading)
                leaf.convert.replace_all_uses_with((value,))
                leaf.convert.erase()
            erase_unused(load.data)
            if load.data.has_uses:
                load.data.replace_all_uses_with(reading(staged.writer))
            token = tileas.JoinMemTokenOp.create(
                [v for v in (load.token, wait.result_token) if v is not None],
                (wait.result_token.type,),
                location=load.location,
            )
            load.parent.insert_before(token, load)
            load.result_token.replace_all_uses_with(token.results[0])
            load.erase()
