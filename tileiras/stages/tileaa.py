"""cuda_tile -> nv_tileaa, for one entry and the globals that it reaches."""

from __future__ import annotations

from typing import Any

from tileiras.stages import StageContext, StageOptions, StageResult


def run(source: Any, options: StageOptions, context: StageContext) -> StageResult:
    """`source` is a verified cuda_tile.module, which is used up; the output is a verified builtin.module."""
    from tileiras.diagnostics import ExitCode
    from tileiras.ir import verify
    from tileiras.ir.pass_manager import PassContext, PassManager
    from tileiras.lowering.cuda_tile_to_tileaa import TargetSpec, convert_to_tileaa
    from tileiras.lowering.cuda_tile_to_tileaa.supported_types import check_supported_types
    from tileiras.passes.canonicalize import Canonicalize
    from tileiras.passes.cse import CommonSubexpressionElimination
    from tileiras.targets import target as gpu

    debug = options.lineinfo or options.device_debug
    if debug:
        from tileiras.locations import settle
        from tileiras.passes.synthesize_debug_info_scopes import SynthesizeDebugInfoScopes
        from tileiras.passes.tileir_insert_debug_scope import InsertDebugScope

        settle(source, context.source_name)
        SynthesizeDebugInfoScopes(located_only=True).run(source, context)
    if not options.legalize_types:
        check_supported_types(source, gpu(options.gpu_name))
    target = TargetSpec(options.gpu_name, options.num_warps, options.num_ctas)
    module = convert_to_tileaa(source, target, context.engine)
    # Front ends repeat themselves: the same tile block id, the same constant, the same view for each access.
    # Constants stay where they are used: a layout is chosen for each, and one far away would be converted.
    passes = [Canonicalize(unique_constants=False), CommonSubexpressionElimination()]
    if debug:
        passes.insert(0, InsertDebugScope())
    PassManager(passes, verify_each=False).run(module, PassContext(context.engine))
    verify(module, code=ExitCode.COMPILE_FAILURE)
    return StageResult(module)
