"""Shapes, matrix products, reductions and scans."""

from __future__ import annotations

from typing import Any

from tileiras.dialects import cuda_tile as ct
from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import Attribute, ConversionRewriter, DenseArrayAttr, IntegerAttr, Operation, TensorType, UnitAttr, i64

from .types import convert_type, result_types


def _rename(cls: type[Operation]) -> Any:
    def convert(op: Any, args: tuple, rewriter: ConversionRewriter) -> Operation:
        return rewriter.insert(cls.create(args, result_types(op), {}))

    return convert


def convert_reshape(op: Any, args: tuple, rewriter: ConversionRewriter) -> Any:
    """A scalar becomes a tensor of one element and back; the rest is a view."""
    type = convert_type(op.result.type)
    if args[0].type is type:
        return args[0]
    if not isinstance(args[0].type, TensorType):
        return rewriter.insert(aa.SplatOp(args[0], result=type))
    if not isinstance(type, TensorType):
        return rewriter.insert(aa.UnsplatOp(args[0], result=type))
    return rewriter.insert(aa.ViewOp(args[0], result=type))


def convert_broadcast(op: Any, args: tuple, rewriter: ConversionRewriter) -> Any:
    """A broadcast scalar made a tensor on the way is a splat of the scalar."""
    type = convert_type(op.result.type)
    if args[0].type is type:
        return args[0]
    source = args[0].defining_op
    if isinstance(source, aa.SplatOp):
        return rewriter.insert(aa.SplatOp(source.operand, result=type))
    return rewriter.insert(aa.BroadcastOp(args[0], result=type))


def convert_permute(op: Any, args: tuple, rewriter: ConversionRewriter) -> Operation:
    order = DenseArrayAttr(i64, op.permutation.elements)
    return rewriter.insert(aa.PermuteOp(args[0], permutation=order, result=convert_type(op.result.type)))


def convert_cat(op: Any, args: tuple, rewriter: ConversionRewriter) -> Operation:
    return rewriter.insert(aa.CatOp(*args, dim=IntegerAttr(op.dim.value, i64), result=convert_type(op.result.type)))


def convert_extract(op: Any, args: tuple, rewriter: ConversionRewriter) -> Operation:
    return rewriter.insert(aa.ExtractSliceOp(args[0], args[1:], result=convert_type(op.result.type)))


# ---- mmaf, mmai ------------------------------------------------------------------------------------------------------


def convert_mma(op: Any, args: tuple, rewriter: ConversionRewriter) -> Operation:
    attributes: dict[str, Attribute] = {}
    for here, there in (("signedness_lhs", "signedness_a"), ("signedness_rhs", "signedness_b")):
        signedness = getattr(op, here, None)
        if signedness is not None:
            attributes[there] = aa.SignednessAttr(signedness.value)
    return rewriter.insert(aa.DotOp.create(args, result_types(op), attributes))


# ---- reduce, scan ----------------------------------------------------------------------------------------------------


def _convert_collective(op: Any, args: tuple, rewriter: ConversionRewriter, cls: Any, extra: dict) -> Operation:
    attributes: dict[str, Attribute] = {"dim": IntegerAttr(op.dim.value, i64), "identities": op.identities, **extra}
    body = rewriter.convert_region(op.body)
    return rewriter.insert(cls.create(args, result_types(op), attributes, (body,)))


def convert_reduce(op: Any, args: tuple, rewriter: ConversionRewriter) -> Operation:
    return _convert_collective(op, args, rewriter, aa.ReduceOp, {})


def convert_scan(op: Any, args: tuple, rewriter: ConversionRewriter) -> Operation:
    reverse = {"reverse": UnitAttr()} if op.reverse is not None and op.reverse.value else {}
    return _convert_collective(op, args, rewriter, aa.ScanOp, reverse)


PATTERNS: dict[type[Operation], Any] = {
    ct.IotaOp: _rename(aa.MakeRangeOp),
    ct.ReshapeOp: convert_reshape,
    ct.BroadcastOp: convert_broadcast,
    ct.PermuteOp: convert_permute,
    ct.CatOp: convert_cat,
    ct.ExtractOp: convert_extract,
    ct.MmaFOp: convert_mma,
    ct.MmaIOp: convert_mma,
    ct.ReduceOp: convert_reduce,
    ct.ScanOp: convert_scan,
}
