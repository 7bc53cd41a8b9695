"""Operations that make, reshape, combine and reduce tensors."""

from __future__ import annotations

from typing import Any

from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import ConversionRewriter, TensorType
from tileiras.layout.encoding import with_layout

from .layouts import Rematerializable


def convert_maker(
    op: tileas.MakeRangeOp | tileas.SplatOp, args: tuple, rewriter: ConversionRewriter
) -> Any:
    """Ranges and splats are rematerialized at each use, in the layout of the use."""
    return [Rematerializable(op.result)]


def convert_broadcast(op: tileas.BroadcastOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    """A broadcast is rematerialized at each use, unless it takes the elements out of loaded words."""
    layouts = rewriter.data
    layout = layouts.assignment.layout(op.result)
    if layout is None:
        return [Rematerializable(op.result)]
    operand = layouts.as_layout(op.operand, layout.shrink(op.operand.type.shape))
    return rewriter.insert(tileas.BroadcastOp(operand, result=with_layout(op.result.type, layout)))


def convert_shape(op: tileas.PermuteOp | tileas.ViewOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    """Views and permutations rename elements; nothing moves."""
    layouts = rewriter.data
    layout = layouts.assignment.layout(op.result)
    if layout is None:
        return [Rematerializable(op.result)]
    operand = layouts.concrete(op.operand)
    new = type(op).create((operand,), (with_layout(op.result.type, layout),), dict(op.attributes))
    return rewriter.insert(new)


def convert_cat(op: tileas.CatOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    """Both operands in one layout; the result has a register more, so that nothing moves."""
    layouts = rewriter.data
    layout = layouts.assignment.cat_layout(op)
    operands = [layouts.as_layout(operand, layout) for operand in op.operands]
    types = [with_layout(op.result.type, layout.doubled(op.dim.value))]
    return rewriter.insert(tileas.CatOp.create(operands, types, dict(op.attributes)))


def convert_slice(op: tileas.ExtractSliceOp | tileas.InsertSliceOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    """Extraction and insertion: all tensors in layouts of their own shapes."""
    layouts = rewriter.data
    operands = [layouts.concrete(operand) for operand in op.operands]
    types = [with_layout(r.type, layouts.assignment.concrete(r)) for r in op.results]
    return rewriter.insert(type(op).create(operands, types, dict(op.attributes)))


def convert_collective(op: tileas.ReduceOp | tileas.ScanOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    """Reduce and scan: all inputs in the first one's layout."""
    layouts = rewriter.data
    layout = layouts.assignment.input_layout(op)
    operands = [layouts.as_layout(operand, layout) for operand in op.operands]
    types = []
    for result in op.results:
        if isinstance(result.type, TensorType):
            types.append(with_layout(result.type, layouts.assignment.concrete(result)))
        else:
            types.append(result.type)
    body = rewriter.convert_region(op.body)
    return rewriter.insert(type(op).create(operands, types, dict(op.attributes), (body,)))


PATTERNS = {
    tileas.SplatOp: convert_maker,
    tileas.MakeRangeOp: convert_maker,
    tileas.BroadcastOp: convert_broadcast,
    tileas.UnpackOp: convert_maker,
    tileas.ViewOp: convert_shape,
    tileas.PermuteOp: convert_shape,
    tileas.CatOp: convert_cat,
    tileas.ExtractSliceOp: convert_slice,
    tileas.InsertSliceOp: convert_slice,
    tileas.ReduceOp: convert_collective,
    tileas.ScanOp: convert_collective,
}
