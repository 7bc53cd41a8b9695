"""`tileas-pair-dots`: dots into tensor memory become dots of two CTAs of a cluster, where each CTA loads half of B.

`tensor_maps` names the creator of tensor maps: without maps, no dot is paired.  Unless `strategy` allows warp
specialization, dots in loops over tiles stay dots of one CTA.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import assignment
from tileiras.analysis.function_pass import FunctionPass, functions_of, gpu_of
from tileiras.diagnostics import CompileError
from tileiras.dialects.nv_tileas import ALONE, PAIRS_OF
from tileiras.reasons import Reason
from tileiras.schedule.strategy import Strategy

if TYPE_CHECKING:
    from tileiras.ir import Operation
    from tileiras.ir.pass_manager import PassContext


class PairDots(FunctionPass):
    name = "tileas-pair-dots"
    optional = True
    schedules = True
    requires = "DOT_ATOMS"
    needs = "an atom for every dot, work that `tileas-plan-cta` has divided among the CTAs of a cluster"
    establishes = "dots of pairs of CTAs, where all into tensor memory can be, and loads of half of their B"
    keeps = "other operations; of kernels that are launched for such dots only those that have them"

    tensor_maps: str = "none"
    strategy: Strategy = Strategy()

    def run(self, op: Operation, context: PassContext) -> None:
        gpu = gpu_of(self.compute_capability)
        if not gpu.has("tcgen05"):
            return
        for func in list(functions_of(op)):
            by_choice, alone = PAIRS_OF in func.attributes, func.attributes.pop(ALONE, None)
            if alone is not None and context.engine.remarks:
                try:
                    reason = Reason.parse(getattr(alone, "value", ""))
                except ValueError as error:  # text that was written by hand
                    raise CompileError.at(func.location, f"'{ALONE}' is no code with arguments: {error}") from None
                assignment.cta_pairs.say_alone(func, reason, context.engine)
            if not by_choice and (func.kernel_spec.num_ctas or 1) == 1:
                continue
            agents = self.strategy.may_have_agents
            if not assignment.cta_pairs.pair_dots(func, gpu, context.engine, self.tensor_maps, agents) and by_choice:
                func.erase()
