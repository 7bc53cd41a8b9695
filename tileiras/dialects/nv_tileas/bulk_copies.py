"""Bulk copies between global memory and stages of pipes, and the kind of producer or consumer of each operation that
fills or drains a stage."""

from __future__ import annotations

from typing import Any

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.arith import bool_like, integer_like
from tileiras.ir import (
    AttrSizedOperandSegments,
    IntegerAttr,
    MemoryRead,
    MemoryWrite,
    Operation,
    TypedAttribute,
    UnitAttr,
    VerifyError,
    attribute,
    i32,
    operand,
    optional_operand,
    variadic_operand,
)

from .buffers import AsyncLoadOp, AsyncTiledLoadOp, CopyOp, StoreTensorOp
from .names import TMA_STORE_STAGE
from .pipes import (
    ConsumeOneOp,
    ConsumerReadOp,
    ConsumerReleaseOp,
    ConsumerTokenType,
    ConsumerWaitOp,
    ProduceOneOp,
    ProducerAcquireOp,
    ProducerCommitOp,
    ProducerTokenType,
    ProducerWriteOp,
)
from .tensor_maps import TmaDescType

_NUMBER = TypedAttribute(IntegerAttr, i32, "32-bit signless integer attribute")


class _BulkCopy(Operation):
    """A copy of a tile between global memory and a stage, issued by one thread of the agent.

    The whole tile lies inside the memref, in runs of at least 16 bytes at multiples of 16 that are contiguous in both
    places.  No memory token orders it: its source is written before the agents begin, its destination is read after
    they end.
    """

    def check_view(self: Any) -> None:
        if len(self.coords) != len(self.view.type.shape):
            raise VerifyError(f"expects {len(self.view.type.shape)} coordinates, but got {len(self.coords)}")


class BulkLoadOp(_BulkCopy, name="nv_tileas.async.bulk_load"):
    """Fills the acquired stage of one of the pipe's buffers with a tile from global memory."""

    traits = (MemoryRead, MemoryWrite, AttrSizedOperandSegments)
    view = operand(aa.TiledViewType)
    coords = variadic_operand(integer_like)
    token = operand(ProducerTokenType)
    buffer = attribute(_NUMBER, optional=True)
    assembly_format = (
        "$view `[` $coords `]` `into` $token (`buffer` `=` $buffer^)? attr-dict"
        " `:` type($view) `,` `(` type($coords) `)`"
    )

    def verify_op(self) -> None:
        self.check_view()


class TmaLoadOp(Operation, name="nv_tileas.async.tma_load", traits=(MemoryRead, MemoryWrite, AttrSizedOperandSegments)):
    """Fills the acquired stage of one of the pipe's buffers with a tile of the descriptor's view, box by box.

    The coordinates are tile indices, as in a tiled load; elements outside the memref get the view's padding, zeros
    without one.  One thread of the agent issues it.  No memory token orders it: its source is written before the kernel
    begins, or is fenced for the asynchronous proxy before the pipe is created.

    `multicast`: all CTAs of the pipe read the same tile.  Each copies its share of the boxes, and each box arrives at
    the same place in the shared memory of all CTAs.  With `together` this applies where the condition holds, under
    which each CTA has acquired the stage together with the others; otherwise each CTA copies the whole tile for itself.
    """

    desc = operand(TmaDescType)
    coords = variadic_operand(integer_like)
    token = operand(ProducerTokenType)
    together = optional_operand(bool_like)
    buffer = attribute(_NUMBER, optional=True)
    multicast = attribute(UnitAttr, optional=True)
    assembly_format = (
        "$desc `[` $coords `]` `into` $token (`buffer` `=` $buffer^)? (`if` $together^)? attr-dict"
        " `:` type($desc) `,` `(` type($coords) `)`"
    )

    def verify_op(self) -> None:
        if len(self.coords) != len(self.desc.type.view.shape):
            raise VerifyError(f"expects {len(self.desc.type.view.shape)} coordinates, but got {len(self.coords)}")
        if self.together is not None and self.multicast is None:
            raise VerifyError("says when it copies to all CTAs, and does not")


class BulkStoreOp(_BulkCopy, name="nv_tileas.async.bulk_store"):
    """Copies a tile from the stage that was waited for to global memory."""

    traits = (MemoryRead, MemoryWrite, AttrSizedOperandSegments)
    token = operand(ConsumerTokenType)
    view = operand(aa.TiledViewType)
    coords = variadic_operand(integer_like)
    buffer = attribute(_NUMBER, optional=True)
    assembly_format = (
        "$token (`buffer` `=` $buffer^)? `to` $view `[` $coords `]` attr-dict `:` type($view) `,` `(` type($coords) `)`"
    )

    def verify_op(self) -> None:
        self.check_view()


class TmaStoreStageOp(Operation, name=TMA_STORE_STAGE, traits=(MemoryRead, MemoryWrite, AttrSizedOperandSegments)):
    """Copies the tile in the stage that was waited for to global memory, in boxes of a descriptor.

    The coordinates are tile indices, as in a tiled store; elements outside the memref are not stored.  One thread of
    the agent issues it, after all of its earlier copies have reached memory: the stores of an agent take place in
    program order.  The stage is released only after the copy has read it.  No memory token orders it.
    """

    token = operand(ConsumerTokenType)
    desc = operand(TmaDescType)
    coords = variadic_operand(integer_like)
    buffer = attribute(_NUMBER, optional=True)
    assembly_format = (
        "$token (`buffer` `=` $buffer^)? `to` $desc `[` $coords `]` attr-dict `:` type($desc) `,` `(` type($coords) `)`"
    )

    def verify_op(self) -> None:
        if len(self.coords) != len(self.desc.type.view.shape):
            raise VerifyError(f"expects {len(self.desc.type.view.shape)} coordinates, but got {len(self.coords)}")
        if self.desc.type.rounds:
            raise VerifyError(f"expects elements of {self.desc.type.view.element_type}, which no store converts to")


STAGE_ATOMS: dict[type[Operation], str] = {
    StoreTensorOp: "st_shared", ProducerWriteOp: "st_shared", ProduceOneOp: "st_shared",
    AsyncTiledLoadOp: "cp_async", AsyncLoadOp: "cp_async", BulkLoadOp: "bulk_load", TmaLoadOp: "bulk_load",
    CopyOp: "ld_shared", ConsumerReadOp: "ld_shared", ConsumeOneOp: "ld_shared", BulkStoreOp: "bulk_store",
    TmaStoreStageOp: "bulk_store",
}  # fmt: skip
"""The producer or consumer kind by which each operation fills or drains the stage that it accesses."""

OnBuffer = ProducerWriteOp | ConsumerReadOp | BulkLoadOp | TmaLoadOp | BulkStoreOp | TmaStoreStageOp
"""Operations on a tile in a stage, which name one of the pipe's buffers."""

OnToken = (
    ProducerAcquireOp | ProducerCommitOp | ConsumerWaitOp | ConsumerReleaseOp | ProduceOneOp | ConsumeOneOp | OnBuffer
)
"""Operations on a stage of a pipe."""

StageAccess = StoreTensorOp | AsyncTiledLoadOp | AsyncLoadOp | CopyOp
"""Operations on buffers, of pipes or not, that name a stage by its number."""
