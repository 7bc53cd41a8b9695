"""The rewrites of the table of peepholes (`targets.peepholes`), a file each, on operations of the llvm dialect.

A file has `rewrite(op, loops)`, which replaces an operation and returns True, or leaves the function unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tileiras.dialects import llvm
from tileiras.ir import Operation
from tileiras.targets.peepholes import Peephole

from . import invariant_address, narrow_comparison, predicated_count
from .loops import Loops

Rewrite = Callable[[Operation, Loops], bool]

REWRITES: Mapping[str, Rewrite] = {
    "invariant-address": invariant_address.rewrite,
    "narrow-comparison": narrow_comparison.rewrite,
    "predicated-count": predicated_count.rewrite,
}


def apply(rows: Iterable[Peephole], function: llvm.LLVMFuncOp) -> None:
    """Applies the rows to a function with loops; another one has no main loop to save instructions in."""
    loops = Loops(function.regions[0])
    if not loops:
        return
    rewrites: dict[str, list[Rewrite]] = {}
    for row in rows:
        for name in row.matches:
            rewrites.setdefault(name, []).append(REWRITES[row.name])
    for block in function.regions[0].blocks:
        for op in block.operations:
            for rewrite in rewrites.get(op.name, ()):
                if rewrite(op, loops):
                    break
