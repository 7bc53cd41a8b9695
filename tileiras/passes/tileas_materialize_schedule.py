"""`tileas-materialize-schedule`: creates agents and pipes for loops whose schedule leaves loads to another agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import schedule
from tileiras.analysis.function_pass import FunctionPass
from tileiras.dialects import nv_tileas as tileas

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class MaterializeSchedule(FunctionPass):
    name = "tileas-materialize-schedule"
    optional = True
    schedules = True
    requires = "SCHEDULED"
    needs = "schedules"
    establishes = "agents, and pipes between them, where a loop's loads go to an agent of their own"
    keeps = "values, token order, other functions"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        schedules = (op.attributes.get(tileas.LOOP_SCHEDULE) for op in func.walk())
        if any(each is not None and each.kind == tileas.WARP_SPECIALIZE for each in schedules):
            schedule.agents.load_agent.specialize(func, gpu, context.engine)
