"""`tileas-legalize-fma-dot`: large dots become loops over K.

Each iteration reads slices of the operands from shared memory.  For multiply-adds, operands that are in registers are
stored there first, and a dot whose operands find no room stays as it is, with a remark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.passes import FunctionPass

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class LegalizeFmaDot(FunctionPass):
    name = "tileas-legalize-fma-dot"
    requires = "LAYOUTS"
    needs = "layouts and atoms; loads that run ahead are in buffers already"
    establishes = "loops over K for large dots, as far as shared memory goes"
    keeps = "values, the order of additions, other dots"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        from tileiras.rewrites.large_dots import is_large

        if any(is_large(op, gpu) for op in func.walk()):
            # Loaded for such kernels only.
            from tileiras.rewrites.dot_k_loops import make_k_loops

            make_k_loops(func, gpu, context.engine)
