"""`convert-tileas-to-nvgpu`: operations of threads (nv_tileas.thread) become instructions of nvgpu.

`lowering/tileas_to_nvgpu` has the rules.
"""

from __future__ import annotations

from tileiras.analysis.function_pass import gpu_of
from tileiras.analysis.llvm_functions import llvm_functions, operations_of
from tileiras.dialects.nv_tileas.thread import ThreadOp
from tileiras.ir import Operation, Pass, VerifyError
from tileiras.ir.pass_manager import PassContext
from tileiras.lowering import tileas_to_nvgpu


class ConvertTileASToNVGPU(Pass):
    name = "convert-tileas-to-nvgpu"
    anchor = "builtin.module"
    needs = "functions of `llvm`, with `nv_tileas.thread`"
    establishes = "`llvm`, `nvgpu`, and arithmetic of threads; no operation of `nv_tileas`"
    keeps = "operands, effects, locations"
    introduces = ("nvgpu.",)

    compute_capability: str = "sm_90"

    def run(self, op: Operation, context: PassContext) -> None:
        target = gpu_of(self.compute_capability, "Failed to get ComputeCapability")
        for function in llvm_functions(op):
            for inner in operations_of(function):
                if isinstance(inner, ThreadOp):
                    try:
                        tileas_to_nvgpu.convert(inner, target)
                    except VerifyError as error:
                        context.engine.error(inner.location, f"'{inner.name}' op {error.message}")
