"""cuda_tile -> nv_tileaa, for one entry and the globals that it reaches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tileiras
from tileiras import lowering
from tileiras.diagnostics import ExitCode
from tileiras.stages import StageContext, StageOptions, StageResult
from tileiras.targets.cpu import is_cpu

if TYPE_CHECKING:
    from tileiras.dialects import cuda_tile


def passes(options: StageOptions) -> list[Any]:
    """The passes that run on a builtin.module around the source."""
    convert = tileiras.passes.convert_cudatile_to_tileaa.ConvertCudaTileToTileAA(
        compute_capability=options.gpu_name, num_warps=options.num_warps or 0, num_ctas=options.num_ctas or 0
    )
    # Front ends emit the same tile block id, constant and view for each access; CSE merges them.
    # Constants stay at their uses: a layout is chosen for each, and a distant one would have to be converted.
    items: list[Any] = [
        convert,
        tileiras.passes.canonicalize.Canonicalize(unique_constants=False),
        tileiras.passes.cse.CommonSubexpressionElimination(),
    ]
    if options.lineinfo or options.device_debug:
        items.insert(1, tileiras.passes.tileir_insert_debug_scope.InsertDebugScope())
    if options.device_debug:
        items.insert(2, tileiras.passes.debuginfo_describe_parameters.DescribeParameters())
    return [*source_passes(options), *items]


def source_passes(options: StageOptions) -> list[Any]:
    """The passes on cuda_tile, before the conversion."""
    result: list[Any] = []
    if options.lineinfo or options.device_debug:
        result.append(tileiras.passes.synthesize_debug_info_scopes.SynthesizeDebugInfoScopes(located_only=True))
    if options.sanitize == "memcheck":
        result.append(tileiras.passes.instrument_memcheck.InstrumentMemcheck())
    return result


def run(source: cuda_tile.ModuleOp, options: StageOptions, context: StageContext) -> StageResult:
    """`source` is a verified cuda_tile.module, which is consumed; the output is a verified builtin.module."""
    if options.lineinfo or options.device_debug:
        tileiras.stages.locations.settle(source, context.source_name)
    if not options.legalize_types and not is_cpu(options.gpu_name):
        lowering.cuda_tile_to_tileaa.supported_types.check_supported_types(
            source, tileiras.targets.target(options.gpu_name)
        )
    watchers = context.instrumentation
    before = source_passes(options)
    convert, *cleanup = passes(options)[len(before) :]
    tileiras.ir.pass_manager.PassManager(before, verify_each=False, instrumentation=watchers).run(
        source, tileiras.ir.pass_manager.PassContext(context.engine)
    )
    with tileiras.ir.pass_instrumentation.instrumented(convert.name, source, watchers, convert.pipeline()) as step:
        code = tileiras.codegen.device_code.DeviceCode(options.device_libraries, context.store)
        target = convert.target._replace(device_code=code) if options.device_libraries else convert.target
        module = step.op = lowering.cuda_tile_to_tileaa.convert_to_tileaa(source, target, context.engine)
    tileiras.ir.pass_manager.PassManager(cleanup, verify_each=False, instrumentation=watchers).run(
        module, tileiras.ir.pass_manager.PassContext(context.engine)
    )
    tileiras.ir.verify(module, code=ExitCode.COMPILE_FAILURE)
    return StageResult(module)
