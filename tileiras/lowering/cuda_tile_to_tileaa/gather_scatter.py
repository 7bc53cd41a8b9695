"""Accesses through a gather/scatter view, spelled out as accesses through a tile of pointers with a mask.

Along each dimension an element has an index: along the sparse one it is given, along the others it is the index operand
and the elements after it.  The pointer is the base plus every index times its stride; an element with an index outside
the tensor is masked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileiras.dialects import arith, nv_tileaa
from tileiras.ir import TensorType, Value, VerifyError, i32, i64

from .rules import integer

if TYPE_CHECKING:
    from tileiras.ir import ConversionRewriter


def pointers_and_mask(view: Value, indices: list[Value], rewriter: ConversionRewriter) -> tuple[Value, Value]:
    """The pointer of every element of the tile at `indices`, and which of them lie inside the tensor."""
    memref = _memref_of(view)
    shape = view.type.shape
    insert = rewriter.insert
    offset: Value | None = None
    mask: Value | None = None
    for dim, index in enumerate(indices):
        vector = _element_indices(index, shape[dim], rewriter)
        size, stride = (_as_i64(extent, rewriter, arith.ExtUIOp) for extent in (memref.size(dim), memref.stride(dim)))
        # Read as unsigned, a negative index is beyond the end.
        inside = insert(arith.CmpIOp(vector, _splat(size, vector.type, rewriter), predicate="ult")).results[0]
        distance = insert(arith.MulIOp(vector, _splat(stride, vector.type, rewriter))).results[0]
        inside, distance = (_along(value, dim, shape, rewriter) for value in (inside, distance))
        mask = inside if mask is None else insert(arith.AndIOp(mask, inside)).results[0]
        offset = distance if offset is None else insert(arith.AddIOp(offset, distance)).results[0]
    assert offset is not None and mask is not None
    base = _splat(memref.base, TensorType(shape, memref.base.type), rewriter)
    return insert(nv_tileaa.AddPtrOp(base, offset)).results[0], mask


def padding(view: Value, rewriter: ConversionRewriter) -> Value | None:
    """The padding of elements outside the tensor, as a tile; None if the view has no padding."""
    if view.type.padding is None:
        return None
    element = view.type.element_type
    value = view.type.padding.of(element)
    return rewriter.insert(arith.ConstantOp.splat(value, TensorType(view.type.shape, element))).results[0]


def _memref_of(view: Value) -> Any:
    tiling = view.defining_op
    memref = tiling.operands[0].defining_op if isinstance(tiling, nv_tileaa.BlockTileOp) else None
    if not isinstance(memref, nv_tileaa.MakeMemRefOp):
        raise VerifyError("expects a view whose tensor view is made in the same function")
    return memref


def _element_indices(index: Value, count: int, rewriter: ConversionRewriter) -> Value:
    """The indices of `count` elements along a dimension, as a tensor of i64."""
    insert = rewriter.insert
    type = TensorType((count,), i64)
    if isinstance(index.type, TensorType):
        return index if index.type is type else insert(arith.ExtSIOp(index, result=type)).results[0]
    start = _splat(_as_i64(index, rewriter), type, rewriter)
    numbers = insert(nv_tileaa.MakeRangeOp(result=TensorType((count,), i32))).results[0]
    wide = insert(arith.ExtUIOp(numbers, result=type)).results[0]
    return insert(arith.AddIOp(start, wide)).results[0]


def _as_i64(value: Value | int, rewriter: ConversionRewriter, extension: Any = arith.ExtSIOp) -> Value:
    if isinstance(value, int):
        return integer(rewriter, value, i64)
    return value if value.type is i64 else rewriter.insert(extension(value, result=i64)).results[0]


def _splat(value: Value, type: TensorType, rewriter: ConversionRewriter) -> Value:
    return rewriter.insert(nv_tileaa.SplatOp(value, result=type)).results[0]


def _along(vector: Value, dim: int, shape: tuple[int, ...], rewriter: ConversionRewriter) -> Value:
    """A vector along dimension `dim`, repeated along the others."""
    element = vector.type.element_type
    thin = TensorType([size if d == dim else 1 for d, size in enumerate(shape)], element)
    if thin is not vector.type:
        vector = rewriter.insert(nv_tileaa.ViewOp(vector, result=thin)).results[0]
    full = TensorType(shape, element)
    return vector if full is thin else rewriter.insert(nv_tileaa.BroadcastOp(vector, result=full)).results[0]
