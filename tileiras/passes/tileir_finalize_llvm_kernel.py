"""`tileir-finalize-llvm-kernel`: properties of a kernel's launches move to the attributes that the translation to
LLVM IR and NAME.json read; the attributes of nv_tileas are removed.

    nv_tileas.min_ctas = 2 : i32        ->   nvvm.minctasm = 2 : i32, unless a front end has chosen another number
    nv_tileas.shared_memory = 49152     ->   tileiras.shared_memory = 49152
"""

from __future__ import annotations

from tileiras.analysis.llvm_functions import llvm_functions
from tileiras.dialects import llvm, nv_tileas
from tileiras.ir import Operation, Pass

LOWERED = {
    nv_tileas.MIN_CTAS: "nvvm.minctasm", nv_tileas.SHARED_MEMORY: llvm.SHARED_MEMORY,
    nv_tileas.BLOCK_GROUP: llvm.BLOCK_GROUP, nv_tileas.CLUSTER_BLOCKS: llvm.CLUSTER_BLOCKS,
    nv_tileas.PAIRS_OF: llvm.PAIRS_OF, nv_tileas.PAIRS_WHERE: llvm.PAIRS_WHERE, nv_tileas.ORDER: llvm.ORDER,
}  # fmt: skip
"""Attributes of nv_tileas, and those of the kernel with the same values."""


class FinalizeLLVMKernel(Pass):
    name = "tileir-finalize-llvm-kernel"
    anchor = "builtin.module"
    needs = "kernels, clusters included, from `tileir-legalize-llvm-kernel` and `tileir-gpu-module-prepare`"
    establishes = "launch attributes and those of NAME.json; no attribute of `nv_tileas`"
    keeps = "bodies"
    introduces = ()

    def run(self, op: Operation, context: object) -> None:
        for function in llvm_functions(op):
            attributes = function.attributes
            if nv_tileas.KERNEL_SPEC not in attributes:
                continue
            for name, lowered in LOWERED.items():
                if name in attributes and lowered not in attributes:
                    attributes[lowered] = attributes[name]
            if nv_tileas.number_of(function, llvm.SHARED_MEMORY) == 0:
                del attributes[llvm.SHARED_MEMORY]
            for name in (nv_tileas.KERNEL_SPEC, *nv_tileas.LAUNCH_FACTS):
                attributes.pop(name, None)
