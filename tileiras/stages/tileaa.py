"""cuda_tile -> nv_tileaa, for one entry and the globals that it reaches."""

from __future__ import annotations

from typing import Any

from tileiras.stages import StageContext, StageOptions, StageResult


def run(source: Any, options: StageOptions, context: StageContext) -> StageResult:
    """`source` is a verified cuda_tile.module, which is used up; the output is a verified builtin.module."""
    from tileiras.diagnostics import ExitCode
    from tileiras.ir import verify
    from tileiras.lowering.cuda_tile_to_tileaa import TargetSpec, convert_to_tileaa

    target = TargetSpec(options.gpu_name, options.num_warps, options.num_ctas)
    module = convert_to_tileaa(source, target, context.engine)
    verify(module, code=ExitCode.COMPILE_FAILURE)
    return StageResult(module)
