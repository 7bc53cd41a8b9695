"""cuda_tile -> nv_tileaa: memory made explicit, control flow structured, facts kept beside values.

In: a verified cuda_tile module with one entry and the globals that it reaches.  Out: a builtin.module of nv_tileaa,
folded and without repetition.
"""

from __future__ import annotations

from typing import Any

from tileiras.ir import verify
from tileiras.ir.pass_manager import PassContext, PassManager
from tileiras.lowering.cuda_tile_to_tileaa import KernelOptions, convert_cuda_tile_to_tileaa
from tileiras.passes.canonicalize import Canonicalize
from tileiras.passes.cse import CommonSubexpressionElimination
from tileiras.stages import StageContext, StageOptions, StageResult


def run(source: Any, options: StageOptions, context: StageContext) -> StageResult:
    kernel = KernelOptions(options.gpu_name, options.num_warps, options.num_ctas)
    module = convert_cuda_tile_to_tileaa(source, kernel, context.engine)
    PassManager([Canonicalize(), CommonSubexpressionElimination()], verify_each=False).run(
        module, PassContext(context.engine)
    )
    verify(module)
    return StageResult(module)
