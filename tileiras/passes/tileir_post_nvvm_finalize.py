"""`tileir-post-nvvm-finalize`: the last look at a module before it is translated to LLVM IR.

Operations that no conversion has lowered are errors, located; declarations of functions that nothing calls are gone.
"""

from __future__ import annotations

from tileiras.analysis.llvm_functions import code_modules, operations_of
from tileiras.dialects import llvm
from tileiras.ir import Operation, Pass
from tileiras.ir.pass_manager import PassContext

DIALECTS = ("llvm.", "nvvm.")
"""Dialects that are translated."""


class PostNVVMFinalize(Pass):
    name = "tileir-post-nvvm-finalize"
    anchor = "builtin.module"
    needs = "kernels in `llvm` and `nvvm`"
    establishes = "no operation of another dialect in a function; declarations of called functions only"
    keeps = "functions with a body"
    introduces = ()

    def run(self, op: Operation, context: PassContext) -> None:
        for module in code_modules(op):
            functions = [each for each in module.regions[0].operations if isinstance(each, llvm.LLVMFuncOp)]
            called: set[str] = set()
            for function in functions:
                if not function.is_declaration:
                    _check(function, called, context)
            for function in functions:
                if function.is_declaration and function.sym_name.value not in called:
                    function.erase()


def _check(function: llvm.LLVMFuncOp, called: set[str], context: PassContext) -> None:
    for inner in operations_of(function):
        if not inner.name.startswith(DIALECTS):
            context.engine.error(inner.location, f"failed to legalize operation '{inner.name}'")
        elif isinstance(inner, llvm.CallOp):
            called.add(inner.callee.root)
        elif isinstance(inner, llvm.AddressOfOp):
            called.add(inner.global_name.root)
