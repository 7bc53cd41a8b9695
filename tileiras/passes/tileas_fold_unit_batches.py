"""`tileas-fold-unit-batches`: batched dots with a batch size of one become dots of matrices, which every matrix
instruction supports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import rewrites
from tileiras.analysis.function_pass import FunctionPass
from tileiras.dialects.nv_tileaa import BlockScaledMmaOp, DotOp

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class FoldUnitBatches(FunctionPass):
    name = "tileas-fold-unit-batches"
    optional = True
    of_nv_tileaa = True
    needs = "`nv_tileaa` functions"
    establishes = "dots of batches of two or more, and of matrices"
    keeps = "values, other operations"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        if any(type(op) in (DotOp, BlockScaledMmaOp) and op.result.type.shape[:-2] == (1,) for op in func.walk()):
            rewrites.unit_batches.fold_unit_batches(func)
