"""Calls of functions that a library of device code defines (`--device-libraries`)."""

from __future__ import annotations

from tileiras.ir import (
    Elementwise,
    MemoryWrite,
    Operation,
    Pure,
    SymbolRefAttr,
    TensorType,
    VerifyError,
    attribute,
    operand,
    optional_result,
    result,
    variadic_operand,
)

from .types import MemTokenType


class ExternElementwiseOp(Operation, name="nv_tileaa.extern_elementwise", traits=(Pure, Elementwise)):
    """The results of a function of scalars for each element.  The function has no effects: it is called once or several
    times for an element."""

    callee = attribute(SymbolRefAttr)
    args = variadic_operand()
    result = result()
    assembly_format = "$callee `(` $args `)` attr-dict `:` functional-type($args, $result)"


class ExternCallOp(Operation, name="nv_tileaa.extern_call", traits=(MemoryWrite,)):
    """A call by each thread of the tile block, behind all earlier accesses of memory and before all later ones."""

    callee = attribute(SymbolRefAttr)
    token = operand(MemTokenType)
    args = variadic_operand()
    result_token = result(MemTokenType)
    value = optional_result()
    assembly_format = (
        "$callee `token` `=` $token `(` $args `)` attr-dict `:` functional-type($args, $value) `->`"
        " type($result_token)"
    )

    verifies_locally = True

    def verify_op(self) -> None:
        for each in (*self.args, *([] if self.value is None else [self.value])):
            if isinstance(each.type, TensorType):
                raise VerifyError(f"passes scalars, but got '{each.type}'")
