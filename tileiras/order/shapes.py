"""Dimensions along which the elements of a tile vary, and their mapping through shape operations."""

from __future__ import annotations

from collections.abc import Sequence

from tileiras.analysis.derivations import settle
from tileiras.dialects import arith
from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import DenseElementsAttr, Operation, TensorType, Value

Dims = frozenset[int]

SHAPES = (aa.BroadcastOp, aa.ViewOp, aa.PermuteOp)


def _long(shape: Sequence[int]) -> list[int]:
    return [d for d, n in enumerate(shape) if n > 1]


def all_dims(value: Value) -> Dims:
    """The dimensions with more than one element."""
    return frozenset(_long(value.type.shape) if isinstance(value.type, TensorType) else ())


def is_elementwise(op: Operation) -> bool:
    """Whether each result element depends on the operand elements at the same coordinates only."""
    shapes = {v.type.shape for v in (*op.operands, *op.results) if isinstance(v.type, TensorType)}
    return len(shapes) == 1 or isinstance(op, aa.SplatOp)


def mapped(op: Operation, dims: Dims) -> Dims:
    """The result dimensions that correspond to operand dimensions `dims` of a shape operation."""
    if isinstance(op, aa.BroadcastOp):
        return dims
    if isinstance(op, aa.PermuteOp):
        return frozenset(place for place, d in enumerate(op.permutation.elements) if d in dims)
    source, target = op.operands[0].type.shape, op.results[0].type.shape
    before, after = _long(source), _long(target)
    if [source[d] for d in before] == [target[d] for d in after]:
        return frozenset(after[before.index(d)] for d in dims if d in before)
    return frozenset(after) if dims else dims  # dimensions are merged or split


def varies(value: Value, cache: dict[Value, Dims] | None = None) -> Dims:
    """The dimensions along which elements may differ; `cache` has those of the values behind it, from call to call.

    Chains are long, and their operations share operands: exchanges of a sorting network, rounds of a hash.
    """
    cache = {} if cache is None else cache
    return settle(value, cache, frozenset(), _sources, lambda each, sources: _varies(each, sources, cache))


def _sources(value: Value) -> Sequence[Value]:
    """The values whose elements decide along which dimensions those of a value differ."""
    op = value.defining_op
    if not isinstance(value.type, TensorType) or op is None or op.regions:
        return ()
    if isinstance(op, SHAPES):
        return op.operands[:1]
    is_source = not is_elementwise(op) or isinstance(op, (aa.SplatOp, aa.LoadOp, aa.TiledLoadOp))
    return () if is_source else op.operands


def _varies(value: Value, sources: Sequence[Value], cache: dict[Value, Dims]) -> Dims:
    op = value.defining_op
    if not isinstance(value.type, TensorType) or isinstance(op, aa.SplatOp):
        return frozenset()
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, DenseElementsAttr) and op.value.is_splat:
        return frozenset()
    if op is None or not sources:
        return all_dims(value)
    if isinstance(op, SHAPES):
        return mapped(op, cache[sources[0]])
    return frozenset().union(*(cache[each] for each in sources))
