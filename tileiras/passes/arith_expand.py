"""`arith-expand`: integer operations that no target has as one instruction.

    %q = arith.ceildivsi %a, %b : i32   ->   llvm.sdiv, llvm.srem, and one more where the quotient is not exact

`lowering/arith_expand` has the rules.
"""

from __future__ import annotations

from tileiras.analysis.llvm_functions import llvm_functions, operations_of
from tileiras.ir import Operation, Pass
from tileiras.lowering import arith_expand


class ArithExpand(Pass):
    name = "arith-expand"
    anchor = "builtin.module"
    needs = "functions of `llvm`, with `arith` on scalars and vectors"
    establishes = (
        "ceiling and floor divisions, products of twice the width and conversions of integers, also of four bits, in "
        "operations of `llvm`"
    )
    keeps = "other operations"
    introduces = ()

    def run(self, op: Operation, context: object) -> None:
        for function in llvm_functions(op):
            for inner in operations_of(function):
                arith_expand.expand(inner)
