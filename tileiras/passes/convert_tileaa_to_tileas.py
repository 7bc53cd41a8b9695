"""`convert-tileaa-to-tileas`: a layout for every tensor, an atom for every movement and dot, a number of warps."""

from __future__ import annotations

from tileiras.ir import Operation, Pass
from tileiras.ir.pass_manager import PassContext
from tileiras.lowering.tileaa_to_tileas import convert_tileaa_to_tileas
from tileiras.passes import gpu_of


class ConvertTileAAToTileAS(Pass):
    name = "convert-tileaa-to-tileas"
    anchor = "builtin.module"
    needs = "`nv_tileaa` functions"
    establishes = "a number of warps, a layout for every tensor, an atom for every access and product"
    keeps = "values, token order, locations"

    compute_capability: str = "sm_90"
    num_warps: int = 0

    def run(self, op: Operation, context: PassContext) -> None:
        convert_tileaa_to_tileas(op, gpu_of(self.compute_capability), self.num_warps or None, context.engine)
