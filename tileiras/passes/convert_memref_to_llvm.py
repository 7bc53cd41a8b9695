"""`convert-memref-to-llvm`: variables of the module and their addresses become those of llvm.

`lowering/memref_to_llvm` has the rules.
"""

from __future__ import annotations

from tileiras.analysis.llvm_functions import code_modules, llvm_functions, operations_of
from tileiras.dialects import memref
from tileiras.ir import Operation, Pass
from tileiras.lowering import memref_to_llvm


class ConvertMemRefToLLVM(Pass):
    name = "convert-memref-to-llvm"
    anchor = "builtin.module"
    needs = "`memref.global`, and functions of `llvm` with `memref.get_global`"
    establishes = "variables in global memory, with their elements as memory holds them; no operation of `memref`"
    keeps = "names, contents, who sees them"
    introduces = ()

    def run(self, op: Operation, context: object) -> None:
        for module in code_modules(op):
            for inner in list(module.regions[0].operations):
                if isinstance(inner, memref.GlobalOp):
                    memref_to_llvm.convert_global(inner)
        for function in llvm_functions(op):
            for inner in operations_of(function):
                if isinstance(inner, memref.GetGlobalOp):
                    memref_to_llvm.convert_address(inner)
