"""`tileas-reuse-loads`: replaces loads of elements that the same thread has already loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import rewrites
from tileiras.analysis.function_pass import FunctionPass

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class ReuseLoads(FunctionPass):
    name = "tileas-reuse-loads"
    optional = True
    schedules = True
    requires = "LAYOUTS"
    needs = "layouts and atoms"
    establishes = "no load of what one before it has, and of tiles moved against others what no thread has"
    keeps = "values, layouts, the order of loads and writes"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        if sum(op.name in ("nv_tileas.load", "nv_tileas.tiled_load") for op in func.walk()) > 1:
            rewrites.reuse_loads.reuse_loads(func, context.engine)
