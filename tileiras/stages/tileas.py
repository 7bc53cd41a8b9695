"""nv_tileaa -> nv_tileas: number of warps, layouts, atoms, loads that run ahead.

In: one function of nv_tileaa with the globals that it uses.  Out: the same in nv_tileas; every tensor has a layout.
"""

from __future__ import annotations

from tileiras.ir import Operation, Pass, verify
from tileiras.ir.pass_manager import PassContext, PassManager
from tileiras.passes.convert_tileaa_to_tileas import ConvertTileAAToTileAS
from tileiras.passes.cse import CommonSubexpressionElimination
from tileiras.passes.dce import DeadCodeElimination
from tileiras.passes.tileas_legalize_fma_dot import LegalizeFmaDot
from tileiras.passes.tileas_unspecialized_pipeline import UnspecializedPipeline
from tileiras.stages import StageContext, StageOptions, StageResult


def passes(options: StageOptions) -> list[Pass]:
    found: list[Pass] = [
        ConvertTileAAToTileAS(compute_capability=options.gpu_name, num_warps=options.num_warps or 0),
        # A value may have been made in one layout by several users.
        CommonSubexpressionElimination(),
        DeadCodeElimination(),
    ]
    if options.pipeline_strategy != "none" and options.opt_level > 0:
        stages = options.unspecialized_pipeline_num_stages or 0
        schedule = UnspecializedPipeline(compute_capability=options.gpu_name, num_stages=stages)
        if options.pipeline_strategy == "warp-specialize":
            schedule.instead_of = "light" if options.rrt_size_threshold == 0 else "heavy"
        found += [schedule, CommonSubexpressionElimination().after(schedule.name)]
        if options.pipeline_strategy == "warp-specialize":
            from tileiras.passes.tileaa_agent_verifier import AgentVerifier

            found.append(AgentVerifier(compute_capability=options.gpu_name))
    return [*found, LegalizeFmaDot(compute_capability=options.gpu_name)]


def run(source: Operation, options: StageOptions, context: StageContext) -> StageResult:
    context.engine.remarks = options.emit_remarks
    manager = PassManager(passes(options), verify_each=False, instrumentation=context.instrumentation)
    manager.run(source, PassContext(context.engine))
    verify(source)
    return StageResult(source)
