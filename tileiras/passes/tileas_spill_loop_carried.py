"""`tileas-spill-loop-carried`: spills small loop-carried tiles to shared memory during the dots of a loop whose tiles
need more registers than a thread has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import rewrites
from tileiras.analysis.function_pass import FunctionPass
from tileiras.dialects import nv_tileas as tileas

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class SpillLoopCarried(FunctionPass):
    name = "tileas-spill-loop-carried"
    optional = True
    schedules = True
    requires = "SCHEDULED"
    needs = "schedules, and buffers for what runs ahead: only what they leave is used"
    establishes = "loop-carried tiles in buffers of shared memory, in loops marked short of registers"
    keeps = "values, token order"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        if any(tileas.SHORT_OF_REGISTERS in op.attributes for op in func.walk()):
            rewrites.spill_loop_carried.spill_loop_carried(func, gpu, context.engine)
