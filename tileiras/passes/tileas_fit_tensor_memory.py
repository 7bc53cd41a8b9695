"""`tileas-fit-tensor-memory`: lowers the requested number of CTAs per SM if tensor memory holds the accumulators of
fewer.

`warpgroups` allows asynchronous dots, as in `tileas-assign-dot-layouts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import assignment
from tileiras.analysis.function_pass import FunctionPass

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class FitTensorMemory(FunctionPass):
    name = "tileas-fit-tensor-memory"
    optional = True
    of_nv_tileaa = True
    needs = "a number of warps"
    establishes = "an occupancy in `kernel_spec` that leaves a CTA the columns of its accumulators"
    keeps = "operations"

    warpgroups: bool = True

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        if self.warpgroups and (func.kernel_spec.occupancy or 1) > 1 and gpu.has("tcgen05"):
            assignment.tensor_columns.fit_tensor_memory(func, gpu, context.engine)
