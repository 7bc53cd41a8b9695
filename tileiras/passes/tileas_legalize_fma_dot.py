"""`tileas-legalize-fma-dot`: large dots without a matrix instruction become loops over K.

Each iteration reads slices of the operands from shared memory.  Operands that are in registers are stored there first,
and a dot whose operands do not fit into shared memory is left unchanged, with a remark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import resources, rewrites
from tileiras.analysis.function_pass import FunctionPass

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class LegalizeFmaDot(FunctionPass):
    name = "tileas-legalize-fma-dot"
    optional = True
    requires = "LAYOUTS"
    needs = "layouts and atoms; loads that run ahead are in buffers already"
    establishes = "loops over K for large dots by multiply-adds, as far as shared memory goes"
    keeps = "values, the order of additions, other dots"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        large_dots = resources.large_dots
        if any(large_dots.is_large(op, gpu) and large_dots.is_multiply_add(op) for op in func.walk()):
            rewrites.fma_dots.loop_fma_dots(func, gpu, context.engine)
