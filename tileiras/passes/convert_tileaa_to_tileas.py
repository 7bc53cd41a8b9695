"""`convert-tileaa-to-tileas`: converts operations one to one, without decisions.  Tiles have no encoding yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import lowering
from tileiras.analysis.function_pass import FunctionPass

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class ConvertTileAAToTileAS(FunctionPass):
    name = "convert-tileaa-to-tileas"
    leaves = "NO_LAYOUTS"
    needs = "`nv_tileaa` functions"
    establishes = "the same operations in `nv_tileas`, without layouts and atoms"
    keeps = "values, token order, locations"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        lowering.tileaa_to_tileas.convert_function(func, context.engine)
