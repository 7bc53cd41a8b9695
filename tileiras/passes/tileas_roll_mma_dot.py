"""`tileas-roll-mma-dot`: dots of many matrix instructions become loops over K if both operands are in shared memory.

Each iteration reads the fragments of its slices of the operands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import resources, rewrites
from tileiras.analysis.function_pass import FunctionPass

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class RollMmaDot(FunctionPass):
    name = "tileas-roll-mma-dot"
    optional = True
    requires = "LAYOUTS"
    needs = "layouts and atoms; operands in the buffers in which they will be"
    establishes = "loops over K for dots of more matrix instructions than are written out"
    keeps = "values, the order of additions, buffers, other dots"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        large_dots = resources.large_dots
        if any(large_dots.is_large(op, gpu) and not large_dots.is_multiply_add(op) for op in func.walk()):
            rewrites.mma_dots.loop_mma_dots(func, gpu)
