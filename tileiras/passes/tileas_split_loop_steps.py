"""`tileas-split-loop-steps`: loops over K with dots take smaller steps if shared memory holds too few stages.

`strategy` may request a number of stages; `warpgroups` allows asynchronous dots, as in `tileas-assign-dot-layouts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.passes import FunctionPass, check_num_warps
from tileiras.schedule.strategy import Strategy

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir import Operation
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class SplitLoopSteps(FunctionPass):
    name = "tileas-split-loop-steps"
    of_nv_tileaa = True
    needs = "a number of warps"
    establishes = "loops of products whose stages fit into shared memory"
    keeps = "values, the order of additions"

    strategy: Strategy = Strategy()
    warpgroups: bool = True

    def verify_input(self, op: Operation, context: PassContext) -> None:
        check_num_warps(self.name, op, context)

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        from tileiras.resources.shared_memory import shared_budget
        from tileiras.slicing.sizes import WANTED_STAGES, has_large_steps

        wanted = self.strategy.stages or WANTED_STAGES
        if wanted > 1 and has_large_steps(func, shared_budget(func, gpu) // wanted):
            # Loaded for such kernels only.
            from tileiras.assignment.dot_plans import DotPlans
            from tileiras.slicing.loop_steps import split_loop_steps

            plans = DotPlans(gpu, func.kernel_spec.num_warps, func if self.warpgroups else None)
            split_loop_steps(func, plans, wanted, context.engine)
