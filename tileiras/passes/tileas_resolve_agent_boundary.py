"""`tileas-resolve-agent-boundary`: assigns warps and registers to each agent, and layouts for its number of warps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import schedule
from tileiras.analysis.function_pass import FunctionPass
from tileiras.dialects.nv_tileas import names

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class ResolveAgentBoundary(FunctionPass):
    name = "tileas-resolve-agent-boundary"
    optional = True
    schedules = True
    requires = "SCHEDULED"
    needs = "agents with as many warps as the kernel has"
    establishes = "warps and registers of agents, layouts of what an agent of fewer warps does"
    keeps = "operations, other functions"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        switches = [op for op in func.body.blocks[0].operations if op.name == names.AGENT_SWITCH]
        if switches:
            for switch in switches:
                schedule.agents.budget.resolve_boundary(switch, func, gpu, context.engine)
