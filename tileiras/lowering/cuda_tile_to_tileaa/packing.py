"""Tiles as bytes and back.

The bytes of an element lie next to each other, the lowest first; two 4-bit elements and eight truth values share a
byte, the first in its lowest bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileiras.dialects import arith, nv_tileaa
from tileiras.ir import (
    ArrayAttr,
    Block,
    DenseElementsAttr,
    IntegerAttr,
    IntegerType,
    Region,
    TensorType,
    Value,
    i64,
)

from .rules import Table

if TYPE_CHECKING:
    from tileiras.dialects import cuda_tile
    from tileiras.ir import ConversionRewriter


def _pack(op: cuda_tile.PackOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    """Bytes as parts of elements, or bytes of two 4-bit elements."""
    source, result = args[0], rewriter.convert_type(op.results[0].type)
    integer = IntegerType(source.type.element_type.width)
    bits = _bitcast(source, source.type.with_element_type(integer), rewriter)
    return _join(bits, result, rewriter) if integer.width < 8 else _taken_apart(bits, result, rewriter)


def _unpack(op: cuda_tile.UnpackOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    result = rewriter.convert_type(op.results[0].type)
    bits = result.with_element_type(IntegerType(result.element_type.width))
    spread = _taken_apart if bits.element_type.width < 8 else _join
    return _bitcast(spread(args[0], bits, rewriter), result, rewriter)


def _taken_apart(wide: Value, result: TensorType, rewriter: ConversionRewriter) -> Value:
    """Integers as several narrower ones each, the lowest bits first."""
    insert = rewriter.insert
    (count,), integer = wide.type.shape, wide.type.element_type
    grid = TensorType((count, result.shape[0] // count), integer)
    rows = insert(nv_tileaa.ViewOp(wide, result=TensorType((count, 1), integer))).results[0]
    rows = insert(nv_tileaa.BroadcastOp(rows, result=grid)).results[0]
    shifted = insert(arith.ShRUIOp(rows, _shifts(grid, result.element_type.width, rewriter))).results[0]
    parts = insert(arith.TruncIOp(shifted, result=grid.with_element_type(result.element_type))).results[0]
    return insert(nv_tileaa.ViewOp(parts, result=result)).results[0]


def _join(narrow: Value, result: TensorType, rewriter: ConversionRewriter) -> Value:
    """Runs of integers as one wider integer each, the first in the lowest bits."""
    insert = rewriter.insert
    (count,), integer = result.shape, result.element_type
    grid = TensorType((count, narrow.type.shape[0] // count), integer)
    part = narrow.type.element_type
    parts = insert(nv_tileaa.ViewOp(narrow, result=grid.with_element_type(part))).results[0]
    wide = insert(arith.ExtUIOp(parts, result=grid)).results[0]
    shifted = insert(arith.ShLIOp(wide, _shifts(grid, part.width, rewriter))).results[0]
    return _union(shifted, rewriter)


def _shifts(grid: TensorType, width: int, rewriter: ConversionRewriter) -> Value:
    """0, `width`, 2 * `width`, ... along the last dimension of `grid`."""
    count, integer = grid.shape[1], grid.element_type
    size = max(1, integer.width // 8)
    data = b"".join((width * n).to_bytes(size, "little") for n in range(count))
    row = rewriter.insert(arith.ConstantOp(DenseElementsAttr(TensorType((1, count), integer), data))).results[0]
    return rewriter.insert(nv_tileaa.BroadcastOp(row, result=grid)).results[0]


def _union(grid: Value, rewriter: ConversionRewriter) -> Value:
    """The elements of each row, which share no bit, joined by "or"."""
    integer = grid.type.element_type
    body = Block((integer, integer))
    with rewriter.at_end(body):
        joined = rewriter.insert(arith.OrIOp(*body.arguments))
        rewriter.insert(nv_tileaa.YieldOp(list(joined.results)))
    reduce = nv_tileaa.ReduceOp(
        [grid],
        dim=IntegerAttr(1, i64),
        identities=ArrayAttr([IntegerAttr(0, integer)]),
        results_=[TensorType(grid.type.shape[:1], integer)],
        body=Region([body]),
    )
    return rewriter.insert(reduce).results[0]


def _bitcast(value: Value, type: TensorType, rewriter: ConversionRewriter) -> Value:
    return value if value.type is type else rewriter.insert(arith.BitcastOp(value, result=type)).results[0]


def patterns() -> Table:
    return {"pack": _pack, "unpack": _unpack}
