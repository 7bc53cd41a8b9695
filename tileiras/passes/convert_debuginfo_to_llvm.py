"""`convert-debuginfo-to-llvm`: variables of the source to LLVM's debug records.

    debuginfo.value %x, #x : i32     ->   %pin = nvvm.move %x : i32
                                          llvm.intr.dbg.value #x = %pin : i32
                                          llvm.intr.fake.use %pin : i32

The pin is a copy that LLVM neither looks through nor, being used, drops: the record's register holds the variable and
nothing else.  Vectors, arrays and structs go leaf by leaf, each the fragment of the variable that it fills.  Pins and
what takes leaves out of their whole are all that is added to what is executed.

A variable without a type gets its value's (`dialects/debuginfo/value_types.py`).

What has no type gets a placeholder and a warning, as does a variable of another function than the one that its value
is in; without a scope in the function the operation goes, with a warning.
"""

from __future__ import annotations

from typing import Any

from tileiras.dialects import debuginfo, llvm, nvvm
from tileiras.dialects.cuda_tile.debug_info import subprogram_of
from tileiras.dialects.debuginfo import DILocalVariableAttr, DIUnspecifiedTypeAttr
from tileiras.dialects.debuginfo.value_types import BYTE, debug_type
from tileiras.ir import (
    Attribute,
    DenseArrayAttr,
    IntegerAttr,
    Operation,
    Pass,
    UnitAttr,
    Value,
    VectorType,
    i32,
    i64,
)
from tileiras.ir.pass_manager import PassContext


class ConvertDebugInfoToLLVM(Pass):
    name = "convert-debuginfo-to-llvm"
    needs = "`llvm` with `debuginfo.value`"
    establishes = "debug records of LLVM; no `debuginfo`"
    keeps = "what is executed, copies of watched values apart"

    def run(self, op: Operation, context: PassContext) -> None:
        for function in [found for found in op.walk() if isinstance(found, llvm.LLVMFuncOp)]:
            for inner in [found for found in function.walk() if found.dialect == "debuginfo"]:
                _convert(inner, function, context)
                inner.erase()


def _convert(op: Any, function: Operation, context: PassContext) -> None:
    variable = _resolved(op.variable, op, function, context)
    if variable is None:
        return
    if isinstance(op, debuginfo.DeclareOp):
        _before(op, llvm.DbgDeclareOp(op.address, var_info=_typed(variable, BYTE)))
    elif isinstance(op, debuginfo.AddrOp):
        pin = _pin(op.address, op)
        _before(op, llvm.DbgValueOp(pin, var_info=_typed(variable, BYTE), deref=UnitAttr()))
        _keep(pin, op.address, op)
    else:
        found = debug_type(op.value.type)
        if found is None:
            context.engine.warning(op.location, f"no debug information for values of type '{op.value.type}'")
            placeholder = _typed(variable, DIUnspecifiedTypeAttr(str(op.value.type)))
            unknown = _before(op, llvm.PoisonOp(res=i32)).results[0]
            _before(op, llvm.DbgValueOp(unknown, var_info=placeholder))
            return
        _value(op, _typed(variable, found))


def _resolved(variable: Any, op: Operation, function: Operation, context: PassContext) -> Any:
    """The variable with a scope inside the function; None when the function has none."""
    own = subprogram_of(function.location)
    name = variable.variable_name
    if own is None:
        context.engine.warning(op.location, f"no debug information for '{name}': its function has no debug scope")
        return None
    scope = variable.scope
    while scope is not own and scope.name == "cuda_tile.di_lexical_block":
        scope = scope.scope
    if scope is own:
        return variable
    context.engine.warning(
        op.location, f"'{name}' is a variable of '{scope.subprogram_name}'; it is shown in '{own.subprogram_name}'"
    )
    return DILocalVariableAttr(name, own, variable.line, variable.arg, variable.type)


def _typed(variable: Any, type: Attribute) -> Any:
    if variable.type is not None:
        return variable
    return DILocalVariableAttr(variable.variable_name, variable.scope, variable.line, variable.arg, type)


def _value(op: Any, variable: Any) -> None:
    whole = op.value
    leaves = _leaves(whole, op)
    if len(leaves) == 1 and leaves[0] is whole:
        pin = _pin(whole, op)
        _before(op, llvm.DbgValueOp(pin, var_info=variable))
        _keep(pin, whole, op)
        return
    offset = 0
    for leaf in leaves:
        size = debug_type(leaf.type).size
        pin = _pin(leaf, op)
        _before(op, llvm.DbgValueOp(pin, var_info=variable, fragment=DenseArrayAttr(i64, (offset, size))))
        _keep(pin, leaf, op)
        offset += size


def _leaves(value: Value, op: Operation) -> list[Value]:
    """The scalars that a value is made of, taken out of it."""
    type: Any = value.type
    if isinstance(type, VectorType):
        found = []
        for number in range(type.shape[0]):
            position = _before(op, llvm.ConstantOp(IntegerAttr(number, i32), i32)).results[0]
            found.append(_before(op, llvm.ExtractElementOp(value, position)).results[0])
        return found
    if isinstance(type, (llvm.LLVMArrayType, llvm.LLVMStructType)):
        count = type.count if isinstance(type, llvm.LLVMArrayType) else len(type.elements)
        found = []
        for number in range(count):
            member = llvm.ExtractValueOp(value, position=DenseArrayAttr(i64, (number,)))
            found += _leaves(_before(op, member).results[0], op)
        return found
    return [value]


def _pin(value: Value, op: Operation) -> Value:
    """A copy of the value that is the variable's; the value itself where there is no copy of its type."""
    if not nvvm.MoveOp.has(value.type):
        return value
    return _before(op, nvvm.MoveOp(value)).results[0]


def _keep(pin: Value, value: Value, op: Operation) -> None:
    if pin is not value:
        _before(op, llvm.FakeUseOp(pin))


def _before(op: Operation, new: Any) -> Any:
    new.location = op.location
    op.parent.insert_before(new, op)  # type: ignore[union-attr]
    return new
