"""`tileas-pair-tile-blocks`: a second kernel, for launches in which neighboring tile blocks along x pair their dots.

`tensor_maps` names the creator of tensor maps: only a launcher that fills them selects the kernel to launch.  On a
kernel without a second one the reason is recorded for `tileas-pair-dots`, which knows how its dots are executed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import analysis, rewrites
from tileiras.analysis.function_pass import FunctionPass, functions_of, gpu_of
from tileiras.dialects.nv_tileas import ALONE, PAIRS_OF
from tileiras.ir import StringAttr
from tileiras.reasons import Reason

if TYPE_CHECKING:
    from tileiras.ir import Operation
    from tileiras.ir.pass_manager import PassContext


class PairTileBlocks(FunctionPass):
    name = "tileas-pair-tile-blocks"
    optional = True
    schedules = True
    of_nv_tileaa = True
    needs = "`nv_tileaa` functions"
    establishes = "a kernel NAME$pairs beside each whose tile blocks may multiply in pairs, of others why they do not"
    keeps = "everything else"

    tensor_maps: str = "none"

    def run(self, op: Operation, context: PassContext) -> None:
        if not gpu_of(self.compute_capability).has("tcgen05"):
            return
        for func in list(functions_of(op)):
            if func is op or analysis.function_state.is_nv_tileas(func) or PAIRS_OF in func.attributes:
                continue
            if not rewrites.tile_block_pairs.dots_of(func):
                continue
            if (func.kernel_spec.num_ctas or 1) > 1:
                continue  # the CTAs of a tile block are the pair
            pair_tile_blocks = rewrites.tile_block_pairs.pair_tile_blocks
            reason = pair_tile_blocks(func) if self.tensor_maps == "host" else Reason("pairs.no-launcher")
            if reason is not None:
                func.attributes[ALONE] = StringAttr(reason.spelled())
