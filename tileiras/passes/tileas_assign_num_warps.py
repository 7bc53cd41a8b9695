"""`tileas-assign-num-warps`: the number of warps of a tile block, from the option or the kernel, else from its tiles
and dots.

With `strategy={loads=by-rule}`, in kernels to which a rule gives agents that load boxes through tensor maps, loops over
tiles may have two computing agents (`tileas-ping-pong`), each with as many warps as a single one would have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import assignment
from tileiras.analysis.function_pass import FunctionPass
from tileiras.schedule.strategy import Strategy

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class AssignNumWarps(FunctionPass):
    name = "tileas-assign-num-warps"
    of_nv_tileaa = True
    adds_operations = False
    needs = "whole tiles: functions that are not sliced yet"
    establishes = "`num_warps` in `kernel_spec`"
    keeps = "operations"

    num_warps: int = 0
    tensor_maps: str = "none"
    strategy: Strategy = Strategy()

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        in_turn = self.strategy.is_by_rule and self.tensor_maps == "host"
        assignment.num_warps.assign_num_warps(func, self.num_warps, gpu, context.engine, in_turn)
