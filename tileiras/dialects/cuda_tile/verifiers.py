"""Checks that several operations share, in the words of the reference tools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tileiras.ir import FloatType, IntegerType, VerifyError, element_type_of, f4E2M1FN, f32

from .operation import IEEE_MODES

if TYPE_CHECKING:
    from .operation import TileOp
    from .ops_arith_float import DivFOp
    from .ops_atomics import AtomicCASTkoOp, AtomicRMWTkoOp
    from .ops_math import ExpOp, SqrtOp, TanHOp
    from .ops_memory import LoadPtrTkoOp, StorePtrTkoOp
    from .ops_multimem import MultimemLoadReduceViewTkoOp, MultimemStoreViewTkoOp
    from .ops_views import LoadViewTkoOp, StoreViewTkoOp
    from .types import TileType
    from .view_types import TileView


def shape_text(shape: Sequence[int]) -> str:
    """A shape as diagnostics spell it: `8, 16`."""
    return ", ".join(map(str, shape))


# ---- floating-point modifiers --------------------------------------------------------------------------------------


def _only_f32(op: TileOp, modifier: str) -> None:
    element = element_type_of(op.results[0].type)
    if element is not f32:
        raise VerifyError(f"{modifier} modifier only supported for f32 data type, but got: '{element}'")


def verify_flush_to_zero(op: TileOp) -> None:
    if op.flush_to_zero is not None:
        _only_f32(op, "flush_to_zero")


def verify_rounding(op: TileOp, allowed: tuple[str, ...], listed: str | None = None) -> None:
    """The rounding mode is one of `allowed`; `listed` is how the message lists them."""
    if op.rounding_mode.value not in allowed:
        raise VerifyError(f"invalid rounding mode specified, expect one of [{listed or ', '.join(allowed)}]")


def verify_ieee_rounding(op: TileOp) -> None:
    verify_rounding(op, IEEE_MODES)


def verify_divide_modifiers(op: DivFOp | SqrtOp, allowed: tuple[str, ...]) -> None:
    """Modifiers of division and square root."""
    verify_rounding(op, allowed)
    verify_flush_to_zero(op)
    if op.rounding_mode.value in ("approx", "full"):
        _only_f32(op, op.rounding_mode.value)


def verify_full_or_approx(op: ExpOp | TanHOp) -> None:
    verify_rounding(op, ("approx", "full"))
    if op.rounding_mode.value == "approx":
        _only_f32(op, "approx")


# ---- memory --------------------------------------------------------------------------------------------------------


def verify_ordering(op: TileOp, kind: str, allowed: tuple[str, str, str]) -> None:
    """A load or store has an order that its kind allows, and a scope exactly when it is not weak."""
    ordering, scope = op.memory_ordering_semantics.value, op.memory_scope
    if ordering not in allowed:
        first, second, last = allowed
        raise VerifyError(f"expect one of: {first}, {second}, or {last}, but got: {ordering}")
    if ordering == "weak":
        if scope is not None:
            raise VerifyError(f"weak {kind} must not have memory scope")
    elif scope is None:
        raise VerifyError(f"memory scope is required for {ordering} {kind}")


def verify_load_ordering(op: LoadPtrTkoOp | LoadViewTkoOp | MultimemLoadReduceViewTkoOp) -> None:
    verify_ordering(op, "load", ("weak", "relaxed", "acquire"))


def verify_store_ordering(op: MultimemStoreViewTkoOp | StorePtrTkoOp | StoreViewTkoOp) -> None:
    verify_ordering(op, "store", ("weak", "relaxed", "release"))


def verify_atomic_ordering(op: AtomicCASTkoOp | AtomicRMWTkoOp) -> None:
    if op.memory_ordering_semantics.value not in ("relaxed", "acquire", "release", "acq_rel"):
        raise VerifyError("memory ordering semantics must be one of: relaxed, acquire, release, acq_rel")


def verify_rmw_mode(mode: str, element: FloatType | IntegerType) -> None:
    """The element type can be combined by an atomic operation of this mode."""
    if mode == "addf":
        if not isinstance(element, FloatType) or element.keyword not in ("f16", "bf16", "f32", "f64"):
            raise VerifyError(f"'{mode}' works only with floats f16, bf16, f32, and f64")
    elif mode == "xchg":
        if not isinstance(element, (IntegerType, FloatType)) or bit_width(element) not in (32, 64):
            raise VerifyError(f"'{mode}' works only with integers or float of 32 or 64 bitwidth")
    elif not isinstance(element, IntegerType) or element.width not in (32, 64):
        raise VerifyError(f"'{mode}' works only with integers i32 and i64")


def bit_width(element: FloatType | IntegerType) -> int:
    """Bits of the value of an element: 19 for tf32, which memory stores in 32."""
    return 19 if isinstance(element, FloatType) and element.keyword == "tf32" else element.width


def verify_view_access(op: TileOp, tile: TileType) -> None:
    """Verify that the indices name a tile of the view and that its tiles have the type `tile`."""
    view = op.view.type
    types = [value.type for value in op.index]
    if len(types) != view.index_rank:
        raise VerifyError(f"expected {view.index_rank} index operands (based on view type), got {len(types)}")
    verify_packing(view)
    if tile is not view.tile_type:
        raise VerifyError(f"expected tile type to be '{view.tile_type}' (based on view type), got '{tile}'")
    view.verify_indices(types)
    verify_inbounds(op)


def verify_packing(view: TileView) -> None:
    """Elements of four bits share bytes along the one dimension whose stride is known to be 1."""
    tensor = view.tensor_view
    if tensor.element_type is not f4E2M1FN:
        return
    packing = [dim for dim, stride in enumerate(tensor.strides) if stride == 1]
    if len(packing) != 1:
        raise VerifyError(
            "an f4 view access requires exactly one statically encoded unit stride to identify the packing dimension;"
            f" got {len(packing)} in '{tensor}'"
        )
    if getattr(view, "sparse_dim", None) == packing[0]:
        raise VerifyError(
            f"an f4 gather/scatter view cannot use packing dimension {packing[0]} as its sparse dimension"
        )


def verify_inbounds(op: TileOp) -> None:
    """Promises about the indices are one per dimension."""
    count = len(op.inbounds.elements)
    if count != len(op.index):
        raise VerifyError(f"inbounds size ({count}) must match the number of index dimensions ({len(op.index)})")
