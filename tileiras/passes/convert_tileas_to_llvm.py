"""`convert-tileas-to-llvm`: what each thread does, in the llvm and nvvm dialects."""

from __future__ import annotations

from tileiras.ir import Operation, Pass
from tileiras.ir.pass_manager import PassContext
from tileiras.lowering.tileas_to_llvm import convert_tileas_to_llvm
from tileiras.passes import gpu_of


class ConvertTileASToLLVM(Pass):
    name = "convert-tileas-to-llvm"
    anchor = "builtin.module"
    needs = "what `tileir-verify-ops-analysis` has accepted"
    establishes = "`llvm` and `nvvm` only, kernels with their final parameters and launch attributes"
    keeps = "locations"

    compute_capability: str = "sm_90"
    ftz: bool = False
    approx: bool = False
    variables: bool = False
    """Keep what says which variables of the source values are."""

    def run(self, op: Operation, context: PassContext) -> None:
        gpu = gpu_of(self.compute_capability)
        convert_tileas_to_llvm(
            op, gpu, context.engine, flush_to_zero=self.ftz, approximate=self.approx, variables=self.variables
        )
