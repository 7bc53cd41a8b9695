"""`tileas-round-in-boxes`: TMA rounds f32 to tf32 in loads of dot operands through tensor maps.

`tensor_maps` names the creator of tensor maps: without maps, threads round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import schedule
from tileiras.analysis.function_pass import FunctionPass
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import element_type_of, tf32

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class RoundInBoxes(FunctionPass):
    name = "tileas-round-in-boxes"
    optional = True
    schedules = True
    requires = "NO_LAYOUTS"
    needs = "`nv_tileas` operations"
    establishes = "loads of tf32 from views of f32, where boxes of tensor maps will round what they bring for dots"
    keeps = "values, token order, other operations"

    tensor_maps: str = "none"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        by_host = self.tensor_maps == "host"
        if not gpu.has("tma") or self.tensor_maps == "none" or not (by_host or gpu.has("tensormap_replace")):
            return
        if any(isinstance(op, tileas.FpToFpOp) and element_type_of(op.result.type) is tf32 for op in func.walk()):
            schedule.rounded_loads.round_in_boxes(func, by_host)
