"""`tileas-mark-short-loops`: marks loops with too few registers to keep parts of addresses and conditions beside their
tiles.

The attribute of the loop is `nv_tileas.short_of_registers`, which `tileas-rematerialize` consumes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import tileiras
from tileiras import resources
from tileiras.analysis.function_pass import FunctionPass
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.ir import UnitAttr

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class MarkShortLoops(FunctionPass):
    name = "tileas-mark-short-loops"
    optional = True
    schedules = True
    requires = "LAYOUTS"
    needs = "layouts and atoms"
    establishes = "`nv_tileas.short_of_registers` on loops"
    keeps = "operations"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        loops = [op for op in func.walk() if isinstance(op, scf.ForOp)]
        # Without asynchronous copies, loads take registers, which are counted only if the loads run ahead.
        if not loops or tileiras.targets.find_copy_atom(gpu, "global", "shared", asynchronous=True) is None:
            return
        for loop in resources.registers.short_loops(func):
            loop.attributes[tileas.SHORT_OF_REGISTERS] = UnitAttr()
