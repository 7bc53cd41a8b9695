"""`tileas-cluster-tile-blocks`: marks kernels whose tile blocks share copies if a launch puts them in one cluster.

`tensor_maps` names the creator of tensor maps, and `strategy` may allow warp specialization: only TMA boxes can be
copied to several CTAs, and only agents wait for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import rewrites
from tileiras.analysis.function_pass import FunctionPass
from tileiras.schedule.strategy import Strategy

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class ClusterTileBlocks(FunctionPass):
    name = "tileas-cluster-tile-blocks"
    optional = True
    schedules = True
    of_nv_tileaa = True
    needs = "`nv_tileaa` functions"
    establishes = "how many neighbours along x may share copies"
    keeps = "everything else"

    tensor_maps: str = "none"
    strategy: Strategy = Strategy()

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        # The launcher that fills tensor maps reads NAME.json, which requests clusters.
        if not self.strategy.may_have_agents or self.tensor_maps != "host" or not gpu.has("wgmma"):
            return
        if any(op.name == "nv_tileaa.dot" for op in func.walk()):
            rewrites.tile_block_clusters.cluster_tile_blocks(func, context.engine)
