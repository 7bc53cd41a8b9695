"""Accesses of memory, through tilings and through pointers.

Loads return the data and a token, stores a token.  A token operand orders the operation after those that made it;
without one the operation is unordered.
"""

from __future__ import annotations

from typing import Any, ClassVar

from tileiras.dialects.arith import bool_like, integer_like
from tileiras.ir import (
    AttrSizedOperandSegments,
    DenseArrayAttr,
    FloatType,
    IntegerType,
    MemoryRead,
    MemoryWrite,
    Operation,
    TensorType,
    Type,
    UnitAttr,
    VerifyError,
    attribute,
    element_type_of,
    i1,
    operand,
    optional_operand,
    result,
    variadic_operand,
)

from .attributes import IN_BOUNDS, AtomicRMWModeAttr, MemScopeAttr, MemSemanticAttr
from .memory import pointer_like
from .types import MemTokenType, TiledViewType


class _Ordered(Operation):
    """A memory operation with an order and a scope; weak accesses have no scope."""

    mem_semantic = attribute(MemSemanticAttr, default=MemSemanticAttr("weak"))
    mem_scope = attribute(MemScopeAttr, optional=True)
    unsupported: ClassVar[tuple[str, ...]] = ()
    """Orders that accesses of this kind do not support."""
    spelled: ClassVar[tuple[str, str]] = ("mem_scope", "mem_semantic")
    """The names of scope and order in documented texts."""

    verifies_locally = True

    def verify_op(self) -> None:
        if self.mem_semantic.value in self.unsupported:
            raise VerifyError(f"unsupported mem_semantic: {self.mem_semantic.value}")
        weak = self.mem_semantic.value == "weak"
        scope, semantic = self.spelled
        if weak and self.mem_scope is not None:
            raise VerifyError(f"{scope} not supported when {semantic} is weak")
        if not weak and self.mem_scope is None:
            raise VerifyError(f"{scope} required when {semantic} is not weak")


class _Update(_Ordered):
    """An atomic update."""

    spelled = ("memScope", "memSemantic")


# ---- accesses through a tiling ---------------------------------------------------------------------------------------

_LOADS_HAVE_NO = ("release", "acq_rel")
_STORES_HAVE_NO = ("acquire", "acq_rel")


class _Tiled(_Ordered):
    """An access through a view; `data` is a tile of its shape and elements."""

    verifies_locally = True

    def verify_op(self) -> None:
        super().verify_op()
        view, type = self.view.type, self.data.type  # type: ignore[attr-defined]
        rank = len(view.shape)
        if len(self.coords) != rank:  # type: ignore[attr-defined]
            raise VerifyError(f"expects {rank} coordinates, but got {len(self.coords)}")  # type: ignore[attr-defined]
        if (type.shape if isinstance(type, TensorType) else ()) != view.shape:
            raise VerifyError("requires the same shape for tileSize and tensor value")
        element = element_type_of(type)
        if element is not view.element_type and not self.converts(view.element_type, element):
            raise VerifyError(f"view elementType not equal with tensor element type: {view.element_type} != {element}")
        verify_in_bounds(self, rank)

    @staticmethod
    def converts(memory: Type, element: Type) -> bool:
        """Whether an access of this kind converts elements in memory to `element`."""
        return False


def verify_in_bounds(op: Operation, rank: int) -> None:
    """Raise VerifyError unless an access through a view of `rank` dimensions has as many promises, or no attribute."""
    promised = op.attributes.get(IN_BOUNDS)
    if promised is None:
        return
    count = len(promised.elements) if isinstance(promised, DenseArrayAttr) else 0
    if count != rank:
        raise VerifyError(f"incorrect number of in_bounds elements: expected {rank}, but found {count}")


_VIEW_TYPES = "type($view) `,` `(` type($coords) `)`"


class TiledLoadOp(_Tiled, name="nv_tileaa.tiled_load", traits=(MemoryRead, AttrSizedOperandSegments)):
    """The tile at `coords` (counted in tiles, one per view dimension).

    With a `reduction` the addresses are multicast ones: the copies behind each are combined.
    """

    unsupported = _LOADS_HAVE_NO
    view = operand(TiledViewType)
    coords = variadic_operand(integer_like)
    token = optional_operand(MemTokenType)
    reduction = attribute(AtomicRMWModeAttr, optional=True)
    data = result(doc="the tile")
    result_token = result(MemTokenType)
    assembly_format = (
        "$view `[` $coords `]` (`token` `=` $token^)? attr-dict"
        f" `:` {_VIEW_TYPES} `->` type($data) `,` type($result_token)"
    )


class TiledStoreOp(_Tiled, name="nv_tileaa.tiled_store", traits=(MemoryWrite, AttrSizedOperandSegments)):
    """Writes the tile at `coords`; `multicast`: to every copy behind its addresses."""

    unsupported = _STORES_HAVE_NO
    data = operand(doc="the tile")
    view = operand(TiledViewType)
    coords = variadic_operand(integer_like)
    token = optional_operand(MemTokenType)
    multicast = attribute(UnitAttr, optional=True)
    result_token = result(MemTokenType)
    assembly_format = (
        "$data `,` $view `[` $coords `]` (`token` `=` $token^)? attr-dict"
        f" `:` type($data) `,` {_VIEW_TYPES} `->` type($result_token)"
    )


class TiledAtomicRMWOp(_Tiled, _Update, name="nv_tileaa.tiled_atomic_rmw"):
    """Combines the tile into memory at `coords`, element by element and atomically; `multicast`: into every copy."""

    traits = (MemoryRead, MemoryWrite, AttrSizedOperandSegments)
    data = operand()
    view = operand(TiledViewType)
    coords = variadic_operand(integer_like)
    token = optional_operand(MemTokenType)
    rmw_mode = attribute(AtomicRMWModeAttr)
    multicast = attribute(UnitAttr, optional=True)
    result_token = result(MemTokenType)
    assembly_format = (
        "$rmw_mode $data `,` $view `[` $coords `]` (`token` `=` $token^)? attr-dict"
        f" `:` type($data) `,` {_VIEW_TYPES} `->` type($result_token)"
    )

    verifies_locally = True

    def verify_op(self) -> None:
        super().verify_op()
        element, mode = element_type_of(self.data.type), self.rmw_mode.value
        if mode == "xchg":
            raise VerifyError("tiled_atomic_rmw op cannot use xchg operation")
        if element.width == 8:
            raise VerifyError("tiled_atomic_rmw not supported for 8-bit types")
        if element.width == 16 and isinstance(element, IntegerType):
            raise VerifyError("tiled_atomic_rmw not supported for 16-bit integer")
        if element.width == 16 and mode not in _HALF_MODES:
            raise VerifyError("tiled_atomic_rmw for 16-bit float only supports add, max, min operations")
        verify_mode(element, mode)


_HALF_MODES = ("addf", "max", "min")


def verify_mode(element: FloatType | IntegerType, mode: str) -> None:
    """Raise VerifyError unless elements of the type support updates of that kind."""
    if isinstance(element, FloatType):
        fits = mode in (*_HALF_MODES, "xchg")
    else:
        fits = isinstance(element, IntegerType) and mode != "addf"
    if not fits:
        raise VerifyError(f"cannot update elements of type {element} by '{mode}'")


# ---- accesses through tiles of pointers ------------------------------------------------------------------------------


class _Pointed(_Ordered):
    """An access through pointers: data and its replacement for masked elements have their shape, layout and pointee."""

    values: ClassVar[tuple[str, ...]] = ("data",)

    verifies_locally = True

    def verify_op(self) -> None:
        super().verify_op()
        pointer, mask = self.pointer.type, self.mask  # type: ignore[attr-defined]
        pointee: Any = element_type_of(pointer).pointee
        one: Any = i1
        if isinstance(pointer, TensorType):
            pointee, one = pointer.with_element_type(pointee), pointer.with_element_type(one)
        for name in self.values:
            value = getattr(self, name)
            if value is not None and value.type is not pointee:
                raise VerifyError(f"expects {name} of type {pointee}, but got {value.type}")
        if mask is not None and mask.type is not one:
            raise VerifyError(f"expects a mask of type {one}, but got {mask.type}")


class LoadOp(_Pointed, name="nv_tileaa.load", traits=(MemoryRead, AttrSizedOperandSegments)):
    """Reads through each pointer whose mask is set; the others give `other` (unspecified without it)."""

    values = ("data", "other")
    unsupported = _LOADS_HAVE_NO
    pointer = operand(pointer_like)
    mask = optional_operand(bool_like)
    other = optional_operand()
    token = optional_operand(MemTokenType)
    data = result()
    result_token = result(MemTokenType)
    assembly_format = (
        "$pointer (`mask` `=` $mask^ `:` type($mask))? (`other` `=` $other^ `:` type($other))? (`token` `=` $token^)?"
        " attr-dict `:` type($pointer) `->` type($data) `,` type($result_token)"
    )


class StoreOp(_Pointed, name="nv_tileaa.store", traits=(MemoryWrite, AttrSizedOperandSegments)):
    """Writes through each pointer whose mask is set."""

    unsupported = _STORES_HAVE_NO
    pointer = operand(pointer_like)
    data = operand()
    mask = optional_operand(bool_like)
    token = optional_operand(MemTokenType)
    result_token = result(MemTokenType)
    assembly_format = (
        "$pointer `,` $data (`mask` `=` $mask^ `:` type($mask))? (`token` `=` $token^)?"
        " attr-dict `:` type($pointer) `,` type($data) `->` type($result_token)"
    )


class AtomicRMWOp(_Pointed, _Update, name="nv_tileaa.atomic_rmw"):
    """Combines `value` into memory through each pointer whose mask is set; returns the old values."""

    values = ("data", "value")
    traits = (MemoryRead, MemoryWrite, AttrSizedOperandSegments)
    pointer = operand(pointer_like)
    value = operand()
    mask = optional_operand(bool_like)
    token = optional_operand(MemTokenType)
    rmw_mode = attribute(AtomicRMWModeAttr)
    data = result(doc="the values before")
    result_token = result(MemTokenType)
    assembly_format = (
        "$rmw_mode $pointer `,` $value (`mask` `=` $mask^ `:` type($mask))? (`token` `=` $token^)?"
        " attr-dict `:` type($pointer) `,` type($value) `->` type($data) `,` type($result_token)"
    )

    verifies_locally = True

    def verify_op(self) -> None:
        super().verify_op()
        verify_mode(element_type_of(self.data.type), self.rmw_mode.value)


class AtomicCASOp(_Pointed, _Update, name="nv_tileaa.atomic_cas"):
    """Writes `value` where memory holds `compare`; returns the old values."""

    values = ("data", "compare", "value")
    traits = (MemoryRead, MemoryWrite, AttrSizedOperandSegments)
    pointer = operand(pointer_like)
    compare = operand()
    value = operand()
    mask = optional_operand(bool_like)
    token = optional_operand(MemTokenType)
    data = result(doc="the values before")
    result_token = result(MemTokenType)
    assembly_format = (
        "$pointer `,` $compare `,` $value (`mask` `=` $mask^ `:` type($mask))? (`token` `=` $token^)?"
        " attr-dict `:` type($pointer) `,` type($value) `->` type($data) `,` type($result_token)"
    )
