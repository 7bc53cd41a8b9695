"""`fuse-fma`: a multiplication that is only added to or subtracted from becomes one fused operation.

    %0 = mulf %a, %b            ->   %1 = fma %a, %b, %c
    %1 = addf %0, %c

    %1 = subf %0, %c            ->   %n = negf %c
                                     %1 = fma %a, %b, %n

The sum is rounded once, not twice, so results change.  Both operations have to round in the same way and treat
subnormals alike.
"""

from __future__ import annotations

from tileiras.dialects.cuda_tile import AddFOp, FmaOp, MulFOp, NegFOp, SubFOp
from tileiras.dialects.cuda_tile.canonicalization import MultiplyFirst
from tileiras.ir import Operation, Pass, PatternRewriter, RewritePattern, Value, apply_patterns_greedily


class MultiplyAdd(RewritePattern):
    op = AddFOp

    def match_and_rewrite(self, op: AddFOp, rewriter: PatternRewriter) -> bool:
        product = _product(op, rewriter)
        if product is None:
            return False
        _fuse(op, product, op.rhs, rewriter)
        return True


class MultiplySubtract(RewritePattern):
    op = SubFOp

    def match_and_rewrite(self, op: SubFOp, rewriter: PatternRewriter) -> bool:
        product = _product(op, rewriter)
        if product is None:
            return False
        _fuse(op, product, rewriter.insert(NegFOp(op.rhs)).result, rewriter)
        return True


def _product(op: AddFOp | SubFOp, rewriter: PatternRewriter) -> MulFOp | None:
    """The multiplication on the left of a sum or difference that can become part of it."""
    product = op.lhs.defining_op
    if not isinstance(product, MulFOp) or not product.result.has_one_use:
        rewriter.notify_match_failure(op, "no mulf op with one use")
        return None
    if product.rounding_mode is not op.rounding_mode or product.flush_to_zero is not op.flush_to_zero:
        rewriter.notify_match_failure(op, "rounding modes and modifiers are not the same")
        return None
    return product


def _fuse(op: AddFOp | SubFOp, product: MulFOp, addend: Value, rewriter: PatternRewriter) -> None:
    fused = FmaOp(
        product.lhs,
        product.rhs,
        addend,
        rounding_mode=op.rounding_mode,
        flush_to_zero=op.flush_to_zero,
        location=op.location,
    )
    rewriter.replace_op(op, fused)
    rewriter.erase_op(product)


class FuseFMA(Pass):
    name = "fuse-fma"
    needs = "`cuda_tile`"
    establishes = "multiply-adds where a product has one user"
    keeps = "control flow, effects; not rounding"

    def run(self, op: Operation, context: object) -> None:
        apply_patterns_greedily(op, [MultiplyFirst(), MultiplyAdd(), MultiplySubtract()], unique_constants=True)
