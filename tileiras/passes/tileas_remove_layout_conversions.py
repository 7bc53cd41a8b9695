"""`tileas-remove-layout-conversions`: assigns an encoding to every tile, with few conversions between layouts.

Layouts are propagated from dots and accesses along uses.  Values that depend on neither (constants, ranges, broadcasts)
are rematerialized in every layout in which they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import assignment
from tileiras.analysis.function_pass import FunctionPass

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
        assignment.rewrite.put_into_layouts(func, context)
