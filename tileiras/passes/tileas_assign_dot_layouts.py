"""`tileas-assign-dot-layouts`: assigns an atom to every dot, and the layouts that it requires to its operands.

`warpgroups` allows asynchronous dots of warpgroups (wgmma).  Their accumulators must not move between registers, as
they do in code that LLVM does not optimize.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import assignment, rewrites
from tileiras.analysis.function_pass import FunctionPass
from tileiras.dialects import nv_tileas as tileas

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class AssignDotLayouts(FunctionPass):
    name = "tileas-assign-dot-layouts"
    requires = "NO_LAYOUTS"
    leaves = "DOT_ATOMS"
    needs = "`nv_tileas` operations and a number of warps"
    establishes = "`atom` and `operand_layouts` on every dot"
    keeps = "types, other operations but loads of elements of four bits, of which pairs are loaded"

    warpgroups: bool = True

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        dots = [op for op in func.walk() if isinstance(op, tileas.DOTS) and op.atom is None]
        if dots:
            assignment.dots.assign_dot_layouts(dots, func, gpu, context.engine, self.warpgroups)
        if any(isinstance(op, tileas.BlockScaledMmaOp) for op in dots):
            rewrites.packed_operands.pack_operands(func)
