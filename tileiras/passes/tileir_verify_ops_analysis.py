"""`tileir-verify-ops-analysis`: rules that the verifier of a single operation cannot check, before tiles are lowered.

`tileiras/analysis/ops.py` has the rules.
"""

from __future__ import annotations

from tileiras.analysis.function_pass import gpu_of
from tileiras.analysis.module_attributes import module_chip
from tileiras.analysis.ops import ops_errors
from tileiras.diagnostics.remarks import Remark
from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import Operation, Pass
from tileiras.ir.pass_manager import PassContext
from tileiras.reasons import Reason


class VerifyOpsAnalysis(Pass):
    name = "tileir-verify-ops-analysis"
    anchor = "builtin.module"
    needs = "`nv_tileas`"
    establishes = (
        "that functions are for the GPU, layouts have their warps, atoms are the target's and fit, and fences, "
        "barriers and waits stand between threads and the asynchronous proxy"
    )
    keeps = "the module"
    introduces = ()

    compute_capability: str = "sm_90"

    def run(self, op: Operation, context: PassContext) -> None:
        gpu = gpu_of(self.compute_capability)

        def unchecked(place: Operation, reason: Reason) -> None:
            context.engine.emit(Remark(reason, place.location))

        functions = [func for func in op.regions[0].operations if isinstance(func, aa.FuncOp)]
        chip = module_chip(op)
        # A function reports it with a better location.
        if chip not in ("", gpu.name) and all(func.target_spec.value == gpu.name for func in functions):
            context.engine.error(op.location, f"module is for {chip}, the compilation for {gpu.name}")
        for func in functions:
            for place, wrong in ops_errors(func, gpu, unchecked):
                context.engine.op_error(place, wrong)
