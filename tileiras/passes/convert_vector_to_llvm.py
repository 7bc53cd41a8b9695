"""`convert-vector-to-llvm`: elements of vectors, their insertion, and shuffles become those of llvm.

    %x = vector.extract %v[%i : i32] : vector<4xf32>    ->   %x = llvm.extractelement %v[%i : i32] : vector<4xf32>
"""

from __future__ import annotations

from tileiras.analysis.llvm_functions import llvm_functions, operations_of
from tileiras.dialects import llvm, vector
from tileiras.ir import Operation, Pass

LOWERED: dict[type[Operation], type[Operation]] = {
    vector.ExtractOp: llvm.ExtractElementOp,
    vector.InsertOp: llvm.InsertElementOp,
    vector.ShuffleOp: llvm.ShuffleVectorOp,
}


class ConvertVectorToLLVM(Pass):
    name = "convert-vector-to-llvm"
    anchor = "builtin.module"
    needs = "functions of `llvm`, with `vector`"
    establishes = "no operation of `vector`"
    keeps = "operands, locations"
    introduces = ()

    def run(self, op: Operation, context: object) -> None:
        for function in llvm_functions(op):
            for inner in operations_of(function):
                lowered = LOWERED.get(type(inner))
                if lowered is not None:
                    inner.become(lowered)
