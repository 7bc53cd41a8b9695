"""`tileas-pair-tile-blocks`: a second kernel for launches whose tile blocks, neighbours along x, multiply in pairs.

`tensor_maps` says who makes tensor maps: only a launcher that fills them reads which kernel it is to start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.passes import FunctionPass, functions_of, gpu_of

if TYPE_CHECKING:
    from tileiras.ir import Operation
    from tileiras.ir.pass_manager import PassContext


class PairTileBlocks(FunctionPass):
    name = "tileas-pair-tile-blocks"
    of_nv_tileaa = True
    needs = "`nv_tileaa` functions"
    establishes = "a kernel NAME$pairs beside each whose tile blocks may multiply in pairs"
    keeps = "everything else"

    tensor_maps: str = "none"

    def run(self, op: Operation, context: PassContext) -> None:
        if self.tensor_maps != "host" or not gpu_of(self.compute_capability).has("tcgen05"):
            return
        # Loaded for such kernels only.
        from tileiras.analysis.function_state import is_nv_tileas
        from tileiras.rewrites.tile_block_pairs import pair_tile_blocks

        for func in list(functions_of(op)):
            if func is not op and not is_nv_tileas(func):
                pair_tile_blocks(func, context.engine)
