"""`tileas-lower-occupancy`: lowers the number of CTAs per SM that a kernel requests, if it leaves too few resources.

`resource` is the scarce one: `registers` of a thread for its tiles, or `shared-memory` of a CTA for two stages of the
loads that could run ahead.  Some loops use a single stage rather than lower the occupancy to one CTA, unless
`strategy` sets the number of stages or leaves the loads to an agent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import resources, schedule
from tileiras.analysis.function_pass import FunctionPass
from tileiras.diagnostics import CompileError, ExitCode
from tileiras.schedule.strategy import Loads, Strategy

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class LowerOccupancy(FunctionPass):
    name = "tileas-lower-occupancy"
    optional = True
    schedules = True
    requires = "LAYOUTS"
    adds_operations = False
    needs = "layouts and atoms"
    establishes = "an occupancy in `kernel_spec` that leaves a thread its registers, or a CTA its shared memory"
    keeps = "operations"

    resource: str = "registers"
    strategy: Strategy = Strategy()

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        if self.resource not in ("registers", "shared-memory"):
            message = f"pass '{self.name}': expected resource=registers or shared-memory, got '{self.resource}'"
            raise CompileError.at(None, message, ExitCode.CONFIGURATION)
        if (func.kernel_spec.occupancy or 1) == 1:
            return
        if self.resource == "registers":
            resources.lower_occupancy.lower_occupancy(func, gpu, context.engine)
        else:
            by_threads = self.strategy.loads is not Loads.AGENT and self.strategy.stages is None
            schedule.plain.stages_leave_room(func, gpu, context.engine, by_threads=by_threads)
