"""`tileas-legalize-scaled-dot`: converts the operands of block-scaled dots that the target has no instruction for to
types that are multiplied one scale block at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import rewrites
from tileiras.analysis.function_pass import FunctionPass
from tileiras.dialects.nv_tileaa import BlockScaledMmaOp

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class LegalizeScaledDot(FunctionPass):
    name = "tileas-legalize-scaled-dot"
    of_nv_tileaa = True
    needs = "`nv_tileaa` functions"
    establishes = "block-scaled dots whose operands the target multiplies"
    keeps = "values, other operations"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        if any(type(op) is BlockScaledMmaOp for op in func.walk()):
            rewrites.scaled_dot.legalize_scaled_dots(func, gpu)
