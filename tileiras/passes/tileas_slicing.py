"""`tileas-slicing`: tiles that do not fit into the registers of a block are processed slice by slice, in loops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import assignment, slicing
from tileiras.analysis.function_pass import FunctionPass, check_num_warps

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir import Operation
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class Slicing(FunctionPass):
    name = "tileas-slicing"
    optional = True
    of_nv_tileaa = True
    needs = "a number of warps"
    establishes = "loops over slices of tiles that take too many registers"
    keeps = "values, the order of writes"

    warpgroups: bool = True
    tensor_maps: str = "none"

    def verify_input(self, op: Operation, context: PassContext) -> None:
        check_num_warps(self.name, op, context)

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        warps = func.kernel_spec.num_warps
        if slicing.sizes.has_large_tiles(func, 32 * warps):
            plans = assignment.dot_plans.DotPlans(gpu, warps, func if self.warpgroups else None)
            slicing.tile_slices.slice_tiles(func, warps, plans, context.engine, in_boxes=self.tensor_maps == "host")
