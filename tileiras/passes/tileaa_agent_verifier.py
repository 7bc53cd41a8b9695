"""`tileaa-agent-verifier`: checks the consistency of the agents of warp-specialized kernels.

`tileiras/analysis/agents.py` has the rules.
"""

from __future__ import annotations

from tileiras import analysis
from tileiras.analysis.function_pass import gpu_of
from tileiras.diagnostics.remarks import Remark
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileas import names
from tileiras.ir import Operation, Pass
from tileiras.ir.pass_manager import PassContext
from tileiras.reasons import Reason


class AgentVerifier(Pass):
    name = "tileaa-agent-verifier"
    anchor = "builtin.module"
    needs = "`nv_tileas`"
    establishes = "that agents have warps and registers, pipes two ends, barriers all their threads"
    keeps = "the module"

    compute_capability: str = "sm_90"

    def run(self, op: Operation, context: PassContext) -> None:
        gpu = gpu_of(self.compute_capability)

        def unchecked(place: Operation, reason: Reason) -> None:
            context.engine.emit(Remark(reason, place.location))

        functions = [func for func in op.regions[0].operations if isinstance(func, aa.FuncOp)]
        if not any(inner.name.startswith(names.PIPELINE) for func in functions for inner in func.walk()):
            return
        for func in functions:
            for place, wrong in analysis.agents.agent_errors(func, gpu, unchecked):
                context.engine.op_error(place, wrong)
