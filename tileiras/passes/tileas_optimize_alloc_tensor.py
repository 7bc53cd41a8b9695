"""`tileas-optimize-alloc-tensor`: which allocations are in shared memory, and where each buffer lies in its arena."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.passes import FunctionPass

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


CREATE_PIPELINE = "nv_tileas.async.pipeline.create_pipeline"


class OptimizeAllocTensor(FunctionPass):
    name = "tileas-optimize-alloc-tensor"
    requires = "LAYOUTS"
    needs = "layouts; all buffers"
    establishes = "`offset` on every buffer in shared memory; none overlaps another that lives with it"
    keeps = "operations, but for the address space of allocations that nobody else sees"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        from tileiras.dialects import nv_tileas as tileas

        allocations = (tileas.AllocTensorOp, tileas.AllocaOp)
        if any(isinstance(op, allocations) or op.name == CREATE_PIPELINE for op in func.walk()):
            # Loaded for such kernels only.
            from tileiras.resources.arena import place_buffers, place_in_shared

            place_in_shared(func)
            place_buffers(func)
