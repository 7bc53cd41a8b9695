"""Tokens, pointers, views, loads and stores."""

from __future__ import annotations

from typing import Any

from tileiras.dialects import arith
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import Attribute, ConversionRewriter, IntegerAttr, IntegerType, Operation, Value, VerifyError

from .types import convert_type, result_types

_SCOPES = {"tl_blk": "tl_blk", "device": "gpu", "sys": "sys"}


def _ordering(op: Any) -> dict[str, Attribute]:
    """The order and scope of an access; a weak one, the default, says neither."""
    semantics = op.memory_ordering_semantics.value
    if semantics == "weak":
        return {}
    return {
        "mem_semantic": aa.MemSemanticAttr(semantics),
        "mem_scope": aa.MemScopeAttr(_SCOPES[op.memory_scope.value]),
    }


def _optional(op: Any, name: str, rewriter: ConversionRewriter) -> Value | None:
    value = getattr(op, name)
    return None if value is None else rewriter.value(value)


def _values(values: Any, rewriter: ConversionRewriter) -> list[Value]:
    return [rewriter.value(value) for value in values]


# ---- tokens ----------------------------------------------------------------------------------------------------------


def convert_make_token(op: Any, args: tuple, rewriter: ConversionRewriter) -> Operation:
    return rewriter.insert(aa.CreateMemTokenOp(result=aa.MemTokenType()))


def convert_join_tokens(op: Any, args: tuple, rewriter: ConversionRewriter) -> Any:
    distinct = list(dict.fromkeys(args))
    if len(distinct) == 1:
        return distinct[0]
    return rewriter.insert(aa.JoinMemTokenOp(distinct, result=aa.MemTokenType()))


# ---- pointers --------------------------------------------------------------------------------------------------------


def _rename(cls: type[Operation]) -> Any:
    def convert(op: Any, args: tuple, rewriter: ConversionRewriter) -> Operation:
        return rewriter.insert(cls.create(args, result_types(op), {}))

    return convert


# ---- views -----------------------------------------------------------------------------------------------------------


def convert_make_tensor_view(op: Any, args: tuple, rewriter: ConversionRewriter) -> Operation:
    return rewriter.insert(
        aa.MakeMemRefOp(
            rewriter.value(op.base),
            _values(op.dynamicShape, rewriter),
            _values(op.dynamicStrides, rewriter),
            result=convert_type(op.result.type),
        )
    )


def convert_get_tensor_shape(op: Any, args: tuple, rewriter: ConversionRewriter) -> list[Value]:
    memref = args[0].defining_op
    return [_extent(memref.size(dim), convert_type(r.type), rewriter) for dim, r in enumerate(op.results)]


def convert_get_index_space_shape(op: Any, args: tuple, rewriter: ConversionRewriter) -> list[Value]:
    """How many tiles a view has along each dimension: enough to cover the tensor."""
    view = args[0].type
    memref = args[0].defining_op.source.defining_op
    counts = []
    for dim, result in enumerate(op.results):
        type = convert_type(result.type)
        if dim == view.sparse_dim:
            raise VerifyError("the index space of a gather or scatter view has no extent along its sparse dimension")
        step = view.traversal_strides[dim]
        size = memref.size(view.dim_map[dim])
        if isinstance(size, int):
            counts.append(_extent(-(-size // step), type, rewriter))
        else:
            divisor = _extent(step, type, rewriter)
            counts.append(rewriter.insert(arith.CeilDivUIOp(_extent(size, type, rewriter), divisor)).result)
    return counts


def _extent(size: int | Value, type: Any, rewriter: ConversionRewriter) -> Value:
    """A size as a value of `type`.  Sizes are not negative."""
    if isinstance(size, int):
        return rewriter.insert(arith.ConstantOp(IntegerAttr(size, type))).result
    assert isinstance(size.type, IntegerType)
    if size.type.width < type.width:
        return rewriter.insert(arith.ExtUIOp.create((size,), (type,))).result
    if size.type.width > type.width:
        return rewriter.insert(arith.TruncIOp.create((size,), (type,))).result
    return size


# ---- accesses through views ------------------------------------------------------------------------------------------


def convert_load_view(op: Any, args: tuple, rewriter: ConversionRewriter) -> Operation:
    data, token = result_types(op)
    new = aa.TiledLoadOp(
        rewriter.value(op.view),
        _values(op.index, rewriter),
        _optional(op, "token", rewriter),
        data=data,
        result_token=token,
    )
    new.attributes.update(_ordering(op))
    return rewriter.insert(new)


def convert_store_view(op: Any, args: tuple, rewriter: ConversionRewriter) -> Operation:
    new = aa.TiledStoreOp(
        rewriter.value(op.tile),
        rewriter.value(op.view),
        _values(op.index, rewriter),
        _optional(op, "token", rewriter),
        result_token=aa.MemTokenType(),
    )
    new.attributes.update(_ordering(op))
    return rewriter.insert(new)


def convert_atomic_red_view(op: Any, args: tuple, rewriter: ConversionRewriter) -> Operation:
    new = aa.TiledAtomicRMWOp(
        rewriter.value(op.value),
        rewriter.value(op.view),
        _values(op.index, rewriter),
        _optional(op, "token", rewriter),
        rmw_mode=op.mode.value,
        result_token=aa.MemTokenType(),
    )
    new.attributes.update(_ordering(op))
    return rewriter.insert(new)


# ---- accesses through pointers ---------------------------------------------------------------------------------------


def convert_load_ptr(op: Any, args: tuple, rewriter: ConversionRewriter) -> Operation:
    data, token = result_types(op)
    new = aa.LoadOp(
        rewriter.value(op.source),
        _optional(op, "mask", rewriter),
        _optional(op, "paddingValue", rewriter),
        _optional(op, "token", rewriter),
        data=data,
        result_token=token,
    )
    new.attributes.update(_ordering(op))
    return rewriter.insert(new)


def convert_store_ptr(op: Any, args: tuple, rewriter: ConversionRewriter) -> Operation:
    new = aa.StoreOp(
        rewriter.value(op.destination),
        rewriter.value(op.value),
        _optional(op, "mask", rewriter),
        _optional(op, "token", rewriter),
        result_token=aa.MemTokenType(),
    )
    new.attributes.update(_ordering(op))
    return rewriter.insert(new)


def convert_atomic_rmw(op: Any, args: tuple, rewriter: ConversionRewriter) -> Operation:
    data, token = result_types(op)
    new = aa.AtomicRMWOp(
        rewriter.value(op.pointers),
        rewriter.value(op.arg),
        _optional(op, "mask", rewriter),
        _optional(op, "token", rewriter),
        rmw_mode=op.mode.value,
        data=data,
        result_token=token,
    )
    new.attributes.update(_ordering(op))
    return rewriter.insert(new)


def convert_atomic_cas(op: Any, args: tuple, rewriter: ConversionRewriter) -> Operation:
    data, token = result_types(op)
    new = aa.AtomicCASOp(
        rewriter.value(op.pointers),
        rewriter.value(op.cmp),
        rewriter.value(op.val),
        _optional(op, "mask", rewriter),
        _optional(op, "token", rewriter),
        data=data,
        result_token=token,
    )
    new.attributes.update(_ordering(op))
    return rewriter.insert(new)


def convert_assume(op: Any, args: tuple, rewriter: ConversionRewriter) -> Any:
    """Facts about numbers and pointers stay; one about a tensor view is dropped, its pointer and strides carry theirs."""
    predicate = op.predicate
    if isinstance(args[0].type, aa.MemRefType):
        return args[0]
    if isinstance(predicate, ct.DivByAttr):
        fact: Attribute = aa.DivByAttr(predicate.divisor, predicate.every, predicate.along)
    elif isinstance(predicate, ct.BoundedAttr):
        fact = aa.BoundedAttr(predicate.lower, predicate.upper)
    else:
        fact = aa.SameElementsAttr(predicate.elements)
    return rewriter.insert(aa.AssumeOp(args[0], predicate=fact))


PATTERNS: dict[type[Operation], Any] = {
    ct.MakeTokenOp: convert_make_token,
    ct.JoinTokensOp: convert_join_tokens,
    ct.OffsetOp: _rename(aa.AddPtrOp),
    ct.IntToPtrOp: _rename(aa.IntToPtrOp),
    ct.PtrToIntOp: _rename(aa.PtrToIntOp),
    ct.PtrToPtrOp: _rename(aa.PtrBitcastOp),
    ct.MakeTensorViewOp: convert_make_tensor_view,
    ct.MakePartitionViewOp: _rename(aa.BlockTileOp),
    ct.MakeStridedViewOp: _rename(aa.BlockTileOp),
    ct.MakeGatherScatterViewOp: _rename(aa.BlockTileOp),
    ct.GetTensorShapeOp: convert_get_tensor_shape,
    ct.GetIndexSpaceShapeOp: convert_get_index_space_shape,
    ct.LoadViewTkoOp: convert_load_view,
    ct.StoreViewTkoOp: convert_store_view,
    ct.AtomicRedViewTkoOp: convert_atomic_red_view,
    ct.LoadPtrTkoOp: convert_load_ptr,
    ct.StorePtrTkoOp: convert_store_ptr,
    ct.AtomicRMWTkoOp: convert_atomic_rmw,
    ct.AtomicCASTkoOp: convert_atomic_cas,
    ct.AssumeOp: convert_assume,
}

