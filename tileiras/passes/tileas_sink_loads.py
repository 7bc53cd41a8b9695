"""`tileas-sink-loads`: sinks loads outside of loops to the first use of their tiles if, until then, the tiles need more
registers than a thread has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import resources, rewrites
from tileiras.analysis.function_pass import FunctionPass

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class SinkLoads(FunctionPass):
    name = "tileas-sink-loads"
    optional = True
    schedules = True
    requires = "LAYOUTS"
    adds_operations = False
    needs = "layouts and atoms"
    establishes = "loads where their tiles are used, in kernels without the registers to wait"
    keeps = "values, the order of loads and writes"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        if resources.loaded_tiles.loads_much(func):
            rewrites.sink_loads.sink_loads(func, context.engine)
        if resources.loaded_tiles.loads_for_slices(func):
            rewrites.sink_loads.sink_into_slices(func, context.engine)
