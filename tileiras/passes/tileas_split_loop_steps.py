"""`tileas-split-loop-steps`: loops over K with dots take smaller steps if shared memory holds too few stages.

`strategy` may request a number of stages; `warpgroups` allows asynchronous dots, as in `tileas-assign-dot-layouts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import assignment, resources, slicing
from tileiras.analysis.function_pass import FunctionPass, check_num_warps
from tileiras.schedule.strategy import Strategy

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir import Operation
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class SplitLoopSteps(FunctionPass):
    name = "tileas-split-loop-steps"
    optional = True
    schedules = True
    of_nv_tileaa = True
    needs = "a number of warps"
    establishes = "loops of products whose stages fit into shared memory"
    keeps = "values, the order of additions"

    strategy: Strategy = Strategy()
    warpgroups: bool = True

    def verify_input(self, op: Operation, context: PassContext) -> None:
        check_num_warps(self.name, op, context)

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        wanted = self.strategy.stages or slicing.sizes.WANTED_STAGES
        budget = resources.shared_memory.shared_budget(func, gpu)
        if wanted > 1 and slicing.sizes.has_large_steps(func, budget // wanted):
            plans = assignment.dot_plans.DotPlans(gpu, func.kernel_spec.num_warps, func if self.warpgroups else None)
            slicing.loop_steps.split_loop_steps(func, plans, wanted, context.engine)
