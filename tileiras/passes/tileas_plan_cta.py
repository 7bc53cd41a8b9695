"""`tileas-plan-cta`: distributes the tile block of a cluster over its CTAs.

If the stored tiles cannot be cut into independent slices, the first CTA does all the work, and a remark states why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import slicing
from tileiras.analysis.function_pass import FunctionPass

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class PlanCta(FunctionPass):
    name = "tileas-plan-cta"
    optional = True
    of_nv_tileaa = True
    needs = "`nv_tileaa` functions"
    establishes = "a slice of what is stored for each CTA of a cluster, by its rank"
    keeps = "what the cluster stores"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        if (func.kernel_spec.num_ctas or 1) > 1 and gpu.has("cluster"):
            slicing.plan_cta.plan_cta(func, context.engine)
