"""Constants, and operations that make tiles or change their shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileiras.dialects import arith, nv_tileaa
from tileiras.ir import (
    DenseArrayAttr,
    DenseElementsAttr,
    FloatAttr,
    FloatType,
    IntegerAttr,
    IntegerType,
    TensorType,
    i32,
    i64,
)

from .rules import Table

if TYPE_CHECKING:
    from tileiras.dialects import cuda_tile
    from tileiras.ir import ConversionRewriter


def scalar_attribute(bits: int, type: FloatType | IntegerType) -> Any:
    """The attribute of a scalar with this bit pattern."""
    return FloatAttr(bits, type) if isinstance(type, FloatType) else IntegerAttr(bits, type)


def _constant(op: cuda_tile.ConstantOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    elements = op.value
    type = rewriter.convert_type(op.results[0].type)
    if isinstance(type, TensorType):
        value: Any = DenseElementsAttr(type, elements.data, elements.is_splat)
    else:
        value = scalar_attribute(elements.stored_bits()[0], type)
    return rewriter.insert(arith.ConstantOp(value))


def _iota(op: cuda_tile.IotaOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    return rewriter.insert(nv_tileaa.MakeRangeOp(result=rewriter.convert_type(op.results[0].type)))


def _broadcast(op: cuda_tile.BroadcastOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    """A scalar that was made a tensor only to be broadcast is splat at once."""
    type = rewriter.convert_type(op.results[0].type)
    if args[0].type is type:
        return args[0]
    source = args[0].defining_op
    if isinstance(source, nv_tileaa.SplatOp):
        return rewriter.insert(nv_tileaa.SplatOp(source.operands[0], result=type))
    return rewriter.insert(nv_tileaa.BroadcastOp(args[0], result=type))


def _reshape(op: cuda_tile.ReshapeOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    """Between rank 0 and a tile of one element, the scalar is put into or taken out of a tensor."""
    source = args[0]
    type = rewriter.convert_type(op.results[0].type)
    if source.type is type:
        return source
    if not isinstance(source.type, TensorType):
        return rewriter.insert(nv_tileaa.SplatOp(source, result=type))
    if not isinstance(type, TensorType):
        return rewriter.insert(nv_tileaa.UnsplatOp(source, result=type))
    return rewriter.insert(nv_tileaa.ViewOp(source, result=type))


def _permute(op: cuda_tile.PermuteOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    type = rewriter.convert_type(op.results[0].type)
    if not isinstance(type, TensorType):
        return args[0]
    order = DenseArrayAttr(i32, op.permutation.elements)
    return rewriter.insert(nv_tileaa.PermuteOp(args[0], permutation=order, result=type))


def _cat(op: cuda_tile.CatOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    type = rewriter.convert_type(op.results[0].type)
    return rewriter.insert(nv_tileaa.CatOp(*args, dim=IntegerAttr(op.dim.value, i64), result=type))


def _extract(op: cuda_tile.ExtractOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    type = rewriter.convert_type(op.results[0].type)
    if not isinstance(type, TensorType):
        return args[0]
    return rewriter.insert(nv_tileaa.ExtractSliceOp(args[0], list(args[1:]), result=type))


def _insert(op: cuda_tile.InsertOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    type = rewriter.convert_type(op.results[0].type)
    if not isinstance(type, TensorType):
        return args[0]
    return rewriter.insert(nv_tileaa.InsertSliceOp(args[0], args[1], list(args[2:]), result=type))


def patterns() -> Table:
    return {
        "broadcast": _broadcast,
        "cat": _cat,
        "constant": _constant,
        "extract": _extract,
        "insert": _insert,
        "iota": _iota,
        "permute": _permute,
        "reshape": _reshape,
    }
