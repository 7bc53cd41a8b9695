"""Multicast memory: one address that stands for a copy on every device of a team.

The operations are those that the front end of 13.5 writes; each goes through a view of a multicast pointer.
"""

from __future__ import annotations

from typing import Any

from tileiras.ir import (
    AttrSizedOperandSegments,
    MemoryRead,
    MemoryWrite,
    attribute,
    operand,
    optional_operand,
    variadic_operand,
)
from tileiras.ir import result as output

from .attributes import MemoryOrderingSemanticsAttr, MemoryScopeAttr, MultimemReductionKindAttr
from .constraints import BoolArrayAttr, IntTile
from .memory_syntax import INBOUNDS, NO_PROMISE
from .operation import TileOp
from .ops_memory import ORDERING, SCOPE, TOKEN
from .types import TileType, TileView, TokenType
from .verifiers import verify_load_ordering, verify_store_ordering, verify_view_access

KIND = "how the copies are combined"


class MultimemLoadReduceViewTkoOp(TileOp):
    """Reads the tile that the indices name from every copy and combines what it reads."""

    name = "cuda_tile.multimem_load_reduce_view_tko"
    group = "Views"
    since = "13.5"
    opcode = 0x7B
    traits = (MemoryRead, AttrSizedOperandSegments)
    memory_ordering_semantics = attribute(MemoryOrderingSemanticsAttr, ORDERING)
    memory_scope = attribute(MemoryScopeAttr, SCOPE, optional=True)
    reduction = attribute(MultimemReductionKindAttr, KIND)
    view = operand(TileView, "the view")
    index = variadic_operand(IntTile, "which tile, counted in tiles")
    token = optional_operand(TokenType, TOKEN)
    inbounds = attribute(BoolArrayAttr, INBOUNDS, default=NO_PROMISE)
    reduced_values = output(TileType, "the combined tile")
    result_token = output(TokenType, "the reads have happened")

    def verify_op(self) -> None:
        verify_view_access(self, self.reduced_values.type)
        verify_load_ordering(self)


class _MultimemWrite(TileOp):
    """Base of the operations that write a tile to every copy."""

    group = "Views"
    traits = (MemoryWrite, AttrSizedOperandSegments)

    def verify_op(self: Any) -> None:
        verify_view_access(self, self.tile.type)


class MultimemReduceViewTkoOp(_MultimemWrite):
    """Combines a tile into every copy, atomically."""

    name = "cuda_tile.multimem_reduce_view_tko"
    since = "13.5"
    opcode = 0x7C
    memory_ordering_semantics = attribute(MemoryOrderingSemanticsAttr, ORDERING)
    memory_scope = attribute(MemoryScopeAttr, "among which threads it is ordered")
    reduction = attribute(MultimemReductionKindAttr, KIND)
    view = operand(TileView, "the view")
    tile = operand(TileType, "the tile")
    index = variadic_operand(IntTile, "which tile, counted in tiles")
    token = optional_operand(TokenType, TOKEN)
    inbounds = attribute(BoolArrayAttr, INBOUNDS, default=NO_PROMISE)
    result_token = output(TokenType, "the updates have happened")


class MultimemStoreViewTkoOp(_MultimemWrite):
    """Writes a tile to every copy."""

    name = "cuda_tile.multimem_store_view_tko"
    since = "13.5"
    opcode = 0x7D
    memory_ordering_semantics = attribute(MemoryOrderingSemanticsAttr, ORDERING)
    memory_scope = attribute(MemoryScopeAttr, SCOPE, optional=True)
    view = operand(TileView, "the view")
    tile = operand(TileType, "the tile")
    index = variadic_operand(IntTile, "which tile, counted in tiles")
    token = optional_operand(TokenType, TOKEN)
    inbounds = attribute(BoolArrayAttr, INBOUNDS, default=NO_PROMISE)
    result_token = output(TokenType, "the writes have happened")

    def verify_op(self) -> None:
        super().verify_op()
        verify_store_ordering(self)
