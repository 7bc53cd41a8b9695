"""`tileas-ping-pong`: in kernels with agents, two computing agents process the tiles of a loop alternately, so that the
epilogue of one overlaps the dots of the other.

`nv_tile.aws.ping_pong` on such a loop requests it; with `strategy={loads=by-rule}` a rule decides for dots of
warpgroups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import schedule
from tileiras.analysis.function_pass import FunctionPass
from tileiras.dialects.nv_tileas import names
from tileiras.ir import remove_dead_operations
from tileiras.schedule.strategy import Strategy

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class PingPong(FunctionPass):
    name = "tileas-ping-pong"
    optional = True
    schedules = True
    requires = "SCHEDULED"
    needs = "agents with their warps; dots of warpgroups with their waits"
    establishes = "a second agent that computes, for every other tile, in loops over tiles"
    keeps = "values, other functions"

    strategy: Strategy = Strategy()

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        switches = [op for op in func.body.blocks[0].operations if op.name == names.AGENT_SWITCH]
        if len(switches) == 1:
            alternate_tiles = schedule.agents.alternate_agents.alternate_tiles
            if alternate_tiles(switches[0], func, gpu, self.strategy.is_by_rule, context.engine) is not None:
                remove_dead_operations(func)
