"""`tileas-optimize-alloc-tensor`: chooses the allocations in shared memory, the offsets in its arena of buffers and of
scratch areas, through which operations exchange elements between threads, and the columns of tensor memory of each
accumulator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import resources
from tileiras.analysis.function_pass import FunctionPass

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class OptimizeAllocTensor(FunctionPass):
    name = "tileas-optimize-alloc-tensor"
    requires = "ASYNCHRONOUS"
    leaves = "ALLOCATED"
    needs = "layouts; all buffers and conversions, where they will be"
    establishes = (
        "`offset` on every buffer in shared memory, `nv_tileas.scratch` on every operation that needs scratch memory, "
        "`nv_tileas.shared_memory` on the function, columns for every buffer in tensor memory; nothing overlaps a "
        "buffer that lives with it"
    )
    keeps = "operations, but for the address space of allocations that nobody else sees"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        resources.arena.place_in_shared(func)
        resources.arena.place(func, gpu, context.engine)
        if gpu.has("tcgen05"):
            resources.tensor_columns.place_columns(func, context.engine)
