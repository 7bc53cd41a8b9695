"""`tileas-insert-barriers`: inserts barriers between threads.

Barriers separate accesses that a token orders, uses of the same shared memory, and the stores and loads of each scratch
area.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import analysis, rewrites, schedule
from tileiras.passes import FunctionPass

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class InsertBarriers(FunctionPass):
    name = "tileas-insert-barriers"
    requires = "ALLOCATED"
    leaves = "SYNCHRONIZED"
    needs = "places of buffers and scratch areas; operations in the order in which they will run"
    establishes = (
        "`nv_tileas.barrier` operations, the barrier of each scratch area, `nv_tileas.named_barriers` on the function, "
        "fences of what threads do in tensor memory, stages of pipes that barriers show to be empty"
    )
    keeps = "all other operations"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        rewrites.barriers.insert_barriers(func)
        schedule.agents.simplify.know_empty_stages(func)
        if gpu.has("tcgen05"):
            analysis.tensor_fences.fence_columns(func)
