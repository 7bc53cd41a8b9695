"""Loops whose loads run ahead in slots of each thread, across the iterations of the loop around them.

With S stages, the tiles of the S - 1 iterations that come next are on their way while one computes; (o, i) are the
counters of the outer and the inner loop of the iteration that is copied next:

    o, i = the first ones, or o after its end where the inner loop does not run
    S - 1 times:  if o exists: start the copies of (o, i) into the next stage;  commit;  (o, i) = next(o, i)
    for ...:
      for ...:
        wait until all groups but the last S - 2 are there, of this thread
        if o exists: start the copies of (o, i) into the stage that was read last;  commit;  (o, i) = next(o, i)
        ... read the next stage ...

A thread reads only what it has copied itself, so no other thread has to be waited for; the copies that it starts follow
its own reads of the stage.  A group is committed in every iteration, copies or not, so that the wait's count is a
constant.
"""

from __future__ import annotations

from collections.abc import Sequence

from tileiras.dialects import arith, scf
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.arith.build import binary, compare, integer
from tileiras.ir import Block, Builder, IntegerAttr, Operation, Region, UnitAttr, Value, i32
from tileiras.layout.encoding import encode, layout_of
from tileiras.schedule.induction_variable import LoopCounter, end_no_earlier
from tileiras.schedule.staging import joined
from tileiras.schedule.streams import Stream, stream_of
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import CopyAtom


def stream(loop: scf.ForOp, loads: Sequence[tileas.Load], stages: int, atom: CopyAtom | None) -> bool:
    """Has the loads of a loop run ahead, in place; returns False, without a change, if one cannot."""
    result = None if atom is None else stream_of(loop, atom, list(loads))
    if result is None or len(result.loads) < len(loads):
        return False
    assert atom is not None
    _StreamRing(result, stages, atom).run()
    return True


class _Next(NamedTuple):
    """The iteration that is copied next, by its counters, innermost loop first, and the stage that it goes to."""

    counters: tuple[Value, ...]
    stage: Value


class _StreamRing:
    """The rewriting of one loop, and of the one around it."""

    def __init__(self, stream: Stream, stages: int, atom: CopyAtom) -> None:
        self.stream = stream
        self.stages = stages
        self.atom = atom
        loops = [each for each in (stream.loop, stream.around) if each is not None]
        self.blocks = [each.body.block for each in loops]
        """Bodies, the innermost first."""
        self.before = Builder.before(stream.outermost)
        self.before.location = stream.loop.location
        for each in loops:
            end_no_earlier(self.before, each)
        self.counters = [LoopCounter(each) for each in loops]

    def run(self) -> None:
        before, location = self.before, self.stream.loop.location
        self.buffers = [
            before.insert(tileas.AllocTensorOp(result=each.buffer_type(self.stages))).results[0]
            for each in self.stream.loads
        ]
        self.tokens = [joined(before, each.tokens) for each in self.stream.loads]
        at = self._first()
        for _ in range(self.stages - 1):
            at = self._start(before, at)
        first = [integer(before, 0), *at.counters, at.stage]
        carried = [[block.add_argument(value.type, location) for value in first] for block in self.blocks]
        block = self.blocks[0]
        stage_of_read, *counters, stage = carried[0]
        head = Builder.at_start(block)
        head.location = location
        pending = IntegerAttr(self.stages - 2, i32)
        wait = head.insert(tileas.AsyncWaitOp(pending=pending, own=UnitAttr(), result_token=aa.MemTokenType()))
        at = self._start(head, _Next(tuple(counters), stage))
        self._read(stage_of_read, wait)
        tail = Builder.before(block.last)
        tail.location = location
        self._carry([self._following(tail, stage_of_read), *at.counters, at.stage], [*carried[1:], first])

    def _carry(self, values: list[Value], initial: list[list[Value]]) -> None:
        """Has the loops carry the values that the innermost iteration passes to the next one; `initial`: the initial
        values of each loop."""
        loop: scf.ForOp
        for block, begin in zip(self.blocks, initial):
            end = block.last
            end.operands = (*end.operands, *values)
            loop = block.parent_op.replace_with_additional_yields(begin)
            values = list(loop.results[-len(values) :])
        after = Builder.before(loop.next)
        after.location = loop.location
        for buffer in reversed(self.buffers):
            after.insert(tileas.DeallocTensorOp(buffer))

    # -- the iteration that is copied next -----------------------------------------------------------------------------

    def _first(self) -> _Next:
        """The first iteration; after the end of the outermost loop where an inner one does not run."""
        begin = [each.lower for each in self.counters]
        if len(self.counters) > 1:
            runs = self.counters[0].runs(self.before)
            begin[1] = self._select(self.before, runs, begin[1], self.counters[1].upper)
        return _Next(tuple(begin), integer(self.before, 0))

    def _start(self, builder: Builder, at: _Next) -> _Next:
        """Start the copies of an iteration if it exists, and commit a group in any case; return the next
        iteration."""
        last = self.counters[-1]
        exists = compare(builder, "ult" if last.unsigned else "slt", at.counters[-1], last.upper)
        body = Block()
        inner = Builder.at_end(body)
        values = {block.arguments[0]: counter for block, counter in zip(self.blocks, at.counters)}
        for each, buffer, token in zip(self.stream.loads, self.buffers, self.tokens):
            load = each.load
            inner.location = load.location
            view, *coords = (self._again(value, values, inner) for value in (load.view, *load.coords))
            inner.insert(
                tileas.AsyncTiledLoadOp(
                    view=view, coords=coords, buffer=buffer, stage=at.stage, token=token,
                    atom=tileas.CopyAtomAttr(self.atom.name, load.atom.vector_size),
                    layout=encode(layout_of(load.data.type)),
                )
            )  # fmt: skip
        inner.location = builder.location
        inner.insert(scf.YieldOp.create(()))
        builder.insert(scf.IfOp.create((exists,), (), {}, (Region([body]), Region())))
        builder.insert(tileas.AsyncCommitGroupOp())
        return _Next(self._advance(builder, at.counters), self._following(builder, at.stage))

    def _advance(self, builder: Builder, counters: tuple[Value, ...]) -> tuple[Value, ...]:
        """The counters of the iteration after one; the outermost is at its end after the last one."""
        result = []
        goes_on: Value | None = None
        for number, (counter, value) in enumerate(zip(self.counters, counters)):
            more, step = counter.later(builder, value, 1)
            outermost = number == len(self.counters) - 1
            next_counter = self._select(
                builder, more, binary(builder, arith.AddIOp, value, step), counter.upper if outermost else counter.lower
            )
            result.append(next_counter if goes_on is None else self._select(builder, goes_on, value, next_counter))
            goes_on = more
        return tuple(result)

    def _again(self, value: Value, values: dict[Value, Value], builder: Builder) -> Value:
        """A value of the loops' bodies for other counters, which `values` has."""
        if value in values:
            return values[value]
        op = value.defining_op
        if op is None or op.parent not in self.blocks:
            return value
        for operand in op.operands:
            values[operand] = self._again(operand, values, builder)
        copy: Operation = builder.insert(op.clone(dict(values)))
        copy.location = op.location
        values.update(zip(op.results, copy.results))
        return values[value]

    def _following(self, builder: Builder, stage: Value) -> Value:
        """The stage after one, going around."""
        wraps = compare(builder, "eq", stage, integer(builder, self.stages - 1))
        next_stage = binary(builder, arith.AddIOp, stage, integer(builder, 1))
        return self._select(builder, wraps, integer(builder, 0), next_stage)

    def _select(self, builder: Builder, condition: Value, one: Value, other: Value) -> Value:
        return builder.insert(arith.SelectOp(condition, one, other)).results[0]

    def _read(self, stage: Value, wait: tileas.AsyncWaitOp) -> None:
        for each, buffer in zip(self.stream.loads, self.buffers):
            load = each.load
            here = Builder.before(load)
            here.location = load.location
            tile = here.insert(tileas.CopyOp(buffer, stage, result=load.data.type)).results[0]
            waited = [v for v in (load.token, wait.result_token) if v is not None]
            token = here.insert(tileas.JoinMemTokenOp.create(waited, (load.result_token.type,))).results[0]
            load.data.replace_all_uses_with(tile)
            load.result_token.replace_all_uses_with(token)
            load.erase()
