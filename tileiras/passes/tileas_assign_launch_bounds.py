"""`tileas-assign-launch-bounds`: how many CTAs an SM is to hold at least, which bounds the registers of a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.passes import FunctionPass

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class AssignLaunchBounds(FunctionPass):
    name = "tileas-assign-launch-bounds"
    requires = "LAYOUTS"
    needs = "layouts; all tiles where they will be"
    establishes = "`nv_tileas.min_ctas` on functions whose tiles take more registers than two CTAs have"
    keeps = "operations"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        from tileiras.dialects import nv_tileas as tileas
        from tileiras.ir import IntegerAttr, i32
        from tileiras.resources.launch_bounds import least_ctas

        ctas = least_ctas(func)
        if ctas is not None:
            func.attributes[tileas.MIN_CTAS] = IntegerAttr(ctas, i32)
