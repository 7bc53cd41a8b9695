"""`tileir-legalize-llvm-kernel`: functions that kernels of nv_tileas were lowered to become kernels.

    llvm.func @k(%0: !llvm.ptr {tileiras.hidden = ...}) attributes {nv_tileas.kernel_spec = <numWarps = 4>}
 -> llvm.func @k(%0: !llvm.ptr {llvm.byval = ..., nvvm.grid_constant}) attributes {nvvm.kernel, nvvm.reqntid = 128}

The threads of a block are required, not only allowed: the code depends on their number.
"""

from __future__ import annotations

from typing import Any

from tileiras.analysis.llvm_functions import llvm_functions
from tileiras.dialects import llvm, nv_tileas
from tileiras.ir import ArrayAttr, DenseArrayAttr, DictAttr, IntegerAttr, Operation, Pass, UnitAttr, i8, i32, i64
from tileiras.targets.sm import WARP_SIZE

TENSOR_MAP_BYTES, TENSOR_MAP_ALIGNMENT = 128, 64
"""CUDA driver API, CUtensorMap; PTX ISA, "Tensor-map"."""


class LegalizeLLVMKernel(Pass):
    name = "tileir-legalize-llvm-kernel"
    anchor = "builtin.module"
    needs = "functions of `llvm` with `nv_tileas.kernel_spec`"
    establishes = "that they are kernels for a block of their warps, with tensor maps passed by value"
    keeps = "bodies, and functions without `nv_tileas.kernel_spec`"
    introduces = ()

    def run(self, op: Operation, context: object) -> None:
        for function in llvm_functions(op):
            if nv_tileas.KERNEL_SPEC in function.attributes:
                _legalize(function)


def _legalize(function: llvm.LLVMFuncOp) -> None:
    attributes = function.attributes
    attributes["nvvm.kernel"] = UnitAttr()
    attributes["nvvm.reqntid"] = DenseArrayAttr(i32, (WARP_SIZE * nv_tileas.block_warps(function),))
    if function.arg_attrs is None:
        return
    result = [function.argument_attributes(number) for number in range(len(function.function_type.inputs))]
    for each in result:
        if llvm.HIDDEN_PARAMETER in each:
            each.update(_by_value())
    attributes["arg_attrs"] = ArrayAttr([DictAttr(each) for each in result])


def _by_value() -> dict[str, Any]:
    return {
        "llvm.byval": llvm.LLVMArrayType(TENSOR_MAP_BYTES, i8),
        "llvm.align": IntegerAttr(TENSOR_MAP_ALIGNMENT, i64),
        llvm.GRID_CONSTANT: UnitAttr(),
    }
