"""Canonical forms of scf, which the `canonicalize` pass applies.

Front ends emit a loop over the tiles of a row even if one tile is the row: without the loop, its operations and those
after it are in one block, and its loads are in the loop around it.
"""

from __future__ import annotations

from tileiras.ir import PatternRewriter, RewritePattern

from .ops import ForOp


class InlineTrivialLoop(RewritePattern):
    """A loop that runs once is its body, one that never runs the values before it."""

    op = ForOp

    def match_and_rewrite(self, op: ForOp, rewriter: PatternRewriter) -> bool:
        trips = op.trip_count
        if trips == 0:
            rewriter.replace_op(op, op.init_args)
        elif trips == 1:
            block, end = op.body.block, op.yield_op
            for argument, value in zip(block.arguments, (op.lower_bound, *op.init_args)):
                rewriter.replace_all_uses(argument, value)
            rewriter.inline_block_before(block, op)
            rewriter.replace_op(op, end.operands)
            rewriter.erase_op(end)
        return trips in (0, 1)


PATTERNS = (InlineTrivialLoop,)
