"""`tileas-rematerialize`: in loops short of registers, marks operations that recompute loop-invariant values in every
iteration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import rewrites
from tileiras.analysis.function_pass import FunctionPass
from tileiras.dialects import nv_tileas as tileas

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class Rematerialize(FunctionPass):
    name = "tileas-rematerialize"
    optional = True
    schedules = True
    requires = "ALLOCATED"
    needs = "loops that `tileas-mark-short-loops` has marked; operations and scratch areas as they will be"
    establishes = "`nv_tileas.rematerialize` on operations, `nv_tileas.rematerialize_behind` on the loops"
    keeps = "operations"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        if any(tileas.SHORT_OF_REGISTERS in op.attributes for op in func.walk()):
            rewrites.rematerialize.rematerialize(func)
