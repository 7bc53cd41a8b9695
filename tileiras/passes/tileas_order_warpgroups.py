"""`tileas-order-warpgroups`: chooses loops in which the warpgroups of an agent alternate on the tensor cores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import dialects, schedule
from tileiras.analysis.function_pass import FunctionPass

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class OrderWarpgroups(FunctionPass):
    name = "tileas-order-warpgroups"
    optional = True
    schedules = True
    requires = "SYNCHRONIZED"
    needs = "asynchronous dots and their waits; all barriers where they will be"
    establishes = "`async.wait_turn` and `async.end_turn` in agents of several warpgroups"
    keeps = "all other operations"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        switches = [op for op in func.walk() if isinstance(op, dialects.nv_tileas.agents.AgentSwitchOp)]
        if switches and gpu.has("wgmma"):
            for switch in switches:
                schedule.agents.rules.warpgroup_turns.order_warpgroups(func, switch, gpu, context.engine)
