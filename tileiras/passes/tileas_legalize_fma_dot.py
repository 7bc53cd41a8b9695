"""`tileas-legalize-fma-dot`: large products become loops over K.

Each iteration reads slices of the factors from shared memory.  For multiply-adds, factors that are in registers are
stored there first, and a product whose factors find no room stays as it is, with a remark.
"""

from __future__ import annotations

from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import Operation, Pass
from tileiras.ir.pass_manager import PassContext
from tileiras.passes import gpu_of
from tileiras.passes.tileir_verify_ops_analysis import VerifyOpsAnalysis
from tileiras.schedule.large_products import is_large


class LegalizeFmaDot(Pass):
    name = "tileas-legalize-fma-dot"
    anchor = "builtin.module"
    needs = "layouts and atoms; loads that run ahead are in buffers already"
    establishes = "loops over K for large products, as far as shared memory goes"
    keeps = "values, the order of additions, other products"

    compute_capability: str = "sm_90"

    def verify_input(self, op: Operation, context: PassContext) -> None:
        VerifyOpsAnalysis(compute_capability=self.compute_capability).run(op, context)

    def run(self, op: Operation, context: PassContext) -> None:
        target = gpu_of(self.compute_capability)
        for func in [inner for inner in op.walk() if isinstance(inner, aa.FuncOp)]:
            if any(is_large(inner, target) for inner in func.walk()):
                # Loaded for such kernels only.
                from tileiras.schedule.product_loops import loop_products

                loop_products(func, target, context.engine)
