"""Whether a tensor map can serve a load, store or update: checks of an access and its view against the rules of maps
(CUDA driver API, cuTensorMapEncodeTiled) and, for maps made by the host, against the values known to the host, which
are the kernel's arguments only.
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
from tileiras.reasons import Reason
from tileiras.targets import Target
from tileiras.targets.atoms.bulk_copies import REDUCTIONS

UNIT = 16
"""Alignment of addresses and strides, in bytes."""

MOST_INDEX_BITS = 32
"""Largest width of a size: the coordinates of boxes are signed 32-bit numbers (PTX ISA, "Tensors")."""


def map_creator(option: str, target: Target) -> str:
    """The creator of tensor maps on a target, "host" or "device"; "none" where it lacks their instructions.

    With `auto` kernels build the maps of dots into tensor memory, which works under every launcher.  Of the products of
    8192 cubed on B200, threads that copy operands take 1.16 (f16), 1.96 (tf32) and 1.09 (f8) of the reference
    compiler's time, boxes of such maps 1.01, 1.00 and 0.97 (`bench code`).
    """
    if option == "auto":
        option = "device" if target.has("tcgen05") else "none"
    required = {"host": ("tma",), "device": ("tma", "tensormap_replace")}.get(option)
    return option if required is not None and all(map(target.has, required)) else "none"


def access_refusal(access: Operation, facts: DivisibilityAnalysis, by_host: bool = True) -> Reason | None:
    """The rule that prevents a tensor map from serving an access, or None; `by_host`: the host creates the map, not the
    kernel."""
    tiled = (tileas.TiledLoadOp, tileas.TiledStoreOp, tileas.TiledAtomicRMWOp)
    if not isinstance(access, tiled) or not isinstance(access.data.type, TensorType):
        return Reason("maps.no-tile")
    if any(access.attributes.get(name) is not None for name in ("multicast", "reduction")):
        return Reason("maps.multicast-memory")
    if isinstance(access, tileas.TiledAtomicRMWOp):
        mode, element = access.rmw_mode.value, access.data.type.element_type
        if (mode, str(element)) not in REDUCTIONS:
            return Reason("maps.no-reduction", element=str(element), mode=mode)
    if aa.NO_TMA in access.attributes:
        return Reason("maps.hint")
    if not _is_unordered(access):
        return Reason("maps.ordered")
    wrong = view_error(access.view.type) or _memref_error(access.view, facts, by_host)
    if wrong:
        return wrong
    if isinstance(access, tileas.TiledLoadOp) and _is_of_cluster(access) and needs_fence(access.token):
        return Reason("maps.ordered-in-cluster")
    return None


def needs_fence(token: Value | None) -> bool:
    """Whether a copy by the asynchronous proxy that is ordered after a token needs a fence: the token orders it after
    writes of the kernel's threads, or after a strong access, by which they observe writes of others (PTX ISA,
    "Causality Order").  Writes of a grid that has been waited for are visible (PTX ISA, "griddepcontrol")."""
    return token is not None and _follows(token, _is_of_generic_proxy)


def follows_strong(token: Value | None) -> bool:
    """Whether a token waits for an access that is ordered with those of other threads."""
    return token is not None and _follows(token, _is_strong)


def _is_of_cluster(op: Operation) -> bool:
    """Whether other CTAs than an operation's own may execute its tile block, or copy for it."""
    func = aa.function_of(op)
    return func is None or tileas.cluster_size(func) > 1


def _is_unordered(access: Any) -> bool:
    """Whether only tokens order an access.  An update may be relaxed, as a reduction of boxes is at GPU scope."""
    if isinstance(access, tileas.TiledAtomicRMWOp):
        scope = access.mem_scope
        return access.mem_semantic.value in ("weak", "relaxed") and (scope is None or scope.value != "sys")
    return access.mem_semantic.value == "weak"


def memref_of(view: Value) -> Any:
    """The operation that makes the memref of a view, if known."""
    cut = view.defining_op
    memref = cut.source.defining_op if isinstance(cut, aa.BlockTileOp) else None
    return memref if isinstance(memref, aa.MakeMemRefOp) else None


def contiguous_dim(view: aa.TiledViewType) -> int | None:
    """The dimension of a view's tiles along which the memref has stride 1; None if unknown."""
    dims = [dim for dim, source in enumerate(view.dim_map) if view.source.strides[source] == 1]
    # If several have stride 1, at most one has more than one element.
    return next((dim for dim in dims if view.shape[dim] > 1), dims[-1] if dims else None)


def host_value(extent: Value | int) -> str | None:
    """A number or an argument of the kernel (`p3`), in the host's notation; None if only the kernel knows the value."""
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


def _memref_error(view: Value, facts: DivisibilityAnalysis, by_host: bool) -> Reason | None:
    memref = memref_of(view)
    if memref is None:
        return Reason("maps.memref-unknown")
    if by_host and host_value(memref.base) is None:
        return Reason("maps.base-computed")
    if facts.divisor(memref.base) % UNIT:
        return Reason("maps.base-alignment")
    inner = contiguous_dim(view.type)
    if inner is None:
        return Reason("maps.no-unit-stride")
    size = view.type.element_type.width // 8
    if view.type.shape[inner] * size % UNIT:
        return Reason("maps.tile-alignment")
    for dim in range(memref.result.type.rank):
        wrong = _extent_error(memref, dim, dim == view.type.dim_map[inner], size, facts, by_host)
        if wrong:
            return wrong
    return None


def _extent_error(
    memref: Any, dim: int, is_inner: bool, size: int, facts: DivisibilityAnalysis, by_host: bool
) -> Reason | None:
    """The error in the size or the stride of a dimension of a memref with elements of `size` bytes, or None."""
    extent, stride = memref.size(dim), memref.stride(dim)
    if by_host and host_value(extent) is None:
        return Reason("maps.size-computed", dim=dim)
    if by_host and host_value(stride) is None:
        return Reason("maps.stride-computed", dim=dim)
    type = getattr(extent, "type", None)
    if isinstance(type, IntegerType) and type.width > MOST_INDEX_BITS:
        return Reason("maps.size-bits", dim=dim, bits=type.width, most=MOST_INDEX_BITS)
    if extent == 0:
        return Reason("maps.no-elements", dim=dim)
    if is_inner:
        return None
    divisor = stride if isinstance(stride, int) and stride != DYNAMIC else facts.divisor(stride)
    return Reason("maps.stride-alignment", dim=dim) if divisor * size % UNIT else None


def _follows(token: Value, predicate: Callable[[Operation], bool]) -> bool:
    """Whether a token waits for a `predicate` operation; results of other operations with regions count as such."""
    seen = {token}
    pending = [token]
    while pending:
        current = pending.pop()
        handed_on = incoming(current)
        op = current.defining_op
        if handed_on is not None:
            following = [each.value for each in handed_on]
        elif op is None or op.regions or predicate(op):
            return True
        else:
            following = [value for value in op.operands if isinstance(value.type, aa.MemTokenType)]
        for value in following:
            if value not in seen:
                seen.add(value)
                pending.append(value)
    return False


def _is_strong(op: Operation) -> bool:
    """Whether an operation observes writes of other threads, or makes its own visible to them."""
    semantic = getattr(op, "mem_semantic", None)
    return semantic is not None and semantic.value != "weak"


def _is_of_generic_proxy(op: Operation) -> bool:
    """Whether an operation writes by the generic proxy, or observes writes of other threads; a complete copy in boxes
    was made by the asynchronous proxy itself."""
    if _is_strong(op):
        return True
    return op.has_trait(MemoryWrite) and op.name != names.TMA_STORE and not isinstance(op, _WRITE_NO_TILE)


_WRITE_NO_TILE = (aa.GdcWaitOp, aa.GdcLaunchDependentsOp, aa.PrintOp)
"""Operations ordered by tokens that do not change memory from which a tile is loaded."""
