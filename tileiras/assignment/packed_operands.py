"""Operands of four bits that a dot reads in shared memory, two to a byte.

    %a = tiled_load %v[...] : tensor<128x256xf4E2M1FN>        %p = tiled_load %w[...] : tensor<128x128xi8>
    ... block_scaled_mma %a ...                          ->   %a = unpack %p {dim = 1} : tensor<128x256xf4E2M1FN>
                                                              ... block_scaled_mma %a ...

Threads hold an element in a byte; bytes with two neighbours along K go to shared memory as any 8-bit tile does, where
`unpack` is nothing but another name.  Tiles that lie along K in memory are loaded so; others are packed in registers.
"""

from __future__ import annotations

from typing import Any

from tileiras.analysis.derivations import erase_unused_sources
from tileiras.analysis.divisibility import DivisibilityAnalysis
from tileiras.dialects import arith
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.arith.build import binary, integer
from tileiras.ir import (
    DYNAMIC,
    ArrayAttr,
    Block,
    Builder,
    IntegerAttr,
    Operation,
    Pure,
    Region,
    TensorType,
    Value,
    i4,
    i8,
    i64,
)
from tileiras.layout.accumulators import is_of_tensor_memory

PACKED = 2
"""Elements of a byte."""


def pack_operands(func: aa.FuncOp) -> None:
    """Give dots of a function of nv_tileas that tensor memory takes, and that have their atoms, operands of four bits
    that are unpacked from bytes, in place."""
    dots = [op for op in func.walk() if isinstance(op, tileas.BlockScaledMmaOp) and is_of_tensor_memory(op)]
    dots = [op for op in dots if op.a.type.element_type.width == 4]
    if dots:
        packing = _Packing(func)
        for op in dots:
            packing.run(op)


class _Packing:
    """The packed values of a function."""

    def __init__(self, func: aa.FuncOp) -> None:
        self._facts = DivisibilityAnalysis(func)
        self._views: dict[tuple[Value, int], Value] = {}
        self._packed: dict[tuple[Value, int], Value] = {}

    def run(self, op: tileas.BlockScaledMmaOp) -> None:
        operands = list(op.operands)
        builder = Builder.before(op)
        builder.location = op.location
        for number, dim in ((0, 1), (1, 0)):
            value = operands[number]
            packed = self._pack(value, dim)
            unpack = tileas.UnpackOp(packed, dim=IntegerAttr(dim, i64), result=value.type)
            operands[number] = builder.insert(unpack).results[0]
            op.operands = operands
            erase_unused_sources(value, _release)

    def _pack(self, value: Value, dim: int) -> Value:
        pack = self._packed.get((value, dim))
        if pack is None:
            pack = self._packed[value, dim] = self._make(value, dim)
        return pack

    def _make(self, value: Value, dim: int) -> Value:
        """The bytes of the pairs along a dimension of a tile."""
        op: Any = value.defining_op
        if isinstance(op, tileas.PermuteOp):
            inner = self._pack(op.operand, op.permutation.elements[dim])
            properties = {"permutation": op.permutation, "result": _bytes_of(value.type, dim)}
            return _behind(op).insert(tileas.PermuteOp(inner, **properties)).results[0]
        if isinstance(op, tileas.TiledLoadOp):
            view = self._view_of_bytes(op.view, dim)
            if view is not None:
                return _load_bytes(op, view, dim)
        halves = bytes_taken_apart(value) if dim == value.type.rank - 1 else None
        if halves is not None:
            whole = _before_views(halves)
            if whole.type.shape == _bytes_of(value.type, dim).shape:
                return whole
            return _behind(op).insert(tileas.ViewOp(halves, result=_bytes_of(value.type, dim))).results[0]
        builder = Builder.at_start(value.block) if op is None else _behind(op)  # type: ignore[attr-defined]
        return _join(value, dim, builder)

    def _view_of_bytes(self, view: Value, dim: int) -> Value | None:
        """The view of pairs of elements along a dimension that is contiguous in memory; None where pairs may be torn
        apart."""
        result = self._views.get((view, dim))
        if result is not None:
            return result
        tiled: Any = view.defining_op
        memref: Any = tiled.source.defining_op
        type, source = view.type, tiled.source.type
        inner = type.dim_map[dim]
        outer = [d for d in range(source.rank) if d != inner]
        extents = [memref.size(inner), *(memref.stride(d) for d in outer)]
        even = all((n if isinstance(n, int) else self._facts.divisor(n)) % PACKED == 0 for n in extents)
        padded = type.padding is None or type.padding.value == "zero"
        if source.strides[inner] != 1 or not even or not padded or type.traversal_strides[dim] % PACKED:
            return None
        if type.sparse_dim is not None:
            return None
        builder = _behind(tiled)

        def half(extent: int | Value) -> int | Value:
            if isinstance(extent, int):
                return extent // PACKED
            return binary(builder, arith.DivUIOp, extent, integer(builder, PACKED, extent.type))

        sizes = [half(memref.size(d)) if d == inner else memref.size(d) for d in range(source.rank)]
        strides = [1 if d == inner else half(memref.stride(d)) for d in range(source.rank)]
        pointer = aa.PtrType(i8, memref.base.type.address_space)
        base = builder.insert(tileas.PtrBitcastOp(memref.base, result=pointer)).results[0]
        of_bytes = aa.MemRefType(_static(sizes), i8, _static(strides), source.address_space)
        dynamic = ([n for n in extents if isinstance(n, Value)] for extents in (sizes, strides))
        value = builder.insert(tileas.MakeMemRefOp(base, *dynamic, result=of_bytes)).results[0]
        steps = [n // PACKED if d == dim else n for d, n in enumerate(type.traversal_strides)]
        shape = _halve(type.shape, dim)
        cut = aa.TiledViewType(shape, of_bytes, type.dim_map, type.padding, steps)
        result = self._views[view, dim] = builder.insert(tileas.BlockTileOp(value, result=cut)).results[0]
        return result


def _behind(op: Operation) -> Builder:
    return Builder.after(op, op.location)


def _static(extents: list[Any]) -> list[int]:
    return [n if isinstance(n, int) else DYNAMIC for n in extents]


def _halve(shape: tuple[int, ...], dim: int) -> tuple[int, ...]:
    return tuple(n // PACKED if d == dim else n for d, n in enumerate(shape))


def _bytes_of(type: TensorType, dim: int) -> TensorType:
    return TensorType(_halve(type.shape, dim), i8)


def _load_bytes(load: tileas.TiledLoadOp, view: Value, dim: int) -> Value:
    """A load of pairs instead of one of elements, whose token goes to the new one."""
    builder = _behind(load)
    attributes = dict(load.attributes)
    operands = [view if value is load.view else value for value in load.operands]
    types = (_bytes_of(load.data.type, dim), load.result_token.type)
    result = builder.insert(tileas.TiledLoadOp.create(operands, types, attributes))
    return result.results[0]


_VIEWS, _BROADCASTS = (aa.ViewOp, tileas.ViewOp), (aa.BroadcastOp, tileas.BroadcastOp)


def bytes_taken_apart(value: Value) -> Value | None:
    """The bytes whose halves are the elements of a tile of nv_tileaa or nv_tileas in order, as `cuda_tile.unpack`
    splits them: pairs of the last dimension; None for other tiles."""
    op = value.defining_op
    while isinstance(op, (*_VIEWS, arith.BitcastOp)):
        op = op.operand.defining_op
    if not isinstance(op, arith.TruncIOp) or not isinstance(op.operand.defining_op, arith.ShRUIOp):
        return None
    spread, shifts = (each.defining_op for each in op.operand.defining_op.operands)
    if not isinstance(spread, _BROADCASTS) or not _are_zero_and_four(shifts):
        return None
    rows = spread.operand
    count, *rest = rows.type.shape
    whole = rows.type.element_type is i8 and rest == [1] and spread.result.type.shape == (count, PACKED)
    return rows if whole else None


def _before_views(value: Value) -> Value:
    """A tile before it got other shapes."""
    while isinstance(value.defining_op, tileas.ViewOp):
        value = value.defining_op.operand
    return value


def _are_zero_and_four(op: Operation | None) -> bool:
    """Whether an operation gives 0 and 4 along the last of two dimensions."""
    row = op.operand.defining_op if isinstance(op, _BROADCASTS) else None
    if not isinstance(row, arith.ConstantOp) or op.results[0].type.shape[1:] != (PACKED,):  # type: ignore[union-attr]
        return False
    return row.result.type.shape == (1, PACKED) and list(row.value.stored_bits()) == [0, 4]


def _join(value: Value, dim: int, builder: Builder) -> Value:
    """The bytes of pairs along a dimension, in registers: the even element in the lower half."""

    def insert(op: Operation) -> Value:
        return builder.insert(op).results[0]

    type = value.type
    nibbles = insert(arith.BitcastOp(value, result=type.with_element_type(i4)))
    halves = (*type.shape[:dim], type.shape[dim] // PACKED, PACKED, *type.shape[dim + 1 :])
    parts = insert(tileas.ViewOp(nibbles, result=TensorType(halves, i4)))
    wide = insert(arith.ExtUIOp(parts, result=TensorType(halves, i8)))
    numbers = insert(tileas.MakeRangeOp(result=TensorType((PACKED,), i8)))
    four = insert(arith.ConstantOp.splat(IntegerAttr(4, i8), numbers.type))
    shifts = insert(arith.MulIOp(numbers, four))
    ones = tuple(PACKED if d == dim + 1 else 1 for d in range(len(halves)))
    shifts = insert(tileas.ViewOp(shifts, result=TensorType(ones, i8)))
    shifts = insert(tileas.BroadcastOp(shifts, result=TensorType(halves, i8)))
    shifted = insert(arith.ShLIOp(wide, shifts))
    body = Block((i8, i8))
    inner = Builder.at_end(body)
    inner.location = builder.location
    joined = inner.insert(arith.OrIOp(*body.arguments))
    inner.insert(tileas.YieldOp(list(joined.results)))
    reduce = tileas.ReduceOp(
        [shifted],
        dim=IntegerAttr(dim + 1, i64),
        identities=ArrayAttr([IntegerAttr(0, i8)]),
        results_=[_bytes_of(type, dim)],
        body=Region([body]),
    )
    return insert(reduce)


def _release(op: Operation) -> list[Value] | None:
    """The operands of an operation on elements that bytes replace; a load's token becomes that of the load of bytes."""
    if isinstance(op, tileas.TiledLoadOp):
        result = op.next
        assert isinstance(result, tileas.TiledLoadOp), "the load of bytes stands behind that of elements"
        op.result_token.replace_all_uses_with(result.result_token)
        return []
    return list(op.operands) if op.has_trait(Pure) and not op.regions else None
