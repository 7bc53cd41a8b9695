"""`tileas-order-warpgroups`: chooses loops in which the warpgroups of an agent alternate on the tensor cores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.passes import FunctionPass

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class OrderWarpgroups(FunctionPass):
    name = "tileas-order-warpgroups"
    requires = "SYNCHRONIZED"
    needs = "asynchronous dots and their waits; all barriers where they will be"
    establishes = "`async.wait_turn` and `async.end_turn` in agents of several warpgroups"
    keeps = "all other operations"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        from tileiras.dialects.nv_tileas.agents import AgentSwitchOp

        switches = [op for op in func.walk() if isinstance(op, AgentSwitchOp)]
        if switches and gpu.has("wgmma"):
            # Loaded for such kernels only.
            from tileiras.schedule.warpgroup_turns import order_warpgroups

            for switch in switches:
                order_warpgroups(func, switch, gpu, context.engine)
