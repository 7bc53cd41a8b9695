"""Canonical types of accesses, which the `canonicalize` pass applies.

    %v = block_tile %m : tiled_view<[128, 64], memref<?x?xi16>>     %v = block_tile %m : tiled_view<.., memref<..xbf16>>
    %x = tiled_load %v[..] -> tensor<128x64xi16>               ->   %y = tiled_load %v[..] -> tensor<128x64xbf16>
    %y = bitcast %x : tensor<128x64xi16> to tensor<128x64xbf16>

Array libraries without bf16 or f8 pass arrays of these as integers.  Operands of dots are copied to shared memory, and
results from there, only where they are loads and stores themselves.
"""

from __future__ import annotations

from typing import Any

from tileiras.dialects import arith
from tileiras.ir import PatternRewriter, RewritePattern, Type, Value, element_type_of

from .accesses import TiledLoadOp, TiledStoreOp
from .memory import BlockTileOp, MakeMemRefOp
from .tensor import BroadcastOp, PermuteOp, ViewOp
from .types import MemRefType, TiledViewType


class RetypeLoad(RewritePattern):
    """A load whose tile is used as one of another element type only has that type."""

    op = TiledLoadOp

    def match_and_rewrite(self, op: TiledLoadOp, rewriter: PatternRewriter) -> bool:
        users: list[Any] = list(op.data.users)
        types = {user.result.type for user in users if isinstance(user, arith.BitcastOp)}
        if len(types) != 1 or not all(isinstance(user, arith.BitcastOp) for user in users):
            return False
        if op.reduction is not None:
            return False  # sums of another type are other bits
        (type,) = types
        view = _with_elements(op.view, element_type_of(type), rewriter)
        if view is None:
            return False
        operands = [view if value is op.view else value for value in op.operands]
        load = rewriter.insert(TiledLoadOp.create(operands, (type, op.result_token.type), dict(op.attributes)))
        for user in users:
            rewriter.replace_op(user, load.data)
        rewriter.replace_all_uses(op.result_token, load.result_token)
        rewriter.erase_op(op)
        return True


class RetypeStore(RewritePattern):
    """A store of a tile of another element type has the type of that tile."""

    op = TiledStoreOp

    def match_and_rewrite(self, op: TiledStoreOp, rewriter: PatternRewriter) -> bool:
        cast = op.data.defining_op
        if not isinstance(cast, arith.BitcastOp):
            return False
        view = _with_elements(op.view, element_type_of(cast.operand.type), rewriter)
        if view is None:
            return False
        new = {op.data: cast.operand, op.view: view}
        rewriter.set_operands(op, [new.get(value, value) for value in op.operands])
        return True


class BitcastBeforeShape(RewritePattern):
    """The bits of a tile change their type before its shape changes, next to their load."""

    op = arith.BitcastOp

    def match_and_rewrite(self, op: arith.BitcastOp, rewriter: PatternRewriter) -> bool:
        shape: Any = op.operand.defining_op
        if not isinstance(shape, (ViewOp, PermuteOp, BroadcastOp)) or not shape.result.has_one_use:
            return False
        element = element_type_of(op.result.type)
        source = shape.operand
        if not hasattr(source.type, "with_element_type"):
            return False
        before = rewriter.insert(arith.BitcastOp(source, result=source.type.with_element_type(element))).result
        after = type(shape).create([before], [op.result.type], dict(shape.attributes), location=shape.location)
        rewriter.replace_op(op, after)
        return True


def _with_elements(view: Value, element: Type, rewriter: PatternRewriter) -> Value | None:
    """A view of the same memory as elements of another type of the same width; None for a view of unknown memory, of
    parts of bytes, or whose padding is other bits in that type."""
    tiled = view.defining_op
    memref: Any = tiled.source.defining_op if isinstance(tiled, BlockTileOp) else None
    if not isinstance(memref, MakeMemRefOp):
        return None
    kind, cut = memref.result.type, tiled.result.type
    width = getattr(element, "width", 0)
    if width % 8 or width != getattr(kind.element_type, "width", 0):
        return None
    if cut.padding is not None and cut.padding.value != "zero":
        return None
    of_elements = MemRefType(kind.shape, element, kind.strides, kind.address_space)
    source = rewriter.insert(
        MakeMemRefOp.create(memref.operands, [of_elements], dict(memref.attributes), location=memref.location), memref
    ).result
    cut = TiledViewType(cut.shape, of_elements, cut.dim_map, cut.padding, cut.traversal_strides, cut.sparse_dim)
    return rewriter.insert(BlockTileOp(source, result=cut, location=tiled.location), tiled).result
