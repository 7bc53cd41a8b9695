"""`tileas-slice-dots`: dots whose operands need more registers than a thread has become loops over K; each iteration
multiplies a slice of each operand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import assignment, slicing
from tileiras.analysis.function_pass import FunctionPass, check_num_warps

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir import Operation
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class SliceDots(FunctionPass):
    name = "tileas-slice-dots"
    optional = True
    of_nv_tileaa = True
    needs = "a number of warps"
    establishes = "loops over K around dots with large operands"
    keeps = "values, the order of additions"

    warpgroups: bool = True

    def verify_input(self, op: Operation, context: PassContext) -> None:
        check_num_warps(self.name, op, context)

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        warps = func.kernel_spec.num_warps
        if slicing.sizes.has_large_operands(func, 32 * warps):
            plans = assignment.dot_plans.DotPlans(gpu, warps, func if self.warpgroups else None)
            slicing.dot_k_slices.slice_dots(func, warps, plans, context.engine)
