"""`tileas-join-mask-bounds`: merges comparisons of one number with two bounds into one, with the tighter bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import passes, rewrites
from tileiras.analysis.function_pass import FunctionPass
from tileiras.dialects.arith import AndIOp
from tileiras.ir import TensorType

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class JoinMaskBounds(FunctionPass):
    name = "tileas-join-mask-bounds"
    optional = True
    of_nv_tileaa = True
    needs = "`nv_tileaa` functions"
    establishes = "one comparison where a mask is of several with bounds of fewer elements than the mask"
    keeps = "values, other operations"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        if any(isinstance(op, AndIOp) and isinstance(op.result.type, TensorType) for op in func.walk()):
            if rewrites.mask_bounds.join_mask_bounds(func):
                passes.dce.remove_dead_operations(func)
