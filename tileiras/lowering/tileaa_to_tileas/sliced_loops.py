"""The loops over slices that take the place of a group of operations (see `slicing`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileiras.dialects import arith, scf
from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import (
    Block,
    Builder,
    DenseElementsAttr,
    IntegerAttr,
    IntegerType,
    Operation,
    Region,
    TensorType,
    Value,
    i32,
    i64,
)

from .slice_dimensions import ACCESSES, operand_dims

if TYPE_CHECKING:
    from .slice_groups import Group


def sliced(type: TensorType, dim: int, parts: int) -> TensorType:
    """The type of a slice."""
    shape = list(type.shape)
    shape[dim] //= parts
    return TensorType(tuple(shape), type.element_type)


def _integer(builder: Builder, value: int, type: Any = i32) -> Value:
    return builder.insert(arith.ConstantOp(IntegerAttr(value, type))).results[0]


class SlicedLoops:
    """Replaces a group by a loop for each of its stages."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.completed: dict[Operation, Value] = {}
        """The token of the loop that is the last to execute an access."""

    def run(self) -> list[Block]:
        """Does so; returns the bodies of the loops."""
        group = self.group
        end: Operation | None = None
        bodies = []
        for stage in range(group.stage_count):
            sinks = [op for op in group.units if op in group.sinks and group.stages[op] == stage]
            if not sinks:
                continue
            place = sinks[-1]
            if end is not None and place.is_before_in_block(end):
                assert end.next is not None
                place = end.next
            made = _Loop(self, stage, sinks).insert(place)
            bodies.append(made[0].regions[0].block)
            end = self._delay(made)
        for op in reversed(group.units):
            for result in op.results:
                if isinstance(result.type, aa.MemTokenType) and op in self.completed:
                    result.replace_all_uses_with(self.completed[op])
            op.erase()
        return bodies

    def _delay(self, made: list[Operation]) -> Operation:
        """Moves what uses the results of a loop, and stands before it, behind it; returns the last operation moved.

        What does not depend on the loop keeps its place: tokens are all the order that there is.
        """
        late: set[Value] = {result for op in made for result in op.results}
        last = made[-1]
        following = last.next
        op = self.group.block.first
        while op is not None and op is not made[0]:
            following_op = op.next
            if op not in self.group.runs and any(v in late for inner in op.walk() for v in inner.operands):
                late.update(op.results)
                op.detach()
                self.group.block.insert_before(op, following)
                last = op
            op = following_op
        return last


class _Loop:
    """The loop of one stage: slices of what its sinks need."""

    def __init__(self, loops: SlicedLoops, stage: int, sinks: list[Operation]) -> None:
        self.group = loops.group
        self.completed = loops.completed
        self.stage = stage
        self.reductions: list[Any] = [op for op in sinks if isinstance(op, aa.ReduceOp)]
        self.ops = [op for op in self.group.units if stage in self.group.runs[op]]
        self.values: dict[Value, Value] = {}
        """Slices of the group's tensors, and tokens of its accesses, in the loop."""
        self.made: dict[tuple[Value, int], Value] = {}

    def insert(self, place: Operation) -> list[Operation]:
        """Puts the loop before `place`; returns it with what completes the reductions."""
        self.outer = Builder.before(place)
        self.outer.location = place.location
        parts = self.group.parts
        bounds = [_integer(self.outer, n) for n in (0, parts, 1)]
        self.start = self.outer.insert(aa.CreateMemTokenOp(result=aa.MemTokenType())).results[0]
        types = [sliced(v.type, op.dim.value, parts) for op in self.reductions for v in op.inputs]
        zeros = [self._zero(type) for type in types]
        carried = [self.start.type, *types]
        body = Block([i32, *carried], [place.location] * (1 + len(carried)))
        self.counter = body.arguments[0]
        self.inner = Builder.at_end(body)
        self.inner.location = place.location
        for op in self.ops:
            if op not in self.reductions:
                self._again(op)
        running = self._combine(body.arguments[2:])
        self.inner.location = place.location
        tokens = [self.values[r] for op in self.ops for r in op.results if isinstance(r.type, aa.MemTokenType)]
        token: Value = body.arguments[1]
        if tokens:
            token = self.inner.insert(aa.JoinMemTokenOp.create((token, *tokens), (token.type,))).results[0]
        self.inner.insert(scf.YieldOp.create((token, *running)))
        loop = scf.ForOp.create((*bounds, self.start, *zeros), carried, {}, (Region([body]),))
        self.outer.insert(loop)
        for op in self.ops:
            if any(isinstance(r.type, aa.MemTokenType) for r in op.results) and self.group.runs[op][-1] == self.stage:
                self.completed[op] = loop.results[0]
                for result in op.results:
                    if isinstance(result.type, aa.MemTokenType):
                        self._replace_outside(result, loop.results[0])
        return [loop, *self._complete(loop.results[1:])]

    def _replace_outside(self, old: Value, new: Value) -> None:
        """The group's own operations are still to be read by later stages."""
        old.replace_uses_in(new, [user for user in old.users if user not in self.group.runs])

    def _zero(self, type: TensorType) -> Value:
        size = max(1, type.element_type.width // 8)
        return self.outer.insert(arith.ConstantOp(DenseElementsAttr(type, bytes(size), True))).results[0]

    # -- one slice -----------------------------------------------------------------------------------------------------

    def _again(self, op: Any) -> None:
        """An operation of the group, or of one of its loops, on a slice."""
        self.inner.location = op.location
        dims = self.group.dims
        cut = [dims[v] for v in (*op.results, *op.operands) if v in dims]
        if op in self.group.loops:
            self._loop_again(op)
            return
        if not cut:
            self.inner.insert(op.clone(self.values))
            return
        if isinstance(op, ACCESSES):
            operands = self._access_operands(op, cut[0])
        else:
            wanted = operand_dims(op, dims[op.results[0]], self.group.parts)
            operands = [self._slice(v, dim) for v, dim in zip(op.operands, wanted)]
        types = [sliced(r.type, dims[r], self.group.parts) if r in dims else r.type for r in op.results]
        regions = []
        for region in op.regions:
            region.clone_into(copy := Region(), {}, {})
            regions.append(copy)
        new = type(op).create(operands, types, dict(op.attributes), regions)
        self.inner.insert(new)
        self.values.update(zip(op.results, new.results))

    def _loop_again(self, loop: Any) -> None:
        """A loop that carries slices."""
        dims = [self.group.dims.get(result) for result in loop.results]
        bounds = [self._slice(v, None) for v in (loop.lower_bound, loop.upper_bound, loop.step)]
        inits = [self._carried(v, dim) for v, dim in zip(loop.init_args, dims)]
        types = [v.type for v in inits]
        old = loop.body.block
        body = Block([old.arguments[0].type, *types], [a.location for a in old.arguments])
        self.values.update(zip(old.arguments, body.arguments))
        outer, made = self.inner, self.made
        # What is made again inside is not there after the loop.
        self.inner, self.made = Builder.at_end(body), dict(made)
        for op in old.operations:
            if op is not old.last:
                self._again(op)
        self.inner.location = old.last.location
        self.inner.insert(scf.YieldOp.create([self._carried(v, dim) for v, dim in zip(old.last.operands, dims)]))
        self.inner, self.made = outer, made
        self.inner.location = loop.location
        new = scf.ForOp.create((*bounds, *inits), types, dict(loop.attributes), (Region([body]),))
        self.inner.insert(new)
        self.values.update(zip(loop.results, new.results))

    def _carried(self, value: Value, dim: int | None) -> Value:
        return self._token(value) if isinstance(value.type, aa.MemTokenType) else self._slice(value, dim)

    def _slice(self, value: Value, dim: int | None) -> Value:
        if dim is None or value in self.group.dims or not isinstance(value.type, TensorType):
            return self.values.get(value, value)
        return self._make(value, dim)

    def _make(self, value: Value, dim: int) -> Value:
        """A slice of a tensor that is made of scalars."""
        key = (value, dim)
        if key in self.made:
            return self.made[key]
        op: Any = value.defining_op
        parts = self.group.parts
        type_ = sliced(value.type, dim, parts)
        if isinstance(op, arith.ConstantOp):
            new = arith.ConstantOp(DenseElementsAttr(type_, op.value.data, True))
        elif isinstance(op, aa.MakeRangeOp):
            new = self._range(type_)
        else:
            dims = [None] if isinstance(op, aa.SplatOp) else operand_dims(op, dim, parts)
            operands = [self._slice(v, d) for v, d in zip(op.operands, dims)]
            new = type(op).create(operands, (type_,), dict(op.attributes))
        self.inner.insert(new)
        self.made[key] = new.results[0]
        return new.results[0]

    def _range(self, type: TensorType) -> Operation:
        """The next so many numbers."""
        insert = self.inner.insert
        element = type.element_type
        first = insert(arith.MulIOp(self.counter, _integer(self.inner, type.num_elements))).results[0]
        if element.width != 32:
            cls = arith.ExtUIOp if element.width > 32 else arith.TruncIOp
            first = insert(cls(first, result=element)).results[0]
        start = insert(aa.SplatOp(first, result=type)).results[0]
        return arith.AddIOp(start, insert(aa.MakeRangeOp(result=type)).results[0])

    # -- accesses ------------------------------------------------------------------------------------------------------

    def _access_operands(self, op: Any, dim: int) -> list[Value]:
        operands = [self._token(v) if isinstance(v.type, aa.MemTokenType) else self._slice(v, dim) for v in op.operands]
        if hasattr(op, "view"):
            old = list(op.operands)
            at = old.index(op.view)
            operands[at], scale = self._view(op.view, dim)
            operands[at + 1 + dim] = self._coordinate(op.coords[dim], scale)
        return operands

    def _view(self, view: Value, dim: int) -> tuple[Value, int]:
        """The tiling by slices, and how many of these a step of the whole tiles is."""
        type = view.type
        op: Any = view.defining_op
        shape, strides = list(type.shape), list(type.traversal_strides)
        shape[dim] //= self.group.parts
        scale, strides[dim] = strides[dim] // shape[dim], shape[dim]
        new = aa.TiledViewType(shape, type.source, type.dim_map, type.padding, strides, type.sparse_dim)
        source = self.values.get(op.source)
        if source is None:
            return self.outer.insert(aa.BlockTileOp(op.source, result=new)).results[0], scale
        return self.inner.insert(aa.BlockTileOp(source, result=new)).results[0], scale

    def _coordinate(self, coordinate: Value, scale: int) -> Value:
        """Where the slice is: in 64 bits, since slices are more than tiles."""
        insert = self.inner.insert
        wide, counter = (self._wide(v) for v in (self.values.get(coordinate, coordinate), self.counter))
        first = insert(arith.MulIOp(wide, _integer(self.inner, scale, i64))).results[0]
        return insert(arith.AddIOp(first, counter)).results[0]

    def _wide(self, value: Value) -> Value:
        if isinstance(value.type, IntegerType) and value.type.width < 64:
            return self.inner.insert(arith.ExtSIOp(value, result=i64)).results[0]
        return value

    def _token(self, token: Value) -> Value:
        """What an access of this loop waits for: accesses of this iteration, of earlier loops, and of outside."""
        op: Any = token.defining_op
        if token in self.values:
            return self.values[token]
        if op in self.group.runs:
            if op in self.completed:
                return self.completed[op]
            # Executed again in a later loop, with which this access does not meet.
            return self.start if op.token is None else self._token(op.token)
        if isinstance(op, aa.JoinMemTokenOp) and op.parent is self.group.block:
            tokens = [self._token(v) for v in op.operands]
            if tokens != list(op.operands):
                return self.inner.insert(aa.JoinMemTokenOp.create(tokens, (token.type,))).results[0]
        return token

    # -- reductions ----------------------------------------------------------------------------------------------------

    def _combine(self, arguments: Any) -> list[Value]:
        """Each reduction's running slices: the first ones, then those combined with every other."""
        if not self.reductions:
            return []
        insert = self.inner.insert
        zero = _integer(self.inner, 0)
        first = insert(arith.CmpIOp(self.counter, zero, predicate=arith.CmpIPredicateAttr("eq"))).results[0]
        found: list[Value] = []
        for op in self.reductions:
            self.inner.location = op.location
            running = list(arguments[len(found) : len(found) + len(op.inputs)])
            fresh = [self._slice(v, op.dim.value) for v in op.inputs]
            for old, new in zip(self._combined(op, running, fresh), fresh):
                found.append(insert(arith.SelectOp(first, new, old)).results[0])
        return found

    def _combined(self, op: Any, running: list[Value], fresh: list[Value]) -> list[Value]:
        """The combiner's operations, which are written for scalars, on tensors."""
        block = op.body.block
        shape = fresh[0].type.shape
        values = dict(zip(block.arguments, (*running, *fresh)))

        def tensor(value: Value) -> Value:
            found = values.get(value, value)
            if not isinstance(found.type, TensorType):
                type = TensorType(shape, found.type)
                found = values[value] = self.inner.insert(aa.SplatOp(found, result=type)).results[0]
            return found

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

    def _complete(self, running: Any) -> list[Operation]:
        """What is left to combine, after the loop."""
        made = []
        for op in self.reductions:
            mine, running = running[: len(op.inputs)], running[len(op.inputs) :]
            op.body.clone_into(body := Region(), {}, {})
            types = [r.type for r in op.results]
            new = aa.ReduceOp.create(mine, types, dict(op.attributes), (body,), location=op.location)
            self.outer.insert(new)
            made.append(new)
            op.replace_all_uses_with(new.results)
        return made
