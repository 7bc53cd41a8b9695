"""`canonicalize`: folds, the dialects' own canonicalization patterns, and removal of dead operations.

    %0 = arith.addi %a, %zero        ->   (uses of %0 become %a)

A dialect's patterns are the tuple `PATTERNS` of RewritePattern classes in its `canonicalization.py`.  Equal constants
are merged at the start of the function, unless `unique-constants` is false.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from typing import Iterable

from tileiras.ir import Operation, Pass, RewritePattern, apply_patterns_greedily


class Canonicalize(Pass):
    name = "canonicalize"
    needs = "nothing"
    establishes = "no operation that folds, no dead one, one constant of each value"
    keeps = "dialects, values, effects in their order"

    unique_constants: bool = True

    def run(self, op: Operation, context: object) -> None:
        patterns = dialect_patterns(dict.fromkeys(inner.dialect for inner in op.walk()))
        apply_patterns_greedily(op, [pattern() for pattern in patterns], unique_constants=self.unique_constants)


def dialect_patterns(dialects: Iterable[str]) -> list[type[RewritePattern]]:
    """The canonicalization patterns of the dialects with these names; a dialect may have no patterns."""
    return [pattern for dialect in dialects for pattern in _patterns_of(dialect)]


@functools.cache  # the search for a module accesses the file system
def _patterns_of(dialect: str) -> tuple[type[RewritePattern], ...]:
    package = f"tileiras.dialects.{dialect}"
    if importlib.util.find_spec(package) is None:
        return ()  # unregistered
    if importlib.util.find_spec(f"{package}.canonicalization") is None:
        return ()
    return tuple(importlib.import_module(f"{package}.canonicalization").PATTERNS)
