"""The dimension along which each tensor of an operation is cut, given that of one of them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tileiras.analysis.derivations import settle
from tileiras.dialects import arith
from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import Operation, Pure, TensorType, Value

Access = aa.TiledLoadOp | aa.TiledStoreOp | aa.LoadOp | aa.StoreOp | aa.TiledAtomicRMWOp | aa.AtomicRMWOp
STORES = (aa.TiledStoreOp, aa.StoreOp)
UPDATES = (aa.TiledAtomicRMWOp, aa.AtomicRMWOp)
WRITES = (*STORES, *UPDATES)
ACCESSES = (aa.TiledLoadOp, aa.LoadOp, *WRITES)
_MAKERS = (aa.SplatOp, aa.MakeRangeOp)
SHAPES = (aa.BroadcastOp, aa.ViewOp, aa.PermuteOp)
Collective = aa.ReduceOp | aa.ScanOp
COLLECTIVES = (aa.ReduceOp, aa.ScanOp)
DOTS = (aa.DotOp, aa.BlockScaledMmaOp)


class Unsliceable(Exception):
    """These tiles cannot be cut in this way."""


def is_elementwise(op: Operation) -> bool:
    """Whether element i of each result is computed from element i of the tensors among the operands, and scalars."""
    if op.regions or not op.has_trait(Pure) or isinstance(op, (*_MAKERS, *SHAPES, arith.ConstantOp)):
        return False
    shapes = {v.type.shape for v in (*op.operands, *op.results) if isinstance(v.type, TensorType)}
    return len(shapes) == 1 and all(isinstance(r.type, TensorType) for r in op.results) and bool(op.results)


def view_dim(source: tuple[int, ...], target: tuple[int, ...], dim: int, parts: int) -> int:
    """The dimension of `target` whose `parts` parts hold the same elements, in row-major order, as those of `dim` of
    `source`.  Raises Unsliceable if absent."""
    end = prod(source[dim:])
    for d, extent in enumerate(target):
        if prod(target[d:]) == end and not extent % parts:
            return d
    raise Unsliceable


ACCUMULATOR = 2
WITH_ROWS = (0, ACCUMULATOR, 3)
"""Places among a dot's operands (A, B, C, scales of A, of B) of those with a row for every row of the result."""


def operand_dims(op: Operation, dim: int, parts: int) -> list[int | None]:
    """The dimension in which each operand is cut when the results, or the tile of a store, are cut along `dim`.

    None for operands that every slice uses whole.  Raises Unsliceable.
    """
    if isinstance(op, aa.BroadcastOp):
        return [dim if op.operand.type.shape[dim] != 1 else None]
    if isinstance(op, aa.ViewOp):
        return [view_dim(op.result.type.shape, op.operand.type.shape, dim, parts)]
    if isinstance(op, aa.PermuteOp):
        return [op.permutation.elements[dim]]
    if isinstance(op, aa.ReduceOp):
        return [dim + (dim >= op.dim.value)] * len(op.operands)
    if isinstance(op, DOTS):
        rows = op.result.type.rank - 2
        # By place, not by value: a tile may be multiplied with itself.
        return [
            dim if dim < rows or place == ACCUMULATOR or (place in WITH_ROWS) == (dim == rows) else None
            for place in range(len(op.operands))
        ]
    return [dim if isinstance(v.type, TensorType) else None for v in op.operands]


def k_dims(op: aa.Dot) -> list[int | None]:
    """The dimension of each operand of a dot that is K, along which scales have one element for a run."""
    rank = op.result.type.rank
    return [
        None if place == ACCUMULATOR else rank - 1 if place in WITH_ROWS else rank - 2
        for place in range(len(op.operands))
    ]


def result_dim(op: Operation, operand: Value, dim: int, parts: int) -> int | None:
    """The dimension along which the results are cut, or a store's tile is, when `operand` is along `dim`; None for a
    reduction along it, or K of a dot.  Raises Unsliceable."""
    if isinstance(op, aa.ViewOp):
        return view_dim(op.operand.type.shape, op.result.type.shape, dim, parts)
    if isinstance(op, aa.PermuteOp):
        return op.permutation.elements.index(dim)
    if isinstance(op, aa.ReduceOp):
        return None if dim == op.dim.value else dim - (dim > op.dim.value)
    if isinstance(op, DOTS) and operand_dims(op, dim, parts)[list(op.operands).index(operand)] is None:
        return None
    return dim


class RematerializedValues:
    """The tensors that are computed only from scalars and constants: slices of them are rematerialized, and of other
    constants than splats the whole is used."""

    def __init__(self) -> None:
        self._facts: dict[Value, bool] = {}

    def __contains__(self, value: Value) -> bool:
        return settle(value, self._facts, False, self._sources, self._fact)

    def _sources(self, value: Value) -> list[Value]:
        op = value.defining_op
        if op is None or not (isinstance(op, SHAPES) or is_elementwise(op)):
            return []
        return [operand for operand in op.operands if isinstance(operand.type, TensorType)]

    def _fact(self, value: Value, sources: Sequence[Value]) -> bool:
        op = value.defining_op
        if isinstance(op, (arith.ConstantOp, *_MAKERS)):
            return True
        is_computed = op is not None and (isinstance(op, SHAPES) or is_elementwise(op))
        return is_computed and all(self._facts[source] for source in sources)
