"""`tileas-assign-launch-bounds`: the warps of a CTA, the CTAs of a cluster, and the least number of CTAs per SM, which
limits the registers of a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import resources
from tileiras.analysis.function_pass import FunctionPass

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class AssignLaunchBounds(FunctionPass):
    name = "tileas-assign-launch-bounds"
    requires = "SYNCHRONIZED"
    leaves = "PLACED"
    needs = "all tiles and barriers where they will be; the bytes of shared memory"
    establishes = (
        "`nv_tileas.block_warps` and `nv_tileas.cluster_ctas` on functions, `nv_tileas.min_ctas` where shared memory "
        "bounds the CTAs of an SM, ptxas may come to fewer than a kernel asks for, or its tiles take more registers "
        "than two CTAs have"
    )
    keeps = "operations"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        resources.launch_bounds.assign_launch_shape(func, gpu, context.engine)
