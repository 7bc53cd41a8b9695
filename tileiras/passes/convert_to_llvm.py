"""`convert-to-llvm` and `test-convert-to-llvm`: operations of arith and math that are one operation of llvm.

`lowering/to_llvm` has the table; the two passes differ in the dialects that they convert.
"""

from __future__ import annotations

from typing import ClassVar

from tileiras.analysis.llvm_functions import llvm_functions, operations_of
from tileiras.ir import Operation, Pass
from tileiras.lowering import to_llvm


class ConvertToLLVM(Pass):
    name = "convert-to-llvm"
    anchor = "builtin.module"
    needs = "functions of `llvm`, with `arith` and `math` on scalars and vectors"
    establishes = "that arithmetic of one instruction or intrinsic is that of `llvm`"
    keeps = "operations that have to be expanded, and functions of libdevice"
    introduces = ()

    dialects: ClassVar[tuple[str, ...]] = ("arith.", "math.")

    def run(self, op: Operation, context: object) -> None:
        for function in llvm_functions(op):
            for inner in operations_of(function):
                if inner.name.startswith(self.dialects):
                    to_llvm.convert(inner)


class TestConvertToLLVM(ConvertToLLVM):
    name = "test-convert-to-llvm"
    needs = "functions of `llvm`, with `arith` on scalars and vectors"
    establishes = "as `convert-to-llvm`, for `arith` alone"

    __test__ = False
    """Not collected by pytest, in spite of its name."""

    dialects: ClassVar[tuple[str, ...]] = ("arith.",)
