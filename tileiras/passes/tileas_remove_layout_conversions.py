"""`tileas-remove-layout-conversions`: an encoding for every tile, and few conversions between layouts.

Layouts flow from dots and accesses along uses.  What depends on neither (constants, ranges, broadcasts) is
rematerialized in every layout that it is wanted in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.passes import FunctionPass

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class RemoveLayoutConversions(FunctionPass):
    name = "tileas-remove-layout-conversions"
    requires = "ATOMS"
    leaves = "LAYOUTS"
    needs = "atoms, and the layouts of dots and accesses"
    establishes = "an encoding on every tile, `convert_layout` where layouts meet"
    keeps = "values, token order, locations"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        from tileiras.assignment.rewrite import put_into_layouts

        put_into_layouts(func, context)
