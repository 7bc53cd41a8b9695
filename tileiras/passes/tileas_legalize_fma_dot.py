"""`tileas-legalize-fma-dot`: large products that multiply-adds compute become loops over K.

Each iteration reads slices of the factors from shared memory; factors that are in registers are stored there first.  A
product whose factors find no room stays as it is, with a remark.
"""

from __future__ import annotations

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import Operation, Pass
from tileiras.ir.pass_manager import PassContext
from tileiras.passes import gpu_of
from tileiras.passes.tileir_verify_ops_analysis import VerifyOpsAnalysis
from tileiras.targets import UNIVERSAL_FMA


class LegalizeFmaDot(Pass):
    name = "tileas-legalize-fma-dot"
    anchor = "builtin.module"
    needs = "layouts and atoms; loads that run ahead are in buffers already"
    establishes = "loops over K for large products without an instruction, as far as shared memory goes"
    keeps = "values, the order of additions, other products"

    compute_capability: str = "sm_90"

    def verify_input(self, op: Operation, context: PassContext) -> None:
        VerifyOpsAnalysis(compute_capability=self.compute_capability).run(op, context)

    def run(self, op: Operation, context: PassContext) -> None:
        for func in [inner for inner in op.walk() if isinstance(inner, aa.FuncOp)]:
            if any(isinstance(inner, tileas.DotOp) and inner.atom.atom == UNIVERSAL_FMA for inner in func.walk()):
                # Loaded for such kernels only.
                from tileiras.schedule.multiply_add_loops import loop_products

                loop_products(func, gpu_of(self.compute_capability), context.engine)
