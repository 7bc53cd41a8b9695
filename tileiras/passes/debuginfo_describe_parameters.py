"""`debuginfo-describe-parameters`: declares the parameters of kernels with a debug scope as variables of the scope.

    nv_tileaa.func @k(%arg0: i32) {   ->   nv_tileaa.func @k(%arg0: i32) {
                                             debuginfo.value %arg0, #debuginfo.di_local_variable<"arg0" in #k, ...>

Their names are those by which artifacts print them: bytecode keeps no others.
"""

from __future__ import annotations

from tileiras.dialects.cuda_tile.debug_info import subprogram_of
from tileiras.dialects.debuginfo import DILocalVariableAttr, ValueOp
from tileiras.ir import FloatType, IntegerType, Operation, Pass, i1


class DescribeParameters(Pass):
    name = "debuginfo-describe-parameters"
    anchor = "nv_tileaa.func"
    needs = "`nv_tileaa` functions with scopes"
    establishes = "a variable of the scope for every parameter"
    keeps = "operations"

    def run(self, op: Operation, context: object) -> None:
        scope = subprogram_of(op.location)
        if scope is None or not op.regions[0].blocks:
            return
        entry = op.regions[0].blocks[0]
        first = entry.first
        for number, argument in enumerate(entry.arguments):
            if isinstance(argument.type, (IntegerType, FloatType)) and argument.type.width % 8 and argument.type != i1:
                continue  # no debugger shows parts of bytes
            variable = DILocalVariableAttr(f"arg{number}", scope, scope.line, number + 1, None)
            entry.insert_before(ValueOp(argument, variable=variable, location=op.location), first)
