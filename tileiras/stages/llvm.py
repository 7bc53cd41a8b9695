"""nv_tileas -> llvm and nvvm dialects -> LLVM IR text.

In: one function of nv_tileas with the globals that it uses.  Out: the bytes of NAME.ll; beside it NAME.llvm.mlir, a
gpu.module with its target.

With line or debug information, the LLVM IR has the locations of its instructions:

| | `!dbg` | subprograms | variables | optimized |
|---|---|---|---|---|
| neither | no | no | no | |
| `lineinfo` | yes | yes, for `.loc` only | no | unless at level 0 |
| `device-debug` | yes | yes | yes | no, level 0 only |
"""

from __future__ import annotations

import tileiras
from tileiras import lowering
from tileiras.dialects.gpu import GPUModuleOp
from tileiras.ir import Operation, Pass, verify
from tileiras.ir.pass_manager import PassContext, PassManager
from tileiras.lowering.llvm_to_ir import translate_module
from tileiras.passes.convert_target_to_nvvm import ConvertTargetToNVVM
from tileiras.passes.convert_tileas_to_llvm import ConvertTileASToLLVM
from tileiras.passes.nvvm_ir_verifier import NVVMIRVerifier
from tileiras.passes.tileir_verify_ops_analysis import VerifyOpsAnalysis
from tileiras.stages import StageContext, StageOptions, StageResult, units


def passes(options: StageOptions) -> list[Pass]:
    gpu, variables = options.gpu_name, options.device_debug
    found: list[Pass] = [
        VerifyOpsAnalysis(compute_capability=gpu),
        ConvertTileASToLLVM(compute_capability=gpu, ftz=options.ftz, approx=options.approx, variables=variables),
    ]
    # Passes for debug information are loaded only if it is requested.
    if options.lineinfo or options.device_debug:
        found.insert(0, tileiras.passes.tileir_insert_debug_scope.InsertDebugScope())
    if options.device_debug:
        found.append(tileiras.passes.convert_debuginfo_to_llvm.ConvertDebugInfoToLLVM())
    return found


def closing_passes(
    options: StageOptions, nvgpucomp: bool = False, ptx_version: str = "", ceiling: str = ""
) -> tuple[Pass, Pass]:
    """The pass that attaches the target to a module of `llvm`, and its verifier for the requested PTX version and
    ceiling of parameters, by default the option's."""
    gpu = options.gpu_name
    attach = ConvertTargetToNVVM(
        compute_capability=gpu, opt_level=options.opt_level, device_debug=options.device_debug,
        use_nvgpucomp_libnvvm=nvgpucomp,
    )  # fmt: skip
    return attach, NVVMIRVerifier(
        compute_capability=gpu, ptx_version=ptx_version, parameter_ceiling=ceiling or options.parameter_ceiling
    )


def run(source: Operation, options: StageOptions, context: StageContext) -> StageResult:
    context.engine.remarks = options.emit_remarks
    debug = None
    if options.lineinfo or options.device_debug:
        debug = lowering.llvm_to_ir.debug_info.DebugLevel(
            lowering.llvm_to_ir.debug_info.FULL
            if options.device_debug
            else lowering.llvm_to_ir.debug_info.DIRECTIVES_ONLY,
            optimized=options.opt_level > 0,
        )
        tileiras.stages.locations.settle(source, context.source_name)
    attach, check = closing_passes(options, ptx_version=context.ptx_version)
    # A source with a gpu.module is compiled for the target that the gpu.module names, or cannot be translated.
    targeted = any(isinstance(op, GPUModuleOp) for op in source.regions[0].operations)
    whole = [*passes(options), *([] if targeted else [attach]), check]
    manager = PassManager(whole, verify_each=False, instrumentation=context.instrumentation)
    manager.run(source, PassContext(context.engine))
    context.check(lambda: verify(source))
    text = translate_module(source, options.gpu_name, debug, options.opt_level)
    return StageResult(text.encode(), {".llvm.mlir": lambda: units.module_text(source)})
