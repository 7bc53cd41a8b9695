"""`tileas-specialize-mma`: an agent of its own issues dots into tensor memory, in kernels with agents that have such
dots in loops over tiles, or in loops in which threads compute between the dots."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.analysis.function_pass import FunctionPass
from tileiras.dialects.nv_tileas import names
from tileiras.ir import remove_dead_operations
from tileiras.reasons import Reason
from tileiras.schedule import agents

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class SpecializeMma(FunctionPass):
    name = "tileas-specialize-mma"
    optional = True
    schedules = True
    requires = "ASYNCHRONOUS"
    needs = "agents with their warps; dots into tensor memory with buffers, groups and waits"
    establishes = (
        "an agent that multiplies for the next tile while the last accumulator is stored, or for the next iteration"
        " while threads compute"
    )
    keeps = "values, other functions"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        switches = [op for op in func.body.blocks[0].operations if op.name == names.AGENT_SWITCH]
        if len(switches) == 1 and any(op.name == names.TENSOR_DOT for op in switches[0].walk()):
            rules = agents.chained_agent.chained_dot_agent, agents.rules.dot.dot_agent
            if agents.further.add_agent(switches[0], func, gpu, rules, _stay, context.engine):
                remove_dead_operations(func)


def _stay(cause: Reason) -> Reason:
    return Reason("agents.dots-stay", cause=cause)
