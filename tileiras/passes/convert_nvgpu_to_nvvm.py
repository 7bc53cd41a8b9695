"""`convert-nvgpu-to-nvvm`: instructions of nvgpu become operations of nvvm, or inline assembly.

`lowering/nvgpu_to_nvvm` has the rules, the table of the dialect the facts.
"""

from __future__ import annotations

from tileiras.analysis.llvm_functions import llvm_functions, operations_of
from tileiras.dialects.nvgpu import NVGPUOp
from tileiras.ir import Operation, Pass, VerifyError
from tileiras.ir.pass_manager import PassContext
from tileiras.lowering import nvgpu_to_nvvm


class ConvertNVGPUToNVVM(Pass):
    name = "convert-nvgpu-to-nvvm"
    anchor = "builtin.module"
    needs = "functions of `llvm`, with `nvgpu`"
    establishes = "`nvvm` and inline assembly; no operation of `nvgpu`"
    keeps = "effects, locations"
    introduces = ()

    def run(self, op: Operation, context: PassContext) -> None:
        for function in llvm_functions(op):
            for inner in operations_of(function):
                if isinstance(inner, NVGPUOp):
                    try:
                        nvgpu_to_nvvm.convert(inner)
                    except VerifyError as error:
                        context.engine.error(inner.location, f"'{inner.name}' op {error.message}")
