"""Tokens, pointers, views and the operations that touch memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileiras.diagnostics import CompileError
from tileiras.dialects import arith, nv_tileaa
from tileiras.ir import (
    DYNAMIC,
    DenseArrayAttr,
    FloatType,
    IntegerAttr,
    Operation,
    SymbolRefAttr,
    Type,
    UnitAttr,
    Value,
    VerifyError,
    i1,
    i32,
    i64,
)

from .gather_scatter import padding, pointers_and_mask
from .rules import Rule, Table, converted, integer, same

if TYPE_CHECKING:
    from tileiras.dialects import cuda_tile
    from tileiras.ir import ConversionRewriter

SCOPES = {"tl_blk": "tl_blk", "device": "gpu", "sys": "sys"}


def ordering(op: cuda_tile.TileOp) -> dict[str, Any]:
    scope = op.memory_scope
    order = {"mem_semantic": op.memory_ordering_semantics.value}
    return order if scope is None else {**order, "mem_scope": SCOPES[scope.value]}


def with_hints(new: Operation, op: cuda_tile.TileOp, rewriter: ConversionRewriter) -> Any:
    """Copy the source's hints for this target to the access."""
    hints = getattr(op, "optimization_hints", None)
    if hints is not None:
        gpu_name = rewriter.data.gpu_name
        latency = hints.hint(gpu_name, "latency")
        if latency is not None:
            new.attributes[nv_tileaa.LATENCY] = IntegerAttr(latency, i32)
        if hints.hint(gpu_name, "allow_tma") is False:
            new.attributes[nv_tileaa.NO_TMA] = UnitAttr()
    in_bounds = getattr(op, "inbounds", None)
    if in_bounds is not None and any(in_bounds.elements):
        new.attributes[nv_tileaa.IN_BOUNDS] = DenseArrayAttr(i1, [int(dim) for dim in in_bounds.elements])
    return new


def result_types(op: cuda_tile.TileOp, rewriter: ConversionRewriter) -> list[Any]:
    return [rewriter.convert_type(result.type) for result in op.results]


# ---- tokens ----------------------------------------------------------------------------------------------------------


def _make_token(op: cuda_tile.MakeTokenOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    return rewriter.insert(nv_tileaa.CreateMemTokenOp(result=nv_tileaa.MemTokenType()))


def _join_tokens(op: cuda_tile.JoinTokensOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    if len(args) == 1:
        return args[0]
    if not args:
        return _make_token(op, args, rewriter)
    return rewriter.insert(nv_tileaa.JoinMemTokenOp(list(args), result=nv_tileaa.MemTokenType()))


# ---- views -----------------------------------------------------------------------------------------------------------


def _make_tensor_view(op: cuda_tile.MakeTensorViewOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    sizes = converted(rewriter, op.dynamicShape)
    strides = converted(rewriter, op.dynamicStrides)
    type = rewriter.convert_type(op.results[0].type)
    return rewriter.insert(nv_tileaa.MakeMemRefOp(args[0], sizes, strides, result=type))


def _make_view(op: cuda_tile.TileOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    return rewriter.insert(nv_tileaa.BlockTileOp(args[0], result=rewriter.convert_type(op.results[0].type)))


def _size(memref: Value, dim: int, type: Type, rewriter: ConversionRewriter) -> Any:
    """The size of a dimension as a value of an integer type."""
    extent = memref.type.shape[dim]
    if extent != DYNAMIC:
        return integer(rewriter, extent, type)
    return rewriter.insert(nv_tileaa.GetDimSizeOp(memref, dim=IntegerAttr(dim, i64), result=type)).results[0]


def _tensor_shape(op: Operation, args: tuple, rewriter: ConversionRewriter) -> Any:
    types = result_types(op, rewriter)
    return [_size(args[0], dim, type, rewriter) for dim, type in enumerate(types)]


def _index_space_shape(op: cuda_tile.GetIndexSpaceShapeOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    """Tiles along each dimension of the view: the memref's size over the distance between tiles, rounded up.

    A sparse dimension is indexed element by element.
    """
    view = args[0]
    source = view.defining_op
    tiling = view.type
    counts = []
    for dim, type in enumerate(result_types(op, rewriter)):
        along = tiling.dim_map[dim]
        step = 1 if dim == tiling.sparse_dim else tiling.traversal_strides[dim]
        extent = tiling.source.shape[along]
        if extent != DYNAMIC:
            counts.append(integer(rewriter, -(-extent // step), type))
            continue
        size = _size(source.operands[0], along, type, rewriter)
        if step != 1:
            size = rewriter.insert(arith.CeilDivUIOp(size, integer(rewriter, step, type))).results[0]
        counts.append(size)
    return counts


# ---- accesses --------------------------------------------------------------------------------------------------------


def _load_view(op: cuda_tile.LoadViewTkoOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    data, token = result_types(op, rewriter)
    view, indices, after = rewriter.value(op.view), converted(rewriter, op.index), converted(rewriter, op.token)
    attributes = {"data": data, "result_token": token, **ordering(op)}
    _check_padding(view.type)
    if view.type.sparse_dim is not None:
        pointers, mask = pointers_and_mask(view, indices, rewriter)
        new: Operation = nv_tileaa.LoadOp(pointers, mask, padding(view, rewriter), after, **attributes)
    else:
        new = nv_tileaa.TiledLoadOp(view, indices, after, **attributes)
    return with_hints(rewriter.insert(new), op, rewriter)


def _check_padding(view: nv_tileaa.TiledViewType) -> None:
    """Raise VerifyError for padding that the element type has no number for."""
    element = view.element_type
    if view.padding is None or not isinstance(element, FloatType):
        return
    word, has = view.padding.value, element.semantics
    # A format without a zero, f8E8M0FNU, is padded with its least number, whose bits are zero.
    has_number = {"zero": True, "neg_zero": has.has_sign, "nan": has.has_nan or has.has_infinity}
    if not has_number.get(word, has.has_infinity and (has.has_sign or word == "pos_inf")):
        raise VerifyError(f"type '{element}' has no padding value '{word}'")


def _view_update(target: type[Operation], value: str) -> Rule:
    """A store, or with a mode an atomic reduction, of the operand called `value`."""

    def rule(op: cuda_tile.StoreViewTkoOp, args: tuple, rewriter: ConversionRewriter) -> Any:
        mode = getattr(op, "mode", None)
        attributes = {"result_token": nv_tileaa.MemTokenType(), **ordering(op)}
        if mode is not None:
            attributes["rmw_mode"] = mode.value
        data, view = rewriter.value(getattr(op, value)), rewriter.value(op.view)
        indices, after = converted(rewriter, op.index), converted(rewriter, op.token)
        if view.type.sparse_dim is not None:
            # Only stores reach this: reductions do not take these views.
            pointers, mask = pointers_and_mask(view, indices, rewriter)
            new: Operation = nv_tileaa.StoreOp(pointers, data, mask, after, **attributes)
        else:
            new = target(data, view, indices, after, **attributes)
        return with_hints(rewriter.insert(new), op, rewriter)

    return rule


def _load_pointers(op: cuda_tile.LoadPtrTkoOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    data, token = result_types(op, rewriter)
    new = nv_tileaa.LoadOp(
        rewriter.value(op.source),
        converted(rewriter, op.mask),
        converted(rewriter, op.paddingValue),
        converted(rewriter, op.token),
        data=data,
        result_token=token,
        **ordering(op),
    )
    return with_hints(rewriter.insert(new), op, rewriter)


def _store_pointers(op: cuda_tile.StorePtrTkoOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    new = nv_tileaa.StoreOp(
        rewriter.value(op.destination),
        rewriter.value(op.value),
        converted(rewriter, op.mask),
        converted(rewriter, op.token),
        result_token=nv_tileaa.MemTokenType(),
        **ordering(op),
    )
    return with_hints(rewriter.insert(new), op, rewriter)


def _atomic_rmw(op: cuda_tile.AtomicRMWTkoOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    data, token = result_types(op, rewriter)
    return rewriter.insert(
        nv_tileaa.AtomicRMWOp(
            rewriter.value(op.pointers),
            rewriter.value(op.arg),
            converted(rewriter, op.mask),
            converted(rewriter, op.token),
            rmw_mode=op.mode.value,
            data=data,
            result_token=token,
            **ordering(op),
        )
    )


def _atomic_cas(op: cuda_tile.AtomicCASTkoOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    data, token = result_types(op, rewriter)
    return rewriter.insert(
        nv_tileaa.AtomicCASOp(
            rewriter.value(op.pointers),
            rewriter.value(op.cmp),
            rewriter.value(op.val),
            converted(rewriter, op.mask),
            converted(rewriter, op.token),
            data=data,
            result_token=token,
            **ordering(op),
        )
    )


# ---- globals ---------------------------------------------------------------------------------------------------------


def _get_global(op: cuda_tile.GetGlobalOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    symbol = op.attributes["name"]
    reference = symbol if isinstance(symbol, SymbolRefAttr) else SymbolRefAttr(symbol.value)
    result = rewriter.convert_type(op.results[0].type)
    return rewriter.insert(nv_tileaa.GetGlobalOp(symbol=reference, result=result))


MOST_ALIGNMENT = 1 << 30
"""Bytes: ptxas 13.5 ends with a segmentation fault at twice as many, and LLVM refuses more than 2^32."""


def check_alignment(op: Operation, alignment: int) -> None:
    """Raise CompileError where memory cannot be aligned to so many bytes."""
    if alignment > MOST_ALIGNMENT:
        message = f"alignment of {alignment} bytes exceeds {MOST_ALIGNMENT}, the largest that ptxas assembles"
        raise CompileError.at(op.location, message)


def _alloca(op: cuda_tile.AllocaOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    check_alignment(op, op.alignment.value)
    fields = {"global_": op.global_} if op.global_ is not None else {}
    result = rewriter.convert_type(op.results[0].type)
    return rewriter.insert(nv_tileaa.AllocaOp(num_elem=op.num_elem, alignment=op.alignment, result=result, **fields))


def end_lifetimes(module: Operation) -> None:
    """Free allocations at the end of their block, the last one first."""
    for op in reversed([op for op in module.walk() if isinstance(op, nv_tileaa.AllocaOp)]):
        block: Any = op.parent
        block.insert_before(nv_tileaa.DeallocOp(op.result, location=op.location), block.last)


def _token_step(target: type[Operation]) -> Rule:
    def rule(op: Operation, args: tuple, rewriter: ConversionRewriter) -> Any:
        return rewriter.insert(target(*args, result=nv_tileaa.MemTokenType()))

    return rule


def patterns() -> Table:
    return {
        "alloca": _alloca,
        "atomic_cas_tko": _atomic_cas,
        "atomic_red_view_tko": _view_update(nv_tileaa.TiledAtomicRMWOp, "value"),
        "atomic_rmw_tko": _atomic_rmw,
        "gdc_launch_dependents_tko": _token_step(nv_tileaa.GdcLaunchDependentsOp),
        "gdc_wait_tko": _token_step(nv_tileaa.GdcWaitOp),
        "get_global": _get_global,
        "get_index_space_shape": _index_space_shape,
        "get_tensor_shape": _tensor_shape,
        "join_tokens": _join_tokens,
        "load_ptr_tko": _load_pointers,
        "load_view_tko": _load_view,
        "make_gather_scatter_view": _make_view,
        "make_partition_view": _make_view,
        "make_strided_view": _make_view,
        "make_tensor_view": _make_tensor_view,
        "make_token": _make_token,
        "memory_fence_alias_tko": _token_step(nv_tileaa.FenceAliasOp),
        "offset": same(nv_tileaa.AddPtrOp),
        "store_ptr_tko": _store_pointers,
        "store_view_tko": _view_update(nv_tileaa.TiledStoreOp, "tile"),
    }
