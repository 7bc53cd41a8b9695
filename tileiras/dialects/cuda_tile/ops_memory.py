"""Memory through tiles of pointers, tokens that order memory operations, and memory of the block itself.

Nothing but tokens orders memory operations: an operation runs after those whose tokens it takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.ir import (
    OPERAND_SEGMENTS,
    AttrSizedOperandSegments,
    DenseArrayAttr,
    MemoryAllocate,
    MemoryRead,
    MemoryWrite,
    Pure,
    UnitAttr,
    VerifyError,
    attribute,
    element_type_of,
    i32,
    operand,
    optional_operand,
    variadic_operand,
)
from tileiras.ir import result as output

from .attributes import MemoryOrderingSemanticsAttr, MemoryScopeAttr, OptimizationHintsAttr
from .constraints import I1Tile, I64Attr, NumberTile, PointerTile, ScalarPointer
from .operation import TileOp
from .traits import TypesRelate
from .types import PointerType, TileType, TokenType
from .verifiers import verify_load_ordering, verify_store_ordering

if TYPE_CHECKING:
    from tileiras.ir import Parser

ORDERING = "the ordering semantics of the access"
SCOPE = "among which threads it is ordered; none for weak accesses"
HINTS = "advice per architecture"
TOKEN = "the operation runs after those that made this token"


def points_to(pointers: TileType, values: TileType) -> bool:
    """Whether a tile of pointers addresses memory that holds a tile of values."""
    return (
        isinstance(pointers, TileType)
        and isinstance(pointers.element_type, PointerType)
        and pointers.shape == values.shape
        and pointers.element_type.pointee_type is values.element_type
    )


def same_shape(first: TileType, second: TileType) -> bool:
    return first.shape == second.shape


class LoadPtrTkoOp(TileOp, name="cuda_tile.load_ptr_tko", since="13.1", opcode=0x3D, group="Memory"):
    """Reads through each pointer whose mask is set; the others give the padding value, or anything without one."""

    traits = (
        MemoryRead,
        AttrSizedOperandSegments,
        TypesRelate(
            "`source` type is expected a pointer type of `result` type",
            "result",
            "source",
            lambda result, source: points_to(source, result),
        ),
        TypesRelate("shape of 'mask' must match the shape of 'source'", "source", "mask", same_shape),
        TypesRelate(
            "type of 'paddingValue' must match the type of 'result'", "result", "paddingValue", lambda a, b: a is b
        ),
    )
    memory_ordering_semantics = attribute(MemoryOrderingSemanticsAttr, ORDERING)
    memory_scope = attribute(MemoryScopeAttr, SCOPE, optional=True)
    source = operand(PointerTile, "where to read")
    mask = optional_operand(I1Tile, "which elements are read")
    paddingValue = optional_operand(NumberTile, "the value of the other elements")
    token = optional_operand(TokenType, TOKEN)
    optimization_hints = attribute(OptimizationHintsAttr, HINTS, optional=True)
    result = output(TileType, "the values read")
    result_token = output(TokenType, "the read has happened")
    assembly_format = (
        "$memory_ordering_semantics ($memory_scope^)? $source (`,` $mask^)? (`,` $paddingValue^)?"
        " (`token` `` `=` `` $token^)? (`optimization_hints` `=` $optimization_hints^)? attr-dict `:`"
        " custom<CudaTileType>(type($source)) (`,` custom<CudaTileType>(type($mask))^)?"
        " (`,` custom<CudaTileType>(type($paddingValue))^)? `->` custom<CudaTileType>(type($result)) `,`"
        " custom<CudaTileType>(type($result_token))"
    )

    @classmethod
    def parse_custom(cls, parser: Parser) -> "LoadPtrTkoOp":
        """The text does not distinguish a mask from padding if only one of the two is present: its type does."""
        op = parser.parse_assembly_format(cls)
        source, mask, padding, token = op.attributes[OPERAND_SEGMENTS].elements
        other = op.mask.type if mask and not padding else None
        if other is op.result.type and not I1Tile.satisfied_by(other):
            op.attributes[OPERAND_SEGMENTS] = DenseArrayAttr(i32, (source, 0, 1, token))
        return op

    verifies_locally = True

    def verify_op(self) -> None:
        verify_load_ordering(self)


class StorePtrTkoOp(TileOp, name="cuda_tile.store_ptr_tko", since="13.1", opcode=0x65, group="Memory"):
    """Writes through each pointer whose mask is set."""

    traits = (
        MemoryWrite,
        AttrSizedOperandSegments,
        TypesRelate(
            "`destination` type is expected a pointer type of `value` type",
            "value",
            "destination",
            lambda value, destination: points_to(destination, value),
        ),
        TypesRelate("shape of 'destination' must match the shape of 'mask'", "mask", "destination", same_shape),
    )
    memory_ordering_semantics = attribute(MemoryOrderingSemanticsAttr, ORDERING)
    memory_scope = attribute(MemoryScopeAttr, SCOPE, optional=True)
    destination = operand(PointerTile, "where to write")
    value = operand(TileType, "the values to write")
    mask = optional_operand(I1Tile, "which elements are written")
    token = optional_operand(TokenType, TOKEN)
    optimization_hints = attribute(OptimizationHintsAttr, HINTS, optional=True)
    result_token = output(TokenType, "the write has happened")
    assembly_format = (
        "$memory_ordering_semantics ($memory_scope^)? $destination `,` $value (`,` $mask^)?"
        " (`token` `` `=` `` $token^)? (`optimization_hints` `=` $optimization_hints^)? attr-dict `:`"
        " custom<CudaTileType>(type($destination)) `,` custom<CudaTileType>(type($value))"
        " (`,` custom<CudaTileType>(type($mask))^)? `->` custom<CudaTileType>(type($result_token))"
    )

    verifies_locally = True

    def verify_op(self) -> None:
        verify_store_ordering(self)


class AllocaOp(TileOp, name="cuda_tile.alloca", since="13.3", opcode=0x71, group="Memory", traits=(MemoryAllocate,)):
    """Memory that lives as long as the block that allocates it."""

    num_elem = attribute(I64Attr, "how many elements")
    alignment = attribute(I64Attr, "alignment in bytes, a power of two")
    global_ = attribute(
        UnitAttr, "the address may be shared among the threads of the tile", optional=True, name="global"
    )
    result = output(ScalarPointer, "pointer to the first element")
    assembly_format = (
        "`num_elem` `=` $num_elem `,` `alignment` `=` $alignment (`global` $global^)? attr-dict"
        " `:` custom<CudaTileType>(type($result))"
    )

    def verify_op(self) -> None:
        for name in ("num_elem", "alignment"):
            if getattr(self, name).value < 0:
                raise VerifyError(
                    f"attribute '{name}' failed to satisfy constraint: 64-bit signless integer attribute whose minimum"
                    " value is 0"
                )
        alignment = self.alignment.value
        if alignment <= 0 or alignment & (alignment - 1):
            raise VerifyError("'alignment' must be power of two")
        pointee = element_type_of(self.result.type).pointee_type
        size = max(1, pointee.width // 8) if pointee.width > 4 or pointee.width == 1 else 0
        if alignment < size:
            raise VerifyError(
                f"'alignment' ({alignment}) must be at least the natural size ({size} bytes) for element type"
                f" '{pointee}'"
            )


class MakeTokenOp(TileOp, name="cuda_tile.make_token", since="13.1", opcode=0x44, group="Memory", traits=(Pure,)):
    """A token that waits for nothing."""

    result = output(TokenType, "the token")
    assembly_format = "attr-dict `:` custom<CudaTileType>(type($result))"


class JoinTokensOp(TileOp, name="cuda_tile.join_tokens", since="13.1", opcode=0x3C, group="Memory", traits=(Pure,)):
    """A token that waits for all of its operands."""

    tokens = variadic_operand(TokenType, "two tokens or more")
    result = output(TokenType, "their token")
    assembly_format = "$tokens attr-dict `:` custom<CudaTileType>(type($result))"

    verifies_locally = True

    def verify_op(self) -> None:
        if len(self.tokens) < 2:
            raise VerifyError("expect two or more tokens")


class _Ordering(TileOp):
    """Operations whose whole effect is order."""

    group = "Memory"
    traits = (MemoryRead, MemoryWrite)


class MemoryFenceAliasTkoOp(_Ordering, name="cuda_tile.memory_fence_alias_tko", since="13.4", opcode=0x7A):
    """Orders accesses before the token and after the result even when their addresses for the memory differ."""

    token = operand(TokenType, TOKEN)
    result_token = output(TokenType, "the fence has been passed")
    assembly_format = "$token attr-dict"


class GdcLaunchDependentsTkoOp(_Ordering, name="cuda_tile.gdc_launch_dependents_tko", since="13.4", opcode=0x77):
    """Lets grids that depend on this one start (PTX griddepcontrol.launch_dependents)."""

    token = optional_operand(TokenType, TOKEN)
    result_token = output(TokenType, "the signal has been given")
    assembly_format = "(`token` `=` $token^)? attr-dict `->` custom<CudaTileType>(type($result_token))"


class GdcWaitTkoOp(_Ordering, name="cuda_tile.gdc_wait_tko", since="13.4", opcode=0x78):
    """Waits until the grids that this one depends on have finished and can be seen (PTX griddepcontrol.wait)."""

    token = optional_operand(TokenType, TOKEN)
    result_token = output(TokenType, "the wait is over")
    assembly_format = "(`token` `=` $token^)? attr-dict `->` custom<CudaTileType>(type($result_token))"
