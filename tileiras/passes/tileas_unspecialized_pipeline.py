"""`tileas-unspecialized-pipeline`: loops whose loads run ahead of the dots that consume them, all warps alike.

`num-stages` says how many iterations' tiles shared memory holds, the one that is computed included; 0 chooses by the
hints of the loads and by what fits.  `instead-of` names the variant of warp specialization, `light` or `heavy`, whose
place this schedule takes.

Tiles that are loaded long before they are used are loaded where they are used, when a thread has no registers for them
until then.  Large factors of products outside of loops that a thread has no registers for are copied to shared memory.

Fails softly when loads could have run ahead and no loop has the room.
"""

from __future__ import annotations

from typing import Any

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.ir import Operation, Pass, TensorType
from tileiras.ir.pass_manager import PassContext
from tileiras.passes import gpu_of
from tileiras.passes.tileir_verify_ops_analysis import VerifyOpsAnalysis


class UnspecializedPipeline(Pass):
    name = "tileas-unspecialized-pipeline"
    anchor = "builtin.module"
    needs = "layouts and atoms"
    establishes = "buffers and asynchronous copies for loads that run ahead; fails softly without room"
    keeps = "values, token order, other loops"

    compute_capability: str = "sm_90"
    num_stages: int = 0
    instead_of: str = ""

    def verify_input(self, op: Operation, context: PassContext) -> None:
        VerifyOpsAnalysis(compute_capability=self.compute_capability).run(op, context)

    def run(self, op: Operation, context: PassContext) -> None:
        pipelined = refused = 0
        for func in [inner for inner in op.walk() if isinstance(inner, aa.FuncOp)]:
            if self.instead_of:
                context.engine.remark(
                    func.location,
                    f"warp-specialize ({self.instead_of}): the warps of this kernel are not specialized, its loops get "
                    "the unspecialized pipeline",
                )
            if (func.kernel_spec.occupancy or 1) > 1:
                from tileiras.schedule.registers import lower_occupancy

                lower_occupancy(func, gpu_of(self.compute_capability), context.engine)
            loads_much = _loads_much(func)
            if loads_much:
                from tileiras.schedule.late_loads import load_late

                load_late(func, context.engine)
            if any(isinstance(inner, scf.ForOp) for inner in func.walk()):
                # A dozen modules, for kernels with loops only.
                from tileiras.schedule.software_pipeline import pipeline_loops

                done = pipeline_loops(func, gpu_of(self.compute_capability), self.num_stages or None, context.engine)
                pipelined += done.pipelined
                refused += done.refused
            if loads_much and any(isinstance(inner, tileas.PRODUCTS) for inner in func.body.blocks[0].operations):
                from tileiras.schedule.resident_factors import copy_large

                copy_large(func, gpu_of(self.compute_capability), context.engine)
        if refused and not pipelined:
            self.signal_soft_failure(context)


MUCH = 48
"""Elements of loaded tiles in a thread, outside of loops; fewer are no reason to look at all registers of a kernel."""


def _loads_much(func: Any) -> bool:
    loads = (op for op in func.body.blocks[0].operations if isinstance(op, (tileas.TiledLoadOp, tileas.LoadOp)))
    types = (op.data.type for op in loads)
    loaded = sum(type.num_elements for type in types if isinstance(type, TensorType))
    return loaded > MUCH * 32 * (func.kernel_spec.num_warps or 1)
