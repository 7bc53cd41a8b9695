"""A loop whose operations have stages: those of a later stage run beside the first ones of the next iteration.

    for i in lower .. upper:                   if lower < upper:
      a = first(i)                               a = first(lower)
      second(i, a)                     ->        for i in lower .. last:
                                                   second(i, a);  a = first(i + step)
                                                 second(last, a)

The values of the first part that the second one uses become loop-carried, except tiles in shared memory, whose place
the second part computes again; values that were loop-carried remain so.  In the new loop operations are in the order of
the schedule, which may put the next iteration's first.  If there are several stages, the last is split off first: each
step leaves a loop with the same results as the one before, for any trip count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tileiras.dialects import arith, scf
from tileiras.dialects.arith import constant_integer
from tileiras.dialects.arith.build import binary, integer
from tileiras.ir import Block, Builder, Operation, Region, Value
from tileiras.layout.encoding import is_in_shared
from tileiras.schedule.dependence_graph import Wait
from tileiras.schedule.induction_variable import LoopCounter, trip_count
from tileiras.support.named_tuple import NamedTuple

WaitsOf = Callable[[scf.ForOp], "tuple[Wait, ...] | None"]
"""Loop -> the dependences between its operations."""

Slots = Mapping[Operation, tuple[int, int]]
"""Operation -> its stage, and its place in a round of the loop."""


def rotate(loop: scf.ForOp, slots: Slots, waits_of: WaitsOf) -> scf.ForOp:
    """Rewrite a loop, in place, whose operations have slots that respect all dependences of `waits_of`; return the
    new loop."""
    while (last := max((slots[op][0] for op in _body(loop)), default=0)) > 0:
        slots = _read_in_place(loop, slots, last)
        waits = waits_of(loop)
        assert waits is not None, "the waits of the loop were looked at"
        rotation = _Rotation(loop, slots, last, waits)
        rotation.run()
        loop, slots = rotation.kernel, rotation.slots
    return loop


def _body(loop: scf.ForOp) -> list[Operation]:
    return list(loop.body.block.operations)[:-1]


def _read_in_place(loop: scf.ForOp, slots: Slots, last: int) -> Slots:
    """Give operations of the last stage their own copies of views of shared memory that are defined in an earlier
    stage: such a tile lies in memory, and no loop carries it.  Returns the slots of all operations."""
    entry = dict(slots)
    for op in reversed(_body(loop)):  # views of a tile before the tile
        if entry[op][0] == last or not any(is_in_shared(result.type) for result in op.results):
            continue
        later = [user for user in _users(op, loop) if entry[user][0] == last]
        if not later:
            continue
        again = op.clone({})
        loop.body.block.insert_before(again, op.next)
        entry[again] = (last, min(entry[user][1] for user in later))
        for mine, other in zip(op.results, again.results):
            inside = [user for user in mine.users if loop.body.block.find_ancestor_op(user) in later]
            mine.replace_uses_in(other, inside)
        if not any(result.has_uses for result in op.results):
            del entry[op]
            op.erase()
    return entry


def _users(op: Operation, loop: scf.ForOp) -> list[Operation]:
    """The operations of a loop's body that use a result of another one, themselves or inside."""
    block = loop.body.block
    around = (block.find_ancestor_op(user) for result in op.results for user in result.users)
    return [user for user in dict.fromkeys(around) if user is not None and user is not block.last]


class _Parts(NamedTuple):
    """The two parts of one iteration."""

    first: list[Operation]
    second: list[Operation]


class _Rotation:
    """One step: splits the operations of the last stage from those of earlier ones."""

    def __init__(self, loop: scf.ForOp, slots: Slots, last: int, waits: Sequence[Wait]) -> None:
        self._loop = loop
        self._block = loop.body.block
        body = _body(loop)
        self._parts = _Parts([op for op in body if slots[op][0] < last], [op for op in body if slots[op][0] == last])
        self._is_second = set(self._parts.second)
        self._old_slots = slots
        self._order = self._round(body, waits)
        self._crossing = self._crossing_values()
        self._carried = self._carried_arguments()
        self.slots: dict[Operation, tuple[int, int]] = {}
        """Operation of the new loop -> its slot."""

    # -- carried values ------------------------------------------------------------------------------------------------

    def _crossing_values(self) -> list[Value]:
        """The values that the first part defines and the second, or the terminator, uses."""
        values = []
        for op in self._parts.first:
            for value in op.results:
                users = {self._block.find_ancestor_op(user) for user in value.users}
                if any(user in self._is_second or user is self._block.last for user in users):
                    values.append(value)
        return values

    def _carried_arguments(self) -> list[int]:
        """Numbers of the carried values that the second part, or the terminator, uses directly."""
        uses = {value for op in self._parts.second for inner in op.walk() for value in inner.operands}
        uses.update(self._loop.yield_op.operands)
        return [number for number, value in enumerate(self._loop.iter_args) if value in uses]

    def _round(self, body: Sequence[Operation], waits: Sequence[Wait]) -> list[Operation]:
        """The operations in the order in which a round of the new loop has them: by their places, after all that they
        wait for."""
        behind: dict[int, set[int]] = {n: set() for n in range(len(body))}
        for wait in waits:
            rounds = (body[wait.target] in self._is_second) + wait.distance - (body[wait.source] in self._is_second)
            if rounds == 0 and wait.source != wait.target:
                behind[wait.target].add(wait.source)
        places = [(self._old_slots[op][1], op not in self._is_second) for op in body]
        by_place = sorted(range(len(body)), key=lambda n: (places[n], n))
        emitted: set[int] = set()
        order: list[Operation] = []

        def place(each: int) -> None:
            if each in emitted:
                return
            emitted.add(each)
            for other in sorted(behind[each]):
                place(other)
            order.append(body[each])

        for each in by_place:
            place(each)
        return order

    # -- the new operations --------------------------------------------------------------------------------------------

    def run(self) -> None:
        loop = self._loop
        outer = Builder.before(loop, loop.location)
        trips = trip_count(loop)
        if trips:
            results = self._whole(outer)
        else:
            then, other = Block(), Block()
            inner = Builder.at_end(then, loop.location)
            inner.insert(scf.YieldOp.create(self._whole(inner)))
            Builder.at_end(other, loop.location).insert(scf.YieldOp.create(list(loop.init_args)))
            runs = LoopCounter(loop).runs(outer)
            types = [result.type for result in loop.results]
            regions = (Region([then]), Region([other]))
            results = list(outer.insert(scf.IfOp.create((runs,), types, {}, regions)).results)
        loop.replace_all_uses_with(results)
        loop.erase()

    def _whole(self, builder: Builder) -> list[Value]:
        """The first part of the first iteration, the loop, the second part of the last one; the values after it."""
        loop = self._loop
        last = self._last_counter(builder)
        values: dict[Value, Value] = {loop.induction_variable: loop.lower_bound}
        values.update(zip(loop.iter_args, loop.init_args))
        for op in self._program_order(self._parts.first):
            if not (isinstance(op, scf.IfOp) and not op.results and self._is_false(op.condition, values)):
                builder.insert(op.clone(values))
        inits = [loop.init_args[n] for n in self._carried] + [values[value] for value in self._crossing]
        kernel = self._kernel(builder, inits, last)
        behind: dict[Value, Value] = {loop.induction_variable: last}
        behind.update(zip(self._handed_on(), kernel.results))
        for op in self._program_order(self._parts.second):
            builder.insert(op.clone(behind))
        return [behind.get(value, value) for value in loop.yield_op.operands]

    def _is_false(self, condition: Value, values: Mapping[Value, Value]) -> bool:
        """Whether the condition of `LoopCounter.is_later`, perhaps with others, is known to be false in the iterations
        before the loop, in which `values` replace those of the loop: they are among the first, which have no stage to
        release."""
        test = values.get(condition, condition).defining_op
        if isinstance(test, arith.AndIOp):
            return any(self._is_false(each, values) for each in test.operands)
        if not isinstance(test, arith.CmpIOp):
            return False
        if test.predicate.value == "ne":
            return test.rhs is self._loop.lower_bound and self._iterations(test.lhs) == 0
        offset, last = test.lhs.defining_op, test.rhs.defining_op
        if test.predicate.value != "ugt" or not isinstance(offset, arith.SubIOp) or not isinstance(last, arith.MulIOp):
            return False
        most, most_iterations = constant_integer(last.rhs), self._iterations(offset.lhs)
        from_lower = offset.rhs is self._loop.lower_bound and last.lhs is self._loop.step
        return from_lower and most is not None and most_iterations is not None and most_iterations <= most

    def _iterations(self, counter: Value) -> int | None:
        """The iteration whose counter a value is, if that is known."""
        count = 0
        while isinstance(op := counter.defining_op, arith.AddIOp) and op.rhs is self._loop.step:
            count, counter = count + 1, op.lhs
        return count if counter is self._loop.lower_bound else None

    def _program_order(self, part: Sequence[Operation]) -> list[Operation]:
        """A part of an iteration that runs alone: in the order of the schedule."""
        ops = set(part)
        return [op for op in self._order if op in ops]

    def _handed_on(self) -> list[Value]:
        """The values of an iteration that the new loop carries to its second part."""
        return [*(self._loop.iter_args[n] for n in self._carried), *self._crossing]

    def _last_counter(self, builder: Builder) -> Value:
        """The counter of the last iteration of a loop that runs."""
        loop = self._loop
        type, step = loop.induction_variable.type, constant_integer(loop.step)
        one = integer(builder, 1, type)
        # The unsigned difference is exact for bounds of either sign.
        upper = binary(builder, arith.SubIOp, loop.upper_bound, one)
        if step == 1:
            return upper
        distance = binary(builder, arith.SubIOp, upper, loop.lower_bound)
        steps = binary(builder, arith.DivUIOp, distance, loop.step)
        return binary(builder, arith.AddIOp, loop.lower_bound, binary(builder, arith.MulIOp, steps, loop.step))

    def _kernel(self, builder: Builder, inits: Sequence[Value], last: Value) -> scf.ForOp:
        loop = self._loop
        body = Block([loop.induction_variable.type, *(value.type for value in inits)])
        inner = Builder.at_end(body, loop.location)
        now: dict[Value, Value] = {loop.induction_variable: body.arguments[0]}
        now.update(zip(self._handed_on(), body.arguments[1:]))
        following = binary(inner, arith.AddIOp, body.arguments[0], loop.step)
        later: dict[Value, Value] = {loop.induction_variable: following}
        for op in self._order:
            if op not in self._is_second:
                # Values yielded by the previous iteration are defined: the order of operations ensures it.
                for argument, value in zip(loop.iter_args, loop.yield_op.operands):
                    if argument not in later and (value in now or not self._is_made_inside(value)):
                        later[argument] = now.get(value, value)
            new = inner.insert(op.clone(now if op in self._is_second else later))
            self.slots[new] = (0 if op in self._is_second else self._old_slots[op][0], self._old_slots[op][1])
        ends = [now.get(loop.yield_op.operands[n], loop.yield_op.operands[n]) for n in self._carried]
        ends += [later[value] for value in self._crossing]
        inner.insert(scf.YieldOp.create(ends))
        self._shift_stages()
        self.slots[following.defining_op] = (0, -1)
        operands = (loop.lower_bound, last, loop.step, *inits)
        types = [value.type for value in inits]
        self.kernel = builder.insert(scf.ForOp.create(operands, types, dict(loop.attributes), (Region([body]),)))
        return self.kernel

    def _is_made_inside(self, value: Value) -> bool:
        producer = value.defining_op
        return (
            value.parent_block is self._block
            or producer is not None
            and self._block.find_ancestor_op(producer) is not None
        )

    def _shift_stages(self) -> None:
        """Assign the stages of the new loop: those of the first part remain, and the second runs with its last."""
        stage = max((slot[0] for op, slot in self.slots.items()), default=0)
        second = {op for op, old in zip(self.slots, self._order) if old in self._is_second}
        for op in second:
            self.slots[op] = (stage, self.slots[op][1])
