"""`lower-tma-load-store-to-async`: stores of tiles that a tensor map can serve go through shared memory, from where one
thread copies them in boxes.  Loads through tensor maps are lowered by `tileas-unspecialized-pipeline`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import rewrites
from tileiras.analysis.function_pass import FunctionPass
from tileiras.dialects import nv_tileas as tileas

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class LowerTmaLoadStoreToAsync(FunctionPass):
    name = "lower-tma-load-store-to-async"
    optional = True
    schedules = True
    requires = "SCHEDULED"
    needs = "schedules, and buffers for what runs ahead: no more than they take is used"
    establishes = "`async.tma_store` for stores marked with its atom, where shared memory has room for their tiles"
    keeps = "values, token order"

    tensor_maps: str = "none"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        if any(tileas.AHEAD_ATOM in op.attributes for op in func.walk()):
            rewrites.tensor_stores.store_in_boxes(func, gpu, context.engine, keeps_maps=self.tensor_maps == "host")
