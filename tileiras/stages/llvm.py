"""nv_tileas -> llvm and nvvm dialects -> LLVM IR text.

In: one function of nv_tileas with the globals that it uses.  Out: the bytes of NAME.ll; beside it NAME.llvm.mlir.
"""

from __future__ import annotations

from tileiras.ir import Operation, print_op, verify
from tileiras.lowering.llvm_to_ir import translate_module
from tileiras.lowering.tileas_to_llvm import convert_tileas_to_llvm
from tileiras.stages import StageContext, StageOptions, StageResult
from tileiras.targets import target


def run(source: Operation, options: StageOptions, context: StageContext) -> StageResult:
    context.engine.remarks = options.emit_remarks
    convert_tileas_to_llvm(
        source, target(options.gpu_name), context.engine, flush_to_zero=options.ftz, approximate=options.approx
    )
    verify(source)
    text = translate_module(source, options.gpu_name)
    return StageResult(text.encode(), {".llvm.mlir": print_op(source).encode()})
