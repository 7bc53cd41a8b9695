"""Pointers, memrefs, tilings and the operations that touch memory.

Loads return the data and a token, stores a token.  A token operand orders the operation after those that made it;
without one the operation is unordered.
"""

from __future__ import annotations

from typing import Any, ClassVar

from tileiras.dialects.arith import bool_like, integer_like
from tileiras.ir import (
    DYNAMIC,
    AttrSizedOperandSegments,
    Constraint,
    IntegerAttr,
    IntegerType,
    MemoryAllocate,
    MemoryRead,
    MemoryWrite,
    Operation,
    Pure,
    TensorType,
    UnitAttr,
    VerifyError,
    attribute,
    element_type_of,
    operand,
    optional_operand,
    result,
    variadic_operand,
)

from .attributes import AtomicRMWModeAttr, MemScopeAttr, MemSemanticAttr
from .types import MemRefType, MemTokenType, PtrType, TiledViewType

IN_BOUNDS = "nv_tileaa.inbounds"
"""Discardable attribute of accesses through a tiling: per dimension, whether the tile is promised to lie inside."""

pointer_like = Constraint(lambda type: isinstance(element_type_of(type), PtrType), "pointer-like")


# ---- tokens ----------------------------------------------------------------------------------------------------------


class CreateMemTokenOp(Operation):
    """A token that waits for nothing."""

    name = "nv_tileaa.create_mem_token"
    traits = (Pure,)
    result = result(MemTokenType)
    assembly_format = "attr-dict `:` type($result)"


class JoinMemTokenOp(Operation):
    """A token that waits for all of its operands."""

    name = "nv_tileaa.join_mem_token"
    traits = (Pure,)
    tokens = variadic_operand(MemTokenType)
    result = result(MemTokenType)
    assembly_format = "$tokens attr-dict `:` type($result)"


class _TokenStep(Operation):
    """Happens after what made the token, and before what takes the result."""

    token = optional_operand(MemTokenType)
    result = result(MemTokenType)
    assembly_format = "($token^)? attr-dict `:` type($result)"


class GdcWaitOp(_TokenStep):
    """Waits until the grids that this one depends on have finished and their writes can be seen."""

    name = "nv_tileaa.gdc_wait"
    traits = (MemoryRead, MemoryWrite)


class GdcLaunchDependentsOp(_TokenStep):
    """Lets the grids that depend on this one start."""

    name = "nv_tileaa.gdc_launch_dependents"
    traits = (MemoryRead, MemoryWrite)


class FenceAliasOp(_TokenStep):
    """Orders accesses of one memory through different addresses."""

    name = "nv_tileaa.fence_alias"
    traits = (MemoryRead, MemoryWrite)


# ---- pointers --------------------------------------------------------------------------------------------------------


class AddPtrOp(Operation):
    """`pointer + offset` elements; the offset is signed."""

    name = "nv_tileaa.addptr"
    traits = (Pure,)
    pointer = operand(pointer_like)
    offset = operand(integer_like)
    result = result(pointer_like)
    assembly_format = "$pointer `,` $offset attr-dict `:` type($result) `,` type($offset)"

    @classmethod
    def infer_result_types(cls, operands: Any, attributes: Any) -> list[Any]:
        return [operands[0].type]


class IntToPtrOp(Operation):
    name = "nv_tileaa.int_to_ptr"
    traits = (Pure,)
    operand = operand(integer_like)
    result = result(pointer_like)
    assembly_format = "$operand attr-dict `:` type($operand) `to` type($result)"


class PtrToIntOp(Operation):
    name = "nv_tileaa.ptr_to_int"
    traits = (Pure,)
    operand = operand(pointer_like)
    result = result(integer_like)
    assembly_format = "$operand attr-dict `:` type($operand) `to` type($result)"


class PtrBitcastOp(Operation):
    """The same address seen as a pointer to another type."""

    name = "nv_tileaa.bitcast"
    traits = (Pure,)
    operand = operand(pointer_like)
    result = result(pointer_like)
    assembly_format = "$operand attr-dict `:` type($operand) `to` type($result)"


# ---- memory of a tile block ------------------------------------------------------------------------------------------


class AllocaOp(Operation):
    """Memory for `num_elem` elements, which `dealloc` gives back at the end of the block.

    Only the tile block itself uses the address, unless it is `global`.
    """

    name = "nv_tileaa.alloca"
    traits = (MemoryAllocate,)
    num_elem = attribute(IntegerAttr)
    alignment = attribute(IntegerAttr, "in bytes, a power of two")
    global_ = attribute(UnitAttr, "other tile blocks may use the address", optional=True, name="global")
    result = result(PtrType)
    assembly_format = "$num_elem `,` $alignment attr-dict `:` type($result)"


class DeallocOp(Operation):
    """The end of the lifetime of what `alloca` gave."""

    name = "nv_tileaa.dealloc"
    traits = (MemoryWrite,)
    pointer = operand(PtrType)
    assembly_format = "$pointer attr-dict `:` type($pointer)"


# ---- memrefs and tilings ---------------------------------------------------------------------------------------------


class MakeMemRefOp(Operation):
    """Memory at `base`: one operand per `?` of the type's shape, then one per `?` of its strides, in elements."""

    name = "nv_tileaa.make_memref"
    traits = (Pure, AttrSizedOperandSegments)
    base = operand(PtrType)
    sizes = variadic_operand(integer_like)
    strides = variadic_operand(integer_like)
    result = result(MemRefType)
    assembly_format = (
        "$base `,` `sizes` `=` `[` $sizes `]` `,` `strides` `=` `[` $strides `]` attr-dict"
        " `:` type($base) `,` `(` type($sizes) `)` `,` `(` type($strides) `)` `->` type($result)"
    )

    def verify_op(self) -> None:
        for name, values, extents in (
            ("sizes", self.sizes, self.result.type.shape),
            ("strides", self.strides, self.result.type.strides),
        ):
            dynamic = sum(extent == DYNAMIC for extent in extents)
            if len(values) != dynamic:
                raise VerifyError(f"expects {dynamic} dynamic {name}, but got {len(values)}")

    def size(self, dim: int) -> Any:
        """The size of a dimension: an int, or the value that gives it."""
        return self._extent(self.result.type.shape, self.sizes, dim)

    def stride(self, dim: int) -> Any:
        """The stride of a dimension in elements: an int, or the value that gives it."""
        return self._extent(self.result.type.strides, self.strides, dim)

    @staticmethod
    def _extent(extents: Any, values: Any, dim: int) -> Any:
        if extents[dim] != DYNAMIC:
            return extents[dim]
        return values[sum(extent == DYNAMIC for extent in extents[:dim])]


class GetDimSizeOp(Operation):
    """The size of a memref's dimension."""

    name = "nv_tileaa.get_dim_size"
    traits = (Pure,)
    source = operand(MemRefType)
    dim = attribute(IntegerAttr)
    result = result(integer_like)
    assembly_format = "$source attr-dict `:` type($source) `->` type($result)"


class BlockTileOp(Operation):
    """Cuts a memref into tiles as the result type says."""

    name = "nv_tileaa.block_tile"
    traits = (Pure,)
    source = operand(MemRefType)
    result = result(TiledViewType)
    assembly_format = "$source attr-dict `:` type($result)"

    def verify_op(self) -> None:
        if self.result.type.source is not self.source.type:
            raise VerifyError(f"expects a tiled view of {self.source.type}, but got {self.result.type.source}")


class _Ordered(Operation):
    """A memory operation with an order and a scope; weak accesses have no scope."""

    mem_semantic = attribute(MemSemanticAttr, default=MemSemanticAttr("weak"))
    mem_scope = attribute(MemScopeAttr, optional=True)
    unsupported: ClassVar[tuple[str, ...]] = ()
    """Orders that accesses of this kind have not."""

    def verify_op(self) -> None:
        if self.mem_semantic.value in self.unsupported:
            raise VerifyError(f"unsupported mem_semantic: {self.mem_semantic.value}")
        weak = self.mem_semantic.value == "weak"
        if weak and self.mem_scope is not None:
            raise VerifyError("mem_scope not supported when mem_semantic is weak")
        if not weak and self.mem_scope is None:
            raise VerifyError("mem_scope required when mem_semantic is not weak")


# ---- accesses through a tiling ---------------------------------------------------------------------------------------

_LOADS_HAVE_NO = ("release", "acq_rel")
_STORES_HAVE_NO = ("acquire", "acq_rel")


class _Tiled(_Ordered):
    """An access through a view; `data` is a tile of its shape and elements."""

    def verify_op(self) -> None:
        super().verify_op()
        view, type = self.view.type, self.data.type  # type: ignore[attr-defined]
        rank = len(view.shape)
        if len(self.coords) != rank:  # type: ignore[attr-defined]
            raise VerifyError(f"expects {rank} coordinates, but got {len(self.coords)}")  # type: ignore[attr-defined]
        if (type.shape if isinstance(type, TensorType) else ()) != view.shape:
            raise VerifyError("requires the same shape for tileSize and tensor value")
        element = element_type_of(type)
        if element is not view.element_type:
            raise VerifyError(f"view elementType not equal with tensor element type: {view.element_type} != {element}")


_VIEW_TYPES = "type($view) `,` `(` type($coords) `)`"


class TiledLoadOp(_Tiled):
    """The tile at `coords` (counted in tiles, one per view dimension).

    With a `reduction` the addresses are multicast ones: the copies behind each are combined.
    """

    name = "nv_tileaa.tiled_load"
    unsupported = _LOADS_HAVE_NO
    traits = (MemoryRead, AttrSizedOperandSegments)
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


class TiledStoreOp(_Tiled):
    """Writes the tile at `coords`; `multicast`: to every copy behind its addresses."""

    name = "nv_tileaa.tiled_store"
    unsupported = _STORES_HAVE_NO
    traits = (MemoryWrite, AttrSizedOperandSegments)
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


class TiledAtomicRMWOp(_Tiled):
    """Combines the tile into memory at `coords`, element by element and atomically; `multicast`: into every copy."""

    name = "nv_tileaa.tiled_atomic_rmw"
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


_HALF_MODES = ("addf", "max", "min")


# ---- accesses through tiles of pointers ------------------------------------------------------------------------------


class LoadOp(_Ordered):
    """Reads through each pointer whose mask is set; the others give `other` (unspecified without it)."""

    name = "nv_tileaa.load"
    unsupported = _LOADS_HAVE_NO
    traits = (MemoryRead, AttrSizedOperandSegments)
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


class StoreOp(_Ordered):
    """Writes through each pointer whose mask is set."""

    name = "nv_tileaa.store"
    unsupported = _STORES_HAVE_NO
    traits = (MemoryWrite, AttrSizedOperandSegments)
    pointer = operand(pointer_like)
    data = operand()
    mask = optional_operand(bool_like)
    token = optional_operand(MemTokenType)
    result_token = result(MemTokenType)
    assembly_format = (
        "$pointer `,` $data (`mask` `=` $mask^ `:` type($mask))? (`token` `=` $token^)?"
        " attr-dict `:` type($pointer) `,` type($data) `->` type($result_token)"
    )


class AtomicRMWOp(_Ordered):
    """Combines `value` into memory through each pointer whose mask is set; returns what was there."""

    name = "nv_tileaa.atomic_rmw"
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


class AtomicCASOp(_Ordered):
    """Writes `value` where memory holds `compare`; returns what was there."""

    name = "nv_tileaa.atomic_cas"
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
