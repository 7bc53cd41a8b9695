"""`tileas-unspecialized-pipeline`: loops whose loads run ahead of the dots that consume them, all warps alike, as the
schedules of the loops say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.passes import FunctionPass

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class UnspecializedPipeline(FunctionPass):
    name = "tileas-unspecialized-pipeline"
    requires = "SCHEDULED"
    needs = "schedules"
    establishes = "buffers and asynchronous copies, or loop-carried tiles, for loads that run ahead"
    keeps = "values, token order, other loops"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        from tileiras.dialects import nv_tileas as tileas

        if any(tileas.RUNS_AHEAD in op.attributes for op in func.walk()):
            from tileiras.schedule.materialize.loops import materialize_loops

            materialize_loops(func, gpu, context.engine)
