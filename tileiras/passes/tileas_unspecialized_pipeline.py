"""`tileas-unspecialized-pipeline`: software-pipelines loops according to their schedules: loads run ahead of the dots
that consume them, in all warps alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tileiras
from tileiras.analysis.function_pass import FunctionPass
from tileiras.dialects import nv_tileas as tileas

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir import Operation
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class UnspecializedPipeline(FunctionPass):
    name = "tileas-unspecialized-pipeline"
    optional = True
    schedules = True
    requires = "SCHEDULED"
    needs = "schedules"
    establishes = "buffers and asynchronous copies, or loop-carried tiles, for loads that run ahead"
    keeps = "values, token order, other loops"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        if any(map(_is_to_change, func.walk())):
            # A dozen modules, for kernels with such loops only.
            tileiras.schedule.materialize.loops.materialize_loops(func, gpu, context.engine)


def _is_to_change(op: Operation) -> bool:
    """Whether an operation is a loop with a schedule other than serial, or a load that runs ahead."""
    schedule = op.attributes.get(tileas.LOOP_SCHEDULE)
    if schedule is None:
        return tileas.RUNS_AHEAD in op.attributes
    return isinstance(schedule, tileas.LoopScheduleAttr) and schedule.kind != tileas.SERIAL
