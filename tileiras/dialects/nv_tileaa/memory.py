"""Tokens, pointers, memrefs and tilings; `accesses` has the operations that load and store through them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileiras.dialects.arith import integer_like
from tileiras.ir import (
    DYNAMIC,
    AllTypesMatch,
    AttrSizedOperandSegments,
    Constraint,
    Elementwise,
    IntegerAttr,
    MemoryAllocate,
    MemoryRead,
    MemoryWrite,
    Operation,
    Pure,
    UnitAttr,
    Value,
    VerifyError,
    attribute,
    element_type_of,
    operand,
    optional_operand,
    result,
    variadic_operand,
)

from .types import MemRefType, MemTokenType, PtrType, TiledViewType

pointer_like = Constraint(lambda type: isinstance(element_type_of(type), PtrType), "pointer-like")


# ---- tokens ----------------------------------------------------------------------------------------------------------


class CreateMemTokenOp(Operation, name="nv_tileaa.create_mem_token", traits=(Pure,)):
    """A token that waits for nothing."""

    result = result(MemTokenType)
    assembly_format = "attr-dict `:` type($result)"


class JoinMemTokenOp(Operation, name="nv_tileaa.join_mem_token", traits=(Pure,)):
    """A token that waits for all of its operands."""

    tokens = variadic_operand(MemTokenType)
    result = result(MemTokenType)
    assembly_format = "$tokens attr-dict `:` type($result)"


class _TokenStep(Operation):
    """Is ordered after the producer of the token, and before the users of the result."""

    token = optional_operand(MemTokenType)
    result = result(MemTokenType)
    assembly_format = "($token^)? attr-dict `:` type($result)"


class GdcWaitOp(_TokenStep, name="nv_tileaa.gdc_wait", traits=(MemoryRead, MemoryWrite)):
    """Waits until the grids that this one depends on have finished and their writes can be seen."""


class GdcLaunchDependentsOp(_TokenStep, name="nv_tileaa.gdc_launch_dependents", traits=(MemoryRead, MemoryWrite)):
    """Lets the grids that depend on this one start."""


class FenceAliasOp(_TokenStep, name="nv_tileaa.fence_alias", traits=(MemoryRead, MemoryWrite)):
    """Orders accesses of one memory through different addresses."""


# ---- pointers --------------------------------------------------------------------------------------------------------


class AddPtrOp(Operation, name="nv_tileaa.addptr", traits=(Pure, AllTypesMatch("pointer", "result"), Elementwise)):
    """`pointer + offset` elements; the offset is signed."""

    pointer = operand(pointer_like)
    offset = operand(integer_like)
    result = result(pointer_like)
    assembly_format = "$pointer `,` $offset attr-dict `:` type($result) `,` type($offset)"
    typed_as = 0


class IntToPtrOp(Operation, name="nv_tileaa.int_to_ptr", traits=(Pure, Elementwise)):
    operand = operand(integer_like)
    result = result(pointer_like)
    assembly_format = "$operand attr-dict `:` type($operand) `to` type($result)"


class PtrToIntOp(Operation, name="nv_tileaa.ptr_to_int", traits=(Pure, Elementwise)):
    operand = operand(pointer_like)
    result = result(integer_like)
    assembly_format = "$operand attr-dict `:` type($operand) `to` type($result)"


class PtrBitcastOp(Operation, name="nv_tileaa.bitcast", traits=(Pure, Elementwise)):
    """The same address seen as a pointer to another type."""

    operand = operand(pointer_like)
    result = result(pointer_like)
    assembly_format = "$operand attr-dict `:` type($operand) `to` type($result)"


# ---- memory of a tile block ------------------------------------------------------------------------------------------


def verify_alignment(alignment: IntegerAttr) -> None:
    """Raise VerifyError unless memory can be aligned like that."""
    if alignment.value < 1 or alignment.value & alignment.value - 1:
        raise VerifyError(f"expects an alignment that is a power of two, but got {alignment.value}")


class AllocaOp(Operation, name="nv_tileaa.alloca", traits=(MemoryAllocate,)):
    """Memory for `num_elem` elements, which `dealloc` frees at the end of the block.

    Only the tile block itself uses the address, unless it is `global`.
    """

    num_elem = attribute(IntegerAttr)
    alignment = attribute(IntegerAttr, "in bytes, a power of two")
    global_ = attribute(UnitAttr, "other tile blocks may use the address", optional=True, name="global")
    result = result(PtrType)
    assembly_format = "$num_elem `,` $alignment attr-dict `:` type($result)"

    def verify_op(self) -> None:
        if self.num_elem.value < 1:
            raise VerifyError(f"expects at least one element, but got {self.num_elem.value}")
        verify_alignment(self.alignment)

    @property
    def bytes(self) -> int:
        """Bytes of the allocation: 4-bit elements share a byte, a tf32 takes those of an f32."""
        width = getattr(self.result.type.pointee, "width", 64)
        bits = width if width == 4 else 1 << max(3, (width - 1).bit_length())
        return max(1, -(-self.num_elem.value * bits // 8))


class DeallocOp(Operation, name="nv_tileaa.dealloc", traits=(MemoryWrite,)):
    """Ends the lifetime of an allocation by `alloca`."""

    pointer = operand(PtrType)
    assembly_format = "$pointer attr-dict `:` type($pointer)"


# ---- memrefs and tilings ---------------------------------------------------------------------------------------------


class MakeMemRefOp(Operation, name="nv_tileaa.make_memref", traits=(Pure, AttrSizedOperandSegments)):
    """Memory at `base`: one operand per `?` of the type's shape, then one per `?` of its strides, in elements."""

    base = operand(PtrType)
    sizes = variadic_operand(integer_like)
    strides = variadic_operand(integer_like)
    result = result(MemRefType)
    assembly_format = (
        "$base `,` `sizes` `=` `[` $sizes `]` `,` `strides` `=` `[` $strides `]` attr-dict"
        " `:` type($base) `,` `(` type($sizes) `)` `,` `(` type($strides) `)` `->` type($result)"
    )

    verifies_locally = True

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
    def _extent(extents: Sequence[int], values: Sequence[Value], dim: int) -> Any:
        if extents[dim] != DYNAMIC:
            return extents[dim]
        return values[sum(extent == DYNAMIC for extent in extents[:dim])]


class GetDimSizeOp(Operation, name="nv_tileaa.get_dim_size", traits=(Pure,)):
    """The size of a memref's dimension."""

    source = operand(MemRefType)
    dim = attribute(IntegerAttr)
    result = result(integer_like)
    assembly_format = "$source attr-dict `:` type($source) `->` type($result)"

    def verify_op(self) -> None:
        if not 0 <= self.dim.value < self.source.type.rank:
            raise VerifyError(f"expects a dimension of {self.source.type}, but got {self.dim.value}")


class BlockTileOp(Operation, name="nv_tileaa.block_tile", traits=(Pure,)):
    """Cuts a memref into tiles as the result type says."""

    source = operand(MemRefType)
    result = result(TiledViewType)
    assembly_format = "$source attr-dict `:` type($result)"

    verifies_locally = True

    def verify_op(self) -> None:
        if self.result.type.source is not self.source.type:
            raise VerifyError(f"expects a tiled view of {self.source.type}, but got {self.result.type.source}")
