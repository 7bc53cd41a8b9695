"""nv_tileaa -> nv_tileas: number of warps, layouts, atoms, loads that run ahead.

In: one function of nv_tileaa with the globals that it uses.  Out: the same in nv_tileas; every tensor has a layout.
"""

from __future__ import annotations

from tileiras.ir import Operation, Pass, verify
from tileiras.ir.pass_manager import PassContext, PassManager
from tileiras.lowering.tileaa_to_tileas import convert_tileaa_to_tileas
from tileiras.passes.cse import CommonSubexpressionElimination
from tileiras.passes.dce import DeadCodeElimination
from tileiras.passes.tileas_unspecialized_pipeline import UnspecializedPipeline
from tileiras.stages import StageContext, StageOptions, StageResult
from tileiras.targets import target


def run(source: Operation, options: StageOptions, context: StageContext) -> StageResult:
    context.engine.remarks = options.emit_remarks
    convert_tileaa_to_tileas(source, target(options.gpu_name), options.num_warps, context.engine)
    # A value may have been made in one layout by several users.
    passes: list[Pass] = [CommonSubexpressionElimination(), DeadCodeElimination()]
    if options.pipeline_strategy == "unspecialize" and options.opt_level > 0:
        stages = options.unspecialized_pipeline_num_stages or 0
        passes.append(UnspecializedPipeline(compute_capability=options.gpu_name, num_stages=stages))
        passes.append(CommonSubexpressionElimination())
    PassManager(passes, verify_each=False).run(source, PassContext(context.engine))
    verify(source)
    return StageResult(source)
