"""`convert-math-to-funcs`: functions of math become calls of libdevice, or instructions that approximate them.

`lowering/math_to_funcs` has the table.
"""

from __future__ import annotations

from tileiras.analysis.llvm_functions import code_modules, operations_of
from tileiras.dialects import llvm
from tileiras.ir import Operation, Pass, VerifyError
from tileiras.ir.pass_manager import PassContext
from tileiras.lowering import math_to_funcs


class ConvertMathToFuncs(Pass):
    name = "convert-math-to-funcs"
    anchor = "builtin.module"
    needs = "functions of `llvm`, with functions of `math` on scalars, or on vectors where they are instructions"
    establishes = "calls of libdevice, declared once in the module, and instructions of `nvvm`"
    keeps = "other operations"
    introduces = ()

    def run(self, op: Operation, context: PassContext) -> None:
        for module in code_modules(op):
            block = module.regions[0].block
            functions = [each for each in block.operations if isinstance(each, llvm.LLVMFuncOp)]
            names = {each.sym_name.value for each in functions}
            for function in functions:
                for inner in () if function.is_declaration else operations_of(function):
                    row = math_to_funcs.FUNCTIONS.get(inner.name)
                    function_op = _convert(inner, row, context) if row is not None else None
                    if function_op is not None and function_op.sym_name.value not in names:
                        names.add(function_op.sym_name.value)
                        block.append(function_op)


def _convert(op: Operation, row: math_to_funcs.Function, context: PassContext) -> llvm.LLVMFuncOp | None:
    """The declaration of the function that an operation calls now, if it calls one."""
    try:
        return math_to_funcs.convert(op, row)
    except VerifyError as error:
        context.engine.error(op.location, f"'{op.name}' op {error.message}")
        return None
