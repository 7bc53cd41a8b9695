"""`convert-tileas-to-llvm`: lowers tiles to the program of each thread: control flow, memory, and values as vectors.

Instructions of the machine are `nv_tileas.thread` operations for `convert-tileas-to-nvgpu` to choose.
"""

from __future__ import annotations

from tileiras.analysis.function_pass import check_state, functions_of, gpu_of
from tileiras.ir import Operation, Pass, i32
from tileiras.ir.pass_manager import PassContext
from tileiras.lowering.tileas_to_llvm import convert_tileas_to_llvm
from tileiras.targets import Target


class ConvertTileASToLLVM(Pass):
    name = "convert-tileas-to-llvm"
    anchor = "builtin.module"
    needs = "a module that `tileir-verify-ops-analysis` has accepted"
    establishes = (
        "functions of `llvm` with `arith`, `math`, `vector` and `memref` of threads, `nv_tileas.thread` and `nvvm`"
    )
    keeps = "locations"

    compute_capability: str = "sm_90"
    ftz: bool = False
    approx: bool = False
    index_bitwidth: int = 32
    """Bits of the offsets in addresses; 0 is a pointer's number."""
    variables: bool = False
    """Keep the debug operations that map values to variables of the source."""

    accepts = {"index_bitwidth": range(0, 65, 32)}

    def verify_input(self, op: Operation, context: PassContext) -> None:
        self._gpu()
        for func in functions_of(op):
            check_state(self.name, func, "PLACED", self.compute_capability, context)

    def _gpu(self) -> Target:
        return gpu_of(self.compute_capability, "Failed to get ComputeCapability")

    def run(self, op: Operation, context: PassContext) -> None:
        convert_tileas_to_llvm(
            op, self._gpu(), context.engine, flush_to_zero=self.ftz, approximate=self.approx, variables=self.variables,
            wide_indices=self.index_bitwidth != i32.width,
        )
