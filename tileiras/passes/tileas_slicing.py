"""`tileas-slicing`: tiles that do not fit into the registers of a block are processed slice by slice, in loops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.passes import FunctionPass, check_num_warps

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir import Operation
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class Slicing(FunctionPass):
    name = "tileas-slicing"
    of_nv_tileaa = True
    needs = "a number of warps"
    establishes = "loops over slices of tiles that take too many registers"
    keeps = "values, the order of writes"

    warpgroups: bool = True
    tensor_maps: str = "none"

    def verify_input(self, op: Operation, context: PassContext) -> None:
        check_num_warps(self.name, op, context)

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        from tileiras.slicing.sizes import has_large_tiles

        warps = func.kernel_spec.num_warps
        if has_large_tiles(func, 32 * warps):
            # Loaded for such kernels only.
            from tileiras.assignment.dot_plans import DotPlans
            from tileiras.slicing.tile_slices import slice_tiles

            plans = DotPlans(gpu, warps, func if self.warpgroups else None)
            slice_tiles(func, warps, plans, context.engine, in_boxes=self.tensor_maps == "host")
