"""Tiles as bytes and back: the bytes of an element lie next to each other, the lowest first."""

from __future__ import annotations

from typing import Any

from tileiras.dialects import arith, nv_tileaa
from tileiras.ir import (
    ArrayAttr,
    Block,
    IntegerAttr,
    IntegerType,
    Region,
    TensorType,
    Value,
    VerifyError,
    i8,
    i32,
    i64,
)

from .rules import Table


def _width(element: Any) -> int:
    width = element.width
    if width % 8:
        raise VerifyError(f"packing elements of type {element} is not supported")
    return width


def _pack(op: Any, args: tuple, rewriter: Any) -> Any:
    source = args[0]
    (count,), element = source.type.shape, source.type.element_type
    width = _width(element)
    insert = rewriter.insert
    integer = IntegerType(width)
    bits = _bitcast(source, TensorType((count,), integer), rewriter)
    rows, grid = TensorType((count, 1), integer), TensorType((count, width // 8), integer)
    bits = insert(nv_tileaa.ViewOp(bits, result=rows)).results[0]
    bits = insert(nv_tileaa.BroadcastOp(bits, result=grid)).results[0]
    shifted = insert(arith.ShRUIOp(bits, _shifts(grid, rewriter))).results[0]
    parts = insert(arith.TruncIOp(shifted, result=grid.with_element_type(i8))).results[0]
    return insert(nv_tileaa.ViewOp(parts, result=rewriter.convert_type(op.results[0].type)))


def _unpack(op: Any, args: tuple, rewriter: Any) -> Any:
    result = rewriter.convert_type(op.results[0].type)
    (count,), element = result.shape, result.element_type
    width = _width(element)
    insert = rewriter.insert
    integer = IntegerType(width)
    grid = TensorType((count, width // 8), integer)
    parts = insert(nv_tileaa.ViewOp(args[0], result=grid.with_element_type(i8))).results[0]
    wide = insert(arith.ExtUIOp(parts, result=grid)).results[0]
    shifted = insert(arith.ShLIOp(wide, _shifts(grid, rewriter))).results[0]
    return _bitcast(_union(shifted, rewriter), result, rewriter)


def _shifts(grid: Any, rewriter: Any) -> Value:
    """0, 8, 16, ... along the last dimension of `grid`."""
    insert = rewriter.insert
    count, integer = grid.shape[1], grid.element_type
    numbers = insert(nv_tileaa.MakeRangeOp(result=TensorType((count,), i32))).results[0]
    eight = insert(arith.ConstantOp.splat(IntegerAttr(8, i32), numbers.type)).results[0]
    shifts = insert(arith.MulIOp(numbers, eight)).results[0]
    if integer.width != 32:
        resize = arith.ExtUIOp if integer.width > 32 else arith.TruncIOp
        shifts = insert(resize(shifts, result=TensorType((count,), integer))).results[0]
    row = insert(nv_tileaa.ViewOp(shifts, result=TensorType((1, count), integer))).results[0]
    return insert(nv_tileaa.BroadcastOp(row, result=grid)).results[0]


def _union(grid: Value, rewriter: Any) -> Value:
    """The elements of each row, which share no bit, joined by "or"."""
    integer = grid.type.element_type
    body = Block((integer, integer))
    joined = body.append(arith.OrIOp(*body.arguments))
    body.append(nv_tileaa.YieldOp(list(joined.results)))
    reduce = nv_tileaa.ReduceOp(
        [grid],
        dim=IntegerAttr(1, i64),
        identities=ArrayAttr([IntegerAttr(0, integer)]),
        results_=[TensorType(grid.type.shape[:1], integer)],
        body=Region([body]),
    )
    return rewriter.insert(reduce).results[0]


def _bitcast(value: Value, type: Any, rewriter: Any) -> Value:
    return value if value.type is type else rewriter.insert(arith.BitcastOp(value, result=type)).results[0]


def patterns() -> Table:
    return {"pack": _pack, "unpack": _unpack}
