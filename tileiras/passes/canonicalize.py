"""`canonicalize`: folds, the operations' own canonicalisation patterns, and removal of dead operations.

    %0 = arith.addi %a, %zero        ->   (uses of %0 become %a)

An operation class contributes patterns by an attribute `canonicalization_patterns`, a tuple of RewritePattern classes.
"""

from __future__ import annotations

from tileiras.ir import Operation, Pass, apply_patterns_greedily


class Canonicalize(Pass):
    name = "canonicalize"

    def run(self, op: Operation, context: object) -> None:
        classes = dict.fromkeys(type(inner) for inner in op.walk())
        patterns = [p for cls in classes for p in getattr(cls, "canonicalization_patterns", ())]
        apply_patterns_greedily(op, [pattern() for pattern in dict.fromkeys(patterns)])
