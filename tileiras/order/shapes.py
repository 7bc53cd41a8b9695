"""Along which dimensions of a tile its elements differ, and where dimensions go in operations that move elements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tileiras.dialects import arith
from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import DenseElementsAttr, Operation, TensorType, Value

Dims = frozenset[int]


def _long(shape: Sequence[int]) -> list[int]:
    return [d for d, n in enumerate(shape) if n > 1]


def all_dims(value: Value) -> Dims:
    """The dimensions along which there is more than one element."""
    return frozenset(_long(value.type.shape) if isinstance(value.type, TensorType) else ())


def of_elements(op: Operation) -> bool:
    """Whether elements of results are made of those at the same place in the operands."""
    shapes = {v.type.shape for v in (*op.operands, *op.results) if isinstance(v.type, TensorType)}
    return len(shapes) == 1 or isinstance(op, aa.SplatOp)


def moved(op: Operation, dims: Dims) -> Dims:
    """The dimensions of the result of a change of shape along which elements differ that do so along `dims` of the
    operand."""
    source, target = op.operands[0].type.shape, op.results[0].type.shape
    if isinstance(op, aa.BroadcastOp):
        return dims
    if isinstance(op, aa.PermuteOp):
        return frozenset(place for place, d in enumerate(op.permutation.elements) if d in dims)
    before, after = _long(source), _long(target)
    if [source[d] for d in before] == [target[d] for d in after]:
        return frozenset(after[before.index(d)] for d in dims if d in before)
    return frozenset(after) if dims else dims


def varies(value: Value, depth: int = 40) -> Dims:
    """The dimensions along which elements of a tile may differ."""
    op = value.defining_op
    if not isinstance(value.type, TensorType) or isinstance(op, aa.SplatOp):
        return frozenset()
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, DenseElementsAttr) and op.value.is_splat:
        return frozenset()
    if op is None or op.regions or not op.operands or not depth:
        return all_dims(value)
    if isinstance(op, SHAPES):
        return moved(op, varies(op.operands[0], depth - 1))
    if not of_elements(op) or not op.operands or isinstance(op, (aa.LoadOp, aa.TiledLoadOp)):
        return all_dims(value)
    return _union(varies(operand, depth - 1) for operand in op.operands)


SHAPES = (aa.BroadcastOp, aa.ViewOp, aa.PermuteOp)


def _union(found: Iterable[Dims]) -> Dims:
    return frozenset().union(*found)
