"""`cse`: replaces operations that compute the same value by the first of them.

    %0 = arith.addi %a, %b           %0 = arith.addi %a, %b
    %1 = arith.addi %a, %b     ->    (uses of %1 become %0)

Only operations without effects and without regions are merged, and only into one that dominates them: a nested region
can use values computed before it in its enclosing blocks, unless it is isolated.  Two loads are never merged: the value
of each depends on tokens and on other tile blocks.  The remaining operation has the locations of both, its own first.
"""

from __future__ import annotations

import functools
from operator import attrgetter

from tileiras.ir import Block, Convergent, FusedLoc, IsolatedFromAbove, NoMemoryEffect, Operation, Pass


class CommonSubexpressionElimination(Pass):
    name = "cse"
    optional = True
    adds_operations = False
    needs = "nothing"
    establishes = "no two operations without effects that compute the same in one scope"
    keeps = "everything else"

    def run(self, op: Operation, context: object) -> None:
        for region in op.regions:
            for block in region.blocks:
                # Blocks of one region may not dominate one another; each starts afresh.
                _merge(block, [{}])

_TYPE = attrgetter("type")


@functools.cache
def _computes(cls: type[Operation]) -> bool:
    """Whether one operation of a class can stand for another with the same operands."""
    return cls.has_trait(NoMemoryEffect) and not cls.has_trait(Convergent)


def _merge(block: Block, scopes: list[dict]) -> None:
    scope = scopes[-1]
    for op in block.operations:
        regions, results = op._regions, op._results
        for region in regions:
            outer = [{}] if op.has_trait(IsolatedFromAbove) else scopes
            for inner in region.blocks:
                _merge(inner, [*outer, {}])
        if regions or not results or not _computes(type(op)):
            continue
        attributes = op.attributes
        key = (
            type(op), op._operands, frozenset(attributes.items()) if attributes else None,
            results[0].type if len(results) == 1 else tuple(map(_TYPE, results)),
        )  # fmt: skip
        first = None
        for table in scopes:
            first = table.get(key)
            if first is not None:
                break
        if first is None:
            scope[key] = op
        else:
            if op.location is not first.location:
                first.location = FusedLoc.of(first.location, op.location)
            op.replace_all_uses_with(first.results)
            op.erase()
