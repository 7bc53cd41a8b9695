"""Which loads, stores and updates a tensor map can serve: the rules of maps (CUDA driver API, cuTensorMapEncodeTiled),
and of the host where that makes them, which knows the kernel's own arguments alone, against what is known of an access
and its view.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tileiras.analysis.divisibility import DivisibilityAnalysis
from tileiras.analysis.incoming import incoming
from tileiras.dialects import arith
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas import names
from tileiras.dialects.nv_tileas.tensor_maps import view_error
from tileiras.ir import DYNAMIC, BlockArgument, IntegerType, MemoryWrite, Operation, TensorType, Value
from tileiras.targets.atoms.bulk_copies import REDUCTIONS

UNIT = 16
"""Bytes that addresses and strides are multiples of."""

BY_DEVICE = "; tensor-maps=device has the kernel make the map"

MOST_INDEX_BITS = 32
"""Of a size: the coordinates of boxes are signed 32-bit numbers (PTX ISA, "Tensors")."""


def access_refusal(access: Operation, facts: DivisibilityAnalysis, by_host: bool = True) -> str:
    """Which rule an access breaks so that no tensor map can serve it, or nothing; `by_host`: the map is made by
    the host, not by the kernel."""
    tiled = (tileas.TiledLoadOp, tileas.TiledStoreOp, tileas.TiledAtomicRMWOp)
    if not isinstance(access, tiled) or not isinstance(access.data.type, TensorType):
        return "it is not of a tile of a view"
    if any(access.attributes.get(name) is not None for name in ("multicast", "reduction")):
        return "it is of every copy of multicast memory"
    if isinstance(access, tileas.TiledAtomicRMWOp):
        mode, element = access.rmw_mode.value, access.data.type.element_type
        if (mode, str(element)) not in REDUCTIONS:
            return f"no copy in boxes combines {element} by '{mode}'"
    if aa.NO_TMA in access.attributes:
        return "its hint allow_tma is false"
    if not _is_unordered(access):
        return "it is ordered with accesses of other threads"
    wrong = view_error(access.view.type) or _memref_error(access.view, facts, by_host)
    if wrong:
        return wrong
    if isinstance(access, tileas.TiledLoadOp) and _is_of_cluster(access) and needs_fence(access.token):
        return "it is ordered after an access of the kernel, and another CTA of the cluster may copy it"
    return ""


def needs_fence(token: Value | None) -> bool:
    """Whether a copy by the asynchronous proxy that is ordered after a token sees memory only behind a fence: after
    what threads of the kernel write, or what others have written that a strong access of theirs has seen (PTX ISA,
    "Causality Order").  What a grid that has been waited for wrote is visible (PTX ISA, "griddepcontrol")."""
    return token is not None and _follows(token, _is_of_generic_proxy)


def follows_strong(token: Value | None) -> bool:
    """Whether a token waits for an access that is ordered with those of other threads."""
    return token is not None and _follows(token, _is_strong)


def _is_of_cluster(op: Operation) -> bool:
    """Whether CTAs beside an operation's own may do what its tile block does, or copy for it."""
    func = aa.function_of(op)
    return func is None or tileas.cluster_size(func) > 1


def _is_unordered(access: Any) -> bool:
    """Whether nothing but tokens orders an access; an update is relaxed, as a reduction of boxes is for the GPU."""
    if isinstance(access, tileas.TiledAtomicRMWOp):
        scope = access.mem_scope
        return access.mem_semantic.value in ("weak", "relaxed") and (scope is None or scope.value != "sys")
    return access.mem_semantic.value == "weak"


def memref_of(view: Value) -> Any:
    """The operation that makes the memref of a view, where that is known."""
    cut = view.defining_op
    memref = cut.source.defining_op if isinstance(cut, aa.BlockTileOp) else None
    return memref if isinstance(memref, aa.MakeMemRefOp) else None


def contiguous_dim(view: aa.TiledViewType) -> int | None:
    """The dimension of a view's tiles along which the memref has stride 1, None where none is known to."""
    found = [dim for dim, source in enumerate(view.dim_map) if view.source.strides[source] == 1]
    # Of several, the others have one element.
    return next((dim for dim in found if view.shape[dim] > 1), found[-1] if found else None)


def host_value(extent: Value | int) -> str | None:
    """A number or an argument of the kernel (`p3`) as the host is told of it; None for what only the kernel knows."""
    if isinstance(extent, int):
        return str(extent)
    while isinstance(extent.defining_op, aa.AssumeOp):
        extent = extent.defining_op.operand
    op = extent.defining_op
    if isinstance(op, arith.ConstantOp) and hasattr(op.value, "value"):
        return str(op.value.value)
    if isinstance(extent, BlockArgument) and isinstance(extent.block.parent_op, aa.FuncOp):
        return f"p{extent.index}"
    return None


def _memref_error(view: Value, facts: DivisibilityAnalysis, by_host: bool) -> str:
    memref = memref_of(view)
    if memref is None:
        return "its memref is not known here"
    if by_host and host_value(memref.base) is None:
        return f"its base pointer is computed, so the host cannot tell it{BY_DEVICE}"
    if facts.divisor(memref.base) % UNIT:
        return "base pointer not 16-byte aligned"
    inner = contiguous_dim(view.type)
    if inner is None:
        return "no dimension is known to have stride 1"
    size = view.type.element_type.width // 8
    if view.type.shape[inner] * size % UNIT:
        return "leading tile dimension not 16-byte aligned"
    for dim in range(memref.result.type.rank):
        wrong = _extent_error(memref, dim, dim == view.type.dim_map[inner], size, facts, by_host)
        if wrong:
            return wrong
    return ""


def _extent_error(
    memref: Any, dim: int, is_inner: bool, size: int, facts: DivisibilityAnalysis, by_host: bool
) -> str:
    """What is wrong with the size or the stride of a dimension of a memref of elements of `size` bytes."""
    extent, stride = memref.size(dim), memref.stride(dim)
    if by_host and (host_value(extent) is None or host_value(stride) is None):
        return f"the {'size' if host_value(extent) is None else 'stride'} of dimension {dim} is computed{BY_DEVICE}"
    type = getattr(extent, "type", None)
    if isinstance(type, IntegerType) and type.width > MOST_INDEX_BITS:
        return f"the size of dimension {dim} has {type.width} bits, coordinates of boxes {MOST_INDEX_BITS}"
    if extent == 0:
        return f"dimension {dim} has no elements"
    if is_inner:
        return ""
    known = stride if isinstance(stride, int) and stride != DYNAMIC else facts.divisor(stride)
    return f"stride of dimension {dim} not 16-byte aligned" if known * size % UNIT else ""


def _follows(token: Value, wanted: Callable[[Operation], bool]) -> bool:
    """Whether a token waits for an operation of a kind; what comes out of other regions may be anything."""
    seen = {token}
    pending = [token]
    while pending:
        current = pending.pop()
        handed_on = incoming(current)
        op = current.defining_op
        if handed_on is not None:
            following = [each.value for each in handed_on]
        elif op is None or op.regions or wanted(op):
            return True
        else:
            following = [value for value in op.operands if isinstance(value.type, aa.MemTokenType)]
        for value in following:
            if value not in seen:
                seen.add(value)
                pending.append(value)
    return False


def _is_strong(op: Operation) -> bool:
    """Whether an operation says when writes of other threads are there, or shows them its own."""
    semantic = getattr(op, "mem_semantic", None)
    return semantic is not None and semantic.value != "weak"


def _is_of_generic_proxy(op: Operation) -> bool:
    """Whether an operation writes, or says when writes of other threads are there; a copy in boxes that is complete was
    made by the asynchronous proxy itself."""
    if _is_strong(op):
        return True
    return op.has_trait(MemoryWrite) and op.name != names.TMA_STORE and not isinstance(op, _WRITE_NO_TILE)


_WRITE_NO_TILE = (aa.GdcWaitOp, aa.GdcLaunchDependentsOp, aa.PrintOp)
"""Steps of their own in the order of tokens, which change nothing that a tile is loaded from."""
