"""The rewrites of the table of peepholes (`targets.peepholes`), a file each, on operations of the llvm dialect.

A file has `rewrite(op, loops)`, which replaces an operation and returns True, or leaves the function unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import prod

from tileiras.dialects import llvm
from tileiras.ir import DenseArrayAttr, IntegerAttr, Operation
from tileiras.targets import registers_per_thread
from tileiras.targets.peepholes import Peephole
from tileiras.targets.sm import REGISTERS_PER_THREAD

from . import invariant_address, narrow_comparison, predicated_count
from .loops import Loops

Rewrite = Callable[[Operation, Loops], bool]

REWRITES: Mapping[str, Rewrite] = {
    "invariant-address": invariant_address.rewrite,
    "narrow-comparison": narrow_comparison.rewrite,
    "predicated-count": predicated_count.rewrite,
}


def apply(rows: Iterable[Peephole], function: llvm.LLVMFuncOp) -> None:
    """Apply the rows to a function with loops; another one has no main loop to save instructions in."""
    loops = Loops(function.regions[0])
    if not loops:
        return
    by_operation: dict[str, list[Peephole]] = {}
    for row in rows:
        for name in row.matches:
            by_operation.setdefault(name, []).append(row)
    registers = _registers(function)
    for block in function.regions[0].blocks:
        for op in block.operations:
            for row in by_operation.get(op.name, ()):
                if loops.registers(op, registers) > row.registers and REWRITES[row.name](op, loops):
                    break


def _registers(function: llvm.LLVMFuncOp) -> int:
    """Registers of a thread for the CTAs that an SM is to hold; all where nothing is said."""
    size, ctas = (function.attributes.get(name) for name in ("nvvm.reqntid", "nvvm.minctasm"))
    if not isinstance(size, DenseArrayAttr) or not isinstance(ctas, IntegerAttr):
        return REGISTERS_PER_THREAD
    return registers_per_thread(prod(size.elements), ctas.value)
