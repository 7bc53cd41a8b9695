"""A group's operations on one slice of its tensors (see `slicing`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileiras.dialects import arith, scf
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.arith.build import integer
from tileiras.ir import (
    Block,
    Builder,
    DenseElementsAttr,
    IntegerType,
    Operation,
    Region,
    TensorType,
    Value,
    i64,
)

from .dimensions import Access, operand_dims

if TYPE_CHECKING:
    from .groups import Group


def sliced(type: TensorType, dim: int, parts: int) -> TensorType:
    """The type of a slice."""
    shape = list(type.shape)
    shape[dim] //= parts
    return TensorType(tuple(shape), type.element_type)


class SlicedOperations:
    """The slice with the number `counter`, emitted by `inner`; `outer` emits the operations that slices share."""

    outer: Builder
    inner: Builder
    counter: Value

    def __init__(self, group: Group) -> None:
        self.group = group
        self.values: dict[Value, Value] = {}
        """Value -> its slice, for the group's tensors, or its token, for the group's accesses."""
        self.made: dict[tuple[Value, int], Value] = {}

    def _token(self, token: Value) -> Value:
        """The token that an access waits for."""
        return self.values.get(token, token)

    def again(self, op: Operation) -> None:
        """Emit an operation of the group, or of one of its loops, for a slice."""
        self.inner.location = op.location
        dims = self.group.dims
        cut = any(v in dims for v in (*op.results, *op.operands))
        if op in self.group.loops:
            self._loop_again(op)
            return
        if op in self.group.accesses:
            operands = self._access_operands(op, self.group.accesses[op])
        elif not cut:
            self.inner.insert(op.clone(self.values))
            return
        else:
            dims_of_operands = operand_dims(op, dims[op.results[0]], self.group.parts)
            operands = [self._slice(v, dim) for v, dim in zip(op.operands, dims_of_operands)]
        types = [sliced(r.type, dims[r], self.group.parts) if r in dims else r.type for r in op.results]
        regions = []
        for region in op.regions:
            region.clone_into(copy := Region(), {}, {})
            regions.append(copy)
        new = type(op).create(operands, types, dict(op.attributes), regions)
        self.inner.insert(new)
        self.values.update(zip(op.results, new.results))

    def _loop_again(self, loop: scf.ForOp) -> None:
        """Emit a loop that carries slices."""
        dims = [self.group.dims.get(result) for result in loop.results]
        bounds = [self._slice(v, None) for v in (loop.lower_bound, loop.upper_bound, loop.step)]
        inits = [self._carried(v, dim) for v, dim in zip(loop.init_args, dims)]
        types = [v.type for v in inits]
        old = loop.body.block
        body = Block([old.arguments[0].type, *types], [a.location for a in old.arguments])
        self.values.update(zip(old.arguments, body.arguments))
        outer, value = self.inner, self.made
        # Values rematerialized inside the loop are not available after it.
        self.inner, self.made = Builder.at_end(body), dict(value)
        for op in old.operations:
            if op is not old.last:
                self.again(op)
        self.inner.location = old.last.location
        self.inner.insert(scf.YieldOp.create([self._carried(v, dim) for v, dim in zip(old.last.operands, dims)]))
        self.inner, self.made = outer, value
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
        """A slice of a tensor that is rematerialized, or read from tensor memory."""
        key = (value, dim)
        if key in self.made:
            return self.made[key]
        op: Any = value.defining_op
        parts = self.group.parts
        type_ = sliced(value.type, dim, parts)
        if value in self.group.extracted:
            coords = [self.counter if d == dim else integer(self.inner, 0) for d in range(type_.rank)]
            new: Operation = aa.ExtractSliceOp.create((value, *coords), (type_,))
        elif isinstance(op, arith.ConstantOp):
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
        """This slice of the iota."""
        insert = self.inner.insert
        element = type.element_type
        first = insert(arith.MulIOp(self.counter, integer(self.inner, type.num_elements))).results[0]
        if element.width != 32:
            cls = arith.ExtUIOp if element.width > 32 else arith.TruncIOp
            first = insert(cls(first, result=element)).results[0]
        start = insert(aa.SplatOp(first, result=type)).results[0]
        return arith.AddIOp(start, insert(aa.MakeRangeOp(result=type)).results[0])

    # -- accesses ------------------------------------------------------------------------------------------------------

    def _access_operands(self, op: Access, dim: int) -> list[Value]:
        operands = [self._token(v) if isinstance(v.type, aa.MemTokenType) else self._slice(v, dim) for v in op.operands]
        if hasattr(op, "view"):
            old = list(op.operands)
            at = old.index(op.view)
            cut = op.view.type.cut(dim, self.group.parts)
            operands[at] = self._view(op.view, cut.type)
            operands[at + 1 + dim] = self._coordinate(op.coords[dim], cut)
        return operands

    def _view(self, view: Value, type: aa.TiledViewType) -> Value:
        """The tiling by slices."""
        op: Any = view.defining_op
        source = self.values.get(op.source)
        if source is None:
            return self._tiling(op, type)
        return self.inner.insert(aa.BlockTileOp(source, result=type)).results[0]

    def _tiling(self, whole: aa.BlockTileOp, type: aa.TiledViewType) -> Value:
        """The tiling by slices of a tensor that is not sliced itself."""
        return self.outer.insert(aa.BlockTileOp(whole.source, result=type)).results[0]

    def _coordinate(self, coordinate: Value, cut: aa.CutView) -> Value:
        """The coordinate of the slice: in 64 bits, since there are more slices than tiles."""
        insert = self.inner.insert
        wide, counter = (self._wide(v) for v in (self.values.get(coordinate, coordinate), self.counter))
        first = insert(arith.MulIOp(wide, integer(self.inner, cut.steps_of_tile, i64))).results[0]
        if cut.steps_of_slice != 1:
            counter = insert(arith.MulIOp(counter, integer(self.inner, cut.steps_of_slice, i64))).results[0]
        return insert(arith.AddIOp(first, counter)).results[0]

    def _wide(self, value: Value) -> Value:
        if isinstance(value.type, IntegerType) and value.type.width < 64:
            return self.inner.insert(arith.ExtSIOp(value, result=i64)).results[0]
        return value


def tiling_beside(whole: aa.BlockTileOp, type: aa.TiledViewType) -> Value:
    """A tiling of the same tensor beside that by whole tiles, outside of the same loops: a tensor map is built from it
    there."""
    result = whole.next
    if not isinstance(result, aa.BlockTileOp) or result.source is not whole.source or result.result.type != type:
        builder = Builder.after(whole)
        builder.location = whole.location
        result = builder.insert(aa.BlockTileOp(whole.source, result=type))
    return result.results[0]
