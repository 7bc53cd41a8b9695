"""`tileas-slice-batches`: turns batched dots into loops over matrices if wgmma or tcgen05.mma multiplies these."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import slicing
from tileiras.analysis.function_pass import FunctionPass
from tileiras.dialects.nv_tileaa import BlockScaledMmaOp, DotOp

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class SliceBatches(FunctionPass):
    name = "tileas-slice-batches"
    optional = True
    of_nv_tileaa = True
    needs = "`nv_tileaa` functions"
    establishes = "loops over matrices in the place of batches whose matrices wgmma or tcgen05.mma multiplies"
    keeps = "values, the order of writes"

    warpgroups: bool = True

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        if not self.warpgroups or not gpu.has("wgmma") and not gpu.has("tcgen05"):
            return
        ranks = (op.result.type.shape[:-2] for op in func.walk() if type(op) in (DotOp, BlockScaledMmaOp))
        if any(batch and batch != (1,) for batch in ranks):
            slicing.batches.slice_batches(func, gpu, context.engine)
