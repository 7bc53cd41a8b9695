"""`tileas-materialize-convert-layout`: places conversions of layout.

Those for the operands of one operation are placed together, before it, and share a barrier.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import rewrites
from tileiras.analysis.function_pass import FunctionPass

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class MaterializeConvertLayout(FunctionPass):
    name = "tileas-materialize-convert-layout"
    optional = True
    requires = "LAYOUTS"
    needs = "layouts; loops as they will be"
    establishes = "each conversion just before its first user"
    keeps = "values"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        rewrites.sink_conversions.sink_conversions(func)
