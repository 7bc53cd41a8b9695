"""The loops over slices that replace a group of operations (see `slicing`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tileiras.dialects import arith, scf
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.arith.build import integer
from tileiras.ir import (
    Block,
    Builder,
    DenseElementsAttr,
    Operation,
    Region,
    TensorType,
    Value,
    i32,
)

from .dimensions import DOTS, k_dims
from .operations import SlicedOperations, sliced

if TYPE_CHECKING:
    from .groups import Group


class SlicedLoops:
    """Replaces a group by a loop for each of its phases."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.completed: dict[Operation, Value] = {}
        """Access -> the token of the last loop that executes it."""

    def run(self) -> list[Block]:
        """Replace the group; return the bodies of the loops."""
        group = self.group
        end: Operation | None = None
        bodies = []
        for phase in range(group.phase_count):
            roots = [op for op in group.ops if op in group.roots and group.phases[op] == phase]
            if not roots:
                continue
            place = roots[-1]
            if end is not None and place.is_before_in_block(end):
                assert end.next is not None
                place = end.next
            value = _Loop(self, phase, roots).insert(place)
            bodies.append(value[0].regions[0].block)
            end = self._delay(value)
        for op in reversed(group.ops):
            for result in op.results:
                if isinstance(result.type, aa.MemTokenType) and op in self.completed:
                    result.replace_all_uses_with(self.completed[op])
            op.erase()
        return bodies

    def _delay(self, operations: list[Operation]) -> Operation:
        """Move operations that precede a loop but use its results after it; return the last operation moved.

        Operations that do not depend on the loop keep their place: tokens are the only order.
        """
        late: set[Value] = {result for op in operations for result in op.results}
        last = operations[-1]
        following = last.next
        op = self.group.block.first
        while op is not None and op is not operations[0]:
            following_op = op.next
            if op not in self.group.runs and any(v in late for inner in op.walk() for v in inner.operands):
                late.update(op.results)
                op.detach()
                self.group.block.insert_before(op, following)
                last = op
            op = following_op
        return last


def _thin(type: TensorType, dim: int) -> TensorType:
    """The type of one element along a dimension."""
    return TensorType([1 if d == dim else n for d, n in enumerate(type.shape)], type.element_type)


class _Loop(SlicedOperations):
    """The loop of one phase: slices of the operands of its roots.  It carries a token, slices of its reductions, the
    ends of its scans, and its dots."""

    def __init__(self, loops: SlicedLoops, phase: int, roots: list[Operation]) -> None:
        super().__init__(loops.group)
        self.completed = loops.completed
        self.phase = phase
        self.reductions: list[Any] = [op for op in roots if isinstance(op, aa.ReduceOp)]
        self.dots: list[Any] = [op for op in roots if isinstance(op, DOTS) and self.group.is_reduced(op)]
        self.ops = [op for op in self.group.ops if phase in self.group.runs[op]]
        self.scans: dict[Any, list[Value]] = {op: [] for op in self.ops if op in self.group.scans}
        """Scan along the dimension that is cut -> the total of the slices before this one; after its execution, the
        total for the next slice."""

    def insert(self, place: Operation) -> list[Operation]:
        """Insert the loop before `place`; return it with the operations that complete the reductions."""
        self.outer = Builder.before(place)
        self.outer.location = place.location
        parts = self.group.parts
        bounds = [integer(self.outer, n) for n in (0, parts, 1)]
        self.start = self.outer.insert(aa.CreateMemTokenOp(result=aa.MemTokenType())).results[0]
        types = [sliced(v.type, op.dim.value, parts) for op in self.reductions for v in op.inputs]
        reduced = len(types)
        types += [_thin(v.type, op.dim.value) for op in self.scans for v in op.inputs]
        initial = [*(self._zero(type) for type in types), *(op.c for op in self.dots)]
        carried = [self.start.type, *(v.type for v in initial)]
        body = Block([i32, *carried], [place.location] * (1 + len(carried)))
        self.counter = body.arguments[0]
        self.inner = Builder.at_end(body)
        self.inner.location = place.location
        self.is_first = self._is_first() if types else None
        if self.group.backwards:
            last = integer(self.inner, parts - 1)
            self.counter = self.inner.insert(arith.SubIOp(last, self.counter)).results[0]
        before = iter(body.arguments[2 + reduced :])
        for op in self.scans:
            self.scans[op] = [next(before) for _ in op.inputs]
        for op in self.ops:
            if op not in self.reductions and op not in self.dots:
                self.again(op)
        running = self._combine(body.arguments[2 : 2 + reduced])
        running += [value for values in self.scans.values() for value in values]
        running += map(self._multiply, self.dots, body.arguments[2 + len(types) :])
        self.inner.location = place.location
        tokens = [self.values[r] for op in self.ops for r in op.results if isinstance(r.type, aa.MemTokenType)]
        token: Value = body.arguments[1]
        if tokens:
            token = self.inner.insert(aa.JoinMemTokenOp.create((token, *tokens), (token.type,))).results[0]
        self.inner.insert(scf.YieldOp.create((token, *running)))
        loop = scf.ForOp.create((*bounds, self.start, *initial), carried, {}, (Region([body]),))
        self.outer.insert(loop)
        for op in self.ops:
            if any(isinstance(r.type, aa.MemTokenType) for r in op.results) and self.group.runs[op][-1] == self.phase:
                self.completed[op] = loop.results[0]
                for result in op.results:
                    if isinstance(result.type, aa.MemTokenType):
                        self._replace_outside(result, loop.results[0])
        for op, dot in zip(self.dots, loop.results[1 + len(types) :]):
            op.replace_all_uses_with((dot,))
        return [loop, *self._complete(loop.results[1 : 1 + reduced])]

    def _replace_outside(self, old: Value, new: Value) -> None:
        """The group's own operations are kept for later phases."""
        old.replace_uses_in(new, [user for user in old.users if user not in self.group.runs])

    def _zero(self, type: TensorType) -> Value:
        size = max(1, type.element_type.width // 8)
        return self.outer.insert(arith.ConstantOp(DenseElementsAttr(type, bytes(size), True))).results[0]

    def _token(self, token: Value) -> Value:
        """The token that orders an access of this loop: accesses of this iteration, of earlier loops, and of
        outside."""
        op: Any = token.defining_op
        if token in self.values:
            return self.values[token]
        if op in self.group.runs:
            if op in self.completed:
                return self.completed[op]
            # Executed again in a later loop, whose accesses do not overlap this one.
            return self.start if op.token is None else self._token(op.token)
        if isinstance(op, aa.JoinMemTokenOp) and op.parent is self.group.block:
            tokens = [self._token(v) for v in op.operands]
            if tokens != list(op.operands):
                return self.inner.insert(aa.JoinMemTokenOp.create(tokens, (token.type,))).results[0]
        return token

    # -- reductions ----------------------------------------------------------------------------------------------------

    def _combine(self, arguments: Sequence[Value]) -> list[Value]:
        """The running slices of each reduction: the first ones, then those combined with every other."""
        result: list[Value] = []
        for op in self.reductions:
            self.inner.location = op.location
            running = list(arguments[len(result) : len(result) + len(op.inputs)])
            fresh = [self._slice(v, op.dim.value) for v in op.inputs]
            result += self._unless_first(fresh, self._combined(op, running, fresh))
        return result

    def _is_first(self) -> Value:
        """Whether an iteration is the first one."""
        zero = integer(self.inner, 0)
        return self.inner.insert(arith.CmpIOp(self.counter, zero, predicate=arith.CmpIPredicateAttr("eq"))).results[0]

    def _unless_first(self, fresh: list[Value], combined: list[Value]) -> list[Value]:
        """`combined` in every iteration but the first, whose value is `fresh`."""
        pairs = zip(fresh, combined)
        return [self.inner.insert(arith.SelectOp(self.is_first, new, old)).results[0] for new, old in pairs]

    # -- dots ------------------------------------------------------------------------------------------------------

    def _multiply(self, op: aa.DotOp, accumulators: Value) -> Value:
        """A dot's accumulators with those of this slice of K."""
        self.inner.location = op.location
        operands = [accumulators if dim is None else self._slice(v, dim) for v, dim in zip(op.operands, k_dims(op))]
        return self.inner.insert(type(op).create(operands, (accumulators.type,), dict(op.attributes))).results[0]

    # -- scans ---------------------------------------------------------------------------------------------------------

    def again(self, op: Operation) -> None:
        super().again(op)
        if op not in self.scans:
            return
        assert isinstance(op, aa.ScanOp)
        insert = self.inner.insert
        alone = [self.values[result] for result in op.results]
        before = [insert(aa.BroadcastOp(v, result=r.type)).results[0] for v, r in zip(self.scans[op], alone)]
        whole = self._unless_first(alone, self._combined(op, before, alone))
        self.values.update(zip(op.results, whole))
        # The last element of the slice along the dimension is the total for the next slice.
        dim = op.dim.value
        end = 0 if op.reverse is not None else alone[0].type.shape[dim] - 1
        coords = [integer(self.inner, end if d == dim else 0) for d in range(alone[0].type.rank)]
        self.scans[op] = [
            insert(aa.ExtractSliceOp.create((v, *coords), (_thin(v.type, dim),))).results[0] for v in whole
        ]

    def _combined(self, op: aa.ScanOp, running: list[Value], fresh: list[Value]) -> list[Value]:
        """The combiner's scalar operations, on tensors."""
        block = op.body.block
        shape = fresh[0].type.shape
        values = dict(zip(block.arguments, (*running, *fresh)))

        def tensor(value: Value) -> Value:
            result = values.get(value, value)
            if not isinstance(result.type, TensorType):
                type = TensorType(shape, result.type)
                result = values[value] = self.inner.insert(aa.SplatOp(result, result=type)).results[0]
            return result

        for inner in block.operations:
            if inner is block.last:
                break
            if isinstance(inner, arith.ConstantOp):
                values[inner.results[0]] = self.inner.insert(inner.clone()).results[0]
                continue
            types = [TensorType(shape, r.type) for r in inner.results]
            new = type(inner).create([tensor(v) for v in inner.operands], types, dict(inner.attributes))
            self.inner.insert(new)
            values.update(zip(inner.results, new.results))
        return [tensor(v) for v in block.last.operands]

    def _complete(self, running: Sequence[Value]) -> list[Operation]:
        """The reductions within the last slice-wide accumulators, after the loop."""
        result = []
        for op in self.reductions:
            mine, running = running[: len(op.inputs)], running[len(op.inputs) :]
            op.body.clone_into(body := Region(), {}, {})
            types = [r.type for r in op.results]
            new = aa.ReduceOp.create(mine, types, dict(op.attributes), (body,), location=op.location)
            self.outer.insert(new)
            result.append(new)
            op.replace_all_uses_with(new.results)
        return result
