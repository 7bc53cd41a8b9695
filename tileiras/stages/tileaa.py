"""cuda_tile -> nv_tileaa, for one entry and the globals that it reaches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileiras.stages import StageContext, StageOptions, StageResult

if TYPE_CHECKING:
    from tileiras.dialects import cuda_tile


def passes(options: StageOptions) -> list[Any]:
    """The passes that run on a builtin.module around the source."""
    from tileiras.passes.canonicalize import Canonicalize
    from tileiras.passes.convert_cudatile_to_tileaa import ConvertCudaTileToTileAA
    from tileiras.passes.cse import CommonSubexpressionElimination

    convert = ConvertCudaTileToTileAA(
        compute_capability=options.gpu_name, num_warps=options.num_warps or 0, num_ctas=options.num_ctas or 0
    )
    # Front ends emit the same tile block id, constant and view for each access; CSE merges them.
    # Constants stay at their uses: a layout is chosen for each, and a distant one would have to be converted.
    found: list[Any] = [convert, Canonicalize(unique_constants=False), CommonSubexpressionElimination()]
    if options.lineinfo or options.device_debug:
        from tileiras.passes.tileir_insert_debug_scope import InsertDebugScope

        found.insert(1, InsertDebugScope())
    if options.device_debug:
        from tileiras.passes.debuginfo_describe_parameters import DescribeParameters

        found.insert(2, DescribeParameters())
    return [*source_passes(options), *found]


def source_passes(options: StageOptions) -> list[Any]:
    """The passes on cuda_tile, before the conversion."""
    found: list[Any] = []
    if options.lineinfo or options.device_debug:
        from tileiras.passes.synthesize_debug_info_scopes import SynthesizeDebugInfoScopes

        found.append(SynthesizeDebugInfoScopes(located_only=True))
    if options.sanitize == "memcheck":
        from tileiras.passes.instrument_memcheck import InstrumentMemcheck

        found.append(InstrumentMemcheck())
    return found


def run(source: cuda_tile.ModuleOp, options: StageOptions, context: StageContext) -> StageResult:
    """`source` is a verified cuda_tile.module, which is consumed; the output is a verified builtin.module."""
    from tileiras.diagnostics import ExitCode
    from tileiras.ir import verify
    from tileiras.ir.pass_instrumentation import instrumented
    from tileiras.ir.pass_manager import PassContext, PassManager
    from tileiras.lowering.cuda_tile_to_tileaa import convert_to_tileaa
    from tileiras.lowering.cuda_tile_to_tileaa.supported_types import check_supported_types
    from tileiras.targets import target as gpu

    if options.lineinfo or options.device_debug:
        from tileiras.locations import settle

        settle(source, context.source_name)
    if not options.legalize_types:
        check_supported_types(source, gpu(options.gpu_name))
    watchers = context.instrumentation
    before = source_passes(options)
    convert, *cleanup = passes(options)[len(before) :]
    PassManager(before, verify_each=False, instrumentation=watchers).run(source, PassContext(context.engine))
    with instrumented(convert.name, source, watchers, convert.pipeline()) as step:
        module = step.op = convert_to_tileaa(source, convert.target, context.engine)
    PassManager(cleanup, verify_each=False, instrumentation=watchers).run(module, PassContext(context.engine))
    verify(module, code=ExitCode.COMPILE_FAILURE)
    return StageResult(module)
