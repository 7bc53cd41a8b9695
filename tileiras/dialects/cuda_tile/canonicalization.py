"""Canonical forms: the representative of equivalent forms that later passes expect.

The `canonicalize` pass applies `PATTERNS`, besides the operations' own folds.  Arithmetic on constants is not among
them, as it is not in the reference dialect: kernels keep the operations that they were written with.
"""

from __future__ import annotations

from tileiras.ir import IntegerType, PatternRewriter, RewritePattern, i1

from .canonicalization_if import IF_PATTERNS, invert
from .ops_arith_float import AddFOp, MulFOp
from .ops_bitwise import XOrIOp
from .ops_conversion import ExtIOp
from .ops_core import SelectOp, constant_bool, constant_element


class MultiplyFirst(RewritePattern):
    """`c + a * b` is `a * b + c`: products that are added stand on the left, where `fuse-fma` looks for them."""

    op = AddFOp

    def match_and_rewrite(self, op: AddFOp, rewriter: PatternRewriter) -> bool:
        if not isinstance(op.rhs.defining_op, MulFOp) or isinstance(op.lhs.defining_op, MulFOp):
            return False
        rewriter.set_operands(op, (op.rhs, op.lhs))
        return True


class SelectNot(RewritePattern):
    """`select(not p, a, b)` is `select(p, b, a)`."""

    op = SelectOp
    benefit = 2

    def match_and_rewrite(self, op: SelectOp, rewriter: PatternRewriter) -> bool:
        inverse = op.cond.defining_op
        if not isinstance(inverse, XOrIOp) or constant_bool(inverse.rhs) is not True:
            return False
        rewriter.set_operands(op, (inverse.lhs, op.val_if_false, op.val_if_true))
        return True


class SelectOfSelect(RewritePattern):
    """`select(p, select(p, a, b), c)` is `select(p, a, c)`, and the same on the other side."""

    op = SelectOp
    benefit = 2

    def match_and_rewrite(self, op: SelectOp, rewriter: PatternRewriter) -> bool:
        cond, first, second = op.operands
        for position, inner in ((1, first.defining_op), (2, second.defining_op)):
            if isinstance(inner, SelectOp) and inner.cond is cond:
                values = [cond, first, second]
                values[position] = inner.operands[position]
                rewriter.set_operands(op, values)
                return True
        return False


class SelectFalseTrue(RewritePattern):
    """`select(p, false, true)` is `not p`."""

    op = SelectOp

    def match_and_rewrite(self, op: SelectOp, rewriter: PatternRewriter) -> bool:
        if op.result.type.element_type is not i1:
            return False
        if constant_bool(op.val_if_true) is not False or constant_bool(op.val_if_false) is not True:
            return False
        rewriter.replace_op(op, XOrIOp(op.cond, op.val_if_false))
        return True


class SelectToExtI(RewritePattern):
    """`select(p, 1, 0)` of integers wider than a bit is `p` extended; `select(p, 0, 1)` is `not p` extended."""

    op = SelectOp

    def match_and_rewrite(self, op: SelectOp, rewriter: PatternRewriter) -> bool:
        type = op.result.type
        if not isinstance(type.element_type, IntegerType) or type.element_type is i1:
            return False
        values = constant_element(op.val_if_true), constant_element(op.val_if_false)
        if values not in ((1, 0), (0, 1)):
            return False
        cond = op.cond if values == (1, 0) else invert(op.cond, rewriter)
        rewriter.replace_op(op, ExtIOp(cond, signedness="unsigned", to=type))
        return True


PATTERNS = (MultiplyFirst, SelectNot, SelectOfSelect, SelectFalseTrue, SelectToExtI, *IF_PATTERNS)
