"""Tile blocks that load the same tiles share their copies if a launch puts them in one cluster.

In a matrix multiplication each row of the grid reads the same columns of B, and the blocks of queries of one head of
attention the same keys and values.  Where two of them, neighbours along x, are a cluster, each copies half of such a
tile, and the boxes come to both: L2 delivers it once instead of twice.

A tile block stays one CTA, and the launcher decides: the code tests at run time whether there is such a cluster, and
copies for itself otherwise, as for a grid that is no multiple of it.  NAME.json requests the cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.analysis.cluster_uniformity import ClusterUniformity, pays
from tileiras.analysis.function_pass import FunctionPass
from tileiras.diagnostics import DiagnosticEngine
from tileiras.diagnostics.remarks import Remark
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import scf
from tileiras.dialects.nv_tileas import CLUSTER_BLOCKS
from tileiras.ir import IntegerAttr, i32
from tileiras.reasons import Reason
from tileiras.schedule.strategy import Strategy

from .order import may_hand_on

if TYPE_CHECKING:
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target

BLOCKS = 2
"""Tile blocks of a cluster."""

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
            cluster_tile_blocks(func, context.engine)


def cluster_tile_blocks(func: aa.FuncOp, engine: DiagnosticEngine) -> None:
    """Mark a function of nv_tileaa, in place, with the number of its tile blocks that may form a cluster, if loads of
    loops of dots bring the same tiles to neighbours along x.

    Tile blocks that may wait for each other by other means stay apart: one of a cluster that waits for a lock would
    keep the other one, which may hold it, from its tiles.  So do those whose loops have several dots and whose SM
    has one of them: there iterations overlap instead (`schedule/agents/load_stages.py`), which agents of a cluster's
    CTAs do not.  Decoding with tiles of 64x128 takes 11.5 us on H200 by the model, and 12.8 where it could share
    copies.
    """
    if (func.kernel_spec.num_ctas or 1) > 1 or any(map(may_hand_on, func.walk())):
        return
    if not any(isinstance(op, aa.GetProgramIdOp) and op.axis.value == "x" for op in func.walk()):
        return
    func.attributes[CLUSTER_BLOCKS] = IntegerAttr(BLOCKS, i32)
    values = ClusterUniformity(func)
    alone = (func.kernel_spec.occupancy or 1) == 1
    if any(_is_shared(load, values, alone) for load in func.walk() if isinstance(load, aa.TiledLoadOp)):
        engine.emit(Remark(Reason("kernel.blocks-share", blocks=BLOCKS), func.location))
    else:
        del func.attributes[CLUSTER_BLOCKS]


def _is_shared(load: aa.TiledLoadOp, values: ClusterUniformity, alone: bool) -> bool:
    """Whether a load of a loop of dots is the same for all tile blocks of a cluster; `alone`: an SM may have one of
    these, so that dots of a loop that depend on each other overlap those of the next round."""
    loop = load.parent_op
    if not pays(load):
        return False
    if not isinstance(loop, scf.ForOp):
        return False
    dots = sum(isinstance(op, aa.DotOp) for op in loop.body.block.operations)
    if not dots or alone and dots > 1:
        return False
    return values.is_shared(load)

